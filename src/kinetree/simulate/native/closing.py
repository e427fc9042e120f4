"""The end of a step with rigid loops, in lanes: a projection onto closed loops (simulate/closing.py).

There are two steps of Newton's method. Each finds the least motion, in the metric of the mass matrix, that closes the
loops: one round of Newton's tree without forces (constrain/native). The factors of the last round then give the least
change of the velocity that keeps the loops closed.
"""

import numpy as np

from kinetree.constrain.native import kinematics
from kinetree.constrain.native.delassus import correct_solution, of_pivot
from kinetree.constrain.native.features import Features, Linking
from kinetree.constrain.native.kinematics import at_q, rows_apart
from kinetree.constrain.native.linked import linked_parts, loop_parts
from kinetree.constrain.native.memory import ROW, fixed
from kinetree.constrain.native.newton import at_rest, inward, outward, unloaded
from kinetree.constrain.native.parts import Again, Part, added, copy, fill, once, part, table
from kinetree.constrain.native.plan import Plan
from kinetree.constrain.native.programs import following
from kinetree.constrain.native.programs import outward as placed

from .moves import Moves

CLOSING_STEPS = 2  # Newton steps; each squares the error of a step in time


def move_q(m: Moves) -> Part:
    """Move q by the motion that was found."""

    def turns(plan: Plan) -> np.ndarray:
        rows, columns = m.joints(plan)
        return table(plan.row(rows), plan.q + columns)

    q = at_q(1, m.nq)
    return part(turns, lambda q, *move: (m.screwed(q, move),), (q, *rows_apart(0, "x_new", m.nv)), (q,))


def _project_qd() -> Part:
    """Project qd along the loops."""
    return copy(Plan.every_row, (ROW.at(0, "x_new"),), added(ROW.at(0, "qd")))


def bare_linking(f: Features) -> Linking:
    """Loops, and joints that follow others exactly."""
    follows = ("mimics",) if "mimics" in f.linking.lengths else ()
    return Linking(follows, loops=f.linking.loops, following=f.linking.following)


def closing(f: Features, moves: list[Moves]) -> list[Part | Again]:
    """All parts; none without loops."""
    if not f.linking.rigid:
        return []
    linked = linked_parts(bare_linking(f), False, True, "motion")
    start = fill(once, fixed("going"), values=(float(CLOSING_STEPS),))
    steps: list[Part | Again] = [
        *([following()] if "mimics" in f.linking.lengths else []),
        *kinematics.placing(f.quaternions),
        *kinematics.bases(),
        *placed(f.quaternions),
        *loop_parts(f.linking),
        *kinematics.bodies(),
        fill(Plan.every_row, ROW.at(0, "b")),
        *unloaded(False),
        *linked.before,
        *linked.after,
        at_rest(),
        *inward(False),
        *linked.swept,
        *outward(False),
        *map(move_q, moves),
        part(once, lambda: (-1.0,), (), added(fixed("going"))),
    ]
    last = [fill(Plan.every_row, of_pivot(0, "u")), *correct_solution(False, "change"), *outward(False), _project_qd()]
    return [start, Again(steps, fixed("going").offset, CLOSING_STEPS, uniform=True), *last]
