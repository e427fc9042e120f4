"""Scenes with tendons of all kinds, and what MuJoCo makes of them."""

from typing import Any

import mujoco
import numpy as np

import kinetree as kt
from kinetree.io import Mujoco

# An arm of three hinges and a slider with a ball joint at its end, a second arm, and a free body. Fixed tendons over
# one arm and over both; spatial ones between arms, base and free body, over a pulley, around a sphere, a cylinder, on a
# side, and through the inside. All that acts along a tendon is there.
BODIES = """<worldbody>
  <site name="w0" pos="0 0.3 1.4"/><site name="w1" pos="0.4 -0.3 1.2"/><site name="w2" pos="0.9 0.1 1.5"/>
  <geom name="ball" type="sphere" size="0.07" pos="0.1 0.1 1.1"/>
  <geom name="post" type="cylinder" size="0.06 0.2" pos="0.5 -0.1 1" euler="70 10 0"/>
  <body name="a" pos="0 0 1"><joint name="a1" axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0"/>
    <site name="sa" pos="0.2 0.05 0.02" euler="10 20 30"/>
    <body name="b" pos="0.3 0 0"><joint name="a2" axis="0 1 0.3" pos="0.02 0 0"/>
      <joint name="a3" type="slide" axis="1 0 0"/><geom fromto="0 0 0 0.2 0 -0.1"/><site name="sb" pos="0.1 0.04 0"/>
      <geom name="knob" type="cylinder" size="0.03 0.03" pos="0.15 0 0" euler="90 0 0"/>
      <site name="side" pos="0.15 0 0.2"/><site name="core" pos="0.15 0 0.01"/>
      <body name="c" pos="0.2 0 -0.1"><joint name="ball" type="ball" damping="0.01"/><geom fromto="0 0 0 0 0.05 -0.2"/>
        <site name="sc" pos="0 0.05 -0.2" euler="0 30 5"/></body></body></body>
  <body name="d" pos="0.9 0 1"><joint name="d1" axis="0 1 0" damping="0.02"/><geom fromto="0 0 0 -0.2 0 0"/>
    <site name="sd" pos="-0.2 0 0.03"/>
    <body name="e" pos="-0.2 0 0"><joint name="d2" axis="1 0 0"/><geom fromto="0 0 0 0 0.1 -0.2"/>
    <site name="se" pos="0 0.1 -0.1"/></body></body>
  <body name="f" pos="0.4 0.5 0.8"><freejoint/><geom fromto="0 0 0 0.1 0.1 0.05"/>
    <site name="sf" pos="0.1 0.1 0.05"/></body>
  </worldbody>"""
TENDONS = """<tendon>
  <fixed name="limited" limited="true" range="-0.1 0.15" margin="0.01" solreflimit="0.03 0.9">
    <joint joint="a1" coef="0.5"/><joint joint="a2" coef="-0.7"/></fixed>
  <fixed name="dry" frictionloss="0.4" damping="0.1" stiffness="2"><joint joint="a3" coef="2"/>
    <joint joint="d1" coef="1"/></fixed>
  <fixed name="heavy" armature="0.2"><joint joint="a1" coef="1"/><joint joint="a3" coef="0.3"/></fixed>
  <fixed name="apart" armature="0.1" damping="0.3"><joint joint="a2" coef="1"/><joint joint="d2" coef="0.6"/></fixed>
  <fixed name="held"><joint joint="d1" coef="1"/><joint joint="d2" coef="0.5"/></fixed>
  <fixed name="leads"><joint joint="a2" coef="1"/></fixed>
  <spatial name="string" stiffness="30" damping="0.5" springlength="0.2 0.3"><site site="w0"/><site site="sa"/>
    <site site="sf"/></spatial>
  <spatial name="pulled" limited="true" range="0.1 0.5" frictionloss="0.05"><site site="w1"/><site site="sc"/>
    <pulley divisor="2"/><site site="sd"/><site site="sb"/><pulley divisor="3"/>
    <site site="se"/><site site="w2"/></spatial>
  <spatial name="stout" armature="0.3" stiffness="3"><site site="sf"/><site site="w2"/><site site="se"/></spatial>
  <spatial name="around" stiffness="20"><site site="w0"/><geom geom="ball"/><site site="sb"/>
    <geom geom="post"/><site site="sd"/></spatial>
  <spatial name="beside" stiffness="15" damping="0.1"><site site="sa"/><geom geom="knob" sidesite="side"/>
    <site site="sc"/></spatial>{inside}
  </tendon>
  <equality><tendon tendon1="held" tendon2="leads" polycoef="0.02 0.5 0.3 0 0"/>
    <tendon tendon1="leads" solref="0.1 1" polycoef="0.1 0 0 0 0"/></equality>"""
INSIDE = """<spatial name="inside" stiffness="10"><site site="sa"/><geom geom="knob" sidesite="core"/>
    <site site="sc"/></spatial>"""
ACTUATORS = """<actuator>
  <motor tendon="string" gear="0.5"/><position tendon="limited" kp="3" kv="0.5" forcerange="-2 2"/>
  <velocity tendon="dry" kv="0.7"/><motor tendon="around"/>
  <motor site="sa" gear="1 2 3 0.1 0.2 0.3"/><position site="sc" refsite="sd" kp="2" kv="0.3" gear="1 0 -1 0 0 0"/>
  <position site="sc" refsite="sa" kp="0.5" gear="0 0 0 1 0.5 -0.2"/>
  <general name="crank" cranksite="sb" slidersite="w2" cranklength="0.6" gainprm="2" biastype="affine"
    biasprm="0.1 -1 -0.2" gear="1.5"/>
  <motor joint="ball" gear="0.1 0.2 0.3"/><motor jointinparent="ball" gear="0.1 0.2 0.3"/>
  <intvelocity site="sc" refsite="sb" kp="0.4" gear="0 0 0 0 1 0"/></actuator>
  <sensor><tendonpos tendon="around"/><tendonvel tendon="pulled"/><tendonactuatorfrc tendon="string"/>
  <actuatorpos actuator="crank"/><actuatorvel actuator="crank"/></sensor>""".replace(
    "<general c", '<general name="crank" c'
)


def scene(actuators: bool = False, inside: bool = False, integrator: str = "Euler") -> str:
    """All of it as MJCF."""
    return f"""<mujoco><option timestep="0.002" integrator="{integrator}"/><default>
      <geom type="capsule" size="0.02" contype="0" conaffinity="0"/></default>{BODIES}
      {TENDONS.format(inside=INSIDE if inside else "")}{ACTUATORS if actuators else ""}</mujoco>"""


def jacobian(m: Any, d: Any) -> np.ndarray:
    """Of MuJoCo's tendons, (n, nv)."""
    found = np.zeros((m.ntendon, m.nv))
    mujoco.mju_sparse2dense(found, d.ten_J.reshape(-1), m.ten_J_rownnz, m.ten_J_rowadr, m.ten_J_colind.reshape(-1))
    return found


def at_random(m: Any, model: kt.Model, count: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Configurations of ours, and MuJoCo's lengths and Jacobians there."""
    rng, d = np.random.default_rng(seed), mujoco.MjData(m)
    found = []
    for size in np.resize([0.1, 0.5, 1.0, 2.0], count):
        mujoco.mj_resetData(m, d)
        mujoco.mj_integratePos(m, d.qpos, rng.standard_normal(m.nv), size)
        mujoco.mj_fwdPosition(m, d)
        found.append((d.qpos.copy(), d.ten_length.copy(), jacobian(m, d)))
    qpos, length, J = map(np.stack, zip(*found, strict=True))
    convention = Mujoco(model)
    q = convention.q_here(qpos)
    return q, length, np.stack([convention.force_here(q, J[:, t]) for t in range(m.ntendon)], 1)
