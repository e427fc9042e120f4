"""Two articulated stretches in scalars, against the formulas with matrices."""

import numpy as np

from kinetree.dynamics.elements.articulated import Articulated
from kinetree.dynamics.elements.articulated_element import ArticulatedElement
from kinetree.dynamics.elements.six_by_six import combine_scalars
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Sym3, Vec3

DRAWS = 500  # for each number of directions
ROUNDINGS = 36  # six projections of six numbers each


def inertia(a):
    def part(rows, columns):
        return np.moveaxis(a[:, rows, columns], 0, -1)

    i, j = [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]
    up, down = slice(0, 3), slice(3, 6)
    return ArticulatedInertia(
        Sym3(*part(up, up)[i, j]), Mat3(*part(up, down).reshape(9, -1)), Sym3(*part(down, down)[i, j])
    )


def vector(kind, v):
    return kind(Vec3(*v.T[:3]), Vec3(*v.T[3:]))


def transpose(a):
    return np.swapaxes(a, -1, -2)


def norm(a):
    return np.linalg.norm(a, axis=(-2, -1))


def test_compliances_of_any_rank():
    """A stretch of few rows, or of axes that depend on each other, yields in fewer than six directions.

    Their elimination was not pivoted once: with four directions up to 6e-9 of J was wrong.
    """
    rank = np.repeat(np.arange(7), DRAWS)
    l, A1, A2, half = np.random.default_rng(1).normal(size=(4, len(rank), 6, 6))
    l = l * (np.arange(6) < rank[:, None])[:, None]
    C1, J2, none = l @ transpose(l), half @ transpose(half), np.zeros((len(rank), 6))

    def element(A, C, J):
        passed = Articulated(inertia(J), vector(Force, none), None)
        return ArticulatedElement(
            tuple(vector(Force, A[:, k]) for k in range(6)), vector(Motion, none), inertia(C), passed
        )

    found = combine_scalars(element(A1, C1, 0 * J2), element(A2, 0 * C1, J2))
    system = np.eye(6) + C1 @ J2
    M, error = np.linalg.inv(system), ROUNDINGS * np.finfo(float).eps * np.linalg.cond(system)
    for name, got, wanted, size in (
        ("J", found.passed.inertia, transpose(A1) @ J2 @ M @ A1, norm(A1) ** 2 * norm(J2)),
        ("C", found.C, A2 @ M @ C1 @ transpose(A2), norm(A2) ** 2 * norm(C1)),
    ):
        assert (norm(np.asarray(got.array()) - wanted) <= error * size).all(), name
