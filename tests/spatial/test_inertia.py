"""Rigid and articulated inertias against 6 by 6 matrices."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from kinetree.spatial import ArticulatedInertia, Force, Inertia, Sym3, Vec3
from tests.reference import dense

from .strategies import articulated_inertias, close, flat, full, inertias, motions, rigid, vectors


@given(inertias, inertias, motions, motions)
def test_rigid_inertia_is_its_matrix(I, J, v, w):
    assert isinstance(I @ v, Force)
    close(I @ v, full(I) @ flat(v))
    close(I + J, full(I) + full(J))
    close(v.dot(I @ w), w.dot(I @ v), 1e-12)  # symmetric
    assert v.dot(I @ v) >= -1e-12  # energy


@given(inertias)
def test_forms_of_a_rigid_inertia(I):
    assert len(flat(I)) == 10
    close(I.articulated(), full(I))
    close(I.articulated().array(), full(I))
    close(Inertia.from_matrix(full(I)), I)
    close(Inertia.from_array(np.asarray(I.array())), I)
    np.testing.assert_array_equal(I.array(), [I.mass, *I.h, *I.I])


@given(inertias, vectors, vectors)
def test_shifted(I, r, s):
    X = dense.plux(np.eye(3), np.array(r))
    close(I.shifted(r), X.T @ full(I) @ X, 1e-12)
    close(I.shifted(r).shifted(s), I.shifted(r + s), 1e-12)


def test_parallel_axes():
    point = Inertia(2.0, Vec3(0.0, 0.0, 0.0), Sym3(*6 * (0.0,))).shifted(Vec3(0.0, 3.0, 0.0))
    close(point, Inertia(2.0, Vec3(0.0, 6.0, 0.0), Sym3(18.0, 0.0, 18.0, 0.0, 0.0, 0.0)))


@given(articulated_inertias, articulated_inertias, motions)
def test_articulated_inertia_is_its_matrix(I, J, v):
    assert len(flat(I)) == 21
    close(I @ v, full(I) @ flat(v), 1e-12)
    close(I + J, full(I) + full(J))
    close(I.array(), full(I))


@given(articulated_inertias, motions)
def test_taking_a_joint_out(I, S):
    U = I @ S
    d = S.dot(U)
    if d < 1e-6:
        return
    left = I.without(U, 1 / d)
    close(left, full(I) - np.outer(flat(U), flat(U)) / d, 1e-12)
    close(left @ S, np.zeros(6), 1e-9)  # nothing resists along the joint
    assert np.linalg.eigvalsh(full(left)).min() > -1e-10 * np.abs(full(I)).max()


@given(articulated_inertias, motions)
def test_the_motion_that_a_force_makes(I, v):
    firm = I + Inertia(1.0, Vec3(0.0, 0.0, 0.0), Sym3(1.0, 1.0, 1.0, 0.0, 0.0, 0.0)).articulated()
    close(firm.solve(firm @ v), flat(v), 1e-9)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_components_may_have_any_shape(shape):
    M = np.stack([rigid(k) for k in range(int(np.prod(shape)))]).reshape(*shape, 6, 6)
    I = Inertia.from_matrix(jnp.asarray(M))
    np.testing.assert_allclose(I.articulated().array(), M, atol=1e-14)
    np.testing.assert_allclose(Inertia.from_array(I.array()).articulated().array(), M, atol=1e-14)
    assert Inertia.zero_like(I.mass).array().shape == (*shape, 10)
    np.testing.assert_array_equal(ArticulatedInertia.zero_like(I.mass).array(), 0 * M)
