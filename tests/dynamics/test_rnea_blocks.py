"""Inverse dynamics of huge trees on the cores of a CPU, on trees cut small, against the lane programs."""

import gc
import os
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules import blocks, tuning
from tests.build import build_model
from tests.dynamics.trees import hinged, limbs
from tests.reference import generate

pytestmark = pytest.mark.cpu

MODELS = {
    "one": lambda: kt.auto_tree(1, 1, 0.3),
    "chain": lambda: kt.auto_tree(1000, 1, 0.3),
    "chain of full blocks": lambda: kt.auto_tree(1024, 1, 0.3),
    "binary": lambda: kt.auto_tree(700, 2, 0.3),
    "thin": lambda: kt.auto_tree(600, 1.01, 0.3),
    "trunk with limbs": lambda: hinged(limbs(300, 4, 80)),
    "star": lambda: hinged([-1] + [0] * 300),
    "cables": lambda: hinged([-1 if k % 130 == 0 else k - 1 for k in range(520)]),
    "cables and shrubs": lambda: hinged([-1 if k % 130 == 0 else k - 1 for k in range(260)] + [-1, 260, 260, 261]),
    "forest": lambda: build_model(
        generate.random_tree(np.random.default_rng(2), 60, ("revolute", "prismatic"), "forest")
    ),
    "armature": lambda: kt.auto_tree(300, 1.5, 0.3).replace(armature=np.linspace(0, 1, 300)),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return MODELS[request.param]()


@pytest.fixture(autouse=True)
def cut_small(monkeypatch):
    """Trees of a few hundred rows are cut as if they were huge."""
    monkeypatch.setattr(tuning, "BLOCKS_MIN_ROWS", 1)
    blocks._plans.clear()
    yield
    blocks._plans.clear()
    blocks._cut.cache_clear()


def state(model, dtype=np.float64, seed=3):
    q, qd = kt.random_state(model, seed)
    return [x.astype(dtype) for x in (q, qd, np.random.default_rng(4).uniform(-1, 1, qd.shape))]


ROUNDINGS_PER_ROW = 16  # of a number on its way through a row: 10 outward (ω×(ω×r) is the longest), 6 inward
SPREAD = 6  # standard deviations


def rounding(model, dtype) -> float:
    """A bound on the relative error of a recursion over a tree: roundings that are independent grow as a root.

    Higham and Mary, "A new approach to probabilistic rounding error analysis" (2019), theorem 2.4: k roundings leave at
    most SPREAD √k u, except with a probability below 2 k exp(−SPREAD²/2), 5e-4 for 1 024 rows.
    """
    return SPREAD * np.sqrt(ROUNDINGS_PER_ROW * model.tree.height) * np.finfo(dtype).eps / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("piece_rows", [16, 64, 4096])
def test_same_as_lanes(model, piece_rows, dtype, monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_ROWS", piece_rows)
    blocks._cut.cache_clear()
    plan = blocks.rnea_plan(model, np.dtype(dtype))
    assert plan is not None
    for seed in (3, 4):  # the second time on memory that was used before
        given = state(model, dtype, seed)
        wanted = kt.inverse_dynamics(model, *(x.astype(float) for x in given), schedule="sequential")
        found = plan(*given)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding(model, dtype) * np.abs(wanted).max())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bits(threads, monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_ROWS", 32)
    for name in ("chain", "binary", "trunk with limbs"):
        model = MODELS[name]()
        given = state(model)
        wanted = kt.inverse_dynamics(model, *given)
        kt.set_threads(threads)
        try:
            for _ in range(20):
                np.testing.assert_array_equal(kt.inverse_dynamics(model, *given), wanted)
        finally:
            kt.set_threads(None)


def test_what_auto_and_paths_take(monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_ROWS", 64)
    model = kt.auto_tree(400, 1, 0.3)
    given = state(model)
    plan = blocks.rnea_plan(model, np.dtype(float))
    wanted = plan(*given)
    assert not np.array_equal(kt.inverse_dynamics(model, *given, schedule="lanes"), wanted)  # or nothing is told apart
    for name in ("auto", "paths"):
        np.testing.assert_array_equal(kt.inverse_dynamics(model, *given, schedule=name), wanted)
        on_jax = kt.inverse_dynamics(model, *map(jnp.asarray, given), schedule=name)
        np.testing.assert_array_equal(on_jax, wanted)
        strided = [np.stack([x, x], 1)[:, 0] for x in given]
        np.testing.assert_array_equal(kt.inverse_dynamics(model, *strided, schedule=name), wanted)
    assert np.isnan(kt.inverse_dynamics(model, given[0] * np.nan, *given[1:])).all()


def test_gravity_passive_forces_and_derivatives_are_those_of_the_other_schedules():
    model = kt.auto_tree(60, 1.5, 0.3).replace(gravity=[1.0, 2.0, 3.0], damping=np.full(60, 0.1))
    given = state(model)
    np.testing.assert_allclose(
        kt.inverse_dynamics(model, *given), kt.inverse_dynamics(model, *given, schedule="sequential"), rtol=1e-12
    )
    fext = np.random.default_rng(0).normal(size=(60, 6))
    np.testing.assert_allclose(
        kt.inverse_dynamics(model, *given, fext),
        kt.inverse_dynamics(model, *given, fext, schedule="sequential"),
        rtol=1e-10,
    )


def test_what_has_no_plan():
    free = build_model(generate.random_tree(np.random.default_rng(1), 9, ("free", "revolute"), "chain"))
    assert blocks.rnea_plan(free, np.dtype(float)) is None
    kt.inverse_dynamics(free, *state(free))


def test_plans_go_with_their_models():
    model = kt.auto_tree(50, 1, 0.3)
    kt.inverse_dynamics(model, *state(model))
    assert len(blocks._plans) == 1
    del model
    gc.collect()
    assert len(blocks._plans) == 0


def test_many_callers(monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_ROWS", 64)
    models = [kt.auto_tree(500, branching, 0.3) for branching in (1, 2)]
    wanted = [kt.inverse_dynamics(m, *state(m)) for m in models]
    wrong = []

    def calls(k):
        for _ in range(30):
            found = kt.inverse_dynamics(models[k % 2], *state(models[k % 2]))
            if not np.array_equal(found, wanted[k % 2]):
                wrong.append(k)

    callers = [threading.Thread(target=calls, args=(k,)) for k in range(6)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert not wrong


FORKED = """
import os
import numpy as np
import kinetree as kt
from kinetree.dynamics.schedules import blocks, tuning

tuning.BLOCKS_MIN_ROWS, blocks.PIECE_ROWS = 1, 64
model = kt.auto_tree(400, 1, 0.3)
given = np.random.default_rng(0).uniform(-1, 1, (3, 400))
wanted = kt.inverse_dynamics(model, *given)
with blocks.rnea_plan(model, np.dtype(float))._lock:  # as if another thread had been at work
    child = os.fork()
    if child == 0:
        os._exit(int(not np.array_equal(kt.inverse_dynamics(model, *given), wanted)))
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=120)
