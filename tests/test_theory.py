"""The operation counts against the papers' own statements about them."""

import math

import numpy as np
import pytest

from kinetree import theory
from kinetree.tree import Tree


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (theory.aba_serial(1024), (307200, 285696)),
        (theory.dca(1024, 2), (1150 * 512 - 1041, 937 * 512 - 845)),
        (theory.dca(1024, 8), (928 * 2 + 1150 * 128 - 1041, 812 * 2 + 937 * 128 - 845)),
        (theory.dca(1024, 1), (1150 * 1024, 937 * 1024)),
        (theory.dca_one_body_each(1024), (9280, 8120)),
        (theory.dcae(1024, 8), (928 * 2 + 637 * 128 - 495, 812 * 2 + 548 * 128 - 446)),
        (theory.vneb_inertia_matrix(6), (33 * 3 + 109, 33 * 3 + 71)),
        (theory.vneb_bias_vector(6), (141, 15 * 3 + 101)),
        (theory.vneb_linear_solve(6), (16, 11)),
        (theory.vneb_forward_dynamics(6), (3 * 6 + 33 * 3 + 238, 2 * 6 + 48 * 3 + 171)),
        (theory.aba_serial_lee_chang(6), (380 * 6 - 198, 302 * 6 - 173)),
    ],
)
def test_counts_are_the_printed_ones(count, expected):
    assert count == pytest.approx(expected)


def test_dcae_beats_the_serial_method_from_two_processors_on():
    n = 1024
    assert theory.dcae_balanced(n, 2).total < theory.aba_serial(n).total
    assert theory.dcae(n, 4).total < theory.aba_serial(n).total


def test_dca_loses_below_four_processors_and_gains_little_at_four():
    n = 10**6  # where logarithms no longer matter: 2087/p against 579
    assert theory.dca(n, 2).total > theory.aba_serial(n).total
    assert theory.dca(n, 3).total > theory.aba_serial(n).total
    assert theory.dca(n, 4).total > 0.9 * theory.aba_serial(n).total
    assert theory.dca(n, 8).total < 0.5 * theory.aba_serial(n).total


def test_dcae_on_one_processor_is_the_serial_method():
    assert theory.dcae(100, 1) == theory.dcae_balanced(100, 1) == theory.aba_serial(100)


def test_about_twice_the_bodies_balance_the_terminal_chunk():
    n, p = 10**6, 4
    totals = {b: theory.dcae_balanced(n, p, b).total for b in (1.0, 2.0, 3.0, 4.0)}
    assert min(totals, key=lambda b: totals[b]) == 2.0
    assert theory.dcae_balanced(n, p, 1.0) == theory.dcae(n, p)


def test_vneb_speeds_up_six_joints_by_six_and_many_by_two_orders():
    assert theory.aba_serial_lee_chang(6).total / theory.vneb_forward_dynamics(6).total == pytest.approx(6, abs=1)
    assert theory.aba_serial_lee_chang(10**6).total / theory.vneb_forward_dynamics(10**6).total > 100


def test_the_parts_of_vneb_add_up_to_ten_multiplications_more_than_its_printed_total():
    for n in (2, 7, 64, 65):
        parts = theory.vneb_inertia_matrix(n).plus(theory.vneb_bias_vector(n)).plus(theory.vneb_linear_solve(n))
        printed = theory.vneb_forward_dynamics(n)
        assert parts.additions == printed.additions
        assert parts.multiplications == printed.multiplications + 10


def test_lynghus_bounds_grow_as_stated():
    assert theory.lynghus_rnea(2048)[0] == 2 * theory.lynghus_rnea(1024)[0]
    assert theory.lynghus_rnea(2048)[1] - theory.lynghus_rnea(1024)[1] == 1
    assert theory.lynghus_crba(100, 10)[0] == 100 * 100 + 100 * 10
    assert theory.lynghus_crba(100, 10)[1] == math.log2(200)


def test_factorization_counts():
    assert theory.ltdl(Tree([-1, 0, 0, 0])) == (6, 3)  # three leaves on one row: no updates among them
    assert theory.ltdl_solve(Tree([-1, 0, 0, 0])) == (10, 6)
    n = 200
    assert theory.ldlt(n).multiplications == pytest.approx(n**3 / 6, rel=0.02)
    assert theory.ldlt_solve(n).multiplications == n * n
    legs = np.concatenate([np.arange(6) - 1, *([5, 6 + 3 * k, 7 + 3 * k] for k in range(4))])  # a quadruped
    sparse = theory.ltdl(Tree(legs)).plus(theory.ltdl_solve(Tree(legs)))
    dense = theory.ldlt(18).plus(theory.ldlt_solve(18))
    assert 2 < dense.total / sparse.total < 4


@pytest.mark.parametrize(
    "bad",
    [
        lambda: theory.dca(0, 1),
        lambda: theory.dcae(4, 0),
        lambda: theory.dcae_balanced(4, 2, 0),
        lambda: theory.dcae_balanced(4, 2, "a"),
        lambda: theory.aba_serial("a"),
        lambda: theory.dca(np.zeros(2), 1),
        lambda: theory.vneb_inertia_matrix(np.nan),
    ],
)
def test_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match="not"):
        bad()


def test_counts_of_any_type_of_number():
    assert theory.vneb_inertia_matrix(np.int64(8)) == theory.vneb_inertia_matrix(8.0) == theory.vneb_inertia_matrix(8)
