"""CRBA as a lane program: composite inertias inward over the rows, then a walk over the ancestor pairs.

Featherstone's algorithm in body coordinates (slide "Pseudocode"; RBDA table 6.2): the momentum F of each row's
subtree is carried from row to parent on the way to the root, and gives an entry of H at each stop. Nothing is taken
about a far origin.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.once import once
from kinetree.model import Model, Rows, Structure
from kinetree.spatial import Force, Inertia, Rotation, Sym3, Transform
from kinetree.tree import Tree

from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    ROWS,
    SCREW,
    ZERO3,
    LaneAlgorithm,
    Part,
    Q,
    Screw,
    Turns,
    base_gravity,
    base_turn,
    placing_parts,
    row_turns,
    screw_constants,
    screw_place,
)

NUMBER = jax.tree.structure(0.0)
BELOW, START, ENTRY, MIRROR = range(
    4
)  # columns of the pair table: rows below the ancestor and at the walk's start; H_ij, H_ji


def _places(tree: Tree, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the output has H_ij and H_ji, for all pairs."""
    if packed:
        place = np.arange(tree.n_ancestor_pairs)
        return place, place
    i, j = (x.astype(np.int64) for x in tree.ancestor_pairs)
    return i * tree.n + j, j * tree.n + i


def unrelated_turns(structure: Structure) -> Turns:
    """Places of a dense matrix that belong to no pair."""
    tree = structure.tree
    related = np.zeros(tree.n**2, bool)
    related[np.concatenate(_places(tree, False))] = True
    return np.flatnonzero(~related)[:, None].astype(np.int32), np.zeros(0, np.int64)


def zeros_of_unrelated(model: Model, rows: np.ndarray) -> np.ndarray:
    """A zero for each of them."""
    tree = model.tree
    return np.zeros(tree.n**2 - 2 * tree.n_ancestor_pairs + tree.n)


@once
def crba_lanes(quaternions: bool, packed: bool) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints; H dense, nv² columns, or packed on the pairs."""
    fields: dict[str, Any] = {
        "X": Transform(Rotation(*9 * (0.0,)), ZERO3),
        "inertia": Inertia(0.0, ZERO3, Sym3(*6 * (0.0,))),
        "F": Force(ZERO3, ZERO3),
    }
    memory = Memory(**fields, **({"placed": PLACEMENT} if quaternions else {}))

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    def base(gravity: Any, _: tuple, __: tuple) -> tuple:
        return (Inertia.zero_like(gravity.x),), (), ()

    def stand(row: Rows, given: tuple, reads: tuple) -> tuple:
        placed = reads[0] if quaternions else screw_place(row, *given)
        return (placed.transform, row.inertia), (), ()

    def compose(joint: Screw, _: tuple, reads: tuple) -> tuple:
        X, I = reads  # its own inertia, and what its children passed on
        F = I @ joint.axis.times(jnp.ones_like(I.mass))
        return (F,), (X.inertia_to_parent(I),), (joint.axis.dot(F) + joint.armature,)

    def walk(ancestor: Screw, _: tuple, reads: tuple) -> tuple:
        X, F = reads
        F = X.force_to_parent(F)
        entry = ancestor.axis.dot(F)
        return (F,), (), (entry, entry)

    def diagonal(structure: Structure) -> Turns:
        table, rows = row_turns(memory, inward=True)(structure)
        table[:, Q] = _places(structure.tree, packed)[0][structure.tree.ancestor_start[:-1]][rows]
        return table, rows

    def pairs(structure: Structure) -> Turns:
        tree = structure.tree
        i, j = tree.ancestor_pairs
        strict = np.flatnonzero(i != j)
        entry, mirror = _places(tree, packed)
        # the pair before a strict pair is that of the same row with the next ancestor below
        columns = [memory.base(j[strict - 1]), memory.base(i[strict]), entry[strict], mirror[strict]]
        return np.stack(columns, -1).astype(np.int32), j[strict]

    stand_loop = Loop(
        stand,
        4,
        ROWS,
        reads=at(OWN, "placed") if quaternions else (),
        writes=at(OWN, "X", "inertia"),
        inputs=() if quaternions else (Lane(0, Q),),
    )
    compose_loop = Loop(
        compose,
        4,
        SCREW,
        reads=at(OWN, "X", "inertia"),
        writes=at(OWN, "F"),
        adds=at(PARENT, "inertia"),
        outputs=(Lane(0, Q),),
    )
    walk_loop = Loop(
        walk,
        4,
        SCREW,
        reads=at(BELOW, "X") + at(START, "F"),
        writes=at(START, "F"),
        outputs=(Lane(0, ENTRY), Lane(0, MIRROR)),
    )
    parts = placing_parts(memory, 0) if quaternions else []
    parts += [
        Part(Loop(base, 4, GRAVITY, writes=at(OWN, "inertia")), base_turn(memory), base_gravity),
        Part(stand_loop, row_turns(memory)),
        Part(compose_loop, diagonal, screw_constants),
        Part(walk_loop, pairs, screw_constants),
    ]
    if not packed:
        empty = Loop(lambda zero, _, __: ((), (), (zero,)), 1, NUMBER, outputs=(Lane(0, 0),))
        parts.append(Part(empty, unrelated_turns, zeros_of_unrelated))
    widths = (lambda s: (s.tree.n_ancestor_pairs,)) if packed else (lambda s: (s.tree.n**2,))
    return LaneAlgorithm("crba", parts, memory, 1, 1, widths, reversible=False)  # F is carried on in its own slots
