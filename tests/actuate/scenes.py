"""Scenes in MJCF for the tests of actuators and steps: every joint kind, every kind of actuator, no contacts."""

from pathlib import Path

import mujoco
import numpy as np

from kinetree.io import Mujoco
from kinetree.io.mjcf import from_mujoco_model
from kinetree.io.report import Report
from kinetree.model import State

GYMNASIUM = Path(__import__("gymnasium").__file__).parent / "envs" / "mujoco" / "assets"

ARM = """
<mujoco>
  <option timestep="0.004" {option}><flag contact="disable" {flags}/></option>
  <default><joint armature="0.05"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="a" axis="0 1 0" damping="0.3" armature="0.02" stiffness="2" springref="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
      <body pos="0.3 0 0">
        <joint name="b" type="slide" axis="1 0 0.2" damping="1.5" actuatorfrcrange="-3 2" ref="0.1"/>
        <geom type="box" size="0.1 0.05 0.04" pos="0.1 0.02 0"/>
        <body pos="0.2 0 0.1">
          <joint name="c" type="ball" damping="0.05" stiffness="0.4"/>
          <geom type="ellipsoid" size="0.1 0.07 0.05" pos="0.05 0.03 -0.02"/>
          <body pos="0.1 0.1 0">
            <joint name="d" axis="0 0 1" pos="0.02 0 0"/>
            <joint name="e" axis="1 0 0" pos="0 0.03 0" damping="0.1"/>
            <geom type="capsule" fromto="0 0 0 0 0.2 0" size="0.02"/>
          </body>
        </body>
      </body>
    </body>
    <body name="flyer" pos="1 0 2">
      <freejoint name="f"/>
      <geom type="box" size="0.1 0.2 0.05" pos="0.05 -0.03 0.02"/>
      <body pos="0.1 0.2 0">
        <joint name="g" axis="0 1 1" damping="0.02"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
      </body>
    </body>
    <body name="stone" pos="-1 0 2">
      <joint name="h" type="free" damping="0.02" armature="0"/>
      <geom type="box" size="0.1 0.2 0.05" pos="0.05 -0.03 0.02" euler="20 30 40"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="motor" joint="a" gear="3" ctrllimited="true" ctrlrange="-0.5 0.7"/>
    <position name="position" joint="a" kp="20" kv="2"/>
    <position name="limited" joint="b" kp="50" kv="3" forcelimited="true" forcerange="-4 4"/>
    <velocity name="velocity" joint="b" kv="2" gear="1.5"/>
    <damper name="damper" joint="d" kv="0.7" ctrlrange="0 1"/>
    <intvelocity name="intvelocity" joint="d" kp="3" kv="0.2" actlimited="true" actrange="-0.1 0.1"/>
    <cylinder name="cylinder" joint="e" timeconst="0.05" area="0.6" bias="0.1 -0.2 -0.3"/>
    <general name="exact" joint="e" dyntype="filterexact" dynprm="0.003" gaintype="affine" gainprm="1 0.2 -0.3"
      biastype="affine" biasprm="0.1 -0.4 -0.2" actearly="true"/>
    <general name="early" joint="g" dyntype="integrator" gainprm="2" actearly="true" actlimited="true"
      actrange="-0.02 0.02"/>
    <motor name="ball" joint="c" gear="0.2 -0.1 0.3"/>
    <position name="servo" joint="c" gear="0 0.4 0" kp="2" kv="0.1"/>
    <position name="skew servo" joint="c" gear="0.3 0.4 -0.2" kp="2" kv="0.1"/>
    <motor name="parent" jointinparent="c" gear="0.2 -0.1 0.3"/>
    <intvelocity name="turning" joint="c" gear="0 0 1" kp="1" kv="0.02"/>
    <general name="thrust" joint="f" gear="1 2 3 0.1 0.2 0.3" biastype="affine" biasprm="0 0 -0.05"/>
    <motor name="world" jointinparent="f" gear="0 0 1 0.3 0.1 0.2"/>
    <motor name="push" joint="h" gear="0.1 0 0.2 0.01 0 0.02"/>
    <general name="brake" joint="h" gear="0.3 0 0.2 0.1 0 0.2" biastype="affine" biasprm="0 0 -0.05"/>
  </actuator>
  <keyframe>
    <key name="home" time="0.5" qvel="{key}" ctrl="{ctrl}"/>
  </keyframe>
</mujoco>
"""


def arm_text(option: str = "", flags: str = "") -> str:
    """A mechanism with all joints and actuators that there are."""
    key = " ".join(f"{0.1 * k - 0.7:.1f}" for k in range(20))
    return ARM.format(option=option, flags=flags, key=key, ctrl=" ".join(18 * ["0.25"]))


def compiled(source: str | Path) -> "mujoco.MjModel":
    """MuJoCo's model of a text or path, with contacts, limits and friction loss switched off."""
    path = isinstance(source, Path)
    m = mujoco.MjModel.from_xml_path(str(source)) if path else mujoco.MjModel.from_xml_string(source)
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return m


def ours(m: "mujoco.MjModel"):
    """Our model of a compiled one, and the maps between conventions."""
    model = from_mujoco_model(m, Report("<test>", "MJCF"))
    return model, Mujoco(model)


def random_data(m: "mujoco.MjModel", rng: np.random.Generator, speed: float = 1.0) -> "mujoco.MjData":
    """A random state, with controls beyond their ranges."""
    d = mujoco.MjData(m)
    moved = np.zeros(m.nq)
    moved[:] = d.qpos
    mujoco.mj_integratePos(m, moved, 0.5 * rng.standard_normal(m.nv), 1.0)
    d.qpos[:] = moved
    d.qvel[:] = speed * rng.standard_normal(m.nv)
    d.ctrl[:] = rng.uniform(-1, 1, m.nu) * 1.5
    d.act[:] = 0.3 * rng.standard_normal(m.na)
    return d


def state_of(convention: Mujoco, d: "mujoco.MjData") -> State:
    """Our state of MuJoCo's data."""
    q = convention.q_here(np.array(d.qpos))
    qd = convention.v_here(q, np.array(d.qvel))
    return State(q, qd, np.array(d.act), np.array(d.time), np.zeros_like(qd))
