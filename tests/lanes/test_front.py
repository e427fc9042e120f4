"""What stands before public functions: the same answers, arguments and errors as theirs, and all that tools ask for."""

import copy
import gc
import inspect
import pickle
import sys
import warnings
import weakref

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes.cpu.front import before

MODEL = kt.auto_tree(5, 1.5, 0.3)
Q, QD, TAU = np.random.default_rng(0).standard_normal((3, 5))


def test_it_is_there():
    assert type(kt.forward_dynamics).__name__ == "function"
    assert not inspect.isfunction(kt.forward_dynamics)


@pytest.mark.parametrize("name", ["forward_dynamics", "forward_kinematics", "jacobian", "mass_matrix"])
def test_it_passes_for_the_function(name):
    front = getattr(kt, name)
    assert front.__name__ == name
    assert front.__doc__ == front.__wrapped__.__doc__
    parameters = list(inspect.signature(front).parameters)
    assert parameters[:2] == ["model", "q"]
    assert "schedule" in parameters
    assert inspect.isroutine(front)
    assert name in repr(front)
    assert pickle.loads(pickle.dumps(front)) is front
    assert copy.deepcopy(front) is front


def test_every_way_to_give_arguments():
    wanted = kt.forward_dynamics(MODEL, Q, QD, TAU, schedule="sequential")
    ways = [
        kt.forward_dynamics(MODEL, Q, QD, TAU),
        kt.forward_dynamics(MODEL, Q, QD, tau=TAU),
        kt.forward_dynamics(*(MODEL, Q, QD, TAU)),
        kt.forward_dynamics(q=Q, model=MODEL, qd=QD, tau=TAU),
        kt.forward_dynamics(MODEL, Q, QD, TAU, None),
        kt.forward_dynamics(MODEL, list(Q), QD, TAU),
        jax.jit(kt.forward_dynamics)(MODEL, Q, QD, TAU),
    ]
    for way in ways:
        np.testing.assert_allclose(way, wanted, rtol=0, atol=1e-12)
    J = kt.jacobian(MODEL, Q, 4)
    for other in (kt.jacobian(MODEL, Q, "body_4"), kt.jacobian(MODEL, Q, 4, "world"), kt.jacobian(MODEL, Q, body=4)):
        np.testing.assert_array_equal(other, J)
    assert np.abs(kt.jacobian(MODEL, Q, 4, "local") - J).max() > 0.1


def test_errors_are_those_of_the_function():
    with pytest.raises(TypeError, match="missing"):
        kt.forward_dynamics(MODEL, Q)
    with pytest.raises(TypeError, match="unexpected"):
        kt.forward_dynamics(MODEL, Q, QD, TAU, wrong=1)
    with pytest.raises(ValueError, match="q"):
        kt.forward_dynamics(MODEL, Q[:3], QD, TAU)
    with pytest.raises((ValueError, KeyError), match="body"):
        kt.jacobian(MODEL, Q, "nowhere")
    with pytest.raises((TypeError, ValueError)):
        kt.jacobian(MODEL, Q, [4])
    with pytest.raises(TypeError, match="model must be a kinetree"):
        kt.forward_dynamics(7, Q, QD, TAU)


def test_exceptions_pass_and_nothing_leaks():
    class Thing:
        def __init__(self, call):
            self._kept = call

    def refuses(x):
        return None

    def fails(x):
        raise KeyError(x)

    front = before(lambda model, x: ("python", x), "_kept", 1, False)
    assert front(Thing(lambda x: x + 1), 2) == 3
    assert front(Thing(refuses), 2) == ("python", 2) == front(object(), 2)
    with pytest.raises(KeyError):
        front(Thing(fails), 2)
    argument = object()
    counts = sys.getrefcount(argument), sys.getrefcount(None)
    for _ in range(1000):
        front(Thing(lambda x: x), argument)
        front(object(), argument)
    assert sys.getrefcount(argument) == counts[0]
    assert abs(sys.getrefcount(None) - counts[1]) < 100


def test_fronts_outlive_their_last_reference():
    front = before(lambda model, x: x, "_kept", 1, False)
    seen = weakref.ref(front)
    del front
    gc.collect()
    assert seen()(object(), 2) == 2


# -- results used again -----------------------------------------------------------------------------------------------


def test_results_that_somebody_holds_stay():
    held = [kt.forward_kinematics(MODEL, k * Q) for k in range(5)]
    views = [kt.forward_kinematics(MODEL, k * Q).rotation[2, 1:] for k in range(5)]
    arrays = [kt.mass_matrix(MODEL, k * Q) for k in range(5)]
    for k in range(5):
        fresh = kt.forward_kinematics(MODEL, k * Q, schedule="lanes")
        np.testing.assert_array_equal(held[k].rotation, fresh.rotation)
        np.testing.assert_array_equal(held[k].position, fresh.position)
        np.testing.assert_array_equal(views[k], fresh.rotation[2, 1:])
        np.testing.assert_array_equal(arrays[k], kt.mass_matrix(MODEL, k * Q, schedule="lanes"))


def test_a_loop_gets_the_same_memory_again():
    places = {kt.inverse_dynamics(MODEL, k * Q, QD, TAU).ctypes.data for k in range(8)}
    assert len(places) <= 2


def test_arrays_that_were_changed_in_place_are_not_used_again():
    model = kt.auto_tree(6, 1, 0.3)
    q = np.random.default_rng(1).standard_normal(6)
    wanted = kt.mass_matrix(model, q).copy()

    def changed(how):
        for _ in range(3):
            how(kt.mass_matrix(model, q))
            found = kt.mass_matrix(model, q)
            np.testing.assert_array_equal(found, wanted)
            assert found.shape == (6, 6)
            assert found.dtype == np.float64
            assert found.flags.writeable

    def reshaped(x):
        x.shape = (36,)

    def retyped(x):
        x.dtype = np.int64

    changed(lambda x: x.fill(0))
    changed(lambda x: x.setflags(write=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        changed(reshaped)
        changed(retyped)


def test_weak_references_die_with_their_results():
    result = kt.bias_force(MODEL, Q, QD)
    seen = weakref.ref(result)
    before_it = result.copy()
    del result
    for k in range(4):
        kt.bias_force(MODEL, k * Q, QD)
        if seen() is not None:
            np.testing.assert_array_equal(seen(), before_it)
