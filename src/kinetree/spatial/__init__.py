"""Spatial algebra as components: vectors, rotations, transforms, motions, forces, inertias."""

from .inertia import ArticulatedInertia, Inertia, Moments
from .motion import Force, Motion
from .rotation import Quaternion, Rotation
from .second_order import Rates, RelativeMotion
from .transform import Transform
from .vec3 import Mat3, Scalar, Sym3, Vec3, cross_matrix_times

__all__ = [
    "ArticulatedInertia",
    "Force",
    "Inertia",
    "Mat3",
    "Moments",
    "Motion",
    "Quaternion",
    "Rates",
    "RelativeMotion",
    "Rotation",
    "Scalar",
    "Sym3",
    "Transform",
    "Vec3",
    "cross_matrix_times",
]
