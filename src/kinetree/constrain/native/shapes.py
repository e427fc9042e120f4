"""Shapes of contact: where they are in the frames of their rows, and in the world."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.collide import Geom
from kinetree.model import Model, Placement
from kinetree.model.orientation import quaternion_from_rotation
from kinetree.spatial import Mat3, Quaternion, Vec3

from .memory import PLACEMENT, ZERO3


class Placed(NamedTuple):
    """A shape: where it is in its row's frame, or in the world, its size, and where its hull begins in a pool."""

    at: Placement
    size: Vec3
    hull: Any = ()


PLACED = Placed(PLACEMENT, ZERO3)
HULLED = Placed(PLACEMENT, ZERO3, 0.0)


def geom(shape: Placed, row: Placement | None = None, pool: Any = None) -> Geom:
    """A shape in the world's axes; without a row, one that does not move."""
    at = shape.at if row is None else shape.at @ row
    which = None if pool is None else shape.hull.astype(jnp.int32)
    return Geom(at.position, Mat3(*at.orientation.rotation()).T, shape.size, pool, which)


def turned(frame: Any) -> Quaternion:
    """A quaternion from the rotations of frames (NumPy arrays): from parent to child coordinates."""
    E = np.stack([np.asarray(c) for c in frame], -1).reshape(-1, 3, 3)
    return Quaternion.from_array(quaternion_from_rotation(E))


def shape_places(model: Model) -> Placed:
    """All shapes in the frames of their rows, or in the world."""
    assert model.world is not None
    assert model.world.scene is not None
    scene = model.world.scene
    body = np.array(scene.layout.bodies, np.int64)
    on_body = body >= 0
    if model.n_bodies:
        frames = jax.tree.map(lambda x: x[np.maximum(body, 0)], model.frames)
        turn, origin = turned(frames.E), frames.r
    else:
        turn, origin = Quaternion(*np.zeros((4, len(body)))), Vec3(*np.zeros((3, len(body))))
    carrier = Placement(
        Quaternion(np.where(on_body, turn.w, 1.0), *(np.where(on_body, c, 0.0) for c in turn[1:])),
        Vec3(*(np.where(on_body, c, 0.0) for c in origin)),
    )
    shapes = scene.shapes
    columns = [tuple(x[:, k] for k in range(x.shape[1])) for x in (shapes.orientation, shapes.position, shapes.size)]
    own = Quaternion(*columns[0])
    at = Placement(carrier.orientation * own, carrier.position + carrier.orientation.turn(Vec3(*columns[1])))
    return Placed(at, Vec3(*columns[2]))
