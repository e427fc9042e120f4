"""Rigid loops in lanes: rows G with G x = γ, as links without softness (links.py, delassus.py).

Redundant rows make the matrix K = G A⁻¹ Gᵀ singular. So K + M is factored, with M a small part of the entry of a free
row, and the solution is δ₀ + δ₁ + …, δₖ₊₁ = (K + M)⁻¹ M δₖ: the proximal iteration (Carpentier, Budhiraja and Mansard
2021). It converges to K⁺ as (M/K)ᵏ, and redundant rows share the load.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library, there
from kinetree.dynamics.loops.held import LINEAR, following_row, held_rows, wanted_of
from kinetree.dynamics.loops.rows import row_layout
from kinetree.lanes import Lane, Slots
from kinetree.model import Model, Placement
from kinetree.spatial import Force, Quaternion, Vec3

from ..weights import inverse_weights
from .frames import carried_end, still_end
from .links import BLOCK, CARRIER, GROUP, THREE, WIDTH
from .loop_plan import FOLLOWING3, LOOP3, LoopKind, blocks_of
from .memory import NUMBER, PLACEMENT, ROW, fixed
from .parts import Known, Part, added, copy, fill, part, table
from .plan import Plan
from .string_lengths import number
from .tables import split

PROXIMAL_POWER = 2 / 3  # of the machine epsilon: M, against a row that moves freely
PROXIMAL_TURNS = 2  # after the first; with M of 4e-11 (float64), 2e-5 (float32) of a row's own
HEAD = LOOP3  # blocks of all kinds begin alike: with the fields of loop_plan.ROWS3


def both_bodies(plan: Plan, kind: LoopKind, of: Any, static: Any) -> list[np.ndarray]:
    """Something of the rows of both bodies of the loops of a kind; `static` for a body that does not move."""
    own = plan.rigid.rows[:, plan.rigid.groups[kind]]
    return [of(np.maximum(r, 0)) if moves else np.full(len(r), static) for r, moves in zip(own, kind[1], strict=True)]


def tree_bases(plan: Plan) -> Any:
    return lambda rows: plan.base(plan.tree_of_row[rows])


# -- rows -------------------------------------------------------------------------------------------------------------


class LoopFrames(NamedTuple):
    """Constants of a loop."""

    first: Placement
    second: Placement
    rate: Any  # at which errors fade


def blocks_slots(kind: LoopKind, column: int, field: str) -> tuple[Slots, ...]:
    """A field of the blocks of a loop."""
    own = LOOP3.at(column, field)
    return tuple(own._replace(offset=own.offset + k * LOOP3.size) for k in range(blocks_of(kind[0])))


def find_rows(kind: LoopKind) -> Part:
    """Find the rows of all loops of a kind, while accelerations without x are known."""
    name, moves = kind
    size = WIDTH * blocks_of(name)

    def step(known, *seen):
        *rest, gravity = seen
        ends, centres = [], []
        for own, moving in zip((known.first, known.second), moves, strict=True):
            if moving:
                row, base, v, drift, *rest = rest
                ends.append(carried_end(own, row, base, v, drift, gravity)[0])
                centres.append(base.position)
            else:
                ends.append(still_end(own)[0])
                centres.append(Vec3.zero_like(own.position.x))
        held = held_rows(name, *ends)
        zero = jnp.zeros_like(known.rate)
        found = [(wanted_of(known.rate, r.velocity, r.drift, r.error), -r.error, -r.velocity) for r in held.rows]
        pushes = [_pushes(r.part, r.n, (held.first, held.second), centres) for r in held.rows]
        none = Force.zero_like(zero)
        found += [(zero,) * 3] * (size - len(found))
        pushes += [(none, none)] * (size - len(pushes))
        each = zip(*found, strict=True)
        three = [tuple(x[k : k + WIDTH]) for x in each for k in range(0, size, WIDTH)]
        return (*three, *(tuple(pushes[k : k + WIDTH]) for k in range(0, size, WIDTH)))

    reads = tuple(
        x
        for k in (0, 1)
        if moves[k]
        for x in (ROW.at(k, "pose"), ROW.at(2 + k, "pose"), ROW.at(k, "v"), ROW.at(k, "drift"))
    )
    writes = tuple(s for f in ("wanted", "motion", "change", "pushes") for s in blocks_slots(kind, 4, f))

    def turns(plan: Plan) -> np.ndarray:
        base = plan.base(0)
        return table(
            *both_bodies(plan, kind, plan.row, base),
            *both_bodies(plan, kind, tree_bases(plan), base),
            _first(plan, kind),
        )

    def constants(model: Model, plan: Plan, known: Known) -> LoopFrames:
        loops, own = model.loops, plan.rigid.groups[kind]
        assert loops is not None
        places = [
            Placement(Quaternion(*split(turn[own])), Vec3(*split(at[own])))
            for turn, at in ((loops.orientation1, loops.position1), (loops.orientation2, loops.position2))
        ]
        time, xp = loops.stabilisation[own], library(loops.stabilisation)
        return LoopFrames(places[0], places[1], xp.where(time > 0, 1 / xp.where(time > 0, time, 1.0), 0.0))

    known = LoopFrames(PLACEMENT, PLACEMENT, 0.0), constants
    return part(turns, step, (*reads, fixed("gravity")), writes, known, columns=5)


def _first(plan: Plan, kind: LoopKind) -> np.ndarray:
    return plan.rigid.first(kind)[0]


def _pushes(part: int, n: Vec3, points: tuple[Vec3, Vec3], centres: list[Vec3]) -> tuple[Force, Force]:
    """Unit forces of a row on both bodies, about the points of their trees."""
    if part != LINEAR:
        zero = Vec3.zero_like(n.x)
        return Force(-n, zero), Force(n, zero)
    first, second = (p + c for p, c in zip(points, centres, strict=True))
    return -Force(first.cross(n), n), Force(second.cross(n), n)


class Polynomial(NamedTuple):
    """Constants of a joint that follows another."""

    c: tuple
    reference1: Any
    reference2: Any
    follows: Any


def follower_rows() -> list[Part]:
    """Rows of joints that follow others; zeros where a block has fewer rows."""

    def step(known, q1, q2, qd1, qd2):
        row = following_row(known.c, q1 - known.reference1, known.follows * (q2 - known.reference2), qd2)
        speed = qd1 - row.slope * qd2
        return (wanted_of(0.0, speed, row.drift, row.error), -row.error, -speed, row.slope)

    reads = (number(0), number(1), ROW.at(2, "qd"), ROW.at(3, "qd"))
    fields = ("wanted", "motion", "change", "slope")
    example = jax.tree.structure(Polynomial((0.0,) * 5, 0.0, 0.0, 0.0))
    made = tuple(number(4 + k) for k in range(len(fields)))

    def turns(plan: Plan) -> np.ndarray:
        one, two = followed(plan)
        columns = plan.structure.q_of_row
        slots = [plan.rigid.follower(f) for f in fields]
        return table(plan.q + columns[one], plan.q + columns[two], plan.row(one), plan.row(two), *slots)

    def constants(model: Model, plan: Plan, known: Known) -> Polynomial:
        equal = there(there(model.loops).joints)
        follows = (np.array(equal.rows2) >= 0).astype(float)
        c = split(equal.coefficients)
        return Polynomial((c[0], *(x * follows for x in c[1:])), equal.reference1, equal.reference2, follows)

    rest = fill(lambda plan: table(plan.rigid.followers()), *(FOLLOWING3.at(0, f) for f in (*fields[:3], "gap")))
    return [rest, part(turns, step, reads, made, (example, constants), columns=4 + len(fields))]


def followed(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Rows that follow others, and these; a row that is held at a number follows itself, by nothing."""
    pairs = np.array([(a, a if b < 0 else b) for a, b in plan.rigid.following], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


# -- as links ---------------------------------------------------------------------------------------------------------


def _three(values: Any) -> tuple:
    return tuple(values[:, k] for k in range(WIDTH))


def loop_groups(plan: Plan) -> np.ndarray:
    blocks, groups = plan.rigid.blocks()
    return table(plan.links.group(groups), blocks)


def set_stiffness() -> Part:
    """Set the stiffness of the links of loops."""

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        return _three(plan.rigid.spread(np.ones(there(model.loops).n_rows), np))

    return part(loop_groups, lambda known: (known,), (), (GROUP.at(0, "stiff"),), (THREE, constants), columns=2)


def spread_unit_forces(kind: LoopKind) -> Part:
    """Put unit forces of the rows on the carriers of their links."""
    moves, blocks = kind[1], blocks_of(kind[0])

    def step(*reads):
        ends = [k for k in (0, 1) if moves[k]]
        return tuple(tuple(-row[k] for row in block) for block in reads for k in ends)

    count = sum(moves) * blocks
    writes = tuple(CARRIER.at(1 + k, "applied") for k in range(count))

    def turns(plan: Plan) -> np.ndarray:
        first, group = plan.rigid.first(kind)
        own = plan.rigid.rows[:, plan.rigid.groups[kind]]
        carriers = [
            [plan.links.carrier(int(g) + b, int(own[e, i])) for b in range(blocks) for e in (0, 1) if moves[e]]
            for i, g in enumerate(group)
        ]
        return table(first, *np.array(carriers, np.int64).T)

    return part(turns, step, blocks_slots(kind, 0, "pushes"), writes, columns=1 + count)


def spread_follower_entries() -> list[Part]:
    """Entries of the rows of joints that follow others."""

    def slots(plan: Plan, which: int) -> np.ndarray:
        links, rows = plan.rigid.follower_links(), followed(plan)[which]
        return np.array([plan.links.v(int(k), int(r)) for k, r in zip(links, rows, strict=True)], np.int64)

    def others(plan: Plan) -> np.ndarray:
        return table(slots(plan, 1), plan.rigid.follower("slope"))

    own = added(number(0))
    return [
        part(lambda plan: table(slots(plan, 0)), lambda: (1.0,), (), own),
        part(others, lambda slope: (-slope,), (number(1),), own),
    ]


def _proximal(model: Model, plan: Plan, known: Known) -> np.ndarray:
    """(blocks, 3): M, a small part of the diagonal entry of a free row."""
    loops = there(model.loops)
    weights, lay = inverse_weights(model), row_layout(loops)
    xp = library(weights.body, weights.dof)
    total = xp.zeros(0)
    if len(lay.loop):
        ends = [np.array(b, np.int64)[lay.loop] for b in (loops.bodies1, loops.bodies2)]
        part = lay.classes[: len(lay.loop)]
        one, two = (xp.where(b >= 0, weights.body[np.maximum(b, 0), part], 0.0) for b in ends)
        total = one + two
    if loops.joints is not None:
        one, two = (np.array(r, np.int64) for r in (loops.joints.rows1, loops.joints.rows2))
        dof = weights.dof[one] + xp.where(two >= 0, weights.dof[np.maximum(two, 0)], 0.0)
        total = xp.concatenate([total, dof])
    return plan.rigid.spread(float(np.finfo(known.dtype).eps) ** PROXIMAL_POWER * total, xp)


def add_proximal_term() -> Part:
    """Add M to the diagonal of K."""
    diagonal = tuple(BLOCK.at(0, "k")._replace(offset=k * (WIDTH + 1), tree=NUMBER) for k in range(WIDTH))

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.links.diagonal()[plan.rigid.blocks()[1], 0])

    return part(turns, lambda known: known, (), added(*diagonal), (THREE, lambda *given: _three(_proximal(*given))))


def subtract_wanted(field: str) -> Part:
    """Subtract the wanted G x from the right side of the equation for the forces."""
    return part(loop_groups, _minus, (HEAD.at(1, field),), (GROUP.at(0, "t"),))


def _minus(rows: tuple) -> tuple:
    return (tuple(-x for x in rows),)


def refine() -> Part:
    """M times the last solution: the right side of the next turn; zero for other links."""

    def step(known, t):
        return (tuple(m * x for m, x in zip(known, t, strict=True)),)

    own = GROUP.at(0, "t")

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        M = _proximal(model, plan, known)
        others = library(M).zeros((len(plan.links.groups) - len(M), WIDTH))
        return _three(library(M).concatenate([others, M]))  # loops have the last groups

    return part(lambda plan: plan.links.every(), step, (own,), (own,), (THREE, constants))


def sum_turns(first: bool = False) -> Part:
    """Add up the solutions of all turns."""
    own, whole = GROUP.at(0, "t"), GROUP.at(0, "found")
    return copy(lambda plan: plan.links.every(), (own,), (whole,) if first else added(whole))


def settle_forces() -> Part:
    """The forces of links. What is left of the last turn is what redundant rows ask for and can not have, M⁻¹ of it.

    Every turn found the same of that; it moves nothing, and is taken off.
    """

    def step(t, whole):
        return (tuple(a - (1 + PROXIMAL_TURNS) * b for a, b in zip(whole, t, strict=True)),)

    own = GROUP.at(0, "t")
    return part(lambda plan: plan.links.every(), step, (own, GROUP.at(0, "found")), (own,))


def clear_forces(field: str, keeps: bool) -> list[Part]:
    """Set the forces of the rows to zero; `keeps`: those of the round before stay known."""
    own = HEAD.at(1, field)
    before = [copy(loop_groups, (own,), (HEAD.at(1, "before"),))] if keeps else []
    return [*before, fill(loop_groups, own)]


def keep_forces(field: str, closing: Slots | None) -> Part:
    """Keep the forces of the rows; within conjugate gradients only in the last turn."""
    return part(loop_groups, _minus, (GROUP.at(0, "t"),), added(HEAD.at(1, field)), when=closing)


# -- forces -----------------------------------------------------------------------------------------------------------


def _total(forces: tuple, pushes: tuple, end: int) -> Force:
    """The wrench of a loop on one of its bodies."""
    found = [
        row[end] * f for force, push in zip(forces, pushes, strict=True) for f, row in zip(force, push, strict=True)
    ]
    return sum(found[1:], found[0])


def apply_forces(kind: LoopKind, to: Callable[[int], Slots] = lambda column: ROW.at(column, "force")) -> Part:
    """Put the forces of loops on their bodies."""
    ends = [k for k in (0, 1) if kind[1][k]]
    own = *blocks_slots(kind, 2, "force"), *blocks_slots(kind, 2, "pushes")
    half = len(own) // 2

    def step(*reads):
        return tuple(_total(reads[:half], reads[half:], k) for k in ends)

    def turns(plan: Plan) -> np.ndarray:
        return table(*both_bodies(plan, kind, plan.row, plan.base(0)), _first(plan, kind))

    return part(turns, step, own, added(*map(to, ends)), columns=3)


def apply_follower_forces() -> Part:
    """Put the forces of joints that follow others on both joints."""

    def step(force, slope):
        return (force, -slope * force)

    def turns(plan: Plan) -> np.ndarray:
        own = [plan.rigid.follower(f) for f in ("force", "slope")]
        return table(*map(plan.row, followed(plan)), *own)

    return part(turns, step, (number(2), number(3)), added(ROW.at(0, "push"), ROW.at(1, "push")))


def report_forces(kind: LoopKind, array: int) -> Part:
    """Output the wrenches of loops on their second bodies, in the world, about its origin."""
    own = *blocks_slots(kind, 1, "force"), *blocks_slots(kind, 1, "pushes")
    half = len(own) // 2
    moves = kind[1][1]

    def step(*reads):
        whole = _total(reads[:half], reads[half : 2 * half], 1)
        moment = whole.angular - reads[-1].position.cross(whole.linear) if moves else whole.angular
        return (*moment, *whole.linear)

    bases = (ROW.at(0, "pose"),) if moves else ()
    outputs = tuple(Lane(array, 2, k) for k in range(6))

    def turns(plan: Plan) -> np.ndarray:
        return table(
            both_bodies(plan, kind, tree_bases(plan), plan.base(0))[1], _first(plan, kind), 6 * plan.rigid.groups[kind]
        )

    return part(turns, step, (*own, *bases), outputs)


assert FOLLOWING3.at(0, "force").offset == HEAD.at(0, "force").offset
