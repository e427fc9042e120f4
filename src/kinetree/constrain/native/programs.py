"""Lane programs of a mechanism with constraints: accelerations, forces, or points of contact."""

from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from kinetree.lanes import Lane, Slots, slot
from kinetree.lanes.kept.once import Once
from kinetree.model import Model

from . import contacts, coupled, joints, kinematics, loop_changes, loops, roots, strings
from .binding import Native, starting
from .features import Features
from .fluid import add_fluid_forces
from .gripping import gripping, with_turns
from .implicit import copy_rows, left_over, output_rows, solve_change
from .kinds import Kind, contact, on_joint, pull_constraints, report_contact_forces
from .linked import frame_parts, length_parts, link_kinds, linked_parts, pulling_parts, resist
from .looking import near_tests, placed_shapes
from .memory import NUMBER, ROW, fixed
from .newton import newton
from .parts import Again, Part, added, copy, fill, once, part, table
from .plan import Plan
from .recalled import CLOSED_FORMS, output_motions, read_points


class Goal(Enum):
    """The goal of a program."""

    DYNAMICS = auto()  # accelerations, and the forces of all constraints
    FORCES = auto()  # the forces of all constraints at given accelerations
    CONTACTS = auto()  # where shapes touch
    BALANCE = auto()  # the same as FORCES, and the residual of the balance of forces, for derivatives
    MOTIONS = auto()  # how points of contact that are searched for move with their shapes
    ANSWER = auto()  # how accelerations answer small forces, constraints being as they are at given ones


class ConstraintVariant(NamedTuple):
    """The variant of a program: its kind of models, and its inputs."""

    features: Features
    external: bool = False
    warm: bool = False
    forces: bool = False  # True if forces of contacts are outputs
    goal: Goal = Goal.DYNAMICS
    recalls: bool = False  # True if points of contact that are searched for are given, with their motions

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs, in order."""
        linking = self.features.linking
        if self.goal is Goal.ANSWER:
            return ("answer", *(("multipliers",) if linking.rigid else ()))
        one = {Goal.CONTACTS: "points", Goal.MOTIONS: "motions"}
        if self.goal in one:
            return (one[self.goal],)
        found = "qdd", "force", "total"
        if self.goal is Goal.FORCES:
            return found
        points = ("points",) if self.features.touches else ()
        balance = self.goal is Goal.BALANCE
        rows = ("gap" if balance else "multipliers",) if linking.rigid else ()
        loops = ("loops",) if linking.loops else ()
        return (*found, "left" if balance else "counts", *rows, *points, *(("pushes",) if self.forces else ()), *loops)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs, in order."""
        rigid = self.features.linking.rigid
        if self.goal is Goal.ANSWER:
            return ("q", "qd", "warm", "change", *(("gap",) if rigid else ()))
        asks = self.goal in (Goal.CONTACTS, Goal.MOTIONS)
        optional = {"warm": self.warm, "f_ext": self.external} if not asks else {}
        optional |= {"motions": self.recalls, "multipliers": rigid and self.goal is Goal.BALANCE}
        return ("q", *(() if asks else ("qd", "tau")), *(k for k, there in optional.items() if there))


Q, QD = range(2)


def copy_input(array: int, to: str) -> Part:
    """Put an input of the rows into their slots."""
    return copy(_given_rows, (Lane(array, 1),), (ROW.at(0, to),))


def _given_rows(plan: Plan) -> np.ndarray:
    """Rows that are inputs, with their columns."""
    return table(plan.row(plan.columns[1]), np.arange(len(plan.columns[1])))


def coordinates(array: int) -> Part:
    """Put q into its slots."""

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.q + plan.columns[0], np.arange(len(plan.columns[0])))

    return copy(turns, (Lane(array, 1),), (slot(0),))


def following() -> Part:
    """Coordinates, velocities and guesses of joints that follow others, on which no forces act."""

    def step(known, q, qd, x):
        ratio, offset, rate = known
        return (ratio * q + offset, rate * qd, rate * x, 0.0)

    def at(q: int, row: int) -> tuple[Slots, ...]:
        return Slots(q, 0, NUMBER), ROW.at(row, "qd"), ROW.at(row, "x")

    def turns(plan: Plan) -> np.ndarray:
        rows = np.array(plan.followers, np.int64).reshape(-1, 2).T
        return table(*(plan.q + plan.structure.q_of_row[r] for r in rows), *map(plan.row, rows))

    def numbers(model: Model, plan: Plan, known: Any) -> tuple:
        assert plan.coupling is not None
        rows = [a for a, _ in plan.followers]
        q = plan.structure.q_of_row[rows]
        return plan.coupling.ratio_q[q], plan.coupling.offset_q[q], plan.coupling.ratio_v[rows]

    writes = *at(0, 2), ROW.at(2, "b")
    return part(turns, step, at(1, 3), writes, ((0.0,) * 3, numbers))


def at_rest() -> Part:
    """Set velocities and forces of rows to zero."""
    return fill(Plan.every_row, *ROW.of(0, "qd", "x"))


def set_guess(quaternions: bool, warm: int | None) -> Part:
    """Set the first guess: from an array, or zero."""

    def step(slide, *seen):
        if warm is None:
            return (0.0,)
        return (seen[0] + slide * seen[1] if quaternions else seen[0],)

    seen = () if warm is None else (Lane(warm, 1), ROW.at(0, "shift"))[: 1 + quaternions]
    slide = 0.0, lambda model, plan, known: model.rows.slide[plan.columns[1]]
    return part(_given_rows, step, seen, (ROW.at(0, "x"),), slide, columns=2)


def kinds_of(features: Features) -> list[Kind]:
    """All kinds of constraints."""
    found = [contact(dim, features.elliptic) for dim in features.dims]
    found += [on_joint(False)] if features.limits else []
    found += [on_joint(True)] if features.losses else []
    return found + link_kinds(features.linking)


def between_of(features: Features) -> list[tuple[Kind, int]]:
    """All kinds of constraints that couple two bodies, with their dimensions."""
    return [(coupled.coupled(dim, features.elliptic), dim) for dim in features.coupled]


class Rounds(NamedTuple):
    """Newton's rounds, and the kinds of constraints as these leave them."""

    kinds: list[Kind]
    between: list[tuple[Kind, int]]
    parts: list[Part | Again]

    @property
    def every(self) -> list[Kind]:
        """All kinds."""
        return [*self.kinds, *(k for k, _ in self.between)]


def rounds_of(f: Features, finishes: bool, always: bool) -> Rounds:
    """The rounds of a program; `finishes` as for `newton`, `always` as for `linked_parts`."""
    kinds, between, linked = kinds_of(f), between_of(f), linked_parts(f.linking, finishes, always)
    if f.noslip:
        kinds = [gripping(k, f.elliptic) for k in kinds]
        between = [(gripping(k, f.elliptic), dim) for k, dim in between]
        linked = with_turns(linked, [*kinds, *(k for k, _ in between)], f.elliptic)
    return Rounds(kinds, between, newton(kinds, between, finishes, linked, f.joined))


def outward(quaternions: bool) -> list[Part]:
    """The way out: free joints on which trees hang, then all other rows."""
    return [*([roots.outward()] if quaternions else []), kinematics.outward(quaternions)]


def motion_parts(features: Features) -> list[Part]:
    """From q, qd and the first guess to poses, screws and inertias."""
    return [
        *kinematics.placing(features.quaternions),
        *kinematics.bases(),
        *outward(features.quaternions),
        *frame_parts(features.linking, features.power),
        *length_parts(features.linking),
        *kinematics.bodies(),
    ]


def force_parts(features: Features) -> list[Part]:
    """All forces except those of constraints, added to the joint forces in `b`."""
    springs = list(map(kinematics.springs, features.springs))
    springs += strings.springs_and_dampers() if features.linking.pulled else []
    rooted = [roots.bias(features.damped)] if features.quaternions else []
    return [*springs, *([add_fluid_forces()] if features.fluid else []), kinematics.bias(features.damped), *rooted]


def touching_parts(features: Features, report: int | None = None, recalled: int | None = None) -> list[Part]:
    """Find contacts; output their points if requested. `recalled`: the input with points that need a search."""
    parts = placed_shapes(features.crowded) if features.coupled or features.crowded else []
    for kinds, moving in features.touches:
        if recalled is None or kinds in CLOSED_FORMS:
            given = kinds, moving, features.single, features.crowded
            parts += [*near_tests(*given), contacts.collide_pairs(*given)]
        else:
            parts.append(read_points(kinds, moving, features.single, recalled))
    if report is not None:
        parts += [contacts.report_points(report, False)] if features.dims else []
        parts += [contacts.report_points(report, True)] if features.coupled else []
    return parts


def constraint_parts(features: Features, report: int | None = None, recalled: int | None = None) -> list[Part]:
    """Find contacts, and the softness of all constraints; `report` and `recalled` as for `touching_parts`."""
    return [*touching_parts(features, report, recalled), *softening_parts(features)]


def softening_parts(features: Features) -> list[Part]:
    """Find the softness of all constraints."""
    parts = [contacts.soften_contacts(dim, features.elliptic, features.power) for dim in features.dims]
    parts += [coupled.soften_coupled_contacts(dim, features.elliptic, features.power) for dim in features.coupled]
    parts += [strings.soften_strings(kind, features.power) for kind in features.linking.strung]
    parts += joints.soften_limits(features.power) if features.limits else []
    return parts + ([joints.soften_losses(features.power)] if features.losses else [])


def pull_all(kinds: list[Kind], features: Features) -> list[Part]:
    """The forces of constraints, on rows and joints."""

    def bare(plan: Plan) -> np.ndarray:
        return np.concatenate([plan.every_base(), plan.every_row()])

    before, after = pulling_parts(features.linking)
    return [fill(bare, *ROW.of(0, "force", "push")), *before, *map(pull_constraints, kinds), *after]


def output_solution(quaternions: bool) -> Part:
    """Accelerations, forces of constraints on the joints, and all forces."""

    def total(slide, S, whole, push, x, b, *shift):
        qdd, force = x - slide * shift[0] if quaternions else x, push + S.dot(whole)
        return (whole, qdd, force, b + force)

    reads = ROW.of(1, "S", "force", "push", "x", "b", *(("shift",) if quaternions else ()))
    made = (*added(ROW.at(0, "force")), *(Lane(k, 2) for k in range(3)))

    def turns(plan: Plan) -> np.ndarray:
        rows = np.arange(plan.n)[::-1]
        return table(plan.up(rows), plan.row(rows), rows)

    return part(turns, total, reads, made, (0.0, lambda model, *_: model.rows.slide[::-1]))


def output_counts(array: int) -> Part:
    """Iterations and convergence."""
    reads = (fixed("iterations"), fixed("converged"))
    return copy(once, reads, tuple(Lane(array, None, k) for k in range(2)))


def contact_parts(v: ConstraintVariant) -> list[Part]:
    """From q to points of contact, or to their motions."""
    f, recalled = v.features, v.inputs.index("motions") if v.recalls else None
    placed = [*kinematics.placing(f.quaternions), *kinematics.bases(), *outward(f.quaternions)]
    begin = [coordinates(Q), at_rest(), *placed]
    if v.goal is Goal.CONTACTS:
        return [*begin, *touching_parts(f, 0, recalled)]
    parts = [*begin, *touching_parts(f)]
    for kinds, moving in f.touches:
        parts += [] if kinds in CLOSED_FORMS else output_motions(kinds, moving, f.single, 0)
    return parts


def solution_parts(v: ConstraintVariant) -> list[Part | Again]:
    """From a state to accelerations, or from accelerations to forces."""
    f, at = v.features, v.inputs.index
    kinds, between, rigid = kinds_of(f), between_of(f), f.linking.rigid
    every = [*kinds, *(k for k, _ in between)]
    put, recalled = {name: k for k, name in enumerate(v.outputs)}, at("motions") if v.recalls else None
    begin: list[Part | Again] = [
        coordinates(Q),
        copy_input(QD, "qd"),
        *([] if v.goal is Goal.ANSWER else [copy_input(at("tau"), "b")]),
        *(kinematics.shifts() if f.quaternions else []),
        set_guess(f.quaternions, at("warm") if "warm" in v.inputs else None),
        *([following()] if "mimics" in f.linking.lengths else []),
        *motion_parts(f),
    ]
    if v.goal is Goal.ANSWER:
        change = solve_change(kinds, between, linked_parts(f.linking, False, True), f.joined)
        return [
            *begin,
            *constraint_parts(f),
            copy_rows(at("change"), "b"),
            *([loop_changes.take_rows(at("gap"), "wanted")] if rigid else []),
            *change,
            output_rows("x_new", put["answer"]),
            *([loop_changes.give_rows("force", put["multipliers"], -1.0)] if rigid else []),
        ]
    if v.goal is Goal.FORCES:
        heavy = resist(f.linking, ("x", False, -1.0))
        heavy += [copy(Plan.every_row, (ROW.at(0, "resistance"),), added(ROW.at(0, "push")))] if heavy else []
        pulled = [*constraint_parts(f, None, recalled), *pull_all(every, f), *heavy]
        return [*begin, *pulled, output_solution(f.quaternions)]
    forces = [
        *([kinematics.applied(at("f_ext"))] if v.external else []),
        *force_parts(f),
        *constraint_parts(f, put.get("points"), recalled),
    ]
    if v.goal is Goal.BALANCE:
        given: list[Part | Again] = [loop_changes.take_rows(at("multipliers"), "force")] if rigid else []
        rounds, more = Rounds(kinds, between, given), left_over(put["left"], f.linking)
        more += loop_changes.left_open(f.linking, put["gap"]) if rigid else []
    else:
        rounds, more = rounds_of(f, False, True), [output_counts(put["counts"])]
        more += [loop_changes.give_rows("force", put["multipliers"])] if rigid else []
    reported = [*zip(rounds.kinds, f.dims, strict=False), *rounds.between] if v.forces else []
    return [
        *begin,
        *forces,
        *rounds.parts,
        *(loops.report_forces(kind, put["loops"]) for kind in f.linking.loops),
        *pull_all(rounds.every, f),
        *more,
        output_solution(f.quaternions),
        *(report_contact_forces(kind, dim, put["pushes"]) for kind, dim in reported),
    ]


_programs: Once[Native] = Once()


def program_of(variant: ConstraintVariant) -> Native:
    """The program of a variant, made once."""

    def make() -> Native:
        asks = variant.goal in (Goal.CONTACTS, Goal.MOTIONS)
        parts = contact_parts(variant) if asks else solution_parts(variant)
        name = f"constrained_{variant.goal.name.lower()}"
        return Native.of(name, [starting(), *parts], len(variant.inputs), len(variant.outputs))

    return _programs.get(variant, make)


def is_differentiable(features: Features) -> bool:
    """True if derivatives are native: friction slips."""
    return not features.noslip
