"""Steps that keep rigid loops closed: their drift is taken off at the end of each."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from kinetree.dynamics.loops.close import kept_closed
from kinetree.model import Model, State

from .drive import Drive

Step = Callable[[Model, State, Drive], State]


def closing(step: Step) -> Step:
    """The step, and then a projection onto what the loops leave free: positions first, then velocities.

    Projections are the nearest ones in the metric of the mass matrix. So they do not push the centre of mass of a
    robot that floats, and take off no more energy than the drift has.
    """

    @wraps(step)
    def taken(model: Model, state: State, drive: Drive) -> State:
        after = step(model, state, drive)
        if model.loops is None:
            return after
        q, qd = kept_closed(model, after.q, after.qd)
        return replace(after, q=q, qd=qd)

    return taken
