"""Muscles: MuJoCo's model of them, with curves of force over length and velocity, and activations that rise faster.

With L the length and V the velocity, scaled so that the muscle is strongest at L = 1 and gives way at V = −1,
    gain = −peak · FL(L) FV(V),   bias = −peak · FP(L),
where FL is a bump of four parabolas from `shortest` to `longest`, FV a parabola up to (0, 1) and another up to
`fv_most`, and FP nothing up to 1, a parabola, then a line. The facts are those of MuJoCo's manual, chapter Modeling,
section Muscles; activations follow Millard et al. 2013, equations 1 and 2.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.collide.shapes import MIN_VALUE


class Scaled(NamedTuple):
    """A muscle's length and velocity in its own units."""

    length: Any
    velocity: Any
    unit: Any  # of velocity
    peak: Any  # the largest force


def scaled(curve: Any, length_range: Any, acc0: Any, length: Any, velocity: Any) -> Scaled:
    """From curves (9, ...), ranges of lengths (2, ...), and lengths and velocities."""
    low, high, force, scale, _, _, fastest = (curve[k] for k in range(7))
    peak = jnp.where(force < 0, scale / jnp.maximum(acc0, MIN_VALUE), force)
    rest = (length_range[1] - length_range[0]) / jnp.maximum(high - low, MIN_VALUE)
    unit = jnp.maximum(rest * fastest, MIN_VALUE)
    return Scaled(low + (length - length_range[0]) / jnp.maximum(rest, MIN_VALUE), velocity / unit, unit, peak)


def _over(x: Any, width: Any) -> Any:
    return x / jnp.maximum(width, MIN_VALUE)


def _bump(curve: Any, L: Any) -> Any:
    """FL."""
    shortest, longest = curve[4], curve[5]
    a, b = 0.5 * (shortest + 1), 0.5 * (1 + longest)
    rise, near = _over(L - shortest, a - shortest), _over(1 - L, 1 - a)
    past, fall = _over(L - 1, b - 1), _over(longest - L, longest - b)
    left = jnp.where(a >= L, 0.5 * rise * rise, 1 - 0.5 * near * near)
    right = jnp.where(b >= L, 1 - 0.5 * past * past, 0.5 * fall * fall)
    inside = (shortest <= L) & (longest >= L)
    return jnp.where(inside, jnp.where(L <= 1, left, right), 0.0)


def gain(curve: Any, s: Scaled) -> tuple[Any, Any]:
    """The force at full activation, and how it grows with velocity."""
    V, most = s.velocity, curve[8]
    y = most - 1
    shortening = jnp.where(V <= -1, 0.0, (V + 1) * (V + 1))
    lengthening = jnp.where(y >= V, most - _over((y - V) * (y - V), y), most)
    slope = jnp.where(V <= -1, 0.0, jnp.where(V <= 0, 2 * V + 2, jnp.where(y >= V, _over(2 * (y - V), y), 0.0)))
    strength = -s.peak * _bump(curve, s.length)
    return strength * jnp.where(V <= 0, shortening, lengthening), strength * slope / s.unit


def bias(curve: Any, s: Scaled) -> Any:
    """The force of a passive muscle."""
    L, most = s.length, curve[7]
    b = 0.5 * (1 + curve[5])
    x, beyond = _over(L - 1, b - 1), _over(L - b, b - 1)
    return -s.peak * most * jnp.where(L <= 1, 0.0, jnp.where(b >= L, 0.5 * x * x, 0.5 + beyond))


def rate(times: Any, u: Any, act: Any) -> Any:
    """ȧ, from the times (3, ...): to rise, to fall, and the width over which the two are blended."""
    excess = jnp.clip(u, 0.0, 1.0) - act
    factor = 0.5 + 1.5 * jnp.clip(act, 0.0, 1.0)
    rise, fall, width = times[0] * factor, times[1] / factor, times[2]
    hard = width < MIN_VALUE
    x = jnp.clip(excess / jnp.where(hard, 1.0, width) + 0.5, 0.0, 1.0)
    blend = x * x * x * (3 * x * (2 * x - 5) + 10)
    blend = jnp.where(hard, jnp.where(excess > 0, 1.0, 0.0), blend)
    return excess / jnp.maximum(fall + (rise - fall) * blend, MIN_VALUE)
