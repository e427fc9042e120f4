"""Limits and friction loss of hinges and sliders: how soft each is, for all rows that have one."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library, there
from kinetree.model import Model

from ..softness import soft_row
from ..weights import inverse_weights
from .features import with_power
from .kinematics import at_q
from .memory import LIMIT, ROW, fixed
from .parts import Known, Part, part, table
from .plan import Plan
from .tables import split


class Softness(NamedTuple):
    """The softness of a constraint on a joint."""

    solref: tuple
    solimp: tuple
    weight: Any


class LimitStart(NamedTuple):
    """The bound of a limit; its sign is 1 for a lower one, −1 for an upper one."""

    sign: Any
    bound: Any
    margin: Any


class SoftLimit(NamedTuple):
    """A limit: `LimitStart`, and its softness."""

    sign: Any
    bound: Any
    margin: Any
    soft: Softness


class Loss(NamedTuple):
    """Friction loss."""

    most: Any
    soft: Softness


LIMIT_LIST = "limits"  # the name of the list of limits that are reached
SOFT = Softness((0.0,) * 2, (0.0,) * 5, 0.0)
REACH = LimitStart(0.0, 0.0, 0.0)
BOUND, LOSS = SoftLimit(*REACH, SOFT), Loss(0.0, SOFT)


def softened(soft: Softness, power: int | None, r: Any, velocity: Any, active: Any, least_time: Any) -> tuple:
    """D and the reference acceleration of a row."""
    return soft_row(soft.solref, with_power(soft.solimp, power), soft.weight, r, velocity, active, least_time)


def softness(solref: Any, solimp: Any, weight: Any) -> Softness:
    """Of constraints, from arrays over them."""
    return Softness(split(solref), split(solimp), weight)


def soften_limits(power: int | None) -> list[Part]:
    """Find which limits are reached, and the softness of these."""

    def beyond(known: LimitStart | SoftLimit, q: Any) -> Any:
        return known.sign * (q - known.bound) - known.margin

    def look(known, q):
        return (jnp.where(beyond(known, *q) < 0, 1.0, 0.0), 0.0)

    def step(known, q, qd, least_time):
        return softened(known.soft, power, beyond(known, *q), known.sign * qd, True, least_time)

    def turns(plan: Plan) -> np.ndarray:
        return np.concatenate([limit_table(plan), table(plan.q + plan.structure.q_of_row[plan.limits[:, 0]])], 1)

    def reach(model: Model, plan: Plan, known: Known) -> LimitStart:
        assert model.limits is not None
        rows, sign = plan.limits.T
        column = plan.structure.q_of_row[rows]
        bounds = [x[column[sign == s]] for s, x in ((1, model.limits.lower), (-1, model.limits.upper))]
        margin = plan.soft_joints.limit_margin[rows]
        return LimitStart(sign.astype(float), library(bounds).concatenate(bounds), margin)

    def constants(model: Model, plan: Plan, known: Known) -> SoftLimit:
        rows, joints = plan.limits[:, 0], plan.soft_joints
        own = softness(joints.limit_solref[rows], joints.limit_solimp[rows], inverse_weights(model).dof[rows])
        return SoftLimit(*reach(model, plan, known), own)

    q, own = at_q(2, 1), LIMIT.of(1, "D", "ref")
    reads = (q, ROW.at(0, "qd"), fixed("least_time"))
    return [
        part(turns, look, (q,), own, (REACH, reach), lists=(LIMIT_LIST, own[0])),
        part(turns, step, reads, own, (BOUND, constants), when=own[0], follows=LIMIT_LIST),
    ]


def soften_losses(power: int | None) -> Part:
    """Find the softness of friction losses."""

    def step(known, qd, least_time):
        return softened(known.soft, power, jnp.zeros_like(qd), qd, known.most > 0, least_time)

    def constants(model: Model, plan: Plan, known: Known) -> Loss:
        rows, soft = np.array(plan.has.loss, np.int64), plan.soft_joints
        own = softness(soft.friction_solref[rows], soft.friction_solimp[rows], inverse_weights(model).dof[rows])
        return Loss(there(model.friction)[rows], own)

    return part(loss_table, step, (ROW.at(0, "qd"), fixed("least_time")), LIMIT.of(1, "D", "ref"), (LOSS, constants))


def limit_table(plan: Plan) -> np.ndarray:
    """Rows and limits."""
    return table(plan.row(plan.limits[:, 0]), plan.limit(np.arange(len(plan.limits))))


def loss_table(plan: Plan) -> np.ndarray:
    """Rows and friction losses."""
    return table(plan.row(np.array(plan.has.loss, np.int64)), plan.loss)
