"""A lane program bound to models: its tables for a tree, its constants for a model, and who runs it."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.lanes import Memory, Program, Woven, run, weave, written_out
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.program import xla
from kinetree.lanes.target import compiled
from kinetree.model import Model, memory
from kinetree.model.arguments import is_known
from kinetree.model.piecewise import PIECE

from . import tuning
from .choose import call_of, lane_program_kind
from .lane_rows import RowPart, Turns

MAX_KEPT_CONSTANTS = 64  # sets of constants kept for one model, in different dtypes and about different bodies
Shapes = tuple[tuple[int, ...], ...]
NO_ROWS = np.zeros(0, np.int32)
Axis = int | Callable[[Any], int]  # how many entries there are along an axis, or a function of a shape


class LaneAlgorithm:
    """A lane program and how it is bound to a model. Make each one once.

    `takes` names the kind of each input: "q" coordinates, "v" one number for each degree of freedom, or a name of
    `OTHER_INPUTS`. `axes` are the sizes of each output's axes for one state: numbers, or functions of the shape. Tables
    and sizes depend on `shape(model)`. `slots(shape)` counts slots, if their number depends on more than the rows.
    `gives` says how a coupling changes each output (model/coupling.py).
    """

    def __init__(
        self,
        name: str,
        parts: list[RowPart],
        memory: Memory,
        takes: tuple[str, ...],
        axes: tuple[tuple[Axis, ...], ...],
        *,
        gives: tuple[str, ...] = (),
        reversible: bool = True,
        shape: Callable[[Any], Any] = lambda model: model.structure,
        slots: Callable[[Any], int] | None = None,
    ):
        self.parts, self.memory, self.takes, self.axes = parts, memory, takes, axes
        self.shape, self.slots, self.gives = shape, slots, gives or ("unchanged",) * len(axes)
        loops, ranks = tuple(p.loop for p in parts), tuple(map(len, axes))
        self.program = Program(name, loops, len(takes), len(axes), reversible, ranks=ranks)
        self._constants: WeakKeyDictionary[Model, dict] = WeakKeyDictionary()
        self._specialized: OncePerOwner[Program] = OncePerOwner()

    @lru_cache(maxsize=256)  # noqa: B019 - algorithms live as long as the process
    def turns(self, shape: Any, *about: int) -> tuple[Turns, ...]:
        """Tables of all loops for one tree, and for one body if the algorithm is about one."""
        both = (x if isinstance(x, tuple) else (x, NO_ROWS) for x in self.tables(shape, *about))
        return tuple((np.ascontiguousarray(table, np.int32), rows.astype(np.int32)) for table, rows in both)

    def tables(self, shape: Any, *about: int) -> list[Any]:
        """The same, of any type of integers; only a table if its loop has no constants."""
        return [part.turns(shape, *about) for part in self.parts]

    def values(self, model: Model, *about: int) -> tuple[Any, ...]:
        """The constants of all loops, a pytree of (turns,) arrays each."""
        turns = self.turns(self.shape(model), *about)
        return tuple(part.constants(model, rows) for part, (_, rows) in zip(self.parts, turns, strict=True))

    def constants(self, model: Model, dtype: Any, *about: int) -> tuple:
        """(turns, count) arrays of all loops for one model; kept if the model is made of plain arrays."""
        kept = self._constants.setdefault(model, {}) if is_known(model) else {}
        key = (dtype, *about)
        found = kept.get(key)
        if found is None:
            if len(kept) >= MAX_KEPT_CONSTANTS:
                kept.clear()
            turns = self.turns(self.shape(model), *about)
            both = zip(turns, self.values(model, *about), strict=True)
            found = kept[key] = tuple(_stack(len(table), values, dtype) for (table, _), values in both)
        return found

    def forms(self, shape: Any) -> Shapes:
        """Shapes of the outputs of one state."""
        return tuple(tuple(a if isinstance(a, int) else a(shape) for a in axes) for axes in self.axes)

    def widths(self, shape: Any) -> tuple[int, ...]:
        """Columns of the outputs."""
        return tuple(map(math.prod, self.forms(shape)))

    def output_shapes(self, model: Model) -> Shapes:
        """Shapes of the outputs of one state of a model."""
        return self.forms(self.shape(model))

    def __call__(self, model: Model, *inputs: Any, schedule: str = "lanes", about: tuple[int, ...] = ()) -> tuple:
        """Outputs (lanes, width) on inputs (lanes, width), by the native body ("lanes") or by XLA's ("sequential")."""
        dtype = np.dtype(inputs[0].dtype)
        slots, widths, tables = self._sizes(model, *about)
        constants = self.constants(model, dtype, *about)
        if schedule == "sequential":
            return xla.run(self.program, slots, widths, tables, constants, inputs)
        sizes = tuple(x.shape[1] for x in inputs)
        program, woven = self.program, None
        kind = lane_program_kind(call_of(model, inputs), about=bool(about))
        if kind == "written out":
            program = self._own_program(model, dtype, sizes)
        elif kind == "written out for the structure":
            program = self._for_structure(self.shape(model), sizes)
        elif kind == "woven":
            woven = self._woven(self.shape(model), *about)
        return run(program, slots, widths, tables, constants, inputs, woven)

    def _own_program(self, model: Model, dtype: np.dtype, inputs: tuple[int, ...]) -> Program:
        """The program written out for a model, on inputs of these widths; the shared program if that is too long."""

        def make() -> Program:
            _, outputs, tables = self._sizes(model)
            short = sum(map(len, tables)) <= tuning.WRITTEN_OUT_MAX_TURNS
            constants = self.constants(model, dtype)
            return written_out(self.program, tables, inputs + outputs, constants) if short else self.program

        return self._specialized.get(model, dtype, make)

    @lru_cache(maxsize=256)  # noqa: B019
    def _for_structure(self, shape: Any, inputs: tuple[int, ...]) -> Program:
        """The program written out for all models of one structure."""
        tables = tuple(table for table, _ in self.turns(shape))
        return written_out(self.program, tables, inputs + self.widths(shape), None)

    @lru_cache(maxsize=256)  # noqa: B019
    def _woven(self, shape: Any, *about: int) -> Woven | None:
        tables = tuple(table for table, _ in self.turns(shape, *about))
        return weave(self.program, tables) if sum(map(len, tables)) <= tuning.WOVEN_MAX_TURNS else None

    def direct(
        self, model: Model, dtype: np.dtype, about: tuple[int, ...] = (), result: type[tuple] | None = None
    ) -> Any:
        """A builtin on NumPy arrays for one model of plain arrays, or None if there is none.

        `about`: the body that the algorithm is about; `result`: the named tuple of several outputs.
        """
        inputs = tuple(input_width(model, what) for what in self.takes)
        own = model.specialized and not about
        program = self._own_program(model, dtype, inputs) if own else self.program
        code = compiled(program, dtype.name)
        if code is None:
            return None
        slots, widths, tables = self._sizes(model, *about)
        made = (self.output_shapes(model), result, memory.SMALL)
        forces = self.takes[-1] == "f_ext"
        return code.bound(slots, inputs + widths, tables, self.constants(model, dtype, *about), *made, forces=forces)

    def _sizes(self, model: Model, *about: int) -> tuple[int, tuple, tuple]:
        """Slots, widths of the outputs, and tables."""
        shape = self.shape(model)
        tables = tuple(table for table, _ in self.turns(shape, *about))
        slots = self.memory.size * (model.tree.n + 1) if self.slots is None else self.slots(shape)
        return slots, self.widths(shape), tables


OTHER_INPUTS: dict[str, Callable[[Model], int]] = {  # widths of inputs that belong neither to coordinates nor to rows
    "f_ext": lambda model: 6 * model.n_bodies,
    "dt": lambda model: 1,
}


def input_width(model: Model, what: str) -> int:
    """Columns of an input."""
    return OTHER_INPUTS[what](model) if what in OTHER_INPUTS else {"q": model.nq, "v": model.nv}[what]


def _stack(turns: int, values: Any, dtype: Any) -> Any:
    leaves = jax.tree.leaves(values)
    if not leaves:
        return np.zeros((turns, 0), dtype)
    if library(leaves) is jnp:
        return jnp.stack([jnp.asarray(x, dtype) for x in leaves], -1)
    whole = np.empty((turns, len(leaves)), dtype)
    for start in range(0, turns, PIECE):  # by columns, every cache line of a long table would be fetched many times
        piece = slice(start, start + PIECE)
        for k, x in enumerate(leaves):
            whole[piece, k] = x[piece]
    return whole
