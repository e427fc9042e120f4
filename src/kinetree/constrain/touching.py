"""Which shapes touch, and where: all candidate pairs of a scene, collided kind by kind, states side by side."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.collide import COLLIDERS, Contact, Geom
from kinetree.model import Model
from kinetree.model.world import Pair, PairSurfaces, Scene
from kinetree.spatial import Mat3, Quaternion, Scalar, Vec3

MIN_FRICTION = 1e-5  # MuJoCo's mjMINMU
MIN_WEIGHT = 1e-15


class Touching(NamedTuple):
    """Points of contact, (points, batch), of pairs; in MuJoCo's order within a pair."""

    pair: np.ndarray  # (points,): number of the pair
    point: Contact


def surfaces_of_pairs(scene: Scene, dtype: Any) -> PairSurfaces:
    """The surfaces of all pairs: their own, or mixed from the two shapes (MuJoCo documentation, "Contact parameters")."""
    pairs = scene.layout.pairs
    one, two = (np.array([p[k] for p in pairs], np.int64) for k in (0, 1))
    shapes = jax.tree.map(lambda x: jnp.asarray(x, dtype), scene.surfaces)
    a, b = (jax.tree.map(lambda x: x[k], shapes) for k in (one, two))
    priority = np.array(scene.layout.priority, np.int64)
    first, second = (priority[one] > priority[two])[:, None], (priority[one] < priority[two])[:, None]
    ma, mb = jnp.maximum(a.solmix, 0), jnp.maximum(b.solmix, 0)
    none_a, none_b = ma < MIN_WEIGHT, mb < MIN_WEIGHT
    total = jnp.where(none_a & none_b, 1.0, ma + mb)
    weight = jnp.where(none_a & none_b, 0.5, jnp.where(none_a, 0.0, jnp.where(none_b, 1.0, ma / total)))[:, None]

    def choose(x: Any, y: Any, mixed: Any) -> Any:
        return jnp.where(first, x, jnp.where(second, y, mixed))

    standard = (a.solref[:, :1] > 0) & (b.solref[:, :1] > 0)
    solref = jnp.where(standard, weight * a.solref + (1 - weight) * b.solref, jnp.minimum(a.solref, b.solref))
    friction = choose(a.friction, b.friction, jnp.maximum(a.friction, b.friction))
    mixed = PairSurfaces(
        friction[:, np.array([0, 0, 1, 2, 2])],
        choose(a.solref, b.solref, solref),
        jnp.zeros_like(solref),
        choose(a.solimp, b.solimp, weight * a.solimp + (1 - weight) * b.solimp),
        a.margin + b.margin,
        a.gap + b.gap,
    )
    own = np.array([p.own for p in pairs], np.int64)
    if (own >= 0).any():
        given = jax.tree.map(lambda x: jnp.asarray(x, dtype)[np.maximum(own, 0)], scene.pairs)
        mixed = jax.tree.map(
            lambda x, y: jnp.where((own >= 0).reshape(-1, *(1,) * (x.ndim - 1)), y, x), mixed, given
        )
    return mixed._replace(friction=jnp.maximum(mixed.friction, MIN_FRICTION))


def _groups(scene: Scene) -> dict[tuple[Any, ...], list[int]]:
    """Pairs that one call collides: of the same kinds; meshes are alone, as each has a hull of its own."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for number, pair in enumerate(scene.layout.pairs):
        kinds = tuple(scene.layout.kinds[k] for k in (pair.first, pair.second))
        hulls = tuple(k if scene.shapes.hulls[k] is not None else -1 for k in (pair.first, pair.second))
        found.setdefault((kinds, hulls), []).append(number)
    return found


def _placed(scene: Scene, numbers: np.ndarray, R: Mat3, p: Vec3, hull: Any) -> Geom:
    """Shapes in the world, (shapes, batch); R and p are of the bodies, with the base last."""
    dtype = p.x.dtype
    shapes = scene.shapes
    body = np.array(scene.layout.bodies, np.int64)[numbers]
    carrier, origin = Mat3(*(c[body] for c in R)), Vec3(*(c[body] for c in p))

    def columns(array: Any) -> tuple[Scalar, ...]:
        whole = jnp.asarray(array, dtype)[numbers]
        return tuple(whole[:, k, None] for k in range(whole.shape[-1]))

    turned = Mat3(*Quaternion(*columns(shapes.orientation)).rotation()).T
    return Geom(carrier @ Vec3(*columns(shapes.position)) + origin, carrier @ turned, Vec3(*columns(shapes.size)), hull)


def touching(scene: Scene, surfaces: PairSurfaces, R: Mat3, p: Vec3) -> Touching:
    """All points of contact there may be, in lanes; those that are not have an infinite distance.

    Arguments:
        scene: the shapes.
        surfaces: of the pairs.
        R, p: orientation and origin of every body, (bodies + 1, batch), the base last, at index −1.
    """
    batch = p.x.shape[-1]
    pairs: list[Pair] = list(scene.layout.pairs)
    numbers, points = [], []
    for (kinds, hulls), members in _groups(scene).items():
        sides = []
        for k in (0, 1):
            own = np.array([pairs[m][k] for m in members], np.int64)
            hull = None if hulls[k] < 0 else jax.tree.map(lambda x: _as(x, p.x.dtype), scene.shapes.hulls[hulls[k]])
            sides.append(_placed(scene, own, R, p, hull))
        reach = (surfaces.margin + surfaces.gap)[np.array(members), None]
        found = COLLIDERS[kinds].function(*sides, jnp.broadcast_to(reach, (len(members), batch)))
        for contact in found:
            numbers.append(np.array(members))
            points.append(jax.tree.map(lambda x, n=len(members): jnp.broadcast_to(x, (n, batch)), contact))
    order = np.argsort(np.concatenate(numbers), kind="stable")
    whole = jax.tree.map(lambda *x: jnp.concatenate(x)[order], *points)
    return Touching(np.concatenate(numbers)[order], whole)


def _as(x: Any, dtype: Any) -> Any:
    return jnp.asarray(x, dtype) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.asarray(x)


def with_base(model: Model, R: Mat3, p: Vec3) -> tuple[Mat3, Vec3]:
    """Poses of the bodies, and of the base after them."""
    one, zero = jnp.ones_like(p.x[:1]), jnp.zeros_like(p.x[:1])
    identity = Mat3(*(one if k % 4 == 0 else zero for k in range(9)))

    def put(x: Any, y: Any) -> Any:
        return jnp.concatenate([x, y])

    return Mat3(*map(put, R, identity)), Vec3(*(put(c, zero) for c in p))
