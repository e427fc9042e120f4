"""A mechanism with every kind of joint, fixed bodies among them, and states of it."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt
from tests.build import build_model
from tests.reference import generate

KINDS = ("revolute", "free", "prismatic", "spherical", "fixed", "helical", "planar", "translation")
BODIES = (2, 4, 9)  # on a slider, fixed to a moving body, at a leaf


@lru_cache
def mixed_model() -> kt.Model:
    """Ten bodies; the eight kinds of joints in turn."""
    return build_model(generate.random_tree(np.random.default_rng(4), 10, KINDS))


@lru_cache
def state(model: kt.Model, batch: int = 3) -> tuple:
    """q, qd, qdd as JAX arrays."""
    q, qd = kt.random_state(model, 7, (batch,))
    qdd = np.random.default_rng(8).standard_normal(qd.shape)
    return jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)


def rate(model, function, q, qd, qdd=None):
    """d/dt of function(q) or function(q, qd) along the motion, exactly."""
    qdd = jnp.zeros_like(qd) if qdd is None else qdd

    def at(t):
        here = kt.integrate(model, q, qd, jnp.full(q.shape[:1], t))
        return function(here, qd + t * qdd)

    return jax.jvp(at, (0.0,), (1.0,))[1]


def resisted_by_armature(model, qd, qdd):
    """qdd, but along the axes of free joints the acceleration of the joint's origin, which has ω × v more."""
    felt = np.array(qdd)
    for first, _, free in model.structure.quaternion_joints:
        if free:
            felt[..., first + 3 : first + 6] += np.cross(qd[..., first : first + 3], qd[..., first + 3 : first + 6])
    return felt
