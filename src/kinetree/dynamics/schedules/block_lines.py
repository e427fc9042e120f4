"""Calls over lines of lanes that are not blocks of rows: quaternion joints, bodies and the base.

Quaternion joints are placed before the first round: the cells of their first rows hold the placements, and the cells of
all their rows the shift of accelerations. Bodies are computed from the rows that carry them while these are in a core's
cache. The base adds up the sums of blocks and pieces, and computes its results from them.
"""

from typing import Any

import jax
import numpy as np

from kinetree.dynamics.recursion import Base, Total
from kinetree.lanes.blocks.lists import GIVEN, OWN, BlockCode, Tasks, call, place
from kinetree.lanes.blocks.moves import FieldGroup
from kinetree.model import Model

from . import tuning
from .block_alone import FRAME, MOVED, POSED, RATES, TURNED, PutGroup, put_groups
from .block_region import Region
from .block_walks import AlgorithmCode
from .stages import SHIFT

structure = jax.tree.structure


def in_lines(numbers: np.ndarray, lanes: int) -> np.ndarray:
    """Numbers as lines, padded with −1."""
    lines = np.full(-(-len(numbers) // lanes) * lanes, -1, np.int32)
    lines[: len(numbers)] = numbers
    return lines.reshape(-1, lanes)


def _at(lines: np.ndarray, first: Any) -> Any:
    """Addresses of lines."""
    return lines.ctypes.data + np.asarray(first) * lines.strides[0]


def _frames(model: Model, bodies: np.ndarray, at: Any, lines: int, native: BlockCode) -> np.ndarray:
    """The frames of bodies, at these places in lines."""
    frames = np.zeros((lines * native.width, FRAME), native.dtype)
    frames[at] = np.stack([np.asarray(x, native.dtype)[bodies] for x in jax.tree.leaves(model.frames)], 1)
    return np.ascontiguousarray(frames.reshape(-1, native.width, FRAME).swapaxes(1, 2))


def _put(code: AlgorithmCode, group: PutGroup, fields: int, count: Any, lines: Any, source: Any) -> np.ndarray:
    """Calls that write results, fields of cells, to their places."""
    before, size = len(code.fields.arrays), code.native.dtype.itemsize
    targets = (place(GIVEN + before + array, k * size) for array, k in group.given)
    put = code.native.address[FieldGroup(len(group.given), fields).named("put")]
    return call(put, count, lines, source, *targets)


def _cells(region: Region, cells: np.ndarray, name: str, field: int) -> np.ndarray:
    """The places of a field of cells among the numbers of an array; −1 for cell −1."""
    numbers = region.bytes_before(np.maximum(cells, 0), region.widths[name], field) // region.native.dtype.itemsize
    return np.where(cells >= 0, numbers, -1)


class JointLines:
    """All quaternion joints, with some lines in each task."""

    def __init__(self, code: AlgorithmCode, model: Model, regions: list[Region]):
        native, joints = code.native, model.structure.quaternion_joints.astype(np.int64)
        lanes, self._native, self._kept = native.width, native, []
        first, start, free = joints.T
        places = [start + 3 * free, np.where(free, start, -1), first, np.where(free, first, -1)]
        self._turned, self._moved, self._spun, self._slid = (in_lines(x, lanes) for x in places)
        known = np.stack([np.asarray(x, native.dtype)[first] for x in jax.tree.leaves(model.rows)[:POSED]], 1)
        self._fixed = np.zeros((len(self._turned) * lanes, POSED), native.dtype)
        self._fixed[: len(joints)] = known
        self._fixed = np.ascontiguousarray(self._fixed.reshape(-1, lanes, POSED).swapaxes(1, 2))
        self._line, tasks = native.dtype.itemsize * lanes, tuning.JOINT_TASK_LINES
        self._first = np.arange(0, len(self._turned), tasks)
        self._lines = np.minimum(tasks, len(self._turned) - self._first)
        width = TURNED + MOVED + POSED + 2 * RATES
        self.own_bytes = width * tasks * self._line
        at = np.cumsum([0, TURNED + MOVED, POSED, RATES]) * tasks * self._line
        self._own = [place(OWN, int(x)) for x in at]
        calls = self._placed(code, first, regions)
        calls += self._shifted(code, first, free, regions) if "shifts" in native.address else []
        self.tasks = Tasks.side_by_side(*calls)

    def _take(self, group: FieldGroup, lines: np.ndarray, target: Any, array: int, scalar: int) -> np.ndarray:
        size = self._native.dtype.itemsize
        sources = (place(GIVEN + array, (scalar + k) * size) for k in range(group.count))
        return call(self._native.address[group.named("take")], self._lines, _at(lines, self._first), target, *sources)

    def _put(self, group: FieldGroup, cells: np.ndarray, source: Any, addresses: list[int]) -> np.ndarray:
        lines = in_lines(cells, self._native.width)
        self._kept.append(lines)
        put = self._native.address[group.named("put")]
        return call(put, self._lines, _at(lines, self._first), source, *addresses)

    def _placed(self, code: AlgorithmCode, first: np.ndarray, regions: list[Region]) -> list[np.ndarray]:
        own, posed, *_ = self._own
        array, group = code.fields.arrays.index("q"), TURNED + MOVED
        fixed, turned = (_at(x, self._first) for x in (self._fixed, self._turned))
        walk, puts = call(self._native.address["joints"], self._lines, 0, fixed, own, turned, posed), []
        for r in regions:
            frames = [r.arrays["frame"].ctypes.data + k * self._line for k in range(POSED)]
            puts.append(self._put(FieldGroup(POSED, POSED), _cells(r, r.cells[first], "frame", 0), posed, frames))
        return [
            self._take(FieldGroup(TURNED, group), self._turned, own, array, 0),
            self._take(FieldGroup(MOVED, group), self._moved, own + TURNED * self._line, array, 0),
            walk,
            *puts,
        ]

    def _shifted(self, code: AlgorithmCode, first: np.ndarray, free: Any, regions: list[Region]) -> list[np.ndarray]:
        *_, own, shifts = self._own
        array, half = code.fields.arrays.index("qd"), RATES // 2
        walk = call(self._native.address["shifts"], self._lines, 0, own, _at(self._spun, self._first), shifts)
        puts = []
        for r in regions:
            for k in range(RATES):
                there = (k < half) | (free > 0)
                cells = _cells(r, np.where(there, r.cells[np.where(there, first + k, 0)], -1), SHIFT, 0)
                source, target = shifts + k * self._line, [r.arrays[SHIFT].ctypes.data]
                puts.append(self._put(FieldGroup(1, RATES), cells, source, target))
        return [
            self._take(FieldGroup(half, RATES), self._spun, own, array, 0),
            self._take(FieldGroup(half, RATES), self._slid, own + half * self._line, array, half),
            walk,
            *puts,
        ]


def body_calls(region: Region, model: Model, first: np.ndarray) -> list[np.ndarray]:
    """Lists with a call for each task: the bodies that the rows of a region carry. Tasks begin with these lines."""
    code, native, lanes = region.code, region.native, region.native.width
    p = code.alone.bodies
    if p is None:
        return []
    carrier = model.structure.row_of_body
    cells = np.where(carrier >= 0, region.cells[np.maximum(carrier, 0)], -1)
    bodies = np.argsort(cells, kind="stable")[np.count_nonzero(cells < 0) :]
    cells = cells[bodies]
    task = np.searchsorted(first, cells // lanes, "right") - 1
    count = np.bincount(task, minlength=len(first))
    lines = -(-count // lanes)
    before = np.cumsum(lines) - lines
    at = before[task] * lanes + np.arange(len(bodies)) - np.repeat(np.cumsum(count) - count, count)

    def lined(numbers: np.ndarray) -> Any:
        """The addresses of lines with these numbers."""
        whole = np.full(int(lines.sum()) * lanes, -1, np.int32)
        whole[at] = numbers
        region.kept.append(whole.reshape(-1, lanes))
        return _at(region.kept[-1], before)

    sources, inside = [], cells - first[task] * lanes
    for name in p.needs:
        (array, field), *more = next(
            places[name] for i in reversed(code.fields.row_passes) if name in (places := code.fields.places(i))
        )
        numbers = region.bytes_before(inside, region.widths[array], field) // native.dtype.itemsize
        sources.append((region.at(array, first), 1 + len(more), lined(numbers)))
    groups = put_groups(code.algorithm, p.outputs)
    numbers = {g.numbers: lined(g.numbers * bodies) for g in groups}
    region.kept.append(_frames(model, bodies, at, int(lines.sum()), native))
    needed, made = sum(n for _, n, _ in sources), sum(len(g.given) for g in groups)
    most = int(lines.max(initial=0))
    taken, result = region.own(needed * most), region.own(made * most)
    found, target = [], taken
    for source, n, where in sources:
        take = native.address[FieldGroup(n, needed).named("take")]
        found.append(call(take, lines, where, target, *(source + k * region.line for k in range(n))))
        target = target + n * region.line
    streams = (_at(region.kept[-1], before), taken, next(iter(numbers.values())), result)
    found.append(call(native.address["bodies"], lines, 0, *streams))
    return found + [_put(code, g, made, lines, numbers[g.numbers], result + g.first * region.line) for g in groups]


class BaseLines:
    """The results of the base from the sums, and the bodies fixed to the base."""

    def __init__(self, code: AlgorithmCode, model: Model, parts: list[Any]):
        self._code, self._parts, native = code, parts, code.native
        self._rows = in_lines(np.zeros(1, np.int64), native.width)
        self._kept: list[np.ndarray] = []
        world = [*np.asarray(model.gravity), np.asarray(model.rows.inertia.mass).sum()]
        self._world = self._vectors(np.repeat(np.asarray(world, native.dtype)[:, None], native.width, 1))
        self._line = native.dtype.itemsize * native.width
        self._at: dict[str, int] = {}  # where sums are
        self._still = self._bodies(model) if code.alone.bodies is not None else []

    def _vectors(self, values: np.ndarray) -> int:
        self._kept.append(np.ascontiguousarray(values))
        return self._kept[-1].ctypes.data

    def _room(self, numbers: int) -> int:
        return self._vectors(np.zeros((numbers, self._code.native.width), self._code.native.dtype))

    def _put(self, name: str, source: int) -> np.ndarray:
        """The call that writes one of the results to its place."""
        outputs = self._code.algorithm.outputs
        count, array = structure(outputs[name]).num_leaves, list(outputs).index(name)
        group = PutGroup(0, tuple((array, k) for k in range(count)), count)
        return _put(self._code, group, count, 1, self._rows.ctypes.data, source)

    def _folded(self, i: int) -> list[np.ndarray]:
        """Calls that add up the sums of all blocks and pieces."""
        address, numbers = self._code.native.address, self._code.sums[i]
        tables = [part.sums[i] for part in self._parts]
        rooms = [self._room(numbers) for _ in tables]
        calls = [call(address[f"fold{numbers}"], len(t), t.ctypes.data, r) for t, r in zip(tables, rooms, strict=True)]
        whole = rooms[0]
        if len(rooms) > 1:
            whole = self._room(numbers)
            calls.append(call(address["sum"], numbers, *rooms, whole))
        for x in self._code.fields.plan.totals(self._code.algorithm.passes[i]):
            self._at[x.state] = whole
            whole += structure(self._code.algorithm.fields[x.state]).num_leaves * self._line
        return calls

    def tasks(self, number: int) -> list[Tasks]:
        """The tasks of the base after a round."""
        code, passes = self._code, self._code.algorithm.passes
        i = code.rounds[number].out
        calls = self._folded(i) if code.sums[i] else []
        end = code.rounds[number + 1].out if number + 1 < len(code.rounds) else len(passes)
        for k in range(i, end):
            if isinstance(passes[k], Base):
                calls += self._found(k)
            elif isinstance(passes[k], Total):
                calls += [self._put(n, self._at[n]) for n in passes[k].outputs]
        calls += self._still if number + 1 == len(code.rounds) else []
        return [Tasks.of([np.concatenate(calls)])] if calls else []

    def _found(self, k: int) -> list[np.ndarray]:
        """Calls of a pass of the base."""
        code, p = self._code, self._code.algorithm.passes[k]
        enters = {code.algorithm.passes[i].state: self._parts[0].base(i) for i in code.fields.row_passes}
        places = {n: self._room(structure(code.algorithm.outputs[n]).num_leaves) for n in p.outputs}
        results = [*(enters[n] for n in p.leaves), *places.values()]
        given = (self._world, *(self._at[n] for n in p.needs), self._rows.ctypes.data, *results)
        walk = call(code.native.address[f"base{k}"], 1, 0, *given)
        return [walk, *(self._put(n, at) for n, at in places.items())]

    def _bodies(self, model: Model) -> list[np.ndarray]:
        """Calls that write the results of bodies fixed to the base."""
        code, native = self._code, self._code.native
        bodies, p = np.flatnonzero(model.structure.row_of_body < 0), code.alone.bodies
        if not len(bodies) or p is None:
            return []
        groups = put_groups(code.algorithm, p.outputs)
        count, lines = sum(len(g.given) for g in groups), in_lines(bodies, native.width)
        frames = _frames(model, bodies, np.arange(len(bodies)), len(lines), native)
        enters = {code.algorithm.passes[i].state: self._parts[0].entering[i][-1] for i in code.fields.row_passes}
        base = np.concatenate([enters[n] for n in p.needs])
        taken = np.ascontiguousarray(np.broadcast_to(base, (len(lines), *base.shape)))
        result = np.zeros((len(lines), count, native.width), native.dtype)
        addresses = (x.ctypes.data for x in (frames, taken, lines, result))
        native.run(call(native.address["bodies"], len(lines), 0, *addresses))
        self._kept += [result, *(places := [g.numbers * lines.clip(0) + np.minimum(lines, 0) for g in groups])]
        sources = (result.ctypes.data + g.first * self._line for g in groups)
        both = zip(groups, places, sources, strict=True)
        return [_put(code, g, count, len(lines), where.ctypes.data, source) for g, where, source in both]
