"""Walks: many lanes, each going along its own stretch of rows with a state that it carries.

This is the lane machine for huge trees. A lane is a chunk of a long path, or one row of a level. All lanes take the
same number of turns. A turn reads the carried state, the data of its cell, and data at the row of its cell; it returns
the next state and results. In JAX this is `lax.scan` over arrays of (turns, lanes), which platforms without native code
run; in native code the state stays in registers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from kinetree._varying import SharedPrimitive, scan

from ..target import Target, define_eager, lower

tree_map, leaves, structure = jax.tree.map, jax.tree.leaves, jax.tree.structure


@dataclass(frozen=True, eq=False)
class Walk:
    """`step(state, streams, gathered, exists) -> (state, results)`. Compared by identity: make each one once.

    `streams` are fields of the cell, in arrays of (turns, fields, lanes), so that what a turn needs lies together: leaf
    k is field `fields[k]`, an array's number and a place in it. `gathered` are arrays that are read at the row of each
    cell; `exists` is true if the cell has a row. Results go to cells, as fields of one array, or, if `scattered`, to
    the rows, one array for each. A lane starts from its entry of the given states or, with `sources`, from the sum of
    as many entries.
    """

    name: str
    step: Callable[[Any, Any, Any, Any], tuple[Any, Any]]
    state: Any  # treedefs
    streams: Any
    gathered: Any
    results: Any
    fields: tuple[tuple[int, int], ...] = ()
    widths: tuple[int, ...] = ()  # fields of each array
    scattered: bool = False
    reverse: bool = False
    sources: int = 0

    @property
    def outputs(self) -> int:
        """Arrays of results."""
        count = self.results.num_leaves
        return count if self.scattered else min(count, 1)


@jax.tree_util.register_static
class Resident:
    """An array that programs read by its address: XLA would take seconds to compile a large constant.

    In JAX's pytrees it has no leaves. Programs keep it alive. It is the first array of the streams.
    """

    def __init__(self, array: jax.Array):
        self.array, self.dtype = array.block_until_ready(), array.dtype
        self._made: dict[Any, Any] = {}

    def is_on(self, ctx: Any) -> bool:
        """True if the program that is being lowered runs on the device of the array."""
        (device,) = self.array.devices()
        platforms = tuple(ctx.module_context.platforms)
        return len(platforms) == 1 and (device.platform == "cpu") == (platforms == ("cpu",))

    def made(self, key: Any, function: Callable[[Any], Any]) -> Any:
        """The result of a function of the array, computed once, before any program runs."""
        if key not in self._made:
            with jax.ensure_compile_time_eval():
                self._made[key] = jax.jit(function)(self.array)
        return self._made[key]

    def __reduce__(self) -> Any:
        raise TypeError("a program that knows a huge tree by its address can not be pickled; jax.export can write it")


@dataclass(frozen=True)
class WalkSize:
    """Turns, lanes, and how many rows results are scattered to."""

    turns: int
    lanes: int
    rows: int = 0


def by_xla(*arrays: Any, walk: Walk, shape: WalkSize, resident: Resident | None = None) -> list:
    """The body for any platform. Arrays: states, sources, rows of the cells, streams, gathered."""
    arrays = _shown(walk, arrays, resident)
    states, sources, index, streams, gathered = split(walk, arrays)
    if walk.sources:
        present = [s >= 0 for s in sources]
        states = [
            sum(jnp.where(p, x[jnp.maximum(s, 0)], 0) for s, p in zip(sources, present, strict=True)) for x in states
        ]

    def turn(state: Any, cell: Any) -> tuple:
        row, data = cell
        here = [data[array][place] for array, place in walk.fields]
        at_row = [x[jnp.maximum(row, 0)] for x in gathered]
        new, results = walk.step(
            state, jax.tree.unflatten(walk.streams, here), jax.tree.unflatten(walk.gathered, at_row), row >= 0
        )
        return new, leaves(results)

    start = jax.tree.unflatten(walk.state, states)
    final, results = scan(turn, start, (index, streams), reverse=walk.reverse)
    if walk.scattered:
        where = jnp.where(index >= 0, index, shape.rows)
        results = [jnp.zeros(shape.rows, r.dtype).at[where].set(r, mode="drop") for r in results]
    elif results:
        results = [jnp.stack(results, 1)]
    return [*leaves(final), *results]


def split(walk: Walk, arrays: Any) -> tuple:
    """States, sources, rows, streams, gathered."""
    counts = [walk.state.num_leaves, walk.sources, 1, len(walk.widths)]
    ends = np.cumsum(counts)
    a = list(arrays)
    return a[: ends[0]], a[ends[0] : ends[1]], a[ends[1]], a[ends[2] : ends[3]], a[ends[3] :]


def shapes(walk: Walk, shape: WalkSize) -> list[tuple[int, ...]]:
    """The shapes of the final states and of the results."""
    cells = (shape.rows,) if walk.scattered else (shape.turns, walk.results.num_leaves, shape.lanes)
    return [(shape.lanes,)] * walk.state.num_leaves + [cells] * walk.outputs


def first_stream(walk: Walk) -> int:
    """The number of the array that may be resident."""
    return walk.state.num_leaves + walk.sources + 1


def _shown(walk: Walk, arrays: Any, resident: Resident | None) -> Any:
    """The arrays, with the resident one in its place."""
    at = first_stream(walk)
    return arrays if resident is None else (*arrays[:at], jnp.asarray(resident.array), *arrays[at + 1 :])


def _abstract(*arrays: Any, walk: Walk, shape: WalkSize, resident: Resident | None) -> list:
    return [ShapedArray(s, arrays[0].dtype) for s in shapes(walk, shape)]


def ffi_call(name: str, walk: Walk, shape: WalkSize, arrays: Any, resident: Resident | None, grain: int = 1) -> list:
    """Call an FFI target with the arrays. `grain`, the lanes that a thread takes at a time, is for CPUs."""
    address = 0 if resident is None else resident.array.unsafe_buffer_pointer()
    wanted = tuple(jax.ShapeDtypeStruct(s, arrays[0].dtype) for s in shapes(walk, shape))
    counts = {"a_grain": grain, "b_lanes": shape.lanes, "c_turns": shape.turns, "d_held": address}
    return list(jax.ffi.ffi_call(name, wanted)(*arrays, **{key: np.int64(n) for key, n in counts.items()}))


def _natively(target: Target, *arrays: Any, walk: Walk, shape: WalkSize, resident: Resident | None) -> list | None:
    return target.walk(walk, shape, arrays, resident)


def _prepared(ctx: Any, body: Callable) -> Callable:
    """A body that keeps its resident array alive as long as the program. Exported programs contain its numbers."""

    def run(*arrays: Any, walk: Walk, shape: WalkSize, resident: Resident | None) -> list:
        if resident is not None and (ctx.module_context.lowering_parameters.for_export or not resident.is_on(ctx)):
            arrays, resident = _shown(walk, arrays, resident), None
        if resident is not None:
            ctx.module_context.add_keepalive(resident)
        return body(*arrays, walk=walk, shape=shape, resident=resident)

    return run


WALK = SharedPrimitive("kinetree_walk")
WALK.multiple_results = True
WALK.def_abstract_eval(_abstract)
lower(WALK, by_xla, _natively, _prepared)
define_eager(WALK)


def take_walk(
    walk: Walk, index: Any, start: Any, streams: tuple = (), gathered: Any = (), sources: Any = (), rows: int = 0
) -> tuple[Any, Any]:
    """Final states, leaves (lanes,), and results: one array (turns, fields, lanes), or if scattered leaves (rows,).

    `index`, (turns, lanes) of int32, has the row of each cell, −1 for none. Each of the `sources`, (lanes,), has the
    entry of the given states where a lane starts, −1 for none.
    """
    resident = streams[0] if streams and isinstance(streams[0], Resident) else None
    if resident is not None:  # leave a place for the resident array
        streams = (jnp.zeros((1, 1, 1), resident.dtype), *streams[1:])
    arrays = [*leaves(start), *sources, index, *streams, *leaves(gathered)]
    shape = WalkSize(index.shape[0], index.shape[1], rows if walk.scattered else 0)
    out = WALK.bind(*arrays, walk=walk, shape=shape, resident=resident)
    n = walk.state.num_leaves
    final, results = jax.tree.unflatten(walk.state, out[:n]), out[n:]
    if walk.scattered:
        return final, jax.tree.unflatten(walk.results, results)
    return final, results[0] if results else None
