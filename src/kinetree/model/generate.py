"""Trees made by formula, for tests, benchmarks and lessons."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.spatial import Rotation, Transform, Vec3

from .model import Model
from .pieces import Pieces
from .required import is_number, is_whole

MAX_BODIES = 2**31 - 1  # rows are numbered in 32 bits


def auto_tree_parents(n: int, branching: float) -> np.ndarray:
    """parent(i) = floor((i − 2 + ceil(bf)) / bf), i = 1 … n, 0 the base (Featherstone's autoTree); 0-based here."""
    i = np.arange(1, n + 1)
    return np.floor((i - 2 + np.ceil(branching)) / branching).astype(np.int64) - 1


def auto_tree(n: int, branching: float = 1.0, skew: float = 0.0, taper: float = 1.0) -> Model:
    """Featherstone's autoTree: n revolute joints about z, each link a thin rod along x.

    Arguments:
        n: number of bodies.
        branching: mean number of children of a body that has any; 1 is a chain, 2 a binary tree.
        skew: angle, about x, between consecutive joint axes. With 0 the mechanism is planar and gravity, along z, does
        not
            show; use 0.3 to test anything.
        taper: ratio of the lengths of consecutive bodies; masses go with its cube.
    """
    _require_count("n", n)
    for name, value in (("branching", branching), ("skew", skew), ("taper", taper)):
        _require_finite(name, value)
    if branching < 1:
        raise ValueError(f"branching is at least 1, not {branching}")
    parent = auto_tree_parents(n, branching)
    return _rods(parent, parent < 0, skew, taper)


def chain_pieces(n: int, pieces: int, skew: float = 0.0) -> Pieces:
    """The chain `auto_tree(n, 1, skew)` in pieces of nearly the same length, for `kinetree.shard_tree`.

    Arguments:
        n: number of bodies.
        pieces: number of pieces.
        skew: angle, about x, between consecutive joint axes.
    """
    _require_count("n", n)
    _require_count("pieces", pieces)
    _require_finite("skew", skew)
    if pieces > n:
        raise ValueError(f"a chain of {n} bodies has 1 to {n} pieces, not {pieces}")
    bounds = np.arange(pieces + 1) * n // pieces

    @lru_cache(maxsize=4)  # all pieces but the first are alike, in at most two lengths
    def chain(length: int, first: bool) -> Model:
        parent = np.arange(-1, length - 1)
        return _rods(parent, (parent < 0) & first, skew, 1.0)

    return Pieces(lambda k: chain(int(bounds[k + 1] - bounds[k]), k == 0), range(-1, pieces - 1))


def _require_count(name: str, count: Any) -> None:
    if not is_whole(count) or not 1 <= count <= MAX_BODIES:
        raise ValueError(f"{name} must be a whole number, at least 1 and at most {MAX_BODIES:,}, not {count!r}")


def _require_finite(name: str, value: Any) -> None:
    if not (is_number(value) and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number, not {value!r}")


def _rods(parent: np.ndarray, root: np.ndarray, skew: float, taper: float) -> Model:
    """Links of `auto_tree`. All but roots are placed at the end of a link of the length of their parent's, or 1."""
    n = len(parent)
    i = np.arange(n)
    size = float(taper) ** i
    mass, length = size**3, size
    c, s = np.cos(skew), np.sin(skew)
    one = np.ones(n)
    turn = Rotation(one, 0 * one, 0 * one, 0 * one, np.where(root, 1.0, c), np.where(root, 0.0, s),
                    0 * one, np.where(root, 0.0, -s), np.where(root, 1.0, c))  # fmt: skip
    reach = np.where(root, 0.0, np.where(parent < 0, 1.0, length[np.maximum(parent, 0)]))
    com = 0.5 * length
    inertia = np.zeros((n, 10))
    rod = np.outer(mass * length**2, [0.0025, 1.015 / 12, 1.015 / 12])
    inertia[:, 0], inertia[:, 1] = mass, mass * com
    inertia[:, 4] = rod[:, 0]
    inertia[:, 5] = rod[:, 1] + mass * com**2
    inertia[:, 6] = rod[:, 2] + mass * com**2
    return Model.from_arrays(parent, "Rz", Transform(turn, Vec3(reach, 0 * one, 0 * one)), inertia)
