"""Contact between two moving bodies: which pairs may touch, and what they do, against MuJoCo."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.constrain.agreement import compiled, errors, ours, states

CLOSE = 1e-9  # relative; 1e-13 is what is found

FAMILY = """<mujoco><default><geom margin="50"/><pair margin="100"/></default><option><flag {}/></option><worldbody>
  <geom name="floor" type="plane" size="0 0 1"/><geom name="post" size="0.1" pos="0 0 0.5"/>
  <body name="a" pos="0 0 1"><joint/><geom name="a" size="0.1"/>
    <body name="welded"><geom name="welded" size="0.1"/>
      <body name="b" pos="0.1 0 0"><joint/><joint axis="1 0 0"/><geom name="b" size="0.1"/>
        <body name="c" pos="0.1 0 0"><joint/><geom name="c" size="0.1" contype="2" conaffinity="1"/></body>
      </body></body></body>
  <body name="d" pos="0 1 1"><freejoint/><geom name="d" size="0.1" contype="0" conaffinity="2"/>
    <geom name="e" type="capsule" size="0.1 0.1" contype="0" conaffinity="0"/></body>
  <body name="hand" mocap="true"><geom name="hand" size="0.1"/>
    <body name="f"><joint/><geom name="f" size="0.1"/></body></body>
  </worldbody><contact><exclude body1="a" body2="c"/><pair geom1="b" geom2="a" condim="4"/><pair geom1="e" geom2="f"/>
  </contact></mujoco>"""


@pytest.mark.parametrize("flag", ["", 'filterparent="disable"'])
def test_the_pairs_that_may_touch_are_mujocos(flag):
    """With huge margins MuJoCo reports a contact of every pair that it tests."""
    m = compiled(FAMILY.format(flag))
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    wanted = {frozenset((m.geom(int(a)).name, m.geom(int(b)).name)) for a, b in data.contact.geom}
    layout = ours(m).world.scene.layout
    found = [frozenset((layout.names[p.first], layout.names[p.second])) for p in layout.pairs]
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert (frozenset("bc") in wanted) == bool(flag)


# Fingers that close on a ball and a bar, above a pile of the same; every condim, margins, an explicit pair.
GRIPPER = """<mujoco><option timestep="0.004" cone="{}" impratio="2"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1" condim="1"/>
  <body pos="-0.15 0 0.3"><joint name="l" type="slide" axis="1 0 0" damping="1"/>
    <joint type="hinge" axis="0 1 0" range="-20 20"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.04" condim="4" friction="1.2 0.02 0.001"/></body>
  <body pos="0.15 0 0.3"><joint name="r" type="slide" axis="-1 0 0" damping="1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.04" condim="3" margin="0.01" gap="0.004"/></body>
  <body pos="0 0 0.15"><freejoint/><geom name="ball" size="0.07" condim="6" solref="0.015 0.8"/>
    <body pos="0 0.05 0"><joint type="ball" range="0 60"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.3"/>
    </body></body>
  <body pos="0.02 0 0.32"><freejoint/>
    <geom type="capsule" size="0.05 0.1" euler="80 10 0" priority="1" condim="3"/></body>
  <body pos="0.02 0.01 0.5"><freejoint/><geom name="top" size="0.06" condim="1" contype="0"/></body></worldbody>
  <contact><pair geom1="ball" geom2="top" condim="3"/></contact>
  <actuator><motor joint="l"/><motor joint="r"/></actuator></mujoco>"""


@pytest.mark.thorough
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_a_gripper_above_a_pile(cone):
    m = compiled(GRIPPER.format(cone))
    model = ours(m)
    reached = states(m, model, count=20, every=15, push=0.3)
    assert reached.contacts.mean() > 2
    found = errors(model, reached)
    assert max(found["qdd"], found["tau_constraint"], found["inverse"]) < CLOSE


@pytest.mark.thorough
def test_derivatives_forward_and_in_reverse():
    """Of two balls on springs that press on each other, by states, forces and a parameter of the contact."""
    one, two = (kt.Prismatic((1, 0, 0)), kt.Prismatic((1, 0.2, 0)))
    model = kt.Model.from_arrays([-1, -1], [one, two], np.tile(np.eye(6), (2, 1, 1)), _masses(2))
    model = kt.with_shapes(model, [kt.Shape("sphere", 0.5, 0), kt.Shape("sphere", 0.45, 1, (0.3, 0.8, 0.2))])
    point = np.array([0.1, -0.2, 0.3, -0.5, 2.0, -3.0, 1.0])

    def qdd(x):
        scene = model.world.scene
        surfaces = scene.surfaces._replace(friction=jnp.asarray(scene.surfaces.friction) * x[6])
        changed = model.replace(world=model.world.replace(scene=dataclasses.replace(scene, surfaces=surfaces)))
        return kt.constrained_dynamics(changed, x[:2], x[2:4], x[4:6]).qdd

    @jax.jit
    def both_ways(x, dx, weight):
        value, found = jax.jvp(qdd, (x,), (dx,))
        return value, found, jax.vjp(qdd, x)[1](weight)[0]

    rng = np.random.default_rng(1)
    weight, h, wanted = rng.standard_normal(2), 1e-6, []
    for direction in np.eye(7)[[0, 2, 4, 6]]:  # a position, a velocity, a force, friction
        _, forward, reverse = both_ways(point, direction, weight)
        high, low = (both_ways(point + step * direction, direction, weight)[0] for step in (h, -h))
        wanted.append(np.abs((high - low) / (2 * h)).max())
        np.testing.assert_allclose(forward, (high - low) / (2 * h), atol=1e-6 * max(wanted))
        np.testing.assert_allclose(reverse @ direction, weight @ forward, rtol=1e-9)
    assert min(wanted) > 1e-3


def _masses(n):
    return np.tile([1.0, 0, 0, 0, 0.1, 0.1, 0.1, 0, 0, 0], (n, 1))
