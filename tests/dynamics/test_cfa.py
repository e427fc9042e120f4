"""The constraint force algorithm."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.published.cfa import Tridiagonal, odd_even_elimination

from .forward import long_chain_error, mechanism


def test_error_grows_as_stated():
    assert long_chain_error(256, method="cfa") < 1e-6


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_odd_even_elimination(n):
    rng = np.random.default_rng(n)
    U = rng.standard_normal((n, 1, 3, 3))
    U[-1] = 0
    D = rng.standard_normal((n, 1, 3, 3))
    D = D @ np.swapaxes(D, -1, -2) + 20 * np.eye(3)
    R = rng.standard_normal((n, 1, 3))
    whole = np.zeros((3 * n, 3 * n))
    for i in range(n):
        here = slice(3 * i, 3 * i + 3)
        whole[here, here] = D[i, 0]
        if i + 1 < n:
            after = slice(3 * i + 3, 3 * i + 6)
            whole[here, after], whole[after, here] = U[i, 0], U[i, 0].T
    found = odd_even_elimination(Tridiagonal(*map(jnp.asarray, (D, U, R))))
    np.testing.assert_allclose(np.ravel(found), np.linalg.solve(whole, R.ravel()), rtol=1e-12, atol=1e-13)


def test_branches_and_armature_are_refused():
    _, model, s = mechanism(14, "random")
    with pytest.raises(ValueError, match="'aba' or 'dca'"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau, method="cfa")
    _, model, s = mechanism(14, "chain")
    geared = dataclasses.replace(model, rows=model.rows._replace(armature=np.ones(model.nv)))
    with pytest.raises(ValueError, match="armature"):
        kt.forward_dynamics(geared, s.q, s.qd, s.tau, method="cfa")
