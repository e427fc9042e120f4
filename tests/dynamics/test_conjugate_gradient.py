"""Forward dynamics by conjugate gradients, and the product H x that it is made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.published.jsiia import inertia_times
from kinetree.dynamics.schedules.arranged import arranged, by_position
from kinetree.tree import layout, restore
from tests.dynamics.trees import sample, worst


def test_the_product_is_inverse_dynamics_at_rest():
    s = sample("random")
    laid = layout(s.model.tree, "levels")
    x = jnp.asarray(s.states.tau)
    found = restore(laid, inertia_times(laid, arranged(laid, s.model, jnp.asarray(s.states.q)), by_position(laid, x)))
    assert worst(found.T, np.einsum("bij,bj->bi", s.H, s.states.tau)) < 1e-13
    weightless = s.model.replace(gravity=(0, 0, 0))
    rest = np.zeros_like(s.states.qd)
    assert worst(found.T, kt.inverse_dynamics(weightless, s.states.q, rest, s.states.tau)) < 1e-13


def test_tolerance_and_cap():
    s = sample("random")
    x = s.states
    exact = kt.forward_dynamics(s.model, x.q, x.qd, x.tau, method="crba")
    loose = kt.forward_dynamics(s.model, x.q, x.qd, x.tau, method="cg", tolerance=1e-2)
    assert 1e-9 < worst(loose, exact) < 1
    with pytest.raises(ValueError, match=r"3 of 3 states did not reach tolerance .* in 2 iterations"):
        kt.forward_dynamics(s.model, x.q, x.qd, x.tau, method="cg", max_iterations=2)


def test_states_that_need_no_force_are_done_at_once():
    s = sample("random")
    rest = np.zeros((3, s.model.nv))
    model = s.model.replace(gravity=(0, 0, 0))
    tau = rest.copy()
    tau[1] = s.states.tau[1]
    found = kt.forward_dynamics(model, s.states.q, rest, tau, method="cg")
    assert (found[[0, 2]] == 0).all()
    assert worst(found[1], kt.forward_dynamics(model, s.states.q, rest, tau, method="crba")[1]) < 1e-10


def test_under_jit():
    s = sample("random")
    x = s.states
    solve = jax.jit(lambda tau: kt.forward_dynamics(s.model, jnp.asarray(x.q), jnp.asarray(x.qd), tau, method="cg"))
    assert worst(solve(jnp.asarray(x.tau)), kt.forward_dynamics(s.model, x.q, x.qd, x.tau, method="crba")) < 1e-9
