"""The error of a failed run: the joint, the time, and the likely cause."""

import contextlib
from typing import Any, NamedTuple

import numpy as np

from kinetree.dynamics import forward_dynamics
from kinetree.model import Model

from .forces import Controller, control_force, joint_force
from .trajectory import Trajectory


class SimulationError(RuntimeError):
    """A state stopped being finite.

    Attributes:
        time: of the last finite state.
        joint: the joint that failed first.
        trajectory: what was recorded before.
    """

    def __init__(self, message: str, time: float, joint: str, trajectory: Trajectory | None = None):
        super().__init__(message)
        self.time, self.joint, self.trajectory = time, joint, trajectory

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """For copies and pickles: a pool of processes waits for ever for an error that it can not read."""
        return type(self), (self.args[0], self.time, self.joint, self.trajectory)


class Failure(NamedTuple):
    """The last finite state, (*batch, nq) and (*batch, nv), and the state after it."""

    time: float
    q: Any
    qd: Any
    next_q: Any
    next_qd: Any


def _first_bad(a: Any) -> tuple[int, ...] | None:
    bad = ~np.isfinite(np.asarray(a))
    return tuple(int(i) for i in np.argwhere(bad)[0]) if bad.any() else None


def joint_of(model: Model, column: int, positions: bool = False) -> int:
    """The number of the joint that a column of qd, or of q, belongs to."""
    s, coupling = model.structure, model.coupling
    start = s.q_start if positions else s.v_start
    if coupling is not None:
        column = int((coupling.kept_q if positions else coupling.kept_v)[column])
    return int(np.searchsorted(start, column, side="right")) - 1


def explain_failure(model: Model, controller: Controller | None, dt: float, integrator: str, failed: Failure) -> Any:
    """A SimulationError that says what went wrong. Without a known cause it names the fastest joint."""
    t, q, qd = failed.time, failed.q, failed.qd
    bad, at_position = _first_bad(failed.next_qd), False
    if bad is None:
        bad, at_position = _first_bad(failed.next_q), True
    assert bad is not None
    state = bad[:-1]
    speeds = np.abs(np.asarray(qd)[state])
    fastest = int(np.argmax(speeds)) if speeds.size else 0
    tau = control_force(controller, np.asarray(t, qd.dtype), q, qd)
    wrong_tau = _first_bad(tau)
    qdd = np.full(model.nv, np.nan)
    if wrong_tau is None:
        force = joint_force(model, controller, np.asarray(t, qd.dtype), q, qd)
        with contextlib.suppress(ValueError):  # no finite acceleration
            qdd = np.asarray(forward_dynamics(model, q, qd, force))[state]
    if wrong_tau is not None:
        column, at_position = wrong_tau[-1], False
        cause = "the controller returned a force that is not finite"
    elif speeds.size and speeds[fastest] * dt > 0.5:
        column, at_position = fastest, False
        cause = f"it moves {speeds[fastest] * dt:.2g} in one step: unstable, or dt is too long; try a shorter dt"
    elif not np.isfinite(qdd).all():
        column, at_position = int(np.argmax(~np.isfinite(qdd))), False
        cause = "its acceleration is not finite: does something without inertia move?"
    elif integrator == "variational":
        column, at_position = fastest, False
        cause = "the equations of the implicit step could not be solved; try a shorter dt"
    else:
        column = bad[-1]
        largest = np.max(np.abs(qdd), initial=0.0)
        cause = f"accelerations reach {largest:.2g}: dt is too long for the forces; try a shorter one, or 'variational'"
    joint = joint_of(model, column, at_position)
    name, body = model.joint_names[joint], model.names[joint]
    which = f" of state {', '.join(map(str, state))}" if state else ""
    message = f"not finite after t = {t:.6g} s: joint {name!r} (body {body!r}){which}: {cause}"
    return SimulationError(message, t, name)
