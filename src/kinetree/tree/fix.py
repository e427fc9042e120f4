"""rootfix and leaffix: a recursion over the tree, outward or inward, under any schedule.

`outward` and `inward` are the executor: they run an operator over a layout, on data already arranged by position.
`rootfix` and `leaffix` are the same for data in row order. Leaves of rows and states have the row (or position) as
first axis and any batch axes after it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kinetree._varying import fori_loop, scan

from .layout import Grid, Layout, layout
from .operator import Element, InwardRecursion, OutwardRecursion, Row, State, require
from .picked import pick
from .stacked import Stacked, stack, unstack
from .topology import Tree

tree_map = jax.tree.map


def arrange(laid: Layout, rows: Row) -> Row:
    """From row order to position order."""
    if laid.positions == 1:  # there is only the base
        return tree_map(lambda x: jnp.zeros((1, *x.shape[1:]), x.dtype), rows)
    return pick(tree_map(jnp.asarray, rows), laid.row_at)


def restore(laid: Layout, cells: Any) -> Any:
    """From position order to row order."""
    return pick(cells, laid.position_of)


def _where(mask: Any, a: Any, b: Any) -> Any:
    """Select by a mask over the leading axes."""

    def choose(x: Any, y: Any) -> Any:
        return jnp.where(mask.reshape(mask.shape + (1,) * (jnp.ndim(x) - mask.ndim)), x, y)

    return tree_map(choose, a, b)


def _empty(positions: int, like: State) -> Stacked:
    """Zeros for the states of all positions, (leaves, positions, ...); `like` is one state."""
    return [jnp.zeros((m.shape[0], positions, *m.shape[1:]), m.dtype) for m in jax.eval_shape(stack, like)]


def _recall(memory: Stacked, positions: Any, like: State) -> State:
    return unstack(pick(memory, positions, axis=1), like)


def _cells(grid: Grid, data: Any) -> Any:
    """The part of position-ordered data that a grid covers, as (count, steps, width, ...)."""
    size = grid.valid.size
    return tree_map(lambda x: x[grid.offset : grid.offset + size].reshape(*grid.shape, *x.shape[1:]), data)


def _scan_lanes(combine: Any, e: Element, place: Any, longest: int, towards: int) -> Element:
    """Inclusive scan over the lanes of each run, in log2(longest) rounds; `place` counts lanes from the run's start."""
    lanes = jnp.arange(place.shape[0])

    def double(k: Any, e: Element) -> Element:
        reach = jnp.left_shift(1, k)
        source = (lanes - towards * reach) % place.shape[0]
        other = pick(e, source)
        return _where(place >= reach, combine(other, e), e)

    return fori_loop(0, (longest - 1).bit_length(), double, e)


def _neighbour(e: Element, towards: int) -> Element:
    return tree_map(lambda x: jnp.roll(x, towards, axis=0), e)


def outward(op: OutwardRecursion, laid: Layout, rows: Row, base: State) -> State:
    """States of all positions; `base` is the base's state, with batch axes only."""
    return outward_visits(op, laid, rows, base)[0]


def outward_visits(op: OutwardRecursion, laid: Layout, rows: Row, base: State) -> tuple[State, Any]:
    """States of all positions, and the results of their rows; `base` is the base's state, with batch axes only."""
    if any(g.longest_run > 1 for g in laid.grids):
        require(op.composes, op, laid.schedule, "element, combine, act and identity")
    memory = tree_map(lambda b: jnp.zeros((laid.positions - 1, *jnp.shape(b)), jnp.result_type(b)), base)
    states = tree_map(lambda b, m: jnp.concatenate([jnp.asarray(b)[None], m]), base, memory)
    first = tree_map(lambda x: x[:1], (rows, states))
    shapes = jax.eval_shape(op.visit, *first)[1]
    found = tree_map(lambda x: jnp.zeros((laid.positions, *x.shape[1:]), x.dtype), shapes)
    for grid in laid.grids:
        states, found = _outward_grid(op, grid, _cells(grid, rows), (states, found))
    return states, found


def _outward_grid(op: OutwardRecursion, grid: Grid, rows: Row, memory: tuple[State, Any]) -> tuple[State, Any]:
    count, steps, width = grid.shape

    def visit(memory: tuple[State, Any], turn: Any) -> tuple[tuple[State, Any], None]:
        number, row, source, rank = turn
        start = pick(memory[0], source)
        if grid.longest_run > 1:
            first, rest = tree_map(lambda x: x[0], row), tree_map(lambda x: x[1:], row)
            total, _ = scan(lambda e, r: (op.append(e, r), None), op.element(first), rest)  # type: ignore[misc]
            prefix = _neighbour(_scan_lanes(op.combine, total, rank, grid.longest_run, 1), 1)
            start = _where(rank > 0, op.act(prefix, start), start)  # type: ignore[misc]
        if steps == 1:
            results = op.visit(tree_map(lambda x: x[0], row), start)
        else:

            def walk(s: State, r: Row) -> tuple[State, tuple[State, Any]]:
                state, found = op.visit(r, s)
                return state, (state, found)

            _, results = scan(walk, start, row)
            results = tree_map(lambda x: x.reshape(steps * width, *x.shape[2:]), results)
        begin = grid.offset + number * (steps * width)
        return tree_map(lambda m, s: lax.dynamic_update_slice_in_dim(m, s, begin, 0), memory, results), None

    turns = (jnp.arange(count), rows, grid.source, grid.rank)
    if count == 1:
        return visit(memory, tree_map(lambda x: x[0], turns))[0]
    return scan(visit, memory, turns)[0]


def inward(op: InwardRecursion, laid: Layout, rows: Row, like: State) -> State:
    """What flows into each position from its children; at position 0, into the base. `like` has batch axes only."""
    return inward_visits(op, laid, rows, like)[0]


def inward_visits(op: InwardRecursion, laid: Layout, rows: Row, like: State) -> tuple[State, Any]:
    """What flows into each position from its children, and what rows find; of the latter the base has zeros."""
    if any(g.longest_run > 1 for g in laid.grids):
        require(op.composes, op, laid.schedule, "element, combine, act and identity")
    # The states from light branches are collected here, apart from the totals, so that XLA updates them in place.
    branches = _empty(laid.positions, like)
    totals = []
    for grid in reversed(laid.grids):
        branches, total = _inward_grid(op, grid, _cells(grid, rows), branches, like)
        totals.append(total)
    into_base = unstack([m[:, :1] for m in branches], like)
    shapes = jax.eval_shape(op.visit, tree_map(lambda x: x[:1], rows), into_base)[1]
    totals.append((into_base, tree_map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)))
    return tree_map(lambda *parts: jnp.concatenate(parts), *reversed(totals))


def _inward_grid(
    op: InwardRecursion, grid: Grid, rows: Row, branches: Stacked, like: State
) -> tuple[Stacked, tuple[State, Any]]:
    count, steps, width = grid.shape

    def flow(state: State, turn: Any) -> tuple[State, tuple[State, Any]]:
        row, joining, valid = turn
        total = tree_map(jnp.add, joining, state)
        passed, found = op.visit(row, total)
        return _where(valid, passed, tree_map(jnp.zeros_like, total)), (total, found)

    def gather(e: Element, turn: Any) -> tuple[Element, None]:
        row, joining, valid = turn
        return _where(valid, op.prepend(row, joining, e), e), None

    def visit(branches: Stacked, turn: Any) -> tuple[Stacked, tuple[State, Any]]:
        number, row, source, rank, run, valid = turn
        # a gather, though the cells are consecutive: with a slice XLA would copy the whole memory at every visit
        cells = grid.offset + number * (steps * width) + jnp.arange(steps * width)
        joining = tree_map(lambda x: x.reshape(steps, width, *x.shape[1:]), _recall(branches, cells, like))
        start = tree_map(lambda b: jnp.zeros_like(b[0]), joining)
        if grid.longest_run > 1:
            neutral = op.identity(op.element(*tree_map(lambda x: x[-1], (row, joining))))  # type: ignore[misc]
            place = run - 1 - rank
            lent = None
            if op.ballast and op.lend:
                lent = _where(place > 0, op.ballast(row, joining), start)
                neutral = op.lend(neutral, lent)
            total, _ = scan(gather, neutral, (row, joining, valid), reverse=True)
            if lent is not None:
                total = op.lend(total, _where(rank > 0, tree_map(jnp.negative, _neighbour(lent, 1)), start))  # type: ignore[misc]
            # a lane takes what the lanes outside it in its run pass on: they come after it, so "earlier" is the outer
            # one
            suffix = _scan_lanes(lambda outer, inner: op.combine(inner, outer), total, place, grid.longest_run, -1)  # type: ignore[misc]
            start = _where(place > 0, op.act(_neighbour(suffix, -1), start), start)  # type: ignore[misc]
            start = start if lent is None else tree_map(jnp.add, start, lent)
        if steps == 1:
            out, total = flow(start, tree_map(lambda x: x[0], (row, joining, valid)))
        else:
            out, total = scan(flow, start, (row, joining, valid), reverse=True)
            total = tree_map(lambda x: x.reshape(steps * width, *x.shape[2:]), total)
        out = _where(rank == 0, out, tree_map(jnp.zeros_like, out))  # the others flow into a lane that has counted them
        passed = zip(branches, stack(out), strict=True)
        return [m.at[:, source].add(x, mode="promise_in_bounds") for m, x in passed], total

    turns = (jnp.arange(count), rows, grid.source, grid.rank, grid.run, grid.valid)
    if count == 1:
        return visit(branches, tree_map(lambda x: x[0], turns))
    branches, totals = scan(visit, branches, turns, reverse=True)
    return branches, tree_map(lambda x: x.reshape(count * steps * width, *x.shape[2:]), totals)


def rootfix(
    tree: Tree, op: OutwardRecursion, rows: Row, base: State, *, schedule: str = "paths", exclusive: bool = False
) -> State:
    """State of every row, in row order: the result of its step on its parent's state (exclusive: the parent's)."""
    laid = layout(tree, schedule)
    states = outward(op, laid, arrange(laid, rows), base)
    if exclusive:
        above = jnp.where(tree.parent >= 0, jnp.asarray(laid.position_of)[tree.parent], 0)
        return pick(states, above)
    return restore(laid, states)


def leaffix(
    tree: Tree, op: InwardRecursion, rows: Row, like: State, *, schedule: str = "paths", exclusive: bool = False
) -> State:
    """The state that every row passes inward, in row order (exclusive: the state that its children pass to it)."""
    laid = layout(tree, schedule)
    arranged = arrange(laid, rows)
    into = inward(op, laid, arranged, like)
    return restore(laid, into if exclusive else op.step(arranged, into))
