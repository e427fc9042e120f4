"""Joint types, and what each contributes to the rows of a model.

A row is a screw about its own z axis, with velocity S = (0, 0, turn, 0, 0, slide): turn 1 is a hinge, slide 1 a
slider, both a helix. A joint with several degrees of freedom is several rows. Rows of planar and translation joints
are hinges and sliders with a coordinate each. The rows of spherical and free joints have velocities but no
coordinates: their frames are at rest in one another, and the joint's quaternion (and position) stands before the
first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ModelError

X, Y, Z = np.eye(3)


@dataclass(frozen=True)
class Joint:
    """A joint type: its rows as (turn, slide, axis), and how it is named in text."""

    kind: str
    rows: tuple[tuple[float, float, tuple[float, float, float]], ...]
    quaternion: bool = False  # coordinates are a quaternion, after a position where `position` is set
    position: bool = False

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return len(self.rows)

    @property
    def nq(self) -> int:
        """Coordinates."""
        return 4 + 3 * self.position if self.quaternion else len(self.rows)


def _unit(axis: Any) -> tuple[float, float, float]:
    a = np.asarray(axis, float)
    if a.shape != (3,) or not np.isfinite(a).all():
        raise ModelError(f"a joint axis is three finite numbers, not {axis!r}")
    length = float(np.linalg.norm(a))
    if length < 1e-12:
        raise ModelError(f"a joint axis can not be zero, as {axis!r} is")
    x, y, z = a / length
    return float(x), float(y), float(z)


def Revolute(axis: Any) -> Joint:
    """A hinge about an axis of the joint frame."""
    return Joint("revolute", ((1.0, 0.0, _unit(axis)),))


def Prismatic(axis: Any) -> Joint:
    """A slider along an axis of the joint frame."""
    return Joint("prismatic", ((0.0, 1.0, _unit(axis)),))


def Helical(axis: Any, pitch: float) -> Joint:
    """A screw about an axis, advancing `pitch` metres per radian."""
    if not np.isfinite(pitch):
        raise ModelError(f"a pitch is a finite number of metres per radian, not {pitch!r}")
    return Joint("helical", ((1.0, float(pitch), _unit(axis)),))


def Fixed() -> Joint:
    """No motion: the body is merged into its parent and kept as a frame."""
    return Joint("fixed", ())


def Spherical() -> Joint:
    """A ball: q is a quaternion (w, x, y, z), qd the angular velocity in body coordinates."""
    return Joint("spherical", tuple((1.0, 0.0, tuple(a)) for a in (X, Y, Z)), quaternion=True)


def Translation() -> Joint:
    """Three sliders along x, y, z of the joint frame."""
    return Joint("translation", tuple((0.0, 1.0, tuple(a)) for a in (X, Y, Z)))


def Planar() -> Joint:
    """q = (x, y, angle): slide along x and y of the joint frame, then turn about z; qd is its derivative."""
    return Joint("planar", ((0.0, 1.0, tuple(X)), (0.0, 1.0, tuple(Y)), (1.0, 0.0, tuple(Z))))


def Free() -> Joint:
    """q = position and quaternion (w, x, y, z); qd is the spatial velocity in body coordinates, angular first."""
    rows = tuple((1.0, 0.0, tuple(a)) for a in (X, Y, Z)) + tuple((0.0, 1.0, tuple(a)) for a in (X, Y, Z))
    return Joint("free", rows, quaternion=True, position=True)


NAMED = {
    **{f"R{n}": Revolute(a) for n, a in zip("xyz", (X, Y, Z), strict=True)},
    **{f"P{n}": Prismatic(a) for n, a in zip("xyz", (X, Y, Z), strict=True)},
    "fixed": Fixed(),
    "spherical": Spherical(),
    "translation": Translation(),
    "planar": Planar(),
    "free": Free(),
}


def resolve(joints: Any, n: int) -> tuple[list[Joint], np.ndarray]:
    """The distinct joints, and for each body which of them it has. One joint may be given for all bodies."""
    one_for_all = isinstance(joints, str | Joint)
    if one_for_all:
        joints = [joints]
    else:
        if not isinstance(joints, Iterable):
            raise ModelError(f"joints must be one joint, or one for each body, not {joints!r}")
        joints = list(joints)
        if len(joints) != n:
            raise ModelError(f"{n} bodies need {n} joints, but {len(joints)} were given")
    known: dict[Any, int] = {}
    try:
        codes = [known.setdefault(j, len(known)) for j in joints]
    except TypeError as error:
        raise ModelError(f"a joint is a name or one of kinetree's joints: {error}") from None
    distinct = []
    for j in known:
        if not isinstance(j, Joint) and str(j) not in NAMED:
            raise ModelError(f"unknown joint {j!r} at body {codes.index(known[j])}: choose from {', '.join(NAMED)}")
        distinct.append(j if isinstance(j, Joint) else NAMED[str(j)])
    return distinct, np.zeros(n, np.int64) if one_for_all else np.asarray(codes, np.int64)
