"""Lanes that did like turns share a block in the next call; results are theirs in any order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.lanes import Lane, Loop, Program, Slots, tuning
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cpu.order import INDEX_BITS, bits_of_lists

NOTHING, ONE = jax.tree.structure(()), jax.tree.structure(0.0)
BITS = 6
NUMBER, TURNS = Slots(None, 0, ONE), Slots(None, 1, ONE)
FLAG = Slots(0, 2, ONE)


def parity(power, _, reads):
    half = jnp.floor(reads[0] / power)
    return (half - 2 * jnp.floor(0.5 * half),), (), ()


def counting(name, when=None):
    """Puts out n, and how many turns are on the list of its bits: its own, or (`when` None) those of its block."""
    begin = Loop(lambda _, x, __: ((x[0], 0.0), (), ()), 0, NOTHING, writes=(NUMBER, TURNS), inputs=(Lane(0, None),))
    look = Loop(parity, 1, ONE, reads=(NUMBER,), writes=(FLAG,), lists=("set", FLAG))
    count = Loop(lambda *_: ((), (1.0,), ()), 1, NOTHING, adds=(TURNS,), when=when, follows="set")
    end = Loop(lambda _, __, x: ((), (), x), 2, NOTHING, reads=(Slots(0, 0, ONE),), outputs=(Lane(0, 1),))
    return Program(name, (begin, look, count, end), 1, 1)


def called(compiled, x, columns=2):
    """The outputs; columns after the first are all counts."""
    none, flags = np.zeros((1, 0), np.int32), np.arange(BITS, dtype=np.int32)[:, None]
    out = np.stack([np.minimum(np.arange(columns), 1), np.arange(columns)], 1).astype(np.int32)
    powers, nothing = 2.0 ** np.arange(BITS)[:, None], np.zeros((BITS, 0))
    tables, constants = (none, flags, flags, out), (none + 0.0, powers, nothing, np.zeros((columns, 0)))
    cast = tuple(c.astype(x.dtype) for c in constants)
    return compiled(2 + BITS, (columns,), tables, cast, (x[:, None],))[0]


@pytest.mark.cpu
def test_lanes_that_did_like_turns_share_a_block():
    compiled = CompiledProgram(counting("test_union"), np.float64)
    x = np.tile([1.0, 2.0, 5.0, 12.0], 2 * compiled.width)  # four kinds, two blocks of each
    first = called(compiled, x)[:, 1]
    assert (first > 2).all()  # all bits of the block
    np.testing.assert_array_equal(called(compiled, x)[:, 1], np.tile([1, 1, 2, 2], 2 * compiled.width))
    # What lanes do now need not be what they did: the last call's order serves this one.
    assert (called(compiled, x[::-1].copy())[:, 1] <= 2).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_lane_has_its_own_results(dtype):
    compiled, rng = CompiledProgram(counting("test_own", when=FLAG), dtype), np.random.default_rng(0)
    for lanes, columns in ((3 * tuning.ORDERED_LANES + 5, 2), (40, 3), (17, 70), (2500, 850), (1, 2)):
        x = rng.integers(0, 1 << BITS, lanes)
        bits = (x[:, None] >> np.arange(BITS) & 1).sum(1)
        found = called(compiled, x.astype(dtype), columns)
        np.testing.assert_array_equal(found, np.concatenate([x[:, None], np.tile(bits[:, None], columns - 1)], 1))
    assert 2500 * 850 * np.dtype(dtype).itemsize >= tuning.STREAM_MIN_BYTES  # these went past the caches


def test_signatures_have_a_place_for_each_list():
    loops = counting("test_bits").body
    cheap = Loop(parity, 1, ONE, reads=(NUMBER,), writes=(FLAG,), lists=("other", FLAG))
    found = bits_of_lists(Program("test_two", (*loops[:2], cheap, *loops[2:]), 1, 1))
    assert found == {"set": (64 - (64 - INDEX_BITS) // 2, 27), "other": (INDEX_BITS, 27)}
