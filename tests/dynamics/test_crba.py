"""Composite inertias and forward dynamics by CRBA and LᵀDL."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.crba import COMPOSITE, CRBA
from kinetree.dynamics.matrices.crba import ancestor_mask, mass_diagonal
from kinetree.dynamics.recursion import Row
from kinetree.dynamics.schedules.arranged import arranged
from kinetree.dynamics.schedules.choose import call_of, choose_mass_matrix
from kinetree.tree import layout, restore
from tests.dynamics.trees import sample, worst
from tests.reference import dense


def test_the_operator_keeps_its_laws():
    s = sample("random")
    at = arranged(layout(s.model.tree, "levels"), s.model, s.states.q)
    row = Row(at=at.placed.transform, axis=at.rows.axis, armature=at.rows.armature)
    outer = jax.tree.map(lambda x: x + 0 * at.placed.position.x, at.rows.inertia)

    def close(a, b):
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)

    e = COMPOSITE.element(row, outer)
    close(COMPOSITE.act(e, outer), CRBA.passes[0].visit(row, outer + outer)[0])
    other = COMPOSITE.element(jax.tree.map(lambda x: x[::-1], row), outer)
    close(COMPOSITE.act(COMPOSITE.combine(e, other), outer), COMPOSITE.act(e, COMPOSITE.act(other, outer)))
    close(COMPOSITE.act(COMPOSITE.identity(outer.mass), outer), outer)


def test_the_diagonal_alone():
    s = sample("random")
    laid = layout(s.model.tree, "paths")
    at = arranged(laid, s.model, s.states.q)
    diagonal = restore(laid, mass_diagonal(laid, at))
    assert worst(diagonal.T, np.einsum("bii->bi", s.H)) < 1e-13


def test_the_mask_is_the_ancestor_pairs():
    tree = sample("forest").model.tree
    mask = np.zeros((tree.n, tree.n), bool)
    mask[tree.ancestor_pairs] = True
    assert np.array_equal(ancestor_mask(tree), mask)


@pytest.mark.cpu
def test_who_writes_the_zeros_of_a_large_matrix():
    """Native pairs inside `jit`; NumPy's own are as fast, and the lanes compile sooner."""
    model = kt.auto_tree(2100, 2)
    q = np.zeros((1, model.nv))

    def way(q, packed):
        return choose_mass_matrix(call_of(model, (q,)), packed=packed).schedule

    assert way(q, packed=False) == "lanes"
    assert way(jnp.asarray(q), packed=False) == "paths"
    assert way(jnp.asarray(q), packed=True) == "lanes"
    assert way(jnp.asarray(q, jnp.float32), packed=False) == "lanes"


@pytest.mark.parametrize("schedule", ["lanes", "levels", "dense"])
def test_forward_dynamics_by_every_factorization(schedule):
    s = sample("forest")
    x = s.states
    tau = kt.inverse_dynamics(s.model, x.q, x.qd, x.qdd, x.f_ext)
    qdd = kt.forward_dynamics(s.model, x.q, x.qd, tau, x.f_ext, method="crba", schedule=schedule)
    assert worst(qdd, x.qdd) < 1e-10
    truth = dense.aba(s.description, x.q[0], x.qd[0], x.tau[0], x.f_ext[0])
    found = kt.forward_dynamics(s.model, x.q[0], x.qd[0], x.tau[0], x.f_ext[0], method="crba", schedule=schedule)
    assert worst(found, truth) < 1e-11
