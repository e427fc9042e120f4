"""The order of loads and stores in a turn on a CPU, and the promise that it rests on: blocks never overlap in part."""

import jax
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.native.binding import tables_of
from kinetree.lanes import Lane, Loop, Memory, Program, tuning
from kinetree.lanes.cpu.compiled import CompiledProgram, module_text
from kinetree.lanes.cpu.interleaved import Place
from kinetree.lanes.program import xla
from kinetree.simulate.native.choose import stepper_for
from kinetree.simulate.native.step import program_of
from tests.constrain.scenes import scene

NOTHING = jax.tree.structure(())
SIZE = 3
BLOCK = Memory(x=(0.0,) * SIZE)


def mixing(reads, writes, adds=()):
    """Loops that fill three blocks, mix them turn by turn, and put them out; every result needs all that is read."""
    ends = tuple(Lane(0, 1, k) for k in range(SIZE))
    fill = Loop(lambda _, x, __: ((x,), (), ()), 2, NOTHING, writes=(BLOCK.at(0, "x"),), inputs=ends)

    def step(_, __, seen):
        flat = jax.tree.leaves(seen)
        made = [sum((k + 2 * n + 1) * x for n, x in enumerate(flat)) for k in range(SIZE * (len(writes) + len(adds)))]
        groups = [tuple(made[i : i + SIZE]) for i in range(0, len(made), SIZE)]
        return tuple(groups[: len(writes)]), tuple(groups[len(writes) :]), ()

    places = (tuple(BLOCK.at(column, "x") for column in group) for group in (reads, writes, adds))
    mix = Loop(step, 3, NOTHING, *places)
    give = Loop(lambda _, __, x: ((), (), x[0]), 2, NOTHING, reads=(BLOCK.at(0, "x"),), outputs=ends)
    return Program("test_mixing", (fill, mix, give), 1, 1)


@pytest.mark.parametrize("places", [((0, 1), (1,)), ((0, 1), (2,)), ((0, 1), (), (0,)), ((1, 2), (0,), (1,))])
def test_what_a_turn_reads_is_read_before_it_changes(places):
    """Blocks that a turn reads are those that it writes, in some turns in another column; whole numbers are exact."""
    program = mixing(*places)
    first = SIZE * np.arange(3)
    ends = np.stack([first, first], 1).astype(np.int32)
    changed = [k for group in places[1:] for k in group]
    turns = [t for t in np.ndindex(3, 3, 3) if len({t[k] for k in changed}) == len(changed)]
    tables = ends, (SIZE * np.array(turns[1:20:5])).astype(np.int32), ends
    constants = tuple(np.zeros((len(t), 0)) for t in tables)
    x = np.random.default_rng(0).integers(-2, 3, (9, 3 * SIZE)).astype(float)
    compiled = CompiledProgram(program, x.dtype)
    ours = compiled(3 * SIZE, (3 * SIZE,), tables, constants, (x,))[0]
    np.testing.assert_array_equal(compiled(3 * SIZE, (3 * SIZE,), tables, constants, (x[:1],))[0], ours[:1])
    theirs = xla.run(program, 3 * SIZE, (3 * SIZE,), tables, constants, (x,))[0]
    np.testing.assert_array_equal(ours, np.asarray(theirs))
    assert np.abs(ours).max() > 100


def turn_of(text):
    """The lines of a turn of the first loop, for a block of lanes."""
    after = text[text.index("before0:") :]
    return after[after.index("each.1:") : after.index("each.1_after:")].splitlines()


def test_results_are_stored_before_all_is_read():
    """A turn that computes number by number keeps none of them waiting."""
    adding = Loop(lambda _, __, x: ((), x, ()), 2, NOTHING, reads=(BLOCK.at(0, "x"),), adds=(BLOCK.at(1, "x"),))
    text = module_text(Program("test_adding", (adding,), 0, 0), np.dtype(float), 4)
    turn = turn_of(text)
    stores, loads = ([k for k, line in enumerate(turn) if word in line] for word in (" store ", " load <4 x double>"))
    assert len(stores) == SIZE
    assert len(loads) == 2 * SIZE
    assert stores[0] < loads[2] < stores[1]


@pytest.mark.parametrize(("width", "loads"), [(4, tuning.KEPT_MIN_USES), (8, 1)])
def test_slots_that_are_used_often_stay_in_one_of_32_registers(width, loads):
    """Vectors of 64 bytes mean 32 registers; of 32 bytes 16, too few to keep what can be loaded again."""
    count = tuning.KEPT_MIN_USES
    one, many = Memory(x=0.0), Memory(y=(0.0,) * count)

    def step(_, x, reads):
        return (tuple(x[0] + k * reads[0] for k in range(2, 2 + count)),), (), ()

    scale = Loop(step, 3, NOTHING, (one.at(0, "x"),), (many.at(1, "y"),), inputs=(Lane(0, 2),))
    text = module_text(Program("test_scaling", (scale,), 1, 0), np.dtype(float), width)
    turn = turn_of(text)
    assert sum(f" load <{width} x double>" in line for line in turn) == loads + 1  # and the input


def test_which_slots_a_turn_can_mean():
    block, other, bare = Place(0, 1, 5), Place(1, 1, 5), Place(2, 1, 0)
    assert block.may_be(other)
    assert block.may_be(bare)
    assert bare.may_be(Place(3, 4, 0))
    assert not block.may_be(Place(1, 2, 5))
    assert not block.may_be(Place(1, 1, 6))
    assert not block.may_be(Place(0, 2, 0))
    assert not block.may_be(other._replace(apart=True))


def overlaps(program, tables):
    """How many blocks the loops of a program name, and whether some of one loop overlap in part."""
    count, partly = 0, False
    for loop, table in zip(program.loops, tables, strict=True):
        places = [s for s in (*loop.reads, *loop.writes, *loop.adds) if s.block and s.column is not None]
        named = {(int(base), s.block) for s in places for base in table[:, s.column]}
        if named:
            first, size = np.array(sorted(named)).T
            count, partly = count + len(first), partly or bool((np.diff(first) < size[:-1]).any())
    return count, partly


def test_blocks_never_overlap_in_part():
    for text in (scene(), mixed_pile()):
        model = kt.load(text)
        for integrator in ("Euler", "RK4"):
            stepper = stepper_for(model, integrator, np.dtype(float), model.timestep, False)
            native = program_of(stepper.variant)
            count, partly = overlaps(native.program, tables_of(native, stepper.plan))
            assert count > 50
            assert not partly
            moved = [t + np.arange(t.shape[1]) for t in tables_of(native, stepper.plan)]
            assert overlaps(native.program, moved)[1]


def test_what_is_read_apart_is_not_changed_by_the_same_turn():
    model, seen = kt.load(mixed_pile()), 0
    stepper = stepper_for(model, "Euler", np.dtype(float), model.timestep, False)
    native = program_of(stepper.variant)
    for loop, table in zip(native.program.loops, tables_of(native, stepper.plan), strict=True):
        for read in (s for s in loop.reads if s.apart):
            changed = [table[:, s.column] for s in (*loop.writes, *loop.adds) if s.column is not None]
            assert all((table[:, read.column] != to).all() for to in changed)
            seen += 1
    assert seen


def mixed_pile():
    """Free bodies that may touch one another, on a floor."""
    bodies = "".join(
        f'<body pos="0 0 {0.3 * k}"><freejoint/><geom type="{kind}" size="0.1 0.1 0.1"/></body>'
        for k, kind in enumerate(("sphere", "box", "capsule", "box"))
    )
    text = f'<mujoco><worldbody><geom type="plane" size="5 5 1"/>{bodies}</worldbody></mujoco>'
    assert mujoco.MjModel.from_xml_string(text).nbody == 5
    return text
