"""Tendons, and actuators on tendons and sites, against MuJoCo."""

import dataclasses

import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.weights import inverse_weights
from kinetree.io import Mujoco
from tests.constrain.agreement import compiled, errors, ours, relative, states
from tests.constrain.strings import at_random, scene

CLOSE = 1e-9  # relative; 1e-12 is what is found


def test_lengths_and_jacobians():
    m = compiled(scene(inside=True))
    model = ours(m)
    q, length, J = at_random(m, model, 200)
    np.testing.assert_allclose(kt.tendon_length(model, q), length, atol=1e-12)
    found, inside = kt.tendon_jacobian(model, q), model.world.tendons.names.index("inside")
    np.testing.assert_allclose(np.delete(found, inside, 1), np.delete(J, inside, 1), atol=1e-12)
    np.testing.assert_allclose(found[:, inside], J[:, inside], atol=1e-6)  # MuJoCo finds the point to 6e-8
    # ours is the derivative of the length, inside too
    step = 1e-6
    for seed in range(3):
        v = np.random.default_rng(seed).standard_normal((len(q), model.nv))
        ahead, back = (kt.tendon_length(model, kt.integrate(model, q, s * v, step)) for s in (1.0, -1.0))
        slope = (ahead - back) / (2 * step)
        moved = np.abs(slope - (found @ v[..., None])[..., 0])
        assert np.quantile(moved, 0.99) < 1e-7  # the rest are states where a tendon begins to touch


def test_all_that_acts_along_tendons():
    m = compiled(scene())
    model = ours(m)
    reached = states(m, model, count=10, every=15, push=0.3, seed=2)
    found = errors(model, reached)
    assert max(found["qdd"], found["tau_constraint"], found["inverse"]) < CLOSE
    bare = model.replace(world=model.world.replace(tendons=None, equalities=None))
    alone = kt.constrained_dynamics(bare, reached.q, reached.qd, reached.tau)
    assert np.abs(alone.qdd - reached.qdd).max() > 1  # or nothing pulled


@pytest.mark.parametrize("integrator", [pytest.param("Euler", marks=pytest.mark.thorough), "implicitfast"])
def test_a_step_with_actuators_on_tendons_and_sites(integrator):
    m = compiled(scene(actuators=True, integrator=integrator))
    model, data = ours(m), mujoco.MjData(m)
    rng, convention = np.random.default_rng(0), Mujoco(model)
    before, after, forces, sensed = [], [], [], []
    for step in range(60):
        if step % 10 == 0:
            data.ctrl[:] = rng.uniform(-1, 1, m.nu)
        now = tuple(x.copy() for x in (data.qpos, data.qvel, data.act, data.ctrl))
        mujoco.mj_step(m, data)
        if step % 10 == 9:
            before.append(now)
            after.append(tuple(x.copy() for x in (data.qpos, data.qvel, data.act)))
            d = mujoco.MjData(m)
            d.qpos[:], d.qvel[:], d.act[:], d.ctrl[:] = now
            mujoco.mj_forward(m, d)
            forces.append(d.qfrc_actuator.copy())
            sensed.append(d.sensordata.copy())
    qpos, qvel, act, ctrl = map(np.stack, zip(*before, strict=True))
    q = convention.q_here(qpos)
    state = dataclasses.replace(kt.initial_state(model, q, convention.v_here(q, qvel)), act=act)
    tau = kt.actuator_force(model, q, state.qd, ctrl, act)
    assert relative(tau, convention.force_here(q, np.stack(forces))) < 1e-11
    moved = kt.advance(model, state, ctrl)
    qpos, qvel, act = map(np.stack, zip(*after, strict=True))
    np.testing.assert_allclose(moved.q, convention.q_here(qpos), atol=1e-10)
    np.testing.assert_allclose(moved.qd, convention.v_here(qpos, qvel), atol=1e-9)
    np.testing.assert_allclose(moved.act, act, atol=1e-12)
    seen = np.concatenate(list(kt.sensors(model, state, ctrl).values()), -1)
    np.testing.assert_allclose(seen, np.stack(sensed), atol=1e-11)


IN_CODE = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="a"><joint name="a" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    <geom name="disc" type="cylinder" size="0.05 0.1" pos="0.3 0 0" euler="1.5 0 0"/><site name="s" pos="0.3 0 0.1"/>
    <body name="b" pos="0.3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    </body></body><site name="w" pos="0 0 0.2"/><site name="w2" pos="0 0.1 0.1"/></worldbody><tendon>
  <fixed name="sum" stiffness="3" springlength="0.1 0.2" range="-1 1" margin="0.1"><joint joint="a" coef="2"/>
    <joint joint="b" coef="-1"/></fixed>
  <spatial name="way" damping="1" frictionloss="0.2"><site site="w"/><site site="s"/><pulley divisor="2"/>
    <site site="s"/><geom geom="disc" sidesite="s"/><site site="w2"/></spatial></tendon>
  <actuator><motor name="pull" tendon="way" gear="3"/></actuator></mujoco>"""


def test_tendons_in_code_are_those_of_a_file():
    m = compiled(IN_CODE)
    file = ours(m)
    disc = m.geom("disc").id
    turn, place = m.geom_quat[disc], m.geom_pos[disc]
    code = kt.with_tendons(
        file.replace(world=file.world.replace(tendons=None)),
        [
            kt.Tendon(
                "sum", joints={"a": 2.0, "b": -1.0}, stiffness=3.0, spring_length=(0.1, 0.2), range=(-1, 1), margin=0.1
            ),
            kt.Tendon(
                "way",
                path=[
                    "w",
                    kt.Via("a", (0.3, 0, 0.1)),
                    kt.Pulley(2.0),
                    "s",
                    kt.Wrap("cylinder", 0.05, "a", place, turn, side="s"),
                    kt.Via(None, (0, 0.1, 0.1)),
                ],
                damping=1.0,
                friction=0.2,
            ),
        ],
    ).replace(actuators=[kt.Actuator.motor(tendon="way", gear=3.0, name="pull")])
    rng = np.random.default_rng(0)
    q, qd, ctrl = rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), rng.standard_normal((4, 1))
    np.testing.assert_allclose(kt.tendon_length(code, q), kt.tendon_length(file, q), atol=1e-14)
    np.testing.assert_allclose(kt.actuator_force(code, q, qd, ctrl), kt.actuator_force(file, q, qd, ctrl), atol=1e-14)
    for a, b in zip(code.world.tendons.pull, file.world.tendons.pull, strict=True):
        np.testing.assert_allclose(a[np.isfinite(b)], b[np.isfinite(b)])
    np.testing.assert_allclose(inverse_weights(code).tendon, m.tendon_invweight0, rtol=1e-12)
    assert "a tendon acts" in str(kt.explain(code).constrained_dynamics)


@pytest.mark.parametrize(
    ("tendon", "says"),
    [
        (kt.Tendon("t"), "either joints or a path"),
        (kt.Tendon("t", joints={"z": 1.0}), "no joint"),
        (kt.Tendon("t", path=["a"]), "ends at a point"),
        (kt.Tendon("t", path=["a", kt.Wrap("box", 1.0), "b"]), "sphere or a cylinder"),
        (kt.Tendon("t", path=["a", kt.Wrap("sphere", 1.0), "b"], armature=1.0), "armature"),
        (kt.Tendon("t", path=["a", kt.Pulley(2.0), "b"]), "pulley"),
    ],
)
def test_what_is_no_tendon(tendon, says):
    model = ours(compiled(IN_CODE))
    with pytest.raises(kt.ModelError, match=says):
        kt.with_tendons(model, [tendon])
    with pytest.raises(kt.ModelError, match="no tendon"):
        model.replace(actuators=[kt.Actuator.motor(tendon="z")])


def test_tendons_that_do_nothing_cost_nothing():
    m = compiled(IN_CODE.replace('stiffness="3"', "").replace('range="-1 1"', "").replace('damping="1"', ""))
    m.tendon_frictionloss[:] = 0
    model = ours(m).without_actuators
    assert "native" in str(kt.explain(model).constrained_dynamics)
    assert "native" in str(kt.explain(model).advance)
