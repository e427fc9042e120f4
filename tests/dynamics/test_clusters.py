"""Joints that follow one another and hang together are one joint to the articulated-body algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.closed_form.shape import Skeleton
from kinetree.dynamics.schedules.lane_clusters import clusters_of
from tests.second import in_turn

#           0   1  2  3  4  5  6  7  8  9
PARENT = [-1, 0, 1, 2, 3, 2, 5, 1, 7, 7]
JOINTS = ["Rx", "Ry", "Rz", "Px", "Ry", "Rx", "Rz", "Ry", "Rx", "Pz"]
NAMES = [f"j{k}" for k in range(10)]
CASES = {
    "fingers side by side": {"j8": ("j9", -2.0, 0.1)},
    "a finger with a tip": {"j4": ("j3", 0.5, 0.2), "j5": ("j3", -1.0, 0.0), "j6": ("j5", 1.0, 0.0)},
    "something hangs from a finger": {"j5": ("j3", 1.5, 0.0)},
    "two hands": {"j4": ("j3", -1.0, 0.0), "j9": ("j8", 1.0, 0.3)},
    "two fingers on one palm": {"j6": ("j5", 1.0, 0.0), "j4": ("j3", 1.0, 0.0)},
    "from the base on": {"j1": ("j0", 0.7, 0.0)},
    "one that does not move": {"j8": ("j9", 0.0, 0.4)},
}
APART = {
    "another joint between": {"j4": ("j2", 1.0, 0.0)},
    "two hands as one": {"j8": ("j3", 1.0, 0.0)},
    "a cluster on a cluster": {"j2": ("j1", 1.0, 0.0), "j5": ("j3", 1.0, 0.0)},
}


def make(follows, root=None):
    rng = np.random.default_rng(0)
    parent = PARENT if root is None else [-1, *(p + 1 for p in PARENT)]
    joints = JOINTS if root is None else [root, *JOINTS]
    n = len(parent)
    x_tree = np.stack([np.eye(6)] * n)
    for k, r in enumerate(rng.standard_normal((n, 3))):
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turn *= np.linalg.det(turn)
        x_tree[k, :3, :3] = x_tree[k, 3:, 3:] = turn
        x_tree[k, 3:, :3] = -turn @ np.cross(r, np.eye(3)).T
    inertia = np.stack([np.diag([0.2, 0.3, 0.4, 2, 2, 2])] * n)
    names = NAMES if root is None else ["root", *NAMES]
    model = kt.Model.from_arrays(parent, joints, x_tree, inertia, joint_names=names)
    nv = model.nv
    model = model.replace(damping=np.linspace(0, 1, nv), stiffness=np.linspace(1, 0, nv), armature=0.1)
    return model.couple(follows)


def expected(model, q, qd, tau, f_ext=None):
    """By the reduced mass matrix: none of its parts knows of clusters."""
    held = kt.inverse_dynamics(model, q, qd, 0 * qd, f_ext)
    return np.linalg.solve(kt.mass_matrix(model, q), (tau - held)[..., None])[..., 0]


def state(model, batch=5):
    q, qd = kt.random_state(model, 1, (batch,))
    rng = np.random.default_rng(2)
    return q, qd, rng.standard_normal(qd.shape), rng.standard_normal((batch, model.n_bodies, 6))


@in_turn(("name", "root"), CASES, [None, "free", "spherical"])
def test_forward_dynamics_is_that_of_the_reduced_equation(name, root):
    model = make(CASES[name], root)
    assert clusters_of(Skeleton.of(model)) is not None
    *given, f_ext = state(model)
    want = expected(model, *given)
    scale = np.abs(want).max()
    np.testing.assert_allclose(kt.forward_dynamics(model, *given), want, atol=1e-12 * scale)
    pushed = kt.forward_dynamics(model, *given, f_ext)
    np.testing.assert_allclose(pushed, expected(model, *given, f_ext), atol=1e-12 * scale)


@pytest.mark.parametrize("name", APART)
def test_joints_that_do_not_hang_together_are_solved_by_the_mass_matrix(name):
    model = make(APART[name], "free")
    assert clusters_of(Skeleton.of(model)) is None
    assert kt.explain(model).method == "crba"
    *given, _ = state(model)
    np.testing.assert_allclose(kt.forward_dynamics(model, *given), expected(model, *given), rtol=1e-9, atol=1e-9)


def test_in_jit_written_out_and_by_gradient():
    model = make(CASES["a finger with a tip"], "free")
    assert kt.explain(model).method == "aba"
    *given, _ = state(model)
    want = kt.forward_dynamics(model, *given)
    np.testing.assert_array_equal(jax.jit(lambda *x: kt.forward_dynamics(model, *x))(*given), want)
    np.testing.assert_array_equal(kt.forward_dynamics(kt.specialize(model), *given), want)
    q, qd, tau = (x[0] for x in given)
    slope = jax.jacfwd(lambda tau: kt.forward_dynamics(model, q, qd, tau))(jnp.asarray(tau))
    np.testing.assert_allclose(slope, np.linalg.inv(kt.mass_matrix(model, q)), rtol=1e-9, atol=1e-9)


def test_a_massless_member_is_no_harm_and_a_singular_cluster_is_refused():
    """The second hinge turns the last body about the axis of the massless one: twice as far, or back again."""

    def hand(ratio):
        inertia = np.array([1.0, 0.0, 1.0])[:, None, None] * np.diag([0.2, 0.3, 0.4, 2, 2, 2])
        joints, names = ["Rx", "Rz", "Rz"], ["a", "b", "c"]
        model = kt.Model.from_arrays([-1, 0, 1], joints, np.stack([np.eye(6)] * 3), inertia, joint_names=names)
        return model.couple({"c": ("b", ratio, 0.0)})

    *given, _ = state(hand(2.0))
    np.testing.assert_allclose(kt.forward_dynamics(hand(2.0), *given), expected(hand(2.0), *given), atol=1e-12)
    with pytest.raises(ValueError, match="singular"):
        kt.forward_dynamics(hand(-1.0), *given)
