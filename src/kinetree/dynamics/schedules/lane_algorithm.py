"""A lane program bound to models: its tables for a tree, its constants for a model, and which body runs it."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Memory, Program, Woven, run, weave, written_out
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.program import xla
from kinetree.lanes.target import compiled
from kinetree.model import Model

from . import tuning
from .choose import call_of, lane_program_kind
from .lane_rows import Part, Turns

MAX_KEPT_CONSTANTS = 64  # sets of constants kept for one model, in different dtypes and about different bodies


class LaneAlgorithm:
    """A lane program and how it is bound to a model. Make each one once."""

    def __init__(
        self,
        name: str,
        parts: list[Part],
        memory: Memory,
        n_inputs: int,
        n_outputs: int,
        widths: Any,
        reversible: bool = True,
        shape: Callable[[Model], Any] = lambda model: model.structure,
        slots: Callable[[Any], int] | None = None,
    ):
        """`shape` is what tables and widths depend on; `slots` counts those of a shape, if not by rows alone."""
        self.parts, self.memory, self.widths, self.shape, self.slots = parts, memory, widths, shape, slots
        self.program = Program(name, tuple(p.loop for p in parts), n_inputs, n_outputs, reversible)
        self._constants: WeakKeyDictionary[Model, dict] = WeakKeyDictionary()
        self._specialized: OncePerOwner[Program] = OncePerOwner()

    @lru_cache(maxsize=256)  # noqa: B019 - algorithms live as long as the process
    def turns(self, structure: Any, *about: int) -> tuple[Turns, ...]:
        """Tables of all loops for one tree, and for one body where the algorithm is about one."""
        turns = (part.turns(structure, *about) for part in self.parts)
        return tuple((table, rows.astype(np.int32)) for table, rows in turns)

    def constants(self, model: Model, dtype: Any, *about: int) -> tuple:
        """(turns, count) arrays of all loops for one model; kept where the model is made of plain arrays."""
        plain = all(isinstance(x, np.ndarray) for x in jax.tree.leaves(model))
        kept = self._constants.setdefault(model, {}) if plain else {}
        key = (dtype, *about)
        found = kept.get(key)
        if found is None:
            if len(kept) >= MAX_KEPT_CONSTANTS:
                kept.clear()
            found = tuple(
                _stack(len(table), part.constants(model, rows), dtype)
                for part, (table, rows) in zip(self.parts, self.turns(self.shape(model), *about), strict=True)
            )
            kept[key] = found
        return found

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
        """The program written out for a model, on inputs of these widths; the one for all where that is too long."""

        def make() -> Program:
            _, outputs, tables = self._sizes(model)
            short = sum(map(len, tables)) <= tuning.WRITTEN_OUT_MAX_TURNS
            constants = self.constants(model, dtype)
            return written_out(self.program, tables, inputs + outputs, constants) if short else self.program

        return self._specialized.get(model, dtype, make)

    @lru_cache(maxsize=256)  # noqa: B019
    def _for_structure(self, structure: Any, inputs: tuple[int, ...]) -> Program:
        """The program written out for all models of one structure."""
        tables = tuple(table for table, _ in self.turns(structure))
        return written_out(self.program, tables, inputs + tuple(self.widths(structure)), None)

    @lru_cache(maxsize=256)  # noqa: B019
    def _woven(self, structure: Any, *about: int) -> Woven | None:
        tables = tuple(table for table, _ in self.turns(structure, *about))
        return weave(self.program, tables) if sum(map(len, tables)) <= tuning.WOVEN_MAX_TURNS else None

    def direct(self, model: Model, dtype: np.dtype) -> Any:
        """A builtin on NumPy arrays q, and others like qd, for one model of plain arrays; None where there is none."""
        inputs = (model.nq, *[model.nv] * (self.program.n_inputs - 1))
        program = self._own_program(model, dtype, inputs) if model.specialized else self.program
        code = compiled(program, dtype.name)
        if code is None:
            return None
        slots, widths, tables = self._sizes(model)
        return code.bound(slots, inputs + widths, tables, self.constants(model, dtype))

    def _sizes(self, model: Model, *about: int) -> tuple[int, tuple, tuple]:
        """Slots, widths of the outputs, and tables."""
        shape = self.shape(model)
        tables = tuple(table for table, _ in self.turns(shape, *about))
        slots = self.memory.size * (model.nv + 1) if self.slots is None else self.slots(shape)
        return slots, self.widths(shape), tables


def _stack(turns: int, values: Any, dtype: Any) -> Any:
    leaves = jax.tree.leaves(values)
    library = jnp if any(isinstance(x, jax.Array) for x in leaves) else np
    if not leaves:
        return np.zeros((turns, 0), dtype)
    return library.stack([library.asarray(x, dtype) for x in leaves], -1)
