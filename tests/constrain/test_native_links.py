"""Coupling rows by the native body: equalities, fixed tendons, limits of balls; with contact, friction and dampers."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco
from tests.constrain import strings
from tests.constrain.agreement import compiled, ours, relative, states

CLOSE = 1e-9  # relative, of MuJoCo; 1e-12 is what is found

# A floating body with two fingers that follow each other, a chain of balls that is tied to it, an arm with tendons over
# one branch and over two, a body welded to the world, and spheres that lie on the fingers: every way to touch the tree.
SCENE = """<mujoco><option timestep="0.002"/><default><geom type="capsule" size="0.04"/>
  <default class="ghost"><geom contype="0" conaffinity="0"/></default></default><worldbody>
  <geom type="plane" size="5 5 .1" pos="0 0 -0.3"/>
  <body name="palm" pos="0 0.5 0"><freejoint/><geom fromto="0 0 0 0.3 0 0"/>
    <body pos="0.3 0 0"><joint name="h" axis="0 1 0"/><geom fromto="0.05 0 0 0.3 0 0"/></body>
    <body pos="-0.3 0 0"><joint name="i" axis="0 1 0" range="-1 1"/><geom fromto="0.05 0 0 0.3 0 0"/></body></body>
  <body pos="0 0.45 0.12"><freejoint/><geom type="sphere" size="0.1"/></body>
  <body name="p" pos="0.5 0 0.3" childclass="ghost"><joint name="q" type="ball" range="0 20" damping="0.1"/>
    <geom fromto="0 0 0 0.3 0 0"/><body name="r" pos="0.3 0 0"><joint type="ball" range="0 40"/>
    <geom fromto="0.05 0 0 0.3 0 0"/></body></body>
  <body pos="0 2 1" childclass="ghost"><joint name="a" axis="0 1 0" damping="0.1"/><geom fromto="0 0 0 .3 0 0"/>
    <body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom fromto="0 0 0 .3 0 0"/>
      <body pos=".3 0 0"><joint name="c" axis="0 0 1"/><geom fromto="0 0 0 .1 0 0"/></body></body></body>
  <body pos="0 3 1" childclass="ghost"><joint name="d" axis="0 1 0"/><geom fromto="0 0 0 .3 0 0"/>
    <body name="w" pos=".3 0 0"><joint type="ball"/><geom fromto="0 0 0 .3 0 0"/></body></body></worldbody>
  <tendon><fixed name="limited" limited="true" range="-0.1 0.1" damping="0.2" stiffness="1"><joint joint="a" coef="1"/>
    <joint joint="b" coef="-0.7"/></fixed>
    <fixed name="dry" frictionloss="0.4"><joint joint="b" coef="2"/><joint joint="d" coef="1"/></fixed>
    <fixed name="heavy" armature="0.2" damping="0.3"><joint joint="a" coef="1"/><joint joint="c" coef="0.3"/>
      <joint joint="d" coef="0.6"/></fixed></tendon>
  <equality><joint joint1="h" joint2="i" polycoef="0.1 -0.5 0.1 0 0"/><connect body1="r" body2="palm" anchor="0.2 0 0"/>
    <tendon tendon1="heavy" tendon2="dry" polycoef="0 0.4 0 0 0" solref="0.1 1"/>
    <weld body1="w" anchor="0.3 3 1" solref="0.05 1"/></equality>
  <actuator><position tendon="limited" kp="3" kv="0.5"/><position joint="q" kp="2" kv="0.3" gear="1 2 0"/>
    <motor joint="h"/><intvelocity tendon="dry" kp="0.2" gear="2"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def scene():
    m = compiled(SCENE)
    return m, ours(m)


def test_accelerations_and_forces_are_mujocos(scene):
    m, model = scene
    assert kt.explain(model).constrained_dynamics.plan is not None
    s = states(m, model, count=12, every=20, push=0.5, seed=3)
    assert s.contacts.max() > 1
    found = kt.constrained_dynamics(model, s.q, s.qd, s.tau)
    assert found.converged.all()
    assert relative(found.qdd, s.qdd) < CLOSE
    assert relative(found.tau_constraint, s.tau_constraint) < CLOSE
    alone = [kt.constrained_dynamics(model, *x).qdd for x in zip(s.q, s.qd, s.tau, strict=True)]
    np.testing.assert_array_equal(np.stack(alone), found.qdd)  # bits do not depend on the lanes beside


def steps_agree(m, integrator: str) -> None:
    """Every tenth step of a run under random controls."""
    m.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    model, d = ours(m), mujoco.MjData(m)
    assert kt.explain(model).advance.plan is not None
    convention, rng = Mujoco(model), np.random.default_rng(1)
    for k in range(120):
        q = convention.q_here(d.qpos)
        state = kt.initial_state(model, q, convention.v_here(q, d.qvel)).replace(act=d.act.copy())
        d.ctrl[:] = rng.uniform(-1, 1, m.nu)
        mujoco.mj_step(m, d)
        if k % 10 == 9:
            ahead = kt.advance(model, state, d.ctrl.copy())
            q = convention.q_here(d.qpos)
            np.testing.assert_allclose(ahead.q, q, atol=1e-10)
            np.testing.assert_allclose(ahead.qd, convention.v_here(q, d.qvel), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(ahead.act, d.act, atol=1e-12)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_steps_are_mujocos(integrator):
    # implicitfast takes dampers of tendons at the end of the step, and drops what couples branches of the tree; and
    # the gyroscopic forces of the free sphere, which has no tendon on it
    steps_agree(compiled(SCENE), integrator)


def test_a_servo_on_a_tendon_whose_joints_bound_their_actuators():
    # the bound holds the force, and not its damping at the end of the step
    text = """<mujoco><option integrator="implicitfast"/><worldbody><body>
      <joint name="a" actuatorfrcrange="-0.2 0.2"/><geom size=".02" pos=".1 .2 0"/>
      <body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom size=".02" pos=".1 0 .1"/></body></body></worldbody>
      <tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-0.7"/></fixed></tendon>
      <actuator><position tendon="t" kp="30" kv="2"/></actuator></mujoco>"""
    steps_agree(compiled(text), "implicitfast")


def test_spatial_tendons_sites_and_cranks():
    # tendons around shapes, through them, over pulleys and with inertia, some of which bound their actuators; actuators
    # on tendons, sites, balls and a slider-crank
    text = strings.scene(actuators=True, inside=True).replace(
        'name="string"', 'name="string" actuatorfrcrange="-.2 .1"'
    )
    steps_agree(compiled(text.replace('<motor tendon="around"/>', '<motor tendon="string"/>')), "Euler")


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_a_tendon_bounds_the_sum_of_its_actuators(integrator):
    # one of them has a range of its own, one has damping; another tendon has no bound
    text = """<mujoco><worldbody><body><joint name="a"/><geom size=".02" pos=".1 .2 0"/>
      <body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom size=".02" pos=".1 0 .1"/></body></body></worldbody>
     <tendon><fixed name="t" actuatorfrcrange="-.3 .2"><joint joint="a" coef="1"/><joint joint="b" coef="-.7"/></fixed>
        <fixed name="u"><joint joint="b" coef="0.5"/></fixed></tendon>
      <actuator><position tendon="t" kp="3" kv="0.1"/><motor tendon="t" forcerange="-0.1 0.15" gear="2"/>
        <motor tendon="u"/><general tendon="t" dyntype="filter" dynprm="0.1"/></actuator></mujoco>"""
    steps_agree(compiled(text), integrator)


def test_inverse_dynamics_knows_the_armature_of_tendons():
    text = """<mujoco><worldbody><site name="s" pos="0 .3 .1"/><body><joint name="a"/><geom size=".02" pos=".1 .2 0"/>
      <body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom size=".02" pos=".1 0 .1"/><site name="t" pos=".1 0 .1"/>
      </body></body></worldbody>
      <tendon><fixed armature="0.3"><joint joint="a" coef="1"/><joint joint="b" coef="-.7"/></fixed>
        <spatial armature="0.2" range="0 .3" limited="true"><site site="s"/><site site="t"/></spatial></tendon>
      </mujoco>"""
    m = compiled(text)
    model, d = ours(m), mujoco.MjData(m)
    assert kt.explain(model).constrained_inverse_dynamics.body == "native"
    d.qpos[:], d.qvel[:], d.qacc[:] = (0.3, -0.4), (1.0, 2.0), (3.0, -5.0)
    mujoco.mj_inverse(m, d)
    tau = kt.constrained_inverse_dynamics(model, d.qpos.copy(), d.qvel.copy(), d.qacc.copy())
    np.testing.assert_allclose(tau, d.qfrc_inverse, rtol=1e-12)


def test_a_net_of_many_loops_is_told_at_once():
    links = "".join(
        f'<body name="b{k}" pos="{k} 0 0"><joint axis="0 1 0"/><geom type="sphere" size="0.1" contype="0"/></body>'
        for k in range(300)
    )
    loops = "".join(f'<connect body1="b{k}" body2="b{k + 1}" anchor="0 0 0"/>' for k in range(299))
    model = ours(compiled(f"<mujoco><worldbody>{links}</worldbody><equality>{loops}</equality></mujoco>"))
    assert "rows couple bodies" in kt.explain(model).advance.reason


def test_a_cloth_of_balls():
    """180 rows; XLA took 8 ms for each step of this."""
    n, balls, ties = 6, "", ""
    for i in range(n):
        for j in range(n):
            balls += f'<body name="b{i}_{j}" pos="{0.1 * i} {0.1 * j} 1"><freejoint/><geom size="0.02"/></body>'
            for a, b in ((i + 1, j), (i, j + 1)):
                anchor = f"{0.05 * (a - i)} {0.05 * (b - j)} 0"
                tie = f'<connect body1="b{i}_{j}" body2="b{a}_{b}" anchor="{anchor}"/>'
                ties += tie if max(a, b) < n else ""
    m = compiled(f"<mujoco><worldbody>{balls}</worldbody><equality>{ties}</equality></mujoco>")
    model, d = ours(m), mujoco.MjData(m)
    d.qvel[:] = np.random.default_rng(0).normal(size=m.nv)
    q = Mujoco(model).q_here(d.qpos)
    qd = Mujoco(model).v_here(q, d.qvel)
    mujoco.mj_step(m, d)
    after = kt.advance(model, kt.initial_state(model, q, qd))
    assert kt.explain(model).advance.plan is not None
    wanted = Mujoco(model).v_here(Mujoco(model).q_here(d.qpos), d.qvel)
    np.testing.assert_allclose(after.qd, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


def test_a_net_of_sixty_rows():
    """Chains of balls side by side, tied to one another at every ball."""
    size = 5

    def chain(i):
        inside = '<joint type="ball" damping="0.01"/><geom size="0.03" pos="0 0 -0.2" mass="0.1"/>'
        places = [f"{0.2 * i} 0 2", *("0 0 -0.2",) * (size - 1)]
        return "".join(f'<body name="b{i}_{k}" pos="{p}">{inside}' for k, p in enumerate(places)) + "</body>" * size

    ties = "".join(
        f'<connect body1="b{i}_{k}" body2="b{i + 1}_{k}" anchor="0.1 0 -0.2"/>'
        for i in range(size - 1)
        for k in range(size)
    )
    world = "".join(map(chain, range(size)))
    head = '<mujoco><option timestep="0.002"/><default><geom contype="0"/></default>'
    m = compiled(f"{head}<worldbody>{world}</worldbody><equality>{ties}</equality></mujoco>")
    model = ours(m)
    assert kt.explain(model).advance.plan is not None
    s = states(m, model, count=4, every=10, push=0.1, seed=1)
    found = kt.constrained_dynamics(model, s.q, s.qd, s.tau)
    assert relative(found.qdd, s.qdd) < CLOSE
    assert relative(found.tau_constraint, s.tau_constraint) < CLOSE
