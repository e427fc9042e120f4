"""Derivatives of native steps: those of differences, in both modes, by states and controls."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Lane, Loop, Program, Slots, run, xla
from kinetree.lanes.program.single import single
from kinetree.simulate.native import stepper_for
from tests.constrain.agreement import compiled, ours
from tests.simulate.test_native_steps import WORLD, unconstrained

NUMBER, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())


def slope(function, x, way, h=1e-6):
    """The derivative of a function in a direction, by differences."""
    return float(function(x + h * way) - function(x - h * way)) / (2 * h)


@pytest.fixture
def no_xla(monkeypatch):
    """Steps by XLA's body are refused."""

    def refuse(*_):
        raise AssertionError("a step by XLA")

    monkeypatch.setattr(sys.modules["kinetree.simulate.advance"], "_traced", refuse)


@pytest.mark.usefixtures("no_xla")
@pytest.mark.parametrize("free", [True, False])
def test_by_states_and_controls(free):
    """A robot with every kind of joint, in the air, or on the floor with limits and friction loss."""
    text = WORLD.format(integrator="implicitfast")
    model = ours(compiled(unconstrained(text) if free else text))
    assert stepper_for(model, "implicitfast", np.float64, model.timestep, False).differentiable
    rng = np.random.default_rng(0)
    settled = kt.advance(
        model, kt.initial_state(model, batch=(3,)), 0.1 * np.ones((3, model.nu)), substeps=40 if free else 400
    )
    if not free:
        assert kt.contacts(model, settled.q).active.any(-1).all()
    state, ctrl = jax.tree.map(jnp.asarray, settled), jnp.full((3, model.nu), 0.1)

    def end(x):
        """Of velocities and controls of a world."""
        now = state.replace(qd=state.qd.at[1].add(x[: model.nv]))
        after = kt.advance(model, now, ctrl.at[1].add(x[model.nv :]), substeps=3)
        return (after.q**2).sum() + (after.qd * jnp.arange(1.0, 1.0 + model.nv)).sum()

    x = jnp.zeros(model.nv + model.nu)
    gradient = jax.jit(jax.grad(end))(x)
    for _ in range(3):
        way = jnp.asarray(rng.standard_normal(x.shape))
        wanted = slope(end, x, way)
        np.testing.assert_allclose(gradient @ way, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.jvp(end, (x,), (way,))[1], wanted, rtol=1e-5, atol=1e-6)


def test_each_slot_is_written_once():
    """A program that overwrites, adds to and leaves out: the same results, and the derivatives of its text."""
    a, b, c = (Slots(None, k, NUMBER) for k in range(3))
    fetch = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(Slots(0, 0, NUMBER),), inputs=(Lane(0, 1),))
    square = Loop(lambda _, __, x: ((x[0] * x[1],), (x[1],), ()), 0, NOTHING, reads=(a, b), writes=(a,), adds=(c,))
    root = Loop(
        lambda _, __, x: ((jnp.sqrt(x[0]),), (1 / x[1],), ()), 0, NOTHING, reads=(a, b), writes=(b,), adds=(a,), when=b
    )
    pair = Slots(None, 0, jax.tree.structure((0.0, 0.0)))
    tell = Loop(
        lambda _, __, x: ((), (), (*x[0], x[1])),
        0,
        NOTHING,
        reads=(pair, c),
        outputs=tuple(Lane(0, None, k) for k in range(3)),
    )
    program = Program("slots", (fetch, square, square, root, tell), 1, 1)
    tables = (np.stack([np.arange(3)] * 2, 1).astype(np.int32), *[np.zeros((1, 0), np.int32)] * 4)
    constants = tuple(np.zeros((len(t), 0)) for t in tables)
    one = single(program, tables)
    known = np.zeros((1, 0)), *constants
    x = jnp.array([[1.5, 2.0, 3.0], [0.7, 0.0, 1.0]])  # the second lane leaves a turn out, which would divide by zero

    def ours(x):
        return run(one.program, one.slots, (3,), one.tables, known, (x,))[0]

    def wanted(x):
        return xla.run(program, 3, (3,), tables, constants, (x,))[0]

    np.testing.assert_array_equal(ours(x), wanted(x))
    weights = jnp.array([[1.0, -2.0, 0.5], [3.0, 1.0, 2.0]])
    gradient = jax.grad(lambda x: (weights * ours(x)).sum())(x)
    assert np.isfinite(gradient).all()
    for k in range(3):
        way = jnp.zeros_like(x).at[:, k].set(jnp.array([1.0, 0.0]) if k == 1 else jnp.ones(2))
        by_differences = slope(lambda x: (weights * wanted(x)).sum(), x, way)
        np.testing.assert_allclose((gradient * way).sum(), by_differences, rtol=1e-7)
