"""XLA's handlers: what they say, through JAX, where memory can not be had; and how calls share the cores."""

import ctypes
import subprocess
import sys

import jax
import numpy as np
import pytest

from kinetree.lanes import Lane, Loop, Program
from kinetree.lanes.cpu.compiled import CompiledProgram
from tests.lanes.frame import Frame

HUGE = """
import jax, jax.numpy as jnp, numpy as np
from kinetree.lanes import Lane, Loop, Program, run
jax.config.update("jax_enable_x64", True)
nothing = jax.tree.structure(())
loop = Loop(lambda _, x, __: ((), (), (x[0] + 1,)), 1, nothing, inputs=(Lane(0, 0),), outputs=(Lane(0, 0),))
program, table = Program("plus_one", (loop,), 1, 1), np.zeros((1, 1), np.int32)
def plus_one(x, slots):
    return run(program, slots, (1,), (table,), (np.zeros((1, 0)),), (x,))[0]
for lanes in (3, 5000):  # one part, and several
    x = jnp.ones((lanes, 1))
    assert (jax.jit(lambda x: plus_one(x, 8))(x) == 2).all()
    try:
        result = jax.jit(lambda x: plus_one(x, 1 << 50))(x)
        result.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        assert "RESOURCE_EXHAUSTED" in str(error) and "no memory for the slots" in str(error), error
    else:
        raise SystemExit("no error")
    assert (jax.jit(lambda x: plus_one(x, 8))(x) == 2).all()  # and things go on
print("told")
"""

LIMITED = """
import resource, jax, jax.numpy as jnp, numpy as np, kinetree as kt
jax.config.update("jax_enable_x64", True)
model = kt.auto_tree(200_000)
call = jax.jit(lambda q: kt.inverse_dynamics(model, q, q, q, schedule="lanes"))
q = jnp.zeros((8, 200_000))
call.lower(q).compile()
used = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20),) * 2)
try:
    call(q).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    assert "RESOURCE_EXHAUSTED" in str(error) and "no memory for the slots" in str(error), error
else:
    raise SystemExit("no error")
print("told")
"""


def told(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=240)
    assert done.returncode == 0, (done.returncode, done.stdout.decode(), done.stderr.decode()[-3000:])
    assert done.stdout.decode().strip() == "told"


@pytest.mark.cpu
def test_slots_that_do_not_fit_in_memory_are_an_error():
    told(HUGE)


@pytest.mark.cpu
@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are Linux's")
def test_a_limit_on_memory_is_an_error():
    told(LIMITED)


@pytest.mark.cpu
def test_calls_at_the_same_time_share_the_cores():
    nothing = jax.tree.structure(())
    loop = Loop(lambda _, x, __: ((), (), (x[0] + 1,)), 1, nothing, inputs=(Lane(0, 0),), outputs=(Lane(0, 0),))
    code = CompiledProgram(Program("plus_one", (loop,), 1, 1), np.float64).code
    ctypes.c_int64.from_address(code.engine.get_global_value_address("cores")).value = 3

    def call(ordered=lambda: None):
        given = np.zeros((1, 1), np.int32), np.zeros((1, 0)), np.ones((5000, 1))
        found = np.zeros((5000, 1))
        frame = Frame([*given], [found], (8,))
        frame.threads, frame.ordered = 8, ordered  # of XLA's pool: as many as there are devices
        assert frame.call(code.address("handler")) is None
        assert (found == 2).all()
        return frame.orders

    assert call() == 2  # and this thread
    inner = []
    assert call(lambda: inner.append(call())) == 2
    assert inner == [0, 0]  # Three cores for two calls, and each call has a thread.
    assert call() == 2
