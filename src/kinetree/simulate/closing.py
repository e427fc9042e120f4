"""Steps that keep rigid loops closed: each step ends with a correction of the drift."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from kinetree.dynamics.loops.close import kept_closed
from kinetree.model import Model, State

from .drive import Drive

Step = Callable[[Model, State, Drive], State]


def closing(step: Step) -> Step:
    """The step, followed by a projection onto closed loops: positions first, then velocities.

    Projections are orthogonal in the metric of the mass matrix. So they do not push the centre of mass of a floating
    robot, and they remove only the energy of the drift.
    """

    @wraps(step)
    def taken(model: Model, state: State, drive: Drive) -> State:
        after = step(model, state, drive)
        if model.loops is None:
            return after
        q, qd = kept_closed(model, after.q, after.qd)
        return replace(after, q=q, qd=qd)

    return taken
