"""Derivatives as matrices, against JAX's own through the XLA body, against differences, and against Pinocchio's."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.closed_form import matrices, sweeps
from kinetree.dynamics.closed_form.shape import Skeleton
from kinetree.io import Pinocchio
from tests.build import build_model
from tests.dynamics.mixed import mixed_model
from tests.reference import generate
from tests.second import few, second

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


def of_forward(by_q, by_qd, H):
    """What derivatives of inverse dynamics say of those of forward dynamics."""
    inverse = np.linalg.inv(H)
    return [-inverse @ by_q, -inverse @ by_qd, inverse]


@few("name", SCREWS, ["one", "small tree", "forest"])
def test_closed_form(name):
    model = SCREWS[name]()
    q, qd, tau = state(model, (3,))
    qdd = kt.forward_dynamics(model, q, qd, tau)
    jacobian = jax.jacfwd(lambda *x: kt.inverse_dynamics(model, *x, schedule="sequential"), argnums=(0, 1, 2))
    wanted = [np.asarray(x) for x in jax.jit(jax.vmap(jacobian))(*map(jnp.asarray, (q, qd, qdd)))]
    cases = {
        kt.inverse_dynamics_derivatives: ((q, qd, qdd), wanted, 1e-11),
        kt.forward_dynamics_derivatives: ((q, qd, tau), of_forward(*wanted), 1e-10),
    }
    for function, (given, wanted, bound) in cases.items():
        found = function(model, *given)
        assert all(isinstance(x, np.ndarray) for x in found)
        close(found, wanted, bound)
        close(jax.jit(lambda *x, f=function: f(model, *x))(*map(jnp.asarray, given)), wanted, bound)
        close(function(model, *(x[0] for x in given)), [x[0] for x in wanted], bound)
        if model.nv <= 8:  # LLVM takes 25 s to write out the derivatives of 20 rows
            close(function(kt.specialize(model), *given), wanted, bound)


def everything():
    """All kinds of joints, some of which follow others; springs, dampers and rotors on all of them."""
    model = mixed_model()
    nv = np.arange(model.nv)
    armature = np.where(model.structure.q_of_row < 0, 0.2, 0.1 * nv)
    rest = kt.random_state(model, 9)[0]
    model = model.replace(damping=0.1 * nv, stiffness=0.05 * nv, rest=rest, armature=armature)
    screws = [n for n, c in zip(model.joint_names, model.structure.joint_code, strict=True) if screw(model, c)]
    return model.couple({screws[2]: (screws[0], -0.5, 0.2), screws[3]: (screws[1], 2.0, 0.0)})


def screw(model, code):
    return model.structure.joints[code].nq == 1


def along_tangents(model, f_ext):
    """Forces of inverse dynamics, differentiated by JAX through the loop in XLA."""

    def forces(step, q, qd, qdd):
        return kt.inverse_dynamics(model, kt.integrate(model, q, step), qd, qdd, f_ext, schedule="sequential")

    jacobian = jax.jit(jax.jacfwd(forces, argnums=(0, 2, 3)))
    return lambda q, qd, qdd: jacobian(jnp.zeros_like(qd), q, qd, qdd)


def test_every_joint_with_everything():
    model = everything()
    q, qd, tau = state(model, (9,))  # more than a vector of lanes
    f_ext = np.random.default_rng(5).uniform(-1, 1, (9, model.n_bodies, 6))
    qdd = kt.forward_dynamics(model, q, qd, tau, f_ext)
    found = kt.inverse_dynamics_derivatives(model, q, qd, qdd, f_ext)
    wanted = [np.asarray(x) for x in along_tangents(model, f_ext[3])(*map(jnp.asarray, (q[3], qd[3], qdd[3])))]
    close([x[3] for x in found], wanted, 1e-11)
    close([x[0] for x in kt.inverse_dynamics_derivatives(model, q[3:4], qd[3], qdd[3], f_ext[3:5])], wanted, 1e-11)
    forward = of_forward(*found)
    close(kt.forward_dynamics_derivatives(model, q, qd, tau, f_ext), forward, 1e-9)
    one = jax.jit(kt.forward_dynamics_derivatives)(model, *(jnp.asarray(x[0]) for x in (q, qd, tau, f_ext)))
    close(one, [x[0] for x in forward], 1e-9)


def test_the_way_of_a_gpu():
    """By the inverse of H, from its factors."""
    model = everything()
    q, qd, qdd = state(model, (9,))
    close(matrices._by_inverse(model, q, qd, qdd), matrices._solved(model, q, qd, qdd, None), 1e-12)


@pytest.mark.parametrize("joints", [("revolute", "prismatic", "helical"), ("free", *10 * ("revolute", "spherical"))])
def test_deep_trees_are_solved_by_sweeps(joints):
    """By articulated bodies (sweeps.py). The chain has branches; its rows make no whole number of groups."""
    rng, parent = np.random.default_rng(6), np.array([-1, *range(28), 20, 29, 20, 4, 32, 4, 34, 34])
    model = build_model(replace(generate.random_tree(rng, len(parent), joints), parent=parent))
    screws = model.structure.q_of_row >= 0
    model = model.replace(armature=np.where(screws, rng.uniform(0, 1, model.nv), 0))
    assert sweeps.sweeps_are_faster(Skeleton.of(model))
    q, qd, tau = state(model, (9,))
    found = kt.forward_dynamics_derivatives(model, q, qd, tau)
    qdd = kt.forward_dynamics(model, q, qd, tau)
    close(found, of_forward(*kt.inverse_dynamics_derivatives(model, q, qd, qdd)), 1e-9)
    close([x[4] for x in found], kt.forward_dynamics_derivatives(model, q[4], qd[4], tau[4]), 1e-11)


def test_derivatives_of_derivatives():
    model = kt.auto_tree(5, 2, 0.3)
    q, qd, tau = state(model)
    found = jax.jit(jax.jacfwd(lambda q: kt.forward_dynamics_derivatives(model, q, qd, tau)))(jnp.asarray(q))
    step = 1e-5

    def difference(k):
        d = step * np.eye(5)[k]
        ahead, behind = (kt.forward_dynamics_derivatives(model, x, qd, tau) for x in (q + d, q - d))
        return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]

    wanted = [np.stack(x, -1) for x in zip(*map(difference, range(5)), strict=True)]
    close(found, wanted, 1e-7)


def test_pinocchio_agrees_on_a_floating_robot():
    pin = pytest.importorskip("pinocchio")
    model = kt.load("examples/robots/quadruped.urdf", floating_base=True).without_passive
    theirs = pin.buildModelFromUrdf("examples/robots/quadruped.urdf", pin.JointModelFreeFlyer())
    data = theirs.createData()
    convention = Pinocchio(model, list(theirs.names)[1:])
    q, qd, x = state(model)
    T = np.stack([convention.v_there(q, e) for e in np.eye(model.nv)], -1)  # their velocities from ours
    p, v = convention.q_there(q), convention.v_there(q, qd)
    by_q, by_qd, H = pin.computeRNEADerivatives(theirs, data, p, v, convention.a_there(q, qd, x))
    close(
        kt.inverse_dynamics_derivatives(model, q, qd, x),
        [T.T @ m @ T for m in (by_q, by_qd, np.triu(H) + np.triu(H, 1).T)],
        1e-9,
    )
    by_q, by_qd, H = pin.computeABADerivatives(theirs, data, p, v, convention.force_there(q, x))
    back = np.linalg.inv(T)
    close(
        kt.forward_dynamics_derivatives(model, q, qd, x),
        [back @ by_q @ T, back @ by_qd @ T, back @ (np.triu(H) + np.triu(H, 1).T) @ back.T],
        1e-9,
    )


def test_a_robot_far_away_has_the_same_derivatives():
    """Up to the rounding of its own coordinates, also with forces on bodies."""
    parent, joints = np.array([-1, 0]), ["free", "Ry"]
    model = kt.Model.from_arrays(parent, joints, np.tile(np.eye(6), (2, 1, 1)), np.tile(np.eye(6), (2, 1, 1)))
    q, qd, x = state(model)
    far = q + np.where(np.arange(model.nq) < 3, 2.0**20, 0.0)
    f_ext = np.ones((2, 6))
    moved = f_ext.copy()
    moved[:, :3] += np.cross(far[:3] - q[:3], f_ext[:, 3:])
    near = kt.inverse_dynamics_derivatives(model, q, qd, x, f_ext)
    close(kt.inverse_dynamics_derivatives(model, far, qd, x, moved), near, 1e-8)


def test_three_hundred_rows():
    """One direction of each matrix, against JAX's derivative of the lane program."""
    model = kt.auto_tree(300, 1.5, 0.3)
    given = state(model)
    direction = np.random.default_rng(6).uniform(-1, 1, 300)
    for function, derivatives in FUNCTIONS.items():
        found = derivatives(model, *given)
        for place in range(3):
            moved = [jnp.asarray(direction if k == place else np.zeros(300)) for k in range(3)]
            wanted = jax.jvp(lambda *x, f=function: f(model, *x), tuple(map(jnp.asarray, given)), tuple(moved))[1]
            close([found[place] @ direction], [wanted], 1e-9)


@pytest.mark.parametrize(
    ("function", "follows"),
    [second(kt.inverse_dynamics, False), second(kt.inverse_dynamics, True), (kt.forward_dynamics, True)],
)
def test_gradients_where_the_model_is_an_argument(function, follows):
    """In closed form; with forces on bodies that stand still, or follow the state."""
    model = build_model(generate.random_tree(np.random.default_rng(3), 4, ["free", "revolute", "spherical", "helical"]))
    q, qd, x = map(jnp.asarray, state(model))
    f_ext = jnp.asarray(np.random.default_rng(5).uniform(-1, 1, (model.n_bodies, 6)))

    def loss(q, model, schedule):
        forces = f_ext * (1 + q[0]) if follows else f_ext
        return (function(model, q, qd, x, forces, schedule=schedule) ** 2).sum()

    gradient = jax.jit(jax.grad(loss), static_argnums=2)
    close([gradient(q, model, "lanes")], [gradient(q, model, "sequential")], 1e-11)


@pytest.mark.parametrize("schedule", ["lanes", "levels"])
def test_slope_by_rotors_that_are_not_there(schedule):
    """w · H⁻¹ (τ − …) falls by (H⁻¹ w) q̈ for each joint's rotor. Joints without one put zeros into a matrix."""
    model = build_model(generate.random_tree(np.random.default_rng(0), 5, ["revolute", "prismatic", "helical"]))
    q, qd = kt.random_state(model, 0)
    tau, w = np.random.default_rng(1).standard_normal((2, model.nv))

    def power(armature):
        return kt.forward_dynamics(model.replace(armature=armature), q, qd, tau, schedule=schedule) @ w

    found = jax.grad(power)(jnp.zeros(model.nv))
    wanted = -np.linalg.solve(kt.mass_matrix(model, q), w) * kt.forward_dynamics(model, q, qd, tau)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_slope_of_a_configuration_that_is_closed_already():
    """The search has nothing to do there. A motion that opens the loop is taken off, any other one stays."""
    tree = kt.auto_tree(4, 1, 0.3)
    q = np.array([0.3, -0.8, 0.5, 0.9])
    model = tree.replace(loops=[kt.Loop(3, -1, (0, 0, 0), kt.forward_kinematics(tree, q).position[3], "connect")])
    G = kt.jacobian(tree, q, 3, "aligned")[3:]
    way = np.arange(1.0, 5)
    moved = jax.jvp(lambda q: kt.close_loops(model, q), (jnp.asarray(q),), (way,))[1]
    np.testing.assert_allclose(moved, way - np.linalg.pinv(G) @ G @ way, atol=1e-12)


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


@pytest.mark.parametrize("n", [3, 11])
def test_derivatives_of_the_matrices_are_the_same_in_both_modes(n):
    """Rows of eleven entries are stored in runs of eight, two and one, each entry once."""
    model = kt.auto_tree(n, 1.5, 0.3)
    q, qd = kt.random_state(model, 0)
    weights = np.random.default_rng(1).standard_normal((3, n, n))

    def weighed(q):
        found = kt.inverse_dynamics_derivatives(model, q, qd, 0.5 * qd)
        return sum((a * w).sum() for a, w in zip(found, weights, strict=True))

    forward = jax.jvp(weighed, (jnp.asarray(q),), (jnp.asarray(qd),))[1]
    np.testing.assert_allclose(jax.grad(weighed)(jnp.asarray(q)) @ qd, forward, rtol=1e-10)
