"""`kinetree.place_bodies`: other poses for bodies that only the user moves, such as MuJoCo's mocap bodies."""

import dataclasses
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree._arrays import library
from kinetree._types import Vector
from kinetree.spatial import Quaternion, Rotation, Transform, Vec3

from .errors import ModelError
from .fields import PLACE, TURN, optional
from .model import Model
from .orientation import quaternion_from_rotation
from .required import require_model
from .structure import subtree
from .world import World

BASE = -1


def place_bodies(model: Model, poses: Mapping[str, Vector | tuple[Vector, Vector]]) -> Model:
    """The model with some bodies that are fixed to the base at new poses, together with all that hangs on them.

    To the others they are at rest there. A mocap body of an MJCF file is such a body; `model.keyframe_poses` has those
    of keyframes. Positions may be JAX arrays. Worlds with poses of their own are one model, made by `jax.vmap`:
    `models = jax.vmap(lambda p: kt.place_bodies(model, {"hand": p}))(positions)`, which `kt.advance` takes.

    Arguments:
        model: the mechanism.
        poses: for each body's name a position (3,), or a position and a quaternion (w, x, y, z).
    """
    require_model(model)
    if not isinstance(poses, Mapping):
        raise TypeError(f"poses must be a dictionary of poses by names of bodies, not a {type(poses).__name__}")
    for name, pose in poses.items():
        body = model.body_index(name)
        if model.structure.row_of_body[body] != BASE:
            raise ModelError(f"body {name!r} moves by joints: give its coordinates in q")
        model = _moved(model, body, *_checked(name, pose))
    return model


def _checked(name: str, pose: Any) -> tuple[Any, Any]:
    """Position (3,), and orientation (4,) or None."""
    position, orientation = pose if isinstance(pose, tuple | list) and len(pose) == 2 else (pose, None)
    for what, value, form in (("position", position, PLACE), ("orientation", orientation, optional(TURN))):
        if not form.fits(value):
            raise ModelError(f"the {what} of body {name!r} must be {form.words}, not {shortened(value)}")
    whole = [x if x is None or isinstance(x, jax.Array) else np.asarray(x, float) for x in (position, orientation)]
    return whole[0], whole[1]


class _Shift(NamedTuple):
    """The move from one pose in the base's frame to another."""

    xp: Any
    start: Vec3
    turn: Quaternion
    end: Vec3

    def place(self, v: Vec3, moves: Any) -> Vec3:
        there = self.end + self.turn.turn(v - self.start)
        return Vec3(*(self.xp.where(moves, a, b) for a, b in zip(there, v, strict=True)))

    def orientation(self, q: Quaternion, moves: Any) -> Quaternion:
        return Quaternion(*(self.xp.where(moves, a, b) for a, b in zip(self.turn * q, q, strict=True)))

    def places(self, rows: Any, moves: np.ndarray) -> Any:
        """The places of an array (n, 3)."""
        rows = self.xp.asarray(rows)
        return self.xp.stack(tuple(self.place(Vec3(*(rows[:, k] for k in range(3))), moves)), -1)

    def orientations(self, rows: Any, moves: np.ndarray) -> Any:
        """The orientations of an array (n, 4)."""
        rows = self.xp.asarray(rows)
        return self.xp.stack(tuple(self.orientation(Quaternion(*(rows[:, k] for k in range(4))), moves)), -1)


def _moved(model: Model, body: int, position: Any, orientation: Any) -> Model:
    """The model with one body that is fixed to the base at a new pose."""
    structure, rows, frames = model.structure, model.rows, model.frames
    xp = library(model, position, orientation)
    turns = quaternion_from_rotation(xp.stack([xp.asarray(c) for c in frames.E], -1).reshape(-1, 3, 3))
    old = new = Quaternion(*(turns[body, k] for k in range(4)))
    if orientation is not None:
        length = xp.sqrt((orientation * orientation).sum())
        new = Quaternion(*(orientation[k] / length for k in range(4)))
    start, end = Vec3(*(xp.asarray(c)[body] for c in frames.r)), Vec3(*(position[k] for k in range(3)))
    shift = _Shift(xp, start, new * old.conjugate(), end)
    hangs = np.append(subtree(structure.parent, [body])[0], False)  # the base comes last
    moves = np.diff(structure.v_start) > 0
    first = structure.v_start[:-1][hangs[:-1] & moves]
    roots = np.zeros(len(rows.turn), bool)
    roots[first[np.asarray(structure.tree.parent)[first] == BASE]] = True
    hangs[:-1] &= np.asarray(structure.row_of_body) == BASE
    still = hangs[:-1]
    turned = shift.orientation(Quaternion(*(turns[:, k] for k in range(4))), still).rotation()
    E = Rotation(*(xp.where(still, a, b) for a, b in zip(turned, frames.E, strict=True)))
    place, turn = shift.place(rows.position, roots), shift.orientation(rows.orientation, roots)
    return dataclasses.replace(
        model,
        rows=rows._replace(position=place, orientation=turn),
        frames=Transform(E, shift.place(frames.r, still)),
        loops=None if model.loops is None else _ends_moved(shift, model.loops, hangs),
        world=None if model.world is None else _world_moved(shift, model.world, hangs),
    )


def _ends_moved(shift: _Shift, held: Any, hangs: np.ndarray) -> Any:
    """Loops or equalities, whose ends are kept in the frames of rows, or of the base."""
    one, two = (hangs[np.array(b, np.int64)] for b in (held.bodies1, held.bodies2))
    return dataclasses.replace(
        held,
        position1=shift.places(held.position1, one),
        orientation1=shift.orientations(held.orientation1, one),
        position2=shift.places(held.position2, two),
        orientation2=shift.orientations(held.orientation2, two),
    )


def _world_moved(shift: _Shift, world: World, hangs: np.ndarray) -> World:
    """Equalities and tendons; all else is kept in the frames of bodies."""
    equal, tendons = world.equalities, world.tendons
    if equal is not None and equal.frames is not None:
        equal = dataclasses.replace(equal, frames=_ends_moved(shift, equal.frames, hangs))
    if tendons is not None:
        own = hangs[np.array(tendons.routes.bodies, np.int64)]
        points, arounds = own[: len(tendons.routes.points)], own[len(tendons.routes.points) :]
        shapes = tendons.shapes
        shapes = shapes._replace(
            position=shift.places(shapes.position, arounds),
            orientation=shift.orientations(shapes.orientation, arounds),
        )
        tendons = dataclasses.replace(tendons, points=shift.places(tendons.points, points), shapes=shapes)
    return world.replace(equalities=equal, tendons=tendons)
