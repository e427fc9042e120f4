"""Branches that are alike."""

import numpy as np
import pytest

from kinetree.tree.mirror import mirrored


def test_legs_and_arms_are_partners():
    parent = np.array([-1, 0, 1, 0, 3, 0, 0, 5])
    labels = ["torso", "thigh", "shin", "thigh", "shin", "arm", "arm", "hand"]
    assert mirrored(parent, labels).tolist() == [0, 3, 4, 1, 2, 5, 6, 7]  # one arm has a hand
    assert mirrored(parent[:7], labels[:7]).tolist() == [0, 3, 4, 1, 2, 6, 5]


def test_trees_are_partners_and_the_odd_one_has_two_sides():
    parent = np.array([-1, 0, 0, -1, 3, 3, -1, 6, 6])
    assert mirrored(parent, ["a"] * 9).tolist() == [3, 4, 5, 0, 1, 2, 6, 8, 7]


@pytest.mark.parametrize("seed", range(8))
def test_partners_have_partners_for_parents(seed):
    rng = np.random.default_rng(seed)
    half, own = np.array([rng.integers(-1, i) for i in range(20)]), rng.integers(0, 3, 20).tolist()
    parent = np.concatenate([[-1], half + 1, np.where(half < 0, 0, half + 21)])  # a tree twice, under one root
    labels, n = [0, *own, *own], 41
    partner = mirrored(parent, labels)
    np.testing.assert_array_equal(partner[partner], np.arange(n))
    moved = np.flatnonzero(partner != np.arange(n))
    assert len(moved) >= 2 * len(half)
    for i in moved:
        above, other = parent[i], parent[partner[i]]
        assert above == other or partner[above] == other
        assert labels[i] == labels[partner[i]]
