"""Groups of constraints that act on the tree in one place: one joint, the three rows of a ball, one body.

All operations of a group are elementwise over (its constraints, batch): residuals w = J x − a_ref, their response
(cones.py), and the load that they add to the tree: curvature JᵀHJ and force Jᵀg, where force(x) ≈ g − H J x.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree.model.world import InverseWeights, World
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Scalar, Sym3, Transform, Vec3
from kinetree.tree import take

from .cones import Cone, Response, Vector, dry, one_sided, times
from .sweeps import HeavyBody, Moved, Passed, Turning

Positions = Any  # (k,) integers; pytree leaves, as those of contacts may be found at run time


class Terms(NamedTuple):
    """Numbers of the world that the softness of all constraints depends on."""

    world: World
    weights: InverseWeights
    least_time: Scalar  # the shortest time constant


class Load(NamedTuple):
    """The load of constraints on the tree, by position."""

    body: HeavyBody
    resistance: Scalar
    force: Scalar
    turning: Turning | None

    @property
    def held(self) -> Passed:
        """The part on bodies."""
        return Passed(self.body, self.turning)

    @staticmethod
    def none(like: Scalar, turning: bool) -> "Load":
        """No load, (positions, batch)."""
        zero = jnp.zeros_like(like)
        turned = Turning(Force.zero_like(zero), zero, zero) if turning else None
        return Load(HeavyBody.zero_like(zero), zero, zero, turned)


class Group(Protocol):
    """The methods of constraints that Newton's method needs."""

    def residual(self, x: Scalar, at: Moved) -> Vector:
        """w for accelerations x with this motion of the rows."""
        ...

    def response(self, w: Vector) -> Response:
        """Force and curvature."""
        ...

    def pull(self, load: Load, force: Vector) -> Load:
        """The load with only forces added."""
        ...


class TreeGroup(Group, Protocol):
    """A group that acts on the tree in one place, so its curvature adds to that of the tree."""

    def load(self, load: Load, r: Response) -> Load:
        """The load with curvature and force added, linear about a response."""
        ...


def spread(at: Positions, onto: Any, values: Any) -> Any:
    """Add values, (k, batch), to the rows `at` of arrays, (positions, batch): all components by one scatter."""
    leaves, structure = jax.tree.flatten(values)
    total = jax.tree.leaves(onto)
    shape = (at.shape[0], total[0].shape[-1])
    stacked = jnp.stack([jnp.broadcast_to(x, shape) for x in leaves], 1)
    summed = jnp.stack(total, 1).at[at].add(stacked, mode="promise_in_bounds")
    return jax.tree.unflatten(structure, [summed[:, k] for k in range(len(total))])


def constant(r: Response, ref: Vector) -> Vector:
    """g of force = g − H J x."""
    return tuple(p + h for p, h in zip(r.pull, times(r.curvature, ref), strict=True))


@register_dataclass
@dataclass(frozen=True)
class OnJoints:
    """Limits (sign 1 for lower ones, −1 for upper ones) and friction loss."""

    ref: Scalar
    D: Scalar  # zero if a row is inactive
    most: Scalar | None  # the friction loss; None for limits
    at: Positions  # of the rows
    sign: int = field(metadata={"static": True})

    def residual(self, x: Scalar, at: Moved) -> Vector:
        return (self.sign * take(x, self.at) - self.ref,)

    def response(self, w: Vector) -> Response:
        return one_sided(w[0], self.D) if self.most is None else dry(w[0], self.D, self.most)

    def load(self, load: Load, r: Response) -> Load:
        added = (r.curvature[0][0], self.sign * constant(r, (self.ref,))[0])
        resistance, force = spread(self.at, (load.resistance, load.force), added)
        return load._replace(resistance=resistance, force=force)

    def pull(self, load: Load, force: Vector) -> Load:
        return load._replace(force=spread(self.at, load.force, self.sign * force[0]))


@register_dataclass
@dataclass(frozen=True)
class OnBalls:
    """Limits on the angle of ball joints."""

    axis: tuple[Scalar, Scalar, Scalar]  # J along the three rows
    ref: Scalar
    D: Scalar
    rows: tuple[Positions, Positions, Positions]

    def residual(self, x: Scalar, at: Moved) -> Vector:
        assert at.turn is not None
        return (take(at.turn, self.rows[2]) - self.ref,)

    def response(self, w: Vector) -> Response:
        return one_sided(w[0], self.D)

    def load(self, load: Load, r: Response) -> Load:
        assert load.turning is not None
        old = (load.turning.stiffness, load.turning.bias)
        stiffness, bias = spread(self.rows[2], old, (r.curvature[0][0], -constant(r, (self.ref,))[0]))
        return load._replace(turning=load.turning._replace(stiffness=stiffness, bias=bias))

    def pull(self, load: Load, force: Vector) -> Load:
        for row, n in zip(self.rows, self.axis, strict=True):
            load = load._replace(force=spread(row, load.force, n * force[0]))
        return load


@register_dataclass
@dataclass(frozen=True)
class OnBodies:
    """Contacts between a body and the static world, all with the same number of dimensions."""

    X: Transform  # from the row's frame to the contact's: normal, two tangents
    sign: Scalar  # −1 if the normal points at the world
    ref: Vector
    cone: Cone
    at: Positions  # of the rows that carry the bodies

    def residual(self, x: Scalar, at: Moved) -> Vector:
        a = self.X @ take(at.a, self.at)
        return tuple(self.sign * y - r for y, r in zip((*a.linear, *a.angular), self.ref, strict=False))

    def response(self, w: Vector) -> Response:
        return self.cone.response(w)

    def load(self, load: Load, r: Response) -> Load:
        inertia = self.X.articulated_to_parent(six_by_six(r.curvature))
        force = self._force(constant(r, self.ref))
        return load._replace(body=spread(self.at, load.body, HeavyBody(inertia, -force)))

    def pull(self, load: Load, force: Vector) -> Load:
        bias = spread(self.at, load.body.bias, -self._force(force))
        return load._replace(body=load.body._replace(bias=bias))

    def _force(self, f: Vector) -> Force:
        zero = jnp.zeros_like(f[0])
        six = [*(x * self.sign for x in f), *(zero,) * (6 - len(f))]
        return self.X.force_to_parent(Force(Vec3(*six[3:]), Vec3(*six[:3])))


def six_by_six(H: Any) -> ArticulatedInertia:
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
