"""Programs folded along a symmetry: which turns two threads do for their own sides, and which both do."""

import jax
import numpy as np

from kinetree.lanes import Loop, Slots
from kinetree.lanes.program.fold import OWN, folded

NUMBER, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())
LEFT, RIGHT, TRUNK = 0, 10, 20
BLOCKS = np.array([(LEFT, RIGHT, 1), (TRUNK, TRUNK, 1)])


def slot(column, offset=0):
    return Slots(column, offset, NUMBER)


def fold_of(table, **places):
    loop = Loop(lambda *_: ((), (), ()), 2, NOTHING, **places)
    return folded([loop], [np.array(table)], 30, BLOCKS)


def test_a_side_each():
    """Slots beside known ones are learned: what stands at 5 for the left side stands at 15 for the right one."""
    found = fold_of([(LEFT, 5), (RIGHT, 15), (TRUNK, 25)], reads=(slot(0),), writes=(slot(1),))
    assert found.turns[0].tolist() == [[0, 1], [2, 2]]
    assert found.tables[0].tolist() == [[LEFT, 5], [TRUNK, 25]]
    assert (found.sides[0] == OWN).all()


def test_what_both_sides_add_to_the_trunk_is_added_in_order_by_both_threads():
    found = fold_of([(RIGHT, TRUNK), (LEFT, TRUNK)], reads=(slot(0),), adds=(slot(1),))
    assert found.turns[0].tolist() == [[0, 0], [1, 1]]
    assert found.tables[0].tolist() == [[LEFT, TRUNK], [LEFT, TRUNK]]  # in the names of the first side
    assert found.sides[0].tolist() == [[1, OWN], [0, OWN]]


def test_a_turn_that_needs_what_came_between_is_not_moved():
    """The right side sees what the left one left on the trunk: they can not be done at the same time."""
    table = [(LEFT, TRUNK), (TRUNK, LEFT), (RIGHT, TRUNK), (TRUNK, RIGHT)]
    found = fold_of(table, reads=(slot(0),), writes=(slot(1),))
    assert found.turns[0].tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert found.sides[0][:, 1].tolist() == [OWN, 0, OWN, 1]


def test_nothing_to_fold():
    loop = Loop(lambda *_: ((), (), ()), 1, NOTHING, writes=(slot(0),))
    assert folded([loop], [np.array([[0], [1]])], 30, BLOCKS[1:]) is None
    fixed = Loop(lambda *_: ((), (), ()), 0, NOTHING, writes=(slot(None, RIGHT),))
    assert folded([fixed], [np.zeros((1, 0), int)], 30, BLOCKS) is None  # no table says which side is meant
