"""Steps of whole states against MuJoCo's mj_step, on scenes without contacts."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.actuate.scenes import GYMNASIUM, arm_text, compiled, ours, random_data, state_of

FILES = ["ant", "half_cheetah", "humanoid", "inverted_double_pendulum", "inverted_pendulum", "pusher_v5", "reacher"]


def difference(m, convention, d, state):
    """How far our state is from MuJoCo's data: coordinates, velocities, activations, time."""
    q = np.zeros(m.nv)
    mujoco.mj_differentiatePos(m, q, 1.0, d.qpos, convention.q_there(state.q))
    v = convention.v_there(state.q, state.qd) - d.qvel
    return max(np.abs(x).max(initial=0) for x in (q, v, state.act - d.act, state.time - d.time))


def compare(m, seeds=(0,), steps=100):
    """One step, then more, from random states under controls beyond their ranges."""
    model, convention = ours(m)
    for seed in seeds:
        d = random_data(m, np.random.default_rng(seed))
        state, ctrl = state_of(convention, d), np.array(d.ctrl)
        mujoco.mj_step(m, d)
        state = kt.advance(model, state, ctrl)
        assert difference(m, convention, d, state) < 1e-10
        mujoco.mj_step(m, d, steps - 1)
        state = kt.advance(model, state, ctrl, substeps=steps - 1)
        assert difference(m, convention, d, state) < 1e-7


@pytest.mark.parametrize(
    ("integrator", "flags"), [("Euler", ""), ("Euler", 'eulerdamp="disable"'), ("implicitfast", ""), ("RK4", "")]
)
def test_every_joint_and_actuator(integrator, flags):
    compare(compiled(arm_text(f'integrator="{integrator}"', flags)), seeds=(0, 1))


@pytest.mark.parametrize("name", FILES)
def test_gymnasium(name):
    compare(compiled(GYMNASIUM / f"{name}.xml"))
