"""The colliders: a function for each two kinds of shapes, and its number of points."""

from collections.abc import Callable
from typing import NamedTuple

from kinetree.spatial import Scalar

from .box import capsule_box, sphere_box
from .box_box import POINTS as BOX_POINTS
from .box_box import box_box
from .convex import convex, points_of
from .field import field_collider
from .plane import HULL_POINTS, plane_box, plane_capsule, plane_cylinder, plane_ellipsoid, plane_hull, plane_sphere
from .round import capsule_capsule, sphere_capsule, sphere_cylinder, sphere_sphere
from .shapes import Contact, Geom


class Collider(NamedTuple):
    """`function(first, second, margin)` gives exactly `points` contacts."""

    points: int
    function: Callable[[Geom, Geom, Scalar], tuple[Contact, ...]]


# MuJoCo's order of kinds: the first shape of a pair is never of a later kind than the second.
KINDS = ("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")

COLLIDERS: dict[tuple[str, str], Collider] = {
    ("plane", "sphere"): Collider(1, plane_sphere),
    ("plane", "capsule"): Collider(2, plane_capsule),
    ("plane", "ellipsoid"): Collider(1, plane_ellipsoid),
    ("plane", "cylinder"): Collider(4, plane_cylinder),
    ("plane", "box"): Collider(4, plane_box),
    ("plane", "mesh"): Collider(HULL_POINTS, plane_hull),
    ("sphere", "sphere"): Collider(1, sphere_sphere),
    ("sphere", "capsule"): Collider(1, sphere_capsule),
    ("sphere", "cylinder"): Collider(1, sphere_cylinder),
    ("sphere", "box"): Collider(1, sphere_box),
    ("capsule", "capsule"): Collider(2, capsule_capsule),
    ("capsule", "box"): Collider(2, capsule_box),
    ("box", "box"): Collider(BOX_POINTS, box_box),
}
CONVEX = ("sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")
COLLIDERS |= {("hfield", kind): Collider(1, field_collider(kind)) for kind in CONVEX}
SINGLE = dict(COLLIDERS)  # with one point for pairs without a special collider, as MuJoCo with multiccd switched off
for i, a in enumerate(CONVEX):
    for b in CONVEX[i:]:
        COLLIDERS.setdefault((a, b), Collider(points_of(a, b), convex(a, b)))
        SINGLE.setdefault((a, b), Collider(1, convex(a, b, single=True)))


def collider(kinds: tuple[str, str], single: bool) -> Collider:
    """The collider of two kinds, in order; `single` if a file switches off several points of convex shapes."""
    return (SINGLE if single else COLLIDERS)[kinds]
