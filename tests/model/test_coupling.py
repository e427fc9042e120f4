"""Mimic joints: every function of a coupled model is the free model's, seen through q_all = G q + g."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.crba import CRBA
from kinetree.dynamics.mass_matrix import mass_matrix
from kinetree.dynamics.schedules.lanes import lane_program_of
from kinetree.model.coupling import Coupling


def make():
    """A free body with four hinges; the second follows the first, and the fourth the second."""
    x_tree = np.stack([np.eye(6)] * 5)
    for k, r in enumerate(np.random.default_rng(0).standard_normal((5, 3))):
        x_tree[k, 3:, :3] = -np.cross(np.eye(3), r) @ np.eye(3)
    inertia = np.stack([np.diag([0.2, 0.3, 0.4, 2, 2, 2])] * 5)
    model = kt.Model.from_arrays(
        [-1, 0, 1, 0, 3], ["free", "Rx", "Ry", "Pz", "Rz"], x_tree, inertia, joint_names=["root", "a", "b", "c", "d"]
    )
    model = model.replace(damping=np.linspace(0, 1, 10), stiffness=np.linspace(1, 0, 10), armature=0.1)
    return model, model.couple({"b": ("a", -2.0, 0.5), "d": ("b", 3.0, 0.0)})


def matrices(model):
    """G and g by hand."""
    G, g = np.zeros((10, 8)), np.zeros(11)
    G[:7, :7] = np.eye(7)
    G[7, 6], G[8, 7], G[9, 6] = -2, 1, -6
    g[8], g[10] = 0.5, 1.5
    return G, g


def test_sizes_and_places():
    model, coupled = make()
    assert (coupled.nq, coupled.nv) == (9, 8)
    assert [coupled.v_index(n).start for n in "abcd"] == [6, 6, 7, 6]
    assert coupled.uncoupled.nv == model.nv == 10
    assert model.couple({}) is model


def test_everything_is_the_free_model_seen_through_the_coupling():
    model, coupled = make()
    G, g = matrices(model)
    q, qd = kt.random_state(coupled, 3, (4,))
    rng = np.random.default_rng(1)
    qdd, tau = rng.standard_normal((2, 4, 8))
    f_ext = rng.standard_normal((4, 5, 6))
    whole = np.concatenate([q[:, :7], (q[:, 7:] @ G[6:, 6:].T)], 1) + g
    there, rates, accelerations = whole, qd @ G.T, qdd @ G.T
    H, forces = mass_matrix(model, there), kt.inverse_dynamics(model, there, rates, accelerations, f_ext)
    np.testing.assert_allclose(kt.inverse_dynamics(coupled, q, qd, qdd, f_ext), forces @ G, atol=1e-12)
    np.testing.assert_allclose(mass_matrix(coupled, q), G.T @ H @ G, atol=1e-12)
    np.testing.assert_allclose(kt.bias_force(coupled, q, qd), kt.bias_force(model, there, rates) @ G, atol=1e-12)
    np.testing.assert_allclose(kt.passive_force(coupled, q, qd), kt.passive_force(model, there, rates) @ G, atol=1e-12)
    np.testing.assert_allclose(kt.jacobian(coupled, q, 4), kt.jacobian(model, there, 4) @ G, atol=1e-12)
    np.testing.assert_allclose(kt.com_jacobian(coupled, q), kt.com_jacobian(model, there) @ G, atol=1e-12)
    np.testing.assert_allclose(kt.kinetic_energy(coupled, q, qd), kt.kinetic_energy(model, there, rates))
    np.testing.assert_allclose(kt.potential_energy(coupled, q), kt.potential_energy(model, there))
    velocity = kt.frame_velocity(coupled, q, qd, 2, "local")
    np.testing.assert_allclose(velocity, np.einsum("bij,bj->bi", kt.jacobian(coupled, q, 2, "local"), qd), atol=1e-12)
    acceleration = kt.forward_dynamics(coupled, q, qd, tau, f_ext)
    np.testing.assert_allclose(kt.inverse_dynamics(coupled, q, qd, acceleration, f_ext), tau, atol=1e-11)
    Y = kt.inverse_dynamics_regressor(coupled, q, qd, qdd)
    plain = coupled.without_passive.replace(armature=0.0)
    inertias = np.asarray(model.inertia.array()).reshape(-1)
    np.testing.assert_allclose(Y @ inertias, kt.inverse_dynamics(plain, q, qd, qdd), atol=1e-11)
    C = kt.coriolis_matrix(plain, q, qd)
    expected = kt.bias_force(plain, q, qd) - kt.gravity_force(plain, q)
    np.testing.assert_allclose(np.einsum("bij,bj->bi", C, qd), expected, atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_zeros_are_neither_added_nor_copied(seed):
    """Entries of bodies that do not carry each other are zero, unless their followers do."""
    rng = np.random.default_rng(seed)
    free = kt.auto_tree(24, 3, 0.3)
    names = list(free.joint_names)
    followers = rng.permutation(24)[:14].reshape(2, 7)
    model = free.couple({names[a]: (names[b], rng.uniform(0.5, 2), 0.1) for a, b in followers.T})
    G = np.asarray(model.coupling.widen_v(np.eye(model.nv))).T
    q = rng.standard_normal((9, model.nq))
    there = np.asarray(model.coupling.widen_q(q))
    np.testing.assert_allclose(mass_matrix(model, q), G.T @ mass_matrix(free, there) @ G, atol=1e-12)
    for body in (3, 20):
        np.testing.assert_allclose(kt.jacobian(model, q, body), kt.jacobian(free, there, body) @ G, atol=1e-12)
    program = lane_program_of(CRBA, model)
    gather = program.turns(program.shape(model))[len(program.loops)][0]
    pairs = free.tree.n_ancestor_pairs
    assert 0 < len(gather) <= 2 * pairs  # Each entry of a pair is added once, or twice where both rows follow.


def test_configurations():
    _, coupled = make()
    assert kt.neutral(coupled).tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0]
    (q0, _), (q1, _) = kt.random_state(coupled, 0), kt.random_state(coupled, 1)
    there = kt.integrate(coupled, q0, kt.difference(coupled, q0, q1))
    there[3:7] *= np.sign(there[3:7] @ q1[3:7])
    np.testing.assert_allclose(there, q1, atol=1e-12)


def test_under_jit_and_grad():
    _, coupled = make()
    q, qd = (jnp.asarray(x) for x in kt.random_state(coupled, 2))
    power = jax.jit(lambda qd: kt.kinetic_energy(coupled, q, qd))
    np.testing.assert_allclose(jax.grad(power)(qd), mass_matrix(coupled, q) @ qd, atol=1e-12)


def test_what_is_refused():
    model, coupled = make()
    with pytest.raises(kt.ModelError, match="the joints it mimics form a cycle"):
        model.couple({"a": ("b", 1, 0), "b": ("a", 1, 0)})
    with pytest.raises(kt.ModelError, match="no joint is called 'x'"):
        model.couple({"a": ("x", 1, 0)})
    with pytest.raises(kt.ModelError, match="only hinges and sliders"):
        model.couple({"a": ("root", 1, 0)})
    q, qd = kt.random_state(coupled, 0)
    with pytest.raises(ValueError, match="can not serve a model with mimic joints"):
        kt.forward_dynamics(coupled, q, qd, qd, method="aba")
    with pytest.raises(ValueError, match="no packed form"):
        mass_matrix(coupled, q, packed=True)
    with pytest.raises(ValueError, match=r"q must have shape \(..., 9\), not \(11,\)"):
        kt.forward_kinematics(coupled, np.zeros(11))


def test_a_massless_end_is_refused_not_answered_with_nan():
    """The hinge `c` slides nothing: the reduced H is singular as well."""
    model, _ = make()
    inertia = np.stack([np.diag([0.2, 0.3, 0.4, 2, 2, 2])] * 3 + [np.zeros((6, 6))] * 2)
    bare = model.replace(inertia=inertia, armature=0.0)
    coupled = bare.couple({"b": ("a", -2.0, 0.5)})
    q, qd = kt.random_state(coupled, 3)
    with pytest.raises(ValueError, match="not positive definite"):
        kt.forward_dynamics(coupled, q, qd, qd)
    with pytest.raises(ValueError, match="not positive definite"):
        kt.impulse_response(coupled, q, 4, np.ones(6))


def test_a_long_line_of_followers_is_passed_once():
    """Each joint follows the one before it; looking up each line from its start would take n² / 2 look-ups."""
    n = 400
    looked_up = 0

    class Counted(dict):
        def __getitem__(self, key):
            nonlocal looked_up
            looked_up += 1
            return super().__getitem__(key)

    model = kt.auto_tree(n, skew=0.3)
    follows = Counted({f"joint_{i}": (f"joint_{i - 1}", -1.0, 0.5) for i in range(n - 1, 0, -1)})
    coupled = model.couple(follows)
    assert looked_up <= 4 * n
    assert coupled.nv == 1
    odd = np.arange(n) % 2
    np.testing.assert_array_equal(coupled.coupling.widen_q(np.array([0.125])), np.where(odd, 0.375, 0.125))
    np.testing.assert_array_equal(coupled.coupling.ratio_v, np.where(odd, -1.0, 1.0))


def test_a_leader_that_is_misspelt_is_suggested():
    model = kt.auto_tree(3, skew=0.3)
    with pytest.raises(kt.ModelError, match="no joint is called 'jiont_0': did you mean 'joint_0'"):
        model.couple({"joint_1": ("jiont_0", 1.0, 0.0)})


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_sums_over_many_followers(array):
    """Any number of followers, in any order, along either axis; a NaN stays with its own leader."""
    rng = np.random.default_rng(0)
    source = np.array([2, 0, 2, 2, 1, 0, 2, 2])
    ratio, f = rng.normal(size=8), rng.normal(size=(3, 8, 5))
    kept = np.array([1, 4, 0])
    coupling = Coupling(kept, kept, source, source, ratio, (ratio, ratio))
    G = np.zeros((8, 3))
    G[np.arange(8), source] = ratio
    f[0, 5, 1] = np.nan
    wanted = np.einsum("bij,ik->bkj", np.where(np.isnan(f), 0, f), G)
    wanted[0, 0, 1] = np.nan
    np.testing.assert_allclose(coupling.narrow(array(f), -2), wanted, atol=1e-6)
    np.testing.assert_allclose(coupling.narrow(array(f.swapaxes(1, 2))), wanted.swapaxes(1, 2), atol=1e-6)
