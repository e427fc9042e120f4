"""Actuators: MuJoCo's model of a motor, as arrays over all actuators.

An actuator acts on its joint through a gear: its length is gear · q, its velocity gear · qd, and a force f of the
actuator is the generalised force gearᵀ f of the joint. It may also pull on a tendon, push a site, or move a slider by a
crank. Then the length is theirs, times the gear, and ∂length/∂q carries forces to joints. With u its control, or its
activation if it has one,
    f = (gain₀ + gain₁ length + gain₂ velocity) u + bias₀ + bias₁ length + bias₂ velocity
kept within its force range. Activations follow the control: ȧ = u ("integrator"), or ȧ = (u − a)/time_constant
("filter"; "filterexact" makes the step of that equation without error). Muscles have curves in place of gain and bias
(actuate/muscle.py). The facts are those of MuJoCo's manual, chapter Computation, section Actuation model.

`Actuator` describes one actuator; `Actuators` are all actuators of a model, as arrays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree._types import AnyArray, Float, Number, Vector
from kinetree._unknown import did_you_mean

from .errors import ModelError
from .fields import BOUNDS, FLAG, NUMBER, TEXT, all_of, numbers, of_class, optional, require_fields

Range = tuple[Number, Number]


class ActuatorOptions(TypedDict, total=False):
    """Fields of an `Actuator` that go with those that its kind sets."""

    gear: Number | Vector
    time_constant: Number
    ctrl_range: Range | None
    force_range: Range | None
    act_range: Range | None
    act_early: bool
    in_parent: bool
    name: str | None
    tendon: str | None
    site: str | None
    refsite: str | None
    crank: "Crank | None"


class MotorOptions(ActuatorOptions, total=False):
    """The same for kinds that leave the activation open."""

    dynamics: str


DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")
NONE, INTEGRATOR, FILTER, FILTEREXACT, MUSCLE = range(5)


class Crank(NamedTuple):
    """A slider that a crank drives by a rod: the length is how far the slider is out along its z axis."""

    crank: str  # the site, or body, at whose origin the rod is held
    slider: str
    rod: Number  # its length


class Muscle(NamedTuple):
    """How strong a muscle is; defaults are MuJoCo's."""

    length_range: Range  # the shortest and the longest length of the tendon or joint that it pulls on
    force: Number  # the largest, at rest
    range: Range = (0.75, 1.05)  # the lengths above, in units of that at which it is strongest
    shortest: Number = 0.5  # from which length on it can pull, in these units
    longest: Number = 1.6  # and up to which
    fastest: Number = 1.5  # units a second
    passive: Number = 1.3  # the force at the longest length without activation, as a part of the largest
    fv_most: Number = 1.2  # and at fast lengthening
    times: Sequence[Number] = (0.01, 0.04, 0.0)  # s, to become active, to rest; and a width to blend them


@dataclass(frozen=True)
class Actuator:
    """One actuator. `motor`, `position`, `velocity`, `int_velocity` and `damper` make the usual ones.

    Arguments:
        joint: the name of the joint that it drives; or one of the next three.
        tendon: the name of a tendon.
        site: the name of a site or body: gear is a force along its axes, then a moment about them.
        refsite: of an actuator on a site: the site or body whose axes count, and relative to which lengths are.
        crank: a `Crank`.
        body: the name of a body, which is pressed onto whatever it touches: adhesion.
        muscle: a `Muscle`, in place of gain and bias; with dynamics "muscle" its times are those of the activation.
        gear: ratio of actuator to joint. A joint with several degrees of freedom takes one number for each; a free
            joint takes a force along the world's axes, then a moment about the body's axes.
        gain, bias: the constant, and the factors of length and velocity.
        dynamics: "none", "integrator", "filter", "filterexact" or "muscle".
        time_constant: of the filters, in seconds.
        ctrl_range, force_range, act_range: (lower, upper), or None.
        act_early: the force takes the activation of the end of the step.
        in_parent: the axes of the gear of a spherical or free joint are those of the parent, not of the body.
        name: of the actuator; that of what it drives if not given.
    """

    joint: str | None = None
    gear: Number | Vector = 1.0
    gain: Sequence[Number] = (1.0, 0.0, 0.0)
    bias: Sequence[Number] = (0.0, 0.0, 0.0)
    dynamics: str = "none"
    time_constant: Number = 1.0
    ctrl_range: Range | None = None
    force_range: Range | None = None
    act_range: Range | None = None
    act_early: bool = False
    in_parent: bool = False
    name: str | None = None
    tendon: str | None = None
    site: str | None = None
    refsite: str | None = None
    crank: Crank | None = None
    muscle: Muscle | None = None
    body: str | None = None

    @property
    def drives(self) -> str:
        """The name of the joint, tendon, site or body that it drives."""
        return self.joint or self.tendon or self.site or self.body or (self.crank.slider if self.crank else "")

    @staticmethod
    def motor(joint: str | None = None, **options: Unpack[MotorOptions]) -> "Actuator":
        """A force, or torque, that is the control."""
        return Actuator(joint, **options)

    @staticmethod
    def position(
        joint: str | None = None, kp: Number = 1.0, kv: Number = 0.0, **options: Unpack[MotorOptions]
    ) -> "Actuator":
        """A servo towards a position: kp (u − length) − kv velocity."""
        return Actuator(joint, gain=(kp, 0.0, 0.0), bias=(0.0, -kp, -kv), **options)

    @staticmethod
    def velocity(joint: str | None = None, kv: Number = 1.0, **options: Unpack[MotorOptions]) -> "Actuator":
        """A servo towards a velocity: kv (u − velocity)."""
        return Actuator(joint, gain=(kv, 0.0, 0.0), bias=(0.0, 0.0, -kv), **options)

    @staticmethod
    def int_velocity(
        joint: str | None = None, kp: Number = 1.0, kv: Number = 0.0, **options: Unpack[ActuatorOptions]
    ) -> "Actuator":
        """A servo towards a position that moves with the velocity given as control."""
        return Actuator(joint, gain=(kp, 0.0, 0.0), bias=(0.0, -kp, -kv), dynamics="integrator", **options)

    @staticmethod
    def damper(joint: str | None = None, kv: Number = 1.0, **options: Unpack[MotorOptions]) -> "Actuator":
        """A damper as strong as the control: −kv velocity · u."""
        return Actuator(joint, gain=(0.0, 0.0, -kv), **options)

    @staticmethod
    def adhesion(body: str, gain: Number = 1.0, **options: Unpack[MotorOptions]) -> "Actuator":
        """A body that is pressed onto everything it touches, with a force given by the control."""
        return Actuator(body=body, gain=(gain, 0.0, 0.0), **options)

    @staticmethod
    def of_muscle(muscle: Muscle, joint: str | None = None, **options: Unpack[ActuatorOptions]) -> "Actuator":
        """A muscle, on a tendon as a rule, whose activation follows its control."""
        return Actuator(joint, muscle=muscle, dynamics="muscle", **options)


ACTUATOR = {
    **dict.fromkeys(("joint", "tendon", "site", "refsite", "body", "name"), optional(TEXT)),
    "crank": optional(of_class(Crank)),
    "muscle": optional(of_class(Muscle)),
    "dynamics": TEXT,
    "gear": numbers(*range(1, 7)),
    **dict.fromkeys(("gain", "bias"), numbers(3)),
    "time_constant": NUMBER,
    **dict.fromkeys(("ctrl_range", "force_range", "act_range"), BOUNDS),
    **dict.fromkeys(("act_early", "in_parent"), FLAG),
}
MUSCLE_FIELDS = {
    "length_range": numbers(2),
    "range": numbers(2),
    "times": numbers(3),
    **dict.fromkeys(("force", "shortest", "longest", "fastest", "passive", "fv_most"), NUMBER),
}
CRANK = {"crank": TEXT, "slider": TEXT, "rod": NUMBER}


class ActuatorTarget(NamedTuple):
    """What an actuator drives."""

    kind: str  # "joint", "tendon", "site", "crank" or "body"
    first: int  # the body that the joint moves, the tendon, the site's frame (a body), the crank's, the body
    second: int = -1  # the reference site's frame, −1 without one; the slider's


class Wiring(NamedTuple):
    """The static facts about actuators. Compared by value, so that jit can distinguish two models.

    Actuators of a file that are not modelled have no entry here, but keep their places in controls and activations.
    """

    names: tuple[str, ...]  # one for each control
    na: int  # activations
    targets: tuple[ActuatorTarget, ...]
    controls: tuple[int, ...]  # column of each actuator's control
    activations: tuple[int, ...]  # and of its activation, −1 without one
    dynamics: tuple[int, ...]  # its place in DYNAMICS
    early: tuple[bool, ...]
    in_parent: tuple[bool, ...]
    servos: tuple[bool, ...]  # fixed gain, affine bias, and no filter: on a ball their setpoints are turns
    muscles: tuple[tuple[bool, bool], ...] = ()  # whose gain and bias are a muscle's; empty if there are none
    carries: tuple[int, ...] = ()  # degrees of freedom where gravity compensation counts as an actuator's force

    @property
    def joints(self) -> tuple[int, ...]:
        """The body whose joint each actuator moves; −1 for those that move something else."""
        return tuple(t.first if t.kind == "joint" else -1 for t in self.targets)

    @property
    def nu(self) -> int:
        """Controls."""
        return len(self.names)


class Muscles(NamedTuple):
    """Numbers of muscles, over all actuators; curves are in MuJoCo's order of parameters."""

    gain: Float[AnyArray, "n 9"]  # range (2), force, scale, shortest, longest, fastest, passive, fv_most
    bias: Float[AnyArray, "n 9"]
    length_range: Float[AnyArray, "n 2"]
    acc0: Float[AnyArray, " n"]  # the acceleration by a unit force; it scales forces that are not given
    times: Float[AnyArray, "n 3"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Actuators:
    """All actuators of a model. Numbers may be JAX arrays, to be fitted or drawn at random."""

    gear: Float[AnyArray, "n 6"]
    gain: Float[AnyArray, "n 3"]
    bias: Float[AnyArray, "n 3"]
    time_constant: Float[AnyArray, " n"]
    ctrl_range: Float[AnyArray, "nu 2"]  # infinite where there is none, as the ranges below
    force_range: Float[AnyArray, "n 2"]
    act_range: Float[AnyArray, "n 2"]
    joint_range: Float[AnyArray, "nv 2"]  # of the sum of all actuators of a joint
    wiring: Wiring = field(metadata={"static": True})
    rod: Float[AnyArray, " n"] | None = None  # of slider-cranks; None if there are none
    muscles: Muscles | None = None  # None if there are none

    @property
    def nu(self) -> int:
        """Controls."""
        return self.wiring.nu

    @property
    def na(self) -> int:
        """Activations."""
        return self.wiring.na


def make_actuators(
    structure: Any, given: Iterable[Actuator], effort: Any = None, tendons: Sequence[str] = ()
) -> Actuators:
    """The arrays of a list of actuators on a structure with tendons; `effort` (nv,) bounds the joints' forces."""
    given = all_of("actuators must be", given, Actuator)
    for number, a in enumerate(given):
        _check(a, number)
    targets = tuple(_target(structure, tuple(tendons), a) for a in given)
    names = tuple(a.name if a.name is not None else a.drives for a in given)
    if len(set(names)) != len(names):
        raise ModelError(f"actuators must have different names, not {', '.join(names)}")
    stateful = np.array([a.dynamics != "none" for a in given], bool)
    activations = np.where(stateful, np.cumsum(stateful) - 1, -1)
    nv = structure.tree.n
    bound = np.full(nv, np.inf) if effort is None else effort
    wiring = Wiring(
        names=names,
        na=int(stateful.sum()),
        targets=targets,
        controls=tuple(range(len(given))),
        activations=tuple(map(int, activations)),
        dynamics=tuple(DYNAMICS.index(a.dynamics) for a in given),
        early=tuple(a.act_early for a in given),
        in_parent=tuple(a.in_parent for a in given),
        servos=tuple(_is_servo(a) for a in given),
        muscles=tuple((a.muscle is not None, a.muscle is not None) for a in given)
        if any(a.muscle for a in given)
        else (),
    )
    unbounded = (-np.inf, np.inf)
    return Actuators(
        gear=_array([_padded(a.gear) for a in given], 6),
        gain=_array([a.gain for a in given], 3),
        bias=_array([a.bias for a in given], 3),
        time_constant=_array([[a.time_constant] for a in given], 1)[:, 0],
        ctrl_range=_array([unbounded if a.ctrl_range is None else a.ctrl_range for a in given], 2),
        force_range=_array([unbounded if a.force_range is None else a.force_range for a in given], 2),
        act_range=_array([unbounded if a.act_range is None else a.act_range for a in given], 2),
        joint_range=library(bound).stack([-bound, bound], -1),
        wiring=wiring,
        rod=_array([[a.crank.rod if a.crank else 0.0] for a in given], 1)[:, 0]
        if any(a.crank for a in given)
        else None,
        muscles=_muscles(given) if wiring.muscles or MUSCLE in wiring.dynamics else None,
    )


def _muscles(given: Sequence[Actuator]) -> Muscles:
    all_of = [a.muscle or Muscle((0.0, 1.0), 0.0) for a in given]
    curve = _array([[*m.range, m.force, 0.0, *m[3:8]] for m in all_of], 9)
    ranges, times = _array([m.length_range for m in all_of], 2), _array([m.times for m in all_of], 3)
    return Muscles(curve, curve, ranges, np.ones(len(given)), times)


def _target(structure: Any, tendons: tuple[str, ...], a: Actuator) -> ActuatorTarget:
    if sum(x is not None for x in (a.joint, a.tendon, a.site, a.crank, a.body)) != 1:
        raise ModelError(
            f"actuator {a.name or a.drives!r} must drive one thing: a joint, a tendon, a site, a crank or a body"
        )

    def frame(name: str | None) -> int:
        if name is None:
            return -1
        if name not in structure.body_numbers:
            raise ModelError(f"an actuator acts on {name!r}, but no site or body is called so")
        return structure.body_numbers[name]

    if a.tendon is not None:
        if a.tendon not in tendons:
            raise ModelError(f"an actuator acts on {a.tendon!r}, but no tendon is called so")
        return ActuatorTarget("tendon", tendons.index(a.tendon))
    if a.body is not None:
        return ActuatorTarget("body", frame(a.body))
    if a.joint is None:
        kind, names = ("site", (a.site, a.refsite)) if a.crank is None else ("crank", a.crank[:2])
        return ActuatorTarget(kind, frame(names[0]), frame(names[1]))
    if a.joint not in structure.joint_numbers:
        near = did_you_mean(a.joint, structure.joint_numbers)
        raise ModelError(f"an actuator acts on {a.joint!r}, but no joint is called so{near}")
    number = structure.joint_numbers[a.joint]
    if structure.v_start[number + 1] == structure.v_start[number]:
        raise ModelError(f"an actuator acts on {a.joint!r}, but this joint does not move")
    return ActuatorTarget("joint", number)


def _check(a: Actuator, number: int) -> None:
    require_fields(f"actuator {a.name or number}", a, ACTUATOR)
    if a.dynamics not in DYNAMICS:
        raise ModelError(f"dynamics {a.dynamics!r} of an actuator is none of {', '.join(DYNAMICS)}")
    if a.dynamics == "muscle" and a.muscle is None:
        raise ModelError(f"the actuator on {a.drives!r} has the dynamics of a muscle, but is none: give `muscle`")
    if a.muscle is not None:
        require_fields(f"the muscle on {a.drives!r}", a.muscle, MUSCLE_FIELDS)
    if a.crank is not None:
        require_fields(f"the crank on {a.drives!r}", a.crank, CRANK)


def _is_servo(a: Actuator) -> bool:
    fixed = a.muscle is None and all(isinstance(x, int | float) and x == 0 for x in a.gain[1:])
    return fixed and a.dynamics in ("none", "integrator")


def _padded(gear: Any) -> list[Any]:
    given = [gear] if np.ndim(gear) == 0 else list(gear)
    return [*given, *(6 - len(given)) * [0.0]]


def _array(rows: list[Any], width: int) -> Any:
    """(n, width), NumPy unless some number is JAX's."""
    flat = [x for row in rows for x in row]
    if any(isinstance(x, jax.Array) for x in flat):
        return jnp.stack([jnp.asarray(x, float) for x in flat]).reshape(-1, width)
    array = np.array(flat, float).reshape(-1, width)
    if np.isnan(array).any():
        raise ModelError("the numbers of an actuator can not be NaN")
    return array
