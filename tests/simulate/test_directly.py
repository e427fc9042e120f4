"""Steps without a Python function around them: the states that the long way makes, for all that is plain."""

import sys
from importlib import import_module

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes.cpu import direct
from kinetree.simulate.native import directly as native
from kinetree.simulate.native.directly import AT_ONCE
from tests.constrain.agreement import compiled, ours
from tests.simulate.test_native_steps import WORLD

pytestmark = pytest.mark.skipif(not direct.available(), reason="no direct calls in this interpreter")

LONG = kt.advance.__wrapped__  # the Python function
rollouts = import_module("kinetree.simulate.rollout")


def scene():
    """A robot with activations, on the ground; a state, and controls."""
    model = ours(compiled(WORLD.format(integrator="Euler")))
    rng = np.random.default_rng(0)
    state = kt.initial_state(model)
    state = state.replace(qd=0.1 * rng.standard_normal(model.nv), act=0.1 * rng.standard_normal(model.na))
    return model, state, rng.uniform(-0.2, 0.2, model.nu)


def free():
    """A robot that nothing constrains and nothing drives."""
    model = kt.auto_tree(4, 1.5, 0.3)
    q, qd = kt.random_state(model, 1)
    return model, kt.initial_state(model, q, qd), None


def worlds(state, count):
    """Worlds that differ a little."""
    rng = np.random.default_rng(2)
    many = jax.tree.map(lambda x: np.array(np.broadcast_to(x, (count, *x.shape)), order="C"), state)
    return many.replace(qd=many.qd + 0.1 * rng.standard_normal(many.qd.shape), time=np.arange(count) * 0.5)


def same(found, wanted):
    """The same bits in arrays of the same kind."""
    assert type(found) is type(wanted) is kt.State
    assert vars(found).keys() == vars(wanted).keys()
    for name, x in vars(wanted).items():
        y = getattr(found, name)
        assert type(y) is type(x) is np.ndarray, name
        assert (y.shape, y.dtype) == (x.shape, x.dtype), name
        assert y.flags.aligned, name
        np.testing.assert_array_equal(y, x, err_msg=name)


def no_python(*given, **words):
    """A step that enters no Python function."""
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        found = kt.advance(*given, **words)
    finally:
        sys.setprofile(None)
    assert not entered
    return found


@pytest.mark.parametrize("made", [scene, free])
def test_plain_calls_enter_no_python(made):
    model, state, ctrl = made()
    push = 0.1 * np.random.default_rng(3).standard_normal((model.n_bodies, 6))
    three = worlds(state, 3)
    pushes = np.stack([push, 2 * push, -push])
    calls = [
        ((state, ctrl), {}),
        ((state,), {}),
        ((state, ctrl, push), {}),
        ((state,), {"ctrl": ctrl, "f_ext": push}),
        ((), {"state": state, "substeps": 3}),
        ((state, ctrl), {"dt": 1e-3, "integrator": None}),
        ((three, ctrl), {}),
        ((three, ctrl, pushes), {}),
        ((three, ctrl, push), {}),
        ((three.replace(time=three.time[::-1]),), {}),
        ((state.replace(time=np.float64(0.25)), ctrl), {}),
        ((state, np.zeros(model.nu)), {}),
    ]
    for given, words in calls:
        wanted = LONG(model, *given, **words)
        same(no_python(model, *given, **words), wanted)


def test_parts_of_other_arrays():
    """Columns and rows of larger arrays, as states of a batch are; results hold the memory that they are parts of."""
    model, state, ctrl = scene()
    three = kt.advance(model, worlds(state, 3), ctrl)
    one = jax.tree.map(lambda x: x[1], three)  # its time is NumPy's float
    wanted = LONG(model, one, ctrl)
    after = no_python(model, one, ctrl)
    same(after, wanted)
    q, copy = after.q, after.q.copy()
    del after
    for _ in range(5):
        kt.advance(model, one, 3 * ctrl)
    np.testing.assert_array_equal(q, copy)
    same(kt.advance(model, jax.tree.map(lambda x: x[::2], three), ctrl), LONG(model, worlds_of(three), ctrl))


def worlds_of(state):
    """Every other world, as arrays of their own."""
    return jax.tree.map(lambda x: np.array(x[::2]), state)


def test_what_is_not_plain_goes_the_long_way():
    model, state, ctrl = scene()
    kt.advance(model, state, ctrl)
    same(kt.advance(model, state, list(ctrl)), LONG(model, state, ctrl))
    same(kt.advance(model, state, np.repeat(ctrl, 2)[::2]), LONG(model, state, ctrl))
    assert kt.advance(model, state, np.stack([ctrl, ctrl])).q.shape == (2, model.nq)
    assert kt.advance(model, state, substeps=0) is not None
    for words, error in (
        ({"ctrl": ctrl[:-1]}, ValueError),
        ({"f_ext": np.zeros((model.n_bodies + 1, 6))}, ValueError),
        ({"f_ext": np.zeros((model.n_bodies, 6, 1))}, ValueError),
        ({"dt": -1.0}, ValueError),
        ({"dt": [1.0]}, ValueError),
        ({"integrator": "none"}, ValueError),
        ({"other": 1}, TypeError),
        ({"state": state}, TypeError),
    ):
        with pytest.raises(error):
            kt.advance(model, state, **words)
    with pytest.raises(TypeError):
        kt.advance(model)
    with pytest.raises(TypeError):
        kt.advance(model, state, ctrl, None, 1e-3)
    with pytest.raises(TypeError, match=r"kinetree\.State"):
        kt.advance(model, state.q)
    with pytest.raises(ValueError, match="advance"):
        kt.advance(model, state.replace(qd=np.full(model.nv, np.nan)))


@pytest.mark.parametrize("changed", ["act", "warm_start", "qd"])
def test_states_of_wrong_shapes_are_refused(changed):
    model, state, _ = scene()
    kt.advance(model, state)
    with pytest.raises(ValueError, match=changed):
        kt.advance(model, state.replace(**{changed: np.zeros((2, 3))}))


def test_other_types_of_arrays():
    model, state, _ = free()
    kt.advance(model, state)
    single = jax.tree.map(lambda x: x.astype(np.float32), state)
    assert kt.advance(model, single).q.dtype == np.float32
    assert isinstance(kt.advance(model, jax.tree.map(jax.numpy.asarray, state)).q, jax.Array)


@pytest.mark.parametrize("made", [scene, free])
def test_every_type_and_size_has_a_builtin(made, monkeypatch):
    """The types of numbers in any order, few lanes and many; what one builtin refuses the other may take."""
    model, state, ctrl = made()
    monkeypatch.setattr(native, "OWN_BUILTIN_MIN_STEPS", 5)

    def single(*given):
        return jax.tree.map(lambda x: x.astype(np.float32), given)

    alone = single(state, ctrl)
    alone = alone[0].replace(time=np.float32(0.5)), alone[1]
    few, many = single(worlds(state, 2), ctrl), single(worlds(state, 5), ctrl)
    for given in ((state, ctrl), alone, few, (worlds(state, 5), ctrl)):
        wanted = LONG(model, *given)
        for _ in range(2):
            same(no_python(model, *given), wanted)
    for given in (alone, many, (state, ctrl), (worlds(state, 3), ctrl)):
        wanted = LONG(model, *given)
        same(no_python(model, *given), wanted)
    assert len(vars(model)["_direct_steps"]) == 1


def test_arrays_of_no_controls_are_plain():
    model, state, _ = free()
    wanted = LONG(model, state)
    same(no_python(model, state, np.zeros(0)), wanted)
    assert kt.advance(model, state, np.zeros((5, 0))).q.shape == (5, model.nq)


def test_nothing_is_left_behind():
    model, state, ctrl = scene()
    kt.advance(model, state, ctrl)
    bad = state.replace(qd=np.full(model.nv, np.nan))
    call = vars(model)[AT_ONCE]
    things = [*vars(state).values(), ctrl, state, *vars(bad).values(), kt.State, np.float64]
    shared = None, np.dtype(float)
    two, push = worlds(state, 2), np.zeros((model.n_bodies, 6))
    kt.advance(model, two, ctrl, push)
    before, others = [[sys.getrefcount(x) for x in y] for y in (things, shared)]
    held = call(state, ctrl)
    references = sys.getrefcount(held.q)
    assert references == 2  # the state, and that call
    for _ in range(500):
        call(state, ctrl), call(two, ctrl, push), call(state, ctrl, dt=1e-4)
        assert call(bad, ctrl) is call(state, ctrl[:-1]) is call(state, unknown=1) is call(state.q) is call() is None
        assert call(state, ctrl, substeps=[]) is None
    del held
    assert [sys.getrefcount(x) for x in things] == before
    assert all(abs(sys.getrefcount(x) - y) < 100 for x, y in zip(shared, others, strict=True))


def test_other_functions_and_models_take_such_states():
    """They pass the arrays of a state on in its order, whatever the order in which machine code set them."""
    model, state, _ = free()
    other = kt.with_sensors(model, [kt.Sensor("clock", "now")])
    steps = [state := kt.advance(model, state) for _ in range(3)]
    assert kt.sensors(other, steps[-1])["now"] == steps[-1].time > 0
    same(kt.advance(other, steps[1]), steps[2])


def test_a_subclass_of_a_state_goes_the_long_way():
    class Own(kt.State):
        pass

    model, state, ctrl = scene()
    after = kt.advance(model, state, ctrl)
    same(kt.advance(model, Own(**vars(state)), ctrl), after)


@pytest.mark.parametrize("made", [scene, free])
def test_rollouts_of_few_steps_have_the_bits_of_long_ones(made, monkeypatch):
    model, state, ctrl = made()
    controls = None if ctrl is None else np.stack([ctrl, 0.5 * ctrl, -ctrl, ctrl])
    record = ("q", "qd", "act", "time", "warm_start", "ctrl", "done")
    push = 0.1 * np.random.default_rng(3).standard_normal((model.n_bodies, 6)) if made is free else None
    calls = [
        ((state, controls), {"record": record}),
        ((state, None), {"substeps": 2, "return_carry": True}),
        ((worlds(state, 3), controls), {"record": "q", "f_ext": push}),
        ((worlds(state, 3), controls), {"record": record, "dt": 1e-3}),
    ]
    wanted = [kt.rollout(model, *given, steps=4, **words) for given, words in calls]
    asked = []
    monkeypatch.setattr(rollouts, "at_once", lambda *_: asked.append(1))
    for (given, words), old in zip(calls, wanted, strict=True):
        new = kt.rollout(model, *given, steps=4, **words)
        assert jax.tree.structure(new) == jax.tree.structure(old)
        for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True):
            assert type(a) is type(b) is np.ndarray
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_array_equal(a, b)
    assert not asked
