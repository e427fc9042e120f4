"""Accelerations for steps: the only link between steps and dynamics with contact, limits and friction loss.

The kinds of constraints must be known when a step is compiled. `constraints_of` finds them in advance, from the model's
numbers. Inside `jit`, where numbers may be unknown, all possible constraints are included.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from kinetree.constrain.constrained import posed, timestep_of
from kinetree.constrain.joint_groups import Present, near_limits, present
from kinetree.constrain.moving import natively
from kinetree.constrain.native import Solver
from kinetree.constrain.problem import equalities_of, may_touch, scene_of
from kinetree.constrain.weights import inverse_weights
from kinetree.dynamics import forward_dynamics
from kinetree.model import Model, World
from kinetree.model.arguments import is_traced
from kinetree.model.copies import with_same_rows


class Accelerated(NamedTuple):
    """The accelerations of a mechanism under forces."""

    qdd: Any  # (batch, nv)
    total: Any = None  # (batch, nv), with constraints: all forces, H times the acceleration in world axes
    multipliers: Any = None  # forces of the rows of rigid loops, from native code


def constraints_of(model: Model) -> Present | None:
    """The constraints that act on a model, or None."""
    kept = model.__dict__  # beside the fields, so that no copy with other numbers has it
    if "_constraints" not in kept:
        found = present(model.uncoupled)
        acts = found.acts or may_touch(model) or _carried(model) or _equal(model)
        kept["_constraints"] = found if acts else None
    return kept["_constraints"]


def prepared(model: Model, found: Present | None) -> Model:
    """The model with the constants of its constraints, which do not change from step to step."""
    world = model.world or World()
    if found is None or world.inverse_weights is not None:
        return model
    kept = model.__dict__  # beside the fields, so that no copy with other numbers has it
    if "_prepared" not in kept:
        full = with_same_rows(model, world=world.replace(inverse_weights=inverse_weights(model.uncoupled)))
        if is_traced(full):
            return full
        kept["_prepared"] = full
    return kept["_prepared"]


def with_constraints(model: Model, found: Present | None) -> Model:
    """A traced model, with the constraints that were found earlier from its numbers."""
    same = with_same_rows(model)
    same.__dict__["_constraints"] = found
    return same


def constrained(
    model: Model,
    found: Present | None,
    q: Any,
    qd: Any,
    tau: Any,
    f_ext: Any,
    warm_start: Any,
    h: Any,
    solver: Solver | None = None,
) -> Accelerated:
    """Accelerations under the forces tau, (batch, nv), for a step h; by native code if there is a solver."""
    if found is None:
        return Accelerated(forward_dynamics(model, q, qd, tau, f_ext))
    if solver is None:
        return _by_xla(found, q, qd, tau, f_ext, warm_start, model, h)
    given = q, qd, tau, f_ext, warm_start
    if not is_traced(solver, given):  # JAX takes milliseconds to look at the arrays of a model.
        return _by_lanes(solver, *given)
    multipliers = solver.no_forces(q)

    def by_xla(*given: Any) -> Accelerated:
        return _by_xla(found, *given)._replace(multipliers=multipliers)

    return natively(_by_lanes, by_xla, _moved, solver, *given, model, h)


def _by_lanes(solver: Solver, q: Any, qd: Any, tau: Any, f_ext: Any, warm_start: Any, *_: Any) -> Accelerated:
    solved = solver(q, qd, tau, f_ext, warm_start)
    return Accelerated(solved.qdd, solved.total, solved.multipliers)


def _moved(
    solver: Solver, motions: Any, reached: Accelerated, q: Any, qd: Any, tau: Any, f_ext: Any, *_: Any
) -> Accelerated:
    """The same where accelerations are known."""
    solved = solver.at_solution(
        q, qd, tau, f_ext, motions=motions, solution=reached.qdd, multipliers=reached.multipliers
    )
    return Accelerated(solved.qdd, solved.total)


def _by_xla(
    found: Present, q: Any, qd: Any, tau: Any, f_ext: Any, warm_start: Any, model: Model, h: Any
) -> Accelerated:
    smooth, solved = posed(model, found, q, qd, tau, f_ext, warm_start, timestep_of(model, h)(q.dtype))
    if model.coupling is not None or not _only_limits(model, found):
        qdd, forces, *_ = solved()
        return Accelerated(qdd, smooth + forces)
    # Most states of an arm are far from its limits, and then move freely. Which states are solved does not depend on
    # the others in the batch, so neither do their bits.
    near = near_limits(model, found, q)[:, None]
    free = forward_dynamics(model, q, qd, tau, f_ext), jnp.zeros_like(smooth)
    pushed = lax.cond(near.any(), lambda: solved()[:2], lambda: free)
    qdd, forces = (jnp.where(near, a, b) for a, b in zip(pushed, free, strict=True))
    return Accelerated(qdd, smooth + forces)


def _only_limits(model: Model, found: Present) -> bool:
    """True if limits of hinges and sliders are the only constraints of a model."""
    others = found._replace(lower=(), upper=())
    return not (others.acts or may_touch(model) or _carried(model) or _equal(model))


def _carried(model: Model) -> bool:
    """True if a fluid or gravity compensation acts on bodies."""
    world = model.world
    return world is not None and (world.gravity_compensation is not None or world.fluid is not None)


def _equal(model: Model) -> bool:
    return equalities_of(model) is not None


def acting(model: Model, integrator: str = "") -> str:
    """The forces on a mechanism besides gravity, springs and dampers, in words."""
    found = None if integrator == "variational" else constraints_of(model)
    parts = {}
    if found is not None:
        scene = scene_of(model)
        parts["pairs of shapes that may touch"] = 0 if scene is None else len(scene.layout.pairs)
        crowd = None if scene is None else scene.layout.crowd
        parts["moving shapes whose pairs are found in each state"] = 0 if crowd is None else len(crowd.shapes)
        parts["joint limits"] = len({*found.lower, *found.upper, *found.balls})
        parts["dry friction of joints"] = len(found.loss) + len(found.sliding_loss)
        parts["tendons"] = len({*found.tendon_rows, *found.tendon_forces})
    parts["actuators, controls at zero"] = model.nu
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "nothing"
