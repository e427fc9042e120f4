"""Files with numbers that nobody thinks of: their steps are MuJoCo's."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Report, from_mujoco_model
from tests.actuate.scenes import ours

PENDULUM = '<joint axis="0 1 0" damping="{}"/><geom size="0.1" pos="0.1 0 0"/>'
PUSHED = PENDULUM.format("-0.5").replace("<joint", '<joint name="j"')
LOADED = (  # a free body, which tumbles, and a weight that is fixed to it
    '<option integrator="implicitfast" timestep="0.005"/><worldbody><body><freejoint/><geom type="box" '
    'size="0.1 0.05 0.02" pos="0.02 0.03 0"/><body pos="0.2 0 0.1"><geom size="0.05" mass="1"/></body></body>{}'
)
ODD = {
    # The gyroscopic force of all that is fixed to a free body is taken at the end of the step.
    "a weight on a free body": f"{LOADED.format('')}</worldbody>",
    "a weight on a free body, by XLA": LOADED.format(
        '<body pos="1 0 0"><joint axis="0 1 0" actuatorfrcrange="-1 1"/><geom size="0.1" pos="0.1 0 0"/>'
        '<site name="s"/></body></worldbody><actuator><motor site="s"/></actuator>'
    ),
    # Euler takes dampers at the end of a step where one of them is positive.
    "a damper that pushes": f"<worldbody><body>{PENDULUM.format('-0.5')}</body></worldbody>",
    "a damper that pushes, by XLA": '<worldbody><body><joint axis="0 1 0" damping="-0.5" actuatorfrcrange="-1 1"/>'
    '<geom size="0.1" pos="0.1 0 0"/><site name="s"/></body></worldbody><actuator><motor site="s"/></actuator>',
    "one of two dampers pushes": f'<worldbody><body>{PENDULUM.format("-0.5")}</body><body pos="0 1 0">'
    f"{PENDULUM.format('0.1')}</body></worldbody>",
    # An actuator with armature or damping of its own counts as a positive damper.
    "a damper that pushes beside a rotor": f"<worldbody><body>{PUSHED}</body></worldbody>"
    '<actuator><velocity joint="j" armature="0.01"/></actuator>',
    "a damper that pushes beside a damped motor": f"<worldbody><body>{PUSHED}</body></worldbody>"
    '<actuator><motor joint="j" damping="0.2"/></actuator>',
    "a rotor, by XLA": '<worldbody><body><joint name="j" axis="0 1 0" damping="-0.5" actuatorfrcrange="-1 1"/>'
    '<geom size="0.1" pos="0.1 0 0"/><site name="s"/></body></worldbody><actuator><motor site="s"/>'
    '<motor joint="j" armature="0.01"/></actuator>',
    # A body that is drawn down counts where another is held up.
    "negative gravcomp": f'<worldbody><body gravcomp="-0.5">{PENDULUM.format("0")}</body></worldbody>',
    "gravcomp of both signs": f'<worldbody><body gravcomp="-0.5">{PENDULUM.format("0")}</body><body pos="0 1 0" '
    f'gravcomp="0.5">{PENDULUM.format("0")}</body></worldbody>',
    # A range that leaves out zero pushes where no actuator does.
    "a joint that only its range pushes": f"<worldbody><body>{PUSHED}</body><body pos='0 1 0'><joint axis='0 1 0' "
    "actuatorfrcrange='1 2'/><geom size='0.1' pos='0.1 0 0'/></body></worldbody>"
    "<actuator><motor joint='j'/></actuator>",
    # So does the range of an actuator whose group is switched off, but not if all actuators are.
    "an actuator that only its range pushes": f'<option actuatorgroupdisable="1"/><worldbody><body>{PUSHED}</body>'
    '</worldbody><actuator><motor joint="j" group="1" forcerange="1 2"/></actuator>',
    "no actuators at all": f'<option><flag actuation="disable"/></option><worldbody><body>{PUSHED}</body></worldbody>'
    '<actuator><motor joint="j" name="m" forcerange="1 2"/></actuator><sensor><actuatorpos actuator="m"/></sensor>',
    # The tendon moves nothing, and its damper is taken at the end of the step.
    "a tendon through what stands still": '<option integrator="implicit"/><worldbody><site name="a"/><body><joint '
    'type="ball"/><geom size="0.1" pos="0.1 0 0"/></body><body><site name="b" pos="1 0 0"/></body></worldbody>'
    '<tendon><spatial damping="1"><site site="a"/><site site="b"/></spatial></tendon>',
    # The inertia of tendons has velocity products, which this integrator leaves out, and entries within a tree only.
    "heavy tendons": '<option integrator="implicit"/><worldbody><site name="w" pos="0.5 0.5 1"/><body>'
    '<joint axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/><body pos="0.4 0 0"><joint axis="0 0 1"/>'
    '<geom size="0.1" pos="0.3 0 0"/><site name="t" pos="0.2 0.1 0.1"/></body></body><body pos="0 1 0">'
    '<joint axis="1 0 0"/><geom size="0.1" pos="0 0.2 0"/><site name="u" pos="0 0.3 0"/></body></worldbody><tendon>'
    '<spatial armature="0.5"><site site="w"/><site site="t"/></spatial>'
    '<spatial armature="0.5"><site site="u"/><site site="t"/></spatial></tendon>',
}


def assert_a_step_is_that_of_mujoco(m):
    model, convention = ours(m)
    d = mujoco.MjData(m)
    d.qvel[:] = np.linspace(0.5, 1, m.nv)
    q = convention.q_here(d.qpos.copy())
    state = kt.initial_state(model, q, convention.v_here(q, d.qvel.copy()))
    mujoco.mj_step(m, d)
    after = kt.advance(model, state)
    q = convention.q_here(d.qpos)
    np.testing.assert_allclose(after.q, q, atol=1e-14)
    np.testing.assert_allclose(after.qd, convention.v_here(q, d.qvel), atol=1e-12)


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_a_step_is_that_of_mujoco(content):
    assert_a_step_is_that_of_mujoco(mujoco.MjModel.from_xml_string(f"<mujoco>{content}</mujoco>"))


def test_a_free_joint_whose_numbers_were_edited():
    """A file has one number for all six degrees of freedom. A compiled model has six, linear ones first."""
    body = '<body><joint type="free" frictionloss="1" damping="1"/><geom type="box" size="0.1 0.2 0.3"/></body>'
    m = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    m.opt.tolerance, m.opt.iterations = 0, 100
    m.dof_damping[3:], m.dof_armature[:3] = 0.1, 0.5
    m.dof_frictionloss[:], m.dof_solref[:, 0] = np.linspace(0.1, 0.6, 6), np.linspace(0.02, 0.1, 6)
    mujoco.mj_setConst(m, mujoco.MjData(m))
    assert_a_step_is_that_of_mujoco(m)
    m.dof_damping[0] = 2
    report = Report("edited", "MJCF")
    from_mujoco_model(m, report)
    assert "dampers of free joints" in report.not_modelled
