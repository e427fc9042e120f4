"""Walks on an NVIDIA GPU: one thread for each lane.

The handler gets the arrays in the order of walks/text.py. Its attributes are the numbers of lanes and turns, and the
address of the resident array.
"""

from typing import Any

import numpy as np

from ..kept.once import once
from ..llvm.handler import addresses, attribute, given_or
from ..llvm.text import Text
from ..walks.text import WalkText, traced
from ..walks.walk import Resident, Walk, WalkSize, ffi_call, first_stream
from .driver import begin_handler, launch_values, plain_target
from .ptx import global_thread, gpu_module


class PtxWalk(WalkText):
    """A kernel with one thread for each lane."""

    space = " addrspace(1)"

    def __init__(self, walk: Walk, closed: Any, dtype: Any):
        super().__init__(walk, closed, 1, dtype)
        to = self.to
        self.pointers = [f"%a{k}" for k in range(self.starts[-1])]
        arguments = [f"ptr{self.space} noalias {p}" for p in self.pointers] + ["i64 %turns", "i64 %lanes"]
        to.begin(f"ptx_kernel void @kernel({', '.join(arguments)})")
        lane, _ = global_thread(to)
        to.branch(to.op(f"icmp slt i64 {lane}, %lanes"), "inside", "done")
        to.label("inside")
        self.turns(lane, "done")
        to.label("done")
        to.end()


def gpu_text(walk: Walk, dtype: np.dtype) -> str:
    """The whole module of the kernel."""
    return gpu_module(PtxWalk(walk, traced(walk, dtype), dtype).text())


@once
def _target(walk: Walk, dtype: str) -> str | None:
    kind, n = np.dtype(dtype), walk.state.num_leaves
    inputs, outputs = n + walk.sources + 1 + len(walk.widths) + walk.gathered.num_leaves, n + walk.outputs

    def launch(function: int) -> Text:
        to = begin_handler(inputs + outputs + 2)
        lanes, turns = (attribute(to, k) for k in (1, 2))
        arrays = addresses(to, inputs, outputs)
        if walk.widths:
            arrays[first_stream(walk)] = given_or(to, attribute(to, 3), arrays[first_stream(walk)])
        values = [("ptr", a) for a in arrays]
        launch_values(to, [*values, ("i64", turns), ("i64", lanes)], lanes, function)
        return to

    return plain_target(walk.name, walk, kind, lambda: gpu_text(walk, kind), launch)


def take_native_walk(walk: Walk, shape: WalkSize, arrays: Any, resident: Resident | None = None) -> list | None:
    """Results on traced arrays, or None if there is no native body."""
    name = _target(walk, np.dtype(arrays[0].dtype).name)
    return None if name is None else ffi_call(name, walk, shape, arrays, resident)
