"""Parts of lane programs that visit the base, the bodies or one body; and rows that write columns of a matrix."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from kinetree.dynamics.recursion import Algorithm, OneBody, Pass, Row
from kinetree.lanes import Lane, Loop
from kinetree.model import Model, Structure
from kinetree.spatial import Rotation, Transform

from .lane_fields import Fields
from .lane_parts import frame_constants
from .lane_rows import NOTHING, OWN, PARENT, ZERO3, Part, Q, Turns, V, base_gravity, base_turn, no_constants, row_turns

FRAME = jax.tree.structure(Transform(Rotation(*9 * (0.0,)), ZERO3))
WHOLE = jax.tree.structure(Row(gravity=ZERO3, mass=0.0))
ROW_COLUMNS = 4  # columns of a row table, before those for a matrix


def _place(algorithm: Algorithm, name: str) -> int:
    return list(algorithm.outputs).index(name)


def _count(algorithm: Algorithm, name: str) -> int:
    return jax.tree.structure(algorithm.outputs[name]).num_leaves


# -- the base ---------------------------------------------------------------------------------------------------------


def total_parts(algorithm: Algorithm, fields: Fields, p: Pass) -> list[Part]:
    """A sum that flows inward from row to row, so that a bushy tree is summed as evenly as it branches."""
    own, up = fields.at(OWN, p.state), fields.at(PARENT, p.state)
    flow = Loop(lambda _, __, reads: ((), reads, ()), 4, NOTHING, reads=own, adds=up)
    parts = [Part(flow, row_turns(fields.memory, inward=True), no_constants)]
    if p.outputs:
        outputs = tuple(Lane(_place(algorithm, p.state), V, k) for k in range(_count(algorithm, p.state)))
        end = Loop(lambda _, __, reads: ((), (), tuple(jax.tree.leaves(reads))), 4, NOTHING, reads=own, outputs=outputs)
        parts.append(Part(end, base_turn(fields.memory), no_constants))
    return parts


def _whole_constants(model: Model, rows: np.ndarray) -> Row:
    """Gravity, and the mass of all rows."""
    return Row(gravity=base_gravity(model, rows), mass=model.rows.inertia.mass.sum()[None])


def base_parts(algorithm: Algorithm, fields: Fields, p: Pass) -> list[Part]:
    """One turn, on the base."""

    def step(known: Row, _: tuple, reads: tuple) -> tuple:
        _, found = p.visit(Row({**known, **fields.taken(p.needs, list(reads))}), None)
        return fields.spread(p.leaves, found), (), tuple(x for n in p.outputs for x in jax.tree.leaves(found[n]))

    outputs = tuple(Lane(_place(algorithm, n), V, k) for n in p.outputs for k in range(_count(algorithm, n)))
    loop = Loop(step, 4, WHOLE, reads=fields.at(OWN, *p.needs), writes=fields.at(OWN, *p.leaves), outputs=outputs)
    return [Part(loop, base_turn(fields.memory), _whole_constants)]


# -- bodies -----------------------------------------------------------------------------------------------------------


def body_parts(algorithm: Algorithm, fields: Fields, p: Pass) -> list[Part]:
    """A loop over the bodies, or over the one that the call is about: the row that carries it, and where results go."""
    counts = [_count(algorithm, n) for n in p.outputs]
    one = isinstance(p, OneBody)

    def step(own: Transform, _: tuple, reads: tuple) -> tuple:
        row = Row({"frame": own, **fields.taken(p.needs, list(reads))})
        _, found = p.visit(row, None)
        return (), (), tuple(x for n in p.outputs for x in jax.tree.leaves(found[n]))

    def turns(structure: Structure, *about: int) -> Turns:
        body = np.array(about[:1]) if one else np.arange(structure.n_bodies)
        first = [0 * body if one else count * body for count in counts]
        return np.stack([fields.memory.base(structure.row_of_body[body]), *first], -1).astype(np.int32), body

    outputs = tuple(
        Lane(_place(algorithm, name), 1 + k, i)
        for k, (name, count) in enumerate(zip(p.outputs, counts, strict=True))
        for i in range(count)
    )
    loop = Loop(step, 1 + len(counts), FRAME, reads=fields.at(0, *p.needs), outputs=outputs)
    return [Part(loop, turns, frame_constants)]


def carrying(structure: Structure, body: int) -> np.ndarray:
    """(rows,): which rows are on the way from the base to the body."""
    row, tree = structure.row_of_body[body], structure.tree
    return (row >= 0) & (tree.lp <= tree.lp[row]) & (tree.rp[row] <= tree.rp)


def on_the_way(part: Part) -> Part:
    """The part with the turns of rows that carry the body only; those of the base and of the body stay."""
    if part.constants in (base_gravity, _whole_constants, frame_constants):
        return part

    def turns(structure: Structure, body: int) -> Turns:
        table, rows = part.turns(structure)
        carry = carrying(structure, body)[rows]
        return table[carry], rows[carry]

    return part._replace(turns=turns)


# -- columns of a matrix ----------------------------------------------------------------------------------------------


def column_count(algorithm: Algorithm, p: Pass) -> int:
    """Entries that each row writes in a column of its own."""
    return sum(_count(algorithm, n) for n in p.outputs if n in algorithm.columns)


def row_outputs(algorithm: Algorithm, p: Pass) -> tuple[Lane, ...]:
    """Where a row's results go: to its own place, or down its column of a matrix."""
    outputs, column = [], ROW_COLUMNS
    for name in p.outputs:
        place = _place(algorithm, name)
        if name in algorithm.columns:
            count = _count(algorithm, name)
            outputs += [Lane(place, column + k) for k in range(count)]
            column += count
        else:
            outputs.append(Lane(place, Q if name == algorithm.matrix else V))
    return tuple(outputs)


def with_columns(turns: Callable[[Structure], Turns], count: int) -> Callable[[Structure], Turns]:
    """Turns over the rows, with the places of the entries of their columns."""

    def changed(structure: Structure) -> Turns:
        table, rows = turns(structure)
        places: list[Any] = [rows + k * structure.tree.n for k in range(count)]
        return np.concatenate([table, np.stack(places, -1).astype(np.int32)], 1), rows

    return changed
