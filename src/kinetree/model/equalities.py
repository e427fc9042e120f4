"""Equalities of a world: frames of two bodies that stay together, and joints or tendons that follow others.

All are soft, as MuJoCo's.

A "connect" holds the origins of two frames together, a "weld" their axes too. A joint equality holds one coordinate at
a polynomial of another: q₁ − ref₁ = Σ cₖ (q₂ − ref₂)ᵏ; a tendon equality does so with lengths.
(MuJoCo documentation, "Equality".)
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

CONNECT, WELD = 3, 6  # how many directions are held


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FrameEqualities:
    """Frames are given in those of the rows that carry the bodies, or in the base's; first axis over equalities."""

    position1: Any  # (n, 3)
    orientation1: Any  # (n, 4)
    position2: Any
    orientation2: Any
    torque_scale: Any  # (n,): metres of error that a radian counts as
    solref: Any  # (n, 2)
    solimp: Any  # (n, 5)
    held: tuple[int, ...] = field(metadata={"static": True})  # CONNECT or WELD
    bodies1: tuple[int, ...] = field(metadata={"static": True})  # −1 is the base
    bodies2: tuple[int, ...] = field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class JointEqualities:
    """Equalities of hinges and sliders; first axis over equalities."""

    coefficients: Any  # (n, 5)
    reference1: Any  # (n,)
    reference2: Any
    solref: Any  # (n, 2)
    solimp: Any  # (n, 5)
    rows1: tuple[int, ...] = field(metadata={"static": True})
    rows2: tuple[int, ...] = field(metadata={"static": True})  # −1: the first coordinate is held at a number


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TendonEqualities:
    """Equalities of tendons' lengths, counted from where the model is at rest; first axis over equalities."""

    coefficients: Any  # (n, 5)
    solref: Any  # (n, 2)
    solimp: Any  # (n, 5)
    tendons1: tuple[int, ...] = field(metadata={"static": True})
    tendons2: tuple[int, ...] = field(metadata={"static": True})  # −1: the first length is held at a number


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Equalities:
    """All equalities of a world."""

    frames: FrameEqualities | None = None
    joints: JointEqualities | None = None
    tendons: TendonEqualities | None = None

    @property
    def bodies(self) -> np.ndarray:
        """All bodies that are held, without the base."""
        found = () if self.frames is None else (*self.frames.bodies1, *self.frames.bodies2)
        return np.unique(np.array([b for b in found if b >= 0], np.int64))
