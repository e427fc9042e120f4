"""Dynamics of huge trees on the cores of a CPU, in blocks, on trees cut small, against the lane programs."""

import gc
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.aba import aba_of
from kinetree.dynamics.algorithms.poses import ROW_POSES
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.algorithms.wholes import CENTROIDAL_MATRIX
from kinetree.dynamics.schedules import blocks, tuning
from tests.build import build_model
from tests.dynamics.trees import hinged, limbs
from tests.reference import generate
from tests.second import few, second

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


def cache_of(rows):
    """Bytes of a cache for pieces of about so many rows."""
    return 600 * rows


@pytest.fixture(autouse=True)
def cut_small(monkeypatch):
    """Trees of a few hundred rows are cut as if they were huge."""
    monkeypatch.setattr(tuning, "BLOCKS_MIN_ROWS", 1)
    blocks._plans.clear()
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", cache_of(64))
    yield
    blocks._plans.clear()
    blocks._cut.cache_clear()


def state(model, dtype=np.float64, seed=3):
    q, qd = kt.random_state(model, seed)
    return [x.astype(dtype) for x in (q, qd, np.random.default_rng(4).uniform(-1, 1, qd.shape))]


def one_state(plan, *given):
    """The one result of one state."""
    (found,) = plan(*(x[None] for x in given)).values()
    return found[0]


ROUNDINGS_PER_ROW = 16  # of a number on its way through a row: 10 outward (ω×(ω×r) is the longest), 6 inward
SPREAD = 6  # standard deviations


def rounding(model, dtype) -> float:
    """A bound on the relative error of a recursion over a tree: roundings that are independent grow as a root.

    Higham and Mary, "A new approach to probabilistic rounding error analysis" (2019), theorem 2.4: k roundings leave at
    most SPREAD √k u, except with a probability below 2 k exp(−SPREAD²/2), 5e-4 for 1 024 rows.
    """
    return SPREAD * np.sqrt(ROUNDINGS_PER_ROW * model.tree.height) * np.finfo(dtype).eps / 2


@pytest.mark.parametrize(
    ("dtype", "rows"),
    [
        (np.float64, 16),
        (np.float64, 64),
        (np.float64, 4096),
        (np.float32, 64),
        *(second(np.float32, n) for n in (16, 4096)),
    ],
)
def test_inverse_dynamics_is_that_of_lanes(model, rows, dtype, monkeypatch):
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", cache_of(rows))
    plan = blocks.block_plan(RNEA, model, np.dtype(dtype))
    assert plan is not None
    for seed in (3, 4):  # the second time on memory that was used before
        given = state(model, dtype, seed)
        wanted = kt.inverse_dynamics(model, *(x.astype(float) for x in given), schedule="lanes")
        found = one_state(plan, *given)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding(model, dtype) * np.abs(wanted).max())


@pytest.mark.parametrize("rows", [16, 64, 4096])
def test_forward_dynamics_undoes_inverse_dynamics(model, rows, monkeypatch):
    """The error is in the accelerations: the forces that those found need must be those given."""
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", cache_of(rows))
    for firm in (False, True):
        plan = blocks.block_plan(aba_of(firm), model, np.dtype(float))
        assert plan is not None
        for seed in (3, 4):
            q, qd, qdd = state(model, seed=seed)
            tau = kt.inverse_dynamics(model, q, qd, qdd, schedule="lanes")
            found = one_state(plan, q, qd, tau)
            back = kt.inverse_dynamics(model, q, qd, found, schedule="lanes")
            np.testing.assert_allclose(back, tau, rtol=0, atol=4 * rounding(model, float) * np.abs(tau).max())


def test_bodies_without_mass_in_the_middle_of_long_paths(monkeypatch):
    """Chunks that end with rows which resist nothing by themselves stand on borrowed inertia."""
    n = 402
    chain = kt.auto_tree(n, 1, 0.3)
    inertia = np.array(jax.tree.leaves(chain.rows.inertia)).T
    inertia[np.arange(n) % 3 != 2] = 0
    x_tree = np.tile(np.eye(6), (n, 1, 1))
    axes = ["Rx", "Ry", "Pz"]
    model = kt.Model.from_arrays(np.arange(n) - 1, [axes[k % 3] for k in range(n)], x_tree, inertia)
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", cache_of(32))
    plan = blocks.block_plan(aba_of(False), model, np.dtype(float))
    q, qd, qdd = state(model)
    tau = kt.inverse_dynamics(model, q, qd, qdd, schedule="sequential")
    found = one_state(plan, q, qd, tau)
    back = kt.inverse_dynamics(model, q, qd, found, schedule="sequential")
    np.testing.assert_allclose(back, tau, rtol=0, atol=1e-10 * np.abs(tau).max())


@pytest.mark.parametrize("name", ["chain", "binary", "trunk with limbs"])
def test_inside_jit_and_several_states_have_the_same_bits(name):
    model = MODELS[name]()
    given = [np.stack([x, 0.5 * x, 0.2 * x]) for x in state(model)]
    for function in (kt.inverse_dynamics, kt.forward_dynamics):
        one_by_one = np.stack([function(model, *x) for x in zip(*given, strict=True)])
        np.testing.assert_array_equal(function(model, *given), one_by_one)
        compiled = jax.jit(lambda *x, f=function: f(model, *x))
        np.testing.assert_array_equal(compiled(*map(jnp.asarray, given)), one_by_one)
        mapped = jax.vmap(lambda *x, f=function: f(model, *x))
        np.testing.assert_array_equal(mapped(*map(jnp.asarray, given)), one_by_one)


def test_a_compiled_program_that_outlives_its_tree_says_so():
    model = kt.auto_tree(100, 1, 0.3)
    given = [jnp.asarray(x) for x in state(model)]
    compiled = (
        jax.jit(lambda *x: blocks.block_plan(RNEA, model, np.dtype(float)).traced(*x)["tau"]).lower(*given).compile()
    )
    np.testing.assert_array_equal(compiled(*given), kt.inverse_dynamics(model, *given))
    blocks._plans.clear()
    gc.collect()
    with pytest.raises(Exception, match="not in this process, or not any more"):
        jax.block_until_ready(compiled(*given))


@pytest.mark.thorough  # test_reverse.py has gradients through blocks
def test_derivatives_are_those_of_lanes():
    model = kt.auto_tree(60, 1.5, 0.3)
    given = [jnp.asarray(x) for x in state(model)]
    for function in (kt.inverse_dynamics, kt.forward_dynamics):
        found, wanted = (
            jax.grad(lambda *x, s=s, f=function: (f(model, *x, schedule=s) ** 2).sum(), (0, 1, 2))(*given)
            for s in ("auto", "sequential")
        )
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.abs(b).max())


@few("name", ["chain", "trunk with limbs", "forest"], ["trunk with limbs"])
def test_forces_on_bodies(name):
    model = MODELS[name]()
    given, forces = state(model), np.random.default_rng(5).normal(size=(2, model.n_bodies, 6))
    for function in (kt.inverse_dynamics, kt.forward_dynamics):
        wanted = function(model, *given, forces, schedule="lanes")
        found = function(model, *given, forces)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())
        compiled = jax.jit(lambda f, *x, g=function: g(model, *x, f))
        np.testing.assert_array_equal(compiled(jnp.asarray(forces), *map(jnp.asarray, given)), found)


def test_kinematics_of_the_rows_and_what_blocks_refuse():
    model = MODELS["trunk with limbs"]()
    q = state(model)[0]
    found = one_state(blocks.block_plan(ROW_POSES, model, np.dtype(float)), q)
    wanted = kt.forward_kinematics(model, q).position
    np.testing.assert_allclose(found[:, 4:], wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    assert "pass of kind Base" in blocks.why_not(CENTROIDAL_MATRIX)
    assert blocks.block_plan(CENTROIDAL_MATRIX, model, np.dtype(float)) is None


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bits(threads, monkeypatch):
    monkeypatch.setattr(tuning, "BLOCK_PIECE_BYTES", cache_of(32))
    for name in ("chain", "binary", "trunk with limbs"):
        model = MODELS[name]()
        given = state(model)
        for function in (kt.inverse_dynamics, kt.forward_dynamics):
            wanted = function(model, *given)
            kt.set_threads(threads)
            try:
                for _ in range(10):
                    np.testing.assert_array_equal(function(model, *given), wanted)
            finally:
                kt.set_threads(None)


def test_what_auto_and_paths_take():
    model = kt.auto_tree(400, 1, 0.3)
    given = state(model)
    wanted = one_state(blocks.block_plan(RNEA, model, np.dtype(float)), *given)
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


def test_plans_go_with_their_models():
    model = kt.auto_tree(50, 1, 0.3)
    kt.inverse_dynamics(model, *state(model))
    assert len(blocks._plans) == 1
    del model
    gc.collect()
    assert len(blocks._plans) == 0


def test_many_callers():
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
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules import blocks, tuning
from kinetree.lanes.blocks import handler

tuning.BLOCKS_MIN_ROWS, tuning.BLOCK_PIECE_BYTES = 1, 40_000
model = kt.auto_tree(400, 1, 0.3)
given = np.random.default_rng(0).uniform(-1, 1, (3, 400))
wanted = kt.inverse_dynamics(model, *given)
plan = blocks.block_plan(RNEA, model, np.dtype(float))
plan._lists._entry[handler.LOCK // 8] = 1  # as if another thread had been at work
child = os.fork()
if child == 0:
    os._exit(int(not np.array_equal(kt.inverse_dynamics(model, *given), wanted)))
plan._lists._entry[handler.LOCK // 8] = 0
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=120)
