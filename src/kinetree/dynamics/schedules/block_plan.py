"""Lists of calls that take an algorithm over one huge tree, block by block, each in a core's own cache.

Pieces, which are whole subtrees, go outward and at once inward again. The top is first reduced, chunk by chunk; a scan
over the chunks says how each begins; after the way out another one says what each receives. Where the top is long paths
and nothing else, a block goes out and in while it is in the cache, the outermost first: only the scan over its few
chunks waits for the block beyond it, which another core is about to finish (Merrill and Garland 2016 look back so for
prefixes on GPUs). The elements that the next way out needs are made while a block is at hand.
"""

from typing import Any

import jax
import numpy as np

from kinetree.lanes.blocks.lists import GIVEN, OWN, Tasks, call, place
from kinetree.model import Model
from kinetree.tree import Tree
from kinetree.tree.blocks import BlockPieces, Blocks, Top

from .block_walks import INERTIA, AlgorithmCode, BlockPass, fields_held
from .stages import COUNT

TAKEN = "taken"  # The array of what was taken from the inputs.


GHOST = [1.0] + [0.0] * (COUNT - 1)  # the identity, no axis, no mass


class Region:
    """The blocks of a part of a tree, and where the arrays of their cells are: in memory of a thread, or of all.

    `lines` are the lines of the largest task, and `before` the lines of a task before each of its blocks. What is not
    there, beyond the end of a lane, is a ghost: a row without mass that does not move against its parent.
    """

    def __init__(self, code: AlgorithmCode, blocks: Blocks, model: Model, shared: bool, lines: int, before: Any):
        fields, self.code, self.native, dtype = code.fields, code, code.native, code.native.dtype
        self.blocks, self.line = blocks, dtype.itemsize * code.native.width  # bytes of one field of a line
        self.first = blocks.first[:-1]  # the first line of each block
        self.widths = fields.widths() | {TAKEN: len(fields.inputs)}
        held = fields_held(fields.plan.hinges)._asdict()
        self.arrays = {name: _constants(blocks, model, dtype, places) for name, places in held.items()}
        self._before, self._own, self.own_bytes = before, {}, 0
        for name, width in self.widths.items():
            if name in self.arrays:
                continue
            if shared or name.startswith("kept"):
                self.arrays[name] = np.empty((len(blocks.rows), width, self.native.width), dtype)
            else:  # One spare line absorbs writes of padding cells.
                self._own[name] = self.own(width * (lines + 1))

    def own(self, vectors: int) -> Any:
        """So many vectors of a thread's own memory."""
        start, self.own_bytes = self.own_bytes, self.own_bytes + vectors * self.line
        return place(OWN, start)

    def at(self, name: str, first: Any = None) -> Any:
        """Where an array is, for each block, or for whole tasks that begin with these lines."""
        line = self.widths[name] * self.line
        if name in self.arrays:
            return self.arrays[name].ctypes.data + (self.first if first is None else first) * line
        return self._own[name] + (self._before * line if first is None else 0)

    def cell(self, name: str, field: int, cell: Any, task_cell: Any) -> tuple[int, Any]:
        """A base, and byte offsets of cells, whose numbers in the region and within their task are given."""
        if name in self.arrays:
            return 0, self.arrays[name].ctypes.data + self.bytes_before(cell, self.widths[name], field)
        return self._own[name], self.bytes_before(task_cell, self.widths[name], field)

    def bytes_before(self, cell: np.ndarray, fields: int, field: int) -> np.ndarray:
        """Bytes before a field of given cells, numbered through all lines."""
        lanes = self.native.width
        return (cell // lanes * fields + field) * self.line + cell % lanes * self.native.dtype.itemsize

    def walk(self, p: BlockPass, start: Any, *final: Any) -> np.ndarray:
        """Calls of a pass's function, one for each block."""
        taken = [self.at(TAKEN)] if p.taken else []
        streams, results = ([self.at(n) for n in names] for names in (p.streams, p.results))
        operands = (start, *streams, *taken, self._rows(self.first), *results, *final)
        return call(self.native.address[p.name], self.blocks.turns, *operands)

    def take(self, *lines: Any) -> np.ndarray:
        """Calls that take the inputs of blocks, or of so many lines from first ones on."""
        return self._moved("take", TAKEN, range(self.widths[TAKEN]), *lines)

    def put(self, i: int, *lines: Any) -> list[np.ndarray]:
        """Calls that put the results of pass i where they belong, if it has any."""
        name, inputs = f"out{i}", len(self.code.fields.inputs)
        if name not in self.widths:
            return []
        return [self._moved("put", name, range(inputs, inputs + self.widths[name]), *lines)]

    def _moved(self, move: str, name: str, given: range, first: Any = None, count: Any = None) -> np.ndarray:
        """Calls that move what an array holds from, or to, given arrays."""
        ways: Any = self.native.address[move]
        array = self.at(name, first)
        if first is None:
            first, count, rows, lanes = self.first, self.blocks.turns, self.blocks.rows, self.native.width
            # lanes that go along consecutive rows, and all to their ends, are read and written a vector at a time
            last = rows[self.blocks.first[1:] - 1]
            along = (last == rows[first] + count[:, None] - 1).all(1) & (count % lanes == 0)
            ways = np.where(along, self.native.address[f"{move}_along"], ways)
            count = np.where(along, count // lanes, count)
        return call(ways, count, self._rows(first), array, *(place(GIVEN + k, 0) for k in given))

    def _rows(self, first: Any) -> Any:
        """Where the rows of blocks are that begin with these lines."""
        return self.blocks.rows.ctypes.data + first * (4 * self.native.width)


def _constants(blocks: Blocks, model: Model, dtype: np.dtype, fields: tuple[int, ...]) -> np.ndarray:
    """Some constants of the rows in all cells, (lines, fields, lanes)."""
    ghost, rows, known = blocks.rows < 0, np.maximum(blocks.rows, 0), jax.tree.leaves(model.rows)
    return np.stack([np.where(ghost, GHOST[k], np.asarray(known[k], dtype)[rows]).astype(dtype) for k in fields], 1)


class Beginnings:
    """How each pass begins: the numbers of the element of no rows, and of the state of the base."""

    def __init__(self, code: AlgorithmCode, gravity: np.ndarray):
        native, count = code.native, sum(code.element) + sum(code.state)
        given = np.repeat(np.asarray(gravity, native.dtype)[:, None], native.width, 1)
        found, rows = np.empty((count, native.width), native.dtype), np.zeros(native.width, np.int32)
        addresses = (0, *(x.ctypes.data for x in (given, rows, found)))
        native.run(Tasks.of([call(native.address["beginnings"], 1, *addresses)]), [rows], [])
        self.element, self.base, at = [], [], 0
        for e, s in zip(code.element, code.state, strict=True):
            self.element.append(found[at : at + e])
            self.base.append(found[at + e : at + e + s])
            at += e + s


class TopPlan(Region):
    """What is done with the top before and after the pieces, and the memory it takes."""

    def __init__(self, code: AlgorithmCode, top: Top, model: Model):
        most = int(top.blocks.turns.max(initial=0))
        super().__init__(code, top.blocks, model, not top.alone, most, np.zeros(len(top.blocks.turns), np.int64))
        self.alone, self.top, self.count = top.alone, top, len(top.blocks.turns)
        begin, lanes = Beginnings(code, np.asarray(model.gravity)), self.native.width
        # one block more than there are: its first lane is the base
        self.elements = [np.repeat(e[None], self.count + 1, 0) for e in begin.element]
        self.entering = [np.repeat(s[None], self.count + 1, 0) for s in begin.base]
        self.identity = [e.copy() for e in begin.element]
        self._lists = [np.where(x < 0, self.count * lanes, x).astype(np.int32) for x in (top.chunks, top.parents)]
        self.ballast = {r.back: self._ballast(r.back) for r in code.rounds if r.back is not None}
        self._withdrawn = {j: -b for j, b in self.ballast.items()}
        self._lent = {j: np.repeat(self.identity[j][None], self.count, 0) for j in self.ballast}
        for j, lent in self._lent.items():  # what an element passes are its last numbers
            if code.lends:
                lent[:, -code.state[j] :] += self.ballast[j][: self.count]
        flags = -(-(self.count + 1) * 8 // self.line) * self.line // 8
        self._flags = {j: np.zeros(flags, np.int64) for j in self.ballast}
        self._unset = np.zeros(flags, np.int64)
        self._unset[self.count] = 1
        self._one = np.ones(1, np.int64)
        self.joining: dict[int, np.ndarray] = {}  # calls that add to each block what pieces bring

    def base(self, i: int) -> int:
        """Where the state of the base is that enters pass i."""
        return self.entering[i][self.count].ctypes.data

    def _ballast(self, j: int) -> np.ndarray:
        """What each chunk is lent on the way in; nothing where no other follows it."""
        state, lanes, top, blocks = self.code.state[j], self.native.width, self.top, self.blocks
        lent = np.zeros((self.count + 1, state, lanes), self.native.dtype)
        if not self.code.lends or not self.count:
            return lent
        own, rows, first = self.arrays["load"][:, : INERTIA.num_leaves], blocks.rows, self.first
        there = np.add.reduceat(rows >= 0, first)  # rows of each lane
        mean = np.add.reduceat(own, first) / np.maximum(there, 1)[:, None]
        last = np.take_along_axis(own, (first[:, None] + np.maximum(there, 1) - 1)[:, None], 0)
        last = own[first[:, None] + np.maximum(there, 1) - 1, :, np.arange(lanes)].transpose(0, 2, 1)
        links, rows_of = np.ascontiguousarray(np.concatenate([last, mean], 1)), np.zeros(lanes, np.int32)
        sizes = [x.shape[1] * self.line * np.arange(self.count) for x in (links, lent)]
        addresses = (0, links.ctypes.data + sizes[0], rows_of.ctypes.data, lent.ctypes.data + sizes[1])
        self.native.run(Tasks.of([call(self.native.address["ballast"], 1, *addresses)]), [rows_of], [])
        followed = np.zeros((self.count + 1) * lanes, bool)
        followed[top.parents[top.parents >= 0]] = True
        lent *= followed.reshape(-1, 1, lanes)
        return lent

    def _of(self, table: np.ndarray) -> Any:
        """Where the part of a table for each block is."""
        return table.ctypes.data + np.arange(self.count) * (table.shape[1] * self.line)

    def _scan(self, i: int) -> np.ndarray:
        """The call of the scan over all chunks of pass i."""
        tables = (x.ctypes.data for x in (*self._lists, self.entering[i], self.elements[i]))
        return call(self.native.address[f"scan{i}"], len(self._lists[0]), *tables)

    def begin(self) -> list[Tasks]:
        """Before the first round: nothing is received yet, and no flag is set."""
        copy, calls = self.native.address["copy"], []
        for j, received in ((j, self.entering[j]) for j in self.ballast):
            nothing = self._withdrawn[j]
            calls.append(call(copy, nothing.size // self.native.width, nothing.ctypes.data, received.ctypes.data))
            flags = self._flags[j]
            calls.append(call(copy, flags.nbytes // self.line, self._unset.ctypes.data, flags.ctypes.data))
        return [Tasks.of(calls)] if calls and self.count else []

    def outward(self, number: int) -> list[Tasks]:
        """What a round does with the top before the pieces."""
        i, j = self.code.rounds[number]
        if not self.count:
            return []
        first = [Tasks.side_by_side(self.take(), self._reduce(i))] if number == 0 else []
        first.append(Tasks.of([self._scan(i)]))
        walk = self.walk(self.code.walk[i], self._of(self.entering[i]))
        if not self.alone:
            return [
                *first,
                Tasks.side_by_side(walk, *(self.put(i) if j is None else ()), *self._next(number, j is None)),
            ]
        back = [] if j is None else [*self._lookback(j), *self._back(j)]
        calls = [self.take(), walk, *back, *self.put(i if j is None else j), *self._next(number)]
        return [*first, Tasks.side_by_side(*(x[::-1] for x in calls))]

    def inward(self, number: int) -> list[Tasks]:
        """What it does after them."""
        j = self.code.rounds[number].back
        if j is None or self.alone or not self.count:
            return []
        joining = [self.joining[j]] if j in self.joining else []
        back = Tasks.side_by_side(*self._back(j), *self.put(j), *self._next(number))
        return [Tasks.side_by_side(*joining, self._reduce(j)), Tasks.of([self._scan(j)]), back]

    def _reduce(self, i: int) -> np.ndarray:
        start = self._of(self._lent[i]) if i in self._lent else self.identity[i].ctypes.data
        return self.walk(self.code.reduce[i], start, self._of(self.elements[i]))

    def _next(self, number: int, now: bool = True) -> list[np.ndarray]:
        """The elements that the next round needs, which can be made when this one is done."""
        return [self._reduce(self.code.rounds[number + 1].out)] if now and number + 1 < len(self.code.rounds) else []

    def _lookback(self, j: int) -> list[np.ndarray]:
        """What chunks receive, block by block, the outermost first.

        A flag says that a block has added what it passes to what the one before it receives.
        """
        number, flags, one = np.arange(self.count), self._flags[j].ctypes.data, self._one.ctypes.data
        own = np.bincount(self.top.chunks // self.native.width, minlength=self.count)  # chunks of a block
        before = 4 * (np.cumsum(own) - own)
        chunks, parents = (x.ctypes.data + before for x in self._lists)
        tables = (x[j].ctypes.data for x in (self.entering, self.elements))
        receive = call(self.native.address[f"scan{j}"], own, chunks, parents, *tables)
        wait = call(self.native.address["wait"], 0, flags + 8 * (number + 1), one)
        return [self._reduce(j), wait, receive, call(self.native.address["signal"], 0, flags + 8 * number, one)]

    def _back(self, j: int) -> list[np.ndarray]:
        """The way in, from what is received and was lent."""
        state = self.code.state[j]
        start, end = self.own(state), self.own(state)
        received, lent = self._of(self.entering[j]), self._of(self.ballast[j])
        whole = call(self.native.address["sum"], np.full(self.count, state), received, lent, start)
        return [whole, self.walk(self.code.walk[j], start, end)]


class PiecesPlan(Region):
    """Every piece out and in again, and then what they pass to the top."""

    def __init__(self, code: AlgorithmCode, pieces: BlockPieces, above: TopPlan, model: Model):
        blocks, tree = pieces.blocks, model.tree
        self._ends = blocks.first[np.concatenate([[0], np.cumsum(np.bincount(pieces.piece))])]
        self._lines = np.diff(self._ends)
        before = blocks.first[:-1] - self._ends[pieces.piece]
        super().__init__(code, blocks, model, False, int(self._lines.max()), before)
        self.pieces, self.above = pieces, above
        self._hang(tree)
        self._start, self._end = (self.own(max(code.state)) for _ in range(2))
        self._zero = np.zeros((max(code.state), self.native.width), self.native.dtype)
        self._kept: list[np.ndarray] = []  # that native code is told the addresses of
        self._slots: dict[int, np.ndarray] = {}

    def _hang(self, tree: Tree) -> None:
        """Where each lane hangs: in its piece, in the top, or on the base."""
        heads, lanes = self.blocks.heads, self.native.width
        there = heads >= 0
        parent = np.where(there, tree.parent[heads], -1)
        self._root = self.pieces.is_root[:, None]
        self._inside = np.where(parent >= 0, self.blocks.cell_of(tree.n)[parent], 0)
        ahead = (self._ends[self.pieces.piece] * lanes)[:, None]
        nobody = int(self._lines.max()) * lanes
        self._in_piece = np.where((parent >= 0) & ~self._root, self._inside - ahead, nobody)
        self._on_top = np.where(there & self._root & (parent >= 0), self.above.blocks.cell_of(tree.n)[parent], -1)

    def _keep(self, offsets: Any) -> Any:
        """Rows of offsets, (blocks, lanes), as operands."""
        kept = np.ascontiguousarray(offsets, np.int64)
        self._kept.append(kept)
        return kept.ctypes.data + np.arange(len(kept)) * kept.strides[0]

    def _out(self, i: int) -> list[np.ndarray]:
        """Each block from where its lanes hang."""
        state = self.code.algorithm.passes[i].state
        name, field = self.code.fields.places(i)[state][0] if self.code.fields.remembers else ("", 0)
        base, offsets = self.cell(name, field, self._inside, self._in_piece) if name else (0, self._inside)
        above = self.above.base(i) + np.zeros_like(self._on_top)
        if (self._on_top >= 0).any():
            above = np.where(self._on_top >= 0, self.above.cell(name, field, self._on_top, 0)[1], above)
        from_top = self._root[:, 0]
        fetch = self.native.address[f"fetch{self.code.state[i]}"]
        offsets = self._keep(np.where(self._root, above, offsets))
        count = np.full(len(from_top), self.native.width)
        return [
            call(fetch, count, np.where(from_top, 0, base), offsets, self._start),
            self.walk(self.code.walk[i], self._start),
        ]

    def _back(self, j: int) -> list[np.ndarray]:
        """Each block, and what it passes to where its lanes hang; roots leave it in slots."""
        name, field = self.code.joined[j]
        base, offsets = self.cell(name, field, self._inside, self._in_piece)
        state, lanes, is_root = self.code.state[j], self.native.width, self._root[:, 0]
        slots = self._slots[j] = np.empty((max(1, int(is_root.sum())), state, lanes), self.native.dtype)
        slot = np.maximum(np.cumsum(is_root) - 1, 0)
        end = np.where(is_root, slots.ctypes.data + slot * (state * self.line), self._end)
        numbers = np.arange(lanes) * self.native.dtype.itemsize
        self._kept.append(numbers)
        add = call(
            self.native.address[f"add{state}"],
            np.where(is_root, 0, lanes),
            self._end,
            numbers.ctypes.data,
            base,
            self._keep(offsets),
        )
        self._join(j, (slot * lanes)[:, None] + np.arange(lanes))
        return [self.walk(self.code.walk[j], self._zero.ctypes.data, end), add]

    def _join(self, j: int, slot: np.ndarray) -> None:
        """Tell the top what to add to each of its blocks."""
        hangs = self._on_top >= 0
        if not hangs.any():
            return
        (name, field), state, top = self.code.joined[j], self.code.state[j], self.above
        on_top, source = self._on_top[hangs], self.bytes_before(slot[hangs], state, 0)
        line = on_top // self.native.width
        block = np.searchsorted(top.first, line, "right") - 1
        order = np.argsort(block, kind="stable")
        lists = [np.ascontiguousarray(x[order], np.int64) for x in (source, top.cell(name, field, on_top, 0)[1])]
        self._kept += lists
        count = np.bincount(block, minlength=top.count)
        before = 8 * (np.cumsum(count) - count)
        slots = self._slots[j].ctypes.data
        add = self.native.address[f"add{state}"]
        top.joining[j] = call(add, count, slots, lists[0].ctypes.data + before, 0, lists[1].ctypes.data + before)

    def tasks(self, number: int) -> Tasks:
        """What a round does with the pieces."""
        i, j = self.code.rounds[number]
        lines = self._ends[:-1], self._lines
        each, piece, block = np.arange(len(self._lines)), self.pieces.piece, np.arange(len(self.pieces.piece))

        def one_by_one(calls: list[np.ndarray], order: np.ndarray) -> tuple:
            return np.concatenate(calls), np.tile(piece, 2), np.concatenate([2 * order, 2 * order + 1])

        steps = [(self.take(*lines), each, each), one_by_one(self._out(i), block)]
        if j is not None:
            steps.append(one_by_one(self._back(j), -block))
        steps += [(put, each, each) for put in self.put(i if j is None else j, *lines)]
        return Tasks.grouped(steps)
