"""Actuators on bodies against MuJoCo's adhesion."""

import mujoco
import numpy as np

import kinetree as kt
from kinetree.io import Mujoco, from_mujoco_model
from kinetree.io.report import Report
from tests.constrain.agreement import relative

# A foot of two balls, one of them near the ground but not pushing yet, that carries a hand on another ball.
CLIMBER = """<mujoco><option cone="{cone}" iterations="200" tolerance="1e-15"/><worldbody>
  <geom type="plane" size="5 5 1" euler="20 0 0" margin="0.001"/>
  <body name="foot" pos="0 0 0.105"><freejoint/><geom type="sphere" size="0.1" margin="0.002" gap="0.01"/>
    <geom type="sphere" size="0.05" pos="0.12 0 -0.045" condim="1"/>
    <body name="hand" pos="0 0 0.3"><joint axis="1 0 0"/><joint axis="0 1 0"/><geom type="sphere" size="0.05"/></body>
  </body>
  <body name="ball" pos="0 0.02 0.505"><freejoint/><geom type="sphere" size="0.06" mass="0.02"/></body></worldbody>
  <actuator><adhesion name="sole" body="foot" gain="30" ctrlrange="0 2"/>
    <adhesion name="palm" body="hand" gain="5" ctrlrange="0 3"/></actuator></mujoco>"""


def test_bodies_stick_to_what_they_touch():
    m = mujoco.MjModel.from_xml_string(CLIMBER.format(cone="pyramidal"))
    model = from_mujoco_model(m, report := Report("climber", "MJCF"))
    assert not report.ignored
    there, d, rng = Mujoco(model), mujoco.MjData(m), np.random.default_rng(0)
    found = []
    for step in range(80):
        d.ctrl[:] = rng.uniform(0, [2.5, 3.5])
        keep = step % 8 == 7
        if keep:
            mujoco.mj_forward(m, d)
            now = [np.array(x) for x in (d.qpos, d.qvel, d.ctrl, d.qfrc_actuator, [d.ncon])]
        mujoco.mj_step(m, d)
        if keep:
            found.append([*now, np.array(d.qvel)])
    qpos, qvel, ctrl, force, count, after = map(np.stack, zip(*found, strict=True))
    assert (count > 1).any()
    q = there.q_here(qpos)
    qd = there.v_here(q, qvel)
    wanted = there.force_here(q, force)
    assert np.abs(wanted).max() > 1
    assert relative(kt.actuator_force(model, q, qd, ctrl), wanted) < 1e-11
    assert kt.explain(model).advance.body == "native"
    state = kt.advance(model, kt.initial_state(model, q, qd), ctrl)
    assert relative(np.asarray(state.qd), there.v_here(np.asarray(state.q), after)) < 1e-10
    made = model.replace(
        actuators=[
            kt.Actuator.adhesion("foot", 30.0, ctrl_range=(0.0, 2.0), name="sole"),
            kt.Actuator.adhesion("hand", 5.0, ctrl_range=(0.0, 3.0)),
        ]
    )
    assert relative(kt.actuator_force(made, q, qd, ctrl), wanted) < 1e-11
