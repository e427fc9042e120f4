"""Coupling constraints: rows G that act on two moving bodies or several joints, and so are not part of the tree.

A group has a Jacobian (from accelerations to residuals, and back from forces) and a cost (cones.py). Conjugate
gradients solve for them, with the tree as preconditioner (conjugate.py).
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree.spatial import Force, Mat3, Scalar, Transform, Vec3
from kinetree.tree import take

from .cones import Response, Vector, dry, hold, one_sided, total
from .groups import Load, Positions, spread
from .sweeps import Moved


class Jacobian(Protocol):
    """G."""

    def of(self, x: Scalar, at: Moved) -> Vector:
        """G x, for accelerations x with this motion of the rows."""
        ...

    def put(self, load: Load, force: Vector) -> Load:
        """The load with Gᵀ force added."""
        ...


class Cost(Protocol):
    """s(w)."""

    def response(self, w: Vector) -> Response:
        """Force and curvature."""
        ...


@register_dataclass
@dataclass(frozen=True)
class FrameMotion:
    """The motion of a frame on the second body relative to one on the first, in the axes of the frames.

    Linear directions come first, then angular ones, which `turn` may mix.
    """

    X1: Transform  # from the frame of the row that carries the first body
    X2: Transform
    turn: Mat3 | None
    at1: Positions
    at2: Positions
    rows: int = field(metadata={"static": True})  # how many of the six directions

    def of(self, x: Scalar, at: Moved) -> Vector:
        first, second = (take(at.a, k) for k in (self.at1, self.at2))
        motion = (self.X2 @ second) - (self.X1 @ first)
        angular = motion.angular if self.turn is None else self.turn @ motion.angular
        return (*motion.linear, *angular)[: self.rows]

    def put(self, load: Load, force: Vector) -> Load:
        zero = jnp.zeros_like(force[0])
        six = [*force, *(zero,) * (6 - self.rows)]
        moment = Vec3(*six[3:])
        own = Force(moment if self.turn is None else self.turn.t_mul(moment), Vec3(*six[:3]))
        both = self.X1.force_to_parent(own), self.X2.force_to_parent(-own)  # biases: less the forces
        biases, both_at = (jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *x) for x in (both, (self.at1, self.at2)))
        return load._replace(body=load.body._replace(bias=spread(both_at, load.body.bias, biases)))


@register_dataclass
@dataclass(frozen=True)
class Along:
    """Σ c x over some joints. All rows have as many joints as the longest; c is 0 for padding."""

    coefficients: Scalar  # (rows, joints, batch)
    at: Positions  # of the joints, (rows, joints)

    def of(self, x: Scalar, at: Moved) -> Vector:
        return (total(jnp.moveaxis(self.coefficients * take(x, self.at), 1, 0)),)

    def put(self, load: Load, force: Vector) -> Load:
        parts = self.coefficients * force[0][:, None]
        parts = parts.reshape(math.prod(parts.shape[:2]), parts.shape[-1])
        return load._replace(force=spread(self.at.reshape(-1), load.force, parts))


@register_dataclass
@dataclass(frozen=True)
class Hold:
    """Equality: ½ Σ D w²."""

    D: Vector

    def response(self, w: Vector) -> Response:
        return hold(w, self.D)


@register_dataclass
@dataclass(frozen=True)
class OneSided:
    """Limits: ½ D min(w, 0)²."""

    D: Scalar

    def response(self, w: Vector) -> Response:
        return one_sided(w[0], self.D)


@register_dataclass
@dataclass(frozen=True)
class Dry:
    """Friction loss."""

    D: Scalar
    most: Scalar

    def response(self, w: Vector) -> Response:
        return dry(w[0], self.D, self.most)


@register_dataclass
@dataclass(frozen=True)
class Coupled:
    """A group of coupling constraints."""

    J: Jacobian
    ref: Vector
    cost: Cost
    inertial: bool = field(default=False, metadata={"static": True})  # True for inertia, which is not a constraint

    def rates(self, x: Scalar, at: Moved) -> Vector:
        """G x."""
        return self.J.of(x, at)

    def residual(self, x: Scalar, at: Moved) -> Vector:
        return tuple(y - r for y, r in zip(self.J.of(x, at), self.ref, strict=True))

    def response(self, w: Vector) -> Response:
        return self.cost.response(w)

    def pull(self, load: Load, force: Vector) -> Load:
        return self.J.put(load, force)
