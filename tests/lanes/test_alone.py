"""Steps that a lane does by itself: loops of its own, memory with places found at run time, and pools of constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.lanes import Lane, Loop, Program, run, xla
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.ptx import ptx, reach_of
from kinetree.lanes.llvm.emit import Emitter, UnknownPrimitive, trace
from kinetree.lanes.program.alone import counted, get, once, put, room, row, while_loop, whole
from tests.lanes.assembler import NEEDED, assemble

N = 5


def sorting() -> Program:
    """Numbers of a pool, from a place of the lane's own on, scaled, sorted by insertion; small scales are left out.

    Outputs: how many places numbers moved, and the numbers.
    """

    def step(known, inputs, _):
        ((start, scale), pool), (first, own) = known, inputs
        at = whole(start + first)

        def insert(k, state):
            numbers, moves = state
            value = get(pool, at + k) * own * scale

            def move(s):
                j, numbers, moves = s
                return j - 1, put(numbers, j, get(numbers, j - 1)), moves + 1

            def lower(s):
                return (s[0] > 0) & (get(s[1], jnp.maximum(s[0] - 1, 0)) > value)

            j, numbers, moves = jax.lax.while_loop(lower, move, (k, numbers, moves))
            return put(numbers, j, value), moves

        def all_sorted(_):
            numbers, moves = counted(jnp.int32(N), insert, (room(N, own), jnp.zeros_like(own)))
            return (moves, *(get(numbers, k) for k in range(N)))

        return (), (), once(own > 0.1, all_sorted, (jnp.zeros_like(own),) * (N + 1))

    outputs = tuple(Lane(0, 0, k) for k in range(N + 1))
    inputs = Lane(0, None, 0), Lane(0, None, 1)
    return Program(
        "test_sorting", (Loop(step, 1, jax.tree.structure((0, 0)), (), (), (), inputs, outputs, pool=True),), 1, 1
    )


def bound(dtype, lanes, seed=0):
    rng = np.random.default_rng(seed)
    pool = rng.permutation(40).astype(dtype)
    turns = np.array([[4, 1.0], [5, -2.0]], dtype)  # the pool begins after the rows of both turns
    constants = np.concatenate([turns, pool.reshape(-1, 2)])
    x = np.stack([rng.integers(0, 34, lanes), rng.choice([0.0, 0.5, 1.0, 2.0], lanes)], -1).astype(dtype)
    table = np.array([[0], [N + 1]], np.int32)
    return (0, (2 * (N + 1),), (table,), (constants,), (x,)), pool


def expected(pool, x):
    made = np.zeros((len(x), 2, N + 1))
    for lane, (first, own) in enumerate(x):
        for turn, (start, scale) in enumerate([(0, 1.0), (1, -2.0)]):
            if own > 0.1:
                numbers = pool[int(first) + start :][:N] * own * scale
                made[lane, turn, 0] = sum(a > b for k, b in enumerate(numbers) for a in numbers[:k])
                made[lane, turn, 1:] = np.sort(numbers)
    return made.reshape(len(x), -1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lanes_sort_by_themselves(dtype):
    given, pool = bound(dtype, 37)
    right = expected(pool, given[-1][0])
    assert right[:, 0].max() > 3
    assert (right == 0).all(1).any()
    np.testing.assert_array_equal(run(sorting(), *given)[0], right)
    np.testing.assert_array_equal(xla.run(sorting(), *given)[0], right)
    native = CompiledProgram(sorting(), dtype)
    for lanes in (1, 3, 8, 19):
        few = (*given[:-1], (given[-1][0][:lanes],))
        np.testing.assert_array_equal(native(*few)[0], right[:lanes])


def turning() -> Program:
    """A lane counts to a number of its own, and from there: what numbers of turns look up, in the loops and after."""

    def step(_, inputs, __):
        (times,) = inputs
        count = whole(times)
        squares = counted(count * 0 + N, lambda k, a: put(a, k, (k * k).astype(times.dtype)), room(N, times))
        total = counted(count, lambda k, x: x + get(squares, k), times * 0)
        end, back = while_loop(
            lambda s: s[0] < count,
            lambda s: (s[0] + 1, s[1] * 2 + get(squares, count - s[0])),
            (jnp.zeros_like(count), times * 0),
        )
        late = counted(count, lambda k, x: x + get(squares, end) * 3, times * 0)
        return (), (), (total, back, late, get(squares, end), get(squares, end - count))

    outputs = tuple(Lane(0, None, k) for k in range(5))
    loop = Loop(step, 0, jax.tree.structure((0,)), inputs=(Lane(0, None),), outputs=outputs, pool=True)
    return Program("test_turning", (loop,), 1, 1)


def test_lanes_that_end_in_different_turns_look_up_their_own_numbers():
    """Within a loop that counts from 0 lanes read side by side, as they agree on the turn. After it they do not."""
    x = np.array([[n] for n in (0, 3, 1, 4, 2, 4, 0, 1, 2)], float)
    squares, right = np.arange(N) ** 2, []
    for (n,) in x.astype(int):
        back = 0
        for k in range(n):
            back = back * 2 + squares[n - k]
        right.append([squares[:n].sum(), back, 3 * n * squares[n], squares[n], 0])
    given = 0, (5,), (np.zeros((1, 0), np.int32),), (np.zeros((2, 1)),), (x,)
    np.testing.assert_array_equal(xla.run(turning(), *given)[0], right)
    native = CompiledProgram(turning(), np.float64)
    for lanes in (1, 8, 9):
        np.testing.assert_array_equal(native(*given[:-1], (x[:lanes],))[0], right[:lanes])


def reading_rows() -> Program:
    """Of each lane's own place the four numbers from there on, weighed, as often as the lane asks for."""

    def step(known, inputs, _):
        (_, pool), (first, times) = known, inputs

        def weighed(k, total):
            a, b, c, d = row(pool, whole(first) + k)
            return total + a + 2 * b + 4 * c + 8 * d

        return (), (), (counted(whole(times), weighed, jnp.zeros_like(first)),)

    inputs = Lane(0, None, 0), Lane(0, None, 1)
    loop = Loop(step, 0, jax.tree.structure((0, 0)), inputs=inputs, outputs=(Lane(0, None, 0),), pool=True)
    return Program("test_rows", (loop,), 1, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_the_numbers_side_by_side(dtype):
    rng = np.random.default_rng(0)
    pool = rng.permutation(40).astype(dtype)
    constants = np.concatenate([np.zeros((1, 2), dtype), pool.reshape(-1, 2)])
    x = np.stack([rng.integers(2, 34, 37), rng.integers(0, 4, 37)], -1).astype(dtype)
    x[:, 0] -= 2  # The pool that a step sees begins with the row of its turn.
    whole_pool = constants.ravel()
    right = np.array([[sum(whole_pool[int(f) + k :][:4] @ [1, 2, 4, 8] for k in range(int(n)))] for f, n in x])
    given = (0, (1,), (np.zeros((1, 0), np.int32),), (constants,), (x,))
    np.testing.assert_array_equal(run(reading_rows(), *given)[0], right)
    np.testing.assert_array_equal(xla.run(reading_rows(), *given)[0], right)
    native = CompiledProgram(reading_rows(), dtype)
    for lanes in (1, 3, 8, 19):
        np.testing.assert_array_equal(native(*given[:-1], (x[:lanes],))[0], right[:lanes])


@NEEDED
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("make", "outputs"), [(sorting, 12), (reading_rows, 1)])
def test_kernels_are_accepted(dtype, make, outputs, tmp_path):
    program = make()
    assemble(ptx(program, np.dtype(dtype), 8, reach=reach_of(program, (2, outputs), 8)).text, tmp_path)


def test_what_can_not_be_done_in_place_is_refused():
    def step(_, inputs, __):
        before = room(N, inputs[0])
        after = put(before, 1, inputs[0])
        return (), (), (get(before, 1) + get(after, 1),)

    loop = Loop(step, 0, jax.tree.structure(()), inputs=(Lane(0, None, 0),), outputs=(Lane(0, None, 0),))
    to = Emitter(1, np.float64)
    to.label("entry")
    with pytest.raises(UnknownPrimitive, match="after it was changed"):
        to.jaxpr(trace(loop, np.float64), ["%x"])
