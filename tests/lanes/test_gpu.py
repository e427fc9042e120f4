"""Kernels on NVIDIA GPUs, where there are some: on each device, for small mechanisms, and where a launch fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Lane, Loop, Program, run
from kinetree.lanes.cuda import programs

pytestmark = pytest.mark.skipif(jax.default_backend() != "gpu", reason="no NVIDIA GPU is at hand")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 2, 7, 40])
def test_each_device_computes_what_the_cpu_does(rows, dtype):
    model = kt.auto_tree(rows, 2, 0.3)
    x = np.random.default_rng(rows).uniform(-1, 1, (3, 300, rows)).astype(dtype)
    for function in (kt.inverse_dynamics, kt.forward_dynamics):
        wanted = function(model, *x, schedule="lanes")
        call = jax.jit(lambda *a, f=function: f(model, *a, schedule="lanes"))
        for device in jax.devices():
            found = call(*(jax.device_put(a, device) for a in x))
            assert found.devices() == {device}
            scale = np.abs(wanted).max()
            # the same operations in the same order; divisions and roots are rounded as well on both
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=64 * np.finfo(dtype).eps * scale)


def test_a_tree_of_one_state_and_its_mass_matrix_on_each_device():
    model = kt.auto_tree(3000, 2, 0.3)
    q = np.random.default_rng(0).uniform(-1, 1, (3, 3000))
    tau, H = kt.inverse_dynamics(model, *q), kt.mass_matrix(model, q[0])
    for device in jax.devices():
        given = [jax.device_put(a, device) for a in q]
        found = jax.jit(lambda *a: kt.inverse_dynamics(model, *a, schedule="paths"))(*given)
        np.testing.assert_allclose(np.asarray(found), tau, rtol=0, atol=1e-10 * np.abs(tau).max())
        found = jax.jit(lambda q: kt.mass_matrix(model, q))(given[0])
        np.testing.assert_allclose(np.asarray(found), H, rtol=0, atol=1e-10 * np.abs(H).max())


def test_a_launch_that_fails_raises(monkeypatch):
    """More threads in a block than any chip has."""
    monkeypatch.setattr(programs, "block_size", lambda columns, itemsize: 1 << 14)
    nothing = jax.tree.structure(())
    loop = Loop(lambda _, x, __: ((), (), (x[0] + 1,)), 1, nothing, inputs=(Lane(0, 0),), outputs=(Lane(0, 0),))
    program = Program("test_failing_launch", (loop,), 1, 1)
    assert programs.program_target(program, "float32", 1, (1, 1)) is not None
    table, constants = np.zeros((1, 1), np.int32), np.zeros((1, 0), np.float32)
    call = jax.jit(lambda x: run(program, 1, (1,), (table,), (constants,), (x,))[0])
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"launch of a kernel failed: .* \(CUDA error \d+\)"):
        call(jnp.ones((3, 1), jnp.float32)).block_until_ready()
