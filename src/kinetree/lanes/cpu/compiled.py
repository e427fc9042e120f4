"""Compiled lane programs for this CPU, called on NumPy arrays."""

import ctypes
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import tuning
from ..llvm.emit import trace
from ..llvm.handler import handler_text
from ..llvm.trigonometry import lane_module
from ..program.program import Program
from .addresses import addresses
from .columns import columns_text, finite_text
from .direct import available, bind, direct_text
from .function import LaneFunction
from .helpers import call_helpers, ready_team
from .host import loaded, vector_width
from .order import is_ordered, order_text
from .pieces import object_files
from .recycled import empty, reach_of
from .rest import GIVEN, SIGNATURE, some_lanes_text
from .shared import NO_MEMORY, part_lanes, shared_text

MAX_DIRECT_OUTPUTS = 6  # outputs; programs with more are parts of others, so Python never calls them


def has_direct(program: Program) -> bool:
    """True if the program's module has a function that Python can call."""
    return available() and 0 < program.n_outputs <= MAX_DIRECT_OUTPUTS


def task_lanes(program: Program) -> int:
    """The fewest lanes of a task, if a batch is divided into tasks."""
    return tuning.TASK_MIN_LANES if program.simple else tuning.REPEAT_TASK_MIN_LANES


def module_text(program: Program, dtype: np.dtype, width: int) -> str:
    """The whole LLVM module of a program."""
    jaxprs = [trace(loop, dtype) for loop in program.loops]
    return lane_module(finite_text(dtype, width), *_frame(program, jaxprs, dtype, width, {}).together)


def frame_texts(program: Program, jaxprs: list[Any], dtype: np.dtype, width: int, apart: dict[int, str]) -> list[str]:
    """Modules of everything except the loops `apart`. Long programs are three modules, which threads compile."""
    finite, frame = finite_text(dtype, width), _frame(program, jaxprs, dtype, width, apart)
    if sum(text.count("\n") for text in frame.together) <= tuning.ONE_MODULE_MAX_LINES:
        return [lane_module(finite, *frame.together)]
    declared = [f"declare i1 @{name}({SIGNATURE})" for name in ("lanes", "lane")]
    return [
        lane_module(finite, *frame.vector),
        lane_module(finite, frame.scalar),
        lane_module(*declared, *frame.callers),
    ]


class FrameText(NamedTuple):
    """The texts of a program besides its loops."""

    vector: list[str]  # `lanes`
    scalar: str  # `lane`
    callers: list[str]  # what XLA and Python call

    @property
    def together(self) -> list[str]:
        """All texts."""
        return [*self.vector, self.scalar, *self.callers]


def _frame(program: Program, jaxprs: list[Any], dtype: np.dtype, width: int, apart: dict[int, str]) -> FrameText:
    ordered = is_ordered(program)
    vector = [columns_text(dtype, width, ordered), *([order_text(SIGNATURE, GIVEN, width)] if ordered else [])]
    vector.append(LaneFunction(program, jaxprs, width, dtype, "blocks" if ordered else "lanes", apart).text())
    scalar = LaneFunction(program, jaxprs, 1, dtype, "lane", apart).text()
    callers = [some_lanes_text(program, width)]
    callers += [handler_text(program, dtype, width, task_lanes(program), ordered), shared_text(program, dtype, width)]
    if has_direct(program):
        callers.append(direct_text(program, dtype, width))
    return FrameText(vector, scalar, callers)


class CompiledProgram:
    """Machine code of a program in one dtype, and how to call it."""

    def __init__(self, program: Program, dtype: Any):
        # There is no reference to the program here, so that the program can die.
        self.dtype = kind = np.dtype(dtype)
        self.width = width = vector_width(kind)
        made_from = (program, has_direct(program))
        text = partial(module_text, program, kind, width)
        code = loaded(program.name, made_from, kind, text, partial(object_files, program, kind, width, frame_texts))
        self.code = code  # keeps the machine code alive
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        shared = ctypes.CFUNCTYPE(integer, *[pointer] * 6, *[integer] * 5, pointer, integer, pointer)
        self._shared = shared(code.address("shared"))
        self.direct = code.address("direct") if has_direct(program) else None

    def __call__(self, slots: int, output_widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
        """Outputs as `xla.run` gives them, on NumPy arrays."""
        lanes = inputs[0].shape[0]
        inputs = tuple(np.ascontiguousarray(x, self.dtype) for x in inputs)
        outputs = tuple(empty((lanes, w), self.dtype) for w in output_widths)
        if lanes:
            arrays = (tuple(x[None] for x in group) for group in (inputs, outputs))
            self.frames(slots, tables, constants, *arrays, whole=True)
        return outputs

    def room(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array for results, on the memory of an earlier result that is gone."""
        return empty(shape, self.dtype)

    def frames(
        self, slots: int, tables: tuple, constants: tuple, inputs: tuple, outputs: tuple, whole: bool = False
    ) -> None:
        """Run all frames, one after the other. Arrays are (frames, lanes, width), with any distance between lanes and
        between frames, so an input may be the result of an earlier frame. `whole`: there is one frame, without gaps.
        """
        frames, lanes = outputs[0].shape[:2]
        arrays = inputs + outputs
        own = [(ctypes.c_void_p * max(1, len(g)))(*(x.ctypes.data for x in g)) for g in (inputs, outputs)]
        pointers = *own, addresses(constants), addresses(tables)
        turns = np.array([len(t) for t in tables], np.int64)
        columns = [x.shape[2] for x in arrays]
        widths = np.array([x.strides[1] // self.dtype.itemsize for x in arrays] + columns, np.int64)
        between = np.array([x.strides[0] for x in arrays], np.int64)
        numbers = (turns.ctypes.data, widths.ctypes.data)
        ends = (0 if whole else frames, between.ctypes.data)
        reach = reach_of(outputs)
        slots += sum(columns)

        total = int(turns.sum())
        helpers = call_helpers() if frames * lanes * total >= tuning.SHARED_MIN_TURNS else 0
        least = part_lanes(total * frames, self.width) if helpers else max(1, lanes)
        if self._shared(*pointers, *numbers, reach, lanes, least, slots, helpers, ready_team(), *ends) & NO_MEMORY:
            raise MemoryError

    def bound(
        self, slots: int, widths: tuple[int, ...], tables: tuple, constants: tuple, *made: Any, **options: Any
    ) -> Any:
        """The program as a builtin for one model, or None if that is not possible; see `bind` in direct.py."""
        if self.direct is None:
            return None
        return bind(self, slots, widths, tables, constants, *made, **options)
