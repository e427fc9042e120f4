"""A recursion over the stages of a huge tree, outward or inward, by native walks.

Levels, and paths that are not cut, are walked lane by lane. Chunks of a path are first reduced, each to one element.
Prefixes of the elements find what enters each chunk. Then all chunks are walked. Values that cross from one stage to
another go through memory. If a tree is spread over devices, each device has a part that hangs from several bases. The
values that enter these bases, and the outer ends of the spines between them, come through `SharedPorts`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes.walks.prefix import Prefix, exclusive_prefixes
from kinetree.lanes.walks.walk import Walk, take_walk
from kinetree.tree import pick
from kinetree.tree.stages import Stage, Stages

tree_map, structure = jax.tree.map, jax.tree.structure


def new_state(exists: Any, new: Any, old: Any) -> Any:
    """The new state if there is a row, else the old one."""
    return tree_map(lambda a, b: jnp.where(exists, a, b), new, old)


def in_array(array: int, places: Any) -> tuple[tuple[int, int], ...]:
    """Fields of one array, for `Walk.fields`, from their places in it."""
    return tuple((array, place) for place in jax.tree.leaves(places))


class SharedPorts(NamedTuple):
    """The connections of a part of a tree to the others (tree/dealt.py); its first stage is the spines.

    `enter(act, spines, base)` finds the states that enter the bases, and `receive(act, spines, passed)` those that
    enter the outer ends of the spines. `spines` are elements; `passed` are the other states that flow into each base.
    """

    exist: Any  # (bases,): True if there is a spine
    first: Any  # (bases,): the lanes in which spines begin and end
    last: Any
    carries: Any  # (bases,): True if other parts hang from the end
    enter: Callable[[Callable, Any, Any], Any]
    receive: Callable[[Callable, Any, Any], Any]


class OutwardWalks(NamedTuple):
    """Walks of a recursion from the base to the leaves.

    `walk(sources, remembered, scattered)` has `fields` results, and after them, if `remembered`, the state itself.
    `reduce(whole)` makes an element of a chunk; if not `whole`, it is wrong for the last chunk of a run. `gathering`,
    if given, is a walk for chunks without branches, and the start of a second state that it carries: an element of a
    later recursion, of all rows of the chunk.
    """

    reduce: Callable[[bool], Walk]
    prefix: Prefix
    combine: Callable[[Any, Any], Any]
    act: Callable[[Any, Any], Any]
    walk: Callable[[int, bool, bool], Walk]
    fields: int
    gathering: tuple[Walk, Callable[[Any], Any]] | None = None


def outward_pass(
    laid: Stages,
    walks: OutwardWalks,
    base: Any,
    streams: Sequence[tuple],
    gathered: Any,
    scattered: bool = False,
    ports: SharedPorts | None = None,
) -> tuple[list[Any], list[Any]]:
    """Results of all stages, and the elements that their chunks gathered, or None.

    `base` is the state at the base, `streams` are the arrays of each stage.
    """
    memory, inner = tree_map(lambda x: x[None], base), None
    if ports is not None:
        spines, inner = _spines_outward(laid.stages[0], walks, streams[0], gathered, ports)
        memory = ports.enter(walks.act, spines, base)
    branching = ports is not None or any(s.remembered for s in laid.stages)
    rows = laid.position_of.shape[0]
    found, together, state = [], [], memory
    for stage, arrays in zip(laid.stages, streams, strict=True):
        walk, whole = walks.walk(int(stage.chained), stage.remembered, scattered), None
        if stage.chained:
            state, results = take_walk(walk, stage.rows, state, arrays, gathered, (stage.above,), rows)
        else:
            start = pick(memory, stage.above)
            if stage.cut:
                before = _before(stage, walks, arrays, gathered)[0] if inner is None else inner
                start, inner = new_state(stage.first, start, walks.act(before, start)), None
            if not stage.cut or stage.remembered or walks.gathering is None:
                state, results = take_walk(walk, stage.rows, start, arrays, gathered, rows=rows)
            else:
                walk, nothing = walks.gathering
                begin = (start, nothing(jnp.zeros_like(jax.tree.leaves(start)[0])))
                (state, whole), results = take_walk(walk, stage.rows, begin, arrays, gathered, rows=rows)
        found.append(results)
        together.append(whole)
        if branching:
            memory = tree_map(lambda a, b: jnp.concatenate([a, b]), memory, _cells(stage, results, state, walks.fields))
    return found, together


def _cells(stage: Stage, results: Any, like: Any, fields: int) -> Any:
    """States of all cells of a stage; zero where no later stage reads them."""
    leaves, tree = jax.tree.flatten(like)
    if not stage.remembered:
        return tree_map(lambda x: jnp.zeros(stage.rows.size, x.dtype), like)
    return jax.tree.unflatten(tree, [results[:, fields + k].reshape(-1) for k in range(len(leaves))])


def _before(stage: Stage, walks: OutwardWalks, arrays: tuple, gathered: Any, whole: bool = False) -> tuple[Any, Any]:
    """For each chunk, the element of all chunks before it in its run, and its own."""
    none = jnp.zeros(stage.rows.shape[1], arrays[0].dtype)
    totals, _ = take_walk(walks.reduce(whole), stage.rows, walks.prefix.identity(none), arrays, gathered)
    return exclusive_prefixes(walks.prefix, totals, jnp.asarray(stage.first, none.dtype)), totals


def _spines_outward(
    stage: Stage, walks: OutwardWalks, arrays: tuple, gathered: Any, ports: SharedPorts
) -> tuple[Any, Any]:
    """The elements of whole spines, and those of all chunks before each chunk."""
    before, totals = _before(stage, walks, arrays, gathered, True)
    inner, last = pick((before, totals), ports.last)
    return new_state(ports.first == ports.last, last, walks.combine(inner, last)), before


class InwardWalks(NamedTuple):
    """Walks of a recursion from the leaves to the base. `joined` walks have one more array, the results of branches.

    `walk(joined, sources, scattered)` and `reduce(joined)` are the walks. `received(element)` is the state that a chunk
    passes inward if nothing enters its outer end; its prefix combines (outer, inner). `ballast(arrays)`, if given, is
    the state that a chunk borrows at its outer end and gives back, see `tree.Inward`; `lend(element, state)` adds to
    the state that an element passes.
    """

    reduce: Callable[[bool], Walk]
    prefix: Prefix
    combine: Callable[[Any, Any], Any]
    act: Callable[[Any, Any], Any]
    received: Callable[[Any], Any]
    walk: Callable[[bool, int, bool], Walk]
    zero: Callable[[Any], Any]
    ballast: Callable[[tuple], Any] | None = None
    lend: Callable[[Any, Any], Any] | None = None


def inward_pass(
    laid: Stages,
    walks: InwardWalks,
    streams: Sequence[tuple],
    gathered: Any,
    together: Sequence[Any],
    scattered: bool = False,
    ports: SharedPorts | None = None,
) -> list[Any]:
    """Results of all stages; `together` are the elements of chunks if they are known already, else None."""
    dtype, rows = streams[0][0].dtype, laid.position_of.shape[0]
    branches = walks.zero(jnp.zeros(laid.positions, dtype))
    branching = ports is not None or any(s.remembered for s in laid.stages)
    found, below = [], walks.zero(jnp.zeros(1, dtype))
    for stage, arrays, whole in reversed(list(zip(laid.stages, streams, together, strict=True))):
        joined = stage.remembered
        if joined:
            cells = [x[stage.cells].reshape(stage.rows.shape) for x in jax.tree.leaves(branches)]
            arrays = (*arrays, jnp.stack(cells, 1))
        walk = walks.walk(joined, len(stage.children), scattered)
        if stage.children:
            below, results = take_walk(walk, stage.rows, below, arrays, gathered, stage.children, rows)
        else:
            none = jnp.zeros(stage.rows.shape[1], dtype)
            start = walks.zero(none)
            if stage.cut:
                through = None if ports is None or stage is not laid.stages[0] else (ports, branches)
                start = _from_outside(stage, walks, arrays, gathered, whole, none, through)
            below, results = take_walk(walk, stage.rows, start, arrays, gathered, rows=rows)
        found.append(results)
        if branching and not stage.chained and not (ports is not None and stage is laid.stages[0]):
            passed = new_state(stage.first, below, tree_map(jnp.zeros_like, below))
            branches = tree_map(lambda b, p, s=stage: b.at[s.above].add(p), branches, passed)
    return found[::-1]


def _from_outside(
    stage: Stage,
    walks: InwardWalks,
    arrays: tuple,
    gathered: Any,
    totals: Any,
    none: Any,
    through: tuple[SharedPorts, Any] | None,
) -> Any:
    """The state that the chunks outside each chunk pass to it. `totals` are the chunks' elements, or None."""
    last = jnp.concatenate([stage.first[1:], jnp.ones(1, bool)])  # the outermost chunk of its run
    neutral, lent, zero = walks.prefix.identity(none), None, walks.zero(none)
    if walks.ballast and walks.lend:
        alone = last if through is None else last & ~through[0].carries[stage.above]
        lent = new_state(alone, zero, walks.ballast(arrays))
        neutral = walks.lend(neutral, lent)
    if totals is None:
        totals, _ = take_walk(walks.reduce(stage.remembered), stage.rows, neutral, arrays, gathered)
    if lent is not None and walks.lend:
        of_inner = tree_map(lambda x: -jnp.roll(x, 1), lent)
        totals = walks.lend(totals, new_state(stage.first, zero, of_inner))
    outside = exclusive_prefixes(walks.prefix, totals, jnp.asarray(last, none.dtype), reverse=True)
    if through is None:
        start = new_state(last, zero, walks.received(outside))
        return start if lent is None else tree_map(jnp.add, start, lent)
    return _through_ports(stage, walks, totals, outside, last, lent, *through)


def _through_ports(
    stage: Stage, walks: InwardWalks, totals: Any, outside: Any, last: Any, lent: Any, ports: SharedPorts, branches: Any
) -> Any:
    """The state that enters each chunk of the spines from outside, also from other parts of the tree."""
    inner, outer = pick((totals, outside), ports.first)
    spines = new_state(ports.first == ports.last, inner, walks.combine(inner, outer))
    at_end = None if lent is None else pick(lent, ports.last)

    def act(e: Any, state: Any) -> Any:
        """The action of an element that already has ballast at its outer end."""
        element, had, exists = e
        new = walks.act(element, state if had is None else tree_map(jnp.subtract, state, had))
        return new_state(exists > 0, new, tree_map(jnp.zeros_like, state))

    passed = tree_map(lambda x: x[: ports.first.shape[0]], branches)
    exist = jnp.asarray(ports.exist, jax.tree.leaves(passed)[0].dtype)
    received = ports.receive(act, (spines, at_end, exist), passed)
    of_lane = pick((received, at_end, exist), stage.above)
    start = new_state(last, of_lane[0], act((outside, *of_lane[1:]), of_lane[0]))
    return start if lent is None else tree_map(jnp.add, start, new_state(last, tree_map(jnp.zeros_like, lent), lent))


def results_by_row(laid: Stages, results: Sequence[Any], scattered: bool) -> list[Any]:
    """The fields of the results of all stages, (n,) each."""
    if scattered:
        return jax.tree.leaves(results[0])
    fields = results[0].shape[1]
    return [
        jnp.concatenate([r[:, k].reshape(-1) for r in results])[laid.position_of - laid.bases] for k in range(fields)
    ]
