"""One state of one huge tree on the cores of a CPU: an algorithm's lists of calls, kept with the model."""

import os
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.dynamics.recursion import Algorithm
from kinetree.lanes import native_enabled
from kinetree.lanes.blocks.handler import Lists, serve_jit
from kinetree.lanes.blocks.lists import Tasks
from kinetree.lanes.cpu.host import vector_width
from kinetree.lanes.kept.notice import warn_not_native
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.llvm.emit import UnknownPrimitive
from kinetree.model import Model
from kinetree.model.arguments import is_known, is_traced
from kinetree.tree import Tree
from kinetree.tree.blocks import BlockPieces, Top, cut

from . import tuning
from .block_plan import PiecesPlan, TopPlan
from .block_walks import BlockFields, algorithm_code, rounds
from .choose import Call
from .lane_rows import kind_of
from .stages import CellPlan


class BlockPlan:
    """Everything about one model that a call needs: constants in the order of the cells, and the lists of calls."""

    def __init__(self, algorithm: Algorithm, model: Model, dtype: np.dtype):
        self._algorithm, self._dtype, self._rows = algorithm, dtype, model.tree.n
        plan = CellPlan(algorithm, kind_of(model).hinges, shares=True)
        widths, width = BlockFields(plan, True).widths(), vector_width(dtype)
        rows = tuning.BLOCK_PIECE_BYTES // (dtype.itemsize * (sum(widths.values()) + len(algorithm.inputs)))
        top, pieces = _cut(model.tree, width, max(1, rows))
        code = algorithm_code(BlockFields(plan, not top.alone or bool(len(pieces.piece))), dtype.name)
        self._code, self._order = code.native, [algorithm.inputs.index(n) for n in code.fields.inputs]
        self._outputs = {n: jax.tree.structure(x).num_leaves for n, x in algorithm.outputs.items()}
        above = TopPlan(code, top, model)
        below = PiecesPlan(code, pieces, above, model) if len(pieces.piece) else None
        self._parts = above, below  # their memory
        tasks: list[Tasks] = above.begin()
        for number in range(len(code.rounds)):
            tasks += above.outward(number)
            tasks += [below.tasks(number)] if below else []
            tasks += above.inward(number)
        own_bytes = max(part.own_bytes for part in self._parts if part)
        arrays = len(code.fields.inputs) + sum(self._outputs.values())
        self._lists = Lists(tasks, self._code.work, own_bytes, arrays)

    def __call__(self, *state: np.ndarray) -> list[np.ndarray]:
        """Results of one state, (n,) each; the inputs are (n,), in the order of the algorithm's."""
        found = [np.empty(self._rows, self._dtype) for n in self._outputs.values() for _ in range(n)]
        self._lists([*(np.ascontiguousarray(state[k], self._dtype) for k in self._order), *found])
        return found

    def traced(self, *states: Any) -> list[Any]:
        """Results on traced arrays, (..., n), one state after the other."""
        shape = jax.ShapeDtypeStruct(states[0].shape, self._dtype)
        return self._lists.traced([states[k] for k in self._order], [shape] * sum(self._outputs.values()))

    def named(self, found: list[Any]) -> dict[str, Any]:
        """Results of states by name; groups of scalars as one array, with the scalars last."""
        arrays = iter(found)
        groups = {name: [next(arrays) for _ in range(count)] for name, count in self._outputs.items()}
        xp = library(found[0])
        return {name: x[0] if len(x) == 1 else xp.stack(x, -1) for name, x in groups.items()}


@lru_cache(maxsize=16)
def _cut(tree: Tree, width: int, piece_rows: int) -> tuple[Top, BlockPieces]:
    return cut(tree, width, piece_rows)


_plans: OncePerOwner["BlockPlan | None"] = OncePerOwner()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_plans.clear)  # one may have been at work, its lock held


def can_block(algorithm: Algorithm, call: Call) -> bool:
    """True if there is a plan for a model."""
    plan = block_plan(algorithm, call.model, call.dtype)
    return plan is not None and (call.arrays != "traced" or serve_jit())


def by_blocks(algorithm: Algorithm, model: Model, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of an algorithm, for states, (batch, n) arrays, of a model that has a plan, one after the other."""
    given = list(inputs.values())
    plan = block_plan(algorithm, model, np.dtype(given[0].dtype))
    assert plan is not None
    if is_traced(given):
        return plan.named(plan.traced(*given))
    states = zip(*map(np.asarray, given), strict=True)
    found = [np.stack(each) for each in zip(*(plan(*state) for state in states), strict=True)]
    return plan.named(found if all(isinstance(x, np.ndarray) for x in given) else [jnp.asarray(x) for x in found])


def block_plan(algorithm: Algorithm, model: Model, dtype: np.dtype) -> BlockPlan | None:
    """The plan of a model of plain arrays, kept with it; None where there can be no plan."""
    return _plans.get(model, (algorithm, dtype), lambda: _made(algorithm, model, dtype))


def why_not(algorithm: Algorithm) -> str:
    """Why an algorithm can not be run in blocks; empty where it can."""
    try:
        rounds(algorithm)
    except ValueError as error:
        return str(error)
    return ""


def _made(algorithm: Algorithm, model: Model, dtype: np.dtype) -> BlockPlan | None:
    fits = not len(model.structure.quaternion_joints) and not why_not(algorithm)
    if not (is_known(model) and fits and native_enabled() and hasattr(os, "sched_yield")):
        return None
    try:
        return BlockPlan(algorithm, model, dtype)
    except (UnknownPrimitive, RuntimeError) as error:
        warn_not_native(f"{algorithm.name} of a huge tree, in blocks", error)
        return None
