"""Hybrid dynamics: for some joints the force is given, for the others the acceleration (RBDA section 9.2).

A joint with a given acceleration does not react to forces, as if its armature were infinite: its 1/d is zero. So this
is the articulated-body algorithm with S qdd added to the velocity product c of such joints. Inverse dynamics then gives
their forces.
"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from kinetree._types import AnyArray, Array, Bool, Float
from kinetree.model import Model
from kinetree.model.arguments import evaluate_for
from kinetree.model.coordinates import velocity_product_shift
from kinetree.model.required import require_model
from kinetree.spatial import Motion

from .algorithms.aba import ABA, accelerations
from .algorithms.rnea import RNEA
from .positive import require_solution
from .recursion import Row, seen_as
from .schedules.run import run

VELOCITIES, BODIES, ACCELERATIONS = ABA.passes
LED, FREE = "led", "free"  # the given acceleration of a joint, else 0; and 1 if its force is given, else 0


def _locked(row: Row) -> Row:
    """The row with 1/d = 0 if its acceleration is given: forces do not move it."""
    none = jnp.zeros_like(row.free)
    return Row({**row, "armature": row.armature + jnp.where(row.free > 0, none, jnp.full_like(none, jnp.inf))})


def _accelerations(row: Row, parent: Motion) -> tuple[Motion, dict]:
    a, found = accelerations(row, parent)
    return a, {"qdd": jnp.where(row.free > 0, found["qdd"], row.led)}


HYBRID = replace(
    ABA,
    name="hybrid",
    inputs=(*ABA.inputs, LED, FREE),
    passes=(
        VELOCITIES,
        seen_as(BODIES, _locked, given=(*BODIES.given, LED, FREE)),
        replace(ACCELERATIONS, visit=_accelerations, given=(*ACCELERATIONS.given, LED, FREE)),
    ),
    again=None,
)


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
        free, none = given != 0, jnp.zeros_like(qdd)
        led = jnp.where(free, none, qdd - velocity_product_shift(model.structure, qd.T).T)
        state = {"q": q, "qd": qd}
        forces = {"tau": jnp.where(free, tau, none), LED: led, FREE: jnp.asarray(free, q.dtype)}
        found = run(HYBRID, model, state | forces, f_ext)["qdd"]
        needed = run(RNEA, model, state | {"qdd": found}, f_ext)["tau"]
        return found, jnp.where(free, tau, needed)

    found, needed = evaluate_for(model, compute, q=q, qd=qd, qdd=qdd, tau=tau, given=given, f_ext=f_ext)
    return require_solution(model, "hybrid_dynamics", found, q=q, qd=qd, qdd=qdd, tau=tau, f_ext=f_ext), needed
