"""Several trees whose bodies touch, in lanes: Newton's matrix in joint coordinates, factored in the lane.

Where many bodies press on each other, conjugate gradients (conjugate.py) take a turn for each direction in which they
do. Here all that two bodies do to each other is one 6 by 6 matrix W, the sum over their points, and the matrix is

    H + Σ (J₂ − J₁)ᵀ W (J₂ − J₁),

H by composite inertias (RBDA chapter 6) of the bodies with all that the tree carries. Its blocks are eliminated with
those far from the base first, two groups by two at a time, since a turn of a loop costs more than a few products. Of
the bodies that may touch few do: each block says whether there is something in it, and a first look at all turns lists
those that have something to eliminate.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Loop, Slots
from kinetree.spatial import Motion

from ..groups import six_by_six
from .conjugate import measured, present, unmeasured
from .conjugate import started as begun
from .contacts import frame
from .coupled import COLUMNS, both_forces
from .delassus import dot3, factors_of, rows3, solved
from .joined_plan import CELL, HEAVY, JOIN, SOLUTION, TOUCHES, WIDTH, Joined
from .kinds import Kind
from .memory import FORCE, HELD_BLOCK, NOTHING, NUMBER, ROW, fixed
from .parts import Again, Part, once, table
from .plan import Plan

SIGNS = jax.tree.structure((0.0,) * 4 * WIDTH)
LIST = "eliminations"  # of those that change something
JOIN_AT, FLAG, HEAVY1, HEAVY2 = range(COLUMNS, COLUMNS + 4)  # columns after those of a point


def _of(plan: Plan) -> Joined:
    assert plan.joined is not None
    return plan.joined


def _bias(column: int) -> Slots:
    count = jax.tree.structure(FORCE).num_leaves
    return Slots(column, HEAVY.size - count, jax.tree.structure(FORCE), cold=True)


def _cold(column: int, offset: int = 0) -> Slots:
    return Slots(column, offset, NUMBER, cold=True)


# -- before the tree is swept -----------------------------------------------------------------------------------------


def started() -> list[Part]:
    """No bodies touch; loads as they are on the tree."""

    def apart(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (jax.tree.unflatten(JOIN.at(0, "stiff").tree, [0.0] * 21), 0.0), (), ()

    none = Loop(apart, 2, NOTHING, writes=(JOIN.at(0, "stiff"), TOUCHES.at(1, "on")))
    copy = Loop(
        lambda _, __, x: (x, (), ()),
        2,
        NOTHING,
        reads=(HELD_BLOCK.at(0, "held"),),
        writes=(HEAVY.at(1, "held"),),
        scratch=True,
    )
    zero = Loop(lambda *_: ((0.0,), (), ()), 0, NOTHING, writes=(fixed("rest"),))
    return [
        Part(none, lambda plan: _of(plan).every_join()),
        Part(copy, lambda plan: _of(plan).copies()),
        Part(zero, once),
    ]


def joining(kind: Kind) -> Part:
    """What points add to the matrix of their bodies, and their forces in it beyond those that the tree has."""

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, r = present(kind, known, reads)
        point, other = kept[0], kept[3]
        stiff = frame(point).articulated_to_parent(six_by_six(r.curvature))
        more = tuple(g - f for g, f in zip(kind.constant(r, kept), r.force, strict=True))
        one, two = both_forces(point, other, more)
        presses = sum((row[0] for row in r.curvature[1:]), start=r.curvature[0][0])
        flag = jnp.where(presses > 0, jnp.ones_like(presses), jnp.zeros_like(presses))
        return (other - point.position,), (stiff, flag, flag, -one, -two), ()

    adds = (JOIN.at(JOIN_AT, "stiff"), TOUCHES.at(FLAG, "on"), fixed("rest"), _bias(HEAVY1), _bias(HEAVY2))
    loop = Loop(
        step,
        COLUMNS + 4,
        kind.constants,
        reads=(*kind.own, *kind.now),
        writes=(JOIN.at(JOIN_AT, "away"),),
        adds=adds,
        rare=True,
        **kind.acting,
    )

    def turns(plan: Plan) -> np.ndarray:
        own = kind.table(plan)
        numbers = (own[:, kind.rows] - plan.row(0)) // ROW.size
        pairs = [(int(a), int(b)) for a, b in numbers]
        heavy = (_of(plan).heavy(numbers[:, k]) for k in (0, 1))
        return np.concatenate([own, table(*_of(plan).join(pairs), *heavy)], 1)

    return Part(loop, turns, kind.numbers)


# -- the matrix -------------------------------------------------------------------------------------------------------


def composed() -> Part:
    """What rows and all after them resist."""
    own, onto = HEAVY.at(1, "held"), HEAVY.at(0, "held")
    loop = Loop(lambda _, __, x: ((), x, ()), 2, NOTHING, reads=(own,), adds=(onto,), scratch=True)
    return Part(loop, lambda plan: _of(plan).composed())


def entries() -> list[Part]:
    """H, and the forces on the joints."""

    def unit(known: tuple, _: tuple, __: tuple) -> tuple:
        one, filled = known
        zero = jnp.zeros_like(one)
        return (tuple(one if r == c else zero for r in range(WIDTH) for c in range(WIDTH)), filled), (), ()

    def along(carry: tuple, _: tuple, reads: tuple) -> tuple:
        heavy, S, *others = reads
        F = heavy.inertia @ S
        return tuple(c * other.dot(F) for c, other in zip(carry, others, strict=True)), (), ()

    def force(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, push, bias = reads
        return (push - S.dot(bias),), (), ()

    three = (0.0,) * WIDTH
    own = (CELL.at(0, "k"), CELL.at(0, "filled"))
    empty = Loop(unit, 1, jax.tree.structure((0.0, 0.0)), writes=own, scratch=True)
    nothing = Loop(lambda *_: ((three,), (), ()), 1, NOTHING, writes=(SOLUTION.at(0, "t"),), scratch=True)
    rows = Loop(
        along,
        WIDTH + 3,
        jax.tree.structure(three),
        reads=(HEAVY.at(0, "held"), *(ROW.at(1 + k, "S") for k in range(WIDTH + 1))),
        writes=tuple(_cold(WIDTH + 2, WIDTH * r) for r in range(WIDTH)),
        scratch=True,
    )
    resist = Loop(lambda _, __, x: ((), x, ()), 2, NOTHING, reads=(ROW.at(0, "resistance"),), adds=(_cold(1),))
    forces = Loop(
        force, 3, NOTHING, reads=(ROW.at(0, "S"), ROW.at(0, "push"), _bias(1)), writes=(_cold(2),), scratch=True
    )
    return [
        Part(empty, lambda plan: _of(plan).cells()[0], lambda model, plan, known: tuple(_of(plan).cells()[1].T)),
        Part(nothing, lambda plan: _of(plan).every()),
        Part(
            rows,
            lambda plan: _of(plan).entries(plan.row)[0],
            lambda model, plan, known: tuple(_of(plan).entries(plan.row)[1].T),
        ),
        Part(resist, lambda plan: _of(plan).resistances(plan.row)),
        Part(forces, lambda plan: _of(plan).forces(plan.row)),
    ]


def couplings() -> Part:
    """(J₂ − J₁)ᵀ W (J₂ − J₁), of six rows by six: rows of the second body's tree are moved to the first one's point."""

    def step(signs: tuple, _: tuple, reads: tuple) -> tuple:
        W, away, *screws = reads

        def moved(sign: Any, S: Motion) -> Motion:
            second = jnp.where(sign > 0, sign, jnp.zeros_like(sign))
            return Motion(S.angular, S.linear + S.angular.cross(away) * second) * sign

        one, two = ([moved(*x) for x in zip(signs[k:], screws[k:], strict=True)][: 2 * WIDTH] for k in (0, 2 * WIDTH))
        F = [W @ S for S in two]
        whole = [[S.dot(f) for f in F] for S in one]
        halves = (range(WIDTH), range(WIDTH, 2 * WIDTH))
        blocks = tuple(tuple(whole[r][c] for r in rows for c in columns) for rows in halves for columns in halves)
        return (1.0,) * 4, blocks, ()

    first = 2
    reads = (JOIN.at(0, "stiff"), JOIN.at(0, "away"), *(ROW.at(first + k, "S") for k in range(4 * WIDTH)))
    filled, adds = (tuple(CELL.at(first + 4 * WIDTH + k, f) for k in range(4)) for f in ("filled", "k"))
    loop = Loop(step, first + 4 * WIDTH + 4, SIGNS, reads=reads, writes=filled, adds=adds, when=TOUCHES.at(1, "on"))
    return Part(
        loop,
        lambda plan: _of(plan).couplings(plan.row)[0],
        lambda model, plan, known: tuple(_of(plan).couplings(plan.row)[1].T),
    )


# -- its factors, and the solution ------------------------------------------------------------------------------------


def factored() -> list[Part]:
    """Factors of the matrix."""

    def look(_: tuple, __: tuple, reads: tuple) -> tuple:
        one, two, targets = reads[:2], reads[2:4], reads[4:8]
        products = [a * b for a in one for b in two]
        most = products[0] + products[1] + products[2] + products[3]
        return (*(jnp.maximum(t, p) for t, p in zip(targets, products, strict=True)), most), (), ()

    def eliminate(_: tuple, __: tuple, reads: tuple) -> tuple:
        pivot, *four = reads[:5]
        factors = factors_of(pivot)
        answers = [[solved(factors, row) for row in rows3(block)] for block in four[2:]]
        made, targets = [], iter(reads[5:])
        for one in four[:2]:
            for two in answers:
                taken = [dot3(row, answer) for row in rows3(one) for answer in two]
                made.append(tuple(a - b for a, b in zip(next(targets), taken, strict=True)))
        return tuple(made), (), ()

    cells = tuple(CELL.at(k, "k") for k in range(9))
    filled, works = tuple(CELL.at(k, "filled") for k in range(1, 9)), fixed("product")
    looked = Loop(look, 9, NOTHING, reads=filled, writes=(*filled[4:], works), lists=(LIST, works), scratch=True)
    eliminated = Loop(eliminate, 9, NOTHING, reads=cells, writes=cells[5:], scratch=True, follows=LIST)
    done = Loop(
        lambda _, __, reads: ((factors_of(reads[0]),), (), ()),
        2,
        NOTHING,
        reads=(CELL.at(0, "k"),),
        writes=(SOLUTION.at(1, "factors"),),
        scratch=True,
    )
    return [
        Part(looked, lambda plan: _of(plan).eliminations()),
        Part(eliminated, lambda plan: _of(plan).eliminations()),
        Part(done, lambda plan: _of(plan).diagonal()),
    ]


def substituted() -> list[Part]:
    """The solution, forward and back."""

    def substitute(back: bool) -> Part:
        def step(_: tuple, __: tuple, reads: tuple) -> tuple:
            block, t, factors = reads
            answer, rows = solved(factors, t), rows3(block)
            across = [tuple(row[c] for row in rows) for c in range(WIDTH)] if back else rows
            return (), (tuple(-dot3(row, answer) for row in across),), ()

        loop = Loop(step, 3, NOTHING, reads=(CELL.at(0, "k"), *own(1)), adds=own(2)[:1], scratch=True)
        return Part(loop, lambda plan: _of(plan).substitutions(back))

    def own(column: int) -> tuple[Slots, Slots]:
        return SOLUTION.at(column, "t"), SOLUTION.at(column, "factors")

    def answer(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (solved(reads[1], reads[0]),), (), ()

    done = Loop(answer, 1, NOTHING, reads=own(0), writes=own(0)[:1], scratch=True)
    return [substitute(False), substitute(True), Part(done, lambda plan: _of(plan).every())]


def outward() -> Part:
    """The new x, and the accelerations of bodies."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        above, S, x = reads
        return (x, above + S * x), (), ()

    reads = (ROW.at(0, "a_new"), ROW.at(1, "S"), _cold(2))
    loop = Loop(step, 3, NOTHING, reads=reads, writes=(ROW.at(1, "x_new"), ROW.at(1, "a_new")))
    return Part(loop, lambda plan: _of(plan).answers(plan.row, plan.up))


def found() -> Part:
    """Nothing is left to find."""
    return Part(Loop(lambda *_: ((0.0,), (), ()), 0, NOTHING, writes=(fixed("coupling"),)), once)


def prepared(kinds: list[Kind]) -> list[Part]:
    """Before the tree is swept: loads, and what points add to them."""
    return [*started(), *map(joining, kinds)]


def solution(finishes: bool) -> list[Part | Again]:
    """After it was swept: x, where bodies press on each other."""
    body: list[Part | Again] = [
        composed(),
        *entries(),
        couplings(),
        *factored(),
        *substituted(),
        outward(),
        found(),
    ]
    return [begun(finishes), Again(body, fixed("coupling").offset, 1), unmeasured(), measured()]
