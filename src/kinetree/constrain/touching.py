"""Collisions: all candidate pairs of a scene, kind by kind, with states side by side."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.collide import Contact, Geom, collider
from kinetree.collide.pool import pooled
from kinetree.collide.shapes import MIN_VALUE
from kinetree.model import Model
from kinetree.model.arguments import is_known
from kinetree.model.world import Pair, PairSurfaces, Scene
from kinetree.spatial import Mat3, Quaternion, Scalar, Vec3
from kinetree.tree import pick, take

MIN_FRICTION = 1e-5  # MuJoCo's mjMINMU


class Touching(NamedTuple):
    """Points of contact, (points, batch), of pairs; in MuJoCo's order within a pair."""

    pair: np.ndarray  # (points,): number of the pair
    point: Contact


def mixed_surfaces(scene: Scene, one: Any, two: Any, dtype: Any) -> PairSurfaces:
    """Surfaces of pairs of shapes, given by number, mixed from both (MuJoCo documentation, "Contact parameters")."""
    xp: Any = np if is_known(scene.surfaces, one) else jnp
    shapes = jax.tree.map(lambda x: xp.asarray(x, dtype), scene.surfaces)
    a, b = pick(shapes, one), pick(shapes, two)
    priority = xp.asarray(np.array(scene.layout.priority, np.int32))
    first, second = (priority[one] > priority[two])[:, None], (priority[one] < priority[two])[:, None]
    ma, mb = xp.maximum(a.solmix, 0), xp.maximum(b.solmix, 0)
    none_a, none_b = ma < MIN_VALUE, mb < MIN_VALUE
    total = xp.where(none_a & none_b, 1.0, ma + mb)
    weight = xp.where(none_a & none_b, 0.5, xp.where(none_a, 0.0, xp.where(none_b, 1.0, ma / total)))[:, None]

    def choose(x: Any, y: Any, mixed: Any) -> Any:
        return xp.where(first, x, xp.where(second, y, mixed))

    standard = (a.solref[:, :1] > 0) & (b.solref[:, :1] > 0)
    solref = xp.where(standard, weight * a.solref + (1 - weight) * b.solref, xp.minimum(a.solref, b.solref))
    friction = choose(a.friction, b.friction, xp.maximum(a.friction, b.friction))
    mixed = PairSurfaces(
        friction[:, np.array([0, 0, 1, 2, 2])],
        choose(a.solref, b.solref, solref),
        xp.zeros_like(solref),
        choose(a.solimp, b.solimp, weight * a.solimp + (1 - weight) * b.solimp),
        a.margin + b.margin,
        a.gap + b.gap,
    )
    return mixed._replace(friction=xp.maximum(mixed.friction, MIN_FRICTION))


def surfaces_of_pairs(scene: Scene, dtype: Any) -> PairSurfaces:
    """Surfaces of all listed pairs: their own, or mixed from the two shapes."""
    pairs = scene.layout.pairs
    one, two = (np.array([p[k] for p in pairs], np.int64) for k in (0, 1))
    mixed = mixed_surfaces(scene, one, two, dtype)
    xp: Any = np if is_known(scene.surfaces, scene.pairs) else jnp
    own = np.array([p.own for p in pairs], np.int64)
    if (own >= 0).any():
        given = jax.tree.map(lambda x: xp.asarray(x, dtype)[np.maximum(own, 0)], scene.pairs)
        mixed = jax.tree.map(lambda x, y: xp.where((own >= 0).reshape(-1, *(1,) * (x.ndim - 1)), y, x), mixed, given)
    return mixed._replace(friction=xp.maximum(mixed.friction, MIN_FRICTION))


def _groups(scene: Scene) -> dict[tuple[str, str], list[int]]:
    """Pairs that one call collides: of the same kinds."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, pair in enumerate(scene.layout.pairs):
        kinds = scene.layout.kinds
        found.setdefault((kinds[pair.first], kinds[pair.second]), []).append(number)
    return found


def placed(scene: Scene, numbers: np.ndarray, R: Mat3, p: Vec3) -> Geom:
    """Shapes in the world, (shapes, batch); R and p are of the bodies, with the base last."""
    dtype = p.x.dtype
    shapes = scene.shapes
    body = np.array(scene.layout.bodies, np.int64)[numbers]
    carrier, origin = take((R, p), body)

    def columns(array: Any) -> tuple[Scalar, ...]:
        whole = jnp.asarray(array, dtype)[numbers]
        return tuple(whole[:, k, None] for k in range(whole.shape[-1]))

    turned = Mat3(*Quaternion(*columns(shapes.orientation)).rotation()).T
    place, size = carrier @ Vec3(*columns(shapes.position)) + origin, Vec3(*columns(shapes.size))
    stands = Geom(place, carrier @ turned, size)
    if numbers[0] not in shapes.hulls:
        return stands
    meshes, which = np.unique(numbers, return_inverse=True)  # Every mesh is there once, however many pairs it is in.
    pool, starts = pooled([shapes.hulls[i] for i in meshes], dtype)
    return stands._replace(hull=jnp.asarray(pool), which=jnp.asarray(starts[which].astype(np.int32))[:, None])


def touching(scene: Scene, surfaces: PairSurfaces, R: Mat3, p: Vec3) -> Touching:
    """All possible points of contact, in lanes; missing ones have an infinite distance.

    Arguments:
        scene: the shapes.
        surfaces: of the pairs.
        R, p: orientation and origin of every body, (bodies + 1, batch), the base last, at index −1.
    """
    batch = p.x.shape[-1]
    pairs: list[Pair] = list(scene.layout.pairs)
    numbers, points = [], []
    for kinds, members in _groups(scene).items():
        first, second = (placed(scene, np.array([pairs[m][k] for m in members], np.int64), R, p) for k in (0, 1))
        if kinds[0] == "hfield":
            cells = jnp.asarray([pairs[m].cell for m in members], p.x.dtype)
            first = first._replace(size=Vec3(*(cells[:, k, None] for k in range(3))))
        reach = (surfaces.margin + surfaces.gap)[np.array(members), None]
        wide_reach = jnp.broadcast_to(reach, (len(members), batch))
        found = collider(kinds, scene.layout.single).function(first, second, wide_reach)
        wide = partial(jnp.broadcast_to, shape=(len(members), batch))
        for contact in found:
            numbers.append(np.array(members))
            points.append(jax.tree.map(wide, contact))
    order = np.argsort(np.concatenate(numbers), kind="stable")
    whole = take(jax.tree.map(lambda *x: jnp.concatenate(x), *points), order)
    return Touching(np.concatenate(numbers)[order], whole)


def with_base(model: Model, R: Mat3, p: Vec3) -> tuple[Mat3, Vec3]:
    """Poses of the bodies, and of the base after them."""
    one, zero = jnp.ones_like(p.x[:1]), jnp.zeros_like(p.x[:1])
    identity = Mat3(*(one if k % 4 == 0 else zero for k in range(9)))

    def put(x: Any, y: Any) -> Any:
        return jnp.concatenate([x, y])

    return Mat3(*map(put, R, identity)), Vec3(*(put(c, zero) for c in p))
