"""The inputs of a step: controls, forces on bodies, a controller; and the solver of its constraints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree._varying import scan
from kinetree.actuate import Actuation
from kinetree.constrain.actuated import actuated
from kinetree.constrain.native import Solver
from kinetree.dynamics.schedules.whole import Huge
from kinetree.model import Model

from .constrained import Present
from .forces import Controller, control_force


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Drive:
    """All that acts during a step; arrays are (batch, ...)."""

    ctrl: Any  # (batch, nu)
    f_ext: Any  # (batch, n_bodies, 6), or None
    h: Any  # the step, seconds
    time: Any = None  # at the start of the step, for the controller
    solver: Solver | None = None  # the native solver for the constraints
    constraints: Present | None = field(default=None, metadata={"static": True})
    controller: Controller | None = field(default=None, metadata={"static": True})
    known: Huge | None = None  # a huge model, which is not traced


class Shaped(NamedTuple):
    """A controller for states with batch axes, called by steps whose states are in one row."""

    controller: Controller
    batch: tuple[int, ...]

    def __call__(self, t: Any, q: Any, qd: Any) -> Any:
        """Forces, (batch, nv)."""
        q, own = q.reshape(*self.batch, q.shape[-1]), qd.reshape(*self.batch, qd.shape[-1])
        return control_force(self.controller, t, q, own).reshape(qd.shape)


def acted(model: Model, q: Any, qd: Any, act: Any, drive: Drive, share: Any = 0.0) -> tuple[Any, Any, Actuation | None]:
    """Forces of actuators and controller (batch, nv), rates of activations (batch, na), and details of the first.

    `share`: the part of the step that is over, for controllers that use the time.
    """
    tau, rate, found = _by_actuators(model, q, qd, act, drive)
    if drive.controller is not None:
        tau = tau + control_force(drive.controller, drive.time + share * drive.h, q, qd)
    return tau, rate, found


def _by_actuators(model: Model, q: Any, qd: Any, act: Any, drive: Drive) -> tuple[Any, Any, Actuation | None]:
    if model.actuators is None:
        return jnp.zeros_like(qd), jnp.zeros_like(act), None
    if model.coupling is None:
        found = actuated(model, q, qd, drive.ctrl, act, drive.h)
        return found.force, found.rate, found
    wide = model.coupling.widen_q(q), model.coupling.widen_v(qd)
    found = actuated(model.uncoupled, *wide, drive.ctrl, act, drive.h)
    return model.coupling.narrow(found.force), found.rate, found


SHARES = (0.0, 0.5, 0.5, 1.0)  # parts of the step, at which the stages of Runge and Kutta are
WEIGHTS = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def four_stages(stage: Callable[[Any, Any, Any], Any], carry: Any, drive: Drive) -> Any:
    """The result of `stage(carry, share, weight)`, four times.

    With constraints the stages are a loop, which takes a quarter of the time to compile. Without constraints they are
    written out, as a loop would make a GPU wait.
    """
    if drive.constraints is None:
        for share, weight in zip(SHARES, WEIGHTS, strict=True):
            carry = stage(carry, share, weight)
        return carry
    table = jnp.asarray(SHARES, drive.h.dtype), jnp.asarray(WEIGHTS, drive.h.dtype)
    return scan(lambda c, row: (stage(c, *row), None), carry, table)[0]
