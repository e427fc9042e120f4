"""The cost of each kind of constraint: its force and curvature as functions of the residual, elementwise.

A constraint adds s(w) to the cost that accelerations minimise, with w = J x − a_ref. Its force is −∂s/∂w, its curvature
∂²s/∂w². Between changes of state the force is linear or nearly so:
    force(w′) ≈ pull − curvature · w′,   with equality except in the sliding zone of elliptic cones. Only friction loss
    has a pull.
Contacts have residuals along the normal, two tangents, and rotations about these three; `condim` is their number. Rows
of a pyramidal cone, n ± μ t, are linear in these, so both kinds of cone are functions of the same w.
(MuJoCo documentation, "Computation", "Friction cones" and "Constraint model".)
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree.spatial import Scalar

Vector = tuple[Scalar, ...]
Symmetric = tuple[tuple[Scalar, ...], ...]  # row i has the entries from the diagonal on


class Response(NamedTuple):
    """The response of a constraint at a residual."""

    force: Vector
    curvature: Symmetric
    pull: Vector
    state: Scalar  # a number for each piece of the cost
    curved: Scalar  # True if the force is not linear here


def times(H: Symmetric, v: Vector) -> Vector:
    """H v."""
    n = len(v)
    return tuple(sum((H[min(i, j)][abs(i - j)] * v[j] for j in range(1, n)), start=H[0][i] * v[0]) for i in range(n))


def dot(a: Vector, b: Vector) -> Scalar:
    """aᵀ b."""
    return sum((x * y for x, y in zip(a[1:], b[1:], strict=True)), start=a[0] * b[0])


def total(x: Scalar) -> Scalar:
    """The sum over the first axis, by halves: its order is the same for any number of lanes, unlike XLA's sum."""
    while len(x) > 1:
        half = len(x) // 2
        x = jnp.concatenate([x[:half] + x[half : 2 * half], x[2 * half :]])
    return x[0]


def hold(w: Vector, D: Vector) -> Response:
    """½ Σ D w²: equality."""
    zero = jnp.zeros_like(w[0] * D[0])
    curvature = tuple((d + zero, *(zero,) * (len(w) - 1 - i)) for i, d in enumerate(D))
    force = tuple(-(d * x) for d, x in zip(D, w, strict=True))
    return Response(force, curvature, (zero,) * len(w), jnp.zeros_like(zero, jnp.int32), jnp.zeros_like(zero, bool))


def one_sided(w: Scalar, D: Scalar) -> Response:
    """½ D min(w, 0)²: limits, and contact without friction."""
    active = w < 0
    zero = jnp.zeros_like(w * D)
    H = jnp.where(active, D, zero)
    return Response((-(H * w),), ((H,),), (zero,), active.astype(jnp.int32), jnp.zeros_like(active))


def dry(w: Scalar, D: Scalar, most: Scalar) -> Response:
    """½ D w², continued by straight lines beyond the force `most`: friction loss."""
    low, high = w * D <= -most, w * D >= most
    zero = jnp.zeros_like(w * D)
    H = jnp.where(low | high, zero, D)
    pull = jnp.where(low, most, jnp.where(high, -most, zero))
    state = jnp.where(low, 1, jnp.where(high, 2, 0)).astype(jnp.int32)
    return Response((pull - H * w,), ((H,),), (pull,), state, jnp.zeros_like(low))


def pyramid(w: Vector, D: Scalar, friction: Vector) -> Response:
    """½ D Σ min(w₀ ± μₖ wₖ, 0)²."""
    zero = jnp.zeros_like(w[0] * D)
    normal, stiffness, state = zero, zero, zero.astype(jnp.int32)
    along, cross, own = [], [], []
    for k, (mu, tangent) in enumerate(zip(friction, w[1:], strict=True)):
        plus, minus = w[0] + mu * tangent, w[0] - mu * tangent
        Dp, Dm = jnp.where(plus < 0, D, zero), jnp.where(minus < 0, D, zero)
        fp, fm = -(Dp * plus), -(Dm * minus)
        normal, stiffness = normal + (fp + fm), stiffness + (Dp + Dm)
        along.append(mu * (fp - fm))
        cross.append(mu * (Dp - Dm))
        own.append(mu * mu * (Dp + Dm))
        state = state + ((plus < 0).astype(jnp.int32) + 2 * (minus < 0).astype(jnp.int32)) * 4**k
    rest = [(own[i], *(zero,) * (len(own) - 1 - i)) for i in range(len(own))]
    curvature = ((stiffness, *cross), *rest)
    return Response((normal, *along), curvature, (zero,) * len(w), state, jnp.zeros_like(w[0] * D, bool))


def ellipse(w: Vector, D: Scalar, friction: Vector, impratio: Scalar) -> Response:
    """The elliptic cone: zero at the top, quadratic at the bottom, the distance to the cone in between.

    With Dₖ = D · impratio · (μₖ/μ₁)² along the tangents and μ = μ₁/√impratio, N = μ w₀ and Uₖ = μₖ wₖ, T = |U|, the
    cost is 0 for N ≥ μ T, ½ Σ D w² for μ N + T ≤ 0, and D / (2 μ² (1 + μ²)) · (N − μ T)² in between.
    """
    first = friction[0]
    mu = first / jnp.sqrt(impratio)
    N = mu * w[0]
    U = tuple(m * t for m, t in zip(friction, w[1:], strict=True))
    squared = dot(U, U)
    turned = squared > 0
    T = jnp.where(turned, jnp.sqrt(jnp.where(turned, squared, 1.0)), 0.0)
    top = mu * T <= N
    bottom = (mu * N + T <= 0) & ~top
    middle = ~(top | bottom)
    zero = jnp.zeros_like(w[0] * D)
    ratios = tuple(D * impratio * (m / first) * (m / first) for m in friction)
    stiff = (D, *ratios)  # of the bottom zone

    Dm = D / (mu * mu * (1 + mu * mu))
    T_safe = jnp.where(turned, T, 1.0)
    unit = tuple(u / T_safe for u in U)
    scale = (mu, *friction)
    pressed = Dm * (N - mu * T)
    sliding = (-(pressed * mu), *(pressed * mu * e * m for e, m in zip(unit, friction, strict=True)))
    grip = mu * N / T_safe

    def block(i: int, j: int) -> Scalar:  # of the middle zone, before scaling by Dm and the diagonal `scale`
        if i == 0:
            return jnp.ones_like(N) if j == 0 else -(mu * unit[j - 1])
        own = grip * unit[i - 1] * unit[j - 1]
        return own + (mu * mu - grip) if i == j else own

    n = len(w)
    curvature = tuple(
        tuple(
            jnp.where(
                middle,
                block(i, j) * scale[i] * scale[j] * Dm,
                jnp.where(bottom, stiff[i], zero) if i == j else zero,
            )
            for j in range(i, n)
        )
        for i in range(n)
    )
    force = tuple(
        jnp.where(middle, s, jnp.where(bottom, -(d * x), zero)) for s, d, x in zip(sliding, stiff, w, strict=True)
    )
    state = jnp.where(top, 0, jnp.where(bottom, 1, 2)).astype(jnp.int32)
    return Response(force, curvature, (zero,) * n, state, middle & (zero < D))  # s is of degree 2: force = −H w


@register_dataclass
@dataclass(frozen=True)
class Cone:
    """Contact with friction, or without."""

    D: Scalar
    friction: Vector  # one for each direction except the normal
    impratio: Scalar
    elliptic: bool = field(metadata={"static": True})

    def response(self, w: Vector) -> Response:
        if len(w) == 1:
            return one_sided(w[0], self.D)
        return ellipse(w, self.D, self.friction, self.impratio) if self.elliptic else pyramid(w, self.D, self.friction)


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
