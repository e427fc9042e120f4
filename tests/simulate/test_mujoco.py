"""Gymnasium's ant and humanoid without contacts: the same motion as MuJoCo's, for a second."""

from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco, load_with_report

mujoco = pytest.importorskip("mujoco")
gymnasium = pytest.importorskip("gymnasium")


@pytest.mark.parametrize("name", ["ant", "humanoid"])
def test_a_second_of_motion(name):
    path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml"
    theirs = mujoco.MjModel.from_xml_path(str(path))
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT  # contacts and joint limits
    assert theirs.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    theirs.opt.timestep = 2e-3
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(0)
    data.qpos[7:] += 0.2 * rng.standard_normal(theirs.nq - 7)
    data.qvel[:] = rng.standard_normal(theirs.nv)
    model = load_with_report(path)[0].without_constraints
    convention = Mujoco(model)
    q = convention.q_here(data.qpos)
    qd = convention.v_here(q, data.qvel)
    run = kt.simulate(model, q, qd, dt=2e-3, steps=500, integrator="rk4", record=50)
    for k in range(1, len(run)):
        mujoco.mj_step(theirs, data, 50)
        np.testing.assert_allclose(convention.q_there(run.q[k]), data.qpos, rtol=0, atol=1e-4)
    np.testing.assert_allclose(convention.v_there(run.q[-1], run.qd[-1]), data.qvel, rtol=0, atol=1e-4)
    assert np.abs(run.q[-1] - run.q[0]).max() > 1, "it has not moved"
