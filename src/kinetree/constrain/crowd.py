"""Contacts within a crowd: shapes of many moving bodies, of which any two may meet.

Lists of all pairs would be too long, so near pairs are found in each state. Shapes are sorted by the cells of a grid,
which are as wide as the largest shape, and compared with those in the same and the neighbouring cells (Green 2010,
"Particle simulation using CUDA"; here cells are compared by their numbers, not only by their hash). The pairs go to
lists of fixed size. If a list is too small, the solution reports that it has not converged.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.collide import KINDS, Contact, collider, radius_of_size
from kinetree.model import Model, Placement
from kinetree.model.world import Crowd, PairSurfaces, Scene
from kinetree.spatial import Mat3, Motion, Scalar, Vec3
from kinetree.tree import take

from .contact_groups import between
from .groups import Group, Terms
from .touching import mixed_surfaces, placed

HASH = (73856093, 19349663, 83492791)  # large primes (Teschner et al. 2003)
HALF = tuple(d for d in np.ndindex(3, 3, 3) if d >= (1, 1, 1))  # a cell and half of its neighbours; 1 means no step


class Near(NamedTuple):
    """Pairs of shapes that may touch, (room,), by their places in the crowd."""

    first: Any
    second: Any
    exists: Any
    lost: Any  # (): True if some pairs did not fit


class Crowded(NamedTuple):
    """Points of contact, (points, 1), and the two shapes of each."""

    point: Contact
    bodies: Any  # (points, 2)
    active: Scalar


def near_pairs(crowd: Crowd, centre: Vec3, radius: Any, reach: Any) -> Near:
    """All pairs that may touch, and whose balls, (k,), are within reach of one another."""
    count = len(crowd.shapes)
    width = 2 * radius.max() + reach.max()
    cell = [jnp.floor((c - c.min()) / width).astype(jnp.int32) for c in centre]

    def bucket(cell: list[Any]) -> Any:
        mixed = [c.astype(jnp.uint32) * jnp.uint32(p) for c, p in zip(cell, HASH, strict=True)]
        return mixed[0] ^ mixed[1] ^ mixed[2]

    own = bucket(cell)
    order = jnp.argsort(own).astype(jnp.int32)
    ordered = own[order]
    around = [c[:, None] + np.array([d[k] - 1 for d in HALF], np.int32) for k, c in enumerate(cell)]
    wanted = bucket(around)
    start = jnp.searchsorted(ordered, wanted.reshape(-1)).reshape(wanted.shape).astype(jnp.int32)
    place = start[..., None] + np.arange(crowd.slots + 1, dtype=np.int32)  # (shapes, cells, slots + 1)
    other = order[jnp.minimum(place, count - 1)]
    same = place < count
    for k, c in enumerate(cell):
        same &= c[other] == around[k][..., None]
    lost = (same[..., -1] & (ordered[jnp.minimum(place[..., -1], count - 1)] == wanted)).any()
    here, other, same = np.arange(count, dtype=np.int32)[:, None, None], other[..., :-1], same[..., :-1]
    at_home = np.array([d == (1, 1, 1) for d in HALF])[:, None]
    same &= ~at_home | (other > here)
    offset = Vec3(*(c[other] - c[here] for c in centre))
    limit = radius[other] + radius[here] + reach[other] + reach[here]
    same &= offset.dot(offset) <= limit * limit
    same &= _may_meet(crowd, here, other)
    found = jnp.nonzero(same.reshape(-1), size=crowd.room, fill_value=-1)[0].astype(jnp.int32)
    first, exists = jnp.maximum(found, 0) // (len(HALF) * crowd.slots), found >= 0
    second = other.reshape(-1)[jnp.maximum(found, 0)]
    return Near(first, second, exists, lost | (same.sum() > crowd.room))


def _may_meet(crowd: Crowd, here: Any, other: Any) -> Any:
    """True if MuJoCo lets two shapes touch: their bits match, and neither body is the other or its parent."""
    own, above, contype, conaffinity = (
        jnp.asarray(np.array(x, np.int32)) for x in (crowd.own, crowd.above, crowd.contype, crowd.conaffinity)
    )
    bits = (contype[here] & conaffinity[other]) | (contype[other] & conaffinity[here])
    apart = (own[here] != own[other]) & (own[here] != above[other]) & (own[other] != above[here])
    return (bits != 0) & apart


Made = list[tuple[Crowded, PairSurfaces]]


def crowd_contacts(scene: Scene, R: Mat3, p: Vec3, dtype: Any) -> tuple[Made, Any]:
    """Points of each pair of kinds, with their surfaces; and True if some pairs were lost."""
    crowd = there(scene.layout.crowd)
    numbers = np.array(crowd.shapes, np.int64)
    every = placed(scene, numbers, R, p)
    kinds = np.array([KINDS.index(scene.layout.kinds[k]) for k in numbers])
    radius = _radius(kinds, every.size)[:, 0]
    reach = jnp.asarray(scene.surfaces.margin, dtype)[numbers] + jnp.asarray(scene.surfaces.gap, dtype)[numbers]
    near = near_pairs(crowd, Vec3(*(c[:, 0] for c in every.position)), radius, reach)
    kind, body = jnp.asarray(kinds), np.array(scene.layout.bodies, np.int64)[numbers]
    order = jnp.asarray(kinds * (body.max() + 1) + body)  # order of a pair: by kind, then by body
    swap = order[near.first] > order[near.second]
    first, second = jnp.where(swap, near.second, near.first), jnp.where(swap, near.first, near.second)
    made, lost = [], near.lost
    present = np.unique(kinds).tolist()
    for a, b in [(a, b) for a in present for b in present if a <= b]:
        own = near.exists & (kind[first] == a) & (kind[second] == b)
        i, j, exists = first, second, own
        if len(present) > 1:
            which = jnp.nonzero(own, size=crowd.room, fill_value=0)[0]
            i, j, exists = first[which], second[which], np.arange(crowd.room) < own.sum()
        surface = mixed_surfaces(scene, jnp.asarray(numbers)[i], jnp.asarray(numbers)[j], dtype)
        wide = (surface.margin + surface.gap)[:, None]
        points = collider((KINDS[a], KINDS[b]), scene.layout.single).function(take(every, i), take(every, j), wide)
        for point in points:
            point = jax.tree.map(lambda x: jnp.broadcast_to(x, (crowd.room, 1)), point)
            distance = jnp.where(exists[:, None], point.distance, jnp.inf)
            bodies = jnp.stack([jnp.asarray(body)[i], jnp.asarray(body)[j]], 1)
            active = distance < surface.margin[:, None]
            made.append((Crowded(point._replace(distance=distance), bodies, active), surface))
    return made, lost


def _radius(kinds: np.ndarray, size: Vec3) -> Scalar:
    """Radii of balls that hold the shapes."""
    found = jnp.zeros_like(size.x)
    for k in np.unique(kinds):
        found = jnp.where((kinds == k)[:, None], radius_of_size(KINDS[k], size), found)
    return found


def crowd_groups(
    model: Model, known: Terms, made: Made, poses: Placement, velocities: Motion, at: np.ndarray
) -> list[Group]:
    """One group for each pair of kinds and each point."""
    crowd = model.world.scene.layout.crowd  # type: ignore[union-attr]
    return [
        between(model, known, c.point, surface, c.bodies, crowd.condim, poses, velocities, at)  # type: ignore[union-attr]
        for c, surface in made
    ]


def joined(made: Made) -> Crowded:
    """All points, for reports."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *(c for c, _ in made))
