"""Rounds of turns for teams of threads: any order within a round leaves the same numbers as turn after turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.lanes import Lane, Loop, Program, Repeat, Slots, Teams, run
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.team import team_bytes, team_ptx, team_size
from kinetree.lanes.program.teams import rounds_of
from tests.lanes.assembler import assemble
from tests.lanes.test_repeat import NUMBERS, PROGRAMS, given_to, results

ONE, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())
SLOTS = 40
TOTAL, GOING = SLOTS, SLOTS + 1
SIZES = (1, 2, 4, 8, 32)


def at(column, offset=0):
    return Slots(column, offset, ONE)


def rest(x):
    """Whole numbers below 97: sums of them are exact in any order."""
    return x - 97 * jnp.floor(x / 97)


def mixing():
    """Turns that need what others leave, in any way; some only where a slot is not 0; and a sum over all of them."""
    begin = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(at(0),), inputs=(Lane(0, 1),))
    none = Loop(lambda *_: ((0.0, 3.0), (), ()), 0, NOTHING, writes=(at(None, TOTAL), at(None, GOING)))

    def mix(_, __, reads):
        a, b, c = reads
        return (rest(a + 2 * b),), (rest(b - c), a), ()

    mixed = {"reads": (at(0), at(1), at(2)), "writes": (at(3),), "adds": (at(4), at(None, TOTAL))}
    count = Loop(
        lambda _, __, r: ((r[0] - 1,), (), ()), 0, NOTHING, reads=(at(None, GOING),), writes=(at(None, GOING),)
    )
    plain, some = Loop(mix, 5, NOTHING, **mixed), Loop(mix, 5, NOTHING, **mixed, when=at(1))
    rare = Loop(lambda *_: ((5.0,), (7.0,), ()), 3, NOTHING, writes=(at(1),), adds=(at(2),), when=at(0), rare=True)
    again = Repeat((plain, some, rare, count), GOING, 9)
    end = Loop(lambda _, __, r: ((), (), r), 2, NOTHING, reads=(at(0),), outputs=(Lane(0, 1),))
    return Program("test_mixing", (begin, none, again, end), 1, 1)


MIXING = mixing()


def tables_of_mixing(seed, turns):
    rng = np.random.default_rng(seed)
    slots = np.arange(SLOTS, dtype=np.int32)
    mixed = [np.array([rng.choice(SLOTS, 5, replace=False) for _ in range(n)], np.int32).reshape(n, 5) for n in turns]
    pushed = SLOTS // 2  # conditions are in the first half, what is changed in the second
    rare = np.stack([rng.integers(0, pushed, 30), *rng.integers(pushed, SLOTS, (2, 30))], 1).astype(np.int32)
    rare = rare[rare[:, 1] != rare[:, 2]]
    copies = np.stack([slots, slots], 1)
    ends = np.stack([[*slots, TOTAL], [*slots, TOTAL]], 1).astype(np.int32)
    nothing = np.zeros((1, 0), np.int32)
    return (copies, nothing, *mixed, rare, nothing, ends)


def none_for(tables):
    return tuple(np.zeros((len(t), 0)) for t in tables)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("turns", [(1, 0), (7, 30), (60, 60)])
def test_turns_of_a_round_can_be_done_in_any_order(size, turns):
    tables = tables_of_mixing(size, turns)
    x = np.random.default_rng(1).integers(0, 97, (20, SLOTS)).astype(float)
    compiled = CompiledProgram(MIXING, x.dtype)
    given = GOING + 1, (SLOTS + 1,)
    wanted = compiled(*given, tables, none_for(tables), (x,))[0]
    rng, shuffled = np.random.default_rng(2), []
    for loop, table in zip(MIXING.loops, tables, strict=True):
        rounds = rounds_of(loop, table, GOING + 1, size)
        assert np.bincount(rounds, minlength=1).max(initial=0) <= size
        shuffled.append(table if loop.rare else table[np.lexsort((rng.random(len(table)), rounds))])
    np.testing.assert_array_equal(compiled(*given, tuple(shuffled), none_for(tables), (x,))[0], wanted)


def test_independent_turns_fill_their_rounds():
    table = np.arange(21, dtype=np.int32)[:, None]
    loop = Loop(lambda _, __, r: ((r[0],), (), ()), 1, NOTHING, reads=(at(0),), writes=(at(0),))
    assert rounds_of(loop, table, 21, 8).tolist() == [k // 8 for k in range(21)]
    chain = Loop(lambda _, __, r: ((r[0],), (), ()), 1, NOTHING, reads=(at(0),), writes=(at(0, 1),))
    assert rounds_of(chain, table, 22, 8).tolist() == list(range(21))


def test_rounds_name_every_turn_once_with_its_row():
    tables = tables_of_mixing(3, (50, 9))
    for table, dealt in zip(tables, Teams(MIXING, GOING + 1, GOING + 1, tables).rounds(8), strict=True):
        members = dealt.reshape(-1, 1 + table.shape[1])
        named = members[members[:, 0] >= 0]
        assert sorted(named[:, 0]) == list(range(len(table)))
        np.testing.assert_array_equal(table[named[:, 0]], named[:, 1:])


def test_a_loop_that_reads_its_own_sum_is_refused():
    loop = Loop(lambda _, __, r: ((), r, ()), 1, NOTHING, reads=(at(0),), adds=(at(None, 0),))
    with pytest.raises(ValueError, match="adds up over all its turns"):
        rounds_of(loop, np.zeros((2, 1), np.int32), 4, 8)


def test_sums_of_rare_loops_are_added_one_by_one():
    """Members that do nothing in a round have no sum to carry on: the text was no LLVM."""
    loop = Loop(lambda *_: ((), (7.0,), ()), 1, NOTHING, adds=(at(None, 1),), when=at(0), rare=True)
    text = team_ptx(Program("rare_sum", (loop,), 0, 0), "float32", 4).text
    assert "kernel" in text


def test_turns_that_list_by_one_slot_share_rounds():
    """Nobody but the list looks at the slot, so turns need not come one after the other."""
    loop = Loop(
        lambda _, __, x: ((*x, *x), (), ()), 1, NOTHING, (at(0),), (at(0), at(None, 9)), lists=("l", at(None, 9))
    )
    assert rounds_of(loop, np.arange(8, dtype=np.int32)[:, None], 10, 4).tolist() == [0] * 4 + [1] * 4


def test_teams_fit_in_shared_memory():
    tables = tables_of_mixing(6, (200, 200))
    for itemsize in (4, 8):
        for slots in (1, 100, 1000, 2500, 8000, 20_000, 10**6):
            size = team_size(Teams(MIXING, GOING + 1, slots, tables), itemsize)
            assert (size == 0) == (slots == 10**6)  # the slots of such a lane have no room
            assert size == 0 or team_bytes(slots, itemsize, size) <= 227 << 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernels_are_accepted_by_the_assembler(tmp_path, dtype):
    for program in (MIXING, *(p for p, *_ in PROGRAMS.values())):
        text = team_ptx(program, dtype, 8).text
        assert ".visible .entry kernel" in text
        assemble(text, tmp_path)


def test_on_any_device_inside_jit():
    """On a GPU teams do the turns; whole numbers have the bits of the CPU."""
    tables = tables_of_mixing(4, (40, 40))
    x = np.random.default_rng(5).integers(0, 97, (67, SLOTS)).astype(float)
    known = GOING + 1, (SLOTS + 1,), tables, none_for(tables)
    teams = Teams(MIXING, GOING + 1, GOING + 1, tables)
    with jax.enable_x64(True):
        found = jax.jit(lambda x: run(MIXING, *known, (x,), teams=teams)[0])(x)
    np.testing.assert_array_equal(found, CompiledProgram(MIXING, x.dtype)(*known, (x,))[0])
    for name, (program, *_) in PROGRAMS.items():
        slots, widths, tables, constants, _ = given_to(name, NUMBERS[name])
        teams = Teams(program, slots, slots, tables)

        def call(x, program=program, known=(slots, widths, tables, constants), teams=teams):
            return run(program, *known, (x,), teams=teams)[0]

        with jax.enable_x64(True):
            found = jax.jit(jax.vmap(call))(NUMBERS[name][:, None, None])[:, 0]
        np.testing.assert_array_equal(found, results(name, NUMBERS[name]))
