"""Points of contact: `kinetree.contacts`, and the form of reports."""

from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library, there
from kinetree._types import AnyArray, Bool, Float, Int
from kinetree._varying import jit
from kinetree.collide import collider
from kinetree.dynamics.schedules.arranged import arranged
from kinetree.dynamics.schedules.choose import note
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for, is_known
from kinetree.model.world import SceneLayout

from .choose import native_for
from .crowd import Crowded, joined
from .moving import natively
from .native import Goal, Solver
from .native.contacts import POINT_REPORT
from .problem import find_contacts, find_crowded, has_contacts, has_crowd, layout_of, may_touch
from .two_lanes import two_lanes

Touch = tuple[Any, ...]  # position, frame, depth and activity, (batch, points, ...); of crowds the bodies, too


class Contacts(NamedTuple):
    """Points where shapes touch, or may touch. Arrays are padded: every possible point has a place."""

    position: Float[AnyArray, "... n 3"]  # halfway between the surfaces
    frame: Float[AnyArray, "... n 3 3"]  # rows are the normal, from the first body to the second, and two tangents
    depth: Float[AnyArray, "... n"]  # how far the surfaces overlap; −inf if they are not near
    bodies: Int[AnyArray, "*batch n 2"]  # the two bodies, −1 the base; (n, 2) if all pairs are listed in advance
    active: Bool[AnyArray, "... n"]  # True if the contact pushes


@coupled("unchanged")
def contacts(model: Model, q: Float[AnyArray, "... nq"]) -> Contacts:
    """The points where the shapes of a mechanism touch the world, and one another.

    Arguments:
        model: the mechanism and its world.
        q: (..., nq).

    Returns:
        Contacts: .position, .frame, .depth, .bodies, .active; padded, with `active` False where there is no contact.
    """
    return contacts_of(model, evaluate_for(model, partial(touch_of, model), q=q))


def touch_of(model: Model, q: Any) -> Touch:
    """Points of contact of a model without coupling, from q (batch, nq)."""
    way, solver = native_for(model, q.dtype, goal=Goal.CONTACTS)
    note("contacts", way)
    reference = partial(_by_xla, model.alone)
    if solver is None:
        return reference(q)
    return _reported(solver, q) if is_known(q) else natively(_reported, reference, _moved, solver, q)


def _reported(solver: Solver, q: Any) -> Touch:
    return reported_points(solver(q).points)


def _moved(solver: Solver, motions: Any, reached: Touch, q: Any) -> Touch:
    return *reported_points(solver.at_solution(q, motions=motions).points)[:3], None


@jit
@two_lanes
def _by_xla(model: Model, q: Any) -> Touch:
    if not may_touch(model):
        return no_points(q)
    laid = layout_of(model, q)
    at, found, active = arranged(laid, model, q), None, None
    if has_contacts(model):
        found, _, active = find_contacts(laid, model, at)
    crowded = joined(find_crowded(laid, model, at)[0]) if has_crowd(model) else None
    return found_points(found, active, q, crowded)


def no_points(q: Any) -> Touch:
    """The (empty) points of a mechanism without pairs of shapes."""
    shape, xp = (len(q), 0), library(q)
    real = (xp.zeros((*shape, *more), q.dtype) for more in ((3,), (3, 3), ()))
    return *real, xp.zeros(shape, bool)


def found_points(found: Any, active: Any, q: Any, crowded: Crowded | None = None) -> Touch:
    """Points of contact, from the results of XLA."""
    if crowded is not None:
        listed, own = found_points(found, active, q), found_points(crowded, crowded.active, q)
        return *(jnp.concatenate(x, 1) for x in zip(listed, own, strict=True)), crowded.bodies[None]
    if found is None:
        return no_points(q)
    position, frame, distance = found.point
    return jnp.swapaxes(position.array(), 0, 1), jnp.swapaxes(frame.array(), 0, 1), -distance.T, active.T


def reported_points(points: Any) -> Touch:
    """Points of contact, from the report of native code: (batch, 14 for each point)."""
    seen = points.reshape(len(points), prod(points.shape[1:]) // POINT_REPORT, POINT_REPORT)
    return seen[..., :3], seen[..., 3:12].reshape(*seen.shape[:2], 3, 3), seen[..., 12], seen[..., 13] != 0


def contacts_of(model: Model, touch: Touch) -> Contacts:
    """With the bodies that touch."""
    position, frame, depth, active, *crowded = touch
    bodies = contact_bodies(model)
    for found in crowded:  # after the listed points
        xp = library(found)
        listed = xp.broadcast_to(xp.asarray(bodies, found.dtype), (*found.shape[:-2], *bodies.shape))
        bodies = xp.concatenate([listed, found], -2)
    return Contacts(position, frame, depth, bodies, active)


def contact_bodies(model: Model) -> np.ndarray:
    """The two bodies of every possible point, (n, 2)."""
    if not has_contacts(model):
        return np.zeros((0, 2), np.int64)
    assert model.world is not None
    layout = there(model.world.scene).layout
    return _bodies.get(model, None, lambda: _bodies_of_points(layout)).copy()


_bodies: OncePerOwner[np.ndarray] = OncePerOwner()


def _bodies_of_points(layout: SceneLayout) -> np.ndarray:
    return np.array(layout.bodies, np.int64)[shapes_of_points(layout)]


def shapes_of_points(layout: SceneLayout) -> np.ndarray:
    """The two shapes of every possible point of listed pairs, (n, 2)."""
    kinds, shapes = np.array(layout.kinds), np.array([p[:2] for p in layout.pairs], np.int64).reshape(-1, 2)
    points = np.zeros(len(shapes), np.int64)
    for a, b in sorted({*zip(*kinds[shapes].T.tolist(), strict=True)}):
        points[(kinds[shapes] == (a, b)).all(1)] = collider((a, b), layout.single).points
    return np.repeat(shapes, points, 0)
