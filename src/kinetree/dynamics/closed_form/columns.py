"""Matrices gathered in slots, and the solution of H X = B for all their columns at once.

X has a row for each degree of freedom, and three columns for each: of ∂/∂q, ∂/∂qd, and H, or for forward dynamics the
unit matrix, which becomes H⁻¹. H itself is packed on the elimination tree, and its factors LᵀDL replace it
(matrices/ltdl_lanes.py). A turn of a solve handles CHUNK columns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import NOTHING, NUMBER, Lane, Loop, Slots, slot

from ..matrices.ltdl_lanes import eliminate, elimination_turns
from ..schedules import tuning
from ..schedules.lane_parts import RUNS, run_starts
from ..schedules.lane_rows import RowPart, Turns
from .shape import Skeleton

CHUNK, TERMS = tuning.SOLVE_CHUNK_COLUMNS, tuning.SOLVE_TERMS


class ColumnRegion(NamedTuple):
    """The slots after those of the rows: X; for forward dynamics also packed H, and the numbers 0 and 1."""

    shape: Skeleton
    start: int
    forward: bool

    @property
    def columns(self) -> int:
        """The number of columns of X, rounded up to whole chunks if X is solved for."""
        return chunks(self.shape) * CHUNK if self.forward else 3 * self.shape.size

    @property
    def packed(self) -> int:
        """First slot of packed H."""
        return self.start + self.shape.size * self.columns

    @property
    def zero(self) -> int:
        """Slot of the number 0."""
        return self.packed + self.shape.tree.n_ancestor_pairs

    @property
    def one(self) -> int:
        """Slot of the number 1."""
        return self.zero + 1

    @property
    def end(self) -> int:
        """The first slot after this region."""
        return self.one + 1 if self.forward else self.packed

    def entry(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """First slot of the three columns of j in row i."""
        return self.start + i * self.columns + 3 * j

    def chunk(self, row: np.ndarray, number: np.ndarray) -> np.ndarray:
        """First slot of a chunk of a row."""
        return self.start + row * self.columns + number * CHUNK


def chunks(shape: Skeleton) -> int:
    """The number of chunks of columns of X."""
    return -(-3 * shape.size // CHUNK)


Regions = Callable[[Skeleton], ColumnRegion]
NUMBERS, THREE = (jax.tree.structure((0.0,) * count) for count in (CHUNK, 3))


def _chunk(column: int) -> Slots:
    return Slots(column, 0, NUMBERS)


def prepare(region: Regions, variant: Any) -> list[RowPart]:
    """Write zeros where entries are missing or add up; for forward dynamics also the unit matrix and the zeros of H."""

    def entries_turns(shape: Skeleton) -> np.ndarray:
        r, m = region(shape), shape.size
        missing = np.ones((m, m), bool)
        if not variant.coupled:
            i, j = shape.structure.tree.ancestor_pairs
            missing[i, j] = missing[j, i] = False
        return r.entry(*np.nonzero(missing))[:, None]

    def rows_turns(shape: Skeleton) -> Turns:
        r = region(shape)
        first = r.start + np.arange(0, shape.size * r.columns, CHUNK)
        return first[:, None], np.arange(len(first))

    def rows(model: Any, turns: np.ndarray) -> tuple:
        r = region(Skeleton.of(model))
        X = np.zeros((r.shape.size, r.columns))
        own = np.arange(r.shape.size)
        X[own, 3 * own + 2] = 1.0
        return tuple(X.reshape(-1, CHUNK).T)

    def numbers_turns(shape: Skeleton) -> Turns:
        r = region(shape)
        return np.arange(r.packed, r.end)[:, None], np.arange(r.end - r.packed)

    def numbers(model: Any, turns: np.ndarray) -> np.ndarray:
        return (turns == len(turns) - 1).astype(float)  # the last slot holds 1

    def fill(constants: Any, _: tuple, __: tuple) -> tuple:
        return (constants,), (), ()

    def clear(_: tuple, __: tuple, ___: tuple) -> tuple:
        return ((0.0, 0.0, 0.0),), (), ()

    if not variant.forward:
        return [RowPart(Loop(clear, 1, NOTHING, writes=(Slots(0, 0, THREE),)), entries_turns)]
    return [
        RowPart(Loop(fill, 1, NUMBERS, writes=(_chunk(0),)), rows_turns, rows),
        RowPart(Loop(fill, 1, NUMBER, writes=(slot(0),)), numbers_turns, numbers),
    ]


def solve(region: Regions) -> list[RowPart]:
    """Replace H by its factors, then X by H⁻¹ X."""

    def factors(shape: Skeleton) -> np.ndarray:
        r = region(shape)
        return elimination_turns(shape.tree, r.one - r.packed) + r.packed

    def substitution(outward: bool) -> Callable[[Skeleton], np.ndarray]:
        """Turns of a substitution: slots of TERMS factors L_kj, of TERMS known chunks of X, and of the chunk to change.

        Outward, the rows j that carry row k are subtracted from it; inward, row k is subtracted from the rows that
        carry it. The subtracted rows are always complete by then. The loop goes chunk by chunk, so the rows of a chunk
        stay in the nearest cache.
        """

        def turns(shape: Skeleton) -> np.ndarray:
            r, (k, j) = region(shape), (x.astype(np.int64) for x in shape.tree.ancestor_pairs)
            place = np.flatnonzero(k != j)
            number = np.repeat(np.arange(chunks(shape)), len(place))
            place = np.tile(place, chunks(shape))
            if not outward:  # so far a row of X has only the columns of related rows
                some = filled(r)[k[place], number]
                place, number = place[some], number[some]
            known, changed = (j[place], k[place]) if outward else (k[place], j[place])
            order = np.lexsort([known, changed if outward else -changed, number])
            place, number, known, changed = (x[order] for x in (place, number, known, changed))
            return _grouped(r, place, number, known, changed)

        return turns

    def diagonal(shape: Skeleton) -> np.ndarray:
        r = region(shape)
        k, number = (x.ravel() for x in np.meshgrid(np.arange(shape.size), np.arange(chunks(shape)), indexing="ij"))
        return np.stack([r.packed + shape.tree.ancestor_start[k], r.chunk(k, number)], -1)

    def subtract(_: tuple, __: tuple, reads: tuple) -> tuple:
        factors, rows = reads[:TERMS], reads[TERMS:]
        total = [-(factors[0] * x) for x in rows[0]]
        for factor, row in zip(factors[1:], rows[1:], strict=True):
            total = [sum_ - factor * x for sum_, x in zip(total, row, strict=True)]
        return (), (tuple(total),), ()

    def divide(_: tuple, __: tuple, reads: tuple) -> tuple:
        scale = 1.0 / reads[0]
        return (tuple(x * scale for x in reads[1]),), (), ()

    terms = (*map(slot, range(TERMS)), *map(_chunk, range(TERMS, 2 * TERMS)))
    product = Loop(subtract, 2 * TERMS + 1, NOTHING, reads=terms, adds=(_chunk(2 * TERMS),), alike=CHUNK)
    quotient = Loop(divide, 2, NOTHING, reads=(slot(0), _chunk(1)), writes=(_chunk(1),), alike=CHUNK)
    return [
        RowPart(eliminate(), factors),
        RowPart(product, substitution(outward=False)),
        RowPart(quotient, diagonal),
        RowPart(product, substitution(outward=True)),
    ]


def _grouped(
    r: ColumnRegion, place: np.ndarray, number: np.ndarray, known: np.ndarray, changed: np.ndarray
) -> np.ndarray:
    """The table of a substitution, from its terms, in order. Turns with too few terms are padded with zero terms."""
    if not len(place):
        return np.zeros((0, 2 * TERMS + 1), np.int64)
    target = number * r.shape.size + changed
    first = np.concatenate([[True], target[1:] != target[:-1]])
    rank = np.arange(len(target)) - np.maximum.accumulate(np.where(first, np.arange(len(target)), 0))
    turn = np.cumsum(first | (rank % TERMS == 0)) - 1
    table = np.empty((turn[-1] + 1, 2 * TERMS + 1), np.int64)
    table[turn, TERMS:] = r.chunk(changed, number)[:, None]
    table[:, :TERMS] = r.zero
    table[turn, rank % TERMS] = r.packed + place
    table[turn, TERMS + rank % TERMS] = r.chunk(known, number)
    return table


def filled(r: ColumnRegion) -> np.ndarray:
    """(rows, chunks): where X is not zero before the outward substitution."""
    m, tree = r.shape.size, r.shape.tree
    k, j = tree.ancestor_pairs
    related = np.zeros((m, r.columns), bool)
    for column in range(3):
        related[k, 3 * j + column] = related[j, 3 * k + column] = True
    return np.any(related.reshape(m, -1, CHUNK), axis=-1)


def store(region: Regions) -> list[RowPart]:
    """X to the outputs, with as many entries of a row at a time as possible. No entry is stored twice, as in reverse
    mode it would count twice.
    """

    def turns(shape: Skeleton, width: int) -> np.ndarray:
        m = shape.size
        i, j = (x.ravel() for x in np.meshgrid(np.arange(m), run_starts(m, width), indexing="ij"))
        return np.stack([region(shape).entry(i, j), i * m + j], -1)

    def part(width: int) -> RowPart:
        def step(_: tuple, __: tuple, reads: tuple) -> tuple:
            return (), (), tuple(reads[0][3 * k + array] for array in range(3) for k in range(width))

        reads = (Slots(0, 0, jax.tree.structure((0.0,) * (3 * width))),)
        outputs = tuple(Lane(array, 1, k) for array in range(3) for k in range(width))
        loop = Loop(step, 2, NOTHING, reads=reads, outputs=outputs)
        return RowPart(loop, lambda shape: turns(shape, width))

    return [part(width) for width in RUNS]


def solve_turns(shape: Skeleton) -> int:
    """An estimate of the turns that a solve takes."""
    return 2 * shape.tree.n_ancestor_pairs * chunks(shape) // TERMS
