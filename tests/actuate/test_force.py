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
