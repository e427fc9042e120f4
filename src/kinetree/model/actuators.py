"""Actuators: MuJoCo's model of a motor, as arrays over all actuators.

An actuator sees its joint through a gear: its length is gear · q, its velocity gear · qd, and a force f of the actuator
is the generalised force gearᵀ f of the joint. It may also pull on a tendon, push a site, or move a slider by a crank:
then the length is theirs, times the gear, and ∂length/∂q carries forces to joints. With u its control, or its
activation where it has one,
    f = (gain₀ + gain₁ length + gain₂ velocity) u + bias₀ + bias₁ length + bias₂ velocity
kept within its force range. Activations follow the control: ȧ = u ("integrator"), or ȧ = (u − a)/time_constant
("filter"; "filterexact" makes the step of that equation without error). The facts are those of MuJoCo's manual,
chapter Computation, section Actuation model.

`Actuator` describes one, in words; `Actuators` holds them all, and belongs to a model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._unknown import did_you_mean

from .errors import ModelError

Range = tuple[Any, Any]
DYNAMICS = ("none", "integrator", "filter", "filterexact")
NONE, INTEGRATOR, FILTER, FILTEREXACT = range(4)


class Crank(NamedTuple):
    """A slider that a crank drives by a rod: the length is how far the slider is out along its z axis."""

    crank: str  # the site, or body, at whose origin the rod is held
    slider: str
    rod: Any  # its length


@dataclass(frozen=True)
class Actuator:
    """One actuator. `motor`, `position`, `velocity`, `int_velocity` and `damper` make the usual ones.

    Arguments:
        joint: the name of the joint that it drives; or one of the next three.
        tendon: the name of a tendon.
        site: the name of a site or body: gear is a force along its axes, then a moment about them.
        refsite: of an actuator on a site: the site or body whose axes count, and relative to which lengths are.
        crank: a `Crank`.
        gear: ratio of actuator to joint. A joint with several degrees of freedom takes one number for each; a free
            joint takes a force along the world's axes, then a moment about the body's axes.
        gain, bias: the constant, and the factors of length and velocity.
        dynamics: "none", "integrator", "filter" or "filterexact".
        time_constant: of the filters, in seconds.
        ctrl_range, force_range, act_range: (lower, upper), or None.
        act_early: the force takes the activation of the end of the step.
        in_parent: the axes of the gear of a spherical or free joint are those of the parent, not of the body.
        name: of the actuator; that of what it drives if not given.
    """

    joint: str | None = None
    gear: Any = 1.0
    gain: Sequence[Any] = (1.0, 0.0, 0.0)
    bias: Sequence[Any] = (0.0, 0.0, 0.0)
    dynamics: str = "none"
    time_constant: Any = 1.0
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

    @property
    def drives(self) -> str:
        """The name of what it drives."""
        return self.joint or self.tendon or self.site or (self.crank.slider if self.crank else "")

    @staticmethod
    def motor(joint: str | None = None, **options: Any) -> "Actuator":
        """A force, or torque, that is the control."""
        return Actuator(joint, **options)

    @staticmethod
    def position(joint: str | None = None, kp: Any = 1.0, kv: Any = 0.0, **options: Any) -> "Actuator":
        """A servo towards a position: kp (u − length) − kv velocity."""
        return Actuator(joint, gain=(kp, 0.0, 0.0), bias=(0.0, -kp, -kv), **options)

    @staticmethod
    def velocity(joint: str | None = None, kv: Any = 1.0, **options: Any) -> "Actuator":
        """A servo towards a velocity: kv (u − velocity)."""
        return Actuator(joint, gain=(kv, 0.0, 0.0), bias=(0.0, 0.0, -kv), **options)

    @staticmethod
    def int_velocity(joint: str | None = None, kp: Any = 1.0, kv: Any = 0.0, **options: Any) -> "Actuator":
        """A servo towards a position that moves with the velocity given as control."""
        return Actuator(joint, gain=(kp, 0.0, 0.0), bias=(0.0, -kp, -kv), dynamics="integrator", **options)

    @staticmethod
    def damper(joint: str | None = None, kv: Any = 1.0, **options: Any) -> "Actuator":
        """A damper as strong as the control: −kv velocity · u."""
        return Actuator(joint, gain=(0.0, 0.0, -kv), **options)


class Target(NamedTuple):
    """What an actuator drives."""

    kind: str  # "joint", "tendon", "site" or "crank"
    first: int  # the body that the joint moves, the tendon, the site's frame (a body), the crank's
    second: int = -1  # the reference site's frame, −1 without one; the slider's


class Wiring(NamedTuple):
    """All that is static about actuators. Compared by value, so that jit can tell two models apart.

    Actuators of a file that are not modelled have no entry here, but keep their places in controls and activations.
    """

    names: tuple[str, ...]  # one for each control
    na: int  # activations
    targets: tuple[Target, ...]
    controls: tuple[int, ...]  # column of each actuator's control
    activations: tuple[int, ...]  # and of its activation, −1 without one
    dynamics: tuple[int, ...]  # its place in DYNAMICS
    early: tuple[bool, ...]
    in_parent: tuple[bool, ...]
    servos: tuple[bool, ...]  # fixed gain, affine bias, and no filter: on a ball their setpoints are turns

    @property
    def joints(self) -> tuple[int, ...]:
        """The body whose joint each actuator moves; −1 for those that move something else."""
        return tuple(t.first if t.kind == "joint" else -1 for t in self.targets)

    @property
    def nu(self) -> int:
        """Controls."""
        return len(self.names)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Actuators:
    """All actuators of a model. Numbers may be JAX arrays, to be fitted or drawn at random."""

    gear: Any  # (n, 6)
    gain: Any  # (n, 3)
    bias: Any  # (n, 3)
    time_constant: Any  # (n,)
    ctrl_range: Any  # (nu, 2), infinite where there is none, as the ranges below
    force_range: Any  # (n, 2)
    act_range: Any  # (n, 2)
    joint_range: Any  # (nv, 2), of the sum of all actuators of a joint
    wiring: Wiring = field(metadata={"static": True})
    rod: Any = None  # (n,), of slider-cranks; None if there are none

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
    given = tuple(given)
    targets = tuple(_target(structure, tuple(tendons), a) for a in given)
    for a in given:
        _check(a)
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
    )
    unbounded = (-np.inf, np.inf)
    return Actuators(
        gear=_array([_padded(a.gear) for a in given], 6),
        gain=_array([a.gain for a in given], 3),
        bias=_array([a.bias for a in given], 3),
        time_constant=_array([[a.time_constant] for a in given], 1)[:, 0],
        ctrl_range=_array([a.ctrl_range or unbounded for a in given], 2),
        force_range=_array([a.force_range or unbounded for a in given], 2),
        act_range=_array([a.act_range or unbounded for a in given], 2),
        joint_range=(jnp if isinstance(bound, jax.Array) else np).stack([-bound, bound], -1),
        wiring=wiring,
        rod=_array([[a.crank.rod if a.crank else 0.0] for a in given], 1)[:, 0]
        if any(a.crank for a in given)
        else None,
    )


def _target(structure: Any, tendons: tuple[str, ...], a: Actuator) -> Target:
    if sum(x is not None for x in (a.joint, a.tendon, a.site, a.crank)) != 1:
        raise ModelError(f"actuator {a.name or a.drives!r} must drive one thing: a joint, a tendon, a site or a crank")

    def frame(name: str | None) -> int:
        if name is None:
            return -1
        if name not in structure.body_numbers:
            raise ModelError(f"an actuator acts on {name!r}, but no site or body is called so")
        return structure.body_numbers[name]

    if a.tendon is not None:
        if a.tendon not in tendons:
            raise ModelError(f"an actuator acts on {a.tendon!r}, but no tendon is called so")
        return Target("tendon", tendons.index(a.tendon))
    if a.joint is None:
        kind, names = ("site", (a.site, a.refsite)) if a.crank is None else ("crank", a.crank[:2])
        return Target(kind, frame(names[0]), frame(names[1]))
    if a.joint not in structure.joint_numbers:
        near = did_you_mean(a.joint, structure.joint_numbers)
        raise ModelError(f"an actuator acts on {a.joint!r}, but no joint is called so{near}")
    number = structure.joint_numbers[a.joint]
    if structure.v_start[number + 1] == structure.v_start[number]:
        raise ModelError(f"an actuator acts on {a.joint!r}, but this joint does not move")
    return Target("joint", number)


def _check(a: Actuator) -> None:
    if a.dynamics not in DYNAMICS:
        raise ModelError(f"dynamics {a.dynamics!r} of an actuator is none of {', '.join(DYNAMICS)}")
    for what, size in (("gain", 3), ("bias", 3)):
        if len(getattr(a, what)) != size:
            raise ModelError(f"{what} of the actuator on {a.drives!r} must be three numbers")
    if np.ndim(a.gear) > 1 or (np.ndim(a.gear) == 1 and len(a.gear) > 6):
        raise ModelError(f"gear of the actuator on {a.drives!r} must be one number, or at most six")
    for what in ("ctrl_range", "force_range", "act_range"):
        bounds = getattr(a, what)
        if bounds is not None and len(bounds) != 2:
            raise ModelError(f"{what} of the actuator on {a.drives!r} must be a lower and an upper bound")


def _is_servo(a: Actuator) -> bool:
    fixed = all(isinstance(x, int | float) and x == 0 for x in a.gain[1:])
    return fixed and a.dynamics in ("none", "integrator")


def _padded(gear: Any) -> list[Any]:
    numbers = [gear] if np.ndim(gear) == 0 else list(gear)
    return [*numbers, *(6 - len(numbers)) * [0.0]]


def _array(rows: list[Any], width: int) -> Any:
    """(n, width), NumPy unless some number is JAX's."""
    flat = [x for row in rows for x in row]
    if any(isinstance(x, jax.Array) for x in flat):
        return jnp.stack([jnp.asarray(x, float) for x in flat]).reshape(-1, width)
    array = np.array(flat, float).reshape(-1, width)
    if np.isnan(array).any():
        raise ModelError("the numbers of an actuator can not be NaN")
    return array
