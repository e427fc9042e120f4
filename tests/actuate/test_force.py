"""Forces of actuators against MuJoCo's."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.actuate.scenes import GYMNASIUM, arm_text, compiled, ours, random_data
from tests.second import few

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


@few("name", FILES, ["humanoid", "walker2d_v5"])
def test_gymnasium(name):
    compare(compiled(GYMNASIUM / f"{name}.xml"), range(2))


MIXED = """
<mujoco><worldbody>
  <body name="arm"><joint name="a" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05" contype="0"/>
    <site name="tip" pos="0 0 -0.4"/></body></worldbody>
  <actuator>
    <dcmotor name="motor" joint="a" motorconst="0.05" resistance="2"/>
    <general name="callback" joint="a" dyntype="user"/>
    <intvelocity name="servo" joint="a" kp="3"/>
  </actuator></mujoco>"""


def test_actuators_that_are_not_modelled_are_told_and_keep_their_places():
    with pytest.warns(UserWarning, match=r"actuators \(gain or bias\): 1, actuators \(activation dynamics\): 1"):
        model = kt.load(MIXED)
    assert model.actuator_names == ("motor", "callback", "servo")
    assert (model.nu, model.na) == (3, 2)
    act = np.array([9.0, 0.5])
    np.testing.assert_allclose(kt.actuator_force(model, [0.2], [1.0], [9.0, 9.0, 0.0], act), [3 * (0.5 - 0.2)])
    np.testing.assert_allclose(kt.activation_rate(model, [9.0, 9.0, 0.7], act), [0, 0.7])


MUSCLES = """
<mujoco><option timestep="0.002" integrator="{integrator}"><flag contact="disable"/></option>
  <worldbody>
    <site name="roof" pos="0.1 0 1.6"/>
    <body pos="0 0 1"><joint name="a" axis="0 1 0" range="-90 90"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/><site name="arm" pos="0.05 0 -0.3"/>
      <body pos="0 0 -0.4"><joint name="b" axis="0 1 0.1" range="-100 100"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.04"/><site name="tip" pos="-0.04 0 -0.2"/></body></body>
  </worldbody>
  <tendon><spatial name="strand"><site site="roof"/><site site="arm"/><site site="tip"/></spatial></tendon>
  <actuator>
    <muscle name="plain" tendon="strand" lengthrange="0.6 1.4"/>
    <muscle name="smooth" joint="b" lengthrange="-1.5 1.7" tausmooth="0.3" force="30" range="0.7 1.1" lmin="0.4"
      lmax="1.5" vmax="2" fpmax="1.1" fvmax="1.4"/>
    <general name="half" joint="a" gaintype="muscle" gainprm="0.75 1.05 20 1 0.5 1.6 1.5 1.3 1.2" biastype="affine"
      biasprm="0 -2 -0.1" lengthrange="-1.5 1.5" ctrllimited="true" ctrlrange="0 1" dyntype="none"/>
    <general name="slow" joint="a" dyntype="muscle" dynprm="0.02 0.05 0" gainprm="2" actlimited="true" actrange="0 1"/>
  </actuator></mujoco>"""


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_muscles(integrator):
    """Curves, activations and steps: MuJoCo's, in every piece of the curves that random states reach."""
    m = compiled(MUSCLES.format(integrator=integrator))
    compare(m, range(24))
    model, _ = ours(m)
    rng = np.random.default_rng(1)
    d = mujoco.MjData(m)
    states = kt.initial_state(model, batch=(12,))
    states = states.replace(
        q=rng.uniform(-2, 2, (12, 2)), qd=rng.uniform(-6, 6, (12, 2)), act=rng.uniform(-0.1, 1.1, (12, model.na))
    )
    ctrl = rng.uniform(-0.5, 1.5, (12, model.nu))
    assert kt.explain(model).advance.body == "native"
    after = kt.advance(model, states, ctrl)
    for k in range(12):
        mujoco.mj_resetData(m, d)
        d.qpos, d.qvel, d.act, d.ctrl = states.q[k], states.qd[k], states.act[k], ctrl[k]
        mujoco.mj_step(m, d)
        for ours_, theirs in ((after.q, d.qpos), (after.qd, d.qvel), (after.act, d.act)):
            np.testing.assert_allclose(np.asarray(ours_)[k], theirs, rtol=1e-11, atol=1e-11)


def test_muscles_from_code():
    """A muscle given in code is the one of a file."""
    m = compiled(MUSCLES.format(integrator="Euler"))
    file, _ = ours(m)
    muscle = kt.Muscle((-1.5, 1.7), 30.0, (0.7, 1.1), 0.4, 1.5, 2.0, 1.1, 1.4, (0.01, 0.04, 0.3))
    bounds = {"ctrl_range": (0.0, 1.0), "act_range": (0.0, 1.0)}
    made = file.replace(actuators=[kt.Actuator.of_muscle(muscle, joint="b", **bounds)])
    q, qd, act = np.array([0.3, -0.4]), np.array([1.0, -2.0]), np.array([0.6])
    wanted = kt.actuator_force(file, q, qd, np.zeros(4), np.array([0.0, 0.6, 0.0]))
    with_none = kt.actuator_force(file, q, qd, np.zeros(4), np.zeros(3))
    found = kt.actuator_force(made, q, qd, np.zeros(1), act) - kt.actuator_force(made, q, qd, np.zeros(1), 0 * act)
    np.testing.assert_allclose(found[1], (wanted - with_none)[1], rtol=1e-12)
    np.testing.assert_allclose(
        kt.activation_rate(made, [0.9], act), kt.activation_rate(file, [0, 0.9, 0, 0], [0, 0.6, 0])[1]
    )
    with pytest.raises(kt.ModelError, match="dynamics of a muscle"):
        file.replace(actuators=[kt.Actuator("b", dynamics="muscle")])


def test_motors_on_a_free_joint_alone():
    """A quadrotor. XLA computed single states in the memory of the gears, and overwrote these before it read them."""
    motor = '<motor joint="f" gear="{}"/>'.format
    compare(
        compiled(
            '<mujoco><worldbody><body><freejoint name="f"/><geom size="0.1"/></body></worldbody><actuator>'
            f"{motor('1 2 3 4 5 6')}{motor('0 1 5 2 1 0')}</actuator></mujoco>"
        )
    )


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


CARRIED = """<mujoco><option timestep="0.002" integrator="implicitfast"><flag contact="disable"/></option><worldbody>
  <body gravcomp="1"><joint name="a" axis="0 1 0" actuatorgravcomp="true" actuatorfrcrange="-3 4"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/>
    <body pos="0.4 0 0" gravcomp="0.7"><joint name="b" axis="0 1 0.2" actuatorgravcomp="true"/>
      <joint name="c" axis="1 0 0" pos="0.1 0.1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
    </body></body>
  </worldbody>
  <actuator><motor joint="a" gear="3"/><position joint="b" kp="5" kv="1"/></actuator>
  <sensor><jointactuatorfrc name="fa" joint="a"/><jointactuatorfrc name="fb" joint="b"/>
    <jointactuatorfrc name="fc" joint="c"/></sensor></mujoco>"""


def test_weight_that_actuators_carry_shares_the_range_of_a_joint():
    m = mujoco.MjModel.from_xml_string(CARRIED)
    model, _ = ours(m)
    assert kt.explain(model).advance.body == "native"
    rng, d = np.random.default_rng(0), mujoco.MjData(m)
    q, qd, ctrl = rng.uniform(-2, 2, (8, 3)), rng.normal(size=(8, 3)), rng.uniform(-2, 2, (8, 2))
    after = kt.advance(model, kt.initial_state(model, q, qd), ctrl)
    felt = kt.sensors(model, kt.initial_state(model, q, qd), ctrl)
    held = 0
    for k in range(8):
        mujoco.mj_resetData(m, d)
        d.qpos, d.qvel, d.ctrl = q[k], qd[k], ctrl[k]
        mujoco.mj_step(m, d)
        held += d.sensordata[0] in (-3, 4)
        np.testing.assert_allclose(np.asarray(after.qd)[k], d.qvel, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose([felt[n][k][0] for n in ("fa", "fb", "fc")], d.sensordata, atol=1e-12)
    assert 0 < held < 8


def test_weight_that_joints_leave_to_actuators_is_a_force_of_theirs():
    """qfrc_actuator, and what mj_inverse returns, contain it; without controls nobody carries it."""
    m = mujoco.MjModel.from_xml_string(CARRIED)
    model, d = ours(m)[0], mujoco.MjData(m)
    d.qpos, d.qvel, d.ctrl = [0.3, 0.4, -0.2], [0.1, -0.2, 0.3], [0.2, -0.5]
    mujoco.mj_forward(m, d)
    mujoco.mj_inverse(m, d)
    q, qd, qdd = (np.array(x) for x in (d.qpos, d.qvel, d.qacc))
    np.testing.assert_allclose(kt.actuator_force(model, q, qd, d.ctrl), d.qfrc_actuator, rtol=1e-12, atol=1e-12)
    tau = kt.constrained_inverse_dynamics(model, q, qd, qdd)
    np.testing.assert_allclose(tau, d.qfrc_inverse, rtol=1e-12, atol=1e-12)
    for given in ({"tau": tau}, {"ctrl": np.array(d.ctrl)}):
        np.testing.assert_allclose(kt.constrained_dynamics(model, q, qd, **given).qdd, qdd, rtol=1e-11, atol=1e-11)


def test_where_there_are_no_actuators_nobody_carries_what_joints_leave_to_them():
    text = CARRIED.partition("<actuator>")[0] + "</mujoco>"
    m = mujoco.MjModel.from_xml_string(text)
    d, model = mujoco.MjData(m), ours(m)[0]
    q, qd = np.array([0.3, 0.4, -0.2]), np.array([0.1, -0.2, 0.3])
    d.qpos, d.qvel = q, qd
    mujoco.mj_step(m, d, 3)
    after = kt.advance(model, kt.initial_state(model, q, qd), substeps=3)
    np.testing.assert_allclose(after.qd, d.qvel, rtol=1e-12, atol=1e-12)


def test_damping_of_actuators_at_the_bound_of_a_joint():
    """MuJoCo takes it at the end of a step, but for actuators on the joint itself."""
    kinds = ['joint="j0"', 'tendon="t"', 'site="s2" gear="1 0 0 0 0 0"']
    bodies = "".join(
        f'<body><joint name="j{k}" type="slide" axis="1 0 0" actuatorfrcrange="-1 1"/>'
        f'<geom size="0.1" mass="1" contype="0" conaffinity="0"/><site name="s{k}"/></body>'
        for k in range(3)
    )
    m = mujoco.MjModel.from_xml_string(
        f'<mujoco><option integrator="implicitfast"/><worldbody>{bodies}</worldbody>'
        '<tendon><fixed name="t"><joint joint="j1" coef="1"/></fixed></tendon><actuator>'
        + "".join(f'<velocity {on} kv="50"/>' for on in kinds)
        + "</actuator></mujoco>"
    )
    d, model = mujoco.MjData(m), ours(m)[0]
    d.ctrl[:] = 1
    mujoco.mj_step(m, d)
    after = kt.advance(model, kt.initial_state(model), np.ones(3))
    np.testing.assert_allclose(after.qd, d.qvel, rtol=1e-12)
