"""Ellipsoids that overlap: the depth is the least over all directions, and its gradient vanishes."""

import numpy as np

import kinetree as kt
from kinetree.spatial import Quaternion

SIZES = np.array([[0.06, 0.08, 0.11], [0.05, 0.1, 0.1]])
TWO = f"""<mujoco><worldbody>{
    "".join(
        f'<body pos="{k} 0 0"><freejoint/><geom type="ellipsoid" size="{" ".join(map(str, size))}"/></body>'
        for k, size in enumerate(SIZES)
    )
}</worldbody></mujoco>"""


def test_depths_are_the_least_of_all_directions():
    """Deep ones, too, where descent from a rough depth may not arrive, and growth goes on."""
    rng, count = np.random.default_rng(0), 300
    turns = rng.standard_normal((2, count, 4))
    turns[:, ::3] = np.eye(4)[rng.integers(0, 4, (2, count // 3))]  # a third of them aligned
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    away = rng.standard_normal((count, 3))
    away *= rng.uniform(0, 0.15, (count, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    places = np.stack((np.zeros((count, 3)), away))
    model = kt.load(TWO)
    found = kt.contacts(model, np.concatenate([*np.concatenate([places, turns], 2)], 1))
    deep = found.active[:, 0]
    assert deep.sum() > 200
    inward = np.array([np.array(Quaternion(*t.T).rotation()).reshape(3, 3, count) for t in turns])[..., deep]
    normal, away, least = found.frame[deep, 0, 0], away[deep], found.depth[deep, 0]

    def supports(n):
        """Heights of both along directions (..., 3) of each pose, and their gradients: the farthest points."""
        sizes = SIZES.reshape(2, *(1,) * (n.ndim - 1), 3)
        local = np.einsum("sijk,...kj->s...ki", inward, n) * sizes
        height = np.linalg.norm(local, axis=-1)
        points = np.einsum("sjik,s...kj->s...ki", inward, local / height[..., None] * sizes)
        return height.sum(0), points.sum(0)

    def depth(n):
        height, points = supports(n)
        gap = np.einsum("...kj,kj->...k", n, away)
        return height - gap, points - away

    own, slope = depth(normal)
    np.testing.assert_allclose(least, own, atol=1e-12)
    assert np.linalg.norm(np.cross(normal, slope), axis=1).max() < 1e-7
    tried = rng.standard_normal((1000, 1, 3))
    tried = np.broadcast_to(tried / np.linalg.norm(tried, axis=-1, keepdims=True), (1000, *away.shape))
    assert (least <= depth(tried)[0].min(0) + 1e-12).all()
