"""Derivatives as matrices, against JAX's own through the XLA body, and against differences for quaternion joints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.dynamics.mixed import mixed_model
from tests.reference import generate

FUNCTIONS = {
    kt.inverse_dynamics: kt.inverse_dynamics_derivatives,
    kt.forward_dynamics: kt.forward_dynamics_derivatives,
}
SCREWS = {
    "one": lambda: kt.auto_tree(1, 1, 0.3),
    "arm": lambda: kt.auto_tree(7, 1, 0.3),
    "small tree": lambda: kt.auto_tree(9, 2, 0.3).replace(armature=np.linspace(0, 1, 9)),
    "tree": lambda: kt.auto_tree(20, 2, 0.3).replace(armature=np.linspace(0, 1, 20)),
    "forest": lambda: build_model(
        generate.random_tree(np.random.default_rng(2), 8, ("revolute", "prismatic", "helical"), "forest")
    ),
}


def state(model, batch=()):
    q, qd = kt.random_state(model, 3, batch)
    return q, qd, np.random.default_rng(4).uniform(-1, 1, qd.shape)


def close(found, wanted, bound):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=bound * max(1e-300, np.abs(np.asarray(b)).max()))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", SCREWS)
def test_closed_form(name, function):
    model = SCREWS[name]()
    given = state(model, (3,))
    jacobian = jax.jacfwd(lambda *x: function(model, *x, schedule="sequential"), argnums=(0, 1, 2))
    wanted = jax.jit(jax.vmap(jacobian))(*map(jnp.asarray, given))
    found = FUNCTIONS[function](model, *given)
    assert all(isinstance(x, np.ndarray) for x in found)
    close(found, wanted, 1e-11)
    close(jax.jit(lambda *x: FUNCTIONS[function](model, *x))(*map(jnp.asarray, given)), wanted, 1e-11)
    close(FUNCTIONS[function](model, *(x[0] for x in given)), [x[0] for x in wanted], 1e-11)
    if model.nv <= 12:  # LLVM takes 25 s to write out the derivatives of 20 rows
        close(FUNCTIONS[function](kt.specialize(model), *given), wanted, 1e-11)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_quaternion_joints_move_along_their_tangents(function):
    model = mixed_model()
    q, qd, x = state(model)
    found = FUNCTIONS[function](model, q, qd, x)
    step = 1e-6

    def difference(k, place):
        moved = [[q, qd, x], [q, qd, x]]
        d = step * np.eye(model.nv)[k]
        for sign, values in zip((1, -1), moved, strict=True):
            values[place] = kt.integrate(model, q, sign * d, 1.0) if place == 0 else values[place] + sign * d
        ahead, behind = (function(model, *values) for values in moved)
        return (ahead - behind) / (2 * step)

    for place, matrix in enumerate(found):
        wanted = np.stack([difference(k, place) for k in range(model.nv)], 1)
        np.testing.assert_allclose(matrix, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_springs_and_dampers_have_their_share():
    model = kt.auto_tree(5, 1, 0.3).replace(damping=np.linspace(1, 2, 5))
    bare = kt.auto_tree(5, 1, 0.3)
    by_qd = kt.inverse_dynamics_derivatives(model, *state(model))[1]
    without = kt.inverse_dynamics_derivatives(bare, *state(bare))[1]
    np.testing.assert_allclose(by_qd - without, np.diag(np.linspace(1, 2, 5)), atol=1e-12)


def test_one_is_the_inverse_of_the_other():
    model = kt.auto_tree(9, 1.5, 0.3)
    q, qd, tau = state(model, (4,))
    qdd = kt.forward_dynamics(model, q, qd, tau)
    by_q, by_qd, H = kt.inverse_dynamics_derivatives(model, q, qd, qdd)
    back = kt.forward_dynamics_derivatives(model, q, qd, tau)
    close((H @ back[0], H @ back[1], H @ back[2]), (-by_q, -by_qd, np.broadcast_to(np.eye(9), H.shape)), 1e-9)
    close([H], [kt.mass_matrix(model, q)], 1e-13)


def test_wrong_shapes():
    model = kt.auto_tree(3, 1, 0.3)
    with pytest.raises(ValueError, match=r"qdd must have shape \(\.\.\., 3\)"):
        kt.inverse_dynamics_derivatives(model, np.zeros(3), np.zeros(3), np.zeros(4))
