"""Joint types, and their rows.

A row is a screw about its own z axis, with velocity S = (0, 0, turn, 0, 0, slide): turn 1 is a hinge, slide 1 a
slider, both a helix. A joint with several degrees of freedom is several rows. Rows of planar and translation joints
are hinges and sliders with a coordinate each. The rows of spherical and free joints have velocities but no
coordinates: their frames are at rest in one another, and the joint's quaternion (and position) places the first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree._types import Vector
from kinetree._unknown import unknown

from .checks import real_numbers
from .errors import ModelError

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
UNIT = 4 * np.finfo(float).eps  # an axis whose length differs from 1 by less is not normalised, so it keeps its digits
_TURNS, _SLIDES = tuple((1.0, 0.0, a) for a in (X, Y, Z)), tuple((0.0, 1.0, a) for a in (X, Y, Z))


@dataclass(frozen=True)
class Joint:
    """A joint type: its rows as (turn, slide, axis), and how it is named in text."""

    kind: str
    rows: tuple[tuple[float, float, tuple[float, float, float]], ...]
    quaternion: bool = False  # coordinates are a quaternion, after a position where `position` is set
    position: bool = False

    def __post_init__(self) -> None:
        """Check the rows, and make their axes unit vectors."""
        try:
            rows = tuple((float(turn), float(slide), _unit(axis)) for turn, slide, axis in self.rows)
        except (TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"joint {self.kind!r}: rows are (turn, slide, axis) each, not {self.rows!r}") from None
        for turn, slide, _ in rows:
            if not np.isfinite([turn, slide]).all() or turn == slide == 0:
                raise ModelError(
                    f"joint {self.kind!r}: turn {turn:g} and slide {slide:g} of a row must be finite and not both zero"
                )
        wanted = _TURNS + _SLIDES if self.position else _TURNS
        if (self.quaternion and rows != wanted) or (self.position and not self.quaternion):
            raise ModelError(
                f"joint {self.kind!r}: with a quaternion a joint turns about x, y and z, "
                "with a position too it then slides along x, y and z; there is no position without a quaternion"
            )
        object.__setattr__(self, "rows", rows)

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return len(self.rows)

    @property
    def nq(self) -> int:
        """Coordinates."""
        return 4 + 3 * self.position if self.quaternion else len(self.rows)


def _unit(axis: Vector) -> tuple[float, float, float]:
    try:
        a = real_numbers(axis, "axis")
    except ModelError:
        a = np.full(3, np.nan)
    if a.shape != (3,) or not np.isfinite(a).all():
        raise ModelError(f"a joint axis is three finite numbers, not {axis!r}")
    largest = float(np.abs(a).max())
    length = largest * float(np.linalg.norm(a / largest)) if largest > 0 else 0.0  # squares of large numbers overflow
    if length < 1e-12:
        raise ModelError(f"a joint axis can not be zero, as {axis!r} is")
    x, y, z = a if abs(length - 1) <= UNIT else (a / largest) / (length / largest)
    return float(x), float(y), float(z)


def Revolute(axis: Vector) -> Joint:
    """A hinge about an axis of the joint frame."""
    return Joint("revolute", ((1.0, 0.0, _unit(axis)),))


def Prismatic(axis: Vector) -> Joint:
    """A slider along an axis of the joint frame."""
    return Joint("prismatic", ((0.0, 1.0, _unit(axis)),))


def Helical(axis: Vector, pitch: float) -> Joint:
    """A screw about an axis, advancing `pitch` metres per radian."""
    if not np.isfinite(pitch):
        raise ModelError(f"a pitch is a finite number of metres per radian, not {pitch!r}")
    return Joint("helical", ((1.0, float(pitch), _unit(axis)),))


def Fixed() -> Joint:
    """No motion: the body is merged into its parent and kept as a frame."""
    return Joint("fixed", ())


def Spherical() -> Joint:
    """A ball: q is a quaternion (w, x, y, z), qd the angular velocity in body coordinates."""
    return Joint("spherical", _TURNS, quaternion=True)


def Translation() -> Joint:
    """Three sliders along x, y, z of the joint frame."""
    return Joint("translation", _SLIDES)


def Planar() -> Joint:
    """q = (x, y, angle): slide along x and y of the joint frame, then turn about z; qd is its derivative."""
    return Joint("planar", (*_SLIDES[:2], _TURNS[2]))


def Free() -> Joint:
    """q = position and quaternion (w, x, y, z); qd is the spatial velocity in body coordinates, angular first."""
    return Joint("free", _TURNS + _SLIDES, quaternion=True, position=True)


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
            raise ModelError(unknown("joint", j, NAMED, f" at body {codes.index(known[j])}"))
        distinct.append(j if isinstance(j, Joint) else NAMED[str(j)])
    return distinct, np.zeros(n, np.int64) if one_for_all else np.asarray(codes, np.int64)
