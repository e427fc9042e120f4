"""Random vectors, rotations and inertias, the awkward ones included, and a way to compare components."""

import jax
import numpy as np
from hypothesis import strategies as st

from kinetree.spatial import (
    ArticulatedInertia,
    Force,
    Inertia,
    Mat3,
    Motion,
    Quaternion,
    Rates,
    RelativeMotion,
    Rotation,
    Sym3,
    Transform,
    Vec3,
)
from tests.reference import dense

numbers = st.floats(-2, 2, allow_subnormal=False)
vectors = st.builds(Vec3, *[numbers] * 3)
matrices = st.builds(Mat3, *[numbers] * 9)
symmetrics = st.builds(Sym3, *[numbers] * 6)
motions = st.builds(Motion, vectors, vectors)
forces = st.builds(Force, vectors, vectors)
rates = st.builds(Rates, vectors, vectors, vectors)

seeds = st.integers(0, 2**32 - 1)
directions = st.one_of(
    st.sampled_from([*np.eye(3), *-np.eye(3)]), seeds.map(lambda s: np.random.default_rng(s).standard_normal(3))
).map(lambda a: a / np.linalg.norm(a))
# at both sides of where series take over, and of half a turn
angles = st.one_of(
    st.floats(0, np.pi, allow_subnormal=False),
    st.sampled_from([0.0, 1e-200, 1e-12, 1e-8, 9.9e-7, 1.01e-6, 1e-4, 0.499, 0.501]),
    st.sampled_from([np.pi - 1e-3, np.pi - 1e-8, np.pi - 1e-12, np.pi]),
)
rotation_vectors = st.builds(lambda a, d: Vec3(*(float(x) for x in a * d)), angles, directions)


def quaternion_of(theta):
    """The quaternion of a rotation vector."""
    v = np.array(theta)
    angle = np.linalg.norm(v)
    axis = v / angle if angle > 0 else v
    return Quaternion(float(np.cos(angle / 2)), *(float(x) for x in np.sin(angle / 2) * axis))


quaternions = st.builds(
    lambda q, sign: Quaternion(*(sign * c for c in q)),
    rotation_vectors.map(quaternion_of),
    st.sampled_from([1.0, -1.0]),
)
rotations = quaternions.map(lambda q: Rotation(*dense.rotation_of_quaternion(np.array(q)).ravel().tolist()))
transforms = st.builds(Transform, rotations, vectors)
relative_motions = st.builds(RelativeMotion, quaternions, vectors, vectors, vectors, vectors, vectors)


def rigid(seed):
    """The inertia of a real body: 6x6 matrix from mass, centre and positive second moments."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((3, 3))
    second = half @ half.T
    return dense.inertia_matrix(rng.uniform(0.1, 3), rng.standard_normal(3), np.trace(second) * np.eye(3) - second)


def articulated(seed):
    """Any positive definite 6x6 matrix as an articulated inertia."""
    half = np.random.default_rng(seed).standard_normal((6, 6))
    M = half @ half.T
    return ArticulatedInertia(Sym3.from_array(M[:3, :3]), Mat3.from_array(M[:3, 3:]), Sym3.from_array(M[3:, 3:]))


inertias = seeds.map(lambda seed: Inertia.from_matrix(rigid(seed)))
articulated_inertias = seeds.map(articulated)


def flat(value):
    """All components of a value, in order."""
    return np.array([float(c) for c in jax.tree.leaves(value)])


def full(value):
    """A value as a dense matrix or vector, made here and not by the code under test."""
    if hasattr(value, "shape") or isinstance(value, float):
        return np.asarray(value)
    match value:
        case Transform(E, r):
            return dense.plux(full(E), np.array(r))
        case Inertia(mass, h, I):
            out = np.zeros((6, 6))
            hx = dense.skew(np.array(h))
            out[:3, :3], out[:3, 3:], out[3:, :3], out[3:, 3:] = full(I), hx, hx.T, mass * np.eye(3)
            return out
        case ArticulatedInertia(A, B, C):
            return np.block([[full(A), full(B)], [full(B).T, full(C)]])
        case Mat3():
            return np.array(value).reshape(3, 3)
        case Sym3(xx, yy, zz, xy, xz, yz):
            return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return flat(value)


def close(actual, expected, tolerance=1e-13):
    """Assert that two values agree, relative to the largest component where that is above 1."""
    actual, expected = full(actual), full(expected)
    assert actual.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)
