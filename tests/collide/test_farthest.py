"""The farthest corner of a hull: the one that MuJoCo's climb ends at, wherever the search begins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from kinetree.collide.cube import CELLS, Cell, directions
from kinetree.collide.hull import START_COSINE, Hull
from kinetree.collide.pool import Corners, pooled
from kinetree.spatial import Vec3


def climbed(hull: Hull, d: np.ndarray) -> int:
    """From MuJoCo's start to the farthest neighbour, the first in order, until none is farther."""
    x, y, z = 1 + (d > START_COSINE).astype(int) - (d < -START_COSINE).astype(int)
    at, heights = int(hull.starts[9 * x + 3 * y + z]), hull.vertices @ d
    while True:
        to = max(map(int, hull.neighbours[at]), key=heights.__getitem__)
        if heights[to] <= heights[at]:
            return at
        at = to


def test_farthest_is_where_mujoco_climbs_to():
    """Random directions, and those along which several corners are as far, on round hulls and one with flat sides."""
    rng = np.random.default_rng(0)
    ball = rng.standard_normal((150, 3))
    grid = np.array([[x, y, z] for x in range(4) for y in range(3) for z in range(5)], float) - [1.5, 1.0, 2.0]
    clouds = [ball / np.linalg.norm(ball, axis=1, keepdims=True), grid, np.concatenate([grid, 2.5 * ball[:20]])]
    hulls = [Hull.from_points(points) for points in clouds]
    every = rng.standard_normal((200, 3))
    every = np.concatenate([every / np.linalg.norm(every, axis=1, keepdims=True), np.eye(3), -np.eye(3)])
    pool, starts = pooled(hulls, np.float32)

    def farthest(at: jax.Array, d: jax.Array) -> jax.Array:
        corners, along = Corners(jnp.asarray(pool), at).search, Vec3(*d)
        return corners.chosen(along, corners.farthest(along))

    search = jax.jit(jax.vmap(farthest, (None, 0)))
    for hull, start in zip(hulls, starts, strict=True):
        seen = hull._replace(vertices=hull.vertices.astype(np.float32))
        found = np.asarray(search(jnp.int32(start), jnp.asarray(every, jnp.float32)))
        assert found.tolist() == [climbed(seen, d) for d in every.astype(np.float32)]


def test_lists_leave_no_corner_out():
    """Any corner that is as far will do; lists of directions along which very many are nearly as far end early."""
    rng = np.random.default_rng(1)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    disc = np.concatenate([np.stack((np.cos(angle), np.sin(angle), 0 * angle + z), 1) for z in (-0.2, 0.2)])
    ball = rng.standard_normal((400, 3))
    hulls = [Hull.from_points(x) for x in (disc, ball / np.linalg.norm(ball, axis=1, keepdims=True), ball[:12])]
    assert (hulls[0].cells[:, 1] < 0).any()
    assert (hulls[0].cells[:, 0] < 0).any()
    assert (hulls[2].cells >= 0).all()
    every = np.concatenate([rng.standard_normal((2000, 3)), [0, 0, 1] + 1e-3 * rng.standard_normal((200, 3))])
    every /= np.linalg.norm(every, axis=1, keepdims=True)
    pool, starts = pooled(hulls, np.float64)

    def farthest(at: jax.Array, d: jax.Array) -> jax.Array:
        return Corners(jnp.asarray(pool), at).search.farthest(Vec3(*d)).number

    search = jax.jit(jax.vmap(farthest, (None, 0)))
    for hull, start in zip(hulls, starts, strict=True):
        heights = hull.vertices @ every.T
        found = np.asarray(search(jnp.int32(start), jnp.asarray(every)))
        np.testing.assert_allclose(heights[found, np.arange(len(every))], heights.max(0), rtol=0, atol=1e-14)


def test_rounded_corners_hide_none():
    """Where corners of a flat side are rounded, MuJoCo's climb ends short of the farthest; ours does not."""
    rng = np.random.default_rng(2)
    angle = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    ring = np.stack((np.cos(angle), np.sin(angle), 0 * angle), 1)
    disc = np.concatenate([ring + np.array([0, 0, side]) for side in (-0.2, 0.2)])
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    hull = Hull.from_points(disc @ turn.T)
    hull = hull._replace(vertices=hull.vertices.astype(np.float32).astype(np.float64))
    every = turn[:, 2] + 1e-9 * rng.standard_normal((100, 3))
    every /= np.linalg.norm(every, axis=1, keepdims=True)
    heights = hull.vertices @ every.T
    top = heights.max(0)
    assert any(heights[climbed(hull, d), k] < top[k] - 1e-10 for k, d in enumerate(every))
    pool, _ = pooled([hull], np.float64)
    corners = Corners(jnp.asarray(pool), jnp.int32(0)).search
    search = jax.jit(jax.vmap(lambda d: corners.chosen(Vec3(*d), corners.farthest(Vec3(*d)))))
    found = np.asarray(search(jnp.asarray(every)))
    np.testing.assert_allclose(heights[found, np.arange(len(every))], top, rtol=0, atol=1e-14)


def test_planes_of_faces_tell_which_points_are_beyond_a_hull():
    """None cuts the hull, and most points that are outside are beyond the one that faces them."""
    rng = np.random.default_rng(4)
    points = rng.standard_normal((150, 3)) * [1.0, 0.5, 0.2]
    hull = Hull.from_points(points)
    np.testing.assert_allclose((hull.facing[:, :3] @ hull.vertices.T).max(1), hull.facing[:, 3], rtol=0, atol=1e-14)
    places = points[rng.integers(0, 150, 300)] + 0.3 * rng.standard_normal((300, 3))
    corners = Corners(jnp.asarray(pooled([hull], np.float64)[0]), jnp.int32(0))
    normal, height = jax.vmap(corners.face_towards)(Vec3(*jnp.asarray((places - hull.box[0]).T)))
    beyond = np.asarray(normal.dot(Vec3(*places.T)) - height)
    planes = ConvexHull(points).equations
    outside = (places @ planes[:, :3].T + planes[:, 3]).max(1)
    assert (beyond <= outside + 1e-12).all()
    assert (beyond > 0)[outside > 0.05].mean() > 0.9


def test_equal_hulls_stand_in_a_pool_once():
    """Both arms of a robot show the same meshes; one that is as large, but another, stands apart."""
    points = np.random.default_rng(3).standard_normal((30, 3))
    one, same, other = (Hull.from_points(x) for x in (points, points.copy(), points[::-1] * 1.5))
    pool, starts = pooled([one, other, same], np.float64)
    assert starts[0] == starts[2] == 0
    assert starts[1] > 0
    alone, _ = pooled([one], np.float64)
    assert np.array_equal(pool[: len(alone)], alone)
    assert len(pool) == len(alone) + len(pooled([other], np.float64)[0])


def test_cells_hold_their_middles():
    """A cell's middle lies in that cell."""
    assert np.array_equal(Cell.of(Vec3(*jnp.asarray(directions().T, jnp.float32))).number, np.arange(CELLS))


def test_tables_of_large_hulls_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("KINETREE_CACHE", str(tmp_path))
    points = np.random.default_rng(0).standard_normal((200, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    made = Hull.from_points(points)

    def never(*_: object) -> Hull:
        raise AssertionError("made again")

    monkeypatch.setattr("kinetree.collide.hull._tables", never)
    for x, y in zip(Hull.from_points(points), made, strict=True):
        np.testing.assert_array_equal(x, y)
    for others in (2 * points, points[:150], points[:20]):  # small ones are made in less time than a file is read
        with pytest.raises(AssertionError, match="made again"):
            Hull.from_points(others)
