"""JAX's modes and processes: 32 and 64 bits mixed in one process, no `jit` at all, and children of a fork."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.public_calls import CALLS, left_out
from tests.second import second

ROOT = Path(__file__).parents[1]


def test_every_public_function_is_called_here():
    assert left_out() == set()


def run_alone(code: str, *arguments: str, timeout: int = 900) -> str:
    """What a program prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# -- 32 and 64 bits ---------------------------------------------------------------------------------------------------

MIXED = """
    import json, random, sys
    import jax, jax.numpy as jnp, numpy as np
    import kinetree as kt
    from tests import quick_code
    from tests.public_calls import CALLS
    quick_code.install()
    jax.config.update("jax_enable_x64", sys.argv[1] == "64")
    jax.config.update("jax_disable_most_optimizations", True)
    state = np.random.default_rng(0).uniform(-1, 1, (2, 2, 3))
    models = [kt.auto_tree(3, 2, 0.3).replace(damping=d) for d in (0.1, 0.2)]  # one structure: most programs are shared
    with jax.enable_x64(True):
        wide = jnp.asarray(state)
    kinds = {
        "NumPy float64": state, "NumPy float32": state.astype(np.float32),
        "JAX float64": wide, "JAX float32": jnp.asarray(state, jnp.float32),
    }
    nodes = [(name, kind) for name in CALLS for kind in kinds]
    random.Random(int(sys.argv[2])).shuffle(nodes)
    wanted, wrong, functions = {}, [], {}
    def call(number, name, kind, jitted):
        key = number, name, jitted and "JAX" in kind and sys.argv[1] == "32"
        if key not in functions:
            function = lambda q, v: CALLS[name](models[number], q, v)
            functions[key] = jax.jit(function) if key[2] else function
        try:
            leaves = jax.tree.leaves(functions[key](*kinds[kind]))
            for x in leaves:
                if str(x.dtype) != kind.split()[1]:
                    wrong.append(f"{name} of {kind}, jit {jitted}: {x.dtype}")
            values = [np.asarray(x, float) for x in leaves]
        except Exception as error:
            wrong.append(f"{name} of {kind}, jit {jitted}: {type(error).__name__}: {str(error)[:300]}")
            return
        known = wanted.setdefault((number, name), (kind, values))
        close = 1e-2 if "32" in kind + known[0] else 1e-9
        if not all(np.allclose(x, y, rtol=close, atol=close) for x, y in zip(values, known[1])):
            wrong.append(f"{name} of {kind}, jit {jitted}: not as of {known[0]}")
    for name, kind in nodes:  # what comes first makes what is kept
        call(0, name, kind, "64" in kind)
    for name, kind in reversed(nodes) if sys.argv[1] == "32" else ():
        call(1, name, kind, "32" in kind)
    for name, kind in reversed(nodes):  # and all of it again, the other way round
        call(0, name, kind, "64" in kind)
    print(json.dumps(wrong))
"""


@pytest.mark.parametrize("mode", ["32", "64"])
def test_every_order_of_functions_and_kinds_of_arrays(mode):
    """What one call keeps must serve the next, in either mode of JAX.

    State between calls is what is kept about models and programs, made by whoever comes first. One model meets all
    functions with all kinds of arrays in a random order, another one in the reverse: of any two calls, each comes first
    once. In 64-bit mode there is no other mode to come back to: one order is enough, and `jit` is in all other tests.
    """
    assert json.loads(run_alone(MIXED, mode, mode)) == []


def test_the_first_example_then_a_step_on_jax_arrays():
    run_alone("""
        import jax, jax.numpy as jnp, numpy as np
        import kinetree as kt
        arm = kt.auto_tree(7, 1)
        q, qd = kt.random_state(arm, 0, batch=(3,))
        kt.simulate(arm, q, qd, kt.controllers.gravity_compensation(arm), dt=1e-3, steps=2, integrator="rk4")
        q, qd = kt.step(arm, jnp.zeros(7), jnp.zeros(7), 1e-3)
        assert q.dtype == jnp.float32
        def ahead(q, qd):
            return jax.lax.scan(lambda s, _: (kt.step(arm, *s, 1e-3), None), (q, qd), None, length=2)[0]
        jax.jit(ahead)(q, qd)
        for x in kt.forward_dynamics_derivatives(arm, *np.zeros((3, 7))):
            assert x.dtype == np.float64
    """)


# -- without jit ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    model = kt.auto_tree(3, 2, 0.3).replace(damping=0.1)
    return model, *np.random.default_rng(1).uniform(-1, 1, (2, 2, 3))


@pytest.mark.parametrize("name", CALLS)
def test_public_functions_without_jit(small, name):
    model, q, qd = small
    wanted = jax.tree.leaves(CALLS[name](model, q, qd))
    with jax.disable_jit():
        given = CALLS[name](model, jnp.asarray(q), jnp.asarray(qd))
        plain = CALLS[name](model, q, qd)
    for result in (given, plain):
        for x, y in zip(jax.tree.leaves(result), wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("method", [second("dca"), second("dcae"), "crba"])
def test_other_methods_without_jit(method):
    chain = kt.auto_tree(3, 1, 0.3)
    q, qd = np.random.default_rng(2).uniform(-1, 1, (2, 1, 3))
    with jax.disable_jit():
        qdd = kt.forward_dynamics(chain, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qd), method=method)
    np.testing.assert_allclose(qdd, kt.forward_dynamics(chain, q, qd, qd), rtol=1e-9)


def test_derivatives_and_vmap_without_jit(small):
    model, q, qd = (x if isinstance(x, kt.Model) else jnp.asarray(x) for x in small)

    def total(q):
        return kt.forward_dynamics(model, q, qd, qd).sum() + kt.inverse_dynamics(model, q, qd, qd).sum()

    def each(q, qd):
        return kt.mass_matrix(model, q) @ qd

    wanted = jax.grad(total)(q), jax.vmap(each)(q, qd)
    with jax.disable_jit():
        found = jax.grad(total)(q), jax.vmap(each)(q, qd)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11)


def test_users_may_forbid_that_ranks_are_promoted(small):
    """JAX's setting is for the code of users; numbers of models have one axis, and states have more."""
    model, q, qd = small
    coupled = kt.auto_tree(4, 1, 0.3).couple({"joint_2": ("joint_0", 0.5, 0.1)})
    with jax.numpy_rank_promotion("raise"):
        jax.eval_shape(lambda q, qd: kt.passive_force(model, q, qd), q, qd)
        jax.eval_shape(lambda q, qd: kt.step(model, q, qd, 0.1, integrator="rk4"), q, qd)
        jax.eval_shape(lambda q: kt.center_of_mass(coupled, q), q)


def test_numbers_in_the_other_byte_order_beside_jax_arrays(small):
    model, q, qd = small
    found = kt.inverse_dynamics(model, jnp.asarray(q, jnp.float32), qd.astype(">f4"), qd.astype("f4"))
    np.testing.assert_allclose(found, kt.inverse_dynamics(model, q, qd, qd), rtol=1e-4, atol=1e-4)


def test_nothing_keeps_traced_arrays(small):
    """A rule of derivatives lives as long as the equation that JAX made of it; traced arrays must not."""
    model, q, qd = small
    forces = np.ones((2, 3, 6))
    with jax.checking_leaks():
        jax.jit(lambda q, qd, f: kt.inverse_dynamics(model, q, qd, qd, f)).trace(q, qd, forces)
        jax.jit(lambda mass, q: kt.inverse_dynamics(kt.scaled(model, mass=mass), q, q, q)).trace(2.0, q)


# -- children of a fork -----------------------------------------------------------------------------------------------

FORKED = """
    import json, os, signal, sys
    import jax, numpy as np
    import kinetree as kt
    from tests.public_calls import CALLS
    model = kt.auto_tree(3, 2, 0.3)
    damped = model.replace(damping=0.1)
    q, qd = np.random.default_rng(1).uniform(-1, 1, (2, 2, 3))
    wide = [np.tile(x, (10_000, 1)) for x in (q, qd)]
    native = ["inverse_dynamics", "forward_dynamics", "mass_matrix", "inverse_dynamics_derivatives", "jacobian"]
    native.append("scaled")
    calls = {name: (lambda name=name: CALLS[name](model, q, qd)) for name in CALLS}
    calls["wide"] = lambda: kt.inverse_dynamics(model, *wide, wide[1])
    calls["scaled"] = lambda: kt.inverse_dynamics(kt.scaled(model, mass=2.0), q, qd, qd)
    calls["advance"] = lambda: kt.advance(model, kt.initial_state(model, q, qd)).q
    calls["constrained"] = lambda: kt.constrained_dynamics(model, q, qd).qdd
    calls["dampers"] = lambda: kt.inverse_dynamics(damped, q, qd, qd)
    calls["paths"] = lambda: kt.forward_dynamics(model, q, qd, qd, schedule="paths")
    calls["simulate"] = lambda: kt.simulate(model, q, qd, dt=1e-3, steps=1).q
    calls["jax"] = lambda: kt.inverse_dynamics(model, *jax_arrays)
    jax_arrays = [jax.numpy.asarray(x) for x in (q, qd, qd)]  # XLA runs from here on
    wanted = {name: calls[name]() for name in (*native, "wide", "center_of_mass", "dampers")}
    told = {}
    for name, call in calls.items():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                result = call()
                right = name not in wanted or jax.tree.all(jax.tree.map(np.array_equal, result, wanted[name]))
                message = "right" if right else "wrong"
            except RuntimeError as error:
                message = "spawn" if "spawn" in str(error) else str(error)
            except BaseException as error:
                message = repr(error)
            os.write(write, message.encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        told[name] = os.read(read, 1000).decode() or "hangs"
    print(json.dumps([told, [*native, "wide"]]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_computes_or_says_to_spawn():
    told, native = json.loads(run_alone(FORKED))
    assert set(told.values()) <= {"right", "spawn"}, told
    assert {name: told[name] for name in native} == dict.fromkeys(native, "right")
    assert {told[name] for name in ("jax", "simulate", "paths")} == {"spawn"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_forked_before_xla_was_used_has_its_own():
    told = run_alone("""
        import os, sys
        import numpy as np
        import kinetree as kt
        child = os.fork()
        if child == 0:
            model = kt.auto_tree(3, 2).replace(damping=0.1)
            print(kt.center_of_mass(model, np.zeros(3)).shape, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """)
    assert told.strip() == "(3,)"


def test_a_call_while_python_shuts_down_ends():
    """JAX has closed its devices then. To open them again, it waited for a thread for ever."""
    code = """
import numpy as np
import kinetree as kt
model, q = kt.auto_tree(5), np.zeros((5000, 5))
kt.inverse_dynamics(model, q, q, q)
class Last:
    def __del__(self):
        kt.inverse_dynamics(model, q, q, q)
last = Last()
"""
    others = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60, env=others)
