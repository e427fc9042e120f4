"""The direction along which two shapes overlap least, by descent from a direction near it. One lane at a time.

The depth along a unit vector n is n · w, with w the farthest difference of points of both shapes, and its gradient the
part of w that is orthogonal to n. Where the shapes are smooth, descent needs far fewer steps than a search that knows
corners only. Its steps are those of Barzilai and Borwein (1988).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.lanes.program.alone import while_loop
from kinetree.spatial import Scalar, Vec3

from .shapes import unit, where

# For a direction: the farthest point of the first shape along it, and that of the second against it.
Ends = Callable[[Vec3], tuple[Vec3, Vec3]]
MAX_DESCENT = 60  # steps; most take 4 to 20
FIRST = 0.5  # The first rate is this number, divided by the length of the farthest difference.
FLAT_ENOUGH = 64  # rounding errors of the farthest difference; descent ends where the gradient is smaller
LEVEL = 1e-9  # metres; where the gradient is smaller, descent has arrived
TOLERANCE = 1e-10  # metres by which the depth where the gradient vanishes may exceed the least depth met


class Lowest(NamedTuple):
    """The depth along a direction (negative if the shapes are apart), and the two points that are so far apart."""

    normal: Vec3
    depth: Scalar
    first: Vec3
    second: Vec3


def descended(
    ends: Ends, start: Lowest, reach: Scalar | float, across: Vec3 | None = None, steps: int = MAX_DESCENT
) -> tuple[Lowest, Any]:
    """The least depth near a normal; True if descent arrived, or if the shapes are more than `reach` apart.

    If the gradient vanishes, the result is the normal with the smallest gradient, else the normal with the least depth.
    The depth of `start` may be infinite. With `across`, only normals orthogonal to that unit vector count.
    """

    def slope(n: Vec3) -> tuple[Lowest, Vec3, Scalar]:
        a, b = ends(n)
        w, middle = a - b, (a + b) * 0.5
        depth = n.dot(w)
        gradient = w - n * depth
        if across is not None:
            gradient = gradient - across * across.dot(gradient)
        return Lowest(n, depth, middle + n * (depth / 2), middle - n * (depth / 2)), gradient, w.dot(w)

    def step(state: tuple) -> tuple:
        k, n, gradient, rate, lowest, flattest, least = state
        here, after, _ = slope(unit(n - gradient * rate)[0])
        steep = after.dot(after)
        lowest = where(here.depth < lowest.depth, here, lowest)
        flattest, least = where(steep < least, (here, steep), (flattest, least))
        change, turned = here.normal - n, after - gradient
        along = change.dot(turned)
        rate = jnp.where(along > 0, change.dot(change) / jnp.where(along > 0, along, 1.0), rate)
        return k + 1, here.normal, after, rate, lowest, flattest, least

    here, gradient, far = slope(start.normal)
    start = where(here.depth < start.depth, here, start)
    size, tiny = jnp.maximum(jnp.sqrt(far), 1e-12), float(jnp.finfo(far.dtype).eps)
    rate, small = FIRST / size, (FLAT_ENOUGH * tiny * size) ** 2

    def goes(s: tuple) -> Any:
        return (s[0] < steps) & (s[-1] > small) & (s[4].depth >= -reach)

    none = jnp.zeros_like(far).astype(jnp.int32)
    begin = none, start.normal, gradient, rate, start, start, gradient.dot(gradient)
    *_, lowest, flattest, least = while_loop(goes, step, begin)
    apart = lowest.depth < -reach
    slack = TOLERANCE + 4 * tiny * size
    arrived = (least <= jnp.maximum(LEVEL * LEVEL, small)) & (flattest.depth <= lowest.depth + slack)
    return where(arrived & ~apart, flattest, lowest), arrived | apart
