"""Contact sensors, against MuJoCo's sensordata."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from tests.constrain.agreement import compiled, ours

# A ball and a capsule that lean on each other and on a floor, so that contacts have friction and moments.
EVERY = "found force torque dist pos normal tangent linvel angvel"
STATIC = "found force torque dist pos normal tangent"
SENSORS = f"""
  <contact name="all" data="{EVERY}" num="4" reduce="mindist"/>
  <contact name="strong" data="{EVERY}" num="2" reduce="maxforce"/>
  <contact name="geom" geom1="ball" data="{EVERY}" num="3" reduce="maxforce"/>
  <contact name="geoms" geom1="ball" geom2="floor" data="{EVERY}"/>
  <contact name="back" geom1="floor" geom2="ball" data="{EVERY}"/>
  <contact name="bodies" body1="above" body2="below" data="{EVERY}" reduce="mindist"/>
  <contact name="second" body2="below" data="{EVERY}" reduce="mindist" num="2"/>
  <contact name="tree" subtree1="above" subtree2="world" data="{EVERY}" reduce="mindist" num="5"/>
  <contact name="self" subtree1="above" subtree2="above" data="{EVERY}" reduce="mindist"/>
  <contact name="net" subtree1="above" data="{STATIC}" reduce="netforce"/>
  <contact name="zone" site="zone" data="{EVERY}" num="2" reduce="mindist"/>
  <contact name="zone2" site="zone" body2="world" data="{EVERY}" reduce="mindist"/>
  <contact name="never" geom1="still" data="{EVERY}" num="2"/>
  <touch name="touch" site="zone"/>"""
SCENE = f"""<mujoco><option timestep="0.002"/><worldbody>
  <geom name="floor" type="plane" size="5 5 .1" condim="6" friction="1 .01 .01"/>
  <geom name="still" size=".1" pos="9 9 9" contype="0" conaffinity="0"/>
  <body name="below" pos="0 0 .1"><freejoint/><geom name="ball" size=".1" condim="4"/>
    <site name="zone" type="cylinder" size=".05 .03" pos="0 0 -.1"/></body>
  <body name="above" pos=".02 .01 .295"><freejoint/><geom type="capsule" size=".1 .2" euler="90 0 20"/>
    <body pos="0 0 .1"><joint axis="1 0 0"/><geom type="capsule" fromto="0 0 0 .2 0 .1" size=".03"/></body></body>
  </worldbody><sensor>{SENSORS}</sensor></mujoco>"""


@pytest.fixture(scope="module")
def states():
    m = compiled(SCENE)
    model, data = ours(m), mujoco.MjData(m)
    convention = Mujoco(model)
    data.qvel[:] = np.random.default_rng(0).normal(size=m.nv)
    q, qd, wanted = [], [], []
    for step in range(200):
        mujoco.mj_step(m, data)
        if step % 25 == 24:
            mujoco.mj_forward(m, data)
            q.append(convention.q_here(data.qpos.copy()))
            qd.append(convention.v_here(q[-1], data.qvel.copy()))
            wanted.append(data.sensordata.copy())
    return m, model, kt.initial_state(model, np.array(q), np.array(qd)), np.array(wanted)


def test_contact_sensors_are_mujocos(states):
    m, model, state, wanted = states
    found = kt.sensors(model, state)
    assert len(found) == m.nsensor
    for i in range(m.nsensor):
        name, first = m.sensor(i).name, m.sensor_adr[i]
        own = wanted[:, first : first + m.sensor_dim[i]]
        np.testing.assert_allclose(found[name], own, rtol=1e-8, atol=1e-8, err_msg=name)
        assert name in ("never", "self") or np.abs(own).max() > 0, name


def test_contact_sensors_in_code(states):
    """The same sensors by names; what is not there is refused."""
    _, model, state, _ = states
    sides = kt.Side("shape", "ball"), kt.Side("subtree", "above")
    sensor = kt.Sensor("contact", "both", sides=sides, data=("found", "force"), reduce="netforce")
    found = kt.sensors(kt.with_sensors(model, [sensor]), state)["both"]
    assert found.shape == (8, 4)
    assert (found[:, 0] > 0).any()
    for wrong in (
        {"sides": (kt.Side("shape", "nobody"), None)},
        {"sides": (kt.Side("joint", 0), None)},
        {"data": ("pressure",)},
        {"reduce": "most"},
        {"reduce": "netforce", "data": ("linvel",)},
    ):
        with pytest.raises(kt.ModelError):
            kt.with_sensors(model, [kt.Sensor("contact", "wrong", **wrong)])


def test_gradients_of_a_net_force():
    """One ball lies on the floor, the other leaves it, so its contact has no force. They were NaN."""
    model = kt.load("""<mujoco><worldbody><geom type="plane" size="2 2 .1"/>
      <body pos="0 0 .099"><joint type="slide" axis="0 0 1"/><geom size=".1"/></body>
      <body pos="1 0 .099"><joint type="slide" axis="0 0 1"/><geom size=".1"/></body></worldbody>
      <sensor><contact name="net" data="found force pos" reduce="netforce"/></sensor></mujoco>""")
    start = jax.tree.map(jnp.asarray, kt.initial_state(model, qd=np.array([0.0, 5.0])))

    def force(q):
        return kt.sensors(model, start.replace(q=q))["net"].sum()

    found, h = jax.grad(force)(start.q), 1e-7
    wanted = (force(start.q.at[0].add(h)) - force(start.q.at[0].add(-h))) / (2 * h)
    np.testing.assert_allclose(found, [wanted, 0], rtol=1e-4)  # the differences have errors of 3e-5
