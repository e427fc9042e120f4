"""Lengths of tendons, and their Jacobians on the degrees of freedom that they move. The facts are mj_tendon's.

Along a line with direction u, a row that carries its second end makes it longer by u · (slide z + turn z × (p − o)),
with z and o the row's axis and origin, and p any point of the line. A row that carries its first end makes it shorter.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree._types import Array, Float
from kinetree._varying import jit
from kinetree.model import Axis, Model, Placement, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.tendons import NO_SIDE, NO_WRAP, Tendons
from kinetree.spatial import Quaternion, Scalar, Vec3
from kinetree.tree import layout, pick, restore

from ..schedules.arranged import arranged, row_poses
from .paths import Paths, paths
from .wrapping import WrapPath, around, unit

SCHEDULE = "levels"


class Stretched(NamedTuple):
    """Tendons in a configuration."""

    length: Any  # (n, batch)
    moment: Any  # (n, width, batch or 1): ∂length over the degrees of freedom in `paths.dof`


class PlacedLines(NamedTuple):
    """The straight lines of spatial tendons, (lines, batch)."""

    start: Vec3
    end: Vec3
    direction: Vec3
    length: Scalar
    share: Scalar  # the factor of a line: 1 / divisor of a pulley, and 0 if the line does not exist


def tendons_of(model: Model) -> Tendons | None:
    """The tendons of a model, if it has some."""
    found = None if model.world is None else model.world.tendons
    return None if found is None or not len(found) else found


def paths_of(model: Model) -> Paths:
    """The tables of a model with tendons."""
    tendons = tendons_of(model)
    assert tendons is not None
    return paths(model.structure, tendons.routes)


@jit
def stretched(model: Model, q: Any) -> Stretched:
    """The state of all tendons of a model, from q (batch, nq)."""
    tendons = tendons_of(model)
    assert tendons is not None
    at, dtype = paths_of(model), q.dtype
    fixed = np.array([r for _, r in tendons.routes.fixed], np.int64)
    coefficients = jnp.asarray(tendons.coefficients, dtype)[:, None]
    own = coefficients * q.T[model.structure.q_of_row[fixed]]
    zero = jnp.zeros((1, q.shape[0]), dtype)
    if not at.spatial:
        moment = jnp.concatenate([coefficients, jnp.zeros((1, 1), dtype)])[at.sources].sum(2)
        return Stretched(jnp.concatenate([own, zero])[at.parts].sum(1), moment)
    laid = layout(model.tree, SCHEDULE)
    arrangement = arranged(laid, model, q)
    axis, pose = restore(laid, (arrangement.rows.axis, row_poses(laid, arrangement)))
    line, arcs = lines_of(model, pose, q.shape[0])
    length = jnp.concatenate([own, line.length * line.share, arcs, zero])[at.parts].sum(1)
    entries = _entries(at, axis, pose, line)
    wide = jnp.broadcast_to(coefficients, own.shape)
    return Stretched(length, jnp.concatenate([wide, entries, zero])[at.sources].sum(2))


def _entries(at: Paths, axis: Axis, pose: Placement, line: PlacedLines) -> Scalar:
    """(entries, batch)."""
    own, place = pick((axis, pose), at.row)
    u, p, share = pick((line.direction, line.end, line.share), at.line)
    z = place.orientation.rotation().rows[2]
    moved = z * own.slide + z.cross(p - place.position) * own.turn
    return moved.dot(u) * share * jnp.asarray(at.sign, share.dtype)[:, None]


def placed(model: Model, pose: Placement, batch: int) -> Vec3:
    """The points of spatial tendons in the world, (points, batch), from the poses of all rows."""
    tendons = tendons_of(model)
    assert tendons is not None
    return _on_rows(np.array(tendons.routes.points, np.int64), tendons.points, pose, batch)[0]


def _on_rows(rows: np.ndarray, place: Any, pose: Placement, batch: int) -> tuple[Vec3, Quaternion]:
    """Points of rows, or of the base, in the world, and the orientations of these rows."""
    dtype = pose.position.x.dtype
    own = Vec3(*(jnp.asarray(place, dtype).reshape(-1, 3)[:, k, None] for k in range(3)))
    base = Placement.identity_like(jnp.zeros((1, batch), dtype))
    whole: Placement = jax.tree.map(lambda x, b: jnp.concatenate([x, b])[rows], pose, base)  # −1 is the base
    return whole.position + whole.orientation.turn(own), whole.orientation


def lines_of(model: Model, pose: Placement, batch: int) -> tuple[PlacedLines, Scalar]:
    """All lines, and the arcs of all spans, (spans, batch), from the poses of all rows."""
    tendons = tendons_of(model)
    assert tendons is not None
    at = paths_of(model).lines
    points, dtype = placed(model, pose, batch), pose.position.x.dtype
    way = _ways(tendons, pose, points)
    if way is not None:
        both = jax.tree.map(lambda a, b: jnp.stack([a, b], 1).reshape(-1, batch), way.first, way.second)
        points = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), points, both)
    start, end = (jax.tree.map(lambda x, k=k: x[k], points) for k in (at.first, at.second))
    direction, length = unit(end - start)
    share = (1 / jnp.asarray(tendons.divisors, dtype))[:, None]
    arcs = jnp.zeros((len(tendons.routes.spans), batch), dtype)
    there = jnp.ones_like(length)
    if way is not None:
        always = at.wrap == NO_WRAP
        touched = way.on[np.where(always, 0, at.wrap)]
        there = jnp.where(always[:, None] | (touched == at.touching[:, None]), 1.0, 0.0).astype(dtype)
        wrap = np.array([s.wrap for s in tendons.routes.spans])
        some = (wrap != NO_WRAP)[:, None]
        arc = jnp.where(way.on, way.length, 0.0)[np.maximum(wrap, 0)]
        arcs = jnp.where(some, arc, 0.0) * share
    return PlacedLines(start, end, direction, length, share[at.span] * there), arcs


def _ways(tendons: Tendons, pose: Placement, points: Vec3) -> WrapPath | None:
    """The ways of spans around their shapes, (wraps, batch)."""
    arounds, dtype, batch = tendons.routes.arounds, points.x.dtype, points.x.shape[-1]
    if not arounds:
        return None
    ends = {s.wrap: (s.first, s.second) for s in tendons.routes.spans}
    center, turn = _on_rows(np.array([a.row for a in arounds]), tendons.shapes.position, pose, batch)
    orientation = jnp.asarray(tendons.shapes.orientation, dtype)
    turn = turn * Quaternion(*(orientation[:, k, None] for k in range(4)))
    radius = jnp.asarray(tendons.shapes.radius, dtype)[:, None]
    found: list[WrapPath] = []
    order: list[int] = []
    for cylinder in (False, True):
        for sided in (False, True):
            some = [k for k, a in enumerate(arounds) if a.cylinder == cylinder and (a.side != NO_SIDE) == sided]
            if not some:
                continue
            own = np.array(some)

            def at(which: Any) -> Vec3:
                return pick(points, np.array(which))

            first, second = at([ends[k][0] for k in some]), at([ends[k][1] for k in some])
            side = at([arounds[k].side for k in some]) if sided else None
            c, t = jax.tree.map(lambda x, own=own: x[own], (center, turn))
            found.append(around(cylinder, first, second, c, t, radius[own], side))
            order += some
    back = np.argsort(np.array(order))
    return jax.tree.map(lambda *x: jnp.concatenate(x)[back], *found)


def velocities(at: Paths, moment: Any, qd: Any) -> Any:
    """(n, batch), of tendons with these moments, from qd (batch, nv)."""
    return (moment * qd.T[at.dof]).sum(1)


def on_joints(at: Paths, moment: Any, force: Any, nv: int) -> Any:
    """Generalised forces (batch, nv) of forces along tendons (n, batch)."""
    parts = jnp.broadcast_to(moment * force[:, None], (*at.dof.shape, force.shape[-1]))
    total = jnp.zeros((nv, force.shape[-1]), force.dtype)
    return total.at[at.dof.reshape(-1)].add(parts.reshape(at.dof.size, force.shape[-1])).T


@coupled("unchanged")
def tendon_length(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... tendons"]:
    """Lengths of the tendons of a model.

    Arguments:
        model: the mechanism; its tendons come from its file, or from `with_tendons`.
        q: (..., nq).

    Returns:
        (..., n), in the order of `model.world.tendons.names`; none for a model without tendons.

    Example: for `kt.with_tendons(kt.auto_tree(2), [kt.Tendon("pull", joints={"joint_0": 1.0, "joint_1": -0.5})])` and
        q = (0.2, 0.4) it is [0].
    """

    def compute(q: Any) -> Any:
        if tendons_of(model) is None:
            return library(q).zeros((q.shape[0], 0), q.dtype)
        return stretched(model, q).length.T

    return evaluate_for(model, compute, q=q)


@coupled("force")
def tendon_jacobian(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... tendons nv"]:
    """How fast tendons grow: their velocities are this matrix times qd, and forces f along them act as its transpose.

    Arguments:
        model: the mechanism with its tendons.
        q: (..., nq).

    Returns:
        (..., n, nv).
    """

    def compute(q: Any) -> Any:
        if tendons_of(model) is None:
            return library(q).zeros((q.shape[0], 0, model.nv), q.dtype)
        return _matrix(model, q)

    return evaluate_for(model, compute, q=q)


@jit
def _matrix(model: Model, q: Any) -> Any:
    """(batch, tendons, nv)."""
    at, moment = paths_of(model), stretched(model, jnp.asarray(q)).moment
    n = len(at.dof)
    wide = jnp.broadcast_to(moment, (*at.dof.shape, q.shape[0]))
    whole = jnp.zeros((n, model.nv, q.shape[0]), q.dtype)
    return jnp.moveaxis(whole.at[np.arange(n)[:, None], at.dof].add(wide), -1, 0)
