"""Programs written out for one mechanism: the same bits as the looping ones, and nothing stale."""

import copy
import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Loop, Program, Repeat, Slots, written_out
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.ptx import Access, ptx
from kinetree.lanes.llvm.emit import Emitter, trace
from kinetree.lanes.program.straight import changed, expected, slot_numbers, turn_order
from tests.dynamics.mixed import mixed_model, state
from tests.dynamics.programs import aba_lanes, rnea_lanes
from tests.lanes.assembler import assemble

NUMBER, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())
MODELS = [
    kt.auto_tree(1, 1, 0.3),
    kt.auto_tree(9, 2, 0.3),
    kt.auto_tree(9, 2, 0.3).replace(armature=np.linspace(0, 0.2, 9)),
    mixed_model(),
]
FUNCTIONS = [kt.inverse_dynamics, kt.forward_dynamics]
ALGORITHMS = [rnea_lanes, aba_lanes]


def arrays(model, dtype=np.float64, batch=37):
    q, qd = kt.random_state(model, 1, (batch,))
    u = np.random.default_rng(2).uniform(-1, 1, qd.shape)
    return [x.astype(dtype) for x in (q, qd, u)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_same_bits(model, function, dtype):
    special = kt.specialize(model)
    for batch in (1, 5, 37):
        x = arrays(model, dtype, batch)
        np.testing.assert_array_equal(function(special, *x), function(model, *x))
    one = [a[0] for a in x]
    np.testing.assert_array_equal(function(special, *one), function(model, *one))
    inside = jax.jit(lambda *a: function(special, *a))(*map(jnp.asarray, x))
    np.testing.assert_array_equal(np.asarray(inside), function(model, *x))


def test_mass_matrix_and_external_forces():
    model = kt.auto_tree(5, 2, 0.3)
    special = kt.specialize(model)
    q, qd, qdd = arrays(model)
    f = np.random.default_rng(3).uniform(-1, 1, (37, 5, 6))
    np.testing.assert_array_equal(kt.mass_matrix(special, q), kt.mass_matrix(model, q))
    np.testing.assert_array_equal(
        kt.inverse_dynamics(special, q, qd, qdd, f), kt.inverse_dynamics(model, q, qd, qdd, f)
    )


def test_derivatives_of_a_specialized_model():
    model = mixed_model()
    special = kt.specialize(model)
    q, qd, u = (x[0] for x in state(model))
    ours, theirs = (jax.jacrev(lambda q, m=m: kt.inverse_dynamics(m, q, qd, u))(q) for m in (special, model))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_other_numbers_make_an_ordinary_model():
    model = kt.specialize(kt.auto_tree(4, 1, 0.3))
    x = arrays(model)
    heavier = jax.tree.map(lambda a: 2 * a, model)
    assert model.specialized
    assert not heavier.specialized
    assert not model.replace(gravity=[0, 0, 0]).specialized
    assert not copy.copy(model).specialized
    assert not pickle.loads(pickle.dumps(model)).specialized
    np.testing.assert_array_equal(
        kt.inverse_dynamics(model.replace(gravity=[0, 0, 0]), *x),
        kt.inverse_dynamics(kt.auto_tree(4, 1, 0.3).replace(gravity=[0, 0, 0]), *x),
    )
    as_argument = jax.jit(kt.inverse_dynamics)(heavier, *map(jnp.asarray, x))
    assert not np.allclose(np.asarray(as_argument), kt.inverse_dynamics(model, *x))


def test_passive_forces_keep_the_programs():
    model = kt.specialize(kt.auto_tree(4, 1, 0.3).replace(damping=0.1))
    assert model.without_passive.specialized


def test_refusals():
    with pytest.raises(ValueError, match="too large"):
        kt.specialize(kt.auto_tree(200, 1, 0.3))
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda m: kt.inverse_dynamics(kt.specialize(m), *jnp.ones((3, 4))))(kt.auto_tree(4, 1, 0.3))


def test_lanes_that_go_different_ways_are_refused():
    loop = Loop(lambda *_: ((), (-1.0,), ()), 0, NOTHING, adds=(Slots(None, 0, NUMBER),))
    tables = (np.zeros((1, 0), np.int32),)
    for body in ((Repeat((loop,), 0, 3),), (replace(loop, when=Slots(None, 0, NUMBER)),)):
        with pytest.raises(ValueError, match="go different ways"):
            written_out(Program("uneven", body, 0, 0), tables, (), None)
    assert written_out(Program("even", (Repeat((loop,), 0, 3, uniform=True),), 0, 0), tables, (), None).straight


def test_what_a_repeat_carries():
    """What is read before it is written, and nothing that each time makes anew."""
    slot = [Slots(None, k, NUMBER) for k in range(4)]
    first = Loop(
        lambda _, __, x: ((x[0],), (-1.0,), ()), 0, NOTHING, reads=(slot[1],), writes=(slot[2],), adds=(slot[0],)
    )
    second = Loop(lambda _, __, x: (x, (), ()), 0, NOTHING, reads=(slot[2],), writes=(slot[1],))
    again = Repeat((first, second), 0, 5, uniform=True)
    tables = (np.zeros((1, 0), np.int32),) * 2
    assert expected(again.body, tables) == {0, 1}
    assert changed(again.body, tables) == {0, 1, 2}
    end = Loop(lambda _, __, x: (x, (), ()), 0, NOTHING, reads=(slot[3],), writes=(slot[3],))
    assert expected((again, end), (*tables, tables[0])) == {0, 1, 3}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_turns_come_after_what_they_need_and_branches_die_early(algorithm):
    bound = algorithm(False, False)
    model = kt.auto_tree(31, 2, 0.3)
    tables = tuple(table for table, _ in bound.turns(model.structure))
    order = turn_order(bound.program.loops, tables)
    assert sorted(order) == [(k, t) for k, table in enumerate(tables) for t in range(len(table))]
    history: dict = {}
    for place, (k, t) in enumerate(order):  # what touches a slot keeps its order, unless both only read
        loop, row = bound.program.loops[k], tables[k][t]
        for where, changes in ((loop.reads, False), (loop.writes + loop.adds, True)):
            for slot in (i for s in where for i in slot_numbers(s, row)):
                history.setdefault(slot, []).append((changes, (k, t), place))
    for touches in history.values():
        for changes, turn, place in touches:
            later = [t for c, t, p in touches if p > place and (c or changes) and t != turn]
            assert all(t > turn for t in later)


@pytest.mark.parametrize("width", [1, 4])
def test_what_is_known_of_a_robot_is_not_computed(width):
    """A hinge without a rotor feels nothing of its own direction; with numbers known, that is no work at all."""
    bound, model = aba_lanes(False, False, checked=False), kt.auto_tree(2, 1, 0.3)
    inward, constants = bound.parts[2].loop, bound.constants(model, np.dtype(float))[2][0]
    assert list(constants[:3]) == [1, 0, 0]  # turn, slide, armature
    closed = trace(inward, np.dtype(float))
    work = []
    for known in (True, False):
        to = Emitter(width, float)
        values = [to.number(x) for x in constants] if known else [f"%c{k}" for k in range(len(constants))]
        to.jaxpr(closed, values + [f"%x{k}" for k in range(len(closed.jaxpr.invars) - len(values))])
        assert any("select" in line for line in to.lines) != known
        work.append(sum("fmul" in line or "llvm.fma" in line for line in to.lines))
    assert work[0] < 0.85 * work[1]


@pytest.mark.parametrize("reach", [Access.ROWS, Access.TILE])
@pytest.mark.parametrize("baked", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_kernels_written_out(algorithm, baked, reach, tmp_path):
    bound, model = algorithm(False, False), kt.auto_tree(8, 1, 0.3)
    tables = tuple(table for table, _ in bound.turns(model.structure))
    constants = bound.constants(model, np.dtype(np.float32))
    program = written_out(bound.program, tables, (8,) * 4, constants if baked else None)
    text = ptx(program, "float32", 64, reach=reach).text
    assert ("cp.async" if reach is Access.TILE else "ld.global.nc.v4") in text  # a row of eight is two loads
    assemble(text, tmp_path)
    # the same text, at width 1, on this CPU
    x = tuple(a.astype(np.float32) for a in arrays(model))
    slots = bound.memory.size * 9
    ours = CompiledProgram(program, np.float32)(slots, (8,), tables, constants, x)[0]
    theirs = CompiledProgram(bound.program, np.float32)(slots, (8,), tables, constants, x)[0]
    np.testing.assert_array_equal(ours, theirs)
