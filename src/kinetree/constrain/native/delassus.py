"""Coupling rows in lanes: rows G of stiffness C over several joints or two bodies, solved together with the tree.

The sweep inward factors the matrix of the tree, A = Ψ⁻¹ D Ψ⁻ᵀ: D are the pivots, and u = Ψ f what it leaves of f.
With V = Ψ Gᵀ √C, one sweep for each row along the bodies that carry it,

    (A + Gᵀ C G)⁻¹ = Ψᵀ (D + V Vᵀ)⁻¹ Ψ,   (D + V Vᵀ)⁻¹ = D⁻¹ − D⁻¹ V K⁻¹ Vᵀ D⁻¹,   K = 1 + Vᵀ D⁻¹ V   (Woodbury).

So coupling rows only change u, between the sweep inward and the one outward. K, the scaled Delassus matrix, has a row
for each link (links.py). It is factored as L D Lᵀ, in blocks of three links, where it has entries. Its eigenvalues are
at least 1 if C is not negative. Rows with C < 0 (actuators that drive velocities) have √−C in V, and −1 in place of 1.
Rows without softness (joints that follow others, loops), C → ∞, have 0 there; some of those of loops are redundant
(loops.py).
Inactive links have no stiffness; groups without an active link take no turns.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics.elements.articulated import freed_bias, joint_drive
from kinetree.lanes import Slots

from . import loops
from .links import BLOCK, CARRIER, ENTRY, GROUP, WIDTH
from .memory import NUMBER, REPLY, ROW
from .parts import Part, added, fill, part
from .plan import Plan

Three = tuple[Any, Any, Any]


def of_pivot(column: int, field: str) -> Slots:
    """A number of the pivot of a row."""
    whole = ROW.at(column, "pivot")
    return whole._replace(offset=whole.offset + {"d_inverse": 7, "u": 8}[field], tree=NUMBER)


def _every(plan: Plan) -> Any:
    return plan.links.every()


def _entries(plan: Plan) -> Any:
    return plan.links.entries(plan.row, plan.reply)


def factors_of(k: tuple) -> tuple:
    """L and the inverse of D of a symmetric 3 by 3 block, row by row: l₁₀ l₂₀ l₂₁, 1/d₀ 1/d₁ 1/d₂."""
    first = 1 / k[0]
    a, b = k[3] * first, k[6] * first
    second = 1 / (k[4] - a * k[3])
    rest = k[7] - b * k[3]
    c = rest * second
    return a, b, c, first, second, 1 / (k[8] - b * k[6] - c * rest)


def solved(factors: tuple, x: Three) -> Three:
    """The block's inverse times a vector."""
    a, b, c, first, second, third = factors
    y1 = x[1] - a * x[0]
    z2 = (x[2] - b * x[0] - c * y1) * third
    z1 = y1 * second - c * z2
    return x[0] * first - a * z1 - b * z2, z1, z2


def rows3(block: tuple) -> list[Three]:
    """The rows of a block."""
    return [block[WIDTH * r : WIDTH * (r + 1)] for r in range(WIDTH)]


def dot3(a: Three, b: Three) -> Any:
    """aᵀ b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def clear_stiffness() -> Part:
    """Set the stiffness of all links to zero."""
    return fill(_every, GROUP.at(0, "stiff"))


def clear_paths() -> list[Part]:
    """Find which groups act, and clear the forces on their paths."""

    def act(*reads):
        a, b, c = map(jnp.abs, reads[0])
        return (a + b + c,)

    when = GROUP.at(1, "acts")
    return [
        part(_every, act, (GROUP.at(0, "stiff"),), (GROUP.at(0, "acts"),)),
        fill(lambda plan: plan.links.carriers(), CARRIER.at(0, "applied"), when=when),
        fill(_entries, ENTRY.at(0, "v"), when=when, columns=4),
    ]


def sweep_links() -> Part:
    """Find V by sweeping the unit forces of links inward."""

    def step(merges, forces, onto, pushes, S, pivot):
        v = tuple(joint_drive(S, push, force) for push, force in zip(pushes, forces, strict=True))
        left = tuple(freed_bias(pivot.U, pivot.d_inverse, u, force) for u, force in zip(v, forces, strict=True))
        return (v, jax.tree.map(lambda a, b: b + merges * a, onto, left))

    reads = (CARRIER.at(0, "applied"), CARRIER.at(1, "applied"), ENTRY.at(2, "v"), ROW.at(3, "S"), ROW.at(3, "pivot"))
    made = (ENTRY.at(2, "v"), CARRIER.at(1, "applied"))
    merges = 0.0, lambda model, plan, known: plan.links.sweeps(plan.row)[1]
    return part(lambda plan: plan.links.sweeps(plan.row)[0], step, reads, made, merges, when=GROUP.at(4, "acts"))


def factor_links(rigid: bool) -> list[Part]:
    """Compute K and its factors, in blocks; `rigid`: there are loops."""

    def unit(known, stiff):
        zero = jnp.zeros_like(known[0])
        own = [jnp.where(C < 0, -one, one) for one, C in zip(known, stiff, strict=True)]
        return (tuple(own[r] if r == c else zero for r in range(WIDTH) for c in range(WIDTH)),)

    def product(one, two, d_inverse, other):
        scale = jnp.where(other != 0, d_inverse, jnp.zeros_like(d_inverse))
        scaled = tuple(jnp.where(other != 0, b * scale, jnp.zeros_like(b)) for b in two)
        return (tuple(a * b for a in one for b in scaled),)

    def eliminate(entry, one, two, pivot):
        factors = factors_of(pivot)
        answers = [solved(factors, row) for row in rows3(two)]
        taken = [dot3(row, answer) for row in rows3(one) for answer in answers]
        return (tuple(a - b for a, b in zip(entry, taken, strict=True)),)

    ones = (0.0,) * WIDTH, lambda model, plan, known: tuple(plan.links.matrix()[1].T)
    reads = (ENTRY.at(1, "v"), ENTRY.at(2, "v"), of_pivot(3, "d_inverse"), GROUP.at(5, "acts"))
    four, acts, made = tuple(BLOCK.at(column, "k") for column in range(4)), GROUP.at(4, "acts"), GROUP.of(1, "factors")
    return [
        part(lambda plan: plan.links.matrix()[0], unit, GROUP.of(1, "stiff"), four[:1], ones),
        *([loops.add_proximal_term()] if rigid else []),
        part(lambda plan: plan.links.products(plan.row), product, reads, added(four[0]), when=acts),
        part(lambda plan: plan.links.eliminations(), eliminate, four, four[:1], when=acts),
        part(lambda plan: plan.links.diagonal(), lambda k: (factors_of(k),), four[:1], made, when=GROUP.at(1, "acts")),
    ]


def correct_solution(replies: bool, asks: str = "", closing: Slots | None = None, keeps: bool = False) -> list[Part]:
    """Replace u by u − V K⁻¹ (Vᵀ D⁻¹ u − γ), in the sweeps of Newton's method, or in replies to forces.

    Arguments:
        replies: True for replies to forces, in which loops stay closed: γ is zero. asks: the field of loops that has γ;
        empty without loops. closing: the slot that says if a reply is the last one. keeps: forces of loops of the round
        before stay known.
    """

    def total(v, u, d_inverse):
        scale = u * d_inverse
        return (tuple(x * scale for x in v),)

    def substitute(back: bool) -> Part:
        def step(block, t, factors):
            answer, rows = solved(factors, t), rows3(block)
            across = rows if not back else [tuple(row[c] for row in rows) for c in range(WIDTH)]
            return (tuple(-dot3(row, answer) for row in across),)

        seen, made = (BLOCK.at(0, "k"), *own), added(GROUP.at(2, "t"))
        return part(lambda plan: plan.links.substitutions(back), step, seen, made, when=acts)

    v, u = ENTRY.at(0, "v"), REPLY.at(3, "u") if replies else of_pivot(2, "u")
    acts, own, mine = GROUP.at(1, "acts"), GROUP.of(1, "t", "factors"), GROUP.of(0, "t", "factors")
    answered = part(_every, lambda t, factors: (solved(factors, t),), mine, mine[:1], when=GROUP.at(0, "acts"))
    summed = part(_entries, total, (v, u, of_pivot(2, "d_inverse")), added(own[0]), columns=4, when=acts)
    ended = part(_entries, lambda v, t: (-dot3(v, t),), (v, own[0]), added(u), columns=4, when=acts)
    solve = [substitute(False), substitute(True), answered]
    begin = [fill(_every, GROUP.at(0, "t"))]
    if not asks:
        return [*begin, summed, *solve, ended]
    to = "force" if asks == "wanted" else "closing"
    begin += [] if replies else [loops.subtract_wanted(asks), *loops.clear_forces(to, keeps)]
    again = [loops.refine(), *solve, loops.sum_turns()] * loops.PROXIMAL_TURNS
    turns = [*solve, loops.sum_turns(first=True), *again, loops.settle_forces(), loops.keep_forces(to, closing)]
    return [*begin, summed, *turns, ended]
