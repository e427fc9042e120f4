"""Whole steps as one lane program: actuators, dynamics with constraints, and integration, for any number of steps."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.constrain.native import Plan, kinematics, site_actuators, string_actuators, strings
from kinetree.constrain.native import not_served as not_solved
from kinetree.constrain.native.actuators import ACTIVATION, advance_activations, bounded, driving
from kinetree.constrain.native.adhesion import adhesion_parts
from kinetree.constrain.native.binding import Native, starting
from kinetree.constrain.native.carrying import carry_weights
from kinetree.constrain.native.drive_plan import DriveGroup, drives_of, is_ranged, is_shared, may_brake, not_driven
from kinetree.constrain.native.drive_plan import kinds_of as kinds_of_actuators
from kinetree.constrain.native.features import Features, features_of
from kinetree.constrain.native.loop_changes import rows_slots
from kinetree.constrain.native.memory import ROW, fixed
from kinetree.constrain.native.parts import Again, Part, added, copy, once, part, table
from kinetree.constrain.native.programs import (
    constraint_parts,
    coordinates,
    copy_input,
    following,
    force_parts,
    motion_parts,
    rounds_of,
    softening_parts,
    touching_parts,
)
from kinetree.constrain.native.roots import guess_motion
from kinetree.dynamics.firmness import is_firm
from kinetree.dynamics.schedules.lane_algorithm import LaneAlgorithm
from kinetree.lanes import Lane, slot
from kinetree.lanes.kept.once import Once
from kinetree.model import DEFAULT_STEPPING, Model

from ..constrained import constraints_of
from . import implicit as implicit_terms
from . import integrate
from .closing import closing
from .free import free_algorithm, free_parts
from .moves import BALL, FREE, SCALAR, Moves, kinds_of_joints
from .plan import StepPlan

INTEGRATORS = ("Euler", "implicitfast", "implicit", "RK4", "semi_implicit")
IMPLICIT = ("implicitfast", "implicit")  # take the velocity terms of actuators at the end of a step
MAX_REPEATED_STEPS = 1 << 30  # steps; a bound that no call reaches


class StepVariant(NamedTuple):
    """The variant of a program: its kind of models, integrator and inputs."""

    features: Features
    integrator: str
    joints: tuple[bool, bool, bool]
    finishes: bool  # a last round takes velocity terms at the end of the step
    drives: tuple[DriveGroup, ...]  # the loops of actuators
    ranged: bool  # the sum of the actuators of a joint has a range, or slopes are needed
    carries: bool  # gravity compensation counts in that sum
    shared: bool  # the sum of the actuators of a tendon has a range
    external: bool
    loads: bool  # dampers and actuators of joints resist at the end of the step
    sloped: bool  # some rows have other velocity terms at the end of the step (implicit.py)
    free: LaneAlgorithm | None  # finds the accelerations where nothing constrains the mechanism

    @property
    def stateful(self) -> bool:
        """True if some actuators have activations."""
        return any(drive.stateful for drive in self.drives)

    def activated(self, field: str, rate: str) -> list[Part]:
        """Activations at the end of a step."""
        return [advance_activations(drive, field, rate) for drive in self.drives if drive.stateful]

    @property
    def moves(self) -> list[Moves]:
        """The kinds of joints."""
        return [m for m, there in zip((SCALAR, BALL, FREE), self.joints, strict=True) if there]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        optional = {"ctrl": bool(self.drives), "act": self.stateful, "f_ext": self.external}
        return (*self.carried, *(name for name, there in optional.items() if there))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The parts of the output, in order. It is one array, so that Python can call the program directly."""
        return (*self.carried, *(("act",) if self.stateful else ()))

    @property
    def carried(self) -> tuple[str, ...]:
        """The parts of a state that every step changes. Without constraints there is no warm start."""
        return ("q", "qd", "time") if self.free is not None else ("q", "qd", "warm_start", "time")


def variant_of(model: Model, plan: StepPlan, integrator: str, external: bool, firm: bool | None = None) -> StepVariant:
    """The variant for a model and a call. `firm` is given if the model represents several (dynamics/firmness.py)."""
    model = model.uncoupled
    features = features_of(model, plan)
    passive = model.passive
    implicit = passive is not None and (model.stepping or DEFAULT_STEPPING).damps_later(passive.damping)
    finishes = features.damped and (
        integrator in ("implicitfast", "semi_implicit") or (integrator == "Euler" and implicit)
    )
    finishes |= integrator in IMPLICIT and (features.damped or bool(plan.has.tendon_damping))
    ranged = carries = shared = False
    drives: tuple[DriveGroup, ...] = ()
    if model.actuators is not None:
        wiring = model.actuators.wiring
        drives = tuple(sorted(set(drives_of(plan.structure, wiring))))
        ranged, shared = is_ranged(model.actuators.joint_range), is_shared(plan, wiring)
        carries = ranged and bool(wiring.carries)
        brakes = bool(may_brake(model.actuators))
        if integrator in IMPLICIT and brakes:
            finishes = ranged = True
    joints, free = kinds_of_joints(plan), None
    sloped, loads = bool(len(plan.sloped_rows)), finishes
    if len(plan.sloped_rows) == plan.n:
        finishes = False  # the last round is another
    if plan.coupling is None and _is_free(model) and not sloped:
        free = free_algorithm(model, is_firm(model) if firm is None else firm, finishes, external)
        features = Features(features.quaternions)
    driving = drives, ranged, carries, shared
    return StepVariant(features, integrator, joints, finishes, *driving, external, loads, sloped, free)


def _is_free(model: Model) -> bool:
    """True if a model has no constraints, and its actuators, if any, need only coordinates."""
    wiring = None if model.actuators is None else model.actuators.wiring
    on = () if wiring is None else kinds_of_actuators(model.structure, wiring)
    return model.loops is None and constraints_of(model) is None and all(kind == "row" for kind in on)


# -- parts ------------------------------------------------------------------------------------------------------------


def counting() -> Part:
    """The number of steps to do; it is a constant that each call sets."""
    return part(once, lambda known: (known,), (), (fixed("steps"),), (0.0, lambda *_: np.ones(1)))


def copy_time(array: int) -> Part:
    """Put the input `time` into its slot."""
    return copy(once, (Lane(array, None, 0),), (fixed("time"),))


def fetch_input(array: int, to: Any) -> Part:
    """An input, put into slots that `to(plan)` names, one for each column."""
    return copy(lambda plan: table(to(plan), np.arange(len(to(plan)))), (Lane(array, 1),), (slot(0),))


def output_state(names: tuple[str, ...], array: int = 0) -> Part:
    """Output parts of the state; "alpha" is the acceleration of the integrator, for all rows.

    "multipliers" and "before" are forces of rigid loops: for that acceleration, and for the one that constraints act
    on.
    """

    def turns(plan: Any) -> np.ndarray:
        rows = plan.row(plan.columns[1])
        loops = {"multipliers": "force", "before": "before"}
        slots = {
            "q": plan.q + plan.columns[0],
            "qd": rows + ROW.at(0, "qd").offset,
            "warm_start": rows + ROW.at(0, "x").offset,
            "time": np.array([fixed("time").offset]),
            "act": plan.activation(np.arange(plan.na)),
            "alpha": plan.row(np.arange(plan.n)) + ROW.at(0, "alpha").offset,
        }
        slots["alpha"][plan.sloped_rows] = plan.sloped(plan.sloped_rows) + implicit_terms.SLOPED.at(0, "before").offset
        slots |= {name: rows_slots(plan, field) for name, field in loops.items()}
        every = np.concatenate([slots[name] for name in names])
        return table(every, np.arange(len(every)))

    return copy(turns, (slot(0),), (Lane(array, 1),))


def clear_rows() -> Part:
    """Rows before actuators act."""

    def damping(model: Model, *_: Any) -> Any:
        return 0.0 if model.passive is None else model.passive.damping

    writes = ROW.of(0, "b", "driven", "load")
    return part(Plan.every_row, lambda damping, h: (0.0, 0.0, h * damping), (fixed("h"),), writes, (0.0, damping))


def shift_accelerations(sign: float, field: str = "x") -> Part:
    """From accelerations to x, or back."""
    made, slides = added(ROW.at(0, field)), (0.0, lambda model, *_: model.rows.slide)
    return part(Plan.every_row, lambda slide, x: (sign * slide * x,), (ROW.at(0, "shift"),), made, slides)


def step_done() -> Part:
    """One step less, and later."""
    return part(once, lambda h: (-1.0, h), (fixed("h"),), added(fixed("steps"), fixed("time")))


def drive_parts(v: StepVariant) -> list[Part | Again]:
    """From a state to poses, the forces of actuators, and the loads of an integrator."""
    f = v.features
    implicit = v.integrator in IMPLICIT and v.loads
    to = "driven" if v.ranged else "b"
    on: dict[str, list[DriveGroup]] = {}
    for drive in v.drives:
        on.setdefault(drive.on, []).append(drive)
    motors: list[Part | Again] = [driving(drive, to, implicit) for drive in on.get("row", [])]
    if "string" in on:
        motors.append(string_actuators.clear_string_forces())
        motors += [string_actuators.driving(drive, implicit, v.shared) for drive in on["string"]]
        motors += string_actuators.share_range(implicit) if v.shared else []
        motors.append(strings.push_joints(to, "motors"))
    if v.ranged:
        motors += [*(carry_weights() if v.carries else []), *bounded(implicit, v.carries)]
    motors += [site_actuators.driving(drive, implicit) for drive in on.get("frames", [])]
    turned = f.quaternions
    begin = [*move_followers(v), clear_rows(), *(kinematics.shifts() if turned else [])]
    if v.free is not None:
        return [*begin, *motors]
    motion = [*motion_parts(f), *(implicit_terms.terms(f.fluid) if v.sloped else [])]
    return [*begin, *([shift_accelerations(1.0)] if turned else []), *motion, *motors]


def forces(v: StepVariant, recalled: int | None = None, guesses: bool = False) -> list[Part | Again]:
    """From a state to all forces except those of constraints, and their softness.

    With `recalled`, contacts are inputs; with `guesses`, x is only a guess.
    """
    f = v.features
    moving = [*force_parts(f), *([guess_motion()] if guesses and f.loose else [])]
    pushes = [kinematics.applied(v.inputs.index("f_ext"))] if v.external else []
    sticky = [drive for drive in v.drives if drive.on == "body"]
    if not sticky:
        return [*drive_parts(v), *pushes, *moving, *constraint_parts(f, None, recalled)]
    touches = (*((False,) if f.dims else ()), *((True,) if f.coupled else ()))
    pressed = adhesion_parts(sticky, touches, v.integrator in IMPLICIT and v.loads)
    return [*drive_parts(v), *pushes, *touching_parts(f, None, recalled), *pressed, *moving, *softening_parts(f)]


def move_followers(v: StepVariant) -> list[Part]:
    """Joints that follow others."""
    return [following()] if "mimics" in v.features.linking.lengths else []


def dynamics(v: StepVariant) -> list[Part | Again]:
    """From a state to x, and to x_new for the integrator."""
    f, turned = v.features, v.features.quaternions
    if v.free is not None:
        pushes = v.inputs.index("f_ext") if v.external else None
        return [*drive_parts(v), *free_parts(v.free, pushes), *([shift_accelerations(1.0, "alpha")] if turned else [])]
    return [
        *forces(v, guesses=True),
        *rounds_of(f, v.finishes, False).parts,
        *([shift_accelerations(-1.0)] if turned else []),
    ]


def end_of_step(v: StepVariant) -> list[Part]:
    """The end of a step, from accelerations."""
    take = integrate.semi_implicit if v.integrator == "semi_implicit" else integrate.euler
    return [*map(take, v.moves), step_done()]


def one_step(v: StepVariant, plain: bool = False) -> list[Part | Again]:
    """A step of the integrator; `plain` if its stages are written one after the other."""
    if v.integrator != "RK4":
        ends = implicit_terms.taken_at_end(v.finishes) if v.sloped else []
        return [*dynamics(v), *ends, *v.activated("now", "rate"), *end_of_step(v), *closing(v.features, v.moves)]
    stage: list[Part | Again] = [
        integrate.share_and_weight(),
        *map(integrate.set_stage, v.moves),
        *([integrate.set_activations()] if v.stateful else []),
        *dynamics(v),
        *map(integrate.end_stage, v.moves),
        *([integrate.end_activations()] if v.stateful else []),
        integrate.stage_done(),
    ]
    return [
        *map(integrate.start_stages, v.moves),
        *([integrate.start_activations()] if v.stateful else []),
        integrate.first_stage(),
        *(
            stage * integrate.STAGES
            if plain
            else [Again(stage, fixed("stages").offset, integrate.STAGES, uniform=True)]
        ),
        *map(integrate.end_stages, v.moves),
        *v.activated("start", "mean"),
        step_done(),
        *closing(v.features, v.moves),
    ]


_programs: Once[Native] = Once()


def copy_inputs(v: StepVariant) -> list[Part]:
    """All inputs but forces on bodies, put into their slots."""
    at = v.inputs.index
    begin = [starting(), coordinates(at("q")), copy_input(at("qd"), "qd"), copy_time(at("time"))]
    if v.free is None:
        begin.append(copy_input(at("warm_start"), "x"))
    if "ctrl" in v.inputs:
        begin.append(fetch_input(at("ctrl"), lambda plan: plan.control(np.arange(plan.nu))))
    if v.stateful:
        begin.append(fetch_input(at("act"), lambda plan: plan.activation(np.arange(plan.na))))
    return begin


def program_of(v: StepVariant, plain: bool = False) -> Native:
    """The program of a variant, made once; or that of one step without repeats, where nothing is constrained."""

    def make() -> Native:
        steps = one_step(v, plain)
        again = steps if plain else [Again(steps, fixed("steps").offset, MAX_REPEATED_STEPS, uniform=True)]
        return Native.of(
            f"step_{v.integrator}", [counting(), *copy_inputs(v), *again, output_state(v.outputs)], len(v.inputs), 1
        )

    return _programs.get((v, plain), make)


assert ACTIVATION.at(0, "now").offset == 0  # an activation's first slot is the activation


def not_served(model: Model, plan: StepPlan, integrator: str) -> str:
    """The reason why lanes can not make these steps; empty if they can."""
    model = model.uncoupled
    if integrator not in INTEGRATORS:
        return f"integrator {integrator}"
    sloped = bool(len(plan.sloped_rows))
    strings = plan.strings
    resisting = [r for s in (*strings.resists.strings, *strings.brakes.strings) for r in strings.rows[s]]
    if np.isin(plan.sloped_rows, resisting).any():
        return "tendons or actuators on several joints that resist at the end of the step, and velocity products"
    if sloped and plan.coupling is not None:
        return "joints that follow others, and velocity products that are taken at the end of the step"
    solves = sloped or model.nv == 0 or plan.coupling is not None or not _is_free(model)
    unsolved = not_solved(model, plan) if solves else ""
    return unsolved or not_driven(plan, model.actuators, integrator in IMPLICIT)
