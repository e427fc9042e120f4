"""A quick test if two shapes may touch. It runs before the contact points are computed, where that pays.

The first test compares balls about the centres. Shapes whose contacts take thousands of operations (boxes, hulls) also
have bounding boxes along their own axes, which are tested along the six directions of their faces (Gottschalk, Lin and
Manocha, OBBTree, 1996; the nine directions of edges are left to the collider). Most capsules whose balls meet are
apart, so the lines within them are tested, too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.collide import Geom, radius_of_size
from kinetree.collide.round import nearest_of_capsules
from kinetree.model.world import BOTH
from kinetree.spatial import Vec3

from .memory import SHAPE, ZERO3

CHEAP = {  # kinds of pairs whose contacts are no dearer than to ask whether shapes are near
    *(("plane", kind) for kind in ("sphere", "capsule", "ellipsoid", "cylinder", "box")),
    *(("sphere", kind) for kind in ("sphere", "capsule", "cylinder", "box")),
    ("capsule", "capsule"),
}
Function = Callable[[Geom, Geom, "Bounds"], Any]
CROWDED_MIN_PAIRS = 32  # dm_control's manipulator has 168 (2.7 to 4 times MuJoCo), humanoids on a floor 12 to 29
SLACK = 1e-9  # part of the size of two shapes, so that rounding loses no contact


class BoundingBox(NamedTuple):
    """The bounding box of a shape, along its axes."""

    centre: Vec3
    half: Vec3


class Bounds(NamedTuple):
    """The bounds of the two shapes of a pair: the distances of their centres and surfaces, and their boxes."""

    radius: Any
    reach: Any
    boxes: tuple[BoundingBox, ...]  # none for cheap pairs; the second one's where the first is a plane


def boxes_of(kinds: tuple[str, str]) -> tuple[int, ...]:
    """The shapes of a pair that have bounding boxes."""
    return () if kinds in CHEAP else (1,) if kinds[0] == "plane" else (0, 1)


def is_crowded(pairs: Any) -> bool:
    """True if there are so many pairs with a static shape that all of them are tested."""
    return sum(p.moving != BOTH for p in pairs) >= CROWDED_MIN_PAIRS


def placed_at(pairs: Any, at: int) -> tuple[dict[int, int], int]:
    """First slots of the shapes of pairs that are asked by their places, from slot `at` on; and where they end."""
    crowded = is_crowded(pairs)
    numbers = sorted({i for p in pairs if crowded or p.moving == BOTH for i in (p.first, p.second)})
    return {i: at + k * SHAPE.size for k, i in enumerate(numbers)}, at + len(numbers) * SHAPE.size


class Test(NamedTuple):
    """A test, and what it needs of two placed shapes. A pair that is far apart costs what is read for it."""

    function: Function
    sizes: bool = False
    reach: bool = False  # True if it needs the distance of the surfaces, and the boxes, too

    def __call__(self, first: Geom, second: Geom, bounds: Bounds) -> Any:
        """True if two shapes may be within reach."""
        return self.function(first, second, bounds)

    def needs(self, sizes: tuple, bounds: Bounds) -> tuple[tuple, Bounds]:
        """The part of the sizes and bounds that it needs."""
        own = bounds if self.reach else bounds._replace(reach=(), boxes=())
        return sizes if self.sizes else ((), ()), own


def bounds_like(kinds: tuple[str, str]) -> Bounds:
    """An example."""
    return Bounds(0.0, 0.0, tuple(BoundingBox(ZERO3, ZERO3) for _ in boxes_of(kinds)))


def bounds_of(kinds: tuple[str, str], shapes: Any, pairs: list[Any], reach: Any) -> Bounds:
    """Bounds for pairs of the same kinds."""
    numbers = [[p[which] for p in pairs] for which in (0, 1)]
    radius, boxes = reach, []
    for which, kind in enumerate(kinds):
        if kind != "plane":
            radius = radius + _radius(kind, shapes, numbers[which])
        if which in boxes_of(kinds):
            boxes.append(_box(kind, shapes, numbers[which]))
    return Bounds(radius, reach, tuple(boxes))


def _radius(kind: str, shapes: Any, numbers: list[int]) -> Any:
    """Radius of the ball about a shape's centre that holds the shape."""
    if kind in ("mesh", "hfield"):
        return np.array([float(shapes.hulls[i].radius) for i in numbers])
    return radius_of_size(kind, Vec3(*shapes.size[np.array(numbers, np.int64)].T))


def _box(kind: str, shapes: Any, numbers: list[int]) -> BoundingBox:
    if kind == "mesh":
        ends = [(shapes.hulls[i].vertices.min(0), shapes.hulls[i].vertices.max(0)) for i in numbers]
        low, high = (np.array(x).T for x in zip(*ends, strict=True))
        return BoundingBox(Vec3(*(low + high) / 2), Vec3(*(high - low) / 2))
    if kind == "hfield":
        x, y, top, base = np.array([shapes.hulls[i].half for i in numbers]).T
        return BoundingBox(Vec3(0 * x, 0 * x, (top - base) / 2), Vec3(x, y, (top + base) / 2))
    x, y, z = shapes.size[np.array(numbers, np.int64)].T
    half = {
        "sphere": (x, x, x),
        "capsule": (x, x, x + y),
        "cylinder": (x, x, y),
    }.get(kind, (x, y, z))
    return BoundingBox(Vec3(*(0 * x,) * 3), Vec3(*half))


def is_asked(kinds: tuple[str, str], many: bool) -> bool:
    """True if pairs are tested; `many`: pairs of two moving shapes, or of a crowd."""
    return many or kinds not in CHEAP


def tests_of(kinds: tuple[str, str]) -> list[Test]:
    """Tests that are true if two shapes may be within reach, the cheapest first."""
    if kinds == ("capsule", "capsule"):
        return [Test(_balls_near), Test(_capsules_near, sizes=True, reach=True)]
    plane = kinds[0] == "plane"
    second = [Test(_boxes_above_plane if plane else _boxes_near, reach=True)] if boxes_of(kinds) else []
    return [Test(_above_plane if plane else _balls_near), *second]


def _balls_near(first: Geom, second: Geom, bounds: Bounds) -> Any:
    between = second.position - first.position
    return between.dot(between) <= bounds.radius * bounds.radius * (1 + SLACK)


def _above_plane(first: Geom, second: Geom, bounds: Bounds) -> Any:
    return (second.position - first.position).dot(first.axis) <= bounds.radius


def _boxes_above_plane(first: Geom, second: Geom, bounds: Bounds) -> Any:
    (box,) = bounds.boxes
    middle = second.position - first.position + second.rotation @ box.centre
    low = middle.dot(first.axis) - _width(box, tuple(second.rotation.t_mul(first.axis)))
    return low <= bounds.reach + SLACK * bounds.radius


def _boxes_near(first: Geom, second: Geom, bounds: Bounds) -> Any:
    boxes, near = bounds.boxes, True
    between = second.position - first.position + second.rotation @ boxes[1].centre - first.rotation @ boxes[0].centre
    most = bounds.reach + SLACK * bounds.radius
    axes = first.rotation.T.rows, second.rotation.T.rows
    for k in (0, 1):
        for axis, half in zip(axes[k], boxes[k].half, strict=True):
            other = _width(boxes[1 - k], tuple(axis.dot(a) for a in axes[1 - k]))
            near = near & (jnp.abs(between.dot(axis)) <= half + other + most)
    return near


def _capsules_near(first: Geom, second: Geom, bounds: Bounds) -> Any:
    """True if the lines within two capsules are as near as their radii, or parallel."""
    a, b, parallel = nearest_of_capsules(first, second)
    between, most = b - a, first.size.x + second.size.x + bounds.reach + SLACK * bounds.radius
    return parallel | (between.dot(between) <= most * most)


def _width(box: BoundingBox, along: tuple) -> Any:
    """Half the width of a box in a direction, from how far its axes are along it."""
    x, y, z = (jnp.abs(a) * h for a, h in zip(along, box.half, strict=True))
    return x + y + z
