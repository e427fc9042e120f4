"""Height fields, against MuJoCo."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.collide import HeightField, patch_of
from kinetree.io import Mujoco
from kinetree.io.load import load_with_report
from tests.constrain.agreement import compiled, ours

HEIGHTS = np.random.default_rng(3).uniform(0, 1, (5, 7))
# Without a margin MuJoCo 4.0's EPA stops too early for boxes and meshes over a field: its prisms do not number corners.
SCENE = """<mujoco><asset><hfield name="land" nrow="5" ncol="7" size="1.2 .8 .2 .1" elevation="{heights}"/></asset>
  <default><geom margin="{margin}"/></default><worldbody>
  <geom name="land" type="hfield" hfield="land" pos=".1 .05 0" euler="3 5 10"/>
  <body pos="-.4 .1 .35"><freejoint/><geom size=".12"/></body>
  <body pos=".4 -.1 .35"><freejoint/><geom type="box" size=".1 .08 .12"/></body></worldbody></mujoco>"""


def scene(margin):
    # MuJoCo's first row of a file is the last one of the grid.
    text = SCENE.format(margin=margin, heights=" ".join(f"{x:.4f}" for x in HEIGHTS[::-1].ravel()))
    m = compiled(text)
    m.opt.ccd_tolerance, m.opt.ccd_iterations = 1e-12, 400
    return text, m, ours(m)


@pytest.fixture(scope="module")
def fields():
    return {margin: scene(margin) for margin in (1e-13, 0.1)}


@pytest.mark.parametrize("margin", [1e-13, 0.1])
def test_contacts_with_height_fields_are_mujocos(fields, margin):
    _, m, model = fields[margin]
    data, convention, rng = mujoco.MjData(m), Mujoco(model), np.random.default_rng(0)
    q, qd, qdd, wanted = [], [], [], []
    for _ in range(3):
        mujoco.mj_resetData(m, data)
        for k in range(2):
            data.qpos[7 * k : 7 * k + 2] += rng.uniform(-0.2, 0.2, 2)
            turn = rng.normal(size=4)
            data.qpos[7 * k + 3 : 7 * k + 7] = turn / np.linalg.norm(turn)
        for step in range(300):
            mujoco.mj_step(m, data)
            if step % 30 == 29:
                mujoco.mj_forward(m, data)
                q.append(convention.q_here(data.qpos.copy()))
                qd.append(convention.v_here(q[-1], data.qvel.copy()))
                qdd.append(convention.a_here(q[-1], qd[-1], data.qacc.copy()))
                c = data.contact
                wanted.append(np.concatenate([c.pos, np.array(c.frame)[:, :3], np.array(c.dist)[:, None]], 1))
    found = kt.constrained_dynamics(model, np.array(q), np.array(qd))
    assert found.converged.all()
    assert sum(len(w) for w in wanted) > len(wanted)
    for k, theirs in enumerate(wanted):
        c = found.contacts
        near = np.isfinite(c.depth[k])
        own = np.concatenate([c.position[k], c.frame[k][:, 0], -c.depth[k][:, None]], 1)[near]
        assert len(own) == len(theirs)
        np.testing.assert_allclose(own, theirs, atol=1e-9)
        np.testing.assert_allclose(found.qdd[k], qdd[k], atol=1e-8 * max(1, np.abs(qdd[k]).max()))


def test_nothing_of_a_height_field_is_left_out(fields):
    text, m, model = fields[1e-13]
    _, report = load_with_report(text)
    assert not report.ignored
    field = model.world.scene.shapes.hulls[0]
    np.testing.assert_allclose(field.heights, np.array(m.hfield_data).reshape(5, 7))
    cells = [p.cell for p in model.world.scene.layout.pairs if p.first == 0 and p.second == 1]
    assert cells == patch_of(field, 0.12)
    assert len(cells) == 8


def test_shapes_over_too_many_cells_are_told():
    rough = " ".join("0.5" for _ in range(60 * 60))
    text = f"""<mujoco><asset><hfield name="land" nrow="60" ncol="60" size="1 1 .2 .1" elevation="{rough}"/></asset>
      <worldbody><geom type="hfield" hfield="land"/>
      <body pos="0 0 1"><freejoint/><geom size=".5"/></body></worldbody></mujoco>"""
    _, report = load_with_report(text)
    assert any("triangles of a height field" in what for what in report.ignored)


def test_height_fields_in_code(fields):
    """A field on the base, and a ball that falls on it."""
    _, _, there = fields[1e-13]
    field = there.world.scene.shapes.hulls[0]
    ball = kt.Shape("sphere", 0.12, 0)
    heights = np.asarray(field.heights)
    model = kt.Model.from_arrays([-1], "free", np.eye(6)[None], [[1, 0, 0, 0, 0.1, 0.1, 0.1, 0, 0, 0]])
    land = kt.Shape("hfield", (1.2, 0.8, 0.2, 0.1), heights=heights)
    model = kt.with_shapes(model, [land, ball])
    assert len(model.world.scene.layout.pairs) == len(patch_of(HeightField.make((1.2, 0.8, 0.2, 0.1), heights), 0.12))
    with pytest.raises(kt.ModelError, match="heights"):
        kt.with_shapes(model, [kt.Shape("hfield", (1, 1, 1, 1)), ball])
