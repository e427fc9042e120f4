"""How long compiled code lives: with its program; for ever once XLA knows it; in bounds unless asked for."""

import gc
import weakref
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules import choose, tuning
from kinetree.dynamics.schedules.lane_rows import Traits
from kinetree.dynamics.schedules.lanes import Variant, lane_program
from kinetree.lanes import ffi
from kinetree.lanes.cpu import programs
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.kept.notice import forget_warnings
from kinetree.lanes.llvm import handler
from kinetree.lanes.target import facts
from tests.dynamics.programs import rnea_lanes


@pytest.fixture
def engines(monkeypatch):
    """Compiled programs that are alive."""
    alive: weakref.WeakSet[CompiledProgram] = weakref.WeakSet()
    make = CompiledProgram.__init__

    def noted(self, *given):
        make(self, *given)
        alive.add(self)

    monkeypatch.setattr(CompiledProgram, "__init__", noted)
    return alive


def calls(model):
    return [kt.inverse_dynamics(model, *np.ones((3, lanes, model.nv))) for lanes in (1, 40)]


def test_code_for_one_robot_goes_with_the_robot(engines):
    for skew in (0.11, 0.12, 0.13):
        model = kt.specialize(kt.auto_tree(3, 2, skew))
        calls(model)
        assert len(engines) == 1
        del model
        gc.collect()
        assert len(engines) == 0


def test_what_xla_knows_stays(engines):
    models = [kt.specialize(kt.auto_tree(3, 2, 0.21))]
    x = jnp.ones((3, 40, 3))
    call = jax.jit(lambda *x: kt.inverse_dynamics(models[0], *x))
    call(*x)
    wanted = calls(models[0])[1]
    models.clear()
    gc.collect()
    assert len(engines) == 1
    np.testing.assert_array_equal(call(*x), wanted)
    again = kt.specialize(kt.auto_tree(3, 2, 0.21))  # the same content, and so the same target
    np.testing.assert_array_equal(jax.jit(lambda *x: kt.inverse_dynamics(again, *x))(*x), wanted)


def test_two_programs_of_one_content_share_a_target():
    first = rnea_lanes(False, False).program
    second = lane_program.__wrapped__(RNEA, Variant(Traits(False, False, False))).program
    assert first is not second
    names = [programs._target(p, "float64") for p in (first, second)]
    assert names[0] == names[1]
    assert programs._target(rnea_lanes(False, True).program, "float64") != names[0]


@pytest.mark.cpu
def test_small_robots_get_no_more_programs_unasked_than_a_process_can_hold(monkeypatch):
    monkeypatch.setattr(tuning, "WRITTEN_OUT_MAX_ROBOTS", 2)
    monkeypatch.setattr(choose, "_robots", count())
    algorithm, many = rnea_lanes(False, False), facts("cpu").written_out_min_states
    x = [jax.ShapeDtypeStruct((many, 3), jnp.float64)] * 3
    models = [kt.auto_tree(3, 2, skew) for skew in (0.31, 0.32, 0.33)]

    def program(model):
        jaxpr = jax.make_jaxpr(lambda *x: algorithm(model, *x))(*x)
        (run,) = (e for e in jaxpr.jaxpr.eqns if "bound" in e.params)
        return run.params["bound"].program

    for _ in range(2):  # those that have one keep it
        assert [program(m) is not algorithm.program for m in models] == [True, True, False]


def test_another_ffi_is_told_once(monkeypatch):
    forget_warnings()
    monkeypatch.setattr(handler, "VERSIONS", ((0, 9),))
    with pytest.warns(RuntimeWarning, match=r"this JAX has version 0\.\d of XLA's FFI, and 0\.9"):
        assert not ffi.supported()
    assert not ffi.supported()
    forget_warnings()
