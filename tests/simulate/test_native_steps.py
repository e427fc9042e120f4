"""Whole steps by the native body: MuJoCo's next states, the bits of single steps, and the same as XLA's reference."""

import jax
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from kinetree.lanes.target import facts
from kinetree.model.fork import _Process
from kinetree.simulate.native import step_builtin, stepper_for, way_of_step
from tests.constrain.agreement import compiled, ours

MIN_STATES = facts("cpu").written_out_min_states
WORLD = """<mujoco><option timestep="0.004" integrator="{integrator}"/>
<default><geom conaffinity="0"/></default><worldbody><geom type="plane" size="0 0 1" contype="0" conaffinity="1"/>
<body pos="0 0 0.15"><joint type="free" stiffness="2"/><geom type="box" size="0.1 0.06 0.05"/>
  <body pos="0.1 0 0"><joint name="ball" type="ball" damping="0.1" stiffness="0.3"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0"/>
    <body pos="0.2 0 0"><joint name="tip" axis="0 1 0" range="-60 30" damping="0.2" armature="0.01" stiffness="1"
      actuatorfrcrange="-0.6 0.4"/><geom type="cylinder" size="0.03 0.05"/></body></body>
  <body pos="-0.1 0 0"><joint name="slide" type="slide" axis="1 0 0.3" range="-0.1 0.1" frictionloss="0.5"/>
    <geom size="0.05"/></body></body></worldbody>
<actuator><motor joint="tip" gear="2" ctrlrange="-0.3 0.3"/>
  <position joint="tip" kp="3" kv="0.4" forcerange="-0.5 0.2"/>
  <general joint="slide" dyntype="filterexact" actearly="true" dynprm="0.1" gainprm="2"
    biastype="affine" biasprm="0.1 -1 -2"/>
  <intvelocity joint="slide" kp="2" actrange="-0.1 0.1"/></actuator></mujoco>"""


def reached(m, model, count=20, every=8):
    """States of MuJoCo along a run with random controls, and the states after them."""
    rng, d, convention = np.random.default_rng(3), mujoco.MjData(m), Mujoco(model)
    found = []
    for k in range(count * every):
        d.ctrl[:] = rng.uniform(-1, 1, m.nu)
        before = d.qpos.copy(), d.qvel.copy(), d.act.copy(), d.ctrl.copy()
        mujoco.mj_step(m, d)
        if k % every == 0:
            q, after = convention.q_here(before[0]), convention.q_here(d.qpos)
            found.append(
                (q, convention.v_here(q, before[1]), *before[2:], after, convention.v_here(after, d.qvel), d.act.copy())
            )
    return [np.array(x) for x in zip(*found, strict=True)]


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
def test_steps_are_those_of_mujoco(integrator):
    m = compiled(WORLD.format(integrator=integrator))
    model = ours(m)
    assert way_of_step(model, integrator).plan is not None
    q, qd, act, ctrl, next_q, next_qd, next_act = reached(m, model)
    state = kt.initial_state(model, q, qd).replace(act=act)
    after = kt.advance(model, state, ctrl)
    assert np.abs(after.q - next_q).max() < 1e-11
    assert np.abs(after.qd - next_qd).max() < 1e-9
    assert np.abs(after.act - next_act).max() < 1e-12
    plain = step_builtin(model)(after, ctrl)  # its arrays are columns of one array
    assert plain is not None
    np.testing.assert_array_equal(plain.q, kt.advance(model, jax.tree.map(np.array, after), ctrl).q)
    shared = step_builtin(model)(after, ctrl[0])
    assert shared is not None
    np.testing.assert_array_equal(shared.q, kt.advance(model, after, np.tile(ctrl[0], (len(ctrl), 1))).q)
    many = kt.advance(model, state, ctrl, substeps=3)
    one = kt.advance(model, kt.advance(model, after, ctrl), ctrl)
    for name in ("q", "qd", "act", "time", "warm_start"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name))
    single = kt.advance(model, kt.initial_state(model, q[3], qd[3]).replace(act=act[3]), ctrl[3])
    np.testing.assert_array_equal(single.q, after.q[3])


def test_plain_calls_without_controls_and_with_forces_are_direct():
    m = compiled(WORLD.format(integrator="Euler"))
    model = ours(m)
    state = kt.initial_state(model, *kt.random_state(model, 0, (5,)))
    f_ext = np.random.default_rng(0).standard_normal((5, model.n_bodies, 6))
    long = kt.advance(model, state), kt.advance(model, state, f_ext=f_ext)  # the first calls go the long way
    builtin = step_builtin(model)
    short = builtin(state), builtin(state, None, f_ext)
    one = builtin(jax.tree.map(lambda x: np.array(x[0]), state), None, f_ext[0])
    assert one is not None
    for before, after in zip(long, short, strict=True):
        assert after is not None
        jax.tree.map(np.testing.assert_array_equal, before, after)
    np.testing.assert_array_equal(one.q, long[1].q[0])
    with pytest.raises(ValueError, match=f"f_ext must have shape .*{model.n_bodies}, 6"):  # as many numbers
        kt.advance(model, state, f_ext=np.swapaxes(f_ext, 1, 2).copy())


def test_activations_without_controls_are_those_with_controls_of_zero():
    model = ours(compiled(WORLD.format(integrator="Euler")))
    q, qd = kt.random_state(model, 0)
    act = np.full(model.na, 0.2)
    found = kt.constrained_dynamics(model, q, qd, act=act).qdd
    np.testing.assert_array_equal(found, kt.constrained_dynamics(model, q, qd, ctrl=np.zeros(model.nu), act=act).qdd)
    assert np.abs(found - kt.constrained_dynamics(model, q, qd).qdd).max() > 1e-3


def test_steps_and_contact_in_a_forked_child(monkeypatch):
    """A child whose parent used XLA makes native steps, also if its parent never did."""
    text = WORLD.format(integrator="Euler")
    parent, model = ours(compiled(text)), ours(compiled(text))
    q, qd = kt.random_state(parent, 0, (5,))
    state = kt.initial_state(parent, q, qd)
    known = kt.advance(parent, state), kt.step(parent, q, qd, 0.01), kt.contacts(parent, q)
    monkeypatch.setattr(_Process, "lost_xla", True)
    found = kt.advance(model, state), kt.step(model, q, qd, 0.01), kt.contacts(model, q)
    jax.tree.map(np.testing.assert_array_equal, known, found)


def test_a_step_without_a_controller_is_that_of_whole_states():
    model = ours(compiled(WORLD.format(integrator="Euler")))
    q, qd = kt.random_state(model, 0, (5,))
    q_next, qd_next = kt.step(model, q, qd, 0.01)
    after = kt.advance(model, kt.initial_state(model, q, qd), dt=0.01, integrator="semi_implicit")
    np.testing.assert_array_equal(q_next, after.q)
    np.testing.assert_array_equal(qd_next, after.qd)
    np.testing.assert_allclose(kt.step(model, q, qd, 0.01, lambda t, q, qd: 0 * qd)[1], qd_next, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_our_integrator_is_that_of_xla(monkeypatch):
    model = ours(compiled(WORLD.format(integrator="Euler")))
    q, qd = kt.random_state(model, 1, (6,))
    q[:, 2] = 0.1
    f_ext = np.random.default_rng(0).standard_normal((6, model.n_bodies, 6))
    ctrl, options = np.full(model.nu, 0.2), {"integrator": "semi_implicit", "dt": 0.003}
    state = kt.initial_state(model, q, qd)
    native = kt.advance(model, state, ctrl, f_ext, **options)
    monkeypatch.setenv("KINETREE_NATIVE", "0")
    assert way_of_step(model, "semi_implicit").plan is None
    by_xla = kt.advance(model, state, ctrl, f_ext, **options)
    for name in ("q", "qd", "act", "time"):
        np.testing.assert_allclose(getattr(native, name), getattr(by_xla, name), rtol=1e-9, atol=1e-11)


def test_what_it_does_not_know_is_told():
    bounded = WORLD.format(integrator="Euler").replace("<actuator>", '<actuator><motor site="s"/>')
    bounded = bounded.replace('<joint name="tip"', '<site name="s"/><joint name="tip"')
    way = way_of_step(ours(compiled(bounded)), "Euler")
    assert way.plan is None
    assert "a joint bounds the sum of its actuators, and one acts on a site" in way.reason


def unconstrained(text: str) -> str:
    """The same robot, which nothing touches, limits or rubs."""
    for what in (
        '<geom type="plane" size="0 0 1" contype="0" conaffinity="1"/>',
        'range="-60 30"',
        'range="-0.1 0.1" ',
    ):
        assert what in text
        text = text.replace(what, "")
    return text.replace('frictionloss="0.5"', "")


@pytest.mark.cpu
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_steps_of_what_nothing_constrains_are_those_of_mujoco(integrator):
    m = compiled(unconstrained(WORLD.format(integrator=integrator)))
    model = ours(m)
    stepper = stepper_for(model, integrator, np.float64, model.timestep, False)
    assert stepper is not None
    assert stepper.variant.free is not None
    q, qd, act, ctrl, next_q, next_qd, next_act = reached(m, model)
    state = kt.initial_state(model, q, qd).replace(act=act)
    after = kt.advance(model, state, ctrl)
    assert np.abs(after.q - next_q).max() < 1e-11
    assert np.abs(after.qd - next_qd).max() < 1e-9
    assert np.abs(after.act - next_act).max() < 1e-12
    # many steps are made by a program written out for this robot, few by one that robots share
    many, few = 2 + MIN_STATES // len(q), kt.advance(model, state, ctrl, substeps=2)
    assert stepper.program(many * len(q)) is stepper.own is not stepper.program(len(q))
    whole = kt.advance(model, state, ctrl, substeps=many)
    for _ in range(many - 2):
        few = kt.advance(model, few, ctrl)
    for name in ("q", "qd", "act", "time", "warm_start"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(few, name))


def test_springs_of_quaternion_joints_and_forces_on_bodies_are_those_of_xla(monkeypatch):
    model = ours(compiled(unconstrained(WORLD.format(integrator="Euler"))))
    assert way_of_step(model, "semi_implicit").plan is not None
    state = kt.initial_state(model, *kt.random_state(model, 1, (6,)))
    f_ext = np.random.default_rng(0).standard_normal((6, model.n_bodies, 6))
    ctrl, options = np.full(model.nu, 0.2), {"integrator": "semi_implicit", "dt": 0.003}
    native = kt.advance(model, state, ctrl, f_ext, **options)
    monkeypatch.setenv("KINETREE_NATIVE", "0")
    by_xla = kt.advance(model, state, ctrl, f_ext, **options)
    for name in ("q", "qd", "act", "time", "warm_start"):
        np.testing.assert_allclose(getattr(native, name), getattr(by_xla, name), rtol=1e-9, atol=1e-11)


TUMBLING = """<mujoco><option timestep="0.004" integrator="implicitfast"/><worldbody>{}
  <body pos="0 0 0.11"><joint type="free" armature="0.01" damping="0.1"/><geom size="0.04" pos="0.1 0.05 0"/>
    <geom type="capsule" size="0.03 0.1" pos="0.02 0.03 0.01"/></body>
  <body pos="0 0.5 0.3"><joint name="j" axis="0 1 0" damping="0.5"/><geom size="0.03" pos="0.3 0 0"/></body>
  </worldbody><actuator><position joint="j" kp="5" kv="1"/></actuator></mujoco>"""


@pytest.mark.parametrize("floor", ['<geom type="plane" size="5 5 1"/>', ""])
def test_lone_bodies_tumble_as_in_mujoco(floor):
    """Their gyroscopic forces are taken at the end of a step, natively too."""
    m = compiled(TUMBLING.format(floor))
    model = ours(m)
    assert way_of_step(model, "implicitfast").plan is not None
    convention, d = Mujoco(model), mujoco.MjData(m)
    d.qvel[:6], d.ctrl[:] = (0.3, -0.2, 0.1, 3, -5, 7), 0.3
    found = []
    for _ in range(30):
        found.append((d.qpos.copy(), d.qvel.copy()))
        mujoco.mj_step(m, d)
    found.append((d.qpos.copy(), d.qvel.copy()))
    q = convention.q_here(np.array([x for x, _ in found]))
    qd = convention.v_here(q, np.array([v for _, v in found]))
    after = kt.advance(model, kt.initial_state(model, q[:-1], qd[:-1]), np.full((30, 1), 0.3))
    assert np.abs(after.q - q[1:]).max() < 1e-12
    assert np.abs(after.qd - qd[1:]).max() < 1e-10


BETWEEN = """<mujoco><option timestep="0.004"/><default><geom contype="0" size="0.05"/></default><worldbody>
  <body><joint axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0.4 0 0"/>
    <site name="low" pos="0.3 0.1 0" euler="10 20 30"/>
    <body pos="0.4 0 0"><joint axis="0 0 1"/><geom pos="0.1 0.1 0"/><site name="left" pos="0.3 0 0.1"/></body>
    <body pos="0.1 0.2 0"><joint type="ball"/><geom pos="0 0 -0.1"/>
      <site name="right" pos="0.1 0.2 0" euler="30 10 5"/></body></body></worldbody>
  <actuator><position kp="3" kv="0.2" gear="1 2 3 0.1 0.2 0.3" site="{}" refsite="{}"/></actuator></mujoco>"""


@pytest.mark.parametrize("sites", [("left", "right"), ("left", "low"), ("low", "right")], ids=" ".join)
def test_what_carries_two_sites_feels_nothing_of_their_actuator(sites):
    """In native steps the two forces' moment turned the first hinge."""
    m = compiled(BETWEEN.format(*sites))
    model = ours(m)
    assert way_of_step(model, "Euler").plan is not None
    q, qd, _, ctrl, next_q, next_qd, _ = reached(m, model, count=5)
    after = kt.advance(model, kt.initial_state(model, q, qd), ctrl)
    assert np.abs(after.q - next_q).max() < 1e-13
    assert np.abs(after.qd - next_qd).max() < 1e-12
