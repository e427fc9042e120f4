"""Parts of lane programs other than passes over rows.

These are: poses in the world; visits to the base, to bodies or to one body; the places of a matrix over pairs; and rows
that write columns of a matrix.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from kinetree.dynamics.algorithms.poses import pose
from kinetree.dynamics.recursion import Algorithm, OneBody, Pass, Row
from kinetree.lanes import NOTHING, Lane, Loop, Memory, Slots
from kinetree.model import Model, Placement, Rows, Structure
from kinetree.model.physics import quaternion_stretch, way_from_rest
from kinetree.spatial import Quaternion, Rotation, Transform, Vec3
from kinetree.tree import Tree, pick

from .lane_rows import (
    ACCURATE,
    GRAVITY,
    OWN,
    PARENT,
    ROWS,
    STRETCH,
    ZERO3,
    Q,
    RowPart,
    Turns,
    V,
    base_gravity,
    base_turn,
    joint_turns,
    q_columns,
    row_constants,
    row_turns,
    stroke,
    with_coordinates,
)
from .lane_visits import Fields

PLACED = "placed"  # The field that holds the placements of quaternion joints.


def pose_parts(memory: Memory, field: str, quaternions: bool, roots: bool = False) -> list[RowPart]:
    """Loops that write each row's pose in the world into a field; `placed` is the placement of quaternion joints.

    With `roots`, all quaternion joints are free joints on the base, and only the poses of their last rows are written.
    """
    links = ACCURATE
    link = ("axis",) if quaternions else ("frame", "axis")

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        return (Placement.identity_like(gravity.x),), (), ()

    def step(known: Row, q: tuple, reads: tuple) -> tuple:
        at = reads[1] if quaternions else known.frame.screwed(*stroke(known, *q))
        return (pose(Row(at=at), reads[0])[0],), (), ()

    own = memory.at(OWN, field)
    reads = (memory.at(PARENT, field), *((memory.at(OWN, PLACED),) if quaternions else ()))
    inputs = () if quaternions else (Lane(0, Q),)
    loop = Loop(step, 4, links.parts_structure(link), reads=reads, writes=(own,), inputs=inputs)
    parts = [RowPart(Loop(base, 4, GRAVITY, writes=(own,)), base_turn(memory), base_gravity)]
    if roots:
        parts.append(root_poses(memory, own))
    turns = row_turns(memory, choose=with_coordinates if roots else None)
    return [*parts, RowPart(loop, turns, links.parts_constants(link))]


def root_poses(memory: Memory, own: Slots) -> RowPart:
    """The loop that writes the poses of the bodies of root joints, which are the coordinates of these joints."""

    def step(row: Rows, q: tuple, _: tuple) -> tuple:
        orientation = row.orientation * Quaternion(*q[3:]).normalized()
        return (Placement(orientation, row.position + row.orientation.turn(Vec3(*q[:3]))),), (), ()

    last = own._replace(offset=own.offset + 5 * memory.size)
    loop = Loop(step, 4, ROWS, writes=(last,), inputs=tuple(Lane(0, Q, k) for k in range(7)))
    return RowPart(loop, joint_turns(memory, with_position=1), row_constants)


def stretch_parts(memory: Memory, quaternions: bool) -> list[RowPart]:
    """Loops that write the stretch of each joint's spring (model/physics.py)."""
    own = memory.at(OWN, STRETCH)

    def part(columns: int, rows: int, step: Callable[..., tuple], turns: Any) -> RowPart:
        def rest(model: Model, taken: np.ndarray) -> tuple:
            assert model.passive is not None
            first = q_columns(model.structure)[taken]
            return tuple(model.passive.rest[first + k] for k in range(columns))

        writes = tuple(own._replace(offset=own.offset + k * memory.size) for k in range(rows))
        inputs = tuple(Lane(0, Q, k) for k in range(columns))
        constants = jax.tree.structure((0.0,) * columns)
        return RowPart(Loop(step, 4, constants, writes=writes, inputs=inputs), turns, rest)

    def scalar(rest: tuple, q: tuple, _: tuple) -> tuple:
        return (q[0] - rest[0],), (), ()

    def ball(rest: tuple, q: tuple, _: tuple) -> tuple:
        return tuple(quaternion_stretch(Quaternion(*rest), Quaternion(*q))), (), ()

    def free(rest: tuple, q: tuple, _: tuple) -> tuple:
        turned = quaternion_stretch(Quaternion(*rest[3:]), Quaternion(*q[3:]))
        return (*turned, *way_from_rest(Vec3(*rest[:3]), Vec3(*q[:3]), Quaternion(*q[3:]))), (), ()

    scalars = part(1, 1, scalar, row_turns(memory, choose=with_coordinates))
    if not quaternions:
        return [scalars]
    return [scalars, part(7, 6, free, joint_turns(memory, 1)), part(4, 3, ball, joint_turns(memory, 0))]


RUNS = (8, 4, 2, 1)  # entries in a row that a turn writes: a transposed vector of lanes, or a part of one


def run_starts(length: int, width: int, widths: tuple[int, ...] = RUNS) -> np.ndarray:
    """First entries of the runs of one width. The runs of all widths cover `length` entries, each once."""
    done = 0
    for wider in widths[: widths.index(width)]:
        done += (length - done) // wider * wider
    return np.arange(done, length - width + 1, width)


def zero_runs(zero: np.ndarray) -> dict[int, np.ndarray]:
    """The starts of runs of each width, which together cover all zero entries once."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], zero, [False]]))).reshape(-1, 2)
    found = {width: [first + run_starts(end - first, width) for first, end in edges] for width in RUNS}
    return {width: np.concatenate([np.zeros(0, np.int64), *starts]) for width, starts in found.items()}


def zero_parts(zeros: Callable[..., np.ndarray], arrays: tuple[int, ...] = (0,)) -> list[RowPart]:
    """Loops that write zeros to outputs where `zeros`, of a structure and the body that a call is about, is true."""

    def part(width: int) -> RowPart:
        def turns(structure: Structure, *about: int) -> np.ndarray:
            return zero_runs(zeros(structure, *about))[width][:, None]

        outputs = tuple(Lane(array, 0, k) for array in arrays for k in range(width))
        nothing = len(outputs) * (0.0,)
        return RowPart(Loop(lambda _, __, ___: ((), (), nothing), 1, NOTHING, outputs=outputs), turns)

    return [part(width) for width in RUNS]


def frame_constants(model: Model, bodies: np.ndarray) -> Transform:
    """Frames of these bodies in those of their rows."""
    return pick(model.frames, bodies)


# -- places of a matrix over pairs ------------------------------------------------------------------------------------


def matrix_places(tree: Tree, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The places of (i, j) and (j, i) in the output, for all ancestor pairs."""
    if packed:
        place = np.arange(tree.n_ancestor_pairs)
        return place, place
    i, j = (x.astype(np.int64) for x in tree.ancestor_pairs)
    return i * tree.n + j, j * tree.n + i


def unrelated(structure: Structure) -> np.ndarray:
    """The places of a dense matrix that belong to no pair."""
    tree = structure.tree
    free = np.ones(tree.n**2, bool)
    free[np.concatenate(matrix_places(tree, False))] = False
    return free


FRAME = jax.tree.structure(Transform(Rotation(*9 * (0.0,)), ZERO3))
WHOLE = jax.tree.structure(Row(gravity=ZERO3, mass=0.0))
ROW_COLUMNS = 4  # columns of a row table, before those for a matrix


def _place(algorithm: Algorithm, name: str) -> int:
    return list(algorithm.outputs).index(name)


def _count(algorithm: Algorithm, name: str) -> int:
    return jax.tree.structure(algorithm.outputs[name]).num_leaves


# -- the base ---------------------------------------------------------------------------------------------------------


def total_parts(algorithm: Algorithm, fields: Fields, roots: bool, p: Pass) -> list[RowPart]:
    """A sum that flows inward from row to row, so that the sum of a bushy tree is balanced, as the tree is."""
    memory, own, up = fields.memory, fields.at(OWN, p.state), fields.at(PARENT, p.state)
    flow = Loop(lambda _, __, reads: ((), reads, ()), 4, NOTHING, reads=own, adds=up)
    parts = [RowPart(flow, row_turns(memory, True, with_coordinates if roots else None))]
    if roots:  # from the last row of each root
        last = tuple(x._replace(offset=x.offset + 5 * memory.size) for x in own)
        parts.append(RowPart(replace(flow, reads=last), joint_turns(memory, with_position=1)))
    if p.outputs:
        outputs = tuple(Lane(_place(algorithm, p.state), V, k) for k in range(_count(algorithm, p.state)))
        end = Loop(lambda _, __, reads: ((), (), tuple(jax.tree.leaves(reads))), 4, NOTHING, reads=own, outputs=outputs)
        parts.append(RowPart(end, base_turn(memory)))
    return parts


def _whole_constants(model: Model, rows: np.ndarray) -> Row:
    """Gravity, and the mass of all rows."""
    return Row(gravity=base_gravity(model, rows), mass=model.rows.inertia.mass.sum()[None])


def base_parts(algorithm: Algorithm, fields: Fields, p: Pass) -> list[RowPart]:
    """One turn, on the base."""

    def step(known: Row, _: tuple, reads: tuple) -> tuple:
        _, found = p.visit(Row({**known, **fields.taken(p.needs, list(reads))}), None)
        return fields.spread(p.leaves, found), (), tuple(x for n in p.outputs for x in jax.tree.leaves(found[n]))

    outputs = tuple(Lane(_place(algorithm, n), V, k) for n in p.outputs for k in range(_count(algorithm, n)))
    loop = Loop(step, 4, WHOLE, reads=fields.at(OWN, *p.needs), writes=fields.at(OWN, *p.leaves), outputs=outputs)
    return [RowPart(loop, base_turn(fields.memory), _whole_constants)]


# -- bodies -----------------------------------------------------------------------------------------------------------


def body_parts(algorithm: Algorithm, fields: Fields, p: Pass) -> list[RowPart]:
    """A loop over the bodies, or over the one that the call is about: its row, and the places of its results."""
    counts = [_count(algorithm, n) for n in p.outputs]
    one = isinstance(p, OneBody)

    def step(own: Transform, _: tuple, reads: tuple) -> tuple:
        row = Row({"frame": own, **fields.taken(p.needs, list(reads))})
        _, found = p.visit(row, None)
        return (), (), tuple(x for n in p.outputs for x in jax.tree.leaves(found[n]))

    def turns(structure: Structure, *about: int) -> Turns:
        body = np.array(about[:1]) if one else np.arange(structure.n_bodies)
        first = [0 * body if one else count * body for count in counts]
        return np.stack([fields.memory.base(structure.row_of_body[body]), *first], -1), body

    outputs = tuple(
        Lane(_place(algorithm, name), 1 + k, i)
        for k, (name, count) in enumerate(zip(p.outputs, counts, strict=True))
        for i in range(count)
    )
    loop = Loop(step, 1 + len(counts), FRAME, reads=fields.at(0, *p.needs), outputs=outputs)
    return [RowPart(loop, turns, frame_constants)]


def carrying(structure: Structure, body: int) -> np.ndarray:
    """(rows,): True for rows on the way from the base to the body."""
    row, tree = structure.row_of_body[body], structure.tree
    return (row >= 0) & (tree.lp <= tree.lp[row]) & (tree.rp[row] <= tree.rp)


def on_the_way(part: RowPart) -> RowPart:
    """The part with only the turns of rows that carry the body, and those of the base and of the body."""
    if part.constants in (base_gravity, _whole_constants, frame_constants):
        return part

    def turns(structure: Structure, body: int) -> Turns:
        table, rows = part.turns(structure)
        carry = carrying(structure, body)[rows]
        return table[carry], rows[carry]

    return part._replace(turns=turns)


# -- columns of a matrix ----------------------------------------------------------------------------------------------


def column_count(algorithm: Algorithm, p: Pass) -> int:
    """The number of entries that each row writes in its own column."""
    return sum(_count(algorithm, n) for n in p.outputs if n in algorithm.columns)


def row_outputs(algorithm: Algorithm, p: Pass) -> tuple[Lane, ...]:
    """The places of a row's results: one place, or its column of a matrix."""
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
        return np.concatenate([table, rows[:, None] + structure.tree.n * np.arange(count)], 1), rows

    return changed
