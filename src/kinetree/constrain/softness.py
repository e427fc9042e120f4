"""How soft a constraint is: impedance, reference acceleration and regularisation, from `solimp` and `solref`.

A constraint with residual r and velocity v has the reference acceleration a_ref = −b v − k d r. Its impedance d is in
(0, 1), and its regularisation is R = (1 − d)/d · (inverse inertia) (MuJoCo documentation, "Solver parameters"). All
functions are elementwise.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.collide.shapes import MIN_VALUE
from kinetree.model.world import SOLREF
from kinetree.spatial import Scalar

MIN_IMPEDANCE, MAX_IMPEDANCE = 1e-4, 0.9999


def parts(array: Any) -> tuple[Scalar, ...]:
    """The last axis of an array as a tuple of arrays, with a batch axis added at the end."""
    return tuple(array[..., k, None] for k in range(array.shape[-1]))


def impedance(solimp: tuple[Scalar, ...], r: Scalar) -> Scalar:
    """d(r): from solimp[0] at r = 0 to solimp[1] at |r| = width, a power curve on either side of the midpoint.

    A power that is a Python integer is shared by all constraints; it needs no logarithm.
    """
    low, high, width, middle, power = solimp
    low, high, middle = (jnp.clip(x, MIN_IMPEDANCE, MAX_IMPEDANCE) for x in (low, high, middle))
    power = max(power, 1) if isinstance(power, int) else jnp.maximum(power, 1.0)
    flat = (low == high) | (width <= MIN_VALUE)
    x = jnp.abs(r) / jnp.where(flat, 1.0, width)
    inside = (x > 0) & (x < 1)
    at = jnp.where(inside, x, 0.5)  # avoids the points where powers have no derivative
    early = jnp.power(at, power) / jnp.power(middle, power - 1)
    late = 1 - jnp.power(1 - at, power) / jnp.power(1 - middle, power - 1)
    curve = jnp.where(power == 1, at, jnp.where(at <= middle, early, late))
    y = jnp.where(inside, curve, jnp.where(x >= 1, 1.0, 0.0))
    return jnp.where(flat, 0.5 * (low + high), low + y * (high - low))


class Reference(NamedTuple):
    """a_ref = −damping · v − stiffness · d · r."""

    stiffness: Scalar
    damping: Scalar


def reference(solref: tuple[Scalar, ...], solimp: tuple[Scalar, ...], least_time: Scalar) -> Reference:
    """Stiffness and damping: from a time constant and a damping ratio if both are positive, else given directly.

    Arguments:
        solref, solimp: MuJoCo's parameters; a solref of mixed signs is replaced by the default, as in MuJoCo.
        least_time: the shortest time constant.
    """
    mixed = (solref[0] > 0) != (solref[1] > 0)
    time, ratio = (jnp.where(mixed, default, x) for x, default in zip(solref, SOLREF, strict=True))
    direct = time <= 0
    time = jnp.where(direct, time, jnp.maximum(time, least_time))
    high = jnp.clip(solimp[1], MIN_IMPEDANCE, MAX_IMPEDANCE)
    scaled = high * time * ratio
    return Reference(
        jnp.where(direct, -time / (high * high), 1 / jnp.maximum(scaled * scaled, MIN_VALUE)),
        jnp.where(direct, -ratio / high, 2 / jnp.maximum(high * time, MIN_VALUE)),
    )


def regularisation(d: Scalar, inverse_inertia: Scalar) -> Scalar:
    """R."""
    return jnp.maximum((1 - d) * inverse_inertia / d, MIN_VALUE)


def soft_row(
    solref: tuple, solimp: tuple, weight: Scalar, r: Scalar, velocity: Scalar, active: Any, least_time: Scalar
) -> tuple[Scalar, Scalar]:
    """D and the reference acceleration of a row with residual r; both are zero if it is inactive."""
    d = impedance(solimp, r)
    k, b = reference(solref, solimp, least_time)
    D = jnp.where(active, 1 / regularisation(d, weight), 0.0)
    return D, jnp.where(active, -b * velocity - k * d * r, 0.0)
