"""A native program bound to a model: its tables for a plan, and its constants for a model and a time step."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from kinetree.dynamics.schedules.choose import may_sequence
from kinetree.lanes import Program, run, run_slope, written_out
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.linear import BoundProgram
from kinetree.lanes.program.single import Single, single
from kinetree.model import Model
from kinetree.spatial import Vec3

from .memory import ZERO3, fixed
from .parts import Known, Part, Parts, body_of, flat, once, part, stacked
from .plan import Plan


class Start(NamedTuple):
    """What all loops share."""

    gravity: Vec3
    h: Any
    least_time: Any


START = Start(ZERO3, 0.0, 0.0)


def starting() -> Part:
    """What all loops share."""

    def constants(model: Model, plan: Plan, known: Known) -> Start:
        least = 2 * known.h if plan.world.safe_reference else 0.0
        return Start(Vec3(*(model.gravity[k] for k in range(3))), known.h, least)

    return part(once, lambda known: tuple(known), (), tuple(map(fixed, Start._fields)), (START, constants))


class Native(NamedTuple):
    """A program with the parts that bind it to models."""

    program: Program
    parts: list[Part]

    @staticmethod
    def of(name: str, parts: Parts, inputs: int, outputs: int) -> "Native":
        """From all its parts."""
        return Native(Program(name, body_of(parts), inputs, outputs), flat(parts))


_tables: OncePerOwner[Any] = OncePerOwner()
_constants: OncePerOwner[Any] = OncePerOwner()
_singles: OncePerOwner[Single] = OncePerOwner()


def tables_of(native: Native, plan: Plan) -> tuple[np.ndarray, ...]:
    """The tables of all loops, made once for a plan."""

    def make() -> tuple[np.ndarray, ...]:
        found = tuple(p.table(plan) for p in native.parts)
        if [t.shape[1] for t in found] != [p.loop.columns for p in native.parts]:
            raise ValueError(f"{native.program.name}: a table has other columns than its loop")
        return found

    return _tables.get(plan, id(native), make)


class BoundNative(NamedTuple):
    """A program for a plan: its constants, and the widths of its outputs."""

    native: Native
    plan: Plan
    constants: tuple
    widths: tuple[int, ...]

    def values(self, *inputs: Any) -> tuple:
        """The outputs."""
        tables = tables_of(self.native, self.plan)
        return run(self.native.program, self.plan.slots, self.widths, tables, self.constants, inputs)

    def slopes(self, *inputs: Any, outputs: tuple[int, ...] | None = None) -> tuple:
        """What has the derivatives of a program without repeats, and is zero: of all outputs, or of some."""
        tables = tables_of(self.native, self.plan)
        key = id(self.native), outputs
        one = _singles.get(self.plan, key, lambda: single(self.native.program, tables, outputs))
        widths = self.widths if outputs is None else tuple(self.widths[k] for k in outputs)
        constants = one.constants(self.constants, inputs[0].dtype)
        return run_slope(one.program, one.slots, widths, one.tables, constants, inputs)

    @property
    def linear(self) -> BoundProgram:
        """A program that is linear in its last inputs."""
        tables = tables_of(self.native, self.plan)
        return BoundProgram(self.native.program, self.plan.slots, self.widths, tables, self.constants)


def written_for(native: Native, model: Model, plan: Plan, widths: tuple[int, ...], constants: tuple) -> Program | None:
    """The program written out for GPUs, if its lanes go different ways; None if it is not to be written out.

    Arguments:
        native: the program.
        model: what it is written out for.
        plan: of the model.
        widths: of inputs and outputs.
        constants: of all loops. Those that are traced, or None, stay inputs of the program.
    """
    traced = [isinstance(x, Tracer) for x in constants]
    if native.program.even or not may_sequence(model, not any(traced)):
        return None
    known = tuple(None if unknown else x for x, unknown in zip(constants, traced, strict=True))
    return written_out(native.program, tables_of(native, plan), widths, known, True, plan.mirror, plan.hot)


def constants_of(native: Native, model: Model, plan: Plan, dtype: Any, h: Any) -> tuple:
    """The constants of all loops; kept where the model is made of plain arrays."""
    model = model.uncoupled

    def make() -> tuple:
        pairs = zip(native.parts, tables_of(native, plan), strict=True)
        return tuple(stacked(len(t), p.constants(model, plan, Known(dtype, h)), dtype) for p, t in pairs)

    plain = not any(isinstance(x, jax.Array) for x in (*jax.tree.leaves(model), h))
    return _constants.get(model, (id(native), np.dtype(dtype).name, float(h)), make) if plain else make()
