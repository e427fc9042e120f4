"""Sensors, against MuJoCo's sensordata."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from tests.constrain.agreement import compiled, ours

# A walker-like tree on a floor, with a ball, bodies fixed to bodies, a weld, and every kind of sensor.
ROBOT = """<mujoco><option timestep="0.002" magnetic="0.1 -0.5 0.2"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1"/><site name="mark" pos="0.3 0.2 0.1" euler="20 30 40"/>
  <body name="torso" pos="0 0 0.5"><freejoint name="root"/>
    <geom type="capsule" size="0.06 0.1" euler="0 90 0" mass="3"/>
    <site name="imu" pos="0.05 0.02 0.03" euler="10 20 30"/><camera name="eye" pos="0.1 0 0" euler="5 6 7"/>
    <body name="thigh" pos="0.1 0 -0.05" euler="0 10 0"><joint name="hip" type="ball"/>
      <geom name="thigh" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="1"/>
      <body name="shin" pos="0 0 -0.2"><joint name="knee" axis="0 1 0" pos="0 0 0.01" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.025" mass="0.5"/>
        <body name="foot" pos="0 0 -0.22"><geom type="sphere" size="0.05" mass="0.2"/>
          <site name="sole" type="box" size="0.06 0.06 0.03" pos="0 0 -0.04" euler="0 15 0"/>
          <site name="ball" size="0.02" pos="0.02 0 -0.05"/></body></body></body>
    <body name="tail" pos="-0.15 0 0"><joint name="wag" axis="0 0 1"/>
    <geom type="capsule" fromto="0 0 0 -0.2 0 -0.1" size="0.02"/>
      <site name="tip" type="capsule" size="0.03 0.1" pos="-0.1 0 0"/>
    <site name="tip2" type="ellipsoid" size="0.1 0.2 0.3"/></body></body>
  <body name="load" pos="-0.4 0 0.4"><freejoint/><geom type="sphere" size="0.05" mass="0.3"/><site name="load"/>
    </body>
  </worldbody><equality><weld body1="tail" body2="load"/></equality>
  <actuator><position name="servo" joint="wag" kp="3" kv="0.1" gear="2"/><motor name="push" joint="knee" gear="1.5"/>
    </actuator>
  <sensor><gyro name="gyro" site="imu"/><accelerometer name="acc" site="imu"/>
    <accelerometer name="acc2" site="sole" cutoff="5"/>
  <velocimeter name="vel" site="imu"/><magnetometer name="mag" site="imu"/>
  <framepos name="p1" objtype="body" objname="shin"/>
    <framepos name="p2" objtype="site" objname="sole" reftype="site" refname="imu"/>
  <framequat name="q1" objtype="geom" objname="thigh" reftype="camera" refname="eye"/>
    <framequat name="q2" objtype="xbody" objname="foot"/>
  <framexaxis name="x" objtype="site" objname="sole"/>
    <frameyaxis name="y" objtype="xbody" objname="foot" reftype="body" refname="torso"/>
  <framezaxis name="z" objtype="camera" objname="eye"/>
    <framelinvel name="lv" objtype="body" objname="shin" reftype="site" refname="imu"/>
  <frameangvel name="av" objtype="site" objname="sole" reftype="xbody" refname="tail"/>
    <framelinvel name="lv2" objtype="xbody" objname="foot"/>
  <framelinacc name="la" objtype="body" objname="shin"/><frameangacc name="aa" objtype="site" objname="tip"/>
  <framepos name="still" objtype="site" objname="mark" reftype="xbody" refname="torso"/>
  <jointpos name="jp" joint="knee"/><jointvel name="jv" joint="wag"/><ballquat name="bq" joint="hip"/>
    <ballangvel name="bv" joint="hip"/>
  <actuatorpos name="ap" actuator="servo"/><actuatorvel name="av2" actuator="servo"/>
    <actuatorfrc name="af" actuator="push"/>
  <jointactuatorfrc name="jf" joint="wag"/><touch name="touch" site="sole"/><touch name="touch2" site="ball"/>
  <touch name="t3" site="tip"/><force name="f" site="sole"/><torque name="t" site="sole"/>
    <force name="f2" site="tip"/>
  <torque name="t2" site="tip2"/><force name="f3" site="load"/><subtreecom name="com" body="torso"/>
    <subtreecom name="all" body="world"/>
  <subtreelinvel name="clv" body="thigh"/><subtreeangmom name="cam" body="torso"/><clock name="clock"/>
    </sensor></mujoco>"""


def test_every_sensor_is_mujocos():
    m = compiled(ROBOT)
    model, data = ours(m), mujoco.MjData(m)
    convention = Mujoco(model)
    rng = np.random.default_rng(5)
    q, qd, time, controls, wanted = [], [], [], [], []
    for step in range(400):
        data.ctrl[:] = rng.uniform(-1, 1, 2)
        mujoco.mj_step(m, data)
        if step % 40 == 39:
            mujoco.mj_forward(m, data)
            q.append(convention.q_here(data.qpos.copy()))
            qd.append(convention.v_here(q[-1], data.qvel.copy()))
            time.append(data.time)
            controls.append(data.ctrl.copy())
            wanted.append(data.sensordata.copy())
    wanted = np.array(wanted)
    state = kt.initial_state(model, np.array(q), np.array(qd)).replace(time=np.array(time))
    found = kt.sensors(model, state, np.array(controls))
    assert list(found) == [m.sensor(i).name for i in range(m.nsensor)]
    assert np.abs(wanted[:, m.sensor("touch").adr[0]]).max() > 1
    errors = {}
    for i in range(m.nsensor):
        name, start, size = m.sensor(i).name, m.sensor_adr[i], m.sensor_dim[i]
        theirs, mine = wanted[:, start : start + size], found[name]
        if name in ("q1", "q2"):
            mine = mine * np.sign((mine * theirs).sum(-1, keepdims=True))
        errors[name] = np.abs(mine - theirs).max() / max(1, np.abs(theirs).max())
    assert max(errors.values()) < 1e-9, errors


# Tendons that pull at bodies, welded ones too, by all that acts along them: springs, dampers, a rotor, limits,
# friction, equalities, actuators, around shapes and over a pulley; a fixed tendon pulls at none.
STRINGS = """<mujoco><worldbody><site name="w" pos=".5 .5 1.3"/><geom name="round" type="sphere" size=".1"
  pos=".42 .3 1.15" contype="0" conaffinity="0"/><body name="a" pos="0 0 1"><joint name="a" axis="0 1 0"/>
  <geom size=".1" pos=".3 0 0"/><site name="s" pos=".3 .1 0"/><body name="fixed" pos=".1 .05 0"><geom size=".03"/>
  <site name="f" pos=".1 .05 .1" euler="10 20 30"/><body pos=".3 0 0" name="b"><joint name="b" axis="0 0 1"/>
  <geom size=".1" pos=".3 0 0" contype="0"/><site name="t" pos=".2 .1 .1"/><geom name="bobbin" type="cylinder"
  size=".05 .2" pos=".1 0 0" contype="0" conaffinity="0" euler="90 0 0"/></body></body></body></worldbody>
  <tendon><spatial name="sprung" stiffness="20" springlength=".1" damping=".5"><site site="w"/><site site="t"/>
  <site site="f"/><pulley divisor="2"/><site site="w"/><site site="s"/></spatial>
  <spatial name="held" range=".1 .3" margin=".1" frictionloss=".3"><site site="w"/><geom geom="round"/>
  <site site="s"/></spatial><spatial name="wound" damping=".2"><site site="s"/><geom geom="bobbin"/>
  <site site="t"/></spatial><spatial armature=".3"><site site="w"/><site site="t"/></spatial>
  <fixed name="none" stiffness="3"><joint joint="a" coef="1"/><joint joint="b" coef="-1"/></fixed></tendon>
  <equality><tendon tendon1="sprung" tendon2="wound" polycoef=".1 .7 .3"/></equality>
  <actuator><motor tendon="sprung" gear="2"/><position tendon="held" kp="4" gear="-1.5"/>
  <motor tendon="none"/></actuator>
  <sensor><force site="s"/><torque site="s"/><force site="f"/><torque site="f"/><force site="t"/></sensor></mujoco>"""


@pytest.mark.skipif(int(mujoco.__version__.split(".")[0]) < 4, reason="tendons are left out before MuJoCo 4")
def test_forces_between_bodies_leave_out_those_of_tendons():
    m = compiled(STRINGS)
    model, data = ours(m), mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = (0.3, -0.4), (1.0, 2.0), (0.5, 0.2, 1.0)
    mujoco.mj_forward(m, data)
    state = kt.initial_state(model, np.array(data.qpos), np.array(data.qvel))
    found = np.concatenate(list(kt.sensors(model, state, np.array(data.ctrl)).values()))
    np.testing.assert_allclose(found, data.sensordata, rtol=1e-10, atol=1e-9)


def test_a_body_that_stands_still_feels_an_equality_at_its_own_anchor():
    """The two anchors are apart, as the equality is soft."""
    m = compiled("""<mujoco><worldbody><body name="still" pos="0.1 0 0"><geom size="0.1"/><site name="s"/></body><body
      name="moves" pos="0 0 0.5"><freejoint/><geom size="0.1"/></body></worldbody><equality><connect body1="moves"
      body2="still" anchor="0.1 0 -0.2"/></equality><sensor><torque site="s"/><force site="s"/></sensor></mujoco>""")
    model, data = ours(m), mujoco.MjData(m)
    data.qpos[:3] += 0.1, 0.2, 0.05
    mujoco.mj_forward(m, data)
    found = kt.sensors(model, kt.initial_state(model, np.array(data.qpos)))
    np.testing.assert_allclose(np.concatenate(list(found.values())), data.sensordata, rtol=1e-9, atol=1e-9)


def test_sensors_in_code():
    model = kt.auto_tree(3)
    model = kt.with_sensors(
        model, [kt.Sensor("gyro", "g", kt.Mount(2, (0.1, 0, 0))), kt.Sensor("jointpos", "j", joint=1)]
    )
    state = kt.initial_state(model, [0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    found = kt.sensors(model, state)
    np.testing.assert_allclose(found["g"], kt.frame_velocity(model, state.q, state.qd, 2, "local")[:3])
    np.testing.assert_array_equal(found["j"], [0.2])
    assert kt.sensors(kt.auto_tree(2), kt.initial_state(kt.auto_tree(2))) == {}
    with pytest.raises(kt.ModelError, match="choose from"):
        kt.with_sensors(model, [kt.Sensor("nose", "n")])
    with pytest.raises(kt.ModelError, match="two sensors"):
        kt.with_sensors(model, [kt.Sensor("clock", "n"), kt.Sensor("clock", "n")])


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        (kt.Sensor("jointpos", "s"), "no body has number -1, whose joint is meant"),
        (kt.Sensor("jointvel", "s", joint=99), "no body has number 99, whose joint is meant"),
        (kt.Sensor("jointpos", "s", joint="nobody"), "no joint is called 'nobody'"),
        (kt.Sensor("gyro", "s", kt.Mount(99)), "no body has number 99"),
        (kt.Sensor("framepos", "s", kt.Mount(0), kt.Mount(-2)), "no body has number -2"),
        (kt.Sensor("actuatorfrc", "s"), "there is no actuator -1: there are 0"),
    ],
)
def test_sensors_of_what_is_not_there(sensor, message):
    """They measured something else without a word."""
    with pytest.raises(kt.ModelError, match=message):
        kt.with_sensors(kt.auto_tree(3), [sensor])
    with pytest.raises(TypeError, match=r"takes kinetree\.Sensor, not a str"):
        kt.with_sensors(kt.auto_tree(3), ["gyro"])


STILL = """<mujoco><option actuatorgroupdisable="3"><flag actuation="{}"/></option><worldbody><body>
  <joint name="j" axis="0 1 0"/><geom size="0.1" pos="0.1 0 0"/></body></worldbody>
  <actuator><position name="a" joint="j" kp="3" kv="0.2" group="3" gear="2"/>
  <intvelocity name="b" joint="j" kp="3" group="3" actrange="-1 1"/></actuator>
  <sensor><actuatorpos actuator="a"/><actuatorvel actuator="a"/><actuatorfrc actuator="a"/><actuatorfrc actuator="b"/>
  <jointactuatorfrc joint="j"/></sensor></mujoco>"""


@pytest.mark.parametrize("actuation", ["enable", "disable"])
def test_actuators_that_are_switched_off_have_a_length(actuation):
    """Sensors on them told zero, or failed where no actuator was left."""
    m = compiled(STILL.format(actuation))
    d, model = mujoco.MjData(m), ours(m)
    d.qpos[:], d.qvel[:], d.act[:], d.ctrl[:] = 0.3, 0.4, 0.2, 1
    mujoco.mj_step(m, d)
    state = kt.initial_state(model, [0.3], [0.4]).replace(act=np.array([0.2]))
    found = np.concatenate(list(kt.sensors(model, state, np.ones(2)).values()))
    np.testing.assert_allclose(found, d.sensordata, atol=1e-14)
    np.testing.assert_array_equal(kt.advance(model, state, np.ones(2)).act, d.act)


def test_sensors_where_nothing_moves():
    """They failed: there are no rows to pick from."""
    m = compiled("""<mujoco><worldbody><site name="s" pos="0 1 2"/><body name="hand" mocap="true" pos="1 0 0"/>
      </worldbody>
      <sensor><framepos objtype="site" objname="s" reftype="body" refname="hand"/><gyro site="s"/></sensor></mujoco>""")
    d, model = mujoco.MjData(m), ours(m)
    mujoco.mj_forward(m, d)
    found = kt.sensors(model, kt.initial_state(model))
    np.testing.assert_allclose(np.concatenate(list(found.values())), d.sensordata, atol=1e-15)


def test_a_zone_that_is_a_mesh_is_told():
    """Loading failed with a KeyError."""
    with pytest.warns(kt.io.NotModelled, match=r"sensors \(touch\): 1"):
        kt.load("""<mujoco><asset><mesh name="m" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset><worldbody><body><joint/>
          <geom size="0.1"/><site name="s" type="mesh" mesh="m"/></body></worldbody><sensor><touch site="s"/></sensor>
          </mujoco>""")
