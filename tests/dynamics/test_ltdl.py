"""LᵀDL: factors, solves, sparsity and cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree import theory
from kinetree.dynamics.matrices import ltdl_lanes
from kinetree.dynamics.matrices.ltdl_lanes import triples
from kinetree.dynamics.schedules.choose import choose_factorization
from kinetree.tree import Tree
from tests.build import build_model
from tests.dynamics.trees import sample, worst
from tests.reference import spatial_v2

SCHEDULES = ("lanes", "sequential", "levels", "dense")


def rebuilt(factors):
    return np.swapaxes(factors.L, -1, -2) @ (np.asarray(factors.D)[..., :, None] * factors.L)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_spatial_v2(schedule):
    case = spatial_v2.load("hybrid_nb7")
    factors = kt.factorize(build_model(case), case.H, schedule=schedule)
    assert worst(factors.L, case.LTDL_L) < 1e-14
    assert worst(factors.D, case.LTDL_D) < 1e-14
    assert worst(np.sqrt(factors.D)[:, None] * factors.L, case.LTL_L) < 1e-14


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_factors_solves_and_products(schedule):
    s = sample("forest")
    H, b = np.asarray(s.H, float), s.states.tau
    factors = kt.factorize(s.model, H, schedule=schedule)
    assert worst(rebuilt(factors), H) < 1e-14
    assert worst(factors.solve(b), np.linalg.solve(H, b[..., None])[..., 0]) < 1e-10
    assert worst(factors.times_l(b), np.einsum("bij,bj->bi", factors.L, b)) < 1e-14
    assert worst(factors.times_lt(b), np.einsum("bji,bj->bi", factors.L, b)) < 1e-14
    assert worst(factors.times_l(factors.solve_l(b)), b) < 1e-12
    assert worst(factors.times_lt(factors.solve_lt(b)), b) < 1e-12
    assert worst(factors.log_determinant(), np.linalg.slogdet(H)[1]) < 1e-13
    assert worst(factors.determinant(), np.linalg.det(H)) < 1e-12


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_there_is_no_fill_in(schedule):
    s = sample("forest")
    factors = kt.factorize(s.model, np.asarray(s.H, float), schedule=schedule)
    assert factors.values.shape == (3, s.model.tree.n_ancestor_pairs)
    outside = np.ones((s.model.nv, s.model.nv), bool)
    outside[s.model.tree.ancestor_pairs] = False
    assert (factors.L[:, outside] == 0).all()


def test_packed_and_dense_input_give_the_same():
    s = sample("random")
    packed = kt.mass_matrix(s.model, s.states.q, packed=True)
    a, b = kt.factorize(s.model, packed), kt.factorize(s.model, packed.dense())
    assert np.array_equal(a.values, b.values)


@pytest.mark.parametrize("name", spatial_v2.cases("autotree"))
def test_solves_with_the_matrices_of_spatial_v2(name):
    case = spatial_v2.load(name)
    factors = kt.factorize(build_model(case), case.H, schedule="lanes")
    assert worst(rebuilt(factors), case.H) < 1e-14
    x = factors.solve(case.tau - case.C)
    assert (np.abs(x - case.qdd_ld).max(-1) < 1e-15 * case.condH * np.abs(case.qdd_ld).max(-1)).all()


def test_levels_and_lanes_solve_alike(monkeypatch):
    s = sample("forest")
    factors = kt.factorize(s.model, np.asarray(s.H, float))
    by_lanes = factors.solve(s.states.tau), factors.solve_l(s.states.tau), factors.solve_lt(s.states.tau)
    monkeypatch.setattr("kinetree.dynamics.matrices.ltdl._walks_pairs", lambda tree, batch: False)
    by_levels = factors.solve(s.states.tau), factors.solve_l(s.states.tau), factors.solve_lt(s.states.tau)
    for a, b in zip(by_lanes, by_levels, strict=True):
        assert worst(a, b) < 1e-13


def test_jit_vmap_grad_and_float32():
    s = sample("one")
    case = spatial_v2.load("hybrid_nb7")
    model, H, b = build_model(case), jnp.asarray(case.H), jnp.asarray(case.tau)
    exact = np.linalg.solve(case.H, case.tau)

    def solve(H, b):
        return kt.factorize(model, H, schedule="levels").solve(b)

    assert worst(jax.jit(solve)(H, b), exact) < 1e-12
    assert worst(jax.vmap(solve, (None, 0))(H, jnp.stack([b, 2 * b])), np.stack([exact, 2 * exact])) < 1e-12
    slope = jax.grad(lambda b: solve(H, b).sum())(b)
    assert worst(slope, np.linalg.solve(case.H, np.ones(7))) < 1e-12
    single = kt.factorize(model, case.H.astype(np.float32)).solve(case.tau.astype(np.float32))
    assert single.dtype == np.float32
    assert worst(single, exact) < 1e-4
    assert worst(kt.factorize(s.model, np.asarray(s.H, float)).solve(s.states.tau), s.states.tau / s.H[:, 0]) < 1e-14


def test_an_indefinite_matrix_is_refused_by_name():
    case = spatial_v2.load("hybrid_nb7")
    model, H = build_model(case), case.H.copy()
    H[3, 3] = -1
    with pytest.raises(ValueError, match=r"not positive definite.*row 3, of joint 'joint_3'"):
        kt.factorize(model, H)
    with pytest.raises(ValueError, match="unknown schedule"):
        kt.factorize(model, H, schedule="paths")
    with pytest.raises(ValueError, match="H must have shape"):
        kt.factorize(model, np.zeros((3, 3)))


def test_the_triples_are_the_published_count():
    tree = sample("forest").model.tree
    (table,) = (
        t
        for t, w in zip(ltdl_lanes.FACTORIZE.tables(tree), ltdl_lanes.FACTORIZE.walks, strict=True)
        if w is ltdl_lanes.ELIMINATE
    )
    assert len(table) == ltdl_lanes.triples(tree) == theory.ltdl(tree).additions


@pytest.mark.cpu
def test_sparsity_decides_the_schedule():
    def way(tree, batch):
        return choose_factorization(tree, batch, triples(tree)).schedule

    assert way(Tree(np.arange(30) - 1), 1) == "lanes"
    assert way(Tree(np.arange(300) - 1), 1) == "dense"
    assert way(Tree((np.arange(255) + 1) // 2 - 1), 1000) == "lanes"
