"""Several trees whose bodies touch, in lanes: Newton's matrix, factored in the lane.

If many bodies press on each other, conjugate gradients (conjugate.py) take a turn for each direction of contact. Here
the contact of two bodies is one 6 by 6 matrix W, the sum over their points, and the matrix is

    H + Σ (J₂ − J₁)ᵀ W (J₂ − J₁),

H by composite inertias (RBDA chapter 6) of the bodies with all that the tree carries. Its rows are those of the joints,
six to a group; but a free joint on which a tree hangs is solved for the acceleration of its body, so that bodies that
hang on nothing add their inertias and their W as they are. Blocks are eliminated group by group. Of the bodies that may
touch few do: which blocks have something in them is found once in a step, and turns for the others are left out.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Slots
from kinetree.spatial import ArticulatedInertia, Mat3, Motion, Vec3

from ..jacobians import six_by_six
from .contacts import frame
from .coupled import BODY1, BODY2, COLUMNS, both_forces, seen_from
from .joined_factors import dot, factored, joined_of, lower, lower_slots, substituted
from .joined_plan import (
    BLOCKS,
    CELL,
    ENTRIES,
    FILLED,
    JOIN,
    PAIRS,
    ROOTS,
    SCREW,
    SIX,
    SOLUTION,
    TOUCHES,
    WIDTH,
    WORKS,
)
from .kinds import Kind
from .memory import ARTICULATED_BLOCK, NUMBER, ROW, Norms, articulated_bias, fixed, total
from .parts import Part, added, copy, fill, part, table
from .plan import Plan
from .roots import axes_of, of_body, root_load
from .tables import with_skips

JOIN_AT, FLAG = range(COLUMNS, COLUMNS + 2)  # columns after those of a point


def _number(column: int, offset: int = 0) -> Slots:
    return Slots(column, offset, NUMBER, cold=True)


# -- once in a step ---------------------------------------------------------------------------------------------------


def find_touching_bodies(kinds: list[Kind]) -> list[Part]:
    """Find which bodies touch, and which blocks their contacts fill."""

    def look(one, two, filled):
        works = one * two
        return (jnp.maximum(filled, works), works)

    works, on = fixed("product"), lambda column: FILLED.at(column, "on")
    units = tuple(Motion(Vec3(*u[:3]), Vec3(*u[3:])) for u in np.eye(WIDTH).tolist())
    screws = (SCREW.at(k, "S") for k in range(WIDTH))
    filled = 0.0, lambda model, plan, known: joined_of(plan).first_filled()[1]
    touch = TOUCHES.at(0, "on")
    touching = {"values": (1.0,), "when": touch, "rare": True, "columns": 3, "skips": (2, touch)}
    working = {"lists": (WORKS, works), "skips": (3, on(0)), "columns": 4}

    def eliminations(plan: Plan) -> np.ndarray:
        return with_skips(joined_of(plan).eliminations("flags")[:, 1:4], 0)

    return [
        fill(lambda plan: table(*joined_of(plan).directions), *screws, values=units),
        fill(lambda plan: joined_of(plan).every_flag(), TOUCHES.at(0, "on")),
        *map(mark_touching_bodies, kinds),
        part(lambda plan: joined_of(plan).first_filled()[0], lambda known: (known,), (), (on(0),), filled),
        list_touching(PAIRS, lambda plan: joined_of(plan).every_join()),
        list_touching(ROOTS, lambda plan: joined_of(plan).between_roots()),
        list_touching(ENTRIES, lambda plan: joined_of(plan).couplings(plan.row)[0], several=True),
        fill(lambda plan: with_skips(joined_of(plan).touching(), 0), on(1), **touching),
        part(eliminations, look, (on(0), on(1), on(2)), (on(2), works), **working),
        part(lambda plan: joined_of(plan).below(), lambda *x: x, (on(3),), (works,), lists=(BLOCKS, works)),
    ]


def list_touching(name: str, turns: Callable[[Plan], np.ndarray], several: bool = False) -> Part:
    """List the turns whose pair of bodies touches; `several`: a pair has several. Column 1 has the flags of pairs."""
    flag, works = TOUCHES.at(0, "on"), fixed("product")
    options = {"columns": 2, "skips": (1, flag) if several else None, "lists": (name, works)}
    return copy(lambda plan: with_skips(turns(plan)[:, 1:2], 0), (flag,), (works,), **options)


def mark_touching_bodies(kind: Kind) -> Part:
    """Mark pairs of bodies with active points."""
    return fill(lambda plan: _of_points(kind, plan)[0], TOUCHES.at(FLAG, "on"), values=(1.0,), rare=True, **kind.acting)


def _of_points(kind: Kind, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Columns of points with those of their bodies, and 1 where the second body comes first in the join."""
    own = kind.table(plan)
    pairs = [(int(a), int(b)) for a, b in plan.number_of_row(own[:, kind.rows])]
    join, flag, swapped = joined_of(plan).join(pairs)
    return np.concatenate([own, table(join, flag)], 1), swapped


# -- what bodies that touch add ---------------------------------------------------------------------------------------


def add_points(kind: Kind, finishes: bool) -> Part:
    """Add points to the matrices of their bodies, and their forces; in the last round only the forces."""

    def step(known, *reads):
        own, swapped = known
        kept, r = kind.state(own, reads)
        point, other, swap = kept[0], kept[3], swapped != 0
        g, H = kind.pressing(r, kept, reads[-1] != 0 if finishes else None)
        one, two = both_forces(point, other, g)
        at, there = (
            Vec3(*(jnp.where(swap, b, a) for a, b in zip(*both, strict=True)))
            for both in ((point.position, other), (other, point.position))
        )
        stiff = frame(seen_from(point, at)).articulated_to_parent(six_by_six(H))
        return (there - at, stiff, -one, -two)

    seen = (*kind.own, *kind.now, *((fixed("finishing"),) if finishes else ()))
    made = (
        JOIN.at(JOIN_AT, "away"),
        *added(JOIN.at(JOIN_AT, "stiff"), articulated_bias(BODY1), articulated_bias(BODY2)),
    )
    example = jax.tree.unflatten(kind.constants, [0.0] * kind.constants.num_leaves), 0.0
    known = example, lambda model, plan, known: (kind.numbers(model, plan, known), _of_points(kind, plan)[1])
    return part(
        lambda plan: _of_points(kind, plan)[0], step, seen, made, known, columns=COLUMNS + 2, rare=True, **kind.acting
    )


def load_joins(kinds: list[Kind], finishes: bool) -> list[Part]:
    """All loads of touching bodies on each other. In the last round they keep their forces, and do not touch."""

    def joins(slots: Slots, when: Slots) -> Part:
        options = {"columns": 2, "rare": True, "follows": PAIRS}
        return fill(lambda plan: joined_of(plan).every_join(), slots, when=when, **options)

    on = TOUCHES.at(1, "on")
    last = [joins(on, fixed("finishing"))] if finishes else []
    return [*last, joins(JOIN.at(0, "stiff"), on), *(add_points(kind, finishes) for kind in kinds)]


# -- the matrix -------------------------------------------------------------------------------------------------------


def tree_entries() -> list[Part]:
    """H, and the forces, of rows that are not of roots."""

    def along(carry, body, S, *others):
        F = body.inertia @ S
        return tuple(c * other.dot(F) for c, other in zip(carry, others, strict=True))

    def own(S, push, resistance, body):
        f = push - S.dot(body.bias)
        return (f, f, resistance)

    body = ARTICULATED_BLOCK.at(0, "body")
    blank = (CELL.at(0, "k"), SOLUTION.at(1, "t"))
    unit = tuple(float(r == c) for r in range(WIDTH) for c in range(WIDTH))
    carry = SIX, lambda model, plan, known: tuple(joined_of(plan).entries(plan.row)[1].T)
    seen = (body, *(SCREW.at(1 + k, "S") for k in range(WIDTH + 1)))
    made = tuple(_number(WIDTH + 2, WIDTH * r) for r in range(WIDTH))
    numbers = tuple(_number(3, SOLUTION.at(0, f).offset) for f in ("f", "t"))
    reads = (*(ROW.at(0, f) for f in ("S", "push", "resistance")), ARTICULATED_BLOCK.at(1, "body"))
    return [
        copy(lambda plan: joined_of(plan).composed(), (ARTICULATED_BLOCK.at(1, "body"),), added(body), scratch=True),
        fill(lambda plan: joined_of(plan).plain(), *blank, values=(unit, SIX), scratch=True),
        fill(lambda plan: joined_of(plan).below(), *blank[:1], scratch=True, follows=BLOCKS, columns=4),
        part(lambda plan: joined_of(plan).entries(plan.row)[0], along, seen, made, carry, scratch=True),
        part(lambda plan: joined_of(plan).of_rows(plan.row), own, reads, (*numbers, *added(_number(2))), scratch=True),
    ]


def _square(I: ArticulatedInertia) -> list[tuple]:
    """A matrix, row by row."""
    B = I.B.rows
    top = [(*a, *b) for a, b in zip(I.A.rows, B, strict=True)]
    return top + [(*b, *c) for b, c in zip(zip(*B, strict=True), I.C.rows, strict=True)]


def root_entries() -> Part:
    """The matrix of a root's body, and the force on it."""

    def step(*reads):
        whole, force = root_load(reads)
        f = (*force.angular, *force.linear)
        return (*lower(_square(whole)), f, f)

    reads = (ARTICULATED_BLOCK.at(1, "body"), *axes_of("resistance", "push"))
    writes = (*lower_slots(2), SOLUTION.at(3, "f"), SOLUTION.at(3, "t"))
    return part(_roots, step, reads, writes, columns=5, scratch=True)


def _roots(plan: Plan) -> np.ndarray:
    return joined_of(plan).rooted(plan.row, plan.total)


def coupling_entries() -> list[Part]:
    """(J₂ − J₁)ᵀ W (J₂ − J₁): screws of the second body are moved to the first one's point."""

    def roots(W, away):
        # With X = (1 0; −a 1), a = away ×, the blocks are W, Xᵀ W X and −W X.
        x, y, z = away
        zero = jnp.zeros_like(x)
        a = Mat3(zero, -z, y, z, zero, -x, -y, x, zero)
        A, C = W.A.full(), W.C.full()
        up, down = A - W.B @ a, W.B.T - C @ a  # W X, on the left; on the right it is W
        cross = a @ down  # Xᵀ = (1 a; 0 1), as aᵀ = −a
        between = [(*u, *b) for u, b in zip(up.rows, W.B.rows, strict=True)]
        between += [(*d, *c) for d, c in zip(down.rows, C.rows, strict=True)]
        moved = [(*(p + q for p, q in zip(*r, strict=True)),) for r in zip(up.rows, cross.rows, strict=True)]
        moved = [(*m, *d) for m, d in zip(moved, down.T.rows, strict=True)]
        moved += [(*d, *c) for d, c in zip(down.rows, C.rows, strict=True)]
        return (*lower(_square(W)), *lower(moved), tuple(-v for r in between for v in r))

    def rows(signs, W, away, S, *screws):
        def moved(sign: Any, S: Motion) -> Motion:
            second = jnp.where(sign > 0, sign, jnp.zeros_like(sign))
            return Motion(S.angular, S.linear + S.angular.cross(away) * second) * sign

        F = W @ moved(signs[0], S)
        return tuple(moved(sign, other).dot(F) for sign, other in zip(signs[1:], screws, strict=True))

    join, options = JOIN.of(0, "stiff", "away"), {"when": TOUCHES.at(1, "on"), "rare": True}
    three = added(*lower_slots(2), *lower_slots(3), CELL.at(4, "k"))
    screws = tuple(SCREW.at(2 + k, "S") for k in range(WIDTH + 1))
    column = added(*(_number(WIDTH + 3, WIDTH * r) for r in range(WIDTH)))
    signs = (*SIX, 0.0), lambda model, plan, known: tuple(joined_of(plan).couplings(plan.row)[1].T)

    def couplings(plan: Plan) -> np.ndarray:
        return joined_of(plan).couplings(plan.row)[0]

    return [
        part(lambda plan: joined_of(plan).between_roots(), roots, join, three, follows=ROOTS, **options),
        part(couplings, rows, (*join, *screws), column, signs, follows=ENTRIES, **options),
    ]


# -- the solution -----------------------------------------------------------------------------------------------------


def outward() -> list[Part]:
    """The new x, the accelerations of bodies, and what changes.

    Norms are those of the tree with all it carries, by composite inertias K: a row adds to Σ aᵀ I a of the bodies what
    K a of all after it has more by its own motion. What couples bodies adds to them where constraints are compared.
    """

    def roots(*reads):
        a, f, body = Motion(Vec3(*reads[0][:3]), Vec3(*reads[0][3:])), reads[1], reads[2]
        axes, numbers = Mat3(*reads[3], *reads[4], *reads[5]), reads[6:]
        resistance, x = numbers[:WIDTH], numbers[WIDTH:]
        new = (*(axes @ a.angular), *(axes @ a.linear))
        by = tuple(n - o for n, o in zip(new, x, strict=True))
        change = Motion(axes.t_mul(Vec3(*by[:3])), axes.t_mul(Vec3(*by[3:])))
        size = change.dot(body.inertia @ change) + dot([r * b for r, b in zip(resistance, by, strict=True)], by)
        return (*new, a, change, Norms(size, dot(reads[0], f)))

    def step(above, before, S, x, resistance, body, new, f):
        by = new - x
        own = S * by
        change = before + own
        size = own.dot(body.inertia @ (change + before)) + resistance * by * by
        return (new, above + S * new, change, Norms(size, new * f))

    norms = added(total(4, "norms"))
    of_root = (*SOLUTION.of(3, "t", "f"), ARTICULATED_BLOCK.at(1, "body"), *axes_of("resistance", "x"))
    moved = (*axes_of("x_new")[3:], *of_body("a_new", "change"), *norms)
    numbers = tuple(_number(3, SOLUTION.at(0, f).offset) for f in ("t", "f"))
    seen = (
        *ROW.of(0, "a_new", "change"),
        *ROW.of(1, "S", "x", "resistance"),
        ARTICULATED_BLOCK.at(2, "body"),
        *numbers,
    )
    made = (*ROW.of(1, "x_new", "a_new", "change"), *norms)
    return [
        part(_roots, roots, of_root, moved, scratch=True),
        part(lambda plan: joined_of(plan).answers(plan.row, plan.up, plan.total), step, seen, made, scratch=True),
    ]


def solve_joins() -> list[Part]:
    """x, after all constraints were loaded."""
    return [*tree_entries(), root_entries(), *coupling_entries(), *factored(), *substituted(), *outward()]
