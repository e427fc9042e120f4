"""Meshes, boxes and other convex shapes in native lanes: whole scenes against MuJoCo."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

import kinetree as kt
from kinetree.constrain.choose import way_of
from kinetree.io import Mujoco
from tests.constrain.agreement import exact, ours, solved_as_there, states

ROCK = np.random.default_rng(3).normal(size=(30, 3))
ROCK = ROCK / np.linalg.norm(ROCK, axis=1, keepdims=True) * (0.12, 0.1, 0.08)
BENT = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.05, 0.05)])
BENT[7, 2] += 2e-5  # The upper side is two triangles, which MuJoCo takes for one face.
WEDGE = np.array([[x, y, z * (0.1 if x > 0 else 0.05)] for x in (-0.15, 0.1) for y in (-0.1, 0.1) for z in (-1, 1)])


def scene(bodies: str) -> mujoco.MjModel:
    meshes = "".join(
        f'<mesh name="{name}" vertex="{" ".join(map(str, v.ravel()))}"/>'
        for name, v in (("rock", ROCK), ("wedge", WEDGE), ("bent", BENT))
    )
    return exact(
        mujoco.MjModel.from_xml_string(
            f"""<mujoco><option timestep="0.004"/><asset>{meshes}</asset><worldbody>
            <geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>"""
        )
    )


# Boxes on boxes, one of them fixed, beside two meshes on the floor; colliders that have MuJoCo's own points.
BOXES = """<geom type="box" size="0.3 0.3 0.05" pos="0 0 0.05" euler="3 0 0"/>
<body pos="0 0 0.2"><freejoint/><geom type="box" size="0.1 0.12 0.08" mass="1"/></body>
<body pos="0.02 0.03 0.4"><freejoint/><geom type="box" size="0.08 0.1 0.06" mass="0.5" euler="0 0 30"/></body>
<body pos="1.5 0 0.15"><freejoint/><geom type="mesh" mesh="rock" mass="1"/></body>
<body pos="2.5 0 0.15"><freejoint/><geom type="mesh" mesh="wedge" mass="1"/></body>"""


def test_boxes_on_boxes_and_meshes_on_the_floor():
    m = scene(BOXES)
    model = ours(m)
    assert way_of(model).plan is not None
    reached = states(m, model, count=24, every=12, push=0.3)
    assert reached.contacts.mean() > 6
    found = solved_as_there(model, reached, 1e-9)
    alone = kt.constrained_dynamics(model, reached.q[7], reached.qd[7], reached.tau[7])
    np.testing.assert_array_equal(alone.qdd, found.qdd[7])


# Two meshes and a cylinder, each in contact with another, by GJK, EPA and clipping; one mesh does not move.
CONVEX = """<geom type="mesh" mesh="wedge" pos="0 0 0.2"/>
<body pos="0 0 0.38"><freejoint/><geom type="mesh" mesh="rock" mass="1"/></body>
<body pos="0.02 0.01 0.54"><freejoint/><geom type="mesh" mesh="wedge" mass="1"/></body>"""


def test_depths_of_hulls_are_mujocos():
    m = scene(CONVEX)
    model = ours(m)
    assert way_of(model).plan is not None
    d, convert = mujoco.MjData(m), Mujoco(model)
    q, depths = [], []
    for _ in range(30):
        mujoco.mj_step(m, d, nstep=8)
        mujoco.mj_forward(m, d)
        between = [k for k in range(d.ncon) if m.geom_type[d.contact.geom[k]].min() > 0]
        q.append(convert.q_here(d.qpos))
        depths.append(max((-d.contact.dist[k] for k in between), default=-np.inf))
    q, depths = np.array(q), np.array(depths)
    found = kt.constrained_dynamics(model, q, np.zeros((len(q), model.nv))).contacts
    plane = np.isclose(np.abs(found.frame[..., 0, 2]), 1) & (found.position[..., 2] < 0.01)
    mine = np.where(found.active & ~plane, found.depth, -np.inf).max(-1)
    touching = np.isfinite(depths)
    assert touching.sum() > 10
    np.testing.assert_array_equal(np.isfinite(mine), touching)
    assert np.abs(mine[touching] - depths[touching]).max() <= 1e-6
    after = kt.advance(model, kt.initial_state(model, q), substeps=20)
    assert np.isfinite(after.q).all()
    first = kt.advance(model, kt.initial_state(model, q[:3]), substeps=20)
    np.testing.assert_array_equal(first.q, after.q[:3])


def test_depths_on_a_face_that_is_not_flat_are_mujocos():
    lower, upper = ('<geom type="mesh" mesh="bent" mass="1"/>' for _ in range(2))
    m = scene(
        f"""<body pos="0 0 0.2"><freejoint/>{lower}</body>
        <body pos="0.03 0.02 0.299" euler="180 0 20"><freejoint/>{upper}</body>"""
    )
    model, d = ours(m), mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    assert d.ncon == 4
    found = kt.contacts(model, Mujoco(model).q_here(d.qpos))
    near = np.isfinite(found.depth)
    np.testing.assert_allclose(np.sort(found.depth[near]), np.sort(-d.contact.dist), rtol=0, atol=1e-12)


def test_worlds_that_differ_share_their_meshes():
    model = ours(scene('<body pos="0 0 0.1"><freejoint/><geom type="mesh" mesh="rock" mass="1"/></body>'))
    heavier = jnp.array([1.0, 1.5])
    worlds = jax.vmap(lambda x: kt.scaled(model, mass=x, friction=0.5 * x))(heavier)
    start = kt.initial_state(model, batch=(2,))
    start = start.replace(qd=np.random.default_rng(0).normal(size=start.qd.shape))
    after = kt.advance(worlds, start, substeps=20)
    for k, x in enumerate(heavier.tolist()):
        own = kt.advance(
            kt.scaled(model, mass=x, friction=0.5 * x), jax.tree.map(lambda a, k=k: a[k], start), substeps=20
        )
        np.testing.assert_allclose(after.q[k], own.q, atol=1e-13)
