"""RNEA of one huge tree by native walks: the recursion of rnea.py, chunks of paths and rows of levels side by side.

Outward, a chunk's rows are first put together into one element; prefixes of these over the chunks of a path say how
each chunk's inner end moves; then all chunks are walked. Inward the same with wrenches, which are put together on the
way out where no branches will join them. On a GPU that is a few kernels that read every number once or twice.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.lanes.prefix import exclusive_prefixes, prefix_walks
from kinetree.lanes.walk import Walk, take_walk
from kinetree.model import Axis, Placement, Rows, place
from kinetree.spatial import Force, Rates, RelativeMotion, Vec3
from kinetree.tree.stages import Stage, Stages

from .lane_rows import PLACEMENT, ROWS, ZERO3
from .rnea import MOTION, WRENCH, LoadedRow, MovingRow, base_rates, body_force
from .stage_passes import by_row, in_array, kept

tree_map, structure = jax.tree.map, jax.tree.structure
RATES, FORCE = Rates(ZERO3, ZERO3, ZERO3), Force(ZERO3, ZERO3)
NUMBER, NOTHING = structure(0.0), structure(())
AXIS = Axis(0.0, 0.0)
STATE = structure((0.0, 0.0, 0.0))  # q, qd, qdd of a row


def moving(frame: tuple, state: tuple) -> MovingRow:
    """A row's motion from its frame and axis, and its coordinate."""
    orientation, position, axis = frame
    q, qd, qdd = state
    return MovingRow(place(orientation, position, axis, q), axis, qd, qdd)


FRAME = (*PLACEMENT, AXIS)


def _put_together(e: RelativeMotion, frame: tuple, state: tuple, exists: Any) -> tuple:
    return MOTION.append(e, moving(frame, state)), ()


ELEMENT = structure(RelativeMotion(*PLACEMENT, ZERO3, ZERO3, ZERO3, ZERO3))
CONSTANT = jax.tree.unflatten(ROWS, range(ROWS.num_leaves))  # where each constant of a row is among its fields
MOVED = jax.tree.unflatten(structure((PLACEMENT, FORCE)), range(13))  # and what the way out leaves for the way in


REDUCE_OUTWARD = Walk(
    "rnea_reduce_outward",
    _put_together,
    ELEMENT,
    structure(FRAME),
    STATE,
    NOTHING,
    in_array(0, (CONSTANT.orientation, CONSTANT.position, CONSTANT.axis)),
    (ROWS.num_leaves,),
)
PREFIX_OUTWARD = prefix_walks("rnea_outward", MOTION.combine, RelativeMotion.identity_like, ELEMENT)  # type: ignore[arg-type]


LOAD = LoadedRow(PLACEMENT, FORCE)  # type: ignore[arg-type]


@lru_cache
def _outward(sources: int, remembered: bool, loading: bool) -> Walk:
    """Rates; where `loading`, also what the lane's rows will pass inward together."""

    def step(state: Any, row: Rows, given: tuple, exists: Any) -> tuple:
        rates = state[0] if loading else state
        at = moving((row.orientation, row.position, row.axis), given)
        rates = MOTION.step(at, rates)
        own = body_force(row.inertia, rates)
        results = (at.placed, own, *((rates,) if remembered else ()))
        if not loading:
            return rates, results
        outer = WRENCH.element(LoadedRow(at.placed, own), Force.zero_like(own.linear.x))  # type: ignore[misc]
        return (rates, kept(exists, WRENCH.combine(state[1], outer), state[1])), results  # type: ignore[misc]

    start = structure((RATES, LOAD) if loading else RATES)
    results = structure((PLACEMENT, FORCE, *((RATES,) if remembered else ())))
    fields = in_array(0, CONSTANT)
    return Walk("rnea_outward", step, start, ROWS, STATE, results, fields, (len(fields),), sources=sources)


def _loaded(row: tuple) -> tuple[LoadedRow, Force]:
    """The row, and what branches bring to it."""
    placed, own, *joining = row
    return LoadedRow(placed, own), joining[0] if joining else Force.zero_like(own.linear.x)


def _joined_step(e: LoadedRow, row: tuple, _: Any, exists: Any) -> tuple:
    return kept(exists, WRENCH.prepend(*_loaded(row), e), e), ()


REDUCE_INWARD = Walk(
    "rnea_reduce_inward",
    _joined_step,
    structure(LOAD),
    structure((PLACEMENT, FORCE, FORCE)),
    NOTHING,
    NOTHING,
    in_array(0, MOVED) + in_array(1, tuple(range(6))),
    (13, 6),
    reverse=True,
)


@lru_cache
def _inward(joined: bool, sources: int, scattered: bool) -> Walk:
    def step(received: Force, given: tuple, qdd: Any, exists: Any) -> tuple:
        axis, armature, *row = given
        load, joining = _loaded(tuple(row))
        received = received + joining
        tau = axis.dot(load.own + received) + armature * qdd
        return kept(exists, WRENCH.step(load, received), received), tau

    streams = structure((AXIS, 0.0, PLACEMENT, FORCE, *((FORCE,) if joined else ())))
    fields = in_array(0, (CONSTANT.axis, CONSTANT.armature)) + in_array(1, MOVED)
    widths = (ROWS.num_leaves, 13)
    if joined:
        fields, widths = fields + in_array(2, tuple(range(6))), (*widths, 6)
    force = structure(FORCE)
    return Walk("rnea_inward", step, force, streams, NUMBER, NUMBER, fields, widths, scattered, True, sources)


# what the chunks outside a chunk pass on: the walk comes from the outer end, so "before" is the outer one
PREFIX_INWARD = prefix_walks(
    "rnea_inward",
    lambda outer, inner: WRENCH.combine(inner, outer),  # type: ignore[misc]
    lambda s: LoadedRow(Placement.identity_like(s), Force.zero_like(s)),
    structure(LOAD),
)


def _outward_stage(stage: Stage, rows: Any, states: tuple, above: Rates, memory: Any) -> tuple[Rates, Any, Any]:
    """Rates at the outer ends of the lanes, what their rows pass inward together where that is known, and results.

    `above` are the rates of the stage before, `memory` those of all positions before.
    """
    if stage.chained:
        walk = _outward(1, stage.remembered, False)
        rates, results = take_walk(walk, stage.rows, above, (rows,), states, (stage.above,))
        return rates, None, results
    start = tree_map(lambda x: x[stage.above], memory)
    if stage.is_level:
        rates, results = take_walk(_outward(0, stage.remembered, False), stage.rows, start, (rows,), states)
        return rates, None, results
    dtype = states[0].dtype
    none = jnp.zeros(stage.rows.shape[1], dtype)
    totals, _ = take_walk(REDUCE_OUTWARD, stage.rows, RelativeMotion.identity_like(none), (rows,), states)
    before = exclusive_prefixes(PREFIX_OUTWARD, totals, jnp.asarray(stage.first, dtype))
    start = kept(stage.first, start, before.act(start))
    loading = not stage.remembered
    begin = (start, PREFIX_INWARD.identity(none)) if loading else start
    final, results = take_walk(_outward(0, stage.remembered, loading), stage.rows, begin, (rows,), states)
    return (*final, results) if loading else (final, None, results)


def _inward_stage(
    stage: Stage, rows: Any, loads: tuple, together: Any, below: Force, qdd: Any, scattered: bool
) -> tuple[Force, Any]:
    """What the lanes pass inward, and the forces of the joints; `below` is what the stage after passed."""
    joined = len(loads) == 2
    streams = (rows, *loads)
    n, none = qdd.shape[0], jnp.zeros(stage.rows.shape[1], qdd.dtype)
    if stage.children:
        walk = _inward(joined, len(stage.children), scattered)
        return take_walk(walk, stage.rows, below, streams, qdd, stage.children, rows=n)
    start = Force.zero_like(none)
    if not stage.is_level:
        if joined:
            together, _ = take_walk(REDUCE_INWARD, stage.rows, PREFIX_INWARD.identity(none), loads)
        last = jnp.concatenate([stage.first[1:], jnp.ones(1, bool)])  # the outermost lane of its run
        outside = exclusive_prefixes(PREFIX_INWARD, together, jnp.asarray(last, qdd.dtype), reverse=True)
        start = kept(last, start, WRENCH.act(outside, start))  # type: ignore[misc]
    return take_walk(_inward(joined, 0, scattered), stage.rows, start, streams, qdd, rows=n)


def rnea_over_stages(
    laid: Stages, constants: tuple[Any, ...], gravity: Vec3, states: tuple[Any, Any, Any], qdd: Any
) -> Any:
    """Generalised forces (n,).

    `constants` are those of each stage's cells, (turns, fields, lanes), in the order of `Rows`; `states` are the
    coordinate, velocity and acceleration of each row, (n,); `qdd` the accelerations that armatures feel.
    """
    base = base_rates(gravity)
    memory = tree_map(lambda x: x[None], base)
    branching = any(s.remembered for s in laid.stages)
    moved, rates = [], memory
    for stage, rows in zip(laid.stages, constants, strict=True):
        rates, together, results = _outward_stage(stage, rows, states, rates, memory)
        moved.append((results[:, :13], together))
        if branching:
            none = Rates(*3 * (Vec3.zero_like(jnp.zeros(stage.rows.size, qdd.dtype)),))
            seen = [results[:, 13 + k].reshape(-1) for k in range(9)] if stage.remembered else []
            cells = jax.tree.unflatten(structure(RATES), seen) if stage.remembered else none
            memory = tree_map(lambda a, b: jnp.concatenate([a, b]), memory, cells)
    branches = Force.zero_like(jnp.zeros(laid.positions, qdd.dtype))
    scattered = len(laid.stages) == 1
    taus, below = [], Force.zero_like(jnp.zeros(1, qdd.dtype))
    for stage, rows, (load, together) in reversed(list(zip(laid.stages, constants, moved, strict=True))):
        loads = (load,)
        if stage.remembered:
            shape = stage.rows.shape
            loads += (jnp.stack([x[stage.cells].reshape(shape) for x in jax.tree.leaves(branches)], 1),)
        below, tau = _inward_stage(stage, rows, loads, together, below, qdd, scattered)
        taus.append(tau.reshape(-1))
        if branching and not stage.chained:
            passed = kept(stage.first, below, tree_map(jnp.zeros_like, below))
            branches = tree_map(lambda b, p, s=stage: b.at[s.above].add(p), branches, passed)
    return taus[0] if scattered else by_row(laid, taus[::-1])
