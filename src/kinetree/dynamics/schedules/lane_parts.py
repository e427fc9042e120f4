"""Parts of lane programs that passes do not speak of: poses in the world, and the places of a matrix over pairs."""

from collections.abc import Callable

import jax
import numpy as np

from kinetree.dynamics.algorithms.poses import pose
from kinetree.dynamics.recursion import Row
from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.program.program import Slots
from kinetree.model import Model, Placement, Rows, Structure
from kinetree.model.physics import quaternion_stretch, way_from_rest
from kinetree.spatial import Quaternion, Transform, Vec3
from kinetree.tree import Tree, pick

from .lane_rows import (
    GRAVITY,
    NOTHING,
    OWN,
    PARENT,
    ROWS,
    STRETCH,
    Links,
    Part,
    Q,
    Turns,
    base_gravity,
    base_turn,
    joint_turns,
    joints_with,
    no_constants,
    row_turns,
    stroke,
    with_coordinates,
)

NUMBER = jax.tree.structure(0.0)
PLACED = "placed"  # The field that holds the placements of quaternion joints.


def pose_parts(memory: Memory, field: str, quaternions: bool, roots: bool = False) -> list[Part]:
    """Loops that write each row's pose in the world into a field; `placed` is the placement of quaternion joints.

    With `roots`, the only quaternion joints are free ones that hang from the base: of those, the last row's.
    """
    links = Links(False, False, accurate=True)
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
    parts = [Part(Loop(base, 4, GRAVITY, writes=(own,)), base_turn(memory), base_gravity)]
    if roots:
        parts.append(root_poses(memory, own))
    turns = row_turns(memory, choose=with_coordinates if roots else None)
    return [*parts, Part(loop, turns, links.parts_constants(link))]


def root_poses(memory: Memory, own: Slots) -> Part:
    """The loop that writes the poses of the bodies of root joints: they stand in the world as their coordinates say."""

    def step(row: Rows, q: tuple, _: tuple) -> tuple:
        orientation = row.orientation * Quaternion(*q[3:]).normalized()
        return (Placement(orientation, row.position + row.orientation.turn(Vec3(*q[:3]))),), (), ()

    last = own._replace(offset=own.offset + 5 * memory.size)
    loop = Loop(step, 4, ROWS, writes=(last,), inputs=tuple(Lane(0, Q, k) for k in range(7)))
    return Part(loop, joint_turns(memory, with_position=1))


def stretch_parts(memory: Memory, quaternions: bool) -> list[Part]:
    """Loops that write how far each joint is from the rest of its spring (model/physics.py)."""
    own = memory.at(OWN, STRETCH)

    def part(columns: int, rows: int, step: Callable[..., tuple], choose: Callable[[Structure], np.ndarray]) -> Part:
        def turns(structure: Structure) -> Turns:
            table, taken = row_turns(memory, choose=choose)(structure)
            table[:, Q] = q_columns(structure)[taken]
            return table, taken

        def rest(model: Model, taken: np.ndarray) -> tuple:
            assert model.passive is not None
            first = q_columns(model.structure)[taken]
            return tuple(model.passive.rest[first + k] for k in range(columns))

        writes = tuple(own._replace(offset=own.offset + k * memory.size) for k in range(rows))
        inputs = tuple(Lane(0, Q, k) for k in range(columns))
        constants = jax.tree.structure((0.0,) * columns)
        return Part(Loop(step, 4, constants, writes=writes, inputs=inputs), turns, rest)

    def scalar(rest: tuple, q: tuple, _: tuple) -> tuple:
        return (q[0] - rest[0],), (), ()

    def ball(rest: tuple, q: tuple, _: tuple) -> tuple:
        return tuple(quaternion_stretch(Quaternion(*rest), Quaternion(*q))), (), ()

    def free(rest: tuple, q: tuple, _: tuple) -> tuple:
        turned = quaternion_stretch(Quaternion(*rest[3:]), Quaternion(*q[3:]))
        return (*turned, *way_from_rest(Vec3(*rest[:3]), Vec3(*q[:3]), Quaternion(*q[3:]))), (), ()

    scalars = part(1, 1, scalar, with_coordinates)
    if not quaternions:
        return [scalars]
    return [
        scalars,
        part(7, 6, free, lambda s: joints_with(s, 1)[:, 0]),
        part(4, 3, ball, lambda s: joints_with(s, 0)[:, 0]),
    ]


def q_columns(structure: Structure) -> np.ndarray:
    """The first column of q that belongs to each row, the first rows of quaternion joints included; else −1."""
    columns = np.array(structure.q_of_row)
    columns[structure.quaternion_joints[:, 0]] = structure.quaternion_joints[:, 1]
    return columns


RUNS = (8, 4, 2, 1)  # entries in a row that a turn writes: a transposed vector of lanes, or a part of one


def run_starts(length: int, width: int, widths: tuple[int, ...] = RUNS) -> np.ndarray:
    """First entries of the runs of one width. The runs of all widths cover `length` entries, each once."""
    done = 0
    for wider in widths[: widths.index(width)]:
        done += (length - done) // wider * wider
    return np.arange(done, length - width + 1, width)


def zero_runs(zero: np.ndarray) -> dict[int, np.ndarray]:
    """Where runs of each width start that together cover all entries that are zero, once."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], zero, [False]]))).reshape(-1, 2)
    found = {width: [first + run_starts(end - first, width) for first, end in edges] for width in RUNS}
    return {width: np.concatenate([np.zeros(0, np.int64), *starts]) for width, starts in found.items()}


def zero_parts(zeros: Callable[..., np.ndarray], arrays: tuple[int, ...] = (0,)) -> list[Part]:
    """Loops that write zeros to outputs, where `zeros` of a structure, and of what is asked about, is true."""

    def part(width: int) -> Part:
        def turns(structure: Structure, *about: int) -> Turns:
            starts = zero_runs(zeros(structure, *about))[width]
            return starts[:, None].astype(np.int32), np.zeros(0, np.int64)

        outputs = tuple(Lane(array, 0, k) for array in arrays for k in range(width))
        nothing = len(outputs) * (0.0,)
        return Part(Loop(lambda _, __, ___: ((), (), nothing), 1, NOTHING, outputs=outputs), turns, no_constants)

    return [part(width) for width in RUNS]


def frame_constants(model: Model, bodies: np.ndarray) -> Transform:
    """Frames of these bodies in those of their rows."""
    return pick(model.frames, bodies)


# -- places of a matrix over pairs ------------------------------------------------------------------------------------


def matrix_places(tree: Tree, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the output has (i, j) and (j, i), for all ancestor pairs."""
    if packed:
        place = np.arange(tree.n_ancestor_pairs)
        return place, place
    i, j = (x.astype(np.int64) for x in tree.ancestor_pairs)
    return i * tree.n + j, j * tree.n + i


def unrelated(structure: Structure) -> np.ndarray:
    """Which places of a dense matrix belong to no pair."""
    tree = structure.tree
    free = np.ones(tree.n**2, bool)
    free[np.concatenate(matrix_places(tree, False))] = False
    return free
