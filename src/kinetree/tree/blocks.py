"""Blocks: a huge tree cut for the cores of a CPU, whose caches are small and whose vectors are short.

A block has as many lanes as a vector; each lane goes along a stretch of one heavy path. Small subtrees are put together
into *pieces*, whose rows a core can keep in its cache while it goes out and back in. The other rows are the *top*: a
few rows if the tree is bushy, nearly all if it is long. Its stretches are cut into chunks, which are walked side by
side when the start of each is known.
"""

from typing import NamedTuple

import numpy as np

from . import tuning
from .topology import Tree


class Blocks(NamedTuple):
    """Stretches of paths as lanes of blocks. A line of cells is one turn of one block; blocks follow each other."""

    heads: np.ndarray  # (blocks, lanes): the row that each lane begins with, −1 for none
    turns: np.ndarray  # (blocks,)
    rows: np.ndarray  # (lines, lanes): rows of the tree, −1 for none: beyond the end of a lane

    @property
    def first(self) -> np.ndarray:
        """The first line of each block, and one beyond the last."""
        return np.concatenate([[0], np.cumsum(self.turns)])

    def cell_of(self, n: int) -> np.ndarray:
        """For the rows of a tree of n rows, the number of the cell that they are in, −1 if in none."""
        cells, inside = np.full(n, -1), self.rows.reshape(-1)
        cells[inside[inside >= 0]] = np.flatnonzero(inside >= 0)
        return cells


class Stretches(NamedTuple):
    """Stretches: consecutive rows of the preorder that are on one path."""

    head: np.ndarray  # place in the preorder
    length: np.ndarray

    def take(self, which: np.ndarray) -> "Stretches":
        """Some of them."""
        return Stretches(self.head[which], self.length[which])


def _blocks(tree: Tree, lanes: Stretches, group: np.ndarray, width: int) -> tuple[Blocks, np.ndarray]:
    """Blocks of the lanes of each group, which are neighbours; and the place of each lane in the blocks."""
    number = np.arange(len(group))
    begins = np.concatenate([[True], group[1:] != group[:-1]])[: len(group)]
    within = number - np.maximum.accumulate(np.where(begins, number, 0))
    block = np.cumsum(within % width == 0) - 1
    place = block * width + within % width
    count = int(block.max(initial=-1)) + 1
    head, length = np.zeros((count, width), np.int64), np.zeros((count, width), np.int64)
    head.reshape(-1)[place], length.reshape(-1)[place] = lanes
    turns = length.max(axis=1, initial=0)
    line = np.repeat(np.arange(count), turns)
    turn = (np.arange(len(line)) - np.repeat(np.cumsum(turns) - turns, turns))[:, None]
    rows = np.where(turn < length[line], tree.preorder[np.where(turn < length[line], head[line] + turn, 0)], -1)
    return Blocks(np.where(length > 0, tree.preorder[head], -1), turns, rows.astype(np.int32)), place


class BlockPieces(NamedTuple):
    """Subtrees that are walked as a whole, one piece after the other."""

    blocks: Blocks  # those of a piece together, inner ones first
    piece: np.ndarray  # (blocks,)
    is_root: np.ndarray  # (blocks,): True if the lanes hang from the top, or from the base


class Top(NamedTuple):
    """Chunks of the rows that are not in pieces."""

    blocks: Blocks
    chunks: np.ndarray  # lanes of blocks, numbered through all of them: inner ones first
    parents: np.ndarray  # the chunk that each hangs from, −1 for the base
    alone: bool  # True if branches hang only from the ends of chunks, and its blocks are in order


def cut(tree: Tree, width: int, piece_rows: int, inner: np.ndarray | None = None) -> tuple[Top, BlockPieces]:
    """Cut a tree into its top and pieces of about `piece_rows` rows, for vectors of `lanes` lanes.

    No chunk begins with a row that is `inner`, (rows,), because the rows of one joint stay together.
    """
    in_top = (tree.subtree_size > piece_rows) | _holds_long_path(tree, tuning.PIECE_MIN_LANES, piece_rows)
    alone = bool((tree.n_children[in_top] <= 1).all())
    if alone:  # long paths, which then are all top
        in_top = _of_tree(tree, in_top)
    parent, order = tree.parent, tree.preorder
    branching = np.bincount(parent[in_top & (parent >= 0)], minlength=tree.n) > 1
    after_branch = (parent >= 0) & in_top & branching[np.maximum(parent, 0)]
    begins = (tree.starts_path | after_branch)[order]
    begins[1:] |= in_top[order[1:]] != in_top[order[:-1]]
    head = np.flatnonzero(begins)
    stretches, of_top = Stretches(head, np.diff(np.append(head, tree.n))), in_top[order[head]]
    # a long path is read once, so its lanes may be longer, as long as there are blocks for many cores
    longest, fair = tuning.MAX_BLOCK_ROWS_PER_PIECE * piece_rows, tree.n // tuning.MIN_TOP_BLOCKS
    rows = min(longest, max(piece_rows, fair)) if alone else piece_rows
    top = _top(tree, stretches.take(of_top), width, max(1, rows // width), alone, inner)
    return top, _pieces(tree, stretches.take(~of_top), in_top, width, piece_rows)


def _holds_long_path(tree: Tree, lanes: int, piece_rows: int) -> np.ndarray:
    """(rows,): True if so few paths like the longest below a row fill a piece that most lanes would be empty."""
    order = tree.preorder
    places = np.arange(tree.n)
    heads = np.flatnonzero(tree.starts_path[order])
    left = np.repeat(np.append(heads[1:], tree.n), np.diff(np.append(heads, tree.n))) - places
    before = np.concatenate([[0], np.cumsum(left * lanes > piece_rows)])
    found = np.empty(tree.n, bool)
    found[order] = before[places + tree.subtree_size[order]] > before[:-1]
    return found


def _of_tree(tree: Tree, roots: np.ndarray) -> np.ndarray:
    """(rows,): what is true of the root of each row's tree."""
    of_row = np.empty(tree.n, bool)
    of_row[tree.preorder] = np.repeat(roots[tree.roots], tree.subtree_size[tree.roots])
    return of_row


def _top(tree: Tree, stretches: Stretches, width: int, turns: int, alone: bool, inner: np.ndarray | None) -> Top:
    head, length = stretches
    count = -(-length // turns)
    stretch = np.repeat(np.arange(len(head)), count)
    number = np.arange(len(stretch)) - np.repeat(np.cumsum(count) - count, count)  # of the chunk in its stretch
    begins, ends = head[stretch] + number * length[stretch] // count[stretch], (head + length)[stretch]
    if inner is not None:  # rows of a joint follow one another in the preorder
        places = np.arange(tree.n)
        begins = np.maximum.accumulate(np.where(inner[tree.preorder], 0, places))[begins]
        filled = np.append(begins[1:] != begins[:-1], True)[: len(begins)]  # a joint may be longer than a chunk
        begins, ends, stretch = begins[filled], ends[filled], stretch[filled]
    follows = np.append(stretch[1:] == stretch[:-1], False)[: len(stretch)]
    chunks = Stretches(begins, np.where(follows, np.append(begins[1:], 0)[: len(begins)], ends) - begins)
    order = np.arange(len(stretch)) if alone else np.argsort(-chunks.length, kind="stable")
    blocks, sorted_place = _blocks(tree, chunks.take(order), np.zeros(len(order)), width)
    place = np.empty(len(order), np.int64)
    place[order] = sorted_place
    ending_at = np.full(tree.n + 1, -1)  # the chunk that ends with a row; the last is for the base
    ending_at[tree.preorder[chunks.head + chunks.length - 1]] = place
    return Top(blocks, place, ending_at[tree.parent[tree.preorder[chunks.head]]], alone)


def _pieces(tree: Tree, stretches: Stretches, in_top: np.ndarray, width: int, piece_rows: int) -> BlockPieces:
    rows = tree.preorder[stretches.head]
    parent, rank = tree.parent[rows], tree.path_rank[tree.path_of[rows]]
    is_root = (parent < 0) | in_top[parent]
    root = np.cumsum(is_root) - 1  # of each stretch
    size = tree.subtree_size[rows[is_root]].astype(np.int64)
    piece = ((np.cumsum(size) - size) // piece_rows)[root]
    piece = np.cumsum(np.concatenate([[False], piece[1:] != piece[:-1]])[: len(piece)])  # numbered without gaps
    depth = rank - rank[is_root][root]
    order = np.lexsort((-stretches.length, depth, piece))
    groups = piece * (depth.max(initial=0) + 1) + depth
    blocks, place = _blocks(tree, stretches.take(order), groups[order], width)
    of_block = np.zeros((2, len(blocks.turns)), np.int64)
    of_block[:, place // width] = piece[order], depth[order]
    return BlockPieces(blocks, of_block[0], of_block[1] == 0)
