"""Cylinders that touch cylinders and boxes: no direction has less depth, and faces touch where MuJoCo's do."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from kinetree.spatial import Quaternion
from tests.constrain.agreement import compiled, ours

CYLINDER, OTHER = np.array([0.08, 0.1]), {"cylinder": np.array([0.05, 0.12]), "box": np.array([0.06, 0.1, 0.07])}


def two(kind, flag=""):
    sizes = " ".join(map(str, CYLINDER)), " ".join(map(str, OTHER[kind]))
    bodies = "".join(
        f'<body><freejoint/><geom type="{k}" size="{size}" mass="1"/></body>'
        for k, size in zip(("cylinder", kind), sizes, strict=True)
    )
    return f'<mujoco><option ccd_tolerance="1e-12">{flag}</option><worldbody>{bodies}</worldbody></mujoco>'


def heights(kind, size, n, turn):
    """How far a shape reaches along directions (..., count, 3) in each of `count` poses."""
    local = np.abs(np.einsum("ijk,...kj->...ki", turn, n))
    if kind == "box":
        return local @ size
    return np.hypot(local[..., 0], local[..., 1]) * size[0] + local[..., 2] * size[1]


@pytest.mark.parametrize("kind", OTHER)
def test_no_direction_has_less_depth(kind):
    """Of shallow poses, at faces, sides, rims and edges; half of them nearly aligned."""
    rng, count = np.random.default_rng(0), 400
    turns = rng.standard_normal((2, count, 4))
    turns[:, ::2] = np.array([1, 0, 0, 0]) + 10.0 ** rng.uniform(-5, -1, (2, count // 2, 1)) * turns[:, ::2]
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    inward = np.array([np.array(Quaternion(*t.T).rotation()).reshape(3, 3, count) for t in turns])
    towards = rng.standard_normal((count, 3))
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    tried = rng.standard_normal((1500, 1, 3)) * np.ones((count, 1))
    tried = np.concatenate([tried, *(inward[s].transpose(2, 0, 1)[None, :, k] for s in (0, 1) for k in range(3))])
    tried = np.concatenate([tried, -tried]) / np.linalg.norm(np.concatenate([tried, tried]), axis=-1, keepdims=True)

    def both(n):
        return heights("cylinder", CYLINDER, n, inward[0]) + heights(kind, OTHER[kind], n, inward[1])

    reach, along = both(tried), np.einsum("...kj,kj->...k", tried, towards)
    apart = np.where(along > 1e-3, reach / np.where(along > 1e-3, along, 1), np.inf).min(0)
    away = towards * (apart - 10.0 ** rng.uniform(-4, -1.7, count))[:, None]
    places = np.stack((np.zeros((count, 3)), away))
    model = kt.load(two(kind, '<flag multiccd="disable"/>'))
    found = kt.contacts(model, np.concatenate([*np.concatenate([places, turns], 2)], 1))
    touch = found.active[:, 0]
    assert touch.sum() > 150
    normal, depth = found.frame[:, 0, 0], found.depth[:, 0]
    own = both(normal) - (normal * away).sum(-1)
    assert np.abs(depth - own)[touch].max() < 1e-8
    most = (reach - np.einsum("...kj,kj->...k", tried, away)).min(0)
    assert (depth - most)[touch].max() < 1e-9
    for size in (1e-2, 1e-4):  # Nor has one near the normal.
        near = normal + size * rng.standard_normal((300, count, 3))
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        assert (depth - (both(near) - (near * away).sum(-1)).min(0))[touch].max() < 1e-9


@pytest.mark.skipif(int(mujoco.__version__.split(".")[0]) < 4, reason="before MuJoCo 4 other corners touch")
@pytest.mark.parametrize("kind", OTHER)
def test_ends_that_lie_on_faces_touch_as_in_mujoco(kind):
    """Stacks that are shifted, so that points of both may hang over, and lean a little."""
    rng = np.random.default_rng(1)
    m = compiled(two(kind))
    data, states, wanted = mujoco.MjData(m), [], []
    for _ in range(80):
        turn = np.array([1, *rng.standard_normal(3) * [3e-3, 3e-3, 1]])
        shift = rng.uniform(-0.07, 0.07, 2)
        height = CYLINDER[1] + OTHER[kind][-1] - 10.0 ** rng.uniform(-4.5, -3)
        states.append(np.array([0, 0, 0, 1, 0, 0, 0, *shift, height, *turn / np.linalg.norm(turn)]))
        data.qpos[:] = states[-1]
        mujoco.mj_forward(m, data)
        c = data.contact
        wanted.append(np.concatenate([c.pos, c.frame[:, :3], -c.dist[:, None]], 1))
    model = ours(m)
    found = kt.contacts(model, Mujoco(model).q_here(np.array(states)))
    assert sum(map(len, wanted)) > 2 * len(wanted)
    same = []
    for k, points in enumerate(wanted):
        own = found.active[k]
        mine = np.concatenate([found.position[k][own], found.frame[k][own][:, 0], found.depth[k][own][:, None]], 1)
        same.append(len(mine) == len(points) and np.abs(mine[:, None] - points).max(-1).min(0).max() < 1e-9)
    assert np.mean(same) > 0.85
