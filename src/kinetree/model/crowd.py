"""Crowds: shapes of very many moving bodies, whose pairs are found in each state and not listed in advance."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import ModelError

MAX_LISTED = 10**6  # pairs of moving shapes that are listed; from some hundred thousand on finding them costs less
MIN_SLOTS, MAX_SLOTS = 6, 48
ROOM = 8  # pairs for each shape; balls of one size touch twelve others, each pair counted once
ROOM_OF_OTHERS = 12  # of long and flat shapes more are near


class Crowd(NamedTuple):
    """Static: the shapes, the rows that carry them, and the room for pairs."""

    shapes: tuple[int, ...]  # numbers of the shapes
    own: tuple[int, ...]  # the carrier of each shape, and the carrier of that one (`Carriers`)
    above: tuple[int, ...]
    contype: tuple[int, ...]
    conaffinity: tuple[int, ...]
    condim: int
    slots: int  # shapes that a cell of the grid may hold
    room: int  # pairs that may be near one another at a time


def crowd_of(kinds: Sequence[str], condim: Any, priority: Any, on: Any, bits: Any, thick: Any, skip: Any) -> Crowd:
    """All shapes that move.

    Arguments:
        kinds, condim, priority: of all shapes of a scene.
        on: `Carriers`.
        bits: contype and conaffinity.
        thick: (n, 2), of each shape the radius of a ball that holds it and of one that fits in it.
        skip: pairs of shapes that are left out.
    """
    moving = np.flatnonzero(~np.asarray(on.still))
    present = {kinds[k] for k in moving.tolist()}
    why = ""
    if len({*np.asarray(condim)[moving].tolist()}) > 1 or len({*np.asarray(priority)[moving].tolist()}) > 1:
        why = "moving shapes have different condim or priority"
    elif {"mesh", "hfield", "plane"} & present:
        why = "some of those that move are meshes or planes"
    elif len(skip):
        why = "some pairs of bodies are excluded"
    if why:
        raise ModelError(
            f"{len(moving):,} moving shapes have more than {MAX_LISTED:,} pairs. They are found in each state, but not "
            f"where {why}: give shapes that never touch other bits of contype and conaffinity"
        )
    thick = np.asarray(thick)[moving]
    many = 2 * (thick[:, 0].max() / thick[:, 1].min()) ** 3
    room = (ROOM if present == {"sphere"} else ROOM_OF_OTHERS) * len(moving)
    own, above, one, two = (tuple(np.asarray(x)[moving].tolist()) for x in (on.own, on.above, *bits))
    slots = int(np.clip(np.ceil(many), MIN_SLOTS, MAX_SLOTS))
    dim = int(np.asarray(condim)[moving[0]])
    return Crowd(tuple(moving.tolist()), own, above, one, two, dim, slots, room)
