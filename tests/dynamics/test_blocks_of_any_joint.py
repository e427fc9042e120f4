"""Blocks of trees with quaternion joints, of bodies that share a row or stand on the base, and of whole mechanisms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules import blocks, tuning
from kinetree.dynamics.schedules.choose import recorded
from tests.build import build_model
from tests.reference import generate
from tests.second import few, second

pytestmark = pytest.mark.cpu

SOME = ("free", "revolute", "spherical", "prismatic", "fixed", "helical", "planar")


def mixed(shape, joints=SOME, n=80):
    model = build_model(generate.random_tree(np.random.default_rng(2), n, joints, shape))
    armature = np.where(np.arange(model.nv) % 3 == 0, 0.3, 0.1)
    for first in model.structure.quaternion_joints[model.structure.quaternion_joints[:, 2] == 1, 0]:
        armature[first + 3 : first + 6] = 0.2  # along the axes of a free joint they must be the same
    return model.replace(armature=armature)


def comb(n=120):
    """A trunk on a free base, with teeth of two links."""
    trunk = n // 3
    parent = [-1, *range(trunk - 1), *(k // 2 if k % 2 == 0 else trunk + k - 1 for k in range(n - trunk))]
    inertia = np.tile([1.0, 0.1, 0.2, 0.3, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0], (n, 1))
    return kt.Model.from_arrays(parent, ["free", *["Rz", "Rx"] * n][:n], offsets(n), inertia)


def offsets(n):
    tree = generate.random_tree(np.random.default_rng(1), n, "Rz", "chain")
    return np.asarray(tree.x_tree, float)


MODELS = {
    "chain": lambda: mixed("chain", ("spherical", "revolute", "free")),
    "random": lambda: mixed("random"),
    "star": lambda: mixed("star"),
    "forest": lambda: mixed("forest"),
    "bodies on the base": lambda: mixed("random", ("fixed", "revolute", "spherical")),
    "comb": comb,
}
WHOLES = {
    "pose": lambda m, q, qd, **how: kt.forward_kinematics(m, q, **how),
    "center": lambda m, q, qd, **how: kt.center_of_mass(m, q, **how),
    "kinetic": lambda m, q, qd, **how: kt.kinetic_energy(m, q, qd, **how),
    "potential": lambda m, q, qd, **how: kt.potential_energy(m, q, **how),
    "momentum": lambda m, q, qd, **how: kt.momentum(m, q, qd, **how),
}


@pytest.fixture(autouse=True)
def cut_small(monkeypatch):
    """Trees of a hundred rows are cut as if they were huge."""
    monkeypatch.setattr(tuning, "BLOCKS_MIN_ROWS", 1)
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", 600 * 24)
    blocks._plans.clear()
    yield
    blocks._plans.clear()
    blocks._cut.cache_clear()


def states(model, batch=2, dtype=float):
    q, qd = kt.random_state(model, 3, (batch,))
    return [x.astype(dtype) for x in (q, qd, np.random.default_rng(4).uniform(-1, 1, qd.shape))]


def close(found, wanted, factor):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.abs(np.asarray(a) - b).max() <= factor * np.abs(b).max()


@pytest.mark.parametrize(
    ("name", "dtype", "factor"),
    [
        ("chain", np.float64, 1e-11),
        ("random", np.float64, 1e-11),
        ("comb", np.float64, 1e-11),
        ("comb", np.float32, 1e-5),
        *(second(name, np.float64, 1e-11) for name in ("star", "forest", "bodies on the base")),
    ],
)
def test_dynamics_with_and_without_forces(name, dtype, factor):
    model = MODELS[name]()
    given = states(model, 2, dtype)
    forces = np.random.default_rng(5).normal(size=(2, model.n_bodies, 6)).astype(dtype)
    exact = [x.astype(float) for x in given]
    for f_ext in (None, forces):
        tau = kt.inverse_dynamics(model, *exact, f_ext, schedule="lanes")
        with recorded() as ways:
            found = kt.inverse_dynamics(model, *given, f_ext)
            qdd = kt.forward_dynamics(model, *given[:2], tau.astype(dtype), f_ext)
        assert [way.way for _, way in ways] == ["blocks", "blocks"]
        assert found.dtype == qdd.dtype == dtype
        close(found, tau, factor)
        close(kt.inverse_dynamics(model, *exact[:2], qdd.astype(float), f_ext, schedule="lanes"), tau, 10 * factor)


@few("name", list(MODELS), ["random", "comb"])
def test_inside_jit_and_state_by_state_have_the_same_bits(name):
    model = MODELS[name]()
    given, forces = states(model), np.random.default_rng(5).normal(size=(2, model.n_bodies, 6))
    for function in (kt.inverse_dynamics, kt.forward_dynamics):
        found = function(model, *given, forces)
        for k in range(2):
            np.testing.assert_array_equal(function(model, *(x[k] for x in given), forces[k]), found[k])
        compiled = jax.jit(lambda *x, f=function: f(model, *x))
        np.testing.assert_array_equal(compiled(*map(jnp.asarray, (*given, forces))), found)


@few("name", list(MODELS), ["random", "bodies on the base", "comb"])
@pytest.mark.parametrize("what", list(WHOLES))
def test_kinematics_and_totals(name, what):
    model = MODELS[name]()
    q, qd, _ = states(model)
    wanted = WHOLES[what](model, q, qd, schedule="sequential")
    with recorded() as ways:
        found = WHOLES[what](model, q, qd)
    assert ways[0][1].way == "blocks"
    close(found, wanted, 1e-12)
    inside = jax.jit(lambda q, qd: WHOLES[what](model, q, qd))(jnp.asarray(q), jnp.asarray(qd))
    for a, b in zip(jax.tree.leaves(inside), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_base_finds_what_a_second_round_begins_with():
    model = MODELS["random"]()
    q, qd, _ = states(model)
    wanted = kt.centroidal_momentum_matrix(model, q) @ qd[..., None]
    with recorded() as ways:
        found = kt.centroidal_momentum(model, q, qd)
    assert ways[0][1].way == "blocks"
    close(found, wanted[..., 0], 1e-11)


@few("name", list(MODELS), ["random"])
def test_gradients_have_passes(name):
    """Against those of lanes, which are made by differentiating steps."""
    model = MODELS[name]()
    q, qd, given = map(jnp.asarray, states(model))
    weights = jnp.cos(jnp.arange(given.size, dtype=float)).reshape(given.shape)
    for function in (kt.inverse_dynamics, kt.forward_dynamics):

        def power(*x, schedule, f=function):
            return (f(model, *x, schedule=schedule) * weights).sum()

        wanted = jax.grad(lambda *x: power(*x, schedule="lanes"), (0, 1, 2))(q, qd, given)
        with recorded() as ways:
            found = jax.grad(lambda *x: power(*x, schedule="auto"), (0, 1, 2))(q, qd, given)
        assert any(name == "rnea_reverse_placed" and way.way == "blocks" for name, way in ways)
        inside = jax.jit(jax.grad(lambda *x: power(*x, schedule="auto"), (0, 1, 2)))(q, qd, given)
        for a, b, c in zip(found, wanted, inside, strict=True):
            assert np.abs(a - b).max() <= 1e-10 * np.abs(b).max()
            assert np.abs(c - b).max() <= 1e-10 * np.abs(b).max()
