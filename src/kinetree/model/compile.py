"""From bodies and joints to rows (design idea 2), vectorised over the bodies, in NumPy.

Row frames are turned so that every joint axis is z; `frames` has the placement of each body in its row's frame. A body
on a fixed joint has no rows of its own: its frame hangs from the row of the nearest moving ancestor, which gets its
inertia.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Inertia, Quaternion, Rotation, Sym3, Transform, Vec3

from .joints import Joint
from .piecewise import in_pieces
from .rows import Rows

IDENTITY = (1.0, 0.0, 0.0, 0.0)  # the orientation of a frame in itself


def _axis_frame(axis: np.ndarray) -> np.ndarray:
    """(…, 4): orientation, in the joint frame, of a frame whose z is the axis.

    The coordinate axes get cyclic permutations, which are exact; others the shortest turn from z, or from −z where that
    is nearer, after half a turn about x.
    """
    x, y, z = axis[..., 0], axis[..., 1], axis[..., 2]
    zero = np.zeros_like(z)
    q = np.where((z < 0)[..., None], np.stack([-y, 1 - z, zero, x], -1), np.stack([1 + z, -y, x, zero], -1))
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    q[(axis == [1.0, 0.0, 0.0]).all(-1)] = [0.5, 0.5, 0.5, 0.5]
    q[(axis == [0.0, 1.0, 0.0]).all(-1)] = [0.5, -0.5, -0.5, -0.5]
    return q


class Compiled(NamedTuple):
    """Rows, and the maps between bodies and rows."""

    rows: Rows
    parent: np.ndarray  # (rows,)
    row_of_body: (
        np.ndarray
    )  # (bodies,): the last row of the body's joint, or of its nearest moving ancestor; −1 the base
    frames: Transform  # (bodies,): from the row's frame to the body's
    q_of_row: np.ndarray  # (rows,): column of q, or −1 for a row without a coordinate
    q_start: np.ndarray  # (bodies + 1,)
    v_start: np.ndarray  # (bodies + 1,)


def _fixed_frames(parent: np.ndarray, fixed: np.ndarray, q: Quaternion, r: Vec3) -> tuple[np.ndarray, Quaternion, Vec3]:
    """Carrier (nearest body that moves, or −1) of each body and its pose in the carrier, by pointer jumping."""
    n = len(parent)
    if not fixed.any():
        one, zero = (np.broadcast_to(x, n) for x in (1.0, 0.0))
        return np.arange(n), Quaternion(one, zero, zero, zero), Vec3(zero, zero, zero)
    to = np.where(fixed, parent, np.arange(n))
    still = np.where(fixed, 1.0, 0.0)
    q = Quaternion(1 - still * (1 - q.w), still * q.x, still * q.y, still * q.z)
    r = Vec3(still * r.x, still * r.y, still * r.z)
    while True:
        active = np.flatnonzero((to >= 0) & fixed & fixed[to])
        if not active.size:
            return to, q, r
        up = to[active]
        inner_q, inner_r = Quaternion(*(c[up] for c in q)), Vec3(*(c[up] for c in r))
        own_q, own_r = Quaternion(*(c[active] for c in q)), Vec3(*(c[active] for c in r))
        new_q, new_r = inner_q * own_q, inner_r + inner_q.turn(own_r)
        for old, new in zip((*q, *r), (*new_q, *new_r), strict=True):
            old[active] = new
        to[active] = to[up]


def merge_inertia(row_of_body: np.ndarray, frames: Transform, inertia: Inertia, n_rows: int) -> Inertia:
    """Inertia of each row: the sum over the bodies it carries, in the row's frame."""
    if isinstance(inertia.mass, jax.Array):
        return _merge_traced(row_of_body, frames, inertia, n_rows)

    def carried(piece: slice) -> tuple[np.ndarray, ...]:
        E, body = jax.tree.map(lambda x: np.asarray(x)[piece], (frames, inertia))
        return tuple(jax.tree.leaves(E.inertia_to_parent(body)))

    components = in_pieces(carried, len(row_of_body))
    moving = row_of_body >= 0
    if not moving.all():
        components, row_of_body = tuple(x[moving] for x in components), row_of_body[moving]
    alone = n_rows == len(row_of_body) and np.array_equal(row_of_body, np.arange(n_rows))
    mass, *rest = components if alone else (np.bincount(row_of_body, x, n_rows) for x in components)
    return Inertia(mass, Vec3(*rest[:3]), Sym3(*rest[3:]))


def _merge_traced(row_of_body: np.ndarray, frames: Transform, inertia: Inertia, n_rows: int) -> Inertia:
    """Merged inertias, where JAX may be tracing them."""
    dtype = inertia.mass.dtype
    carried = jax.tree.map(lambda x: jnp.asarray(x, dtype), frames).inertia_to_parent(inertia)
    moving = np.flatnonzero(row_of_body >= 0)
    return jax.tree.map(lambda x: jnp.zeros(n_rows, dtype).at[row_of_body[moving]].add(x[moving]), carried)


def compile_rows(
    parent: np.ndarray, distinct: list[Joint], code: np.ndarray, q_tree: Quaternion, r_tree: Vec3, inertia: Inertia
) -> Compiled:
    """Rows of a mechanism: bodies on the joints `distinct[code]`, placed in their parents by the tree pose."""
    nv = np.array([j.nv for j in distinct], np.int64)[code]
    nq = np.array([j.nq for j in distinct], np.int64)[code]
    v_start, q_start = np.concatenate([[0], np.cumsum(nv)]), np.concatenate([[0], np.cumsum(nq)])
    n_rows = int(v_start[-1])
    body, number = np.repeat(np.arange(len(parent)), nv), np.arange(n_rows) - np.repeat(v_start[:-1], nv)

    widest = max([j.nv for j in distinct], default=0)
    turn, slide, axis = (
        np.zeros((len(distinct), widest)),
        np.zeros((len(distinct), widest)),
        np.zeros((len(distinct), widest, 3)),
    )
    for k, joint in enumerate(distinct):
        for i, (t, s, a) in enumerate(joint.rows):
            turn[k, i], slide[k, i], axis[k, i] = t, s, a
    frame = _axis_frame(axis)  # of each row in its joint's frame
    pick = (code[body], number)
    quaternion = np.array([j.quaternion for j in distinct], bool)[code[body]]

    fixed = nv == 0
    carrier, q_in, r_in = _fixed_frames(parent, fixed, q_tree, r_tree)
    carrier_row = np.where(carrier >= 0, v_start[np.maximum(carrier, 0) + 1] - 1, -1)
    # of the last row of each joint in the joint's frame; of bodies that hang from the base, at the end
    last = np.array([frame[k, j.nv - 1] if j.nv else IDENTITY for k, j in enumerate(distinct)] + [IDENTITY])
    carried_by = np.where(carrier >= 0, code[carrier], len(distinct))

    def in_carrier(s: slice) -> tuple[np.ndarray, ...]:
        """Each body in its carrier's row frame, which is its own for one that moves."""
        back = Quaternion(*last[carried_by[s]].T).conjugate()
        return (*(back * Quaternion(*(c[s] for c in q_in))), *back.turn(Vec3(*(c[s] for c in r_in))))

    of_body = in_pieces(in_carrier, len(parent))
    up = parent[body]
    first = number == 0

    def in_parent(s: slice) -> tuple[np.ndarray, ...]:
        """Each row in the row before: row frame of the parent's carrier, parent body, joint frame, own axis frame."""
        above, start, own = up[s], first[s], body[s]
        has_parent, place = above >= 0, np.maximum(above, 0)
        base = (*IDENTITY, 0.0, 0.0, 0.0)
        parts = [np.where(has_parent, c[place], b) for c, b in zip(of_body, base, strict=True)]
        parent_q, parent_r = Quaternion(*parts[:4]), Vec3(*parts[4:])
        tree_q, tree_r = Quaternion(*(c[own] for c in q_tree)), Vec3(*(c[own] for c in r_tree))
        axes = Quaternion(*frame[code[own], number[s]].T)
        first_q = parent_q * tree_q
        turned = first_q * axes
        before = Quaternion(*frame[code[own], np.maximum(number[s] - 1, 0)].T).conjugate() * axes
        # a quaternion comes between the tree transform and the axis frame, so the row keeps only the tree transform
        of_first = (np.where(quaternion[s], a, b) for a, b in zip(first_q, turned, strict=True))
        orientation = Quaternion(*(np.where(start, a, b) for a, b in zip(of_first, before, strict=True)))
        length = np.sqrt(orientation.norm_squared())
        position = parent_r + parent_q.turn(tree_r)
        return (*(c / length for c in orientation), *(np.where(start, c, 0.0) for c in position))

    placed = in_pieces(in_parent, n_rows)
    orientation, position = Quaternion(*placed[:4]), Vec3(*placed[4:])
    has_parent = up >= 0
    row_parent = np.where(first, np.where(has_parent, carrier_row[np.maximum(up, 0)], -1), np.arange(n_rows) - 1)
    turned = in_pieces(lambda s: tuple(Quaternion(*(c[s] for c in of_body[:4])).rotation()), len(parent))
    frames = Transform(Rotation(*turned), Vec3(*of_body[4:]))
    merged = merge_inertia(carrier_row, frames, inertia, n_rows)
    rows = Rows(orientation, position, turn[pick], slide[pick], merged, np.zeros(n_rows))
    q_of_row = np.where(quaternion, -1, q_start[body] + number)
    return Compiled(rows, row_parent, carrier_row, frames, q_of_row, q_start, v_start)
