"""Plücker transforms against 6 by 6 matrices."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given

from kinetree.spatial import ArticulatedInertia, Force, Inertia, Motion, Rotation, Transform, Vec3
from tests.reference import dense

from .strategies import articulated_inertias, close, flat, forces, full, inertias, motions, transforms

IDENTITY = np.eye(6)


@given(transforms, transforms, transforms)
def test_group(X, Y, Z):
    close(X @ Y, full(X) @ full(Y))
    close((X @ Y) @ Z, X @ (Y @ Z))
    close(X @ X.inverse(), IDENTITY)
    close(X.inverse() @ X, IDENTITY)
    close(X.inverse(), np.linalg.inv(full(X)), 1e-12)
    close(Transform.identity_like(1.0), IDENTITY)


@given(transforms, transforms, motions, forces)
def test_motions_and_forces(X, Y, m, f):
    assert isinstance(X @ m, Motion)
    assert isinstance(X.force_to_parent(f), Force)
    close(X @ m, full(X) @ flat(m))
    close((X @ Y) @ m, X @ (Y @ m))
    close(X.motion_to_parent(X @ m), m)
    close(X.motion_to_parent(m), np.linalg.solve(full(X), flat(m)), 1e-12)
    close(X.force_to_parent(f), full(X).T @ flat(f))
    close(X.force_to_child(X.force_to_parent(f)), f)
    close(X.force_to_child(f), np.linalg.solve(full(X).T, flat(f)), 1e-12)


@given(transforms, motions, motions, forces)
def test_nothing_depends_on_coordinates(X, v, m, f):
    close((X @ m).dot(f), m.dot(X.force_to_parent(f)))  # power: Xᵀ is the dual of X
    close((X @ m).dot(X.force_to_child(f)), m.dot(f))
    close(X @ v.cross(m), (X @ v).cross(X @ m), 1e-12)
    close(X.force_to_child(v.cross_force(f)), (X @ v).cross_force(X.force_to_child(f)), 1e-12)


@given(transforms, transforms, inertias, motions)
def test_rigid_inertias(X, Y, I, v):
    moved = X.inertia_to_parent(I)
    assert isinstance(moved, Inertia)
    close(moved, full(X).T @ full(I) @ full(X), 1e-12)
    close((Y @ X).inertia_to_parent(I), X.inertia_to_parent(Y.inertia_to_parent(I)), 1e-12)
    close(X.inverse().inertia_to_parent(moved), I, 1e-12)
    close(v.dot(moved @ v), (X @ v).dot(I @ (X @ v)), 1e-12)  # twice the kinetic energy


@given(transforms, articulated_inertias)
def test_articulated_inertias(X, I):
    moved = X.articulated_to_parent(I)
    assert isinstance(moved, ArticulatedInertia)
    close(moved, full(X).T @ full(I) @ full(X), 1e-12)


@given(transforms, inertias)
def test_both_inertias_move_alike(X, I):
    close(X.articulated_to_parent(I.articulated()), full(X.inertia_to_parent(I)), 1e-12)


def test_components_may_have_any_shape():
    rng = np.random.default_rng(0)
    E = dense.rotation_of_quaternion(rng.standard_normal((2, 5, 4)))
    r, m = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5, 6))
    X = Transform(Rotation.from_array(jnp.asarray(E)), Vec3.from_array(jnp.asarray(r)))
    expected = np.einsum("...ij,...j", dense.plux(E, r), m)
    np.testing.assert_allclose((X @ Motion.from_array(jnp.asarray(m))).array(), expected, atol=1e-14)
