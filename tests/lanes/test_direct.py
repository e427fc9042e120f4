"""The direct call from NumPy against the ordinary path: the same bits, the same errors, and nothing left behind."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes.cpu import direct
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cpu.helpers import call_helpers
from tests.build import build_model
from tests.reference import generate

FUNCTIONS = (kt.inverse_dynamics, kt.forward_dynamics)

pytestmark = pytest.mark.skipif(not direct.available(), reason="no direct calls in this interpreter")


@pytest.fixture
def served(monkeypatch):
    """A list that gets what each direct call returned, of models bound from now on."""
    call_helpers()  # The first large call of a process goes the ordinary way, which starts the helpers.
    results = []
    bind = CompiledProgram.bound

    def watched(self, *args, **options):
        builtin = bind(self, *args, **options)

        def call(*given):
            results.append(builtin(*given))
            return results[-1]

        return call

    monkeypatch.setattr(CompiledProgram, "bound", watched)
    return results


@pytest.fixture
def arm():
    """A model that nobody has called before."""
    return kt.auto_tree(7, 1, 0.3)


@pytest.fixture
def state(arm):
    return np.random.default_rng(0).uniform(-2, 2, (3, arm.nv))


def ordinary(function, model, *given):
    """By the path that knows everything."""
    return function.__wrapped__(model, *given)


def model_and_state(kinds, batch, seed=3):
    model = build_model(generate.random_tree(np.random.default_rng(seed), 9, kinds))
    q, qd = kt.random_state(model, seed, batch)
    return model, (q, qd, np.random.default_rng(seed).standard_normal(qd.shape))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("batch", [(), (1,), (5,), (64,), (100,)])
@pytest.mark.parametrize("kinds", [("revolute", "prismatic", "helical"), ("spherical", "free", "revolute", "planar")])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_same_bits(function, kinds, batch, dtype, served):
    model, state = model_and_state(kinds, batch)
    model = model.replace(armature=0.1)
    given = [x.astype(dtype) for x in state]
    function(model, *given)  # The first large batch of a process goes the ordinary way, which counts the helpers.
    found = function(model, *given)
    assert served[-1] is found  # not by the ordinary path
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    assert found.flags.owndata
    np.testing.assert_array_equal(found, ordinary(function, model, *given))


def shapes(x):
    """q, qd or qdd in the forms that a user might pass."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    raw = np.zeros(x.nbytes + 1, np.uint8)
    askew = raw[1:].view(x.dtype).reshape(x.shape)
    askew[...] = x
    still = x.copy()
    still.flags.writeable = False

    class Sub(np.ndarray):
        pass

    return {
        "strided": wide[..., ::2],
        "fortran": np.asfortranarray(np.stack([x, x])),
        "swapped": x.astype(x.dtype.newbyteorder()),
        "not aligned": askew,
        "read-only": still,
        "list": x.tolist(),
        "subclass": x.view(Sub),
        "integers": np.ones(x.shape, int),
        "bytes": np.ones(x.shape, np.uint64),  # as many bytes as a float64
        "half": x.astype(np.float16),
        "three axes": np.stack([[x], [x]]),
        "one state of a batch": x[None],
        "no states": np.zeros((0, *x.shape)),
        "memoryview": memoryview(x),
        "other dtype": x.astype(np.float32),
    }


@pytest.mark.parametrize("form", shapes(np.ones(7)))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_form_gives_what_the_ordinary_path_gives(function, form, arm, state, served):
    for k in range(3):  # one of them odd, the others plain
        given = list(state)
        given[k] = shapes(given[k])[form]
        found, wanted = function(arm, *given), ordinary(function, arm, *given)
        assert type(found) is type(wanted)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        assert (served[-1] is None) == (form in ("not aligned", "subclass", "no states", "memoryview"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_may_be_any_distance_apart(function, arm, state, served):
    rng = np.random.default_rng(0)
    whole, row = rng.standard_normal((21, 30)), rng.standard_normal(7)
    given = whole[:, 2:9], whole[::-1, 20:27], np.broadcast_to(row, (21, 7))
    wanted = function(arm, *map(np.ascontiguousarray, given))
    served.clear()
    np.testing.assert_array_equal(function(arm, *given), wanted)
    assert [found is not None for found in served] == [True]  # by the first call, on the arrays as they are


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_arguments_give_the_ordinary_errors(function, arm, state):
    q, qd, x = state
    function(arm, q, qd, x)
    wrong = [
        (q[:6], qd, x),
        (q, qd[:6], x),
        (q, qd, x[:6]),
        (np.zeros((2, 7)), np.zeros((3, 7)), np.zeros((2, 7))),
        (q, qd, x * 1j),
        (q, qd, np.array(3.0)),
        (q, qd, None),
        (None, qd, x),
        (q, qd, "text"),
        (q, qd),
        (),
    ]
    for given in wrong:
        with pytest.raises((ValueError, TypeError)) as ours:
            function(arm, *given)
        with pytest.raises((ValueError, TypeError)) as theirs:
            ordinary(function, arm, *given)
        assert ours.type is theirs.type
        assert str(ours.value) == str(theirs.value)


def test_what_is_not_finite_is_told_or_returned(arm, state):
    q, qd, x = state
    x = x.copy()
    x[3] = np.nan
    np.testing.assert_array_equal(kt.inverse_dynamics(arm, q, qd, x), ordinary(kt.inverse_dynamics, arm, q, qd, x))
    assert np.isnan(kt.inverse_dynamics(arm, q, qd, x)).any()
    with pytest.raises(ValueError, match="must be finite"):
        kt.forward_dynamics(arm, q, qd, x)


def test_models_that_need_more_than_the_program(arm, state, served):
    q, qd, x = state
    damped = arm.replace(damping=0.5)
    np.testing.assert_allclose(kt.inverse_dynamics(damped, q, qd, x) - kt.inverse_dynamics(arm, q, qd, x), 0.5 * qd)
    served.clear()
    led = arm.couple({"joint_1": ("joint_0", 2.0, 0.1)})
    found = kt.inverse_dynamics(led, q[:6], qd[:6], x[:6])
    np.testing.assert_array_equal(found, ordinary(kt.inverse_dynamics, led, q[:6], qd[:6], x[:6]))
    weighed = arm.replace(inertia=jnp.asarray(arm.inertia.array()))  # its inertias are JAX arrays
    np.testing.assert_allclose(kt.inverse_dynamics(weighed, q, qd, x), kt.inverse_dynamics(arm, q, qd, x), rtol=1e-12)
    assert len(served) == 2  # the led model's, and the last line's: a model of JAX arrays has no direct call


def test_jax_arrays_stay_jax_arrays(arm, state, served):
    kt.inverse_dynamics(arm, *state)
    found = kt.inverse_dynamics(arm, *map(jnp.asarray, state))
    assert isinstance(found, jax.Array)
    mixed = kt.inverse_dynamics(arm, state[0], jnp.asarray(state[1]), state[2])
    assert isinstance(mixed, jax.Array)
    traced = jax.jit(lambda q: kt.inverse_dynamics(arm, q, *state[1:]))(state[0])
    by_lanes = jax.vmap(kt.inverse_dynamics, (None, 0, 0, 0))(arm, *(x[None] for x in state))[0]
    slope = jax.jvp(lambda a: kt.inverse_dynamics(arm, *state[:2], a), (state[2],), (state[2],))[0]
    for one in (found, mixed, traced, by_lanes, slope):
        np.testing.assert_allclose(one, served[0], rtol=1e-12)
    as_argument = jax.jit(kt.inverse_dynamics)(arm, *state)
    np.testing.assert_allclose(as_argument, served[0], rtol=1e-12)


@pytest.mark.parametrize("n", [60, 1000])  # scratch of a block, or of one state, that is not for the stack
def test_large_trees(n, served):
    model = kt.auto_tree(n, 1.5, 0.3)
    for batch in ((), (8,)):
        state = np.random.default_rng(1).standard_normal((3, *batch, n))
        for function in FUNCTIONS:
            np.testing.assert_array_equal(function(model, *state), ordinary(function, model, *state))
    assert not any(x is None for x in served)


def test_nothing_is_leaked(arm, state):
    single = tuple(np.ascontiguousarray(x) for x in state)
    batch = tuple(np.stack([x] * 20) for x in state)
    refused = (*single[:2], np.zeros(6))
    infinite = (*single[:2], np.full(7, np.inf))
    call = _builtin(arm)
    for given in (single, batch, refused, infinite, (single[0], 1, 2), (single[0][::2], *single[1:])):
        before = [sys.getrefcount(x) for x in (*given, np.ndarray, np.empty, arm)]
        nothing = sys.getrefcount(None)
        for _ in range(1000):
            call(*given)
        assert [sys.getrefcount(x) for x in (*given, np.ndarray, np.empty, arm)] == before
        assert abs(sys.getrefcount(None) - nothing) < 50
        tracemalloc.start()
        try:
            call(*given)
            start = tracemalloc.get_traced_memory()[0]
            for _ in range(100_000 // 6):
                call(*given)
            assert tracemalloc.get_traced_memory()[0] - start < 1000
        finally:
            tracemalloc.stop()
    tau = kt.inverse_dynamics(arm, *single)
    assert sys.getrefcount(tau) == 3  # this name's, the call's, and that of the builtin, which may use it again


def _builtin(model):
    kt.inverse_dynamics(model, *np.zeros((3, model.nv)))
    return vars(model)["_inverse_dynamics"]


def test_a_model_goes_with_its_builtins(state):
    arm = kt.auto_tree(7, 1, 0.3)
    call = _builtin(arm)
    wanted = call(*state)
    gone = weakref.ref(arm)
    owned = weakref.ref(call.__self__[1])  # the record
    again = kt.auto_tree(7, 1, 0.3)
    del arm
    gc.collect()
    assert gone() is None
    junk = [np.full(400, np.nan) for _ in range(1000)]  # whatever was freed is written over
    np.testing.assert_array_equal(call(*state), wanted)  # what the builtin needs, it owns
    del call, junk
    gc.collect()
    assert owned() is None
    np.testing.assert_array_equal(kt.inverse_dynamics(again, *state), wanted)


def test_copies_and_pickles_are_models_of_their_own(arm, state):
    wanted = kt.inverse_dynamics(arm, *state)
    for other in (copy.copy(arm), copy.deepcopy(arm), pickle.loads(pickle.dumps(arm))):
        assert "_inverse_dynamics" not in vars(other)
        np.testing.assert_array_equal(kt.inverse_dynamics(other, *state), wanted)
    heavier = arm.replace(inertia=2 * arm.inertia.array())
    np.testing.assert_allclose(kt.inverse_dynamics(heavier, *state), 2 * wanted, rtol=1e-12)


@pytest.mark.parametrize("lanes", [1, 20, 600])  # with the interpreter's lock, and without
def test_many_threads_at_once(arm, lanes):
    states = np.random.default_rng(5).standard_normal((16, 3, lanes, 7))
    wanted = [ordinary(kt.inverse_dynamics, arm, *s) for s in states]

    def work(k):
        return all(np.array_equal(kt.inverse_dynamics(arm, *states[k]), wanted[k]) for _ in range(100))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork():
    script = """
import os, sys, warnings
import numpy as np
import kinetree as kt
warnings.simplefilter("ignore")
model, x = kt.auto_tree(7, 1, 0.3), np.linspace(-1, 1, 7)
wanted = kt.inverse_dynamics(model, x, x, x)
child = os.fork()
if not child:
    same = np.array_equal(kt.inverse_dynamics(model, x, x, x), wanted)
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("how", ["no native code", "a function is missing"])
def test_without_it_everything_is_the_same(how, arm, state):
    script = """
import ctypes, sys
import numpy as np
if sys.argv[1] == "a function is missing":
    from kinetree.lanes.cpu import direct, interpreter
    interpreter.PYTHON["PyObject_NoSuchThing"] = "ptr (ptr)"
    interpreter.available.cache_clear()
    assert not direct.available()
import kinetree as kt
model, x = kt.auto_tree(7, 1, 0.3), np.linspace(-1, 1, 7)
print(*kt.inverse_dynamics(model, x, x, x).tolist())
assert vars(model)["_inverse_dynamics"](x, x, x) is None
"""
    switch = {"KINETREE_NATIVE": "0"} if how == "no native code" else {}
    done = subprocess.run(
        [sys.executable, "-c", script, how], env=os.environ | switch, capture_output=True, text=True, check=True
    )
    x = np.linspace(-1, 1, 7)
    np.testing.assert_allclose([float(t) for t in done.stdout.split()], kt.inverse_dynamics(arm, x, x, x), rtol=1e-11)
