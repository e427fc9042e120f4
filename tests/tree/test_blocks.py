"""Trees cut into blocks: every row in one cell, lanes along paths, nothing before what it hangs from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetree.tree import Tree
from kinetree.tree.blocks import cut


@st.composite
def trees(draw):
    """From chains to bushes, and forests."""
    n = draw(st.integers(1, 120))
    reach = draw(st.sampled_from([1, 2, 5, 1000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parent = np.arange(n) - 1 - rng.integers(0, reach, n)
    loose = rng.random(n) < draw(st.sampled_from([0.0, 0.05]))
    return Tree(np.where(loose, -1, np.maximum(parent, np.where(np.arange(n) > 0, 0, -1))))


def check_lanes(tree, blocks):
    """Each lane goes along a path, from its head, and ends before it is a ghost."""
    for block, first in enumerate(blocks.first[:-1]):
        rows = blocks.rows[first : first + blocks.turns[block]]
        np.testing.assert_array_equal(rows[0], blocks.heads[block])
        for lane in rows.T:
            there = lane[lane >= 0]
            assert (lane[: len(there)] >= 0).all()
            np.testing.assert_array_equal(tree.parent[there[1:]], there[:-1])


@given(tree=trees(), width=st.sampled_from([2, 4, 8]), piece_rows=st.sampled_from([1, 3, 10, 40, 1000]))
def test_cuts(tree, width, piece_rows):
    top, pieces = cut(tree, width, piece_rows)
    for blocks in (top.blocks, pieces.blocks):
        check_lanes(tree, blocks)
    inside = np.concatenate([top.blocks.rows.reshape(-1), pieces.blocks.rows.reshape(-1)])
    np.testing.assert_array_equal(np.sort(inside[inside >= 0]), np.arange(tree.n))

    heads = top.blocks.heads.reshape(-1)
    last = dict(zip(top.chunks, last_rows(top.blocks)[top.chunks], strict=True))
    seen = {-1}
    for chunk, parent in zip(top.chunks, top.parents, strict=True):
        assert parent in seen
        assert tree.parent[heads[chunk]] == (last[parent] if parent >= 0 else -1)
        seen.add(chunk)

    in_top = set(top.blocks.rows[top.blocks.rows >= 0])
    done = dict.fromkeys(in_top, -1)
    for block, (piece, is_root) in enumerate(zip(pieces.piece, pieces.is_root, strict=True)):
        for head in pieces.blocks.heads[block][pieces.blocks.heads[block] >= 0]:
            parent = tree.parent[head]
            assert (parent < 0 or parent in in_top) if is_root else done[parent] == piece
        first = pieces.blocks.first[block]
        rows = pieces.blocks.rows[first : first + pieces.blocks.turns[block]]
        done |= dict.fromkeys(rows[rows >= 0], piece)
    if top.alone:
        assert not any(p in in_top for p in tree.parent[sorted(set(range(tree.n)) - in_top)])


def last_rows(blocks):
    """Of all lanes of all blocks."""
    found = []
    for block, first in enumerate(blocks.first[:-1]):
        rows = blocks.rows[first : first + blocks.turns[block]]
        found.append(rows[(rows >= 0).sum(0) - 1, np.arange(rows.shape[1])])
    return np.concatenate([np.zeros(0, int), *found])


@pytest.mark.parametrize("n", [4096, 100_000])
def test_a_long_path_is_all_top_and_its_lanes_are_full(n):
    top, pieces = cut(Tree(np.arange(n) - 1), 8, 2048)
    assert top.alone
    assert not len(pieces.piece)
    assert (top.blocks.rows >= 0).mean() > 0.97


def test_a_bush_is_nearly_all_pieces():
    top, pieces = cut(Tree((np.arange(100_000) + 1) // 2 - 1), 8, 2048)
    assert top.blocks.rows.size < 1000
    assert (pieces.blocks.rows >= 0).mean() > 0.8


@pytest.mark.parametrize("length", [100, 400, 600, 1000, 1500, 5000])
def test_lanes_are_full_for_paths_of_any_length(length):
    """Few paths of 1 000 rows fit the cache of a core. Pieces of two of them left six of eight lanes empty."""
    row = np.arange(20_000)
    top, pieces = cut(Tree(np.where(row % length == 0, -1, row - 1)), 8, 2048)
    cells = 8 * (top.blocks.turns.sum() + pieces.blocks.turns.sum())
    assert cells <= 2 * len(row)
