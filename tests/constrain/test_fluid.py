"""Fluid forces against MuJoCo: accelerations and steps of mechanisms that swim."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco, NotModelled
from tests.constrain.agreement import relative

# A free body with a plate welded to it (the two are one body here, but two boxes in the fluid), and a limb.
SWIMMER = """<mujoco><option density="1000" viscosity="0.7" wind="0.3 -0.2 0.5" integrator="{integrator}"/><worldbody>
  <body><freejoint/><geom type="ellipsoid" size="0.2 0.1 0.05" pos="0.05 0 0.02"/>
    <body pos="-0.2 0 0" euler="20 30 0"><geom type="box" size="0.1 0.02 0.05"/></body>
    <body pos="0.2 0 0"><joint axis="0 1 1" pos="0.02 0 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0.1 0"/>
  </body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast", "implicit"])
def test_steps_in_a_fluid_are_mujocos(integrator):
    text = SWIMMER.format(integrator=integrator)
    m, model = mujoco.MjModel.from_xml_string(text), kt.load(text)
    d, there = mujoco.MjData(m), Mujoco(model)
    rng = np.random.default_rng(3)
    d.qvel[:] = rng.normal(size=m.nv)
    d.qpos[7] = 0.4
    mujoco.mj_forward(m, d)
    q = there.q_here(d.qpos)
    qd = there.v_here(q, d.qvel)
    still = kt.constrained_dynamics(model.replace(world=model.world.replace(fluid=None)), q, qd)
    qdd = there.a_here(q, qd, d.qacc)
    assert relative(still.qdd, qdd) > 0.1  # the fluid matters
    assert relative(kt.constrained_dynamics(model, q, qd).qdd, qdd) < 1e-12
    state = kt.initial_state(model, q, qd)
    mujoco.mj_step(m, d)
    after = kt.advance(model, state)
    np.testing.assert_allclose(after.q, there.q_here(d.qpos), atol=1e-12)
    np.testing.assert_allclose(after.qd, there.v_here(after.q, d.qvel), atol=1e-11)


@pytest.mark.parametrize("off", ["spring", "damper", "spring damper"])
def test_fluids_and_carried_weight_are_passive_forces(off):
    """They have no flag of their own: without springs and without dampers, MuJoCo leaves them out, too."""
    flags = " ".join(f'{name}="disable"' for name in off.split())
    text = f"""<mujoco><option density="500" viscosity="0.3"><flag {flags}/></option><worldbody>
      <body gravcomp="0.7"><joint stiffness="3" damping="0.2"/><geom size="0.1" pos="0.3 0 0"/>
        <body gravcomp="0.5" pos="0.4 0 0"><joint name="own" actuatorgravcomp="true"/><geom size="0.1" pos="0.3 0 0"/>
      </body></body></worldbody><actuator><motor joint="own"/></actuator></mujoco>"""
    m, model = mujoco.MjModel.from_xml_string(text), kt.load(text)
    d = mujoco.MjData(m)
    d.qpos[:], d.qvel[:], d.ctrl[:] = (0.4, -0.3), (1.0, 2.0), 0.6
    mujoco.mj_forward(m, d)
    found = kt.constrained_dynamics(model, np.array(d.qpos), np.array(d.qvel), ctrl=np.array(d.ctrl))
    np.testing.assert_allclose(found.qdd, d.qacc, rtol=1e-12)
    np.testing.assert_allclose(
        kt.actuator_force(model, np.array(d.qpos), np.array(d.qvel), np.array(d.ctrl)), d.qfrc_actuator, atol=1e-12
    )


def test_ellipsoids_in_a_fluid_are_told():
    text = SWIMMER.format(integrator="Euler").replace(
        'size="0.2 0.1 0.05"', 'size="0.2 0.1 0.05" fluidshape="ellipsoid"'
    )
    with pytest.warns(NotModelled, match="fluid forces on ellipsoids"):
        kt.load(text)


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast", "implicit"])
def test_steps_in_a_fluid_are_native(integrator):
    """Those, too, that take the drag at the end of a step."""
    said = kt.explain(kt.load(SWIMMER.format(integrator=integrator)))
    assert said.constrained_dynamics.body == said.advance.body == "native"
