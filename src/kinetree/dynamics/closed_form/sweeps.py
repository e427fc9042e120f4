"""H X = B for all columns at once by sweeps over articulated bodies, in O(n) a column: for trees of many levels.

In world axes a sweep needs no transforms. With U = I S and d of the articulated inertias (elements/articulated.py), a
column goes inward as forces p and outward as accelerations a:
    u = B − Sᵀ p      p_parent += p + U u/d      X = (u − Uᵀ a)/d      a_child = a + S X
A turn is one row and the columns of some degrees of freedom, three for each: of ∂/∂q, ∂/∂qd, and the unit matrix, which
becomes H⁻¹. Inward, rows that are not related to one of these are left out. Rows come in preorder, so that few p and a
are needed at a time: they lie in *rooms*, which a row takes over from its first child, or from its parent.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.program.program import NUMBER, Slots
from kinetree.lanes.program.woven import Rooms
from kinetree.model import Model
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Sym3, Vec3
from kinetree.tree import Tree

from ..elements.articulated import freed_bias, joint_answer, joint_drive, joint_inertia
from ..schedules import tuning
from ..schedules.lane_parts import run_starts
from ..schedules.lane_rows import NOTHING, OWN, PARENT, ZERO3, RowPart, row_turns
from .shape import Skeleton

WIDTHS = tuning.SWEEP_WIDTHS
ROOM = 3 * 6 * WIDTHS[0]  # slots of a room
ZEROS, UNREAD = -2, -1  # numbers of a room that holds zeros, and of one that is never read
ROW, X_AT, FROM, BESIDE, TO = range(5)  # Columns of the inward table: slots of a row, of X, and rooms of p.
ABOVE, BELOW, OUT = range(2, 5)  # Columns of the outward table after the first two: rooms of a, and where X goes.
FIELDS = {  # of each row
    "whole": ArticulatedInertia(Sym3(*6 * (0.0,)), Mat3(*9 * (0.0,)), Sym3(*6 * (0.0,))),
    "U": Force(ZERO3, ZERO3),
    "d_inverse": 0.0,
}


class SweepRegion(NamedTuple):
    """The slots after those of the rows: X, then rooms."""

    shape: Skeleton
    start: int

    @property
    def rooms(self) -> int:
        """First slot of the rooms."""
        return self.start + 3 * self.shape.size**2

    @property
    def end(self) -> int:
        """The first slot after this region."""
        tree = self.shape.tree
        return int(self.room(1 + max(inward_rooms(tree, np.ones(tree.n, bool)).max(), outward_rooms(tree).max())))

    def entry(self, i: Any, j: Any) -> Any:
        """First slot of the three columns of j in row i."""
        return self.start + 3 * (i * self.shape.size + j)

    def room(self, number: Any) -> Any:
        """First slot of a room."""
        return self.rooms + (number - ZEROS) * ROOM


Regions = Callable[[Skeleton], SweepRegion]


def inward_rooms(tree: Tree, some: np.ndarray) -> np.ndarray:
    """(rows, 3): the room of a row's own p (FROM), of the sum so far in its parent (BESIDE), and of the new sum (TO).

    `some` are the rows that take part, with all rows that carry them, in reversed preorder.
    """
    rooms, at, found = Rooms(), {}, np.full((tree.n, 3), ZEROS)
    for row in tree.preorder[::-1]:
        if not some[row]:
            continue
        parent, own = int(tree.parent[row]), at.pop(int(row), ZEROS)
        beside = at.get(parent, ZEROS)
        to = UNREAD if parent < 0 else beside if beside >= 0 else own if own >= 0 else rooms.take(1)
        if own not in (ZEROS, to):
            rooms.give_back(own, 1)
        if parent >= 0:
            at[parent] = to
        found[row] = own, beside, to
    return found


def outward_rooms(tree: Tree) -> np.ndarray:
    """(rows, 2): the rooms of the accelerations of a row's parent (ABOVE) and of the row (BELOW), in preorder."""
    rooms, found, left = Rooms(), np.full((tree.n, 2), ZEROS), np.array(tree.n_children)
    for row in tree.preorder:
        parent = tree.parent[row]
        above = ZEROS if parent < 0 else int(found[parent, 1])
        last = False
        if parent >= 0:
            left[parent] -= 1
            last = left[parent] == 0
        below = UNREAD if not tree.n_children[row] else above if last else rooms.take(1)
        if last and below != above:
            rooms.give_back(above, 1)
        found[row] = above, below
    return found


def _groups(width: int, shape: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    """The first degree of freedom of each group of a width; (groups, rows): the rows related to one of a group."""
    n = shape.size
    first = run_starts(n, width, WIDTHS)
    related = np.zeros((n, n), bool)
    i, j = shape.tree.ancestor_pairs
    related[i, j] = related[j, i] = True
    return first, np.stack([related[k : k + width].any(0) for k in first]) if len(first) else np.zeros((0, n), bool)


def _turns(tables: list[np.ndarray], columns: int) -> np.ndarray:
    return np.concatenate([np.zeros((0, columns), np.int64), *tables])


def _columns(width: int, column: int) -> Slots:
    """The slots of X in a turn, three columns for each degree of freedom."""
    return Slots(column, 0, jax.tree.structure(3 * width * (0.0,)), block=3 * width)


def _room(width: int, column: int, kind: Any) -> Slots:
    """Six numbers for each column of a turn; the same number of all columns side by side."""
    columns = Vec3(*3 * (3 * width * (0.0,),))
    return Slots(column, 0, jax.tree.structure(kind(columns, columns)), block=ROOM)


def _each(kind: Any, room: Any) -> list[Any]:
    """The forces or motions of a room, one for each column."""
    parts = zip(*(zip(*part, strict=True) for part in room), strict=True)
    return [kind(Vec3(*angular), Vec3(*linear)) for angular, linear in parts]


def _together(kind: Any, columns: list[Any]) -> Any:
    """The room of forces or motions, one for each column."""
    return kind(*(Vec3(*zip(*part, strict=True)) for part in zip(*columns, strict=True)))


def prepare(region: Regions) -> list[RowPart]:
    """Write zeros to the room of zeros, and to X where rows take part; then the unit matrix."""

    def zeros(shape: Skeleton) -> np.ndarray:
        return region(shape).room(ZEROS) + 3 * np.arange(ROOM // 3)[:, None]

    def clear(width: int) -> Callable[[Skeleton], np.ndarray]:
        def turns(shape: Skeleton) -> np.ndarray:
            first, some = _groups(width, shape)
            group, row = np.nonzero(some)
            return region(shape).entry(row, first[group])[:, None]

        return turns

    def diagonal(shape: Skeleton) -> np.ndarray:
        own = np.arange(shape.size)
        return region(shape).entry(own, own)[:, None] + 2

    def write(width: int, number: float, turns: Callable[[Skeleton], np.ndarray]) -> RowPart:
        slots = Slots(0, 0, jax.tree.structure(width * (0.0,)))
        return RowPart(Loop(lambda _, __, ___: ((width * (number,),), (), ()), 1, NOTHING, writes=(slots,)), turns)

    return [write(3, 0.0, zeros), *(write(3 * w, 0.0, clear(w)) for w in WIDTHS), write(1, 1.0, diagonal)]


def pivots(memory: Memory) -> RowPart:
    """U and 1/d of all rows, and the inertias that their parents receive."""

    def step(armature: Any, _: tuple, reads: tuple) -> tuple:
        whole, S = reads
        U = whole @ S
        d_inverse = 1.0 / joint_inertia(S, U, armature)
        return (U, d_inverse), (whole.without(U, d_inverse),), ()

    def armatures(model: Model, rows: np.ndarray) -> np.ndarray:
        return model.rows.armature[rows]

    own = {name: memory.at(OWN, name) for name in ("whole", "S", "U", "d_inverse")}
    loop = Loop(step, 4, NUMBER, (own["whole"], own["S"]), (own["U"], own["d_inverse"]), (memory.at(PARENT, "whole"),))
    turns = row_turns(memory, inward=True)
    return RowPart(loop, lambda shape: turns(shape.structure), armatures)


def solve(region: Regions, memory: Memory) -> list[RowPart]:
    """All sweeps inward, then all sweeps outward. The X of the outward sweeps are the outputs."""
    known = tuple(memory.at(ROW, name) for name in ("S", "U", "d_inverse"))

    def inward(width: int) -> RowPart:
        def step(_: tuple, __: tuple, reads: tuple) -> tuple:
            S, U, d_inverse, given, forces, beside = reads
            forces, beside = _each(Force, forces), _each(Force, beside)
            u = tuple(joint_drive(S, x, p) for x, p in zip(given, forces, strict=True))
            both = zip(u, forces, beside, strict=True)
            return (_together(Force, [other + freed_bias(U, d_inverse, x, p) for x, p, other in both]), u), (), ()

        def turns(shape: Skeleton) -> np.ndarray:
            r, tree, tables = region(shape), shape.tree, []
            for first, some in zip(*_groups(width, shape), strict=True):
                rows = tree.preorder[::-1][some[tree.preorder[::-1]]]
                places = [memory.base(rows), r.entry(rows, first), *r.room(inward_rooms(tree, some)[rows].T)]
                tables.append(np.stack(places, -1))
            return _turns(tables, 5)

        x, to = _columns(width, X_AT), _room(width, TO, Force)
        reads = (*known, x, _room(width, FROM, Force), _room(width, BESIDE, Force))
        return RowPart(Loop(step, 5, NOTHING, reads, writes=(to, x), alike=3 * width), turns)

    def outward(width: int) -> RowPart:
        def step(_: tuple, __: tuple, reads: tuple) -> tuple:
            S, U, d_inverse, driven, above = reads
            above = _each(Motion, above)
            X = tuple(joint_answer(U, d_inverse, u, a) for u, a in zip(driven, above, strict=True))
            return (_together(Motion, [a + S * x for x, a in zip(X, above, strict=True)]),), (), X

        def turns(shape: Skeleton) -> np.ndarray:
            r, tree, tables = region(shape), shape.tree, []
            rows = tree.preorder
            for first, some in zip(*_groups(width, shape), strict=True):
                x = np.where(some[rows], r.entry(rows, first), r.room(ZEROS))
                places = [memory.base(rows), x, *r.room(outward_rooms(tree)[rows].T), rows * shape.size + first]
                tables.append(np.stack(places, -1))
            return _turns(tables, 5)

        reads = (*known, _columns(width, X_AT), _room(width, ABOVE, Motion))
        outputs = tuple(Lane(array, OUT, k) for k in range(width) for array in range(3))
        below = _room(width, BELOW, Motion)
        return RowPart(Loop(step, 5, NOTHING, reads, (below,), outputs=outputs, alike=3 * width), turns)

    return [pivots(memory), *map(inward, WIDTHS), *map(outward, WIDTHS)]


def sweep_turns(shape: Skeleton) -> int:
    """An estimate of the turns of all sweeps."""
    return 2 * shape.size * sum(len(run_starts(shape.size, w, WIDTHS)) for w in WIDTHS)


def sweeps_are_faster(shape: Skeleton) -> bool:
    """True if sweeps are faster than factors of H, because rows have many ancestors."""
    tree = shape.tree
    return shape.coupling is None and tree.n_ancestor_pairs >= (1 + tuning.SWEEP_MIN_ANCESTORS) * tree.n
