"""Gradients of inverse and forward dynamics by passes of their own, under every schedule and machine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.rnea_reverse import RNEA_REVERSE
from kinetree.dynamics.schedules import blocks, tuning
from kinetree.dynamics.schedules.run import run
from tests.build import build_model
from tests.dynamics.trees import hinged, limbs
from tests.reference import generate

KINDS = ("revolute", "prismatic", "helical")
MODELS = {
    "chain": lambda: kt.auto_tree(90, 1, 0.3),
    "trunk with limbs": lambda: hinged(limbs(60, 2, 20)),
    "forest": lambda: build_model(generate.random_tree(np.random.default_rng(2), 40, KINDS, "forest")),
    "armature": lambda: kt.auto_tree(30, 1.5, 0.3).replace(armature=np.linspace(0, 1, 30)),
}


def state(model):
    return np.random.default_rng(0).uniform(-1, 1, (4, model.nv))


@pytest.mark.parametrize("name", list(MODELS))
def test_slopes_under_every_schedule(name, monkeypatch):
    model = MODELS[name]()
    q, qd, qdd, w = state(model)

    def power(*x):
        return (kt.inverse_dynamics(model, *x, schedule="sequential") * w).sum()

    wanted = list(jax.grad(power, (0, 1, 2))(*map(jnp.asarray, (q, qd, qdd))))
    wanted[2] = wanted[2] - np.asarray(model.rows.armature) * w  # what rotors add
    inputs = {n: x[None] for n, x in zip(RNEA_REVERSE.inputs, (q, qd, qdd, w), strict=True)}
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", 600 * 16)
    found = {
        s: [x[0] for x in run(RNEA_REVERSE, model, inputs, schedule=s).values()]
        for s in ("lanes", *(("levels", "paths") if name == "forest" else ()))
    }
    plan = blocks.block_plan(RNEA_REVERSE, model, np.dtype(float))
    assert plan is not None
    found["blocks"] = [x[0] for x in plan(*(x[None] for x in (q, qd, qdd, w))).values()]
    for schedule, slopes in found.items():
        for a, b in zip(slopes, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max(), err_msg=schedule)


def test_gradients_through_blocks_and_walks(monkeypatch):
    model = kt.auto_tree(1100, 2, 0.3)  # enough rows for native walks
    *given, w = map(jnp.asarray, state(model))
    for function in (kt.inverse_dynamics, kt.forward_dynamics):

        def power(*x, schedule, f=function):
            return (f(model, *x, schedule=schedule) * w).sum()

        wanted = jax.grad(lambda *x: power(*x, schedule="lanes"), (0, 1, 2))(*given)
        for schedule, rows in (("paths", 10**9), ("auto", 1)):
            monkeypatch.setattr(tuning, "BLOCKS_MIN_ROWS", rows)
            found = jax.grad(lambda *x: power(*x, schedule=schedule), (0, 1, 2))(*given)  # noqa: B023
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())


def test_a_direction_is_the_transpose_of_the_gradient(monkeypatch):
    monkeypatch.setattr(tuning, "BLOCKS_MIN_ROWS", 1)
    model = kt.auto_tree(40, 1.5, 0.3)
    q, qd, qdd, w = map(jnp.asarray, state(model))
    along, moved = jnp.cos(jnp.arange(40.0)), lambda x: kt.inverse_dynamics(model, x, qd, qdd)
    ahead = jax.jvp(moved, (q,), (along,))[1] @ w
    back = jax.vjp(moved, q)[1](w)[0] @ along
    np.testing.assert_allclose(ahead, back, rtol=1e-11)
    twice = jax.grad(lambda x: (jax.grad(lambda y: (moved(y) * w).sum())(x) * along).sum())(q)
    h = 1e-5
    slope = jax.grad(lambda y: (moved(y) * w).sum())
    np.testing.assert_allclose(twice @ w, ((slope(q + h * w) - slope(q - h * w)) @ along) / (2 * h), rtol=1e-6)
