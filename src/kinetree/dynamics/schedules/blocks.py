"""RNEA of one huge tree on the cores of a CPU, block by block, each in a core's own cache (algorithms/rnea.py).

Pieces, which are whole subtrees, go outward and at once inward again. The top is first reduced, chunk by chunk; a scan
over the chunks says how each begins; after the way out another one says what each receives. Where the top is long paths
and nothing else, a block goes out and in while it is in the cache, the outermost first: only the scan over its few
chunks waits for the block beyond it, which another core is about to finish (Merrill and Garland 2016 look back so for
prefixes on GPUs).
"""

import os
import threading
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.algorithms.rnea import MOTION, RNEA, WRENCH, Load, wrench
from kinetree.dynamics.recursion import Row
from kinetree.lanes import native_enabled
from kinetree.lanes.blocks.lists import OWN, BlockCode, Tasks, call, place
from kinetree.lanes.blocks.scan import TreeScan
from kinetree.lanes.blocks.text import NOWHERE, BlockWalk
from kinetree.lanes.cpu.threads import threads
from kinetree.lanes.kept.notice import warn_not_native
from kinetree.lanes.kept.once import OncePerOwner, once
from kinetree.lanes.llvm.emit import UnknownPrimitive
from kinetree.lanes.walks.walk import Walk
from kinetree.model import Model
from kinetree.spatial import Force, Rates, RelativeMotion
from kinetree.tree import Tree
from kinetree.tree.blocks import Pieces, Top, cut

from .block_cells import STATE, Cells, Fields, fields_held
from .choose import Call
from .lane_rows import PLACEMENT, kind_of
from .stage_passes import in_array
from .stages import HINGE, NOTHING, Plan, inward_walks, outward_walks

structure = jax.tree.structure
RATES, FORCE = RNEA.fields["rates"], RNEA.fields["force"]
ELEMENT = structure(RelativeMotion(*PLACEMENT, *4 * (FORCE.linear,)))

PIECE_ROWS = 2048  # with all that is known of them they fill most of a second-level cache

POSE, WRENCH_OF, RATE, RELATIVE = 7, 6, 9, 19  # numbers of a placement, a wrench, rates, a relative motion
MOVED = POSE + WRENCH_OF  # what the way out leaves for the way in,
REMEMBERED = MOVED + RATE  # and for rows that hang from it

# -- walks ------------------------------------------------------------------------------------------------------------


def _split(walk: Walk, held: Fields, *widths: int) -> Walk:
    """The walk with a row's constants in two arrays; `widths` are those of the arrays after them."""
    place_of = {p: (array, k) for array, part in enumerate(held) for k, p in enumerate(part)}
    fields = tuple(place_of.get(p, NOWHERE) if a == 0 else (a + 1, p) for a, p in walk.fields)
    return replace(walk, fields=fields, widths=(len(held.frame), len(held.load), *widths))


def _of_frames(walk: Walk, held: Fields) -> Walk:
    """A walk that knows nothing of a row but its frame."""
    split = _split(walk, held)
    return replace(split, widths=split.widths[:1])


def _pass_inward(received: Force, row: tuple, _: Any, exists: Any) -> tuple:
    placed, own = row
    return wrench(Row(at=placed, axis=HINGE), own + received)[0], ()  # Along which axis does not matter here.


def _passed(width: int) -> Walk:
    """What a chunk passes inward when it receives nothing."""
    row, fields = structure((PLACEMENT, FORCE)), in_array(0, tuple(range(MOVED)))
    return Walk("passed", _pass_inward, structure(FORCE), row, NOTHING, NOTHING, fields, (width,), reverse=True)


def _begin(rates: Rates, parent: RelativeMotion, _: Any, exists: Any) -> tuple:
    return MOTION.act(parent, rates), ()


def _receive(received: Force, chunk: tuple, _: Any, exists: Any) -> tuple:
    return WRENCH.act(Load(*chunk), received), ()


def _over_chunks() -> list[TreeScan]:
    relative, wrench = tuple(range(RELATIVE)), tuple(range(WRENCH_OF))
    begin = Walk("begin", _begin, structure(RATES), ELEMENT, NOTHING, NOTHING, in_array(0, relative), (RELATIVE,))
    chunk = structure((PLACEMENT, FORCE))
    fields = in_array(0, relative[:POSE]) + in_array(1, wrench)
    receive = Walk(
        "receive", _receive, structure(FORCE), chunk, NOTHING, NOTHING, fields, (RELATIVE, WRENCH_OF), reverse=True
    )
    return [TreeScan(walk, walk.name) for walk in (begin, receive)]


@once
def _code(dtype: str, hinges: bool) -> BlockCode:
    held, plan = fields_held(hinges), Plan(RNEA, hinges)
    outward, inward = outward_walks(plan, 0), inward_walks(plan, 1)
    out, out_remembered = (_split(outward.walk(0, remembered, False), held) for remembered in (False, True))
    back, back_remembered = (_split(inward.walk(False, 0, False), held, width) for width in (MOVED, REMEMBERED))
    walks = [
        BlockWalk(_of_frames(outward.reduce(False), held), "reduce", STATE, ends="store"),
        BlockWalk(out, "out", STATE),
        BlockWalk(out_remembered, "out_remembered", STATE),
        BlockWalk(out_remembered, "out_hanging", STATE, hanging=True),
        BlockWalk(_passed(MOVED), "passed", ends="store"),
        BlockWalk(_passed(REMEMBERED), "passed_remembered", ends="store"),
        BlockWalk(back, "back", STATE[2:]),
        BlockWalk(back_remembered, "back_remembered", STATE[2:]),
        BlockWalk(back_remembered, "back_joining", STATE[2:], ends="add"),
    ]
    return BlockCode("rnea_blocks", walks, _over_chunks(), len(STATE), WRENCH_OF, dtype)


# -- plans ------------------------------------------------------------------------------------------------------------


class TopPlan:
    """What is done with the top before and after the pieces, and the memory it takes."""

    def __init__(self, code: BlockCode, top: Top, cells: Cells):
        self.cells, self.alone, self.blocks = cells, top.alone, top.blocks
        count, lanes = len(top.blocks.turns), code.width

        def table(fields: int, of: int = count + 1) -> np.ndarray:
            return np.zeros((of, fields, lanes), code.dtype)

        # one block more than there are: its first lane is the base
        self._elements, self._rates = table(RELATIVE), table(RATE)
        self._elements[:, 0] = 1  # the identity
        self._identity = self._elements[count:].copy()
        self._passed, self._received = table(WRENCH_OF), table(WRENCH_OF)
        self._lists = [np.where(x < 0, count * lanes, x).astype(np.int32) for x in (top.chunks, top.parents)]
        self.base, self.nothing = table(REMEMBERED, 1), table(WRENCH_OF, 1)
        # kept between the way out and the way in, where pieces come between
        lines = 0 if top.alone else len(top.blocks.rows)
        self._state, self.moved = table(len(STATE), lines), table(REMEMBERED, lines)
        self._flags, self._run = np.zeros(count + 1, np.int64), np.zeros(1, np.int64)
        self.own_bytes = 0
        self.outward: list[Tasks] = []
        self.inward: list[Tasks] = []
        if count:
            self._plan(code, top)

    def _plan(self, code: BlockCode, top: Top) -> None:
        cells, turns, address = self.cells, self.blocks.turns, code.address
        number, longest = np.arange(len(turns)), int(turns.max()) * self.cells.line
        frame, load = cells.constants

        def of(table: np.ndarray) -> Any:
            return table.ctypes.data + number * (table.shape[1] * cells.line)

        # a thread's memory: forces, what the way out leaves, what was taken
        tau, moved, state = (place(OWN, longest * fields) for fields in (0, 1, 1 + MOVED))
        self.own_bytes = longest * (1 + MOVED + len(STATE))
        if not top.alone:
            state = self._state.ctypes.data + cells.within(len(STATE))
            moved = self.moved.ctypes.data + cells.within(REMEMBERED)
        take, put = cells.transfers(code, state, tau)
        chunks, parents = (x.ctypes.data for x in self._lists)
        elements, passed = self._elements.ctypes.data, self._passed.ctypes.data
        reduce = call(address["reduce"], turns, self._identity.ctypes.data, frame, state, of(self._elements))
        begin = call(address["begin"], len(self._lists[0]), chunks, parents, self._rates.ctypes.data, elements)
        self.outward += [Tasks.side_by_side(take, reduce), Tasks.of([begin])]
        known, nothing = of(self._received), self.nothing.ctypes.data
        if top.alone:
            out = call(address["out"], turns, of(self._rates), frame, load, state, moved)
            pass_on = call(address["passed"], turns, nothing, moved, of(self._passed))
            back = call(address["back"], turns, known, frame, load, moved, state, tau)
            # outermost first; a flag says that the block has added what it passes to what the one before it receives
            flag, run = self._flags.ctypes.data + 8 * number, self._run.ctypes.data
            own = np.bincount(top.chunks // code.width, minlength=len(turns))  # chunks of a block
            before = 4 * (np.cumsum(own) - own)
            receive = call(
                address["receive"], own, chunks + before, parents + before, self._received.ctypes.data, elements, passed
            )
            wait, signal = call(address["wait"], 0, flag + 8, run), call(address["signal"], 0, flag, run)
            order = (take, out, pass_on, wait, receive, signal, back, put)
            self.outward.append(Tasks.side_by_side(*(calls[::-1] for calls in order)))
            return
        out = call(address["out_remembered"], turns, of(self._rates), frame, load, state, moved)
        self.outward.append(Tasks.side_by_side(out))
        pass_on = call(address["passed_remembered"], turns, nothing, moved, of(self._passed))
        receive = call(
            address["receive"], len(self._lists[0]), chunks, parents, self._received.ctypes.data, elements, passed
        )
        back = call(address["back_remembered"], turns, known, frame, load, moved, state, tau)
        self.inward += [Tasks.side_by_side(pass_on), Tasks.of([receive]), Tasks.side_by_side(back, put)]

    def begin(self, gravity: np.ndarray) -> None:
        """Before every run."""
        for rates in (self._rates[-1], self.base[0, MOVED:]):
            rates[6:] = -gravity[:, None]
        self._received[:] = 0
        self._run += 1
        self._flags[-1] = self._run[0]


class PiecesPlan:
    """Every piece out and in again, and then what they pass to the top."""

    def __init__(self, code: BlockCode, pieces: Pieces, cells: Cells, above: TopPlan, tree: Tree):
        blocks, lanes, address = pieces.blocks, code.width, code.address
        block_count = np.bincount(pieces.piece)
        first_line = blocks.first[np.concatenate([[0], np.cumsum(block_count)])]
        lines = np.diff(first_line)
        most = int(lines.max())
        # a thread's memory: what is taken, forces, what the way out leaves, and a line more of that for nobody
        taken, tau, moved = (place(OWN, most * cells.line * fields) for fields in (0, len(STATE), len(STATE) + 1))
        self.own_bytes = cells.line * (most * (len(STATE) + 1) + (most + 1) * REMEMBERED)
        # where lanes hang, and where they add what they pass: for roots of pieces above them and to slots of their own
        there, is_root = blocks.heads >= 0, pieces.is_root[:, None]
        parent = np.where(there, tree.parent[blocks.heads], -1)
        inside = np.where(
            parent >= 0, blocks.cell_of(tree.n)[parent] - (first_line[pieces.piece] * lanes)[:, None], most * lanes
        )
        from_top = above.blocks.cell_of(tree.n)[parent]
        hangs = there & is_root & (parent >= 0)
        on_top = above.moved.ctypes.data + cells.cell(from_top, REMEMBERED, MOVED)
        on_base = above.base.ctypes.data + MOVED * cells.line
        slot = np.zeros(there.shape, np.int64)
        slot[hangs] = 1 + np.arange(hangs.sum())  # the first is for nobody
        self._slots = np.zeros((-(-(1 + int(hangs.sum())) // lanes), WRENCH_OF, lanes), code.dtype)
        in_slots = cells.cell(slot, WRENCH_OF, 0)
        self._from = np.where(is_root, np.where(hangs, on_top, on_base), cells.cell(inside, REMEMBERED, MOVED))
        self._to = np.where(is_root, in_slots, cells.cell(inside, REMEMBERED, POSE))
        sources = np.where(pieces.is_root, 0, moved)
        targets = np.where(pieces.is_root, self._slots.ctypes.data, moved)
        offsets = [x.ctypes.data + np.arange(len(x)) * (8 * lanes) for x in (self._from, self._to)]
        ahead = cells.first - first_line[pieces.piece]  # lines of the piece before each block
        state, force, rows = (
            at + cells.within(fields, ahead) for at, fields in ((taken, len(STATE)), (tau, 1), (moved, REMEMBERED))
        )
        frame, load = cells.constants
        take, put = cells.transfers_of_lines(code, taken, tau, first_line[:-1], lines)
        out = call(address["out_hanging"], blocks.turns, sources, offsets[0], frame, load, state, rows)
        zero = above.nothing.ctypes.data
        back = call(address["back_joining"], blocks.turns, zero, frame, load, rows, state, force, targets, offsets[1])
        number, each = np.arange(len(blocks.turns)), np.arange(len(lines))
        steps = [(take, each, each), (out, pieces.piece, number), (back, pieces.piece, -number), (put, each, each)]
        self.tasks = [Tasks.grouped(steps)]
        if hangs.any():
            self._passed, self._joined = in_slots[hangs], cells.cell(from_top[hangs], REMEMBERED, POSE)
            arrays = (self._slots, self._passed, above.moved, self._joined)
            self.tasks.append(Tasks.of([call(address["add"], len(self._passed), *(x.ctypes.data for x in arrays))]))

    def begin(self) -> None:
        """Before every run."""
        self._slots[:] = 0


class RneaPlan:
    """Everything about one model that a call needs: constants in the order of the cells, and the lists of calls."""

    def __init__(self, model: Model, dtype: np.dtype):
        self._dtype, self._rows, self._gravity = dtype, model.tree.n, np.asarray(model.gravity, dtype)
        hinges = kind_of(model).hinges
        self._code, held = _code(dtype.name, hinges), fields_held(hinges)
        top, pieces = _cut(model.tree, self._code.width)
        self._top = TopPlan(self._code, top, Cells(top.blocks, model, dtype, held))
        self._pieces = None
        if len(pieces.piece):
            self._cells = Cells(pieces.blocks, model, dtype, held)
            self._pieces = PiecesPlan(self._code, pieces, self._cells, self._top, model.tree)
        self._own_bytes = max(p.own_bytes for p in (self._top, self._pieces) if p)
        self._own: list[np.ndarray] = []  # memory of each thread
        self._lock = threading.Lock()

    def __call__(self, *state: np.ndarray) -> np.ndarray:
        """Generalised forces (n,) of one state: q, qd, qdd, (n,) each."""
        tau = np.empty(self._rows, self._dtype)
        arrays = [*(np.ascontiguousarray(x, self._dtype) for x in state), tau]
        top, pieces = self._top, self._pieces
        with self._lock:  # the plan's memory serves one call at a time
            while len(self._own) < threads():
                self._own.append(np.zeros(self._own_bytes, np.uint8))
            top.begin(self._gravity)
            if pieces:
                pieces.begin()
            for tasks in (*top.outward, *(pieces.tasks if pieces else ()), *top.inward):
                self._code.run(tasks, self._own[: threads()], arrays)
        return tau


@lru_cache(maxsize=16)
def _cut(tree: Tree, width: int) -> tuple[Top, Pieces]:
    return cut(tree, width, PIECE_ROWS)


_plans: OncePerOwner["RneaPlan | None"] = OncePerOwner()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_plans.clear)  # one may have been at work, its lock held


def can_block(call: Call) -> bool:
    """True if there is a plan for a model."""
    return rnea_plan(call.model, call.dtype) is not None


def by_blocks(model: Model, inputs: dict[str, Any]) -> dict[str, Any]:
    """Inverse dynamics of one state, (1, n) arrays, of a model that has a plan."""
    state = tuple(inputs.values())
    plan = rnea_plan(model, np.dtype(state[0].dtype))
    assert plan is not None
    tau = plan(*(np.asarray(x)[0] for x in state))[None]
    return {"tau": tau if isinstance(state[0], np.ndarray) else jnp.asarray(tau)}


def rnea_plan(model: Model, dtype: np.dtype) -> RneaPlan | None:
    """The plan of a model of plain arrays, kept with it; None where there can be no plan."""
    return _plans.get(model, dtype, lambda: _made(model, dtype))


def _made(model: Model, dtype: np.dtype) -> RneaPlan | None:
    plain = all(isinstance(x, np.ndarray) for x in jax.tree.leaves(model))
    fits = not len(model.structure.quaternion_joints)
    if not (plain and fits and native_enabled() and hasattr(os, "sched_yield")):
        return None
    try:
        return RneaPlan(model, dtype)
    except (UnknownPrimitive, RuntimeError) as error:
        warn_not_native("inverse dynamics of a huge tree, in blocks", error)
        return None
