"""Plücker transforms: Featherstone's plux(E, r), which takes motion from parent to child coordinates."""

from typing import Any, NamedTuple

from .inertia import ArticulatedInertia, Inertia
from .motion import Force, Motion
from .rotation import Rotation
from .vec3 import Scalar, Vec3, cross_matrix_times


class Transform(NamedTuple):
    """E turns parent into child coordinates; r is the child's origin in parent coordinates (RBDA eq. 2.24)."""

    E: Rotation
    r: Vec3

    __array_ufunc__ = None

    @staticmethod
    def identity_like(s: Scalar) -> "Transform":
        """The frame itself, with components shaped like `s`."""
        return Transform(Rotation.identity_like(s), Vec3.zero_like(s))

    def __matmul__(self, o: Any) -> Any:
        """X @ motion: to child coordinates, 24m 18a. X2 @ X1: first X1, then X2, 36m 27a."""
        if isinstance(o, Motion):
            return Motion(self.E @ o.angular, self.E @ (o.linear + o.angular.cross(self.r)))
        return Transform(self.E.after(o.E), o.r + o.E.t_mul(self.r))

    def screwed(self, cos: Scalar, sin: Scalar, slide: Scalar) -> "Transform":
        """The transform with the child turned about its own z axis, and moved along it. 15m 9a."""
        return Transform(self.E.turned(cos, sin), self.r + self.E.rows[2] * slide)

    def inverse(self) -> "Transform":
        """From child back to parent. 9m 6a."""
        return Transform(self.E.T, -(self.E @ self.r))

    def force_to_parent(self, f: Force) -> Force:
        """Xᵀ f. 24m 18a."""
        linear = self.E.t_mul(f.linear)
        return Force(self.E.t_mul(f.angular) + self.r.cross(linear), linear)

    def force_to_child(self, f: Force) -> Force:
        """X⁻ᵀ f. 24m 18a."""
        return Force(self.E @ (f.angular - self.r.cross(f.linear)), self.E @ f.linear)

    def motion_to_parent(self, m: Motion) -> Motion:
        """X⁻¹ m. 24m 18a."""
        angular = self.E.t_mul(m.angular)
        return Motion(angular, self.E.t_mul(m.linear) - angular.cross(self.r))

    def inertia_to_parent(self, I: Inertia) -> Inertia:
        """Xᵀ I X for a rigid body. 73m 54a."""
        return Inertia(I.mass, self.E.t_mul(I.h), I.I.turned_back(self.E)).shifted(self.r)

    def articulated_to_parent(self, I: ArticulatedInertia) -> ArticulatedInertia:
        """Xᵀ I X for an articulated inertia: turn, then shift. 189m 147a."""
        A, C = I.A.turned_back(self.E), I.C.turned_back(self.E)
        B = self.E.T @ (I.B @ self.E)
        rC = cross_matrix_times(self.r, C.full())
        rB = cross_matrix_times(self.r, B.T)
        rCr = cross_matrix_times(self.r, rC.T)  # r× C (r×)ᵀ, symmetric
        shift = rB.symmetric_part_twice()
        return ArticulatedInertia(
            type(A)(
                *(a + s + t for a, s, t in zip(A, shift, (rCr.xx, rCr.yy, rCr.zz, rCr.xy, rCr.xz, rCr.yz), strict=True))
            ),
            B + rC,
            C,
        )
