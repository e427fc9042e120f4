"""Faces of two meshes that lie against each other: of several nearly parallel ones, those that face each other most."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from tests.constrain.agreement import compiled, ours


@pytest.mark.skipif(int(mujoco.__version__.split(".")[0]) < 4, reason="before MuJoCo 4 it is the first two faces")
def test_points_between_nearly_flat_sides_are_mujocos():
    rng = np.random.default_rng(0)
    round_ = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.normal(size=(2, 50, 3))]
    lenses = [" ".join(f"{x:.6g}" for x in (points * [0.2, 0.15, 0.05]).ravel()) for points in round_]
    m = compiled(f"""<mujoco><asset><mesh name="a" vertex="{lenses[0]}"/><mesh name="b" vertex="{lenses[1]}"/></asset>
      <worldbody><body><freejoint/><geom type="mesh" mesh="a"/></body>
      <body><freejoint/><geom type="mesh" mesh="b"/></body></worldbody></mujoco>""")
    m.opt.ccd_tolerance = 1e-12
    data, states, wanted = mujoco.MjData(m), [], []
    for _ in range(60):
        turn, towards = np.array([1, *rng.normal(size=3) * 0.03]), np.array([*rng.normal(size=2) * 0.3, 1])
        turn /= np.linalg.norm(turn)
        near, far = 0.0, 0.5  # one lens is lowered on the other until they touch, and a bit more
        for depth in [0.0] * 20 + [rng.uniform(1e-4, 5e-3)]:
            distance = near - depth if depth else (near + far) / 2
            data.qpos[:] = np.concatenate([[0, 0, 0, 1, 0, 0, 0], towards * distance, turn])
            mujoco.mj_kinematics(m, data)
            mujoco.mj_collision(m, data)
            near, far = (distance, far) if data.ncon else (near, distance)
        states.append(data.qpos.copy())
        c = data.contact
        wanted.append(np.concatenate([c.pos, c.frame[:, :3], -c.dist[:, None]], 1))
    model = ours(m)
    found = kt.contacts(model, Mujoco(model).q_here(np.array(states)))
    assert sum(map(len, wanted)) > 2 * len(wanted)
    for k, points in enumerate(wanted):
        own = found.active[k]
        columns = found.position[k][own], found.frame[k][own][:, 0], found.depth[k][own][:, None]
        mine = np.concatenate(columns, 1)
        assert len(mine) == len(points)
        assert np.abs(mine[:, None] - points).max(-1).min(0).max() < 1e-9


def test_what_stands_exactly_on_another_does_not_touch_it():
    """MuJoCo's convex shapes touch from an overlap of 1e-15 m on."""
    m = compiled("""<mujoco><worldbody><geom type="box" size="0.1 0.1 0.1"/><body pos="0 0 0.2"><freejoint/>
      <geom type="cylinder" size="0.1 0.1"/></body></worldbody></mujoco>""")
    data, counts, states = mujoco.MjData(m), [], []
    for overlap in (-1e-15, 0.0, 1e-16, 1e-14, 1e-9):
        data.qpos[2] = 0.2 - overlap
        mujoco.mj_forward(m, data)
        counts.append(data.ncon)
        states.append(data.qpos.copy())
    found = kt.contacts(ours(m), Mujoco(ours(m)).q_here(np.array(states)))
    assert counts == [0, 0, 0, 4, 4]
    assert found.active.sum(-1).tolist() == counts
