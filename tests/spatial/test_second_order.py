"""Second-order motions: a group that acts on rates, right for frames that do move."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given

from kinetree.spatial import Quaternion, RelativeMotion, Vec3
from tests.reference import dense

from .strategies import close, flat, motions, rates, relative_motions, seeds

IDENTITY = RelativeMotion.identity_like(1.0)


@given(relative_motions, relative_motions, relative_motions)
def test_group(a, b, c):
    close(a.then(b).then(c), a.then(b.then(c)), 1e-12)
    close(a.then(IDENTITY), a)
    close(IDENTITY.then(a), a)
    close(a.then(a.inverse()), IDENTITY, 1e-12)
    close(a.inverse().then(a), IDENTITY, 1e-12)
    close(a.then(b).inverse(), b.inverse().then(a.inverse()), 1e-11)


@given(relative_motions, relative_motions, rates)
def test_action(a, b, s):
    close(a.then(b).act(s), b.act(a.act(s)), 1e-12)
    close(IDENTITY.act(s), s)
    close(a.inverse().act(a.act(s)), s, 1e-12)
    close(a.then(b).rates, b.act(a.rates))
    close(a.then(b).transform, b.transform @ a.transform)


@given(relative_motions, rates, motions)
def test_agrees_with_spatial_accelerations(a, parent, any_velocity):
    """RBDA eq. 3.42 at any velocity of the parent's origin, of which accelerations must be independent."""
    X = dense.plux(dense.rotation_of_quaternion(np.array(a.orientation)), np.array(a.position))
    omega, velocity = flat(parent.omega), flat(any_velocity.linear)
    v_parent = np.concatenate([omega, velocity])
    a_parent = np.concatenate([parent.alpha, flat(parent.acceleration) - np.cross(omega, velocity)])
    vJ = np.concatenate([a.omega, a.velocity])
    vJ_rate = np.concatenate([a.alpha, flat(a.acceleration) - np.cross(a.omega, a.velocity)])
    v = X @ v_parent + vJ
    spatial = X @ a_parent + vJ_rate + dense.cross_motion(v, vJ)
    classical = spatial[3:] + np.cross(v[:3], v[3:])
    close(a.act(parent), np.concatenate([v[:3], spatial[:3], classical]), 1e-12)


def curve(coefficients, t):
    """Orientation (from child to parent) and position of a frame at time t; coefficients (3, 7)."""
    c = coefficients[0] + coefficients[1] * t + coefficients[2] * t * t
    q = Quaternion(1 + 0.3 * c[0], *c[1:4]).normalized()
    return jnp.stack([jnp.stack(q.turn(Vec3.from_array(column)), -1) for column in jnp.eye(3)], -1), c[4:], q.array()


@jax.jit
def observed(inner, outer):
    """Two moving frames at time 0, and the second as seen from the base: pose, rates and velocities, from calculus."""

    def both(t):
        R1, p1, q1 = curve(inner, t)
        R2, p2, q2 = curve(outer, t)
        return (R1, p1, q1), (R2, p2, q2), (R1 @ R2, p1 + R1 @ p2, jnp.zeros(4))

    def rate(t):
        return jax.jvp(both, (t,), (jnp.ones_like(t),))[1]

    zero = jnp.zeros(())
    first, second = jax.jvp(rate, (zero,), (jnp.ones_like(zero),))

    def seen(pose, d, dd):
        (R, p, q), (Rd, pd, _), (Rdd, pdd, _) = pose, d, dd
        turn, spin = R.T @ Rd, R.T @ Rdd

        def axis(M):  # of the skew part; that of spin is alpha, since (Rᵀ Ṙ)˙ = Rᵀ R̈ − (ω×)², and this is symmetric
            return jnp.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]]) / 2

        return R, jnp.concatenate([q, p, axis(turn), axis(spin), R.T @ pd, R.T @ pdd])

    return tuple(map(seen, both(zero), first, second))


@given(seeds)
def test_moving_frames(seed):
    inner, outer = np.random.default_rng(seed).standard_normal((2, 3, 7)) * 0.5
    (_, one), (_, two), (R, both) = observed(inner, outer)

    def element(a):
        a = np.asarray(a)
        return RelativeMotion(Quaternion.from_array(a), *(Vec3.from_array(a[k:]) for k in range(4, 19, 3)))

    composed = element(one).then(element(two))
    close(flat(composed)[4:], np.asarray(both)[4:], 1e-12)
    close(composed.orientation.rotation(), np.asarray(R).T, 1e-12)
    # the acceleration of a resting base's grandchild is that of its own motion
    close(element(two).act(element(one).rates), flat(composed.rates), 1e-12)
