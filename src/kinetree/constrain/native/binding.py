"""A native program bound to a model: its tables for a plan, and its constants for a model and a time step."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from kinetree.dynamics.schedules.choose import may_sequence
from kinetree.lanes import Loop, Program, written_out
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model
from kinetree.spatial import Vec3

from .memory import ZERO3, fixed
from .parts import Known, Part, Parts, body_of, flat, once, stacked
from .plan import Plan


class Start(NamedTuple):
    """What all loops share."""

    gravity: Vec3
    h: Any
    least_time: Any


START = Start(ZERO3, 0.0, 0.0)


def starting() -> Part:
    """What all loops share."""

    def step(known: Start, _: tuple, __: tuple) -> tuple:
        return tuple(known), (), ()

    loop = Loop(step, 0, jax.tree.structure(START), writes=tuple(map(fixed, Start._fields)))

    def constants(model: Model, plan: Plan, known: Known) -> Start:
        least = 2 * known.h if plan.world.safe_reference else 0.0
        return Start(Vec3(*(model.gravity[k] for k in range(3))), known.h, least)

    return Part(loop, once, constants)


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


def tables_of(native: Native, plan: Plan) -> tuple[np.ndarray, ...]:
    """The tables of all loops, made once for a plan."""
    return _tables.get(plan, id(native), lambda: tuple(p.table(plan) for p in native.parts))


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
