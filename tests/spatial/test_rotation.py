"""Rotations and quaternions: the group, its exponential near zero and near half a turn, and dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from kinetree.spatial import Quaternion, Rotation, Vec3
from tests.reference import dense

from .strategies import close, flat, full, numbers, quaternion_of, quaternions, rotation_vectors, rotations, vectors

IDENTITY = Quaternion(1.0, 0.0, 0.0, 0.0)


@given(rotations, rotations, rotations, vectors)
def test_rotations_form_a_group(A, B, C, v):
    assert isinstance(A.after(B), Rotation)
    assert isinstance(A.T, Rotation)
    close(A.after(B), full(A) @ full(B))
    close(A.after(B) @ v, A @ (B @ v))
    close(A.after(B).after(C), A.after(B.after(C)))
    close(A.after(A.T), np.eye(3))
    close(Rotation.identity_like(1.0), np.eye(3))


@given(quaternions, quaternions, quaternions, vectors)
def test_quaternions_form_a_group(p, q, r, v):
    close((p * q) * r, p * (q * r))
    close(p * p.conjugate(), IDENTITY)
    close(p.conjugate() * p, IDENTITY)
    close(p * IDENTITY, p)
    close((p * q).conjugate(), q.conjugate() * p.conjugate())
    close((p * q).norm_squared(), 1.0)
    close((p * q).turn(v), p.turn(q.turn(v)))
    close(Quaternion.identity_like(1.0), IDENTITY)


@given(quaternions, quaternions, vectors, vectors)
def test_quaternions_turn_as_matrices(p, q, v, w):
    E = dense.rotation_of_quaternion(np.array(p))
    close(p.rotation(), E)
    close(p.turn(v), E.T @ np.array(v))
    close((p * q).rotation(), q.rotation().after(p.rotation()))
    close(p.turn(v.cross(w)), p.turn(v).cross(p.turn(w)))
    close(p.turn(v).dot(p.turn(w)), v.dot(w))


@given(quaternions, numbers)
def test_turns_about_z(p, angle):
    cos, sin = np.cos(angle / 2), np.sin(angle / 2)
    about_z = Quaternion(cos, 0.0, 0.0, sin)
    close(about_z.rotation(), dense.rotz(np.asarray(angle)))
    close(p.times_about_z(cos, sin), p * about_z)


@given(quaternions, numbers)
def test_lengths(p, factor):
    near = Quaternion(*(c * (1 + 1e-5 * factor) for c in p))
    close(near.renormalized(), p, 1e-9)  # the error is squared
    close(Quaternion(*(c * (0.1 + factor * factor) for c in p)).normalized(), p)


# ---------------------------------------------------------------------------------------------------- exponential


@given(rotation_vectors)
def test_exponential(theta):
    close(Quaternion.exp(theta), quaternion_of(theta), 1e-15)


def test_exponential_at_every_scale():
    theta = np.geomspace(1e-12, 3.1, 500)[:, None] * np.array([0.48, -0.6, 0.64])
    expected = np.array([quaternion_of(t) for t in theta])
    p = Quaternion.exp(Vec3.from_array(jnp.asarray(theta)))
    np.testing.assert_allclose(p.array(), expected, rtol=4e-15, atol=0)
    np.testing.assert_allclose(p.log().array(), theta, rtol=4e-15, atol=0)


@given(rotation_vectors)
def test_logarithm_undoes_the_exponential(theta):
    back = Quaternion.exp(theta).log()
    if np.linalg.norm(theta) > np.pi - 1e-15:  # both ways round are half a turn
        assert min(np.abs(flat(back) - flat(theta)).max(), np.abs(flat(back) + flat(theta)).max()) < 1e-14
    else:
        close(back, theta, 1e-14)
    small = np.abs(flat(theta)).max() < 1e-3
    if small:  # relative, too; halves of the smallest numbers are subnormal, and XLA may take them for zero
        np.testing.assert_allclose(flat(back), flat(theta), rtol=1e-14, atol=1e-300)


@given(quaternions)
def test_exponential_undoes_the_logarithm(p):
    again = Quaternion.exp(p.log())
    sign = np.sign(flat(p) @ flat(again))
    close(again, Quaternion(*(sign * c for c in p)), 1e-14)
    assert np.linalg.norm(flat(p.log())) < np.pi + 1e-15


@given(quaternions)
def test_both_signs_are_one_rotation(p):
    if abs(p.w) > 1e-9:  # at half a turn, either way round
        close(Quaternion(*(-c for c in p)).log(), p.log(), 1e-15)


def exp(a):
    return Quaternion.exp(Vec3.from_array(a)).array()


def log(a):
    return Quaternion.from_array(a).log().array()


@jax.jit
def derivatives(theta):
    """Of exp at theta, of log at exp(theta), and the second ones of exp's w."""
    return jax.jacobian(exp)(theta), jax.jacobian(log)(exp(theta)), jax.hessian(lambda a: exp(a)[0])(theta)


@pytest.mark.parametrize("angle", [0.0, 1e-30, 1e-9, 9.9e-7, 1.01e-6, 1e-3, 1.0, np.pi - 1e-6])
def test_derivatives_of_exponential_and_logarithm(angle):
    theta = jnp.asarray([0.6, -0.8, 0.0]) * angle
    forward, backward, second = derivatives(theta)
    np.testing.assert_allclose(backward @ forward, np.eye(3), atol=1e-9)
    assert np.isfinite(second).all()
    if angle < 1e-2:  # exp θ = (1 − θ²/8, θ/2) + ...
        np.testing.assert_allclose(forward, np.concatenate([-theta[None] / 4, np.eye(3) / 2]), atol=angle**2)
        np.testing.assert_allclose(second, -np.eye(3) / 4, atol=max(1e-3 * angle, 1e-12))


@pytest.mark.parametrize("half_turn", [[0.0, 1.0, 0.0, 0.0], [0.0, -0.6, 0.0, 0.8], [-0.0, 0.0, 0.0, -1.0]])
def test_logarithm_of_half_a_turn_has_derivatives(half_turn):
    p = jnp.asarray(half_turn)
    assert np.isfinite(jax.jacobian(log)(p)).all()
    np.testing.assert_allclose(np.linalg.norm(log(p)), np.pi)


def test_exponential_in_single_precision():
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((200, 3))
    theta = axes / np.linalg.norm(axes, axis=1, keepdims=True) * np.geomspace(1e-9, 3.1, 200)[:, None]
    p = Quaternion.exp(Vec3.from_array(jnp.asarray(theta, jnp.float32)))
    assert {c.dtype for c in p} == {c.dtype for c in p.log()} == {jnp.dtype(jnp.float32)}
    np.testing.assert_allclose(p.array(), [quaternion_of(Vec3(*t)) for t in theta], atol=3e-7)
    np.testing.assert_allclose(p.log().array(), theta, rtol=2e-6, atol=1e-12)
