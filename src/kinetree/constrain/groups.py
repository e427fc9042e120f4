"""Groups of constraints: rows J of one kind, their reference accelerations, and their cost (cones.py).

All operations of a group are elementwise over (its constraints, batch): residuals w = J x − a_ref, their response, and
the load that they add to the tree: forces Jᵀg and, if they act in one place, curvature JᵀHJ, where force(x) ≈ g − H J
x. Rows that act on several joints or two moving bodies are not part of the tree: conjugate gradients solve for them,
with the tree as preconditioner (conjugate.py).
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree.model.world import InverseWeights, World
from kinetree.spatial import ArticulatedInertia, Force, Motion, Scalar

from .cones import Response, Symmetric, Vector, times


class Terms(NamedTuple):
    """Numbers of the world that the softness of all constraints depends on."""

    world: World
    weights: InverseWeights
    least_time: Scalar  # the shortest time constant


class HeavyBody(NamedTuple):
    """f = inertia · a + bias."""

    inertia: ArticulatedInertia
    bias: Force


class Load(NamedTuple):
    """The load of constraints on the tree, by position: on joints a resistance and a force, and on bodies."""

    resistance: Scalar
    force: Scalar
    body: HeavyBody

    @staticmethod
    def none(like: Scalar) -> "Load":
        """No load, (positions, batch)."""
        zero = jnp.zeros_like(like)
        return Load(zero, zero, HeavyBody(ArticulatedInertia.zero_like(zero), Force.zero_like(zero)))


class Jacobian(Protocol):
    """J. If `couples` is true, it acts on several joints or two moving bodies."""

    couples: ClassVar[bool]

    def of(self, x: Scalar, a: Motion) -> Vector:
        """J x, for accelerations x of the joints and a of the rows."""
        ...

    def put(self, load: Load, force: Vector, H: Symmetric | None = None) -> Load:
        """The load with Jᵀ force added, and JᵀHJ, if given; rows that couple have none."""
        ...


class Cost(Protocol):
    """s(w)."""

    def response(self, w: Vector) -> Response:
        """Force and curvature."""
        ...


def constant(r: Response, ref: Vector) -> Vector:
    """g of force = g − H J x."""
    return tuple(p + h for p, h in zip(r.pull, times(r.curvature, ref), strict=True))


@register_dataclass
@dataclass(frozen=True)
class Group:
    """Constraints of one kind."""

    J: Jacobian
    ref: Vector
    cost: Cost
    inertial: bool = field(default=False, metadata={"static": True})  # True for inertia, which is not a constraint

    def rates(self, x: Scalar, a: Motion) -> Vector:
        """J x."""
        return self.J.of(x, a)

    def residual(self, x: Scalar, a: Motion) -> Vector:
        """w."""
        return tuple(y - r for y, r in zip(self.J.of(x, a), self.ref, strict=True))

    def response(self, w: Vector) -> Response:
        """Force and curvature."""
        return self.cost.response(w)

    def pull(self, load: Load, force: Vector) -> Load:
        """The load with these forces added."""
        return self.J.put(load, force)

    def load(self, load: Load, r: Response) -> Load:
        """The load with curvature and force added, linear about a response."""
        return self.J.put(load, constant(r, self.ref), r.curvature)
