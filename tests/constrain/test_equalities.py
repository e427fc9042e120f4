"""Equalities between bodies and between joints, against MuJoCo."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from tests.constrain.agreement import compiled, errors, ours, states

CLOSE = 1e-9  # relative; 1e-12 is what is found

# A four-bar, a weld of two free bodies and of one to the world, by bodies and by sites, a connect to a body that is
# fixed, joints that follow others or are held; soft and hard, between turning bodies, so that velocities matter.
EVERYTHING = """<mujoco><option timestep="0.002"/><default>
  <geom type="capsule" size="0.03" contype="0" conaffinity="0"/>
  </default><worldbody>
  <body name="a" pos="0 0 1"><joint axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0"/>
    <body name="b" pos="0.3 0 0"><joint type="ball"/><geom fromto="0 0 0 0 0 -0.4"/></body></body>
  <body name="c" pos="0.6 0 1"><joint axis="0 1 0.2" pos="0 0 0.01"/><geom fromto="0 0 0 -0.1 0 -0.4"/></body>
  <body name="d" pos="0 1 1"><freejoint/><geom fromto="0 0 0 0.2 0.1 0"/>
    <site name="d" pos="0.2 0.1 0" euler="20 0 5"/></body>
  <body name="e" pos="0.3 1 1"><freejoint/><geom fromto="0 0 0 0.1 0.1 0.2"/>
    <site name="e" pos="0.01 0 0" euler="0 9 5"/></body>
  <body name="f" pos="0 2 1"><freejoint/><geom fromto="0 0 0 0.2 0 0.1" mass="2"/></body>
  <body name="post" pos="1 2 1" euler="0 0 30"><geom fromto="0 0 0 0.2 0 0"/></body>
  <body name="g" pos="1.2 2 1"><freejoint/><geom fromto="0 0 0 0.3 0 0"/></body>
  <body pos="2 0 1"><joint name="lead" axis="0 1 0" ref="10"/><geom fromto="0 0 0 0.2 0 0"/>
    <body pos="0.2 0 0"><joint name="slave" type="slide" axis="1 0 0"/><joint name="held" axis="1 0 0"/>
    <geom fromto="0 0 0 0.2 0.05 0"/></body></body></worldbody>
  <equality><connect body1="b" body2="c" anchor="0 0 -0.4"/>
  <weld site1="d" site2="e" torquescale="0.5" solref="0.03 0.8"/>
  <weld body1="f" relpose="0 0 0 0.9 0.1 0.3 0" anchor="0.1 0 0" solimp="0.8 0.99 0.01 0.4 3"/>
  <weld body1="e" body2="g" torquescale="2" solref="0.1 1"/>
  <connect body1="g" body2="post" anchor="0.05 0 0" solref="-300 -20"/>
  <joint joint1="slave" joint2="lead" polycoef="0.1 0.5 -0.2 0.1 0.05"/><joint joint1="held" polycoef="0.2 0 0 0 0"/>
  <connect body1="a" body2="f" anchor="0 0 0" active="false"/></equality></mujoco>"""


def test_every_kind_of_equality():
    m = compiled(EVERYTHING)
    model = ours(m)
    reached = states(m, model, count=12, every=20, push=0.5, seed=3)
    found = errors(model, reached)
    assert max(found["qdd"], found["tau_constraint"], found["inverse"]) < CLOSE
    free = kt.constrained_dynamics(model.without_constraints, reached.q, reached.qd, reached.tau)
    assert np.abs(free.qdd - reached.qdd).max() > 1  # or nothing was held


FOUR_BAR = """<mujoco><option timestep="0.002" integrator="{}"/><worldbody>
  <body name="a"><joint axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3"/>
    <body name="b" pos="0 0 -0.3"><joint axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.6 0 0"/>
    </body></body>
  <body name="c" pos="0.6 0 0"><joint axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3"/></body>
  </worldbody><equality><connect body1="b" body2="c" anchor="0.6 0 0"/></equality></mujoco>"""


@pytest.mark.thorough
def test_a_four_bar_swings_as_in_mujoco():
    m = compiled(FOUR_BAR.format("Euler"))
    model, data = ours(m), mujoco.MjData(m)
    convention = Mujoco(model)
    data.qvel[:] = [2.0, -2.0, 2.0]
    q = convention.q_here(data.qpos)
    state = kt.initial_state(model, q, convention.v_here(q, data.qvel))
    for _ in range(200):
        mujoco.mj_step(m, data)
    state = kt.advance(model, state, substeps=200)
    np.testing.assert_allclose(state.q, data.qpos, atol=1e-9)


def test_what_holds_a_body_to_itself_does_nothing():
    text = """<mujoco><worldbody><body name="hand" mocap="true"><geom size=".1"/></body>
      <body name="a"><joint axis="0 1 0"/><geom size=".1" pos=".3 0 0"/><body name="b" pos=".1 0 0"/></body></worldbody>
      <equality><weld body1="hand"/><connect body1="a" body2="b" anchor="0 0 0"/></equality></mujoco>"""
    m = mujoco.MjModel.from_xml_string(text)
    d, model = mujoco.MjData(m), kt.load(text)
    assert model.world.equalities is None
    mujoco.mj_step(m, d)
    np.testing.assert_allclose(kt.advance(model, kt.initial_state(model)).qd, d.qvel, rtol=1e-12)
