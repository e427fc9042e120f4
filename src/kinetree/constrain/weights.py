"""Inverse weights: accelerations from unit forces where a file starts. They scale the regularisation.

As MuJoCo defines them (`dof_invweight0`, `body_invweight0`): the diagonal of M⁻¹, averaged over the three axes of a
ball and of each half of a free joint; and of J M⁻¹ Jᵀ at the body's centre of mass, averaged over three axes each. A
body directly on the base that only slides along a coordinate axis has the inverse of its mass and no rotation. One run
of three passes over the tree gives all of them (dynamics/algorithms/compliance.py).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

from kinetree.dynamics import forward_dynamics
from kinetree.dynamics.algorithms.compliance import COMPLIANCE, OMEGA, Compliance, answer
from kinetree.dynamics.recursion import zeros
from kinetree.dynamics.schedules.run import run
from kinetree.dynamics.tendons.lengths import tendon_jacobian, tendons_of
from kinetree.model import Model, home
from kinetree.model.arguments import evaluate, is_traced
from kinetree.model.world import InverseWeights
from kinetree.spatial import Force, Vec3

from .tendon_weights import Stiffer, stiffer


def inverse_weights(model: Model) -> InverseWeights:
    """The model's own weights; if it has none, computed once for a model with known numbers, else once in a trace."""
    if model.world is not None and model.world.inverse_weights is not None:
        return model.world.inverse_weights
    if is_traced(model):
        trace, kept = model.__dict__.get("_traced_inverse_weights", (None, None))
        if trace != (now := get_opaque_trace_state()):
            kept = _compute(model.uncoupled)
            model.__dict__["_traced_inverse_weights"] = now, kept
        return kept
    kept = model.__dict__.get("_inverse_weights")
    if kept is None:
        with jax.ensure_compile_time_eval():  # known numbers stay known inside `jit`, too
            kept = model.__dict__["_inverse_weights"] = _compute(model.uncoupled)
    return kept


def _compute(model: Model) -> InverseWeights:
    free = model.weightless
    q, nv, n = home(model), model.nv, model.n_bodies
    traced = any(isinstance(x, jax.Array) for x in jax.tree.leaves((model.rows, model.inertia)))
    xp = jnp if traced else np
    if not nv:
        return InverseWeights(xp.zeros(0), xp.zeros((n, 2)), _of_tendons(xp, free, q, _lengths(xp, free, q)))
    found = evaluate(lambda q: run(COMPLIANCE, free, {"q": q}), q=(xp.asarray(q), (model.nq,)))
    row = model.structure.row_of_body
    parts = [xp.where(row >= 0, found[name][np.maximum(row, 0)], 0.0) for name in OMEGA]
    omega = jax.tree.unflatten(jax.tree.structure(zeros(Compliance)), parts)
    (mass, h, _), frames = jax.tree.map(lambda x: xp.asarray(x, found["alone"].dtype), (free.inertia, free.frames))
    own = h * (1 / xp.where(mass > 0, mass, 1.0))
    center = frames.r + frames.E.t_mul(own)
    turning = (omega.A.xx + omega.A.yy + omega.A.zz) / 3
    zero, one = xp.zeros_like(mass), xp.ones_like(mass)
    pushes = [Vec3(*(one if i == k else zero for i in range(3))) for k in range(3)]
    sliding = sum(answer(omega, f).dot(f) for f in (Force(center.cross(e), e) for e in pushes)) / 3
    simple = _simple_sliders(xp, model)
    alone = xp.stack([1 / xp.where(mass > 0, mass, 1.0), zero], -1)
    dof, body, lengths = found["alone"], xp.stack([sliding, turning], -1), _lengths(xp, free, q)
    tendon = _of_tendons(xp, free, q, lengths)
    less = stiffer(free, q, center, lengths)
    if less is not None:
        less = less if traced else Stiffer(*map(np.asarray, less))
        dof, body, tendon = dof - less.dof, body - less.body, tendon - less.tendon
    return InverseWeights(_averaged(xp, model, dof), xp.where(simple[:, None], alone, body), tendon)


def _lengths(xp: Any, free: Model, q: Any) -> Any:
    """How the lengths of tendons grow with the joints, (tendons, nv); None if there are no tendons."""
    return None if tendons_of(free) is None else tendon_jacobian(free, xp.asarray(q))


def _of_tendons(xp: Any, free: Model, q: Any, lengths: Any) -> Any:
    """J M⁻¹ Jᵀ of each tendon, without the inertia of tendons."""
    if lengths is None:
        return None
    return (forward_dynamics(free, xp.asarray(q), xp.zeros(free.nv), lengths) * lengths).sum(-1)


def _averaged(xp: Any, model: Model, dof: Any) -> Any:
    """Each three axes of a ball or a half of a free joint have one weight."""
    joined = model.structure.quaternion_joints.astype(np.int64)
    first = np.concatenate([joined[:, 0], joined[joined[:, 2] == 1, 0] + 3])
    if not len(first):
        return dof
    three = first[:, None] + np.arange(3)
    mean = (dof[first] + dof[first + 1] + dof[first + 2]) / 3
    if xp is jnp:
        return dof.at[three].set(mean[:, None])
    whole = np.array(dof)
    whole[three] = mean[:, None]
    return whole


def _simple_sliders(xp: Any, model: Model) -> Any:
    """Bodies that MuJoCo calls simple and that do not turn: on one slider along an axis, on the base, alone."""
    structure = model.structure
    inertia = model.inertia
    centred = xp.stack([xp.asarray(x) == 0 for x in (*inertia.h, *tuple(inertia.I)[3:])]).all(0)
    slides = [j.kind == "prismatic" and sorted(map(abs, j.rows[0][2])) == [0, 0, 1] for j in structure.joints]
    leaf = np.ones(model.n_bodies, bool)
    leaf[structure.parent[structure.parent >= 0]] = False
    return centred & leaf & (structure.parent < 0) & np.array(slides, bool)[structure.joint_code]
