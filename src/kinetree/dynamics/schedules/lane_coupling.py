"""Lane programs of mechanisms with mimic joints, made from those of the free ones (model/coupling.py).

With q_all = G q + g, the loops of the free program read the coordinate of a follower from the column of its leader,
times a ratio, plus an offset. Results that a coupling changes go to slots first. Loops at the end add the results of
followers, times their ratios, to those of their leaders, and write the remaining entries. Entries that are always zero
are neither added nor copied.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import NOTHING, NUMBER, Lane, Loop, Slots, slot
from kinetree.lanes.kept.once import once
from kinetree.model import Model
from kinetree.model.coupling import Coupling

from ..closed_form.shape import Skeleton
from .lane_algorithm import LaneAlgorithm, Shapes
from .lane_parts import RUNS, run_starts, zero_parts, zero_runs

LINES = {"q": (0.0, 0.0), "v": (0.0,)}  # the ratio of a coordinate, and its offset if it has one
AXES = {"force": (-1,), "first": (-2,), "matrix": (-1, -2)}  # axes of an output along which entries are added up


class Widened(NamedTuple):
    """A loop of a coupled program, and how its table is made from that of the free program."""

    loop: Loop
    read: tuple[tuple[str, int], ...]  # for each new column for inputs: "q" or "v", and the old column
    written: tuple[tuple[int, int], ...]  # for each new column for results: the output, and the old column


def widened(loop: Loop, takes: tuple[str, ...], gives: tuple[str, ...]) -> Widened:
    """A loop that reads the coordinates of a coupled mechanism, and leaves its results in slots."""
    read = tuple(dict.fromkeys((takes[x.array], x.column) for x in loop.inputs if takes[x.array] in LINES))
    alike, groups = _together(loop)
    moved = [gives[x[0].array] != "unchanged" for x in groups]
    pairs = zip(groups, moved, strict=True)
    written = tuple(dict.fromkeys((x[0].array, x[0].column) for x, other in pairs if other))
    first = loop.columns + len(read)
    # Joints with several coordinates never follow another joint, so only the first column of a joint is scaled.
    line = [read.index((takes[x.array], x.column)) if takes[x.array] in LINES else -1 for x in loop.inputs]

    def lane(x: Lane, k: int) -> Lane:
        return x if k < 0 else x._replace(column=loop.columns + k)

    def along(x: Any, line: tuple) -> Any:
        return x * line[0] + line[1] if len(line) == 2 else x * line[0]

    def step(constants: tuple, inputs: tuple, reads: tuple) -> tuple:
        own, lines = constants
        scaled = (
            along(x, lines[k]) if k >= 0 and place.offset == 0 else x
            for x, k, place in zip(inputs, line, loop.inputs, strict=True)
        )
        writes, adds, outputs = loop.step(own, tuple(scaled), reads)
        size = len(outputs) // max(1, len(groups))  # one, or all columns
        both = [(outputs[size * k : size * (k + 1)], other) for k, other in enumerate(moved)]
        left = tuple(y for x, other in both if not other for y in x)
        return (*writes, *(x for x, other in both if other)), adds, left

    slots = tuple(
        Slots(
            first + written.index((x[0].array, x[0].column)),  # type: ignore[arg-type]
            x[0].offset,
            jax.tree.structure((0.0,) * len(x)),
        )
        for x, other in zip(groups, moved, strict=True)
        if other
    )
    lines = jax.tree.structure(tuple(LINES[kind] for kind, _ in read))
    new = Loop(
        step,
        first + len(written),
        jax.tree_util.treedef_tuple((loop.constants, lines)),
        reads=loop.reads,
        writes=loop.writes + slots,
        adds=loop.adds,
        inputs=tuple(map(lane, loop.inputs, line)),
        outputs=tuple(y for x, other in zip(groups, moved, strict=True) if not other for y in x),
        alike=alike,
    )
    return Widened(new, read, written)  # type: ignore[arg-type]


def _together(loop: Loop) -> tuple[int, list[tuple[Lane, ...]]]:
    """How many columns of a loop stay alike, and its results in groups of so many, each group in a row of an output."""
    groups = [loop.outputs[k : k + loop.alike] for k in range(0, len(loop.outputs), loop.alike)]
    if all(x == group[0]._replace(offset=group[0].offset + k) for group in groups for k, x in enumerate(group)):
        return loop.alike, groups
    return 1, [(x,) for x in loop.outputs]


class Narrowing(NamedTuple):
    """The reduction of one output: which entries are added to which, with which factors, and which remain."""

    source: np.ndarray
    target: np.ndarray
    ratio: np.ndarray
    left: np.ndarray

    def without(self, zero: np.ndarray) -> "tuple[Narrowing, np.ndarray]":
        """The same without the additions of entries that are `zero`; and the entries that are zero afterwards."""
        zero = np.array(zero)
        for _ in range(2):  # columns are added up first, then rows, so two rounds reach every entry
            zero[self.target[~zero[self.source]]] = False
        added = ~zero[self.source]
        return Narrowing(self.source[added], self.target[added], self.ratio[added], self.left), zero


def narrowing(coupling: Coupling, gives: str, shape: tuple[int, ...]) -> Narrowing:
    """The reduction of an output of this shape."""
    entry = np.arange(int(np.prod(shape))).reshape(shape)
    if gives in ("configuration", "velocity"):
        kept = coupling.kept_q if gives == "configuration" else coupling.kept_v
        nothing = np.zeros(0, int)
        return Narrowing(nothing, nothing, np.zeros(0), entry[..., kept])
    followers = np.setdiff1d(np.arange(len(coupling.source_v)), coupling.kept_v)
    leaders = coupling.kept_v[coupling.source_v[followers]]
    moves: list[list[np.ndarray]] = []
    for axis in AXES[gives]:
        source, target = (np.take(entry, joints, axis) for joints in (followers, leaders))
        along = [1] * entry.ndim
        along[axis] = len(followers)
        ratio = np.broadcast_to(coupling.ratio_v[followers].reshape(along), source.shape)
        moves.append([x.ravel() for x in (source, target, ratio)])
        entry = np.take(entry, coupling.kept_v, axis)
    source, target, ratio = (np.concatenate(x) for x in zip(*moves, strict=True))
    return Narrowing(source, target, ratio, entry)


GATHER = Loop(lambda ratio, _, reads: ((), (ratio * reads[0],), ()), 2, NUMBER, reads=(slot(0),), adds=(slot(1),))


def emit(array: int, width: int = 1) -> Loop:
    """A loop that writes consecutive slots to an output, a few in each turn."""
    reads = (Slots(0, 0, jax.tree.structure((0.0,) * width)),)
    outputs = tuple(Lane(array, 1, k) for k in range(width))
    return Loop(lambda _, __, reads: ((), (), tuple(reads[0])), 2, NOTHING, reads=reads, outputs=outputs)


def emitted(slots: np.ndarray, columns: np.ndarray, width: int) -> np.ndarray:
    """Turns of such a loop. With those of the other widths they write these slots to these columns of an output."""
    cuts = np.flatnonzero((np.diff(slots) != 1) | (np.diff(columns) != 1)) + 1
    stretches = zip([0, *cuts], [*cuts, len(slots)], strict=True)
    places = np.concatenate([first + run_starts(int(end - first), width) for first, end in stretches])
    return np.stack([slots[places], columns[places]], -1)


class CoupledLanes(LaneAlgorithm):
    """The program of a free mechanism, for coupled ones."""

    def __init__(self, free: LaneAlgorithm):
        self.free = free
        program = free.program
        self.loops = [widened(loop, free.takes, free.gives) for loop in program.loops]
        self.moved = [k for k, gives in enumerate(free.gives) if gives != "unchanged"]
        super().__init__(
            f"{program.name}_coupled",
            free.parts,
            free.memory,
            free.takes,
            free.axes,
            gives=free.gives,
            shape=Skeleton.of,
            slots=lambda shape: self.regions(shape)[-1],
        )
        last = (GATHER, *(emit(k, width) for k in self.moved for width in RUNS)) if self.moved else ()
        self.zero_loops = [k for k, loop in enumerate(program.loops) if loop.clears]
        self.cleared = sorted({x.array for k in self.zero_loops for x in program.loops[k].outputs} & {*self.moved})
        clear = (part.loop for k in self.cleared for part in zero_parts(lambda _: np.zeros(0), (k,)))
        loops = (*(w.loop for w in self.loops), *last, *clear)
        self.program = replace(program, name=f"{program.name}_coupled", body=loops)

    def forms(self, shape: Skeleton) -> Shapes:
        """Shapes of the outputs of one state, without the joints that follow others."""
        both = zip(self.free.gives, self.free.forms(self.free.shape(shape)), strict=True)
        return tuple(s if g == "unchanged" else narrowing(coupling_of(shape), g, s).left.shape for g, s in both)

    def regions(self, shape: Skeleton) -> list[int]:
        """First slot of each output, and the first slot after them."""
        free = self.free.shape(shape)
        first = [self.memory.size * (shape.rows + 1) if self.free.slots is None else self.free.slots(free)]
        for gives, form in zip(self.free.gives, self.free.forms(free), strict=True):
            first.append(first[-1] + (0 if gives == "unchanged" else math.prod(form)))
        return first

    def tables(self, shape: Skeleton, *about: int) -> list[Any]:
        """Tables of all loops."""
        turns = self.widened_turns(shape, *about)
        if not self.moved:
            return turns
        regions = self.regions(shape)
        zero = self.zeros(shape, *about)
        gather, ends, clear, needed = [], [], [], []
        for k in self.moved:
            n, still = self.narrowing(shape, k).without(zero[k])
            gather.append(regions[k] + np.stack([n.source, n.target], -1))
            needed.append(regions[k] + n.target[zero[k][n.target]])
            left = n.left.ravel()
            columns = np.flatnonzero(~still[left])
            ends += [emitted(regions[k] + left[columns], columns, width) for width in RUNS]
            clear += [zero_runs(still[left])[width][:, None] for width in RUNS if k in self.cleared]
        for number in self.zero_loops:  # in slots, zeros are needed only where entries are added to them
            table, places = turns[number][0], self.loops[number].loop.writes
            slots = np.stack([table[:, x.column] + x.offset for x in places], -1)
            turns[number] = table[np.isin(slots, np.concatenate(needed)).any(-1)], np.zeros(0, np.int32)
        return [*turns, np.concatenate(gather), *ends, *clear]

    def narrowing(self, shape: Skeleton, output: int) -> Narrowing:
        """The reduction of one output."""
        return narrowing(coupling_of(shape), self.gives[output], self.free.forms(self.free.shape(shape))[output])

    def zeros(self, shape: Skeleton, *about: int) -> list[np.ndarray]:
        """Which entries of each output of the free program are always zero."""
        free = self.free.shape(shape)
        found = [np.zeros(math.prod(form), bool) for form in self.free.forms(free)]
        for number in self.zero_loops:
            table = self.free.turns(free, *about)[number][0]
            for x in self.free.program.loops[number].outputs:
                found[x.array][table[:, x.column] + x.offset] = True
        return found

    def widened_turns(self, shape: Skeleton, *about: int) -> list[Any]:
        """Tables of the free program, which reads the coupled coordinates and leaves its results in slots."""
        coupling, regions = coupling_of(shape), self.regions(shape)
        source = {"q": coupling.source_q, "v": coupling.source_v}
        turns = []
        for plan, (table, rows) in zip(self.loops, self.free.turns(self.free.shape(shape), *about), strict=True):
            columns = [source[kind][table[:, column]] for kind, column in plan.read]
            columns += [regions[array] + table[:, column] for array, column in plan.written]
            turns.append((np.column_stack([table, *columns]), rows))
        return turns

    def values(self, model: Model, *about: int) -> tuple[Any, ...]:
        """Constants of the free program, then the ratios of results."""
        values = self.widened_values(model, *about)
        if not self.moved:
            return values
        shape = Skeleton.of(model)
        zero = self.zeros(shape, *about)
        ratios = [self.narrowing(shape, k).without(zero[k])[0].ratio for k in self.moved]
        return (*values, np.concatenate(ratios), *[()] * ((len(self.moved) + len(self.cleared)) * len(RUNS)))

    def widened_values(self, model: Model, *about: int) -> tuple[Any, ...]:
        """Constants of the free program, with the ratios and offsets of its coordinates."""
        coupling = coupling_of(model)
        lines = {"q": (coupling.ratio_q, coupling.offset_q), "v": (coupling.ratio_v,)}
        turns = self.free.turns(self.free.shape(model), *about)
        free = zip(self.loops, turns, self.free.values(model, *about), strict=True)
        return tuple(
            (own, tuple(tuple(x[table[:, column]] for x in lines[kind]) for kind, column in plan.read))
            for plan, (table, _), own in free
        )


def coupling_of(x: Model | Skeleton) -> Coupling:
    """The coupling of an object that has one."""
    assert x.coupling is not None
    return x.coupling


@once
def coupled_lanes(free: LaneAlgorithm) -> CoupledLanes:
    """The program for coupled mechanisms."""
    return CoupledLanes(free)


def serving(free: LaneAlgorithm, model: Model) -> LaneAlgorithm:
    """The program for a mechanism: the free one, or the one for couplings."""
    return free if model.coupling is None else coupled_lanes(free)
