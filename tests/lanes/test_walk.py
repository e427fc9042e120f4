"""Walks: the native body against XLA's, in every way to read, start and write; prefixes against a plain loop."""

import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.dynamics.algorithms.aba import ABA
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.stages import CellPlan, inward_walks, outward_walks
from kinetree.lanes.cpu import walks as walk_native
from kinetree.lanes.cpu.walks import cpu_text
from kinetree.lanes.cuda.programs import in_slices
from kinetree.lanes.cuda.ptx import assembled
from kinetree.lanes.cuda.walks import gpu_text
from kinetree.lanes.walks.prefix import exclusive_prefixes, prefix_walks
from kinetree.lanes.walks.walk import WALK, Walk, WalkSize, by_xla, take_walk

NUMBER, PAIR = jax.tree.structure(0.0), jax.tree.structure((0.0, 0.0))
TURNS = 7
at_once = jax.jit(by_xla, static_argnames=("walk", "shape"))  # not operation after operation


def step(state, streams, gathered, exists):
    a, b = streams
    return jnp.where(exists, 0.5 * state + a * jnp.sin(gathered), state), (state + b, a - b)


def data(lanes, sources, dtype):
    rng = np.random.default_rng(0)
    n = TURNS * lanes
    index = rng.permutation(n).reshape(TURNS, lanes).astype(np.int32)
    index[3, lanes // 2] = -1
    starts = [rng.normal(size=50 if sources else lanes)]
    streams = [rng.normal(size=(TURNS, 3, lanes)), rng.normal(size=(TURNS, 1, lanes))]
    numbers = [*starts, *streams, rng.normal(size=n)]
    start, first, second, gathered = (jnp.asarray(x.astype(dtype)) for x in numbers)
    places = [jnp.asarray(rng.integers(-1, 50, lanes).astype(np.int32)) for _ in range(sources)]
    return [start, *places, jnp.asarray(index), first, second, gathered], n


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sources", [0, 2])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_native_and_xla(reverse, scattered, sources, dtype):
    fields, widths = ((0, 2), (1, 0)), (3, 1)
    walk = Walk("test_walk", step, NUMBER, PAIR, NUMBER, PAIR, fields, widths, scattered, reverse, sources)
    for lanes in (1, 3, 16, 37, 500):
        arrays, n = data(lanes, sources, dtype)
        shape = WalkSize(TURNS, lanes, n if scattered else 0)
        ours = WALK.bind(*arrays, walk=walk, shape=shape, resident=None)
        theirs = at_once(*arrays, walk=walk, shape=shape)
        written = np.isin(np.arange(n), arrays[1 + sources]) if scattered else slice(None)
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            where = written if k else slice(None)
            np.testing.assert_allclose(
                np.asarray(a)[where], np.asarray(b)[where], rtol=0, atol=30 * np.finfo(dtype).eps
            )


def test_the_step_is_vectorised():
    walk = Walk("test_walk", step, NUMBER, PAIR, NUMBER, PAIR, ((0, 2), (1, 0)), (3, 1))
    text = cpu_text(walk, np.dtype(np.float64), 8)
    assert "fmul <8 x double>" in text or "fma.v8f64" in text


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lanes", [1, 2, 16, 17, 300, 5000])
def test_prefixes(lanes, reverse):
    """An operator that does not commute: affine maps."""
    op = prefix_walks(
        "test_affine",
        lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]),
        lambda s: (jnp.ones_like(s), jnp.zeros_like(s)),
        PAIR,
    )
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (2, lanes))
    first = (rng.random(lanes) < 0.1).astype(float)
    ours = exclusive_prefixes(op, (jnp.asarray(a), jnp.asarray(b)), jnp.asarray(first), reverse)
    wanted, p, q = np.zeros((2, lanes)), 1.0, 0.0
    for i in range(lanes)[:: -1 if reverse else 1]:
        wanted[:, i] = p, q
        p, q = (a[i], b[i]) if first[i] else (p * a[i], a[i] * q + b[i])
    np.testing.assert_allclose(np.stack(ours), wanted, rtol=1e-12, atol=1e-13)


KERNELS = [
    outward_walks(CellPlan(RNEA, False), 0).reduce(False),
    inward_walks(CellPlan(RNEA, False), 1).prefix.walk,
    outward_walks(CellPlan(ABA, False), 0).walk(1, True, False),
    inward_walks(CellPlan(ABA, False), 1).walk(True, 2, False),
    outward_walks(CellPlan(ABA, False), 2).walk(0, False, True),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("walk", KERNELS, ids=lambda w: w.name)
def test_this_cpu_has_a_native_body(walk, dtype):
    """A text that LLVM refuses would fall back to XLA, and no other test would tell."""
    assert walk_native._target(walk, dtype) is not None


@pytest.mark.parametrize("walk", KERNELS, ids=lambda w: w.name)
def test_kernels_are_accepted_by_the_assembler(walk, tmp_path):
    dtype = np.dtype(np.float64)
    text = assembled(walk.name, walk, dtype, 90, lambda: gpu_text(walk, dtype)).text
    assert ".entry kernel(" in text
    if (ptxas := shutil.which("ptxas")) is not None:
        (tmp_path / "kernel.ptx").write_text(text)
        subprocess.run([ptxas, "-arch=sm_90", "kernel.ptx", "-o", "out"], check=True, timeout=120, cwd=tmp_path)


def test_states_pass_through_where_no_row_exists():
    walk = Walk("test_empty", lambda s, x, g, e: (jnp.where(e, s + 1, s), ()), NUMBER, *[jax.tree.structure(())] * 3)
    index = np.array([[0, -1], [1, -1], [-1, -1]], np.int32)
    final, _ = take_walk(walk, index, jnp.zeros(2))
    np.testing.assert_array_equal(final, [2, 0])


def test_a_batch_in_slices_has_the_same_results():
    x = jnp.asarray(np.random.default_rng(2).normal(size=(103, 4)))
    sizes = []

    def call(inputs):
        sizes.append(inputs[0].shape[0])
        return (2 * inputs[0], inputs[0][:, :1])

    for most in (103, 50, 7):
        a, b = in_slices(call, (x,), most)
        np.testing.assert_array_equal(a, 2 * x)
        np.testing.assert_array_equal(b, x[:, :1])
        assert max(sizes) <= most
        sizes.clear()
