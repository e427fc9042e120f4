"""One state of one huge tree on the cores of a CPU: an algorithm's lists of calls, kept with the model."""

import os
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.recursion import APPLIED, Algorithm, Bodies
from kinetree.lanes import native_enabled
from kinetree.lanes.blocks.handler import Lists, serve_jit
from kinetree.lanes.blocks.lists import Tasks
from kinetree.lanes.cpu.host import vector_width
from kinetree.lanes.cpu.recycled import empty
from kinetree.lanes.kept.notice import warn_not_native
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.kept.plans import constants_of, kept_plan
from kinetree.lanes.llvm.emit import UnknownPrimitive
from kinetree.model import Model, Structure
from kinetree.model.arguments import is_known, is_traced
from kinetree.tree import Tree
from kinetree.tree import tuning as limits
from kinetree.tree.blocks import BlockPieces, Top, cut

from . import tuning
from .block_lines import BaseLines, JointLines
from .block_plan import PiecesPlan, TopPlan
from .block_region import shares_rows
from .block_walks import FORCES, BlockFields, algorithm_code, rounds
from .choose import Call
from .lane_rows import kind_of
from .stages import CellPlan


class BlockPlan:
    """The data of one model for calls: constants in the order of the cells, and the lists of calls."""

    def __init__(self, algorithm: Algorithm, model: Model, dtype: np.dtype):
        self._dtype = dtype
        plan = CellPlan(algorithm, kind_of(model).hinges, True, len(model.structure.quaternion_joints) > 0)
        widths, width = BlockFields(plan, True).widths(), vector_width(dtype)
        rows = tuning.BLOCK_PIECE_BYTES // (dtype.itemsize * (sum(widths.values()) + len(algorithm.inputs)))
        top, pieces = _cut(model.tree, width, max(1, rows), _inner_rows(model.structure))
        code = algorithm_code(BlockFields(plan, not top.alone or bool(len(pieces.piece))), dtype.name)
        names = list(dict.fromkeys(FORCES if n in APPLIED else n for n in algorithm.inputs))
        self._code, self._order = code.native, [names.index(n) for n in code.fields.arrays]
        self._shapes = _shapes(algorithm, model)
        above = TopPlan(code, top, model)
        parts: list[Any] = [above, *([PiecesPlan(code, pieces, above, model)] if len(pieces.piece) else [])]
        base, joints = BaseLines(code, model, parts), JointLines(code, model, parts) if plan.quaternions else None
        self._parts = *parts, base, joints  # their memory
        tasks: list[Tasks] = ([joints.tasks] if joints else []) + above.begin()
        for number in range(len(code.rounds)):
            tasks += above.outward(number)
            tasks += [below.tasks(number) for below in parts[1:]]
            tasks += above.inward(number)
            tasks += base.tasks(number)
        own_bytes = max(part.own_bytes for part in (*parts, joints) if part)
        self._lists = Lists(tasks, self._code.work, own_bytes, len(code.fields.arrays) + len(self._shapes))

    def __call__(self, *states: np.ndarray) -> dict[str, np.ndarray]:
        """Results of states, by name, with the states first; the inputs are those of the algorithm, in its order."""
        given = [np.ascontiguousarray(states[k], self._dtype) for k in self._order]
        found = {n: empty((len(given[0]), *shape), self._dtype) for n, shape in self._shapes.items()}
        for state in zip(*given, *(x.reshape(len(x), -1) for x in found.values()), strict=True):
            self._lists(state)
        return found

    def traced(self, *states: Any) -> dict[str, Any]:
        """Results on traced arrays, with any number of leading axes, one state after the other."""
        before = states[0].shape[:-1]
        shapes = [jax.ShapeDtypeStruct((*before, *shape), self._dtype) for shape in self._shapes.values()]
        return dict(zip(self._shapes, self._lists.traced([states[k] for k in self._order], shapes), strict=True))


def _shapes(algorithm: Algorithm, model: Model) -> dict[str, tuple[int, ...]]:
    """The shape of each output of one state."""
    places = {
        n: (model.n_bodies,) if isinstance(p, Bodies) else (model.tree.n,) if p.stretch else ()
        for p in algorithm.passes
        for n in p.outputs
    }
    counts = {n: jax.tree.structure(x).num_leaves for n, x in algorithm.outputs.items()}
    return {n: (*places[n], *((count,) if count > 1 else ())) for n, count in counts.items()}


def _inner_rows(structure: Structure) -> bytes:
    """The rows that do not begin a joint, in bits; empty if every row begins one."""
    joints = structure.quaternion_joints
    if not len(joints):
        return b""
    inner = np.zeros(structure.tree.n, bool)
    for k in range(1, 6):
        inner[joints[(joints[:, 2] == 1) | (k < 3), 0] + k] = True
    return np.packbits(inner).tobytes()


@lru_cache(maxsize=16)
def _cut(tree: Tree, width: int, piece_rows: int, bits: bytes) -> tuple[Top, BlockPieces]:
    """The tree cut into blocks: kept from this process or, if it is huge, from an earlier one; else cut now."""
    inner = np.unpackbits(np.frombuffer(bits, np.uint8), count=tree.n).astype(bool) if bits else None
    about = width, piece_rows, bits, constants_of(limits)
    return kept_plan("blocks", tree.parent, about, lambda: cut(tree, width, piece_rows, inner))


_plans: OncePerOwner["BlockPlan | None"] = OncePerOwner()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_plans.clear)  # a plan may have been running, with its lock held


def can_block(algorithm: Algorithm, call: Call) -> bool:
    """True if there is a plan for a model."""
    plan = block_plan(algorithm, call.model, call.dtype)
    return plan is not None and (call.arrays != "traced" or serve_jit())


def by_blocks(algorithm: Algorithm, model: Model, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of an algorithm for states, (batch, n) arrays, one after the other, of a model that has a plan."""
    given = list(inputs.values())
    plan = block_plan(algorithm, model, np.dtype(given[0].dtype))
    assert plan is not None
    if is_traced(given):
        return plan.traced(*given)
    found = plan(*map(np.asarray, given))
    return found if all(isinstance(x, np.ndarray) for x in given) else {n: jnp.asarray(x) for n, x in found.items()}


def forces_on_rows(model: Model, f_ext: Any) -> Any:
    """Forces on bodies, (batch, bodies, 6), in the form for blocks: added up if several bodies belong to one row."""
    if not shares_rows(model.structure):
        return f_ext
    carrier = model.structure.row_of_body
    moving = carrier >= 0
    if isinstance(f_ext, np.ndarray):
        total = np.zeros((len(f_ext), model.tree.n, 6), f_ext.dtype)
        np.add.at(total.swapaxes(0, 1), carrier[moving], f_ext[:, moving].swapaxes(0, 1))
        return total
    return jnp.zeros((len(f_ext), model.tree.n, 6), f_ext.dtype).at[:, carrier[moving]].add(f_ext[:, moving])


def block_plan(algorithm: Algorithm, model: Model, dtype: np.dtype) -> BlockPlan | None:
    """The plan of a model of plain arrays, kept with it; None if there can be no plan."""
    return _plans.get(model, (algorithm, dtype), lambda: _made(algorithm, model, dtype))


def why_not(algorithm: Algorithm) -> str:
    """The reason why an algorithm can not run in blocks; empty if it can."""
    try:
        rounds(algorithm)
    except ValueError as error:
        return str(error)
    return ""


def _made(algorithm: Algorithm, model: Model, dtype: np.dtype) -> BlockPlan | None:
    if not (is_known(model) and not why_not(algorithm) and native_enabled() and hasattr(os, "sched_yield")):
        return None
    try:
        return BlockPlan(algorithm, model, dtype)
    except (UnknownPrimitive, RuntimeError) as error:
        warn_not_native(f"{algorithm.name} of a huge tree, in blocks", error)
        return None
