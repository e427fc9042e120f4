"""The source of a tree that is spread over devices: the rows of a model, or of pieces made one after the other."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from kinetree.model import Model, ModelError, Passive
from kinetree.model.arguments import is_known
from kinetree.model.pieces import Pieces
from kinetree.tree.clusters import Clusters, divide, spines

from ..firmness import is_firm, joint_tree
from ..schedules.lane_rows import kind_of


class Source(NamedTuple):
    """The rows of a tree, and the device of each."""

    parent: np.ndarray  # (rows,)
    clusters: Clusters
    nq: int
    q_of_row: np.ndarray  # (rows,): the row's coordinate, −1 for none
    quaternion_joints: np.ndarray  # (joints, 3): first row, first column of q, and 1 if a position comes first
    gravity: np.ndarray
    hinges: bool  # True if all joints are hinges without rotors
    firm: bool
    passive: Passive | None  # springs and dampers
    constants: Callable[[np.ndarray], list[np.ndarray]]  # of the rows of one device, given in order; leaves of `Rows`

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return len(self.parent)


def _require_plain(model: Model) -> None:
    if model.coupling is not None:
        raise ModelError("a tree over devices has no mimic joints: they would join parts that are far from each other")
    if model.loops is not None:
        raise ModelError("a tree over devices has no rigid loops: cut them with model.replace(loops=[])")
    if not is_known(model.rows, model.passive, model.gravity):
        raise ModelError("a tree over devices needs a model whose numbers are known: NumPy arrays, outside of jit")


def from_model(model: Model, parts: int) -> Source:
    """The source of a model: its clusters are cut between joints."""
    _require_plain(model)
    joints = joint_tree(model.structure)
    clusters = divide(joints.tree, joints.count, parts).expanded(joints.count)
    leaves = jax.tree.leaves(model.rows)

    s = model.structure
    return Source(
        model.tree.parent,
        clusters,
        model.nq,
        s.q_of_row,
        s.quaternion_joints,
        np.asarray(model.gravity),
        kind_of(model).hinges,
        is_firm(model),
        model.passive,
        lambda rows: [x[rows] for x in leaves],
    )


def from_pieces(pieces: Pieces, parts: int) -> Source:
    """The source of pieces: each is a cluster, and neighbours are on the same device."""
    count = len(pieces.parent)
    parents, q_of_row, joints, gravity = [], [], [], np.zeros(3)
    rows, columns, tails = [0], [0], []
    hinges = True
    for k in range(count):
        model = pieces.make(k)
        _require_plain(model)
        if model.passive is not None:
            raise ModelError(f"piece {k} has springs or dampers: give such a tree as one model")
        s = model.structure
        body = model.n_bodies - 1 if pieces.tail is None else int(pieces.tail[k])
        tail = int(s.row_of_body[body])
        if tail < 0:
            raise ModelError(f"piece {k}: body {body} does not move, so that nothing can hang from it")
        hangs = -1 if pieces.parent[k] < 0 else tails[pieces.parent[k]]
        parents.append(np.where(model.tree.parent >= 0, model.tree.parent + rows[-1], hangs).astype(np.int32))
        q_of_row.append(np.where(s.q_of_row >= 0, s.q_of_row + columns[-1], -1).astype(np.int32))
        joints.append(s.quaternion_joints + np.array([rows[-1], columns[-1], 0]))
        gravity = np.asarray(model.gravity) if k == 0 else gravity
        hinges = hinges and kind_of(model).hinges
        tails.append(tail + rows[-1])
        rows.append(rows[-1] + model.nv)
        columns.append(columns[-1] + model.nq)
    parent = np.concatenate(parents)
    sizes = np.diff(rows)
    of_row = np.repeat(np.arange(count, dtype=np.int32), sizes)
    middle = (np.cumsum(sizes) - sizes / 2) * parts // rows[-1]
    on_spine = spines(parent, np.array(tails), of_row)
    clusters = Clusters(of_row, on_spine, np.asarray(pieces.parent), middle.astype(np.int64))

    def constants(asked: np.ndarray) -> list[np.ndarray]:
        held = range(of_row[asked[0]], of_row[asked[-1]] + 1)
        leaves = [jax.tree.leaves(pieces.make(k).rows) for k in held]
        return [np.concatenate(x) for x in zip(*leaves, strict=True)]

    quaternions = np.concatenate(joints).astype(np.int32)
    return Source(
        parent, clusters, columns[-1], np.concatenate(q_of_row), quaternions, gravity, hinges, False, None, constants
    )
