"""Friction without slip against MuJoCo's noslip, which is given sweeps enough to converge.

Of elliptic cones only those of three dimensions: with more, what MuJoCo finds in a sweep is not the minimum (its force
and its slip do not point against each other).
"""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco, from_mujoco_model
from kinetree.io.report import Report
from tests.constrain.agreement import relative

# A ball on a slope that it can stay on, which turns with dry friction; a limb with more of it, and with a limit.
BALLS = """<mujoco><option noslip_iterations="5" cone="{cone}" impratio="2" iterations="200" tolerance="1e-15"/>
  <worldbody><geom type="plane" size="5 5 1" euler="14 0 0" friction="0.4 0.02 0.001" condim="{dim}"/>
  <body pos="0 0 0.15"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
    <joint type="slide" axis="0 0 1"/><joint axis="1 0 0" frictionloss="0.01"/><joint axis="0 1 0"/>
    <geom type="sphere" size="0.1" friction="0.3 0.01 0.002" condim="{dim}"/>
    <body pos="0.3 0 0.1"><joint axis="0 1 0" frictionloss="0.4" range="-30 30" limited="true"/>
      <geom type="sphere" size="0.05" pos="0.1 0 0" contype="0" conaffinity="0"/></body></body>
  </worldbody></mujoco>"""


# Two balls on swings that press on each other, a tendon with dry friction, and a swing that is held to the world.
SWINGS = """<mujoco><option noslip_iterations="5" cone="{cone}" integrator="{integrator}" iterations="200"
  tolerance="1e-15"/><worldbody>
  <body><joint name="a" axis="0 1 0" damping="0.1"/><joint axis="1 0 0"/>
    <geom type="sphere" size="0.1" pos="0.09 0 -1" friction="0.3"/></body>
  <body><joint name="b" axis="0 1 0" frictionloss="0.1"/><geom type="sphere" size="0.1" pos="-0.09 0 -1.02"/>
    <body name="c" pos="0 0 -1.5"><joint axis="1 0 0"/><geom size="0.05" pos="0 0.2 0" contype="0" conaffinity="0"/>
    </body></body></worldbody>
  <tendon><fixed frictionloss="0.5"><joint joint="a" coef="1"/><joint joint="b" coef="-0.4"/></fixed></tendon>
  <equality><connect body1="c" anchor="0 0.1 0"/></equality></mujoco>"""


@pytest.mark.parametrize(("cone", "integrator"), [("pyramidal", "implicitfast"), ("elliptic", "Euler")])
def test_steps_of_bodies_that_touch(cone, integrator):
    m = mujoco.MjModel.from_xml_string(SWINGS.format(cone=cone, integrator=integrator))
    m.opt.noslip_iterations, m.opt.noslip_tolerance = 2000, -1.0
    model = from_mujoco_model(m, Report("swings", "MJCF"))
    assert kt.explain(model).advance.body == "native"
    there, d, found = Mujoco(model), mujoco.MjData(m), []
    d.qvel[:] = 0.3, 0.2, -0.1, 0.2
    for _ in range(40):
        before = np.array(d.qpos), np.array(d.qvel)
        mujoco.mj_step(m, d)
        found.append((*before, np.array(d.qpos), np.array(d.qvel), d.ncon))
    qpos, qvel, next_q, next_v, count = map(np.stack, zip(*found, strict=True))
    assert count.sum() > 10
    after = kt.advance(model, kt.initial_state(model, there.q_here(qpos), there.v_here(there.q_here(qpos), qvel)))
    assert relative(after.q, there.q_here(next_q)) < 1e-12
    assert relative(after.qd, there.v_here(there.q_here(next_q), next_v)) < 1e-9


@pytest.mark.parametrize(("cone", "dim"), [("pyramidal", 3), ("elliptic", 3)])
def test_friction_does_not_slip(cone, dim):
    m = mujoco.MjModel.from_xml_string(BALLS.format(cone=cone, dim=dim))
    m.opt.noslip_iterations, m.opt.noslip_tolerance = 500, -1.0
    model = from_mujoco_model(m, report := Report("balls", "MJCF"))
    assert not report.ignored
    assert model.world.noslip
    there, d = Mujoco(model), mujoco.MjData(m)
    found = []
    for step in range(160):
        mujoco.mj_step(m, d)
        if step % 8 == 7:
            mujoco.mj_forward(m, d)
            found.append([np.array(x) for x in (d.qpos, d.qvel, d.qacc, d.qfrc_constraint, [d.ncon])])
    qpos, qvel, qacc, force, count = map(np.stack, zip(*found, strict=True))
    assert count.any()
    q = there.q_here(qpos)
    qd = there.v_here(q, qvel)
    ours = kt.constrained_dynamics(model, q, qd)
    assert ours.converged.all()
    assert relative(ours.qdd, there.a_here(q, qd, qacc)) < 1e-9
    assert relative(ours.tau_constraint, there.force_here(q, force)) < 1e-9
    m.opt.noslip_iterations = 0
    soft = kt.constrained_dynamics(from_mujoco_model(m, Report("balls", "MJCF")), q, qd)
    assert relative(soft.qdd, ours.qdd) > 1e-3  # it matters
