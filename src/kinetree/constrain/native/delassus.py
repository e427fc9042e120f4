"""Coupling rows in lanes: rows G of stiffness C over several joints or two bodies, solved together with the tree.

The sweep inward factors the matrix of the tree, A = Ψ⁻¹ D Ψ⁻ᵀ: D are the pivots, and u = Ψ f what it leaves of f.
With V = Ψ Gᵀ √C, one sweep for each row along the bodies that carry it,

    (A + Gᵀ C G)⁻¹ = Ψᵀ (D + V Vᵀ)⁻¹ Ψ,   (D + V Vᵀ)⁻¹ = D⁻¹ − D⁻¹ V K⁻¹ Vᵀ D⁻¹,   K = 1 + Vᵀ D⁻¹ V   (Woodbury).

So coupling rows change u, between the sweep inward and the one outward, and nothing else. K, the scaled Delassus
matrix, has a row for each link (links.py) and is factored as L D Lᵀ where it has entries. Its eigenvalues are at least
1. Links that do not act have no stiffness, and take no turns.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.lanes import Loop, Slots
from kinetree.spatial import Force

from .links import CARRIER, LINK
from .memory import NOTHING, NUMBER, REPLY, ROW, ZERO3
from .parts import Part
from .plan import Plan


def _number(column: int) -> Slots:
    return Slots(column, 0, NUMBER)


def _of_pivot(column: int, field: str) -> Slots:
    whole = ROW.at(column, "pivot")
    return whole._replace(offset=whole.offset + {"d_inverse": 7, "u": 8}[field], tree=NUMBER)


def _entries(plan: Plan) -> Any:
    return plan.links.entries(plan.row, plan.reply)


def emptied() -> list[Part]:
    """No force on any path."""
    stiff = LINK.at(1, "stiff")
    carriers = Loop(lambda *_: ((Force(ZERO3, ZERO3),), (), ()), 2, NOTHING, writes=(CARRIER.at(0, "sag"),), when=stiff)
    entries = Loop(lambda *_: ((0.0,), (), ()), 4, NOTHING, writes=(_number(0),), when=stiff)
    return [
        Part(carriers, lambda plan: plan.links.carriers()),
        Part(entries, _entries),
    ]


def swept() -> Part:
    """V: what the rows leave of the forces of links."""

    def step(merges: Any, _: tuple, reads: tuple) -> tuple:
        sag, onto, push, S, pivot = reads
        u = push - S.dot(sag)
        left = sag + pivot.U * (u * pivot.d_inverse)
        return (u, jax.tree.map(lambda a, b: b + merges * a, onto, left)), (), ()

    reads = (CARRIER.at(0, "sag"), CARRIER.at(1, "sag"), _number(2), ROW.at(3, "S"), ROW.at(3, "pivot"))
    loop = Loop(step, 5, NUMBER, reads=reads, writes=(_number(2), CARRIER.at(1, "sag")), when=LINK.at(4, "stiff"))
    return Part(
        loop, lambda plan: plan.links.sweeps(plan.row)[0], lambda model, plan, known: plan.links.sweeps(plan.row)[1]
    )


def factored() -> list[Part]:
    """K and its factors."""

    def product(_: tuple, __: tuple, reads: tuple) -> tuple:
        one, two, d_inverse, other = reads
        value = one * two * d_inverse
        return (), (jnp.where(other != 0, value, jnp.zeros_like(value)),), ()

    def eliminate(_: tuple, __: tuple, reads: tuple) -> tuple:
        entry, one, two, pivot = reads
        return (entry - one * two / pivot,), (), ()

    unit = Loop(lambda known, *_: ((known,), (), ()), 1, NUMBER, writes=(_number(0),))
    reads = (_number(1), _number(2), _of_pivot(3, "d_inverse"), LINK.at(5, "stiff"))
    products = Loop(product, 6, NOTHING, reads=reads, adds=(_number(0),), when=LINK.at(4, "stiff"))
    four = tuple(map(_number, range(4)))
    eliminated = Loop(eliminate, 5, NOTHING, reads=four, writes=(_number(0),), when=LINK.at(4, "stiff"))
    inverted = Loop(
        lambda _, __, k: ((1 / k[0],), (), ()), 2, NOTHING, reads=(_number(0),), writes=(LINK.at(1, "inverse"),)
    )
    return [
        Part(unit, lambda plan: plan.links.matrix()[0], lambda model, plan, known: plan.links.matrix()[1]),
        Part(products, lambda plan: plan.links.products(plan.row)),
        Part(eliminated, lambda plan: plan.links.eliminations()),
        Part(inverted, lambda plan: plan.links.diagonal()),
    ]


def corrected(replies: bool) -> list[Part]:
    """u − V K⁻¹ Vᵀ D⁻¹ u, of the sweeps of Newton's method, or of replies to forces."""

    def total(_: tuple, __: tuple, reads: tuple) -> tuple:
        v, u, d_inverse = reads
        return (), (v * u * d_inverse,), ()

    def substitute(_: tuple, __: tuple, reads: tuple) -> tuple:
        entry, t, inverse = reads
        return (), (-(entry * t * inverse),), ()

    def correct(_: tuple, __: tuple, reads: tuple) -> tuple:
        v, t, inverse = reads
        return (), (-(v * t * inverse),), ()

    u = REPLY.at(3, "u") if replies else _of_pivot(2, "u")
    stiff = LINK.at(1, "stiff")
    zero = Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(LINK.at(0, "t"),))
    summed = Loop(
        total, 4, NOTHING, reads=(_number(0), u, _of_pivot(2, "d_inverse")), adds=(LINK.at(1, "t"),), when=stiff
    )
    own = (LINK.at(1, "t"), LINK.at(1, "inverse"))
    substituted = Loop(substitute, 3, NOTHING, reads=(_number(0), *own), adds=(LINK.at(2, "t"),), when=stiff)
    ended = Loop(correct, 4, NOTHING, reads=(_number(0), *own), adds=(u,), when=stiff)

    return [
        Part(zero, lambda plan: plan.links.every()),
        Part(summed, _entries),
        Part(substituted, lambda plan: plan.links.substitutions(False)),
        Part(substituted, lambda plan: plan.links.substitutions(True)),
        Part(ended, _entries),
    ]
