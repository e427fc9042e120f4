"""Rigid loops: accelerations against Pinocchio's, forces against inverse dynamics, closed configurations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.model import memory

from .closed import FOUR_BAR_GUESS, Closed, four_bar, grown, leg, stewart_platform

METHODS = ("crba", "dca", "dcae", "jsiia", "abia", "vneb", "cg")
GRAPH = [(3, 7, "connect"), (9, -1, "weld")]


def agree(m: Closed, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
    ours = kt.forward_dynamics(m.closed, q, qd, tau)
    theirs = m.accelerations(q, qd, tau)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * max(1.0, np.abs(theirs).max()))
    return ours


def test_a_floating_graph_as_pinocchio():
    """Velocities are any: loops may move apart, and drifts must count what that does."""
    tree = grown(3, 10, floating=True)
    q, qd = kt.random_state(tree.model, 5)
    m = tree.joined(q, GRAPH)
    tau = np.random.default_rng(1).standard_normal(m.model.nv)
    qdd = agree(m, q, qd, tau)
    found = kt.forward_dynamics(m.closed, q, qd, tau, method="jsiia")  # the thorough run has all methods
    np.testing.assert_allclose(found, qdd, rtol=0, atol=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_as_pinocchio(seed):
    rng = np.random.default_rng(seed)
    tree = grown(seed, 12, floating=bool(seed % 2))
    q, qd = kt.random_state(tree.model, seed)
    pairs = [(*(int(b) for b in rng.choice(12, 2, replace=False)), ("connect", "weld")[k % 2]) for k in range(2)]
    m = tree.joined(q, pairs)
    q, qd = kt.close_loops(m.closed, q, qd)  # rows that depend on others must not contradict them
    tau = rng.standard_normal(m.model.nv)
    qdd = agree(m, q, qd, tau)
    for method in METHODS:
        np.testing.assert_allclose(kt.forward_dynamics(m.closed, q, qd, tau, method=method), qdd, rtol=0, atol=1e-7)


@pytest.mark.thorough
def test_a_four_bar_as_pinocchio():
    m = four_bar()
    q, qd = kt.close_loops(m.closed, FOUR_BAR_GUESS, np.array([1.0, 0, 0]))
    agree(m, q, qd, np.array([0.3, -0.1, 0.2]))


@pytest.mark.thorough
def test_redundant_loops_as_pinocchio():
    """A weld of links that move in a plane holds three directions that the hinges hold already."""
    m = four_bar("connect")
    q, qd = kt.close_loops(m.closed, FOUR_BAR_GUESS, np.array([1.0, 0, 0]))
    once = agree(m, q, qd, np.zeros(3))
    twice = m._replace(loops=2 * m.loops)
    np.testing.assert_allclose(agree(twice, q, qd, np.zeros(3)), once, atol=1e-9)
    wrench = kt.constrained_dynamics(twice.closed, q, qd).loop_forces
    np.testing.assert_allclose(wrench[0], wrench[1], atol=1e-9)  # they share the load


@pytest.mark.thorough
def test_a_stewart_platform_as_pinocchio():
    m, q = stewart_platform()
    assert np.abs(kt.difference(m.model, q, kt.close_loops(m.closed, q))).max() < 1e-9
    rng = np.random.default_rng(0)
    qd = kt.close_loops(m.closed, q, rng.standard_normal(m.model.nv))[1]
    agree(m, q, qd, 10 * rng.standard_normal(m.model.nv))


@pytest.mark.thorough
def test_a_leg_as_pinocchio():
    m = leg()
    guess = kt.neutral(m.model)
    guess[7:12] = 0.1, 0.4, -1.0, 1.2, -0.5
    rng = np.random.default_rng(0)
    q, qd = kt.close_loops(m.closed, guess, rng.standard_normal(m.model.nv))
    agree(m, q, qd, rng.standard_normal(m.model.nv))


LINK = kt.auto_tree(1).inertia.array()[0]
HALF = np.cos(np.pi / 4)
Y_UP = (HALF, HALF, 0.0, 0.0)  # a quaternion that turns z to −y


def every_kind() -> kt.Model:
    """Free bodies in a row, each held to the next, by all kinds of loops; the first is held to the base."""
    kinds = ("weld", "revolute", "prismatic", "cylindrical", "planar", "universal", "ball")
    n = len(kinds)
    loops = [kt.Loop(i - 1, i, [0.3, 0.1, 0], ([-0.2, 0, 0.1], Y_UP), kind) for i, kind in enumerate(kinds)]
    inertia = np.tile([1.0, 0.1, 0, 0, 0.05, 0.06, 0.07, 0, 0, 0], (n, 1))
    return kt.Model.from_arrays([-1] * n, "free", np.tile(np.eye(6), (n, 1, 1)), inertia, loops=loops)


def test_all_kinds_hold_what_they_say():
    """Errors, velocities and drifts are derivatives of one another along a motion; free directions stay free."""
    from kinetree.dynamics.loops.forward import rows_of_state

    model = every_kind()
    q, qd = kt.close_loops(model, *kt.random_state(model, 0))
    tau = np.random.default_rng(0).standard_normal(model.nv)
    with jax.enable_x64(True):

        @jax.jit
        def rows(t):
            moved = kt.integrate(model, jnp.asarray(q), jnp.asarray(qd) * t + 0.5 * t * t * qdd, 1.0)
            return rows_of_state(model, moved[None], (qd + t * qdd)[None])

        qdd = jnp.asarray(kt.forward_dynamics(model, q, qd, tau))
        at = rows(0.0)
        assert np.abs(at.error).max() < 1e-10
        assert np.abs(at.velocity).max() < 1e-10
        assert np.abs(jnp.einsum("bmv,v->bm", at.G, qdd) + at.drift).max() < 1e-9
        assert at.G.shape[1] == 6 + 5 + 5 + 4 + 3 + 4 + 3
        opening = jax.jit(
            jax.jacfwd(lambda v: rows_of_state(model, kt.integrate(model, q, v, 1.0)[None], qd[None]).error[0])
        )
        np.testing.assert_allclose(opening(jnp.zeros(model.nv)), at.G[0], atol=1e-9)
        h = 1e-4
        ahead, behind = rows(h), rows(-h)
        assert np.abs(ahead.velocity - behind.velocity).max() / (2 * h) < 1e-5
    assert np.linalg.matrix_rank(at.G[0]) == at.G.shape[1]


def test_close_loops_says_which_loop_stays_open():
    m = four_bar()
    apart = m.model.replace(loops=[kt.Loop(1, 2, [8.0, 0, 0], [0.6, 0, 0], "connect")])
    with pytest.raises(ValueError, match=r"state 0: .* loop 0 \(connect of"):
        kt.close_loops(apart, FOUR_BAR_GUESS[None])


def test_derivatives_of_closed_configurations():
    """In both modes, by the guess and by a place of the loop, where the guess is closed."""
    model = four_bar().closed
    q = kt.close_loops(model, FOUR_BAR_GUESS)

    def closed(x):
        place = model.loops.position1 + jnp.stack([x[3], x[4], 0.0])  # in the plane
        moved = dataclasses.replace(model, loops=dataclasses.replace(model.loops, position1=place))
        return kt.close_loops(moved, q + x[:3])

    with jax.enable_x64(True):
        x, h = jnp.zeros(5), 1e-5
        reverse, forward = jax.jit(jax.jacrev(closed))(x), jax.jit(jax.jacfwd(closed))(x)
        np.testing.assert_allclose(forward, reverse, atol=1e-12)
        value = jax.jit(closed)
        differences = np.stack([(value(x + e) - value(x - e)) / (2 * h) for e in h * np.eye(5)], 1)
        np.testing.assert_allclose(reverse, differences, atol=1e-8)


def test_a_stretched_mechanism_is_bent():
    """At the neutral configuration all links are in one line, and no small motion closes the loop."""
    model = four_bar().closed
    q = kt.close_loops(model, np.stack([np.zeros(3), FOUR_BAR_GUESS]))
    pose = kt.forward_kinematics(model, q)
    tips = [pose.position[:, b] + pose.rotation[:, b, :, 0] * length for b, length in ((1, 0.8), (2, 0.6))]
    np.testing.assert_allclose(*tips, atol=1e-12)


def test_loops_that_memory_can_not_hold_are_refused(monkeypatch):
    model = kt.auto_tree(40, 1.0).replace(loops=[kt.Loop(k, k + 20, kind="weld") for k in range(10)])
    state = np.zeros((3, 40))
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 17)
    with pytest.raises(MemoryError, match=r"rows of rigid loops .* use equalities"):
        kt.forward_dynamics(model, *state, method="aba")  # by matrices, which the native program does not need
