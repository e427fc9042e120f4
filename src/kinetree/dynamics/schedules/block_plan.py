"""Lists of calls that run an algorithm on one huge tree, block by block, each in a core's own cache.

Pieces, which are whole subtrees, go outward and at once inward again. The top is first reduced, chunk by chunk. A scan
over the chunks finds the start of each; after the way out another scan finds what each receives. If the top consists
only of long paths, each block goes out and in while it is in the cache, the outermost first. Then only the scan over
its few chunks waits for the block beyond it, which another core is about to finish (Merrill and Garland 2016 do the
same for prefixes on GPUs). The elements for the next way out are made while a block is in the cache.
"""

from typing import Any

import numpy as np

from kinetree.lanes.blocks.lists import Tasks, call
from kinetree.model import Model
from kinetree.tree import Tree
from kinetree.tree.blocks import BlockPieces, Top

from .block_lines import body_calls
from .block_region import Region
from .block_walks import INERTIA, AlgorithmCode


class Beginnings:
    """The start of each pass: the numbers of the identity element, and of the state of the base."""

    def __init__(self, code: AlgorithmCode, gravity: np.ndarray):
        native, count = code.native, sum(code.element.values()) + sum(code.state.values())
        given = np.repeat(np.asarray(gravity, native.dtype)[:, None], native.width, 1)
        found, rows = np.empty((count, native.width), native.dtype), np.zeros(native.width, np.int32)
        addresses = (0, *(x.ctypes.data for x in (given, rows, found)))
        native.run(call(native.address["beginnings"], 1, *addresses))
        self.element, self.base, at = {}, {}, 0
        for i, e in code.element.items():
            s = code.state[i]
            self.element[i], self.base[i] = found[at : at + e], found[at + e : at + e + s]
            at += e + s


class TopPlan(Region):
    """The calls for the top, before and after the pieces, and their memory."""

    def __init__(self, code: AlgorithmCode, top: Top, model: Model):
        most = int(top.blocks.turns.max(initial=0))
        super().__init__(code, top.blocks, model, not top.alone, most, np.zeros(len(top.blocks.turns), np.int64))
        self.alone, self.top, self.count = top.alone, top, len(top.blocks.turns)
        begin, lanes = Beginnings(code, np.asarray(model.gravity)), self.native.width
        # one block more than needed: its first lane is the base
        self.elements = {i: np.repeat(e[None], self.count + 1, 0) for i, e in begin.element.items()}
        self.entering = {i: np.repeat(s[None], self.count + 1, 0) for i, s in begin.base.items()}
        self.identity = {i: e.copy() for i, e in begin.element.items()}
        self.sums = {i: np.zeros((self.count, n, lanes), code.native.dtype) for i, n in code.sums.items() if n}
        self._started = self.own(max(n + code.sums[i] for i, n in code.state.items()))
        self._none = np.zeros((max(code.sums.values()), lanes), code.native.dtype)
        self._bodies = body_calls(self, model, self.first)
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
        self.joining: dict[int, np.ndarray] = {}  # calls that add the results of pieces to each block

    def base(self, i: int) -> int:
        """Where the state of the base is that enters pass i."""
        return self.entering[i][self.count].ctypes.data

    def _ballast(self, j: int) -> np.ndarray:
        """The ballast of each chunk on the way in; zero if no other chunk follows it."""
        state, lanes, top, blocks = self.code.state[j], self.native.width, self.top, self.blocks
        lent = np.zeros((self.count + 1, state, lanes), self.native.dtype)
        if not self.code.lends or not self.count:
            return lent
        own, rows, first = self.arrays["load"][:, : INERTIA.num_leaves], blocks.rows, self.first
        there = np.add.reduceat(rows >= 0, first)  # rows of each lane
        total = np.add.reduceat(own, first)
        of_all = total.sum((0, 2))[:, None] / there.sum()  # for chunks with only inner rows of a joint
        mean = np.where(total[:, :1] > 0, total / np.maximum(there, 1)[:, None], of_all)
        last = own[first[:, None] + np.maximum(there, 1) - 1, :, np.arange(lanes)].transpose(0, 2, 1)
        links, rows_of = np.ascontiguousarray(np.concatenate([last, mean], 1)), np.zeros(lanes, np.int32)
        sizes = [x.shape[1] * self.line * np.arange(self.count) for x in (links, lent)]
        addresses = (0, links.ctypes.data + sizes[0], rows_of.ctypes.data, lent.ctypes.data + sizes[1])
        self.native.run(call(self.native.address["ballast"], 1, *addresses))
        followed = np.zeros((self.count + 1) * lanes, bool)
        followed[top.parents[top.parents >= 0]] = True
        lent *= followed.reshape(-1, 1, lanes)
        return lent

    def _of(self, table: np.ndarray) -> Any:
        """The address of the part of a table for each block."""
        return table.ctypes.data + np.arange(self.count) * (table.shape[1] * self.line)

    def _scan(self, i: int) -> np.ndarray:
        """The call of the scan over all chunks of pass i."""
        tables = (x.ctypes.data for x in (*self._lists, self.entering[i], self.elements[i]))
        return call(self.native.address[f"scan{i}"], len(self._lists[0]), *tables)

    def begin(self) -> list[Tasks]:
        """Before the first round: clear what chunks receive, and all flags."""
        copy, calls = self.native.address["copy"], []
        for j, received in ((j, self.entering[j]) for j in self.ballast):
            nothing = self._withdrawn[j]
            calls.append(call(copy, nothing.size // self.native.width, nothing.ctypes.data, received.ctypes.data))
            flags = self._flags[j]
            calls.append(call(copy, flags.nbytes // self.line, self._unset.ctypes.data, flags.ctypes.data))
        return [Tasks.of(calls)] if calls and self.count else []

    def outward(self, number: int) -> list[Tasks]:
        """The calls of a round for the top, before the pieces."""
        i, j = self.code.rounds[number]
        if not self.count:
            return []
        first = [Tasks.side_by_side(*self.take(), self._reduce(i))] if number == 0 else []
        first.append(Tasks.of([self._scan(i)]))
        walk = [*self._out(i), *self.put(i)]
        bodies = self._bodies if number == len(self.code.rounds) - 1 else []
        if not self.alone:
            return [*first, Tasks.side_by_side(*walk, *bodies, *self._next(number, j is None))]
        back = [] if j is None else [*self._lookback(j), *self._back(j), *self.put(j)]
        calls = [*self.take(), *walk, *bodies, *back, *self._next(number)]
        return [*first, Tasks.side_by_side(*(x[::-1] for x in calls))]

    def _out(self, i: int) -> list[np.ndarray]:
        """The way out of each block, and the sums made on it."""
        entering, sums = self._of(self.entering[i]), self.code.sums[i]
        if not sums:
            return [self.walk(self.code.walk[i], entering)]
        copy, count = self.native.address["copy"], np.full(self.count, 1)
        so_far = self._started + self.code.state[i] * self.line
        return [
            call(copy, self.code.state[i] * count, entering, self._started),
            call(copy, sums * count, self._none.ctypes.data, so_far),
            self.walk(self.code.walk[i], self._started, self._started),
            call(copy, sums * count, so_far, self._of(self.sums[i])),
        ]

    def inward(self, number: int) -> list[Tasks]:
        """The calls of a round for the top, after the pieces."""
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
        """The elements for the next round that can be made after this one."""
        return [self._reduce(self.code.rounds[number + 1].out)] if now and number + 1 < len(self.code.rounds) else []

    def _lookback(self, j: int) -> list[np.ndarray]:
        """The calls that find what chunks receive, block by block, the outermost first.

        A flag is set when a block has added its result to what the block before it receives.
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
        """The way in, from what chunks receive and their ballast."""
        state = self.code.state[j]
        start, end = self.own(state), self.own(state)
        received, lent = self._of(self.entering[j]), self._of(self.ballast[j])
        whole = call(self.native.address["sum"], np.full(self.count, state), received, lent, start)
        return [whole, self.walk(self.code.walk[j], start, end)]


class PiecesPlan(Region):
    """The calls for the pieces: each goes out and in, then passes its results to the top."""

    def __init__(self, code: AlgorithmCode, pieces: BlockPieces, above: TopPlan, model: Model):
        blocks, tree = pieces.blocks, model.tree
        self._ends = blocks.first[np.concatenate([[0], np.cumsum(np.bincount(pieces.piece))])]
        self._lines = np.diff(self._ends)
        before = blocks.first[:-1] - self._ends[pieces.piece]
        super().__init__(code, blocks, model, False, int(self._lines.max()), before)
        self.pieces, self.above = pieces, above
        self._hang(tree)
        most = max(n + code.sums[i] for i, n in code.state.items())
        self._start, self._end = (self.own(most) for _ in range(2))
        self._zero = np.zeros((most, self.native.width), self.native.dtype)
        self.sums = {
            i: np.zeros((len(self._lines), n, self.native.width), code.native.dtype) for i, n in code.sums.items() if n
        }
        self._bodies = body_calls(self, model, self._ends[:-1])
        self._slots: dict[int, np.ndarray] = {}

    def _hang(self, tree: Tree) -> None:
        """Find where each lane hangs: in its piece, in the top, or on the base."""
        heads, lanes = self.blocks.heads, self.native.width
        there = heads >= 0
        parent = np.where(there, tree.parent[heads], -1)
        self._root = self.pieces.is_root[:, None]
        self._inside = np.where(parent >= 0, self.cells[parent], 0)
        ahead = (self._ends[self.pieces.piece] * lanes)[:, None]
        nobody = int(self._lines.max()) * lanes
        self._in_piece = np.where((parent >= 0) & ~self._root, self._inside - ahead, nobody)
        self._on_top = np.where(there & self._root & (parent >= 0), self.above.cells[parent], -1)

    def _keep(self, offsets: Any) -> Any:
        """Rows of offsets, (blocks, lanes), as operands."""
        kept = np.ascontiguousarray(offsets, np.int64)
        self.kept.append(kept)
        return kept.ctypes.data + np.arange(len(kept)) * kept.strides[0]

    def _out(self, i: int) -> list[np.ndarray]:
        """The way out of each block, from the states where its lanes hang."""
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
            self.walk(self.code.walk[i], self._start, *([self._start] if self.code.sums[i] else [])),
        ]

    def _back(self, j: int) -> list[np.ndarray]:
        """The way in of each block; its results are added where its lanes hang. Roots leave them in slots."""
        name, field = self.code.joined[j]
        base, offsets = self.cell(name, field, self._inside, self._in_piece)
        state, lanes, is_root = self.code.state[j], self.native.width, self._root[:, 0]
        slots = self._slots[j] = np.empty((max(1, int(is_root.sum())), state, lanes), self.native.dtype)
        slot = np.maximum(np.cumsum(is_root) - 1, 0)
        end = np.where(is_root, slots.ctypes.data + slot * (state * self.line), self._end)
        numbers = np.arange(lanes) * self.native.dtype.itemsize
        self.kept.append(numbers)
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
        """Make the calls that add the results of pieces to blocks of the top."""
        hangs = self._on_top >= 0
        if not hangs.any():
            return
        (name, field), state, top = self.code.joined[j], self.code.state[j], self.above
        on_top, source = self._on_top[hangs], self.bytes_before(slot[hangs], state, 0)
        line = on_top // self.native.width
        block = np.searchsorted(top.first, line, "right") - 1
        order = np.argsort(block, kind="stable")
        lists = [np.ascontiguousarray(x[order], np.int64) for x in (source, top.cell(name, field, on_top, 0)[1])]
        self.kept += lists
        count = np.bincount(block, minlength=top.count)
        before = 8 * (np.cumsum(count) - count)
        slots = self._slots[j].ctypes.data
        add = self.native.address[f"add{state}"]
        top.joining[j] = call(add, count, slots, lists[0].ctypes.data + before, 0, lists[1].ctypes.data + before)

    def tasks(self, number: int) -> Tasks:
        """The tasks of a round for the pieces."""
        i, j = self.code.rounds[number]
        lines = self._ends[:-1], self._lines
        each, piece, block = np.arange(len(self._lines)), self.pieces.piece, np.arange(len(self.pieces.piece))

        def one_by_one(calls: list[np.ndarray], order: np.ndarray) -> tuple:
            return np.concatenate(calls), np.tile(piece, 2), np.concatenate([2 * order, 2 * order + 1])

        def for_each(calls: list[np.ndarray]) -> list[tuple]:
            return [(x, each, each) for x in calls]

        steps = for_each([*self.take(*lines), *self._begun(i)])
        steps += [one_by_one(self._out(i), block), *for_each([*self._ended(i), *self.put(i, *lines)])]
        if j is not None:
            steps += [one_by_one(self._back(j), -block), *for_each(self.put(j, *lines))]
        if number == len(self.code.rounds) - 1:
            steps += for_each(self._bodies)
        return Tasks.grouped(steps)

    def _begun(self, i: int) -> list[np.ndarray]:
        """Before the way out of a piece: clear its sums."""
        sums, so_far = self.code.sums[i], self._start + self.code.state[i] * self.line
        count = np.full(len(self._lines), sums)
        return [call(self.native.address["copy"], count, self._zero.ctypes.data, so_far)] if sums else []

    def _ended(self, i: int) -> list[np.ndarray]:
        """The sums of each piece."""
        sums, so_far = self.code.sums[i], self._start + self.code.state[i] * self.line
        if not sums:
            return []
        each = np.arange(len(self._lines))
        target = self.sums[i].ctypes.data + each * (sums * self.line)
        return [call(self.native.address["copy"], sums + 0 * each, so_far, target)]
