"""Contacts between moving bodies by the native body: of one tree, and of several, against MuJoCo."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.collide import Geom, collider
from kinetree.constrain.choose import way_of
from kinetree.constrain.native import near
from kinetree.io import Mujoco
from kinetree.spatial import Mat3, Quaternion, Vec3
from tests.constrain.agreement import exact, ours, solved_as_there, states

CLOSE = 1e-10  # relative; 1e-13 is what is found

# A heap of balls and capsules in a bowl of capsules, and a chain that folds onto itself; all numbers of dimensions.
HEAP = """<mujoco><option timestep="0.004" cone="{cone}" impratio="{impratio}" integrator="{integrator}"/>
<worldbody><geom type="plane" size="0 0 1" friction="0.7 0.01 0.002"/>
<geom type="capsule" size="0.1" fromto="-1 0.35 0.1 1 0.35 0.1"/>
<geom type="capsule" size="0.1" fromto="-1 -0.35 0.1 1 -0.35 0.1"/>
<body pos="0 0 0.15"><freejoint/><geom size="0.12" condim="6" friction="0.8 0.02 0.003"/></body>
<body pos="0.03 0.02 0.38"><freejoint/><geom type="capsule" size="0.07 0.1" condim="4" euler="80 10 0"/></body>
<body pos="-0.02 0.01 0.6"><freejoint/><geom size="0.1" condim="1" solref="0.01 0.8"/></body>
<body pos="0.02 0 0.8"><freejoint/><geom type="capsule" size="0.06 0.12" euler="0 85 20"
  margin="0.01" gap="0.005"/></body>
<body pos="20 0 0.6"><freejoint/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0"/>
  <body pos="0.3 0 0"><joint axis="0 1 0" damping="0.1" range="-170 170"/>
    <geom type="capsule" size="0.05" fromto="0.06 0 0 0.3 0 0"/>
    <body pos="0.35 0 0"><joint axis="0 1 0" damping="0.1"/><geom type="capsule" size="0.05" fromto="0.02 0 0 0.3 0 0"/>
      <body pos="0.35 0 0"><joint axis="0 1 0.2" damping="0.1"/><geom size="0.08"/></body></body></body></body>
</worldbody><actuator/></mujoco>"""


def heap(cone="pyramidal", impratio=1, integrator="Euler"):
    return exact(mujoco.MjModel.from_xml_string(HEAP.format(cone=cone, impratio=impratio, integrator=integrator)))


@pytest.mark.parametrize(("cone", "impratio"), [("pyramidal", 1), ("elliptic", 4)])
def test_a_heap_and_a_folded_chain(cone, impratio):
    m = heap(cone, impratio)
    model = ours(m)
    plan = way_of(model).plan
    assert plan is not None
    assert plan.joined is not None  # several trees go by a matrix
    reached = states(m, model, count=30, every=12, push=1.0)
    assert reached.contacts.mean() > 4
    found = solved_as_there(model, reached, CLOSE)
    alone = kt.constrained_dynamics(model, reached.q[7], reached.qd[7], reached.tau[7])
    np.testing.assert_array_equal(alone.qdd, found.qdd[7])


def test_steps_of_a_heap():
    m = heap()
    model = ours(m)
    d = mujoco.MjData(m)
    mujoco.mj_step(m, d, nstep=60)
    state = kt.initial_state(model, Mujoco(model).q_here(d.qpos))
    state = state.replace(qd=Mujoco(model).v_here(state.q, d.qvel))
    mujoco.mj_step(m, d, nstep=5)
    after = kt.advance(model, state, substeps=5)
    assert np.abs(after.q - Mujoco(model).q_here(d.qpos)).max() < 1e-9


@pytest.mark.parametrize(("kinds", "vain"), [(("box", "box"), 0.3), (("capsule", "capsule"), 0.01)])
def test_whether_shapes_may_touch(kinds, vain):
    """What is asked first tells of no pair that it is apart where it is not, whatever way shapes are turned."""
    rng, count = np.random.default_rng(5), 4000
    turn = rng.standard_normal((2, count, 4))
    turn /= np.linalg.norm(turn, axis=-1, keepdims=True)
    half, away = rng.uniform(0.05, 0.5, (2, 3, count)), rng.uniform(-1.2, 1.2, (3, count))
    first, second = (
        Geom(Vec3(*at), Mat3(*Quaternion(*t.T).rotation()).T, Vec3(*size))
        for at, t, size in zip((0 * away, away), turn, half, strict=True)
    )
    boxes = tuple(near.BoundingBox(Vec3(*np.zeros((3, count))), Vec3(*size)) for size in half)
    radius = sum(np.sqrt((size**2).sum(0)) if kinds[0] == "box" else size[0] + size[1] for size in half)
    bounds = near.Bounds(radius + 0.01, 0.01, boxes)
    may = np.all([test(first, second, bounds) for test in near.tests_of(kinds)], 0)
    touch = np.any([np.asarray(c.distance) < 0.01 for c in collider(kinds, False).function(first, second, 0.01)], 0)
    assert not (touch & ~may).any()
    assert touch.sum() > count / 10
    assert (may & ~touch).sum() < vain * (~touch).sum()


def test_a_crowd_of_shapes_that_do_not_move():
    """Where many pairs are asked first, also cheap ones, no contact is lost, whichever of the two shapes moves."""
    bodies = "".join(
        f'<body pos="{0.3 * k} 0 0.1"><freejoint/><geom size="0.08"/>'
        f'<geom type="capsule" size="0.05 0.1" pos="0 0.2 0" euler="80 {20 * k} 0"/></body>'
        for k in range(4)
    )
    m = mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody><geom type="plane" size="0 0 1"/>
      <geom type="plane" size="0 0 1" pos="0 -0.2 0" euler="-90 0 0"/><geom type="box" size="0.2 0.2 0.02"/>
      <geom type="capsule" size="0.05" fromto="0 0.2 0 1 0.2 0"/><geom size="0.1" pos="0.9 0 0"/>
      {bodies}</worldbody></mujoco>""")
    model = ours(m)
    plan = way_of(model).plan
    assert plan is not None
    assert near.is_crowded(plan.pairs)
    data, rng = mujoco.MjData(m), np.random.default_rng(2)
    q = np.tile(m.qpos0, (40, 1)) + 0.1 * rng.standard_normal((40, m.nq))
    found = kt.contacts(model, Mujoco(model).q_here(q))
    for k in range(40):
        data.qpos[:] = q[k]
        mujoco.mj_forward(m, data)
        depth = np.sort(found.depth[k][found.active[k]])
        np.testing.assert_allclose(depth, np.sort(-data.contact.dist), atol=1e-9)
