"""`kinetree.scaled`: a mechanism with some of its numbers multiplied, for worlds that differ a little."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Number

from .fork import require_xla
from .model import Model
from .required import require_model


def scaled(
    model: Model,
    *,
    mass: Number = 1.0,
    armature: Number = 1.0,
    damping: Number = 1.0,
    stiffness: Number = 1.0,
    joint_friction: Number = 1.0,
    gravity: Number = 1.0,
    gain: Number = 1.0,
    friction: Number = 1.0,
    size: Number = 1.0,
) -> Model:
    """The model with some of its numbers multiplied by factors, which may be JAX arrays.

    Many worlds that differ are one model whose arrays have a first axis over the worlds. `jax.vmap` makes it:
    `models = jax.vmap(lambda m, f: kt.scaled(model, mass=m, friction=f))(masses, frictions)`. `advance` and `rollout`
    take it as they take one model, and `jax.vmap` takes it under every function.

    Arguments:
        model: the mechanism.
        mass: of masses and inertias, one for all or (n_bodies,).
        armature, damping, stiffness, joint_friction: of the joints, one for all or (nv,) each.
        gravity: of its acceleration.
        gain: of the actuators' gains, one for all or (n,); a servo's bias is multiplied too.
        friction: of the surfaces, one for all or (shapes,).
        size: of the shapes that touch, one for all or (shapes,); masses stay.
    """
    require_model(model)
    shapes = 0 if model.world is None or model.world.scene is None else len(model.world.scene.layout.kinds)
    mass = _checked("mass", mass, model.n_bodies)
    joints = {"armature": armature, "damping": damping, "stiffness": stiffness, "joint_friction": joint_friction}
    armature, damping, stiffness, joint_friction = (_checked(n, x, model.tree.n) for n, x in joints.items())
    gravity, gain = _checked("gravity", gravity, None, signed=True), _checked("gain", gain, model.nu, signed=True)
    friction, size = _checked("friction", friction, shapes), _checked("size", size, shapes)
    changes: dict[str, Any] = {}
    if _given(mass):
        changes["inertia"] = _times(_numbers(model), _column(mass))
    if _given(armature):
        changes["armature"] = _times(model.rows.armature, armature)
    if model.passive is not None:
        if _given(damping):
            changes["damping"] = _times(model.passive.damping, damping)
        if _given(stiffness):
            changes["stiffness"] = _times(model.passive.stiffness, stiffness)
    if model.friction is not None and _given(joint_friction):
        changes["friction"] = _times(model.friction, joint_friction)
    if _given(gravity):
        changes["gravity"] = _times(model.gravity, gravity)
    if model.actuators is not None and _given(gain):
        old = model.actuators
        gains, bias = (_times(x, _column(gain)) for x in (old.gain, old.bias))
        changes["actuators"] = dataclasses.replace(old, gain=gains, bias=bias)
    scene = None if model.world is None else model.world.scene
    if scene is not None and (_given(friction) or _given(size)):
        assert model.world is not None
        surfaces = scene.surfaces._replace(friction=_times(scene.surfaces.friction, _column(friction)))
        pairs = scene.pairs
        if np.ndim(friction) == 0:
            pairs = pairs._replace(friction=_times(pairs.friction, friction))
        shapes = scene.shapes._replace(size=_times(scene.shapes.size, _column(size)))
        scene = dataclasses.replace(scene, surfaces=surfaces, shapes=shapes, pairs=pairs)
        weights = None if "inertia" in changes or "armature" in changes else model.world.inverse_weights
        changes["world"] = model.world.replace(scene=scene, inverse_weights=weights)
    return model.replace(**changes, allow_unphysical=True)  # as the model is; factors are checked


def _checked(name: str, factor: Any, count: int | None, signed: bool = False) -> Any:
    """A valid factor: a number, or `count` numbers; finite, and not negative unless `signed`."""
    if not isinstance(factor, jax.Array):
        try:
            array = np.asarray(factor)
        except ValueError:
            array = np.empty(0, object)
        if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
            raise TypeError(f"{name} must be a real number or an array of them, not {factor!r}")
        if not np.isfinite(array).all() or (not signed and (array < 0).any()):
            raise ValueError(f"{name} must be finite{'' if signed else ' and not negative'}, not {factor!r}")
        factor = array if array.ndim else array.item()
    elif not isinstance(factor.dtype, np.dtype) or factor.dtype.kind == "c":
        raise TypeError(f"{name} must be a real number or an array of them, not of type {factor.dtype}")
    shape = np.shape(factor)
    if shape not in ((), (count,)):
        several = "" if count is None else f" or of shape ({count},)"
        raise ValueError(f"{name} must be a number{several}, not of shape {shape}")
    return factor


def _given(factor: Any) -> bool:
    return isinstance(factor, jax.Array | np.ndarray) or factor != 1.0


def _numbers(model: Model) -> Any:
    """Inertias, (n_bodies, 10)."""
    own = model.inertia
    known = isinstance(own.mass, np.ndarray)
    return np.stack([own.mass, *own.h, *own.I], -1) if known else own.array()


def _times(numbers: Any, factor: Any) -> Any:
    """The product; by NumPy if both are known, so no bits are lost and a forked child can compute it."""
    if isinstance(numbers, jax.Array) or isinstance(factor, jax.Array):
        require_xla()
        return jnp.asarray(numbers) * factor
    return np.asarray(numbers) * factor


def _column(factor: Any) -> Any:
    return factor[:, None] if np.ndim(factor) else factor
