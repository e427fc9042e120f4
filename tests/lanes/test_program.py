"""The XLA body against a plain interpreter of lane programs: the library's own, and random ones."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetree.lanes import Lane, Loop, Memory, Program, Repeat
from kinetree.lanes.program import xla
from kinetree.lanes.program.program import Slots, flattened, number_in
from tests.build import build_model
from tests.dynamics.programs import aba_lanes, crba_lanes, rnea_lanes
from tests.reference import generate


def interpret(program, slots, widths, tables, constants, inputs):
    """The program as its docstring reads, turn by turn and one lane at a time, on memory that starts out as NaN."""
    lanes = len(inputs[0])
    outputs = [np.full((lanes, w), np.nan) for w in widths]
    given = list(zip(tables, constants, strict=True))
    assert len(given) == len(program.loops)
    for lane in range(lanes):
        memory = np.full(slots, np.nan)

        def turn(loop, row, values, lane=lane, memory=memory):
            def cells(s):
                return slice(number_in(s, row), number_in(s, row) + s.count)

            if loop.when is not None and memory[cells(loop.when)] == 0:
                return
            known = jax.tree.unflatten(loop.constants, [np.float64(c) for c in values])
            taken = tuple(inputs[x.array][lane, number_in(x, row)] for x in loop.inputs)
            seen = tuple(jax.tree.unflatten(s.tree, list(memory[cells(s)])) for s in loop.reads)
            writes, adds, results = loop.step(known, taken, seen)
            for s, value in zip(loop.writes, writes, strict=True):
                memory[cells(s)] = [float(x) for x in jax.tree.leaves(value)]
            for s, value in zip(loop.adds, adds, strict=True):
                memory[cells(s)] += [float(x) for x in jax.tree.leaves(value)]
            for x, value in zip(loop.outputs, results, strict=True):
                outputs[x.array][lane, number_in(x, row)] = float(value)

        def follow(body, given, turn=turn, memory=memory):
            """Returns what was not used of the tables."""
            for part in body:
                if isinstance(part, Repeat):
                    times = 0
                    while memory[part.going] != 0 and times < part.most:
                        follow(part.body, given)
                        times += 1
                    given = given[len(list(flattened(part.body))) :]
                else:
                    for row, values in zip(*given[0], strict=True):
                        turn(part, row, values)
                    given = given[1:]
            return given

        assert not follow(program.body, given)
    return outputs


def mechanism(joints, seed=0):
    rng = np.random.default_rng(seed)
    d = generate.random_tree(rng, 4, joints)
    states = [generate.random_state(rng, d) for _ in range(2)]
    return build_model(d), [np.stack([getattr(s, k) for s in states]) for k in ("q", "qd", "tau", "f_ext")]


SCREWS, MIXED = ("Rx", "Pz", "helical"), ("free", "Rz", "spherical", "Px")


@pytest.mark.parametrize("name", ["rnea", "aba", "crba"])
@pytest.mark.parametrize("quaternions", [False, True])
def test_programs_of_the_library(name, quaternions):
    """Also: no turn reads, adds to or leaves out what nobody wrote, or NaN would come out."""
    model, (q, qd, tau, f_ext) = mechanism(MIXED if quaternions else SCREWS)
    if name == "crba":
        algorithm, inputs = crba_lanes(quaternions, True), (q,)
    else:
        algorithm = (rnea_lanes if name == "rnea" else aba_lanes)(quaternions, True)
        inputs = (q, qd, tau, f_ext.reshape(len(q), -1))
    tables = tuple(table for table, _ in algorithm.turns(model.structure))
    constants = algorithm.constants(model, np.dtype(float))
    given_to_both = (
        algorithm.memory.size * (model.nv + 1),
        algorithm.widths(model.structure),
        tables,
        constants,
        inputs,
    )
    expected = interpret(algorithm.program, *given_to_both)
    found = xla.run(algorithm.program, *given_to_both)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.isfinite(theirs).all()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13 * np.abs(theirs).max())


@settings(max_examples=15)
@given(st.data())
def test_random_programs(data):
    """Whole numbers, so that every order of additions gives the same, through tables that point anywhere."""
    draw = data.draw
    slots, lanes, width = draw(st.integers(2, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    one = jax.tree.structure(0.0)

    def table(turns, columns, limit):
        entry = st.integers(0, limit - 1)
        return np.array(draw(st.lists(st.lists(entry, min_size=columns, max_size=columns), min_size=turns,
                                      max_size=turns)), np.int32).reshape(-1, columns)  # fmt: skip

    fill = Loop(lambda c, x, _: ((c[0] + x[0],), (), ()), 2, jax.tree.structure((0.0,)),
                writes=(Slots(0, 0, one),), inputs=(Lane(0, 1),))  # fmt: skip
    mix = Loop(
        lambda c, x, reads: ((reads[1] + c[0],), (reads[0] - x[0],), (reads[0] + reads[1],)),
        5,
        jax.tree.structure((0.0,)),
        reads=(Slots(0, 0, one), Slots(1, 0, one)),
        writes=(Slots(2, 0, one),),
        adds=(Slots(3, 0, one),),
        inputs=(Lane(0, 4),),
        outputs=(Lane(0, 4),),
    )
    filling = np.stack([np.arange(slots), np.arange(slots) % width], 1).astype(np.int32)
    mixing = table(draw(st.integers(0, 8)), 5, min(slots, width))
    mixing = mixing[mixing[:, 2] != mixing[:, 3]]  # a turn either writes a slot or adds to it
    all_columns = np.repeat(np.arange(width, dtype=np.int32)[:, None], 5, 1) % slots
    all_columns[:, 3] = (all_columns[:, 2] + 1) % slots
    all_columns[:, 4] = np.arange(width)
    tables = (filling, np.concatenate([all_columns, mixing]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    constants = tuple(rng.integers(-9, 9, (len(t), 1)).astype(float) for t in tables)
    inputs = (rng.integers(-9, 9, (lanes, width)).astype(float),)
    program = Program("random", (fill, mix), 1, 1)
    given_to_both = (slots, (width,), tables, constants, inputs)
    np.testing.assert_array_equal(xla.run(program, *given_to_both)[0], interpret(program, *given_to_both)[0])


def test_fields_of_a_row_lie_side_by_side():
    memory = Memory(pair=(0.0, 0.0), single=0.0)
    assert memory.size == 3
    assert memory.at(1, "single") == Slots(1, 2, jax.tree.structure(0.0), block=3)
    assert [int(memory.base(row)) for row in (-1, 0, 4)] == [0, 3, 15]


def test_a_loop_without_turns_does_nothing():
    keep = Loop(lambda _, x, __: ((), (), x), 1, jax.tree.structure(()), inputs=(Lane(0, 0),), outputs=(Lane(0, 0),))
    never = Loop(
        lambda _, x, __: ((), (), (2 * x[0],)), 1, jax.tree.structure(()), (), (), (), keep.inputs, keep.outputs
    )
    x = np.array([[1.0], [3.0]])
    tables = (np.zeros((1, 1), np.int32), np.zeros((0, 1), np.int32))
    constants = (np.zeros((1, 0)), np.zeros((0, 0)))
    np.testing.assert_array_equal(xla.run(Program("skip", (keep, never), 1, 1), 1, (1,), tables, constants, (x,))[0], x)
