"""Equalities that act on the tree in one place: frames held in the static world, joints held at a coordinate."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree.spatial import ArticulatedInertia, Force, Mat3, Scalar, Sym3, Transform, Vec3
from kinetree.tree import take

from .cones import Response, Vector, hold
from .groups import Load, Positions, constant, spread
from .sweeps import HeavyBody, Moved


def held_inertia(D: Vector, turn: Mat3 | None) -> ArticulatedInertia:
    """The inertia that stiffness along three directions of a frame adds to a body; also about its axes, if `turn`."""
    zero = jnp.zeros_like(D[0])
    angular = Sym3(*(zero,) * 6)
    if turn is not None:
        x, y, z = turn.rows
        scaled = (x * D[3], y * D[4], z * D[5])
        pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
        angular = Sym3(*(sum(s[i] * t[j] for s, t in zip(scaled, (x, y, z), strict=True)) for i, j in pairs))
    return ArticulatedInertia(angular, Mat3(*(zero,) * 9), Sym3(D[0], D[1], D[2], zero, zero, zero))


@register_dataclass
@dataclass(frozen=True)
class HeldBodies:
    """Frames on bodies that are held in the static world, in world axes: their origins, and their axes if `turn`."""

    X: Transform  # from the row's frame
    turn: Mat3 | None  # from rotations to residuals
    ref: Vector
    D: Vector
    at: Positions

    def residual(self, x: Scalar, at: Moved) -> Vector:
        a = self.X @ take(at.a, self.at)
        six = (*a.linear, *(() if self.turn is None else self.turn @ a.angular))
        return tuple(y - r for y, r in zip(six, self.ref, strict=True))

    def response(self, w: Vector) -> Response:
        return hold(w, self.D)

    def load(self, load: Load, r: Response) -> Load:
        zero = jnp.zeros_like(r.force[0])
        own = self.X.articulated_to_parent(held_inertia(tuple(d + zero for d in self.D), self.turn))
        return load._replace(body=spread(self.at, load.body, HeavyBody(own, -self._force(constant(r, self.ref)))))

    def pull(self, load: Load, force: Vector) -> Load:
        bias = spread(self.at, load.body.bias, -self._force(force))
        return load._replace(body=load.body._replace(bias=bias))

    def _force(self, f: Vector) -> Force:
        moment = Vec3.zero_like(f[0]) if self.turn is None else self.turn.t_mul(Vec3(*f[3:]))
        return self.X.force_to_parent(Force(moment, Vec3(*f[:3])))


@register_dataclass
@dataclass(frozen=True)
class HeldJoints:
    """Joints that are held at a coordinate."""

    ref: Scalar
    D: Scalar
    at: Positions

    def residual(self, x: Scalar, at: Moved) -> Vector:
        return (take(x, self.at) - self.ref,)

    def response(self, w: Vector) -> Response:
        return hold(w, (self.D,))

    def load(self, load: Load, r: Response) -> Load:
        added = (r.curvature[0][0], constant(r, (self.ref,))[0])
        resistance, force = spread(self.at, (load.resistance, load.force), added)
        return load._replace(resistance=resistance, force=force)

    def pull(self, load: Load, force: Vector) -> Load:
        return load._replace(force=spread(self.at, load.force, force[0]))
