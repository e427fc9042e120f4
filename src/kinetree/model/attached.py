"""Frames on bodies as frames on the rows that carry them."""

from operator import index
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Quaternion, Vec3

from .errors import ModelError
from .orientation import quaternion_from_rotation

if TYPE_CHECKING:
    from .model import Model


BASE = -1


def body_number(model: "Model", body: Any) -> int:
    """The number of a body, by name or number; None is the base."""
    if body is None:
        return BASE
    if isinstance(body, str):
        return model.body_index(body)
    try:
        number = index(body)
    except TypeError:
        raise TypeError(f"a body is a name or a number, or None for the base, not {body!r}") from None
    if not BASE <= number < model.n_bodies:
        raise ModelError(f"no body has number {number}: there are {model.n_bodies}")
    return number


def in_rows(model: "Model", bodies: Any, places: Any, turns: Any) -> tuple[Any, Any]:
    """Frames on bodies, positions (n, 3) and orientations (n, 4), as ones on the rows that carry them, or on the base.

    Body −1 is the base. Arrays are NumPy's where the model's are.
    """
    traced = any(isinstance(c, jax.Array) for c in model.frames.r)
    xp: Any = jnp if traced else np
    bodies = np.asarray(bodies, np.int64)
    places, turns = xp.asarray(places, float).reshape(-1, 3), xp.asarray(turns, float).reshape(-1, 4)
    if not model.n_bodies:
        return places, turns
    some = np.maximum(bodies, 0)
    E, r = (xp.stack([xp.asarray(c)[some] for c in part], -1) for part in (model.frames.E, model.frames.r))
    back = Quaternion(*quaternion_from_rotation(E.reshape(-1, 3, 3)).T)
    moved = r + xp.stack([*back.turn(Vec3(*places.T))], -1)
    turned = xp.stack([*(back * Quaternion(*turns.T))], -1)
    on_base = (bodies < 0)[:, None]
    return xp.where(on_base, places, moved), xp.where(on_base, turns, turned)
