"""From bodies and joints to rows (design idea 2), vectorised over the bodies, in NumPy.

Row frames are turned so that every joint axis is z; `frames` remembers how each body sits in its row's frame. A body
on a fixed joint has no rows of its own: its frame hangs from the row of the nearest moving ancestor, which takes its
inertia.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Inertia, Quaternion, Rotation, Sym3, Transform, Vec3

from .joints import Joint
from .rows import Rows


def quaternion_from_rotation(E: Any) -> Any:
    """(…, 4) orientations from (…, 3, 3) coordinate transforms; the largest component first, so nothing cancels."""
    xp: Any = jnp if isinstance(E, jax.Array) else np
    R = xp.swapaxes(E, -1, -2)
    x, y, z = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    squares = xp.stack([1 + x + y + z, 1 + x - y - z, 1 - x + y - z, 1 - x - y + z], -1)  # 4 w², 4 x², ...
    # row k: q times the k-th component, times 4
    a, b, c = R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]
    d, e, f = R[..., 1, 0] + R[..., 0, 1], R[..., 0, 2] + R[..., 2, 0], R[..., 2, 1] + R[..., 1, 2]
    products = xp.stack(
        [
            xp.stack([squares[..., 0], a, b, c], -1),
            xp.stack([a, squares[..., 1], d, e], -1),
            xp.stack([b, d, squares[..., 2], f], -1),
            xp.stack([c, e, f, squares[..., 3]], -1),
        ],
        -2,
    )
    best = xp.argmax(squares, -1)[..., None, None]
    q = xp.take_along_axis(products, best, -2)[..., 0, :]
    return q / xp.sqrt((q * q).sum(-1, keepdims=True))


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


def _transform(q: Quaternion, r: Vec3) -> Transform:
    return Transform(Rotation(*(np.asarray(c) for c in q.rotation())), r)


def merge_inertia(row_of_body: np.ndarray, frames: Transform, inertia: Inertia, n_rows: int) -> Inertia:
    """Inertia of each row: the sum over the bodies it carries, in the row's frame."""
    if isinstance(inertia.mass, jax.Array):
        return _merge_traced(row_of_body, frames, inertia, n_rows)
    carried = frames.inertia_to_parent(inertia)
    moving = row_of_body >= 0

    def total(component: np.ndarray) -> np.ndarray:
        return np.bincount(row_of_body[moving], np.asarray(component)[moving], n_rows)

    return Inertia(total(carried.mass), Vec3(*map(total, carried.h)), Sym3(*map(total, carried.I)))


def _merge_traced(row_of_body: np.ndarray, frames: Transform, inertia: Inertia, n_rows: int) -> Inertia:
    """The same where JAX may be tracing the inertias."""
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
    own = Quaternion.from_array(frame[pick])
    quaternion = np.array([j.quaternion for j in distinct], bool)[code[body]]

    fixed = nv == 0
    carrier, q_in, r_in = _fixed_frames(parent, fixed, q_tree, r_tree)
    carrier_row = np.where(carrier >= 0, v_start[np.maximum(carrier, 0) + 1] - 1, -1)
    moving_carrier = carrier >= 0
    last = np.zeros((len(parent), 4))
    last[:, 0] = 1
    last[moving_carrier] = frame[code[carrier[moving_carrier]], nv[carrier[moving_carrier]] - 1]
    back = Quaternion.from_array(last).conjugate()  # of the carrier's body frame in its last row's frame
    body_q, body_r = (
        back * q_in,
        back.turn(r_in),
    )  # of each body in its carrier's row frame (itself, for one that moves)

    # first rows: row frame of the parent's carrier -> parent body -> joint frame -> own axis frame
    up = parent[body]
    has_parent = up >= 0
    ident = np.array([1.0, 0, 0, 0])

    def of_parent(c: np.ndarray, base: float) -> np.ndarray:
        return np.where(has_parent, c[np.maximum(up, 0)], base)

    parent_q = Quaternion(*(of_parent(c, b) for c, b in zip(body_q, ident, strict=True)))
    parent_r = Vec3(*(of_parent(c, 0.0) for c in body_r))
    tree_q, tree_r = Quaternion(*(c[body] for c in q_tree)), Vec3(*(c[body] for c in r_tree))
    first = number == 0
    first_q = parent_q * tree_q
    turned = first_q * own
    before = Quaternion.from_array(frame[code[body], np.maximum(number - 1, 0)]).conjugate() * own
    first_r = parent_r + parent_q.turn(tree_r)
    # a quaternion stands between the tree transform and the axis frame: its row keeps the tree transform alone
    orientation = Quaternion(
        *(np.where(first, np.where(quaternion, a, b), c) for a, b, c in zip(first_q, turned, before, strict=True))
    )
    length = np.sqrt(orientation.norm_squared())
    orientation = Quaternion(*(c / length for c in orientation))
    position = Vec3(*(np.where(first, c, 0.0) for c in first_r))

    row_parent = np.where(first, np.where(has_parent, carrier_row[np.maximum(up, 0)], -1), np.arange(n_rows) - 1)
    frames = _transform(body_q, body_r)
    merged = merge_inertia(carrier_row, frames, inertia, n_rows)
    rows = Rows(orientation, position, turn[pick], slide[pick], merged, np.zeros(n_rows))
    q_of_row = np.where(quaternion, -1, q_start[body] + number)
    return Compiled(rows, row_parent, carrier_row, frames, q_of_row, q_start, v_start)
