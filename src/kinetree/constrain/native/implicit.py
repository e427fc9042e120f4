"""Derivatives of a solution, by the implicit function theorem on the balance of forces.

At the solution x of H x = b + Jᵀ f(J x − a_ref) the residual r(x) of the balance is zero. If the problem changes, r
changes at a fixed x, and x changes by −A⁻¹ of that, with Newton's matrix A = H + Jᵀ C J. The residual is a program
without repeats, which can run backwards (`left_over`). A⁻¹ is one round of Newton's method with the curvatures of
constraints at the solution (`solve_change`), and it is symmetric. The acceleration of an integrator that takes loads
L at the end of a step, (H + L) α = H x, follows in the same way.
"""

from typing import Any

import jax
import numpy as np

from kinetree.lanes import Lane, Slots
from kinetree.spatial import Force

from . import joined, loops
from .conjugate import beginning, conjugate_gradients, unforced
from .features import Linking
from .kinds import Kind, load_constraints
from .linked import resist
from .memory import BODY, FORCE, ROW, ZERO3, fixed
from .newton import Linked, at_rest, cleared, inward, outward, unloaded
from .parts import Again, Part, added, copy, fill, once, part, table
from .plan import Plan


def _weight(column: int) -> Slots:
    """The force for a motion of a row and of all that hangs from it. It uses a slot of Newton's rounds."""
    return ROW.at(column, "pivot")._replace(tree=jax.tree.structure(FORCE))


def weighed(motion: str, pulled: bool) -> list[Part]:
    """The force that each body needs for a motion, minus that of constraints, if they `pull`."""
    pulls = (ROW.at(0, "force"),) if pulled else ()

    def bodies(inertia, a, *force):
        need = inertia @ a
        return (need - force[0] if pulled else need,)

    def others(*force):
        return (-force[0] if pulled else Force(ZERO3, ZERO3),)

    seen, made = (BODY.at(1, "inertia"), ROW.at(0, motion), *pulls), (_weight(0),)
    return [
        part(lambda plan: table(plan.row(plan.massive), plan.body(plan.massive)), bodies, seen, made),
        part(Plan.without_bodies, others, pulls, made),
    ]


def _summed(step: Any, fields: tuple[str, ...], array: int) -> Part:
    """Output `step(armature, S · weight, *fields)`, from the last rows to the first."""

    def turn(armature, S, weight, *rest):
        return (weight, step(armature, S.dot(weight), *rest))

    reads, made = (ROW.at(1, "S"), _weight(1), *ROW.of(1, *fields)), (*added(_weight(0)), Lane(array, 2))

    def turns(plan: Plan) -> np.ndarray:
        rows = plan.outward_rows[::-1]
        return table(plan.up(rows), plan.row(rows), rows)

    known = 0.0, lambda model, plan, known: model.rows.armature[plan.outward_rows[::-1]]
    return part(turns, turn, reads, made, known)


def left_over(array: int, linking: Linking) -> list[Part]:
    """H x − b − Jᵀ f on each row, after constraints pulled on rows and joints."""
    heavy = resist(linking, ("x", False, 1.0))

    def left(armature: Any, need: Any, x: Any, b: Any, push: Any, *more: Any) -> Any:
        return sum(more, need + armature * x - b - push)

    fields = "x", "b", "push", *(("resistance",) if heavy else ())
    return [*weighed("a", True), *heavy, _summed(left, fields, array)]


def left_over_of_motion(array: int) -> list[Part]:
    """H x − Gᵀ λ on each row, after loops pulled."""
    return [
        *weighed("a", True),
        _summed(lambda armature, need, x, push: need + armature * x - push, ("x", "push"), array),
    ]


def left_over_of_step(array: int, linking: Linking) -> list[Part]:
    """H (α − x) + L α − Gᵀ (μ − λ) on each row: the residual of the equation of an integrator's acceleration.

    With rigid loops these have the forces μ for α, and λ for x; the slots of forces hold λ − μ.
    """

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.up(plan.outward_rows), plan.row(plan.outward_rows))

    def left(armature: Any, need: Any, by: Any, alpha: Any, load: Any, *push: Any) -> Any:
        return sum(push, need + armature * by + load * alpha)

    def further(above, S, x, alpha):
        return (above + S * (alpha - x), alpha - x)

    held, fields = (), ("x_new", "alpha", "load")
    if linking.rigid:
        pushed = [loops.apply_follower_forces()] if linking.following else []
        held = (
            fill(Plan.every_row, ROW.at(0, "push")),
            *(loops.apply_forces(kind, _weight) for kind in linking.loops),
            *pushed,
        )
        fields = (*fields, "push")
    heavy = resist(linking, ("alpha", True, 1.0), ("x", False, -1.0))
    fields = (*fields, "resistance") if heavy else fields
    return [
        fill(Plan.every_base, ROW.at(0, "a_new")),
        part(turns, further, (ROW.at(0, "a_new"), *ROW.of(1, "S", "x", "alpha")), ROW.of(1, "a_new", "x_new")),
        *weighed("a_new", False),
        *heavy,
        *held,
        _summed(left, fields, array),
    ]


def solve_change(
    kinds: list[Kind], between: list[tuple[Kind, int]], linked: Linked, joins: bool, loaded: bool | None = None
) -> list[Part | Again]:
    """A⁻¹ b, in `x_new`, with curvatures of constraints at `x` and w.

    It is a repeat that is done once, as Newton's rounds are: so most of its loops have the same machine code.

    Arguments:
        kinds, between, linked, joins: as for `newton`.
        loaded: whether the matrix has the loads of an integrator; None if there are none.
    """
    kinds, between = [k.linearised for k in kinds], [(k.linearised, dim) for k, dim in between]

    flags = fixed("finishing"), fixed("going")
    rooted, coupled = not linked.swept, [k for k, _ in between]
    solved: list[Part | Again] = [*inward(rooted), *linked.swept, *outward(rooted)]
    joins = joins and bool(between)
    if joins:
        solved = [*joined.solve_joins()]
    elif between:
        solved += conjugate_gradients(between, False, bool(linked.swept), linked.rigid)
    round_: list[Part | Again] = [
        *unloaded(loaded is not None),
        *linked.before,
        *(load_constraints(kind, False) for kind in kinds),
        *linked.after,
        *(joined.load_joins(coupled, False) if joins else [beginning(kind, dim) for kind, dim in between]),
        cleared(),
        *solved,
    ]
    looks = joined.find_touching_bodies(coupled) if joins else unforced(coupled, bool(linked.swept)) if between else []
    return [
        fill(once, *flags, values=(float(bool(loaded)), 1.0)),
        at_rest(),
        *looks,
        Again(round_, fixed("going").offset, 1),
    ]


def copy_rows(array: int, to: str) -> Part:
    """Put an input of all rows into their slots."""
    return copy(Plan.numbered_rows, (Lane(array, 1),), (ROW.at(0, to),))


def output_rows(field: str, array: int) -> Part:
    """Output a field of all rows."""
    return copy(Plan.numbered_rows, (ROW.at(0, field),), (Lane(array, 1),))
