"""Hybrid dynamics: some joints have their force given, the others their acceleration (RBDA section 9.2).

A joint that follows a given acceleration, whatever the force, is one with infinite armature: its 1/d is zero. So this
is the articulated-body algorithm with S qdd added to the velocity product c of such joints; afterwards τ = Sᵀ (IA a +
pA).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import AnyArray, Array, Bool, Float
from kinetree.model import Model
from kinetree.model.arguments import evaluate_for
from kinetree.model.coordinates import velocity_product_shift
from kinetree.model.required import require_model
from kinetree.tree import Layout, layout, restore
from kinetree.tree.fix import inward_visits

from .aba import unshifted
from .algorithms.aba import ABA
from .articulated_rows import accelerations, articulated_rows
from .elements.articulated import Articulated
from .joint_terms import felt_acceleration, joint_force
from .positive import require_solution
from .recursion import Row
from .schedules.arranged import arranged, by_position
from .schedules.operators import inward_operator


@jax.jit
def _hybrid(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any, tau: Any, force_given: Any, f_ext: Any) -> Any:
    at = arranged(laid, model, q)
    led = jnp.where(force_given, jnp.zeros_like(qdd), qdd - velocity_product_shift(model.structure, qd.T).T)
    rows = articulated_rows(laid, model, at, qd, tau, f_ext)
    free, led = by_position(laid, force_given), by_position(laid, led)
    locked = jnp.where(free, rows.armature, jnp.full_like(rows.armature, jnp.inf))
    rows = Row({**rows, "armature": locked, "led": led, "inertia": at.rows.inertia})
    received, _ = inward_visits(inward_operator(ABA.passes[1]), laid, rows, Articulated.zero_like(at.gravity.x))
    whole = rows.own + received
    a, qdd_free = accelerations(laid, at, rows, whole)
    found = unshifted(model, restore(laid, jnp.where(free, qdd_free, led)).T, qd)
    armature, slide = (jnp.asarray(x, q.dtype) for x in (model.rows.armature, model.rows.slide))
    felt = felt_acceleration(found, slide, velocity_product_shift(model.structure, qd.T).T)
    needed = joint_force(restore(laid, rows.axis.dot(whole @ a)).T, armature, felt)
    return found, jnp.where(force_given, tau, needed)


def hybrid_dynamics(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    qdd: Float[Array, "... nv"],
    tau: Float[Array, "... nv"],
    given: Bool[AnyArray, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
) -> tuple[Float[Array, "... nv"], Float[Array, "... nv"]]:
    """The accelerations and forces that are not given, from those that are.

    Arguments:
        model: the mechanism.
        q, qd, qdd, tau: (..., nq), (..., nv), (..., nv), (..., nv).
        given: (..., nv) booleans: True where tau is given (and qdd ignored), False where qdd is given (and tau
        ignored). f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, moment about the world origin
        first.

    Returns:
        (qdd, tau), both (..., nv), complete.

    Reference: Featherstone 2008 section 9.2.
    """
    require_model(model)
    if model.coupling is not None or model.passive is not None or model.loops is not None:
        raise ValueError("hybrid_dynamics serves models without mimic joints, springs, dampers and rigid loops")

    def compute(q: Any, qd: Any, qdd: Any, tau: Any, given: Any, f_ext: Any) -> Any:
        if model.nv == 0:
            return jnp.zeros_like(qdd), jnp.zeros_like(tau)
        laid = layout(model.tree, "paths")
        qdd, tau = _hybrid(laid, model, q, qd, qdd, tau, given != 0, f_ext)
        return qdd, tau

    found, needed = evaluate_for(model, compute, q=q, qd=qd, qdd=qdd, tau=tau, given=given, f_ext=f_ext)
    return require_solution(model, "hybrid_dynamics", found, q=q, qd=qd, qdd=qdd, tau=tau, f_ext=f_ext), needed
