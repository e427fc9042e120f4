"""Worlds from URDF and from code: shapes, the floor, mimic joints."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.choose import way_of
from kinetree.io import load_with_report
from kinetree.simulate.native import way_of_step
from tests.constrain.agreement import exact

INERTIAL = '<inertial><mass value="{}"/><inertia ixx="0.02" iyy="0.02" izz="0.02"/></inertial>'
URDF = f"""<robot name="r"><link name="base">{INERTIAL.format(3)}
  <collision><origin xyz="0 0 0.1" rpy="0.3 0 0"/><geometry><box size="0.4 0.3 0.2"/></geometry></collision></link>
  <link name="leg">{INERTIAL.format(1)}<collision><origin xyz="0 0 -0.3"/><geometry><sphere radius="0.05"/></geometry>
  </collision></link>
  <link name="tail">{INERTIAL.format(0.5)}<collision><geometry><mesh filename="package://x/none.stl"/></geometry>
  </collision></link>
  <joint name="hip" type="revolute"><parent link="base"/><child link="leg"/><axis xyz="0 1 0"/>
  <limit lower="-0.2" upper="0.3" effort="10" velocity="9"/></joint>
  <joint name="wag" type="revolute"><parent link="base"/><child link="tail"/><origin xyz="-0.2 0 0"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/>{{}}</joint></robot>"""
MJCF = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body name="base"><freejoint/>
  <inertial pos="0 0 0" mass="3" diaginertia="0.02 0.02 0.02"/>
  <geom type="box" size="0.2 0.15 0.1" pos="0 0 0.1" axisangle="1 0 0 17.188733853924695"/>
  <body><joint axis="0 1 0" range="-11.459155902616466 17.188733853924695"/>
  <inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/><geom size="0.05" pos="0 0 -0.3"/></body>
  <body pos="-0.2 0 0"><joint axis="0 0 1" range="-57.29577951308232 57.29577951308232"/>
  <inertial pos="0 0 0" mass="0.5" diaginertia="0.02 0.02 0.02"/></body></body></worldbody></mujoco>"""


def states(model, count=6):
    rng = np.random.default_rng(2)
    q, qd = kt.random_state(model, 4, (count,))
    q[:, :2], q[:, 2] = 0, rng.uniform(0.0, 0.3, count)
    return q, qd, rng.standard_normal((count, model.nv))


def test_a_urdf_on_the_ground_is_that_of_mujoco():
    model, report = load_with_report(URDF.format(""), floating_base=True, ground=True)
    assert report.ignored == {"collision meshes not found in the file's folder or those above it": 1}
    m = exact(mujoco.MjModel.from_xml_string(MJCF))
    data = mujoco.MjData(m)
    q, qd, tau = states(model)
    convention = kt.io.Mujoco(model)
    force, velocity = convention.force_there(q, tau), convention.v_there(q, qd)
    wanted = []
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q[k], velocity[k], force[k]
        mujoco.mj_forward(m, data)
        wanted.append(data.qacc.copy())
    found = kt.constrained_dynamics(model, q, qd, tau)
    assert found.contacts.active.any(-1).sum() > 2
    np.testing.assert_allclose(convention.a_there(q, qd, found.qdd), wanted, rtol=1e-7, atol=1e-7)
    assert kt.load(URDF.format(""), floating_base=True).world.scene.layout.pairs == ()


def test_links_of_a_urdf_touch_one_another_where_asked_for():
    """The pairs are those of MuJoCo's compiler, which filters parents and children."""
    ball = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    links = "".join(f'<link name="l{k}">{INERTIAL.format(1)}{ball}</link>' for k in range(5))
    joints = "".join(
        f'<joint name="j{k}" type="{kind}"><parent link="l{up}"/><child link="l{k}"/><origin xyz="0.3 0 0"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint>'
        for k, up, kind in ((1, 0, "revolute"), (2, 1, "fixed"), (3, 2, "revolute"), (4, 1, "prismatic"))
    )
    text = f'<robot name="r">{links}{joints}</robot>'
    model = kt.load(text, floating_base=True, self_collision=True)
    layout = model.world.scene.layout
    found = {frozenset((layout.bodies[p.first], layout.bodies[p.second])) for p in layout.pairs}
    assert found == {frozenset(p) for p in ((0, 3), (0, 4), (3, 4))}
    assert kt.load(text, floating_base=True).world.scene.layout.pairs == ()
    with pytest.raises(kt.ModelError, match="contype"):
        kt.load(MJCF, self_collision=True)


def test_mimic_joints_and_constraints_go_together():
    mimic = '<mimic joint="hip" multiplier="-2" offset="0.1"/>'
    model, _ = load_with_report(URDF.format(mimic), floating_base=True, ground=True)
    q, qd, tau = states(model)
    found = kt.constrained_dynamics(model, q, qd, tau)
    assert found.qdd.shape == tau.shape
    assert np.abs(found.tau_constraint).max() > 1
    np.testing.assert_allclose(kt.constrained_inverse_dynamics(model, q, qd, found.qdd), tau, atol=1e-7)
    forces = tau + found.tau_constraint
    np.testing.assert_allclose(kt.forward_dynamics(model, q, qd, forces), found.qdd, rtol=1e-8, atol=1e-8)
    assert way_of(model).plan is not None
    assert way_of_step(model, "Euler").plan is not None  # steps are native: mimic joints are links without softness
    state, still = kt.initial_state(model, q, qd), kt.constrained_dynamics(model, q, qd)
    after = kt.advance(model, state, integrator="Euler")
    np.testing.assert_allclose(after.warm_start, still.qdd, rtol=1e-9, atol=1e-9)
    twice, again = (
        kt.advance(model, state, integrator="Euler", substeps=2),
        kt.advance(model, after, integrator="Euler"),
    )
    np.testing.assert_array_equal(twice.q, again.q)
    np.testing.assert_array_equal(twice.qd, again.qd)


def test_what_is_no_shape_is_refused():
    model = kt.auto_tree(2)
    for shape, message in (
        (kt.Shape("cone"), "choose from plane"),
        (kt.Shape("sphere"), "1 positive sizes"),
        (kt.Shape("box", (1, 0, 1)), "3 positive sizes"),
        (kt.Shape("sphere", 1, 7), "no body has number 7"),
        (kt.Shape("sphere", 1, condim=2), "condim"),
        (kt.Shape("mesh"), "vertices"),
    ):
        with pytest.raises(kt.ModelError, match=message):
            kt.with_shapes(model, [shape])
    with pytest.raises(kt.ModelError, match="pyramidal or elliptic"):
        kt.World(cone="round")


def test_parent_and_child_do_not_touch_but_all_touch_the_base():
    model = kt.auto_tree(2)
    shapes = [kt.Shape("plane"), kt.Shape("sphere", 0.1, 0), kt.Shape("sphere", 0.1, 1), kt.Shape("sphere", 0.1, None)]
    layout = kt.with_shapes(model, shapes).world.scene.layout
    assert {(p.first, p.second) for p in layout.pairs} == {(0, 1), (0, 2), (3, 1), (3, 2)}  # the base comes first
    assert not kt.with_shapes(model, shapes, exclude=[(None, 0), (None, 1)]).world.scene.layout.pairs
    assert len(kt.with_ground(kt.with_shapes(model, shapes)).world.scene.layout.pairs) == 6
