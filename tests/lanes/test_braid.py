"""Braids: turns of several loops in one order, with values that go from turn to turn."""

import jax
import numpy as np
import pytest

from kinetree.lanes import Braid, Lane, Loop, Program, Repeat, Slots, run, xla
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.ptx import ptx, reach_of
from tests.lanes.assembler import assemble
from tests.lanes.test_program import interpret

NOTHING = jax.tree.structure(())
ONE = jax.tree.structure(0.0)
LANES = np.random.default_rng(3).integers(-4, 5, (21, 2)).astype(float)
TIMES = 1.0 + np.arange(len(LANES)) % 3


def number(column):
    return Slots(column, 0, ONE)


def adding():
    """A value and a count: add slot times constant, add it where a slot is not 0, put the value away, clear it."""
    begin = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(number(0),), inputs=(Lane(0, 1),))

    def plus(known, _, reads, carried):
        value, count = carried
        return (), (), (), (value + known * reads[0], count + 1.0)

    def away(_, __, ___, carried):
        return (carried[0],), (carried[1],), (), carried

    def clear(_, __, ___, carried):
        return (), (), (), (0.0, carried[1])

    members = (
        Loop(plus, 1, ONE, reads=(number(0),)),
        Loop(plus, 2, ONE, reads=(number(0),), when=number(1)),
        Loop(away, 2, NOTHING, writes=(number(0),), adds=(number(1),)),
        Loop(clear, 0, NOTHING),
    )
    braid = Braid(members, jax.tree.structure((0.0, 0.0)))
    reset = Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(number(0),))
    end = Loop(lambda _, __, x: ((), (), x), 2, NOTHING, reads=(number(0),), outputs=(Lane(0, 1),))
    left = Loop(lambda _, __, x: ((x[0] - 1.0,), (), ()), 1, NOTHING, reads=(number(0),), writes=(number(0),))
    program = Program("test_adding", (begin, reset, Repeat((braid, left), 2, 9), end), 1, 1)
    turns = [
        (0, 0, 0, 2.0),  # value = 2 a
        (1, 0, 1, 3.0),  # + 3 a where b is not 0
        (2, 3, 5, 0.0),
        (3, 0, 0, 0.0),
        (0, 1, 0, -1.0),  # −b
        (1, 1, 0, 0.5),  # + b / 2 where a is not 0
        (2, 4, 5, 0.0),
    ]
    order = np.array([t[:3] for t in turns], np.int32)
    tables = (
        np.array([[0, 0], [1, 1], [2, 2]], np.int32),
        np.array([[5]], np.int32),
        order,
        np.array([[2]], np.int32),
        np.array([[3, 0], [4, 1], [5, 2]], np.int32),
    )
    constants = tuple(np.array([[t[3]] for t in turns]) if t is order else np.zeros((len(t), 0)) for t in tables)
    return program, tables, constants


PROGRAM, TABLES, CONSTANTS = adding()


def bound(dtype=np.float64):
    inputs = np.concatenate([LANES, TIMES[:, None]], 1)
    return 6, (3,), TABLES, tuple(c.astype(dtype) for c in CONSTANTS), (inputs.astype(dtype),)


def test_all_bodies_do_what_the_program_says():
    expected = interpret(PROGRAM, *bound())[0]
    a, b = LANES.T
    np.testing.assert_array_equal(expected[:, 0], 2 * a + 3 * a * (b != 0))
    np.testing.assert_array_equal(expected[:, 1], -b + 0.5 * b * (a != 0))
    first = 1 + (b != 0)
    np.testing.assert_array_equal(expected[:, 2], TIMES * (first + first + 1 + (a != 0)))
    np.testing.assert_array_equal(xla.run(PROGRAM, *bound())[0], expected)
    np.testing.assert_array_equal(CompiledProgram(PROGRAM, np.dtype(float))(*bound())[0], expected)


def test_a_lane_has_the_same_bits_alone_and_in_any_batch():
    *known, (x,) = bound()
    compiled = CompiledProgram(PROGRAM, np.dtype(float))
    expected = compiled(*known, (x,))[0]
    for size in (1, 3, 8, 9):
        np.testing.assert_array_equal(compiled(*known, (x[-size:],))[0], expected[-size:])


def test_lanes_may_have_constants_of_their_own():
    slots, widths, tables, constants, (x,) = bound()
    scale = 1.0 + np.arange(len(x))

    def one(x, scale):
        own = tuple(c * scale if c.size else c for c in constants)
        return run(PROGRAM, slots, widths, tables, own, (x[None],))[0][0]

    found = jax.jit(jax.vmap(one))(x, scale)
    expected = interpret(PROGRAM, *bound())[0]
    np.testing.assert_array_equal(found[:, :2], expected[:, :2] * scale[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernels_are_accepted_by_the_assembler(dtype, tmp_path):
    assemble(ptx(PROGRAM, np.dtype(dtype), 6, reach=reach_of(PROGRAM, (3, 3), 4)).text, tmp_path)
