"""Programs whose lanes go on until they are done, each by itself: repeats and turns with a condition."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.constrain.native.tables import table, with_skips
from kinetree.lanes import Lane, Loop, Program, Repeat, Slots, run, xla
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.ptx import ptx, reach_of
from tests.lanes.assembler import assemble
from tests.lanes.test_program import interpret

NOTHING = jax.tree.structure(())
ONE = jax.tree.structure(0.0)


def at(slot):
    return Slots(None, slot, ONE)


def loop(step, reads=(), writes=(), adds=(), inputs=(), outputs=(), when=None, scratch=False):
    """A loop of fixed slots: `step(*inputs, *reads)` makes all that it writes, adds and puts out."""

    def whole(_, given, seen):
        made = step(*given, *seen)
        cuts = len(writes), len(writes) + len(adds)
        return tuple(made[: cuts[0]]), tuple(made[cuts[0] : cuts[1]]), tuple(made[cuts[1] :])

    reads, writes, adds = (tuple(map(at, group)) for group in (reads, writes, adds))
    inputs, outputs = (tuple(Lane(0, None, k) for k in group) for group in (inputs, outputs))
    return Loop(whole, 0, NOTHING, reads, writes, adds, inputs, outputs, None if when is None else at(when), scratch)


def bound(program, slots, width, x):
    """All that a run takes, for a program whose loops have one turn each."""
    count = len(program.loops)
    return slots, (width,), (np.zeros((1, 0), np.int32),) * count, (np.zeros((1, 0), x.dtype),) * count, (x,)


def square_root():
    """Newton's iteration, until it no longer falls: slots a, x, going, times. Its bits need no fused operation."""
    begin = loop(lambda a: (a, jnp.maximum(a, 1.0), 1.0, 0.0), inputs=(0,), writes=(0, 1, 2, 3))

    def newton(a, x):
        better = 0.5 * (x + a / x)
        return better, jnp.where(better < x, 1.0, 0.0), 1.0

    once = loop(newton, reads=(0, 1), writes=(1, 2), adds=(3,))
    end = loop(lambda x, times: (x, times), reads=(1, 3), outputs=(0, 1))
    return Program("test_square_root", (begin, Repeat((once,), 2, 60), end), 1, 1), 4, 2


def collatz():
    """Steps from n down to 1, odd and even numbers by turns with a condition: slots n, going, steps, odd."""
    begin = loop(lambda n: (n, jnp.where(n != 1, 1.0, 0.0), 0.0), inputs=(0,), writes=(0, 1, 2))
    look = loop(lambda n: (n - 2 * jnp.floor(0.5 * n),), reads=(0,), writes=(3,), scratch=True)
    up = loop(lambda n: (3 * n + 1,), reads=(0,), writes=(0,), when=3)
    even = loop(lambda odd: (1.0 - odd,), reads=(3,), writes=(3,), scratch=True)
    down = loop(lambda n: (0.5 * n,), reads=(0,), writes=(0,), when=3)
    count = loop(lambda n: (jnp.where(n != 1, 1.0, 0.0), 1.0), reads=(0,), writes=(1,), adds=(2,))
    end = loop(lambda n, steps: (n, steps), reads=(0, 2), outputs=(0, 1))
    return Program("test_collatz", (begin, Repeat((look, up, even, down, count), 1, 1000), end), 1, 1), 4, 2


def digits():
    """Sums of decimal digits until one is left, a repeat in a repeat: slots n, rest, sum, inner, outer, rounds."""
    begin = loop(lambda n: (n, jnp.where(n > 9, 1.0, 0.0), 0.0), inputs=(0,), writes=(0, 4, 5))
    start = loop(lambda n: (n, 0.0, 1.0), reads=(0,), writes=(1, 2, 3))

    def digit(rest):
        tenth = jnp.floor(rest / 10)
        return tenth, jnp.where(tenth > 0, 1.0, 0.0), rest - 10 * tenth

    one = loop(digit, reads=(1,), writes=(1, 3), adds=(2,))
    close = loop(lambda n: (n, jnp.where(n > 9, 1.0, 0.0), 1.0), reads=(2,), writes=(0, 4), adds=(5,))
    end = loop(lambda n, rounds: (n, rounds), reads=(0, 5), outputs=(0, 1))
    return Program("test_digits", (begin, Repeat((start, Repeat((one,), 3, 20), close), 4, 9), end), 1, 1), 6, 2


def powers():
    """Three times the same for all lanes, with a repeat inside that is not: slots n, left, going, result."""
    begin = loop(lambda n: (n, 3.0, 1.0, 1.0), inputs=(0,), writes=(0, 1, 2, 3))
    start = loop(lambda n: (n, -1.0), reads=(0,), writes=(2,), adds=(1,))
    down = loop(lambda going, x: (jnp.maximum(going - 1, 0.0), 2 * x), reads=(2, 3), writes=(2, 3))
    end = loop(lambda n, x: (n, x), reads=(0, 3), outputs=(0, 1))
    body = (start, Repeat((down,), 2, 50))
    return Program("test_powers", (begin, Repeat(body, 1, 9, uniform=True), end), 1, 1), 4, 2


PROGRAMS = {
    "powers": powers(),
    "square root": square_root(),
    "collatz": collatz(),
    "digits": digits(),
}
RNG = np.random.default_rng(16)
NUMBERS = {
    "square root": np.concatenate([[0.0, 1.0, 2.0, 1e300], 10 ** RNG.uniform(-8, 8, 33)]),
    "powers": np.concatenate([[0.0, 1.0, 50.0, 99.0], RNG.integers(0, 9, 33)]),
    "collatz": np.concatenate([[1.0, 2.0, 27.0, 97.0], RNG.integers(1, 999, 33)]),
    "digits": np.concatenate([[0.0, 9.0, 10.0, 1999999999.0], RNG.integers(0, 10**9, 33)]),
}


def given_to(name, x):
    program, slots, width = PROGRAMS[name]
    return bound(program, slots, width, np.asarray(x)[:, None])


def results(name, x):
    program = PROGRAMS[name][0]
    return CompiledProgram(program, x.dtype)(*given_to(name, x))[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_bodies_do_what_the_program_says(name):
    program, given = PROGRAMS[name][0], given_to(name, NUMBERS[name])
    expected = interpret(program, *given)[0]
    np.testing.assert_array_equal(xla.run(program, *given)[0], expected)
    np.testing.assert_array_equal(results(name, NUMBERS[name]), expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_lane_has_the_same_bits_alone_and_in_any_batch(name):
    """Also where the lane beside it never ends, or is not a number."""
    x = NUMBERS[name]
    expected = results(name, x)
    order = RNG.permutation(len(x))
    np.testing.assert_array_equal(results(name, x[order]), expected[order])
    for size in (1, 3, 8, 9):
        np.testing.assert_array_equal(results(name, x[-size:]), expected[-size:])
    spoilt = np.repeat(x, 2)
    spoilt[1::2] = np.nan
    np.testing.assert_array_equal(results(name, spoilt)[::2], expected)


def test_on_any_device_inside_jit():
    """On a GPU this is the kernel, with the bits of the CPU."""
    for name, (program, *_) in PROGRAMS.items():
        slots, widths, tables, constants, _ = given_to(name, NUMBERS[name])

        def call(x, program=program, known=(slots, widths, tables, constants)):
            return run(program, *known, (x,))[0]

        found = jax.jit(jax.vmap(call))(NUMBERS[name][:, None, None])[:, 0]
        np.testing.assert_array_equal(found, results(name, NUMBERS[name]))


def test_the_kernels_are_accepted_by_the_assembler(tmp_path):
    for program, slots, _ in PROGRAMS.values():
        for dtype in (np.float32, np.float64):
            text = ptx(program, np.dtype(dtype), slots, reach=reach_of(program, (1, 2), 4)).text
            assert ".visible .entry kernel" in text
            assemble(text, tmp_path)


def test_square_roots_and_counts():
    x = NUMBERS["square root"]
    roots, times = results("square root", x).T
    done = times < 60  # half of what is left at a time: 0 and 1e300 would take long
    assert list(np.flatnonzero(~done)) == [0, 3]
    np.testing.assert_allclose(roots[done], np.sqrt(x[done]), rtol=1e-15)
    last, steps = results("collatz", NUMBERS["collatz"]).T
    assert (last == 1).all()
    assert list(map(int, steps[:4])) == [0, 1, 111, 118]  # OEIS A006577


BITS = 6


def listing():
    """Adds up the bits of n twice, over a list of those that are set: slots n, going, total, and a flag for each."""
    begin = loop(lambda n: (n, 2.0, 0.0), inputs=(0,), writes=(0, 1, 2))
    flag, number = Slots(0, 0, ONE), jax.tree.structure(0.0)

    def bit(power, _, reads):
        half = jnp.floor(reads[0] / power)
        return (half - 2 * jnp.floor(0.5 * half),), (), ()

    look = Loop(bit, 1, number, reads=(at(0),), writes=(flag,), lists=("set", flag))
    total = Loop(lambda power, *_: ((), (power,), ()), 1, number, adds=(at(2),), when=flag, follows="set")
    less = loop(lambda: (-1.0,), adds=(1,))
    end = loop(lambda n, total: (n, total), reads=(0, 2), outputs=(0, 1))
    return Program("test_listing", (begin, look, Repeat((total, less), 1, 9), end), 1, 1), 3 + BITS


def test_turns_on_a_list_are_those_that_some_lane_does():
    program, slots = listing()
    x = np.concatenate([np.zeros(9), RNG.integers(0, 1 << BITS, 24)])[:, None]
    none, flags = np.zeros((1, 0), np.int32), 3 + np.arange(BITS, dtype=np.int32)[:, None]
    powers = 2.0 ** np.arange(BITS)[:, None]
    given = slots, (2,), (none, flags, flags, none, none), (none + 0.0, powers, powers, none + 0.0, none + 0.0), (x,)
    compiled = CompiledProgram(program, x.dtype)
    for lanes in (len(x), 1):
        found = compiled(*given[:-1], (x[-lanes:],))[0]
        np.testing.assert_array_equal(found, interpret(program, *given[:-1], (x[-lanes:],))[0])
        np.testing.assert_array_equal(found[:, 1], 2 * x[-lanes:, 0])
    # The turns that follow are taken from the list: they are not looked for again.
    shifted = (*given[2][:2], flags[::-1].copy(), *given[2][3:])
    wrong = compiled(slots, (2,), shifted, given[3], (np.full((8, 1), 1.0),))[0]
    assert (wrong[:, 1] == 0).all()


def test_lanes_that_are_done_leave_the_lists():
    """A loop without a condition counts turns on the list, in a block whose lanes go on once, or three times."""
    plain, slots = listing()
    begin = loop(lambda n: (n, jnp.where(n > 1, 1.0, 3.0), 0.0), inputs=(0,), writes=(0, 1, 2))
    count = loop(lambda: (1.0,), adds=(2,), scratch=True)
    count, less = replace(count, columns=1, follows="set"), plain.body[2].body[1]
    own = Program("test_narrowing", (begin, plain.body[1], Repeat((count, less), 1, 9), plain.body[3]), 1, 1)
    none, flags = np.zeros((1, 0), np.int32), 3 + np.arange(BITS, dtype=np.int32)[:, None]
    tables, constants = (
        (none, flags, flags, none, none),
        (none + 0.0, 2.0 ** np.arange(BITS)[:, None], *(none + 0.0,) * 3),
    )
    x = np.array([1.0, 2.0**BITS - 2] * 8)[:, None]  # so a block's list has all bits at first, then only one
    found = CompiledProgram(own, x.dtype)(slots, (2,), tables, constants, (x,))[0]
    np.testing.assert_array_equal(found[::2, 1], BITS + 1 + 1)


def test_turns_that_share_a_condition_are_left_out():
    """Two turns for each bit."""
    plain, slots = listing()
    begin, look, (total, *_), end = plain.body[0], plain.body[1], plain.body[2].body, plain.body[3]
    look, total = (replace(x, columns=2, follows="", lists=None) for x in (look, total))
    x = np.concatenate([np.zeros(9), RNG.integers(0, 1 << BITS, 24)])[:, None]
    flags = with_skips(table(3 + np.repeat(np.arange(BITS), 2)), 0)
    np.testing.assert_array_equal(flags[:4, 1], [1, 0, 1, 0])
    none, powers = np.zeros((1, 0), np.int32), 2.0 ** np.arange(BITS)[:, None]
    constants = none + 0.0, powers, np.repeat(powers, 2, 0), none + 0.0
    own = Program("test_skipping", (begin, look, replace(total, skips=(1, total.when)), end), 1, 1)
    compiled = CompiledProgram(own, x.dtype)
    tables = none, flags[::2].copy(), flags, none
    for lanes in (len(x), 1):
        found = compiled(slots, (2,), tables, constants, (x[-lanes:],))[0]
        np.testing.assert_array_equal(found, interpret(own, slots, (2,), tables, constants, (x[-lanes:],))[0])
        np.testing.assert_array_equal(found[:, 1], 2 * x[-lanes:, 0])
    # The table is believed: after a turn that no lane does, as many turns as it says are left out.
    wrong = *tables[:2], flags + np.array([0, 9], np.int32), none
    assert (compiled(slots, (2,), wrong, constants, (np.full((8, 1), 2.0),))[0][:, 1] == 0).all()


def test_what_a_repeat_forbids():
    again = Repeat((loop(lambda: (0.0,), writes=(0,)),), 0, 3)
    with pytest.raises(ValueError, match="repeats loops, so it is not reversible"):
        Program("odd", (again,), 1, 1, reversible=True)
    with pytest.raises(ValueError, match="tables must name"):
        Program("odd", again.body, 1, 1, reversible=True)


def test_turns_may_have_a_special_loop():
    """The other loop here has another result, so that it is seen where it ran."""
    begin = loop(lambda x: (x, x, x), inputs=(0,), writes=(0, 1, 2))
    named = Slots(0, 0, ONE)
    special = Loop(lambda _, __, x: ((5 * x[0],), (), ()), 2, NOTHING, reads=(named,), writes=(named,))
    twice = replace(special, step=lambda _, __, x: ((2 * x[0],), (), ()), special=(1, special))
    end = loop(lambda *x: x, reads=(0, 1, 2), outputs=(0, 1, 2))
    own = Program("test_special", (begin, twice, end), 1, 1)
    x, none = RNG.normal(size=(9, 1)), np.zeros((1, 0), np.int32)
    tables, constants = (none, table([0, 1, 2, 0], [0, 1, 0, 1]), none), (none + 0.0, np.zeros((4, 0)), none + 0.0)
    for lanes in (9, 1):
        given = 3, (3,), tables, constants, (x[:lanes],)
        np.testing.assert_array_equal(CompiledProgram(own, x.dtype)(*given)[0], x[:lanes] * [10, 5, 2])
        np.testing.assert_array_equal(interpret(own, *given)[0], x[:lanes] * [4, 2, 2])
