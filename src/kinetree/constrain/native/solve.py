"""Constrained accelerations as one lane program: the native body of `kinetree.constrained_dynamics`."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from kinetree.lanes import Lane, Loop, Slots, run, xla
from kinetree.lanes.kept.once import Once, OncePerOwner
from kinetree.lanes.program.single import Single, single
from kinetree.model import Model
from kinetree.model.arguments import is_known

from . import contacts, coupled, joints, kinematics, strings
from .binding import Native, constants_of, starting, tables_of, teams_of
from .features import Features, features_of
from .kinds import FORCE_REPORT, Kind, contact, on_joint, pulling, telling
from .linked import frame_parts, length_parts, link_kinds, linked_parts, pulling_parts
from .memory import NOTHING, NUMBER, ROW, fixed
from .newton import from_solution, newton
from .parts import Again, Part, once, table
from .plan import Plan

CLOSED_FORMS = {  # kinds of pairs whose contacts are formulas: searches for them can not be run backwards
    *(("plane", kind) for kind in ("sphere", "capsule", "ellipsoid", "cylinder", "box")),
    *(("sphere", kind) for kind in ("sphere", "capsule", "cylinder", "box")),
    ("capsule", "capsule"),
    ("capsule", "box"),
}


class Variant(NamedTuple):
    """Which program: for what models, and with what inputs."""

    features: Features
    external: bool
    warm: bool
    forces: bool = False  # whether forces of contacts are put out


Q, QD, TAU, WARM = range(4)


def copied(array: int, to: str) -> Part:
    """An input of the rows, put into their slots."""

    def step(_: tuple, inputs: tuple, __: tuple) -> tuple:
        return inputs, (), ()

    loop = Loop(step, 2, NOTHING, writes=(ROW.at(0, to),), inputs=(Lane(array, 1),))
    return Part(loop, lambda plan: table(plan.row(plan.columns[1]), np.arange(len(plan.columns[1]))))


def coordinates(array: int) -> Part:
    """q, put into its slots."""

    def step(_: tuple, inputs: tuple, __: tuple) -> tuple:
        return inputs, (), ()

    loop = Loop(step, 2, NOTHING, writes=(Slots(0, 0, NUMBER),), inputs=(Lane(array, 1),))
    return Part(loop, lambda plan: table(plan.q + plan.columns[0], np.arange(len(plan.columns[0]))))


def following() -> Part:
    """Coordinates, velocities and guesses of joints that follow others."""

    def step(known: tuple, _: tuple, reads: tuple) -> tuple:
        ratio, offset, rate = known
        return (ratio * reads[0] + offset, rate * reads[1], rate * reads[2]), (), ()

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

    return Part(Loop(step, 4, jax.tree.structure((0.0,) * 3), reads=at(1, 3), writes=at(0, 2)), turns, numbers)


def guessed(quaternions: bool, warm: bool) -> Part:
    """The first guess: what `warm_start` says, or rest."""

    def step(slide: Any, inputs: tuple, shift: tuple) -> tuple:
        if not warm:
            return (0.0,), (), ()
        return (inputs[0] + slide * shift[0] if quaternions else inputs[0],), (), ()

    reads = (ROW.at(0, "shift"),) if quaternions and warm else ()
    inputs = (Lane(WARM, 1),) if warm else ()
    loop = Loop(step, 2, NUMBER, reads=reads, writes=(ROW.at(0, "x"),), inputs=inputs)
    rows = lambda plan: table(plan.row(np.arange(plan.n)), np.arange(plan.n))  # noqa: E731
    return Part(loop, rows, lambda model, *_: model.rows.slide)


def kinds_of(features: Features) -> list[Kind]:
    """All kinds of constraints."""
    found = [contact(dim, features.elliptic) for dim in features.dims]
    found += [on_joint(False)] if features.limits else []
    found += [on_joint(True)] if features.losses else []
    return found + link_kinds(features.linking)


def between_of(features: Features) -> list[tuple[Kind, int]]:
    """All kinds of constraints that couple two bodies, with their dimensions."""
    return [(coupled.coupled(dim, features.elliptic), dim) for dim in features.coupled]


def motion_parts(features: Features) -> list[Part]:
    """From q, qd and the first guess to poses, screws and inertias."""
    return [
        *kinematics.placing(features.quaternions),
        *kinematics.bases(),
        kinematics.outward(features.quaternions),
        *frame_parts(features.linking, features.power),
        *length_parts(features.linking),
        *kinematics.bodies(),
    ]


def force_parts(features: Features) -> list[Part]:
    """All forces but those of constraints, on top of those on the joints in `b`."""
    springs = [kinematics.springs()] if features.springs else []
    springs += strings.springs_and_dampers() if features.linking.pulled else []
    return [*springs, kinematics.bias(features.damped)]


def constraint_parts(features: Features, report: int | None = None) -> list[Part]:
    """What touches, and how soft all constraints are; points of contact are put out where asked for."""
    parts = [part for kinds, moving in features.touches for part in contacts.colliding(kinds, moving, features.single)]
    if features.touches and report is not None:
        parts += [contacts.reporting(report, False)] if features.dims else []
        parts += [contacts.reporting(report, True)] if features.coupled else []
    parts += [contacts.softening(dim, features.elliptic, features.power) for dim in features.dims]
    parts += [coupled.softening(dim, features.elliptic, features.power) for dim in features.coupled]
    parts += [strings.softening(kind, features.power) for kind in features.linking.strung]
    parts += [joints.limits(features.power)] if features.limits else []
    return parts + ([joints.losses(features.power)] if features.losses else [])


def answered(kinds: list[Kind], features: Features) -> list[Part]:
    """Accelerations, forces of constraints on the joints, iterations and convergence."""

    def clear(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (*6 * (0.0,), 0.0), (), ()

    force = ROW.at(0, "force")
    six = tuple(force._replace(offset=force.offset + k, tree=NUMBER) for k in range(6))
    bare = Loop(clear, 1, NOTHING, writes=(*six, ROW.at(0, "push")))
    parts = [
        Part(
            bare, lambda plan: table(np.concatenate([plan.base(np.arange(plan.n_trees)), plan.row(np.arange(plan.n))]))
        )
    ]
    before, after = pulling_parts(features.linking)
    parts += [*before, *map(pulling, kinds), *after]
    quaternions = features.quaternions

    def total(slide: Any, _: tuple, reads: tuple) -> tuple:
        S, whole, push, x, b, *shift = reads
        qdd, force = x - slide * shift[0] if quaternions else x, push + S.dot(whole)
        return (), (whole,), (qdd, force, b + force)

    reads = tuple(ROW.at(1, f) for f in ("S", "force", "push", "x", "b", *(("shift",) if quaternions else ())))
    loop = Loop(total, 3, NUMBER, reads=reads, adds=(ROW.at(0, "force"),), outputs=tuple(Lane(k, 2) for k in range(3)))

    def turns(plan: Plan) -> np.ndarray:
        rows = np.arange(plan.n)[::-1]
        return table(plan.up(rows), plan.row(rows), rows)

    parts.append(Part(loop, turns, lambda model, *_: model.rows.slide[::-1]))

    def count(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (), (), reads

    ends = Loop(
        count, 0, NOTHING, reads=(fixed("iterations"), fixed("converged")), outputs=(Lane(3, None, 0), Lane(3, None, 1))
    )
    return [*parts, Part(ends, once)]


_programs: Once[Native] = Once()


def program_of(variant: Variant, solved: bool = False) -> Native:
    """The program of a variant, made once; or the one whose first guess is the solution, for derivatives."""

    def make() -> Native:
        f = variant.features
        kinds, between = kinds_of(f), between_of(f)
        parts: list[Part | Again] = [
            starting(),
            coordinates(Q),
            copied(QD, "qd"),
            copied(TAU, "b"),
            *(kinematics.shifts() if f.quaternions else []),
            guessed(f.quaternions, variant.warm),
            *motion_parts(f),
            *([kinematics.applied(3 + variant.warm)] if variant.external else []),
            *force_parts(f),
            *constraint_parts(f, 4),
            *(
                from_solution(kinds, False)
                if solved
                else newton(kinds, between, False, True, linked_parts(f.linking, False, True), f.joined)
            ),
            *answered([*kinds, *(k for k, _ in between)], f),
        ]
        if variant.forces:
            parts += [telling(contact(dim, f.elliptic), dim, 5) for dim in f.dims]
            parts += [telling(kind, dim, 5) for kind, dim in between]
        inputs, outputs = 3 + variant.warm + variant.external, 4 + bool(f.touches) + variant.forces
        return Native.of("constrained", parts, inputs, outputs)

    return _programs.get((variant, solved), make)


def is_solved(features: Features) -> bool:
    """Whether there are programs whose solution is known, which can be run backwards."""
    formulas = all(kinds in CLOSED_FORMS for kinds, _ in features.touches)
    return formulas and not (features.coupled or any(features.linking))


class Solved(NamedTuple):
    """What the program finds, (batch, ...)."""

    qdd: Any
    force: Any  # of the constraints, on the joints
    total: Any  # all forces: H times x
    points: Any  # (batch, 14 a point), or None
    iterations: Any
    converged: Any
    pushes: Any = None  # (batch, 6 a point): forces of contacts on their second bodies, in their frames, if asked for


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Solver:
    """A program with its tables and constants. A pytree, so that constants go through `jit`."""

    constants: tuple[Any, ...]
    variant: Variant = field(metadata={"static": True})
    plan: Plan = field(metadata={"static": True})
    smooth: tuple[Any, ...] = ()  # constants of the program for derivatives, where there is one

    @property
    def differentiable(self) -> bool:
        """Whether derivatives are native, too."""
        return bool(self.smooth)

    def __call__(self, q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any, by_xla: bool = False) -> Solved:
        """Accelerations and forces, from (batch, ...) arrays. `by_xla`: by the XLA body of the same program."""
        native = program_of(self.variant)
        bound = native.program, self.plan.slots, self._widths, tables_of(native, self.plan), self.constants
        inputs = self._inputs(q, qd, tau, f_ext, warm)
        return self._split(
            xla.run(*bound, inputs) if by_xla else run(*bound, inputs, teams=teams_of(native, self.plan))
        )

    def at_solution(self, q: Any, qd: Any, tau: Any, f_ext: Any, solution: Any) -> Solved:
        """The same as a function that can be differentiated, where accelerations are known."""
        native, dtype = program_of(self.variant._replace(warm=True), True), q.dtype
        one = _singles.get(self.plan, id(native), lambda: single(native.program, tables_of(native, self.plan)))
        constants = np.zeros((1, 0), dtype), *self.smooth
        inputs = self._inputs(q, qd, tau, f_ext, solution)
        return self._split(run(one.program, one.slots, self._widths, one.tables, constants, inputs))

    def _inputs(self, q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any) -> tuple:
        forces = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
        return (q, qd, tau, *(() if warm is None else (warm,)), *forces)

    @property
    def _widths(self) -> tuple[int, ...]:
        n, points = self.plan.n, len(self.plan.all_points()[0])
        widths = (n, n, n, 2, *((contacts.POINT_REPORT * points,) if points else ()))
        return (*widths, *((FORCE_REPORT * points,) if self.variant.forces else ()))

    def _split(self, whole: tuple) -> Solved:
        qdd, force, total, counts, *found = whole
        points, pushes = (*found, None, None)[:2]
        return Solved(qdd, force, total, points, counts[:, 0], counts[:, 1] != 0, pushes)


_solvers: OncePerOwner[Solver] = OncePerOwner()
_singles: OncePerOwner[Single] = OncePerOwner()


def solver_of(model: Model, plan: Plan, dtype: Any, h: Any, external: bool, warm: bool, forces: bool = False) -> Solver:
    """The program of a model, with its constants for a type and a time step; made once where numbers are known."""

    def make() -> Solver:
        variant = Variant(features_of(model, plan), external, warm, forces)
        constants = constants_of(program_of(variant), model, plan, dtype, h)
        traced = any(isinstance(x, Tracer) for x in constants)
        smooth = ()
        if is_solved(variant.features):
            smooth = constants_of(program_of(variant._replace(warm=True), True), model, plan, dtype, h)
        return Solver(constants, variant, plan.forgetful() if traced else plan, smooth)

    if isinstance(h, Tracer) or not is_known(model):
        return make()
    return _solvers.get(model, (np.dtype(dtype).name, float(h), external, warm, forces), make)
