"""Motions and forces: vector spaces, their cross products, and the power between them."""

import numpy as np
import pytest
from hypothesis import given

from kinetree.spatial import Force, Motion
from tests.reference import dense

from .strategies import close, flat, forces, motions, numbers


@given(motions, motions, forces, forces, numbers)
def test_vector_spaces(v, m, f, g, s):
    for a, b in ((v, m), (f, g)):
        assert type(a + b) is type(a - b) is type(-a) is type(a * s) is type(a)
        close(a + b, flat(a) + flat(b))
        close(a - b, flat(a) - flat(b))
        close(-a, -flat(a))
        close(a * s, flat(a) * s)
        close(s * a, flat(a) * s)
    close(v.dot(f), flat(v) @ flat(f))


@given(motions, motions, forces)
def test_cross_products(v, m, f):
    close(v.cross(m), dense.cross_motion(flat(v), flat(m)))
    close(v.cross_force(f), dense.cross_force(flat(v), flat(f)))
    close(v.cross(v), np.zeros(6))
    close(v.cross(m).dot(f), -m.dot(v.cross_force(f)))  # crf is minus the transpose of crm


@given(motions, motions, motions, forces)
def test_jacobi(u, v, w, f):
    close(u.cross(v.cross(w)) + v.cross(w.cross(u)) + w.cross(u.cross(v)), np.zeros(6), 1e-12)
    close(u.cross(v).cross_force(f), u.cross_force(v.cross_force(f)) - v.cross_force(u.cross_force(f)), 1e-12)


@pytest.mark.parametrize("kind", [Motion, Force])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_arrays_round_trip(kind, shape):
    a = np.random.default_rng(0).standard_normal((*shape, 6))
    np.testing.assert_array_equal(kind.from_array(a).array(), a)
    np.testing.assert_array_equal(kind.zero_like(a[..., 0]).array(), 0 * a)
