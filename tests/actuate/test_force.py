"""Forces of actuators against MuJoCo's."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.actuate.scenes import GYMNASIUM, arm_text, compiled, ours, random_data

FILES = ["ant", "half_cheetah", "humanoid", "inverted_double_pendulum", "pusher_v5", "reacher", "walker2d_v5"]


def compare(m, seeds=range(4)):
    model, convention = ours(m)
    for seed in seeds:
        d = random_data(m, np.random.default_rng(seed))
        mujoco.mj_forward(m, d)
        q = convention.q_here(np.array(d.qpos))
        qd = convention.v_here(q, np.array(d.qvel))
        tau = kt.actuator_force(model, q, qd, np.array(d.ctrl), np.array(d.act))
        np.testing.assert_allclose(convention.force_there(q, tau), d.qfrc_actuator, rtol=0, atol=1e-12)
        rate = kt.activation_rate(model, np.array(d.ctrl), np.array(d.act))
        np.testing.assert_allclose(rate, d.act_dot, rtol=0, atol=1e-11)


@pytest.mark.parametrize("flags", ["", 'clampctrl="disable"', 'actuation="disable"'])
def test_every_kind_of_actuator(flags):
    compare(compiled(arm_text(flags=flags)))


@pytest.mark.parametrize("name", FILES)
def test_gymnasium(name):
    compare(compiled(GYMNASIUM / f"{name}.xml"), range(2))


MIXED = """
<mujoco><worldbody>
  <body name="arm"><joint name="a" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05" contype="0"/>
    <site name="tip" pos="0 0 -0.4"/></body></worldbody>
  <actuator>
    <adhesion name="glue" body="arm" gain="2" ctrlrange="0 9"/>
    <muscle name="muscle" joint="a" lengthrange="-1 1"/>
    <intvelocity name="servo" joint="a" kp="3"/>
  </actuator></mujoco>"""


def test_actuators_that_are_not_modelled_are_told_and_keep_their_places():
    with pytest.warns(UserWarning, match=r"actuators \(on a body\): 1, actuators \(muscle\): 1"):
        model = kt.load(MIXED)
    assert model.actuator_names == ("glue", "muscle", "servo")
    assert (model.nu, model.na) == (3, 2)
    act = np.array([9.0, 0.5])
    np.testing.assert_allclose(kt.actuator_force(model, [0.2], [1.0], [9.0, 9.0, 0.0], act), [3 * (0.5 - 0.2)])
    np.testing.assert_allclose(kt.activation_rate(model, [9.0, 9.0, 0.7], act), [0, 0.7])


def test_actuators_from_code_are_those_of_a_file():
    """The same mechanism with and without the file's actuators; effort limits bound what they do together."""
    file, _ = ours(
        compiled(
            """<mujoco><worldbody><body><joint name="a" axis="0 1 0" actuatorfrcrange="-2 2"/>
            <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/>
            <body pos="0 0 -0.4"><joint name="b" axis="0 1 0"/>
            <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/></body></body></worldbody>
            <actuator><motor joint="a" gear="3" ctrlrange="-1 1"/>
            <position joint="b" kp="5" kv="0.3" forcerange="-4 4"/><velocity joint="a" kv="0.5"/>
            <damper joint="b" kv="0.2" ctrlrange="0 1"/></actuator></mujoco>"""
        )
    )
    code = file.without_actuators.replace(
        actuators=[
            kt.Actuator.motor("a", gear=3.0, ctrl_range=(-1.0, 1.0)),
            kt.Actuator.position("b", 5.0, 0.3, force_range=(-4.0, 4.0)),
            kt.Actuator.velocity("a", 0.5, name="brake"),
            kt.Actuator.damper("b", 0.2, ctrl_range=(0.0, 1.0), name="damper"),
        ]
    )
    assert code.actuator_names == ("a", "b", "brake", "damper")
    rng = np.random.default_rng(0)
    q, qd, ctrl = rng.standard_normal((2, 50, 2)), rng.standard_normal((50, 2)), 2 * rng.standard_normal((50, 4))
    tau = kt.actuator_force(code, q, qd, ctrl)
    np.testing.assert_array_equal(tau, kt.actuator_force(file, q, qd, ctrl))
    assert np.abs(tau[..., 0]).max() == 2
    with pytest.raises(kt.ModelError, match="no joint is called so"):
        code.replace(actuators=[kt.Actuator.motor("c")])
