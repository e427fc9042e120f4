"""Jacobians of constraints: on one joint, on a frame of a body, along several joints, between frames of two bodies."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Scalar, Sym3, Transform, Vec3
from kinetree.tree import take

from .cones import Symmetric, Vector, total
from .groups import HeavyBody, Load

Positions = Any  # (k,) integers; pytree leaves, as those of contacts may be found at run time


def spread(at: Positions, onto: Any, values: Any) -> Any:
    """Add values, (k, batch), to the rows `at` of arrays, (positions, batch): all components by one scatter."""
    leaves, structure = jax.tree.flatten(values)
    summed = jax.tree.leaves(onto)
    shape = (at.shape[0], summed[0].shape[-1])
    stacked = jnp.stack([jnp.broadcast_to(x, shape) for x in leaves], 1)
    both = jnp.stack(summed, 1).at[at].add(stacked, mode="promise_in_bounds")
    return jax.tree.unflatten(structure, [both[:, k] for k in range(len(summed))])


@register_dataclass
@dataclass(frozen=True)
class OnJoint:
    """x of single joints, with a sign: −1 for upper limits."""

    couples: ClassVar[bool] = False
    at: Positions  # of the rows
    sign: int = field(default=1, metadata={"static": True})

    def of(self, x: Scalar, a: Motion) -> Vector:
        """J x."""
        return (self.sign * take(x, self.at),)

    def put(self, load: Load, force: Vector, H: Symmetric | None = None) -> Load:
        """The load with these forces and curvatures."""
        own = self.sign * force[0]
        if H is None:
            return load._replace(force=spread(self.at, load.force, own))
        resistance, total_force = spread(self.at, (load.resistance, load.force), (H[0][0], own))
        return load._replace(resistance=resistance, force=total_force)


@register_dataclass
@dataclass(frozen=True)
class OnFrame:
    """The motion of frames on bodies, against the static world.

    Linear directions come first, then angular ones, which `turn` may mix.
    """

    couples: ClassVar[bool] = False
    X: Transform  # from the row's frame
    turn: Mat3 | None
    sign: Scalar  # −1 if the direction points at the world
    at: Positions  # of the rows that carry the bodies
    rows: int = field(metadata={"static": True})  # how many of the six directions

    def of(self, x: Scalar, a: Motion) -> Vector:
        """J x."""
        own = self.X @ take(a, self.at)
        angular = own.angular if self.turn is None else self.turn @ own.angular
        return tuple(self.sign * y for y in (*own.linear, *angular)[: self.rows])

    def put(self, load: Load, force: Vector, H: Symmetric | None = None) -> Load:
        """The load with these forces and curvatures."""
        bias = self.X.force_to_parent(-_six(tuple(x * self.sign for x in force), self.turn))
        if H is None:
            return load._replace(body=load.body._replace(bias=spread(self.at, load.body.bias, bias)))
        inertia = six_by_six(H) if self.turn is None else held_inertia(tuple(h[0] for h in H), self.turn)
        own = HeavyBody(self.X.articulated_to_parent(inertia), bias)
        return load._replace(body=spread(self.at, load.body, own))


@register_dataclass
@dataclass(frozen=True)
class BetweenFrames:
    """The motion of a frame on the second body relative to one on the first, in the axes of the frames."""

    couples: ClassVar[bool] = True
    X1: Transform  # from the frame of the row that carries the first body
    X2: Transform
    turn: Mat3 | None  # mixes angular directions
    at1: Positions
    at2: Positions
    rows: int = field(metadata={"static": True})  # how many of the six directions

    def of(self, x: Scalar, a: Motion) -> Vector:
        """J x."""
        first, second = (take(a, k) for k in (self.at1, self.at2))
        motion = (self.X2 @ second) - (self.X1 @ first)
        angular = motion.angular if self.turn is None else self.turn @ motion.angular
        return (*motion.linear, *angular)[: self.rows]

    def put(self, load: Load, force: Vector, H: Symmetric | None = None) -> Load:
        """The load with these forces."""
        own = _six(force, self.turn)
        both = self.X1.force_to_parent(own), self.X2.force_to_parent(-own)  # biases: less the forces
        biases, both_at = (jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *x) for x in (both, (self.at1, self.at2)))
        return load._replace(body=load.body._replace(bias=spread(both_at, load.body.bias, biases)))


@register_dataclass
@dataclass(frozen=True)
class AlongJoints:
    """Σ c x over some joints. All rows have as many joints as the longest; c is 0 for padding."""

    couples: ClassVar[bool] = True
    coefficients: Scalar  # (rows, joints, batch)
    at: Positions  # of the joints, (rows, joints)

    def of(self, x: Scalar, a: Motion) -> Vector:
        """J x."""
        return (total(jnp.moveaxis(self.coefficients * take(x, self.at), 1, 0)),)

    def put(self, load: Load, force: Vector, H: Symmetric | None = None) -> Load:
        """The load with these forces."""
        parts = self.coefficients * force[0][:, None]
        parts = parts.reshape(math.prod(parts.shape[:2]), parts.shape[-1])
        return load._replace(force=spread(self.at.reshape(-1), load.force, parts))


def _six(force: Vector, turn: Mat3 | None) -> Force:
    """Forces along linear and angular directions."""
    six = [*force, *(jnp.zeros_like(force[0]),) * (6 - len(force))]
    moment = Vec3(*six[3:])
    return Force(moment if turn is None else turn.t_mul(moment), Vec3(*six[:3]))


def six_by_six(H: Symmetric) -> ArticulatedInertia:
    """A curvature over (linear, angular) directions as a map from motion to force."""
    n = len(H)
    zero = jnp.zeros_like(H[0][0])

    def entry(i: int, j: int) -> Scalar:
        i, j = min(i, j), max(i, j)
        return H[i][j - i] if j < n else zero

    order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return ArticulatedInertia(
        Sym3(*(entry(3 + i, 3 + j) for i, j in order)),
        Mat3(*(entry(3 + i, j) for i in range(3) for j in range(3))),
        Sym3(*(entry(i, j) for i, j in order)),
    )


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
