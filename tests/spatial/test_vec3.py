"""Vectors and 3 by 3 matrices against NumPy's."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from kinetree.spatial import Mat3, Sym3, Vec3, cross_matrix_times
from tests.reference import dense

from .strategies import close, full, matrices, numbers, symmetrics, vectors


@given(vectors, vectors, vectors, numbers)
def test_vectors(a, b, c, s):
    x, y = np.array(a), np.array(b)
    close(a + b, x + y)
    close(a - b, x - y)
    close(-a, -x)
    close(a * s, x * s)
    close(s * a, x * s)
    close(a.dot(b), x @ y)
    close(a.cross(b), np.cross(x, y))
    close(a.cross(b), -full(b.cross(a)))
    close(a.cross(b).dot(c), a.dot(b.cross(c)))  # the triple product
    close(a.cross(b.cross(c)) + b.cross(c.cross(a)) + c.cross(a.cross(b)), np.zeros(3))  # Jacobi
    close(a.outer(b), np.outer(x, y))


@given(matrices, matrices, symmetrics, symmetrics, vectors, numbers)
def test_matrices(M, N, S, T, v, s):
    m, n, p, q, x = full(M), full(N), full(S), full(T), np.array(v)
    for A, B, a, b in ((M, N, m, n), (S, T, p, q)):
        assert type(A + B) is type(A - B) is type(A * s) is type(A)
        close(A + B, a + b)
        close(A - B, a - b)
        close(A * s, a * s)
        close(s * A, a * s)
        close(A @ v, a @ x)
        close(A @ M, a @ m)
        close(A.array(), a)
    close(M.T, m.T)
    close(M.t_mul(v), m.T @ x)
    close(M.symmetric_part_twice(), m + m.T)
    close(S.turned_back(M), m.T @ p @ m)
    close(cross_matrix_times(v, M), dense.skew(x) @ m)
    close(np.array(M.rows), m)
    close(Mat3.from_columns(*M.rows), m.T)


def test_diagonal():
    close(Sym3.diagonal(3.0), 3 * np.eye(3))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_arrays_round_trip(shape):
    rng = np.random.default_rng(0)
    a, m = rng.standard_normal((*shape, 3)), rng.standard_normal((*shape, 3, 3))
    s = m + np.swapaxes(m, -1, -2)
    np.testing.assert_array_equal(Vec3.from_array(a).array(), a)
    np.testing.assert_array_equal(Mat3.from_array(m).array(), m)
    np.testing.assert_array_equal(Sym3.from_array(s).array(), s)
    assert Vec3.zero_like(a[..., 0]).array().shape == (*shape, 3)


@pytest.mark.parametrize("library", [np, jnp])
def test_components_may_have_any_shape(library):
    rng = np.random.default_rng(1)
    a, b, m = (library.asarray(rng.standard_normal((2, 5, *tail))) for tail in ((3,), (3,), (3, 3)))
    weight = library.asarray(rng.standard_normal((2, 5)))
    np.testing.assert_allclose(Vec3.from_array(a).cross(Vec3.from_array(b)).array(), np.cross(a, b), atol=1e-14)
    product = Mat3.from_array(m) @ Vec3.from_array(a)
    np.testing.assert_allclose(product.array(), np.einsum("...ij,...j", m, a), atol=1e-14)
    scaled = weight * Vec3.from_array(a)  # NumPy must leave this to the vector
    assert isinstance(scaled, Vec3)
    np.testing.assert_allclose(scaled.array(), weight[..., None] * a, atol=1e-14)
