"""Constrained accelerations as one lane program: the native body of `kinetree.constrained_dynamics`."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Slots, run, xla
from kinetree.lanes.kept.once import Once, OncePerOwner
from kinetree.model import Model
from kinetree.model.world import BOTH

from . import contacts, coupled, joints, kinematics, strings
from .binding import Native, constants_of, starting, tables_of
from .features import Features, features_of
from .kinds import FORCE_REPORT, Kind, contact, on_joint, pulling, telling
from .linked import frame_parts, length_parts, link_kinds, linked_parts, pulling_parts
from .memory import NOTHING, NUMBER, PASSING, ROW, fixed
from .newton import newton
from .parts import Again, Part, braided, once, table
from .plan import Plan


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
    return Part(loop, lambda plan: table(plan.row(np.arange(plan.n)), np.arange(plan.n)))


def coordinates(array: int) -> Part:
    """q, put into its slots."""

    def step(_: tuple, inputs: tuple, __: tuple) -> tuple:
        return inputs, (), ()

    loop = Loop(step, 2, NOTHING, writes=(Slots(0, 0, NUMBER),), inputs=(Lane(array, 1),))
    return Part(loop, lambda plan: table(plan.q + np.arange(plan.nq), np.arange(plan.nq)))


def guessed(quaternions: bool, warm: bool) -> list[Part]:
    """The first guess: what `warm_start` says, or rest."""
    if warm:
        return [copied(WARM, "x"), *([kinematics.shifted(1.0)] if quaternions else [])]
    loop = Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(ROW.at(0, "x"),))
    return [Part(loop, lambda plan: table(plan.row(np.arange(plan.n))))]


def kinds_of(features: Features) -> list[Kind]:
    """All kinds of constraints."""
    found = [contact(dim, features.elliptic) for dim in features.dims]
    found += [on_joint(False)] if features.limits else []
    found += [on_joint(True)] if features.losses else []
    return found + link_kinds(features.linking)


def between_of(features: Features) -> list[tuple[Kind, int]]:
    """All kinds of constraints that couple two bodies, with their dimensions."""
    return [(coupled.coupled(dim, features.elliptic), dim) for dim in features.coupled]


def motion_parts(features: Features, stores: bool, report: int | None = None) -> list[Part]:
    """From q, qd and the first guess to the mechanism in motion, to what touches, and how soft all constraints are.

    Points of contact are put out where asked for.
    """
    f = features
    static = [(kinds, moving, f.single) for kinds, moving in f.touches if moving != BOTH]
    coupled_pairs = [(kinds, moving, f.single) for kinds, moving in f.touches if moving == BOTH]
    found = [strand for pair in static for strand in contacts.colliding(*pair)] if not f.by_hulls else []
    found += [contacts.reporting(report, False)] if report is not None and f.dims else []
    found += [contacts.softening(dim, f.elliptic, f.power, f.by_hulls) for dim in f.dims]
    strands = [*kinematics.outward(f.quaternions, stores), kinematics.bodies(), *([] if f.by_hulls else found)]
    parts = [kinematics.bases(f.quaternions), *([kinematics.still_bases()] if stores else [])]
    parts += [braided(PASSING, strands, True)]
    if f.by_hulls:
        parts += [part for pair in static for part in contacts.colliding_stored(*pair)]
        parts += [strand.part for strand in found]
    parts += [*frame_parts(f.linking, f.power), *length_parts(f.linking)]
    parts += [part for pair in coupled_pairs for part in contacts.colliding_stored(*pair)]
    parts += [contacts.reporting(report, True).part] if report is not None and f.coupled else []
    parts += [part for dim in f.coupled for part in coupled.softening(dim, f.elliptic, f.power)]
    parts += [strings.softening(kind, f.power) for kind in f.linking.strung]
    parts += joints.limits(f.power) if f.limits else []
    return parts + (joints.losses(f.power) if f.losses else [])


def force_parts(features: Features, external: int | None, everywhere: bool = False) -> list[Part]:
    """All forces but those of constraints, on top of those on the joints in `b`; those on bodies may be an input."""
    springs = [kinematics.springs()] if features.springs else []
    springs += strings.springs_and_dampers() if features.linking.pulled else []
    return [*springs, kinematics.bias(features.damped, external, everywhere)]


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

    parts += [kinematics.shifted(-1.0)] if features.quaternions else []

    def total(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, whole, push, x, b = reads
        force = push + S.dot(whole)
        return (), (whole,), (x, force, b + force)

    reads = tuple(ROW.at(1, f) for f in ("S", "force", "push", "x", "b"))
    loop = Loop(total, 3, NOTHING, reads=reads, adds=(ROW.at(0, "force"),), outputs=tuple(Lane(k, 2) for k in range(3)))

    def turns(plan: Plan) -> np.ndarray:
        rows = np.arange(plan.n)[::-1]
        return table(plan.up(rows), plan.row(rows), rows)

    parts.append(Part(loop, turns))

    def count(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (), (), reads

    ends = Loop(
        count, 0, NOTHING, reads=(fixed("iterations"), fixed("converged")), outputs=(Lane(3, None, 0), Lane(3, None, 1))
    )
    return [*parts, Part(ends, once)]


_programs: Once[Native] = Once()


def program_of(variant: Variant) -> Native:
    """The program of a variant, made once."""

    def make() -> Native:
        f = variant.features
        kinds, between = kinds_of(f), between_of(f)
        parts: list[Part | Again] = [
            starting(),
            coordinates(Q),
            copied(QD, "qd"),
            copied(TAU, "b"),
            *(kinematics.shifts() if f.quaternions else []),
            *guessed(f.quaternions, variant.warm),
            *motion_parts(f, f.stores, 4),
            *force_parts(f, 3 + variant.warm if variant.external else None),
            *newton(kinds, between, False, f.stores, linked_parts(f.linking, False, True)),
            *answered([*kinds, *(k for k, _ in between)], f),
        ]
        if variant.forces:
            parts += [telling(contact(dim, f.elliptic), dim, 5) for dim in f.dims]
            parts += [telling(kind, dim, 5) for kind, dim in between]
        inputs, outputs = 3 + variant.warm + variant.external, 4 + bool(f.touches) + variant.forces
        return Native.of("constrained", parts, inputs, outputs)

    return _programs.get(variant, make)


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

    def __call__(self, q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any, by_xla: bool = False) -> Solved:
        """Accelerations and forces, from (batch, ...) arrays. `by_xla`: by the XLA body of the same program."""
        plan, native = self.plan, program_of(self.variant)
        forces = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
        inputs = (q, qd, tau, *(() if warm is None else (warm,)), *forces)
        points = len(plan.all_points()[0])
        widths = (plan.n, plan.n, plan.n, 2, *((contacts.POINT_REPORT * points,) if points else ()))
        widths += (FORCE_REPORT * points,) if self.variant.forces else ()
        bound = native.program, plan.slots, widths, tables_of(native, plan), self.constants
        whole = xla.run(*bound, inputs) if by_xla else run(*bound, inputs)
        qdd, force, total, counts, *found = whole
        points, pushes = (*found, None, None)[:2]
        return Solved(qdd, force, total, points, counts[:, 0], counts[:, 1] != 0, pushes)


_solvers: OncePerOwner[Solver] = OncePerOwner()


def solver_of(
    model: Model, plan: Plan, dtype: Any, h: float, external: bool, warm: bool, forces: bool = False
) -> Solver:
    """The program of a model of plain arrays, with its constants for a type and a time step; made once."""

    def make() -> Solver:
        variant = Variant(features_of(model, plan), external, warm, forces)
        return Solver(constants_of(program_of(variant), model, plan, dtype, h), variant, plan)

    return _solvers.get(model, (np.dtype(dtype).name, h, external, warm, forces), make)
