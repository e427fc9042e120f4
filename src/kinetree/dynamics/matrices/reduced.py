"""Forward dynamics of mechanisms with mimic joints, as one lane program: (Gᵀ H G) qdd = tau − Gᵀ C.

C and H of the free mechanism are found by its passes (algorithms/joint_space.py) and left in slots. They are added up
to the reduced C and H, which is factorized and solved in place, as a tree's H is (ltdl_lanes.py): Gᵀ H G is as sparse
as the mass matrix of another tree, in which a coupled joint stands where the branches of those it moves meet. That tree
is the elimination tree of its entries.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Program, Slots
from kinetree.lanes.kept.once import once
from kinetree.model import Model, Structure
from kinetree.model.coupling import Coupling
from kinetree.tree import Tree

from ..algorithms.joint_space import JOINT_SPACE
from ..elements.articulated import firm
from ..schedules.lane_algorithm import LaneAlgorithm, Shapes
from ..schedules.lane_coupling import GATHER, CoupledLanes, emit, widened
from ..schedules.lane_rows import NOTHING, Kind, Turns, kind_of
from ..schedules.lanes import Variant, lane_program
from .ltdl_lanes import ELIMINATE, L_SOLVE, LT_SOLVE, Places

NUMBER = jax.tree.structure(0.0)
TAU, H = range(2)  # Outputs of the free program.
TAU_IN = 2


class Reduced(NamedTuple):
    """The tree of a coupled mechanism's mass matrix."""

    tree: Tree
    order: np.ndarray  # The coupled coordinate of each of its rows.


@lru_cache(maxsize=64)
def reduced_tree(free: Tree, coupling: Coupling) -> Reduced:
    """The elimination tree of Gᵀ H G, eliminated from the leaves to the base."""
    n, source, parent = coupling.nv, coupling.source_v, free.parent
    meeting = np.full(n, -2, np.int64)  # For each coordinate, the row where the branches of its joints meet.
    for row in range(free.n):
        met = int(meeting[source[row]])
        meeting[source[row]] = row if met == -2 else _common(parent, met, row)
    # A coordinate of several branches comes after the row where they meet, unless that row is one of its own.
    depth = np.where(meeting >= 0, free.depth[meeting], -1) + np.where(source[meeting] == np.arange(n), 0.0, 0.5)
    order = np.argsort(depth, kind="stable")
    place = np.argsort(order)[source]  # of each free row
    i, j = free.ancestor_pairs
    inner, outer = np.minimum(place[i], place[j]), np.maximum(place[i], place[j])
    above: list[set[int]] = [set() for _ in range(n)]
    for a, b in set(zip(inner.tolist(), outer.tolist(), strict=True)):
        if a != b:
            above[b].add(a)
    parents = np.full(n, -1)
    for row in range(n - 1, -1, -1):
        if above[row]:
            parents[row] = nearest = max(above[row])
            above[nearest] |= above[row] - {nearest}
    return Reduced(Tree(parents), order)


def _common(parent: np.ndarray, a: int, b: int) -> int:
    """The nearest row that carries both; −1 for the base. Parents come before their children."""
    while a != b:
        if a > b:
            a = int(parent[a])
        else:
            b = int(parent[b])
    return a


def _slot(column: int) -> Slots:
    return Slots(column, 0, NUMBER)


def _divide(count: Any, _: tuple, reads: tuple) -> tuple:
    """x / D, or NaN where D is rounding error of the diagonal that it is left of."""
    x, D, diagonal = reads
    return (x / firm(D, count * diagonal),), (), ()


CLEAR = Loop(lambda zero, _, __: ((zero,), (), ()), 1, NUMBER, writes=(_slot(0),))
LOAD = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(_slot(0),), inputs=(Lane(TAU_IN, 1),))
COPY = Loop(lambda _, __, x: (x, (), ()), 2, NOTHING, reads=(_slot(0),), writes=(_slot(1),))
DIVIDE = Loop(_divide, 3, NUMBER, reads=(_slot(0), _slot(1), _slot(2)), writes=(_slot(0),))
LOOPS = (CLEAR, LOAD, GATHER, COPY, ELIMINATE.loop, LT_SOLVE.loop, DIVIDE, L_SOLVE.loop, emit(0))
CLEARED, GATHERED, DIVIDED = (LOOPS.index(x) for x in (CLEAR, GATHER, DIVIDE))


class ReducedLanes(CoupledLanes):
    """q, qd, tau and perhaps forces on bodies to qdd."""

    def __init__(self, free: LaneAlgorithm):
        super().__init__(free)
        self.gives = ("force",)
        loops = (*(widened(loop, free.takes, free.gives).loop for loop in free.program.loops), *LOOPS)
        self.program = Program(f"{free.program.name}_reduced", loops, free.program.n_inputs, 1)

    def shapes(self, structure: Structure, coupling: Coupling | None = None) -> Shapes:
        """Of qdd."""
        assert coupling is not None
        return ((coupling.nv,),)

    def slots(self, model: Model) -> int:
        """Those of the free program, its results, and the reduced equation with its diagonal."""
        assert model.coupling is not None
        first, places = self._first(model.structure, model.coupling)
        return first + places.one + 1 + model.nv

    def _first(self, structure: Structure, coupling: Coupling) -> tuple[int, Places]:
        """First slot of the reduced equation, and its places from there on."""
        tree = reduced_tree(structure.tree, coupling).tree
        return self._free_regions(structure)[-1], Places(tree)

    def _free_regions(self, structure: Structure) -> list[int]:
        first = [self.memory.size * (structure.tree.n + 1)]
        for width in self.free.widths(structure):
            first.append(first[-1] + width)
        return first

    @lru_cache(maxsize=256)  # noqa: B019
    def turns(self, structure: Structure, *about: int, coupling: Coupling | None = None) -> tuple[Turns, ...]:
        """Tables of all loops."""
        assert coupling is not None
        regions = self._free_regions(structure)
        first, places = self._first(structure, coupling)
        reduced = reduced_tree(structure.tree, coupling)
        rows = np.arange(coupling.nv)
        diagonal = first + reduced.tree.ancestor_start[:-1]
        vector, kept_diagonal = first + places.vector + rows, first + places.one + 1 + rows
        cleared = first + np.append(np.arange(reduced.tree.n_ancestor_pairs), places.one)
        source, target, _ = gathered(structure.tree, coupling)
        starts = np.where(source < structure.tree.n, regions[TAU], regions[H] - structure.tree.n)
        tables = [
            cleared[:, None],
            np.stack([vector, reduced.order], -1),
            np.stack([starts + source, first + target], -1),
            np.stack([diagonal, kept_diagonal], -1),
            first + ELIMINATE.table(places),
            first + LT_SOLVE.table(places),
            np.stack([vector, diagonal, kept_diagonal], -1),
            first + L_SOLVE.table(places),
            np.stack([vector, reduced.order], -1),
        ]
        none = np.zeros(0, np.int32)
        return (*self.widened_turns(structure, coupling, regions), *((t.astype(np.int32), none) for t in tables))

    def values(self, model: Model, *about: int) -> tuple[Any, ...]:
        """Constants of the free program, then those of the loops here."""
        coupling = model.coupling
        assert coupling is not None
        _, places = self._first(model.structure, coupling)
        own: list[Any] = [()] * len(LOOPS)
        own[CLEARED] = np.append(np.zeros(places.tree.n_ancestor_pairs), 1.0)
        own[GATHERED] = gathered(model.tree, coupling)[2]
        own[DIVIDED] = np.full(coupling.nv, float(coupling.nv))
        return (*self.widened_values(model), *own)


@lru_cache(maxsize=64)
def gathered(free: Tree, coupling: Coupling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the reduced equation is added up of: free entries, places, and factors.

    Free entries are those of C, then those of H on the ancestor pairs; places are those of `Places`.
    """
    reduced = reduced_tree(free, coupling)
    tree, ratio = reduced.tree, coupling.ratio_v
    place = np.argsort(reduced.order)[coupling.source_v]
    a, b = tree.ancestor_pairs
    entry = {pair: k for k, pair in enumerate(zip(a.tolist(), b.tolist(), strict=True))}
    i, j = free.ancestor_pairs
    outer, inner = np.maximum(place[i], place[j]), np.minimum(place[i], place[j])
    pairs = zip(outer.tolist(), inner.tolist(), strict=True)
    twice = 1.0 + ((i != j) & (outer == inner))  # Both halves of H count where one coordinate moves both joints.
    source = np.arange(free.n + len(i))
    target = np.concatenate([tree.n_ancestor_pairs + place, [entry[pair] for pair in pairs]])
    return source, target.astype(np.int64), np.concatenate([-ratio, ratio[i] * ratio[j] * twice])


@once
def reduced_program(kind: Kind, external: bool) -> ReducedLanes:
    """The program for mechanisms of a kind, with or without forces on bodies."""
    return ReducedLanes(lane_program(JOINT_SPACE, Variant(kind, external, packed=True)))


def reduced_lanes(model: Model, external: bool = False) -> ReducedLanes:
    """The program that serves a coupled mechanism."""
    return reduced_program(kind_of(model), external)
