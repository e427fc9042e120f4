"""Orientations as quaternions, from coordinate transforms."""

from typing import Any

from kinetree._arrays import library
from kinetree.spatial import Quaternion


def quaternion_from_rotation(E: Any) -> Any:
    """(…, 4) orientations from (…, 3, 3) coordinate transforms."""
    xp = library(E)
    return xp.stack(orientation_of([E[..., i, j] for i in range(3) for j in range(3)]), -1)


def orientation_of(E: Any) -> Quaternion:
    """Orientation from the nine components of a transform; by the largest component, so nothing cancels."""
    xx, yx, zx, xy, yy, zy, xz, yz, zz = E  # of the rotation, which is its transpose
    xp = library(xx)
    squares = [1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz]  # 4 w², 4 x², ...
    # row k: q times the k-th component, times 4
    a, b, c = zy - yz, xz - zx, yx - xy
    d, e, f = yx + xy, xz + zx, zy + yz
    products = ((squares[0], a, b, c), (a, squares[1], d, e), (b, d, squares[2], f), (c, e, f, squares[3]))
    q, best = products[0], squares[0]
    for square, row in zip(squares[1:], products[1:], strict=True):
        larger = square > best
        q = tuple(xp.where(larger, new, old) for new, old in zip(row, q, strict=True))
        best = xp.where(larger, square, best)
    length = xp.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return Quaternion(*(x / length for x in q))
