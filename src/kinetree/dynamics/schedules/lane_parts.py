"""Parts of lane programs that passes do not speak of: poses in the world, and the places of a matrix over pairs."""

import jax
import numpy as np

from kinetree.dynamics.algorithms.poses import pose
from kinetree.dynamics.recursion import Row
from kinetree.lanes import Lane, Loop, Memory
from kinetree.model import Model, Placement, Structure
from kinetree.spatial import Transform, Vec3
from kinetree.tree import Tree

from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    Links,
    Part,
    Q,
    Turns,
    base_gravity,
    base_turn,
    row_turns,
    stroke,
)

NUMBER = jax.tree.structure(0.0)
PLACED = "placed"  # The field that holds the placements of quaternion joints.


def pose_parts(memory: Memory, field: str, quaternions: bool) -> list[Part]:
    """Loops that write each row's pose in the world into a field; `placed` is the placement of quaternion joints."""
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
    return [
        Part(Loop(base, 4, GRAVITY, writes=(own,)), base_turn(memory), base_gravity),
        Part(loop, row_turns(memory), links.parts_constants(link)),
    ]


def frame_constants(model: Model, bodies: np.ndarray) -> Transform:
    """Frames of these bodies in those of their rows."""
    return jax.tree.map(lambda x: x[bodies], model.frames)


# -- places of a matrix over pairs ------------------------------------------------------------------------------------


def matrix_places(tree: Tree, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the output has (i, j) and (j, i), for all ancestor pairs."""
    if packed:
        place = np.arange(tree.n_ancestor_pairs)
        return place, place
    i, j = (x.astype(np.int64) for x in tree.ancestor_pairs)
    return i * tree.n + j, j * tree.n + i


def unrelated_turns(structure: Structure) -> Turns:
    """Places of a dense matrix that belong to no pair."""
    tree = structure.tree
    related = np.zeros(tree.n**2, bool)
    related[np.concatenate(matrix_places(tree, False))] = True
    return np.flatnonzero(~related)[:, None].astype(np.int32), np.zeros(0, np.int64)


def zeros_of_unrelated(model: Model, rows: np.ndarray) -> np.ndarray:
    """A zero for each of them."""
    tree = model.tree
    return np.zeros(tree.n**2 - 2 * tree.n_ancestor_pairs + tree.n)
