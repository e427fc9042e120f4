"""The native body of constrained dynamics: MuJoCo's answers, the same bits in any batch, and what it can not do."""

import jax
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.choose import way_of
from kinetree.dynamics.schedules.choose import recorded
from tests.constrain.agreement import compiled, exact, ours, relative, solved_as_there, states

CLOSE = 1e-10  # relative; 1e-13 is what is found

# Every pair that the native body knows, all numbers of dimensions, static shapes on both sides of a pair, limits,
# friction loss, springs, damping, armature, gravity compensation, and a fixed body in the static world.
SCENE = """<mujoco><option timestep="0.004" cone="{cone}" impratio="{impratio}"/>
<default><geom conaffinity="0"/><default class="static"><geom contype="0" conaffinity="2"/>
  </default><default class="round"><geom contype="3"/></default></default>
<worldbody>
<geom class="static" conaffinity="1" type="plane" size="0 0 1" friction="0.8 0.02 0.003" euler="4 -3 0"
  margin="0.002" gap="0.003"/>
<body pos="1 0 0" euler="10 0 0"><geom class="static" type="capsule" size="0.1 0.3" priority="1"
  friction="0.4 0.01 0.002" condim="4" solref="-3000 -40"/></body>
<geom class="static" type="box" size="0.3 0.3 0.1" pos="-1 0 0" euler="0 10 20" solref="0.01 0.7" solmix="2"
  solimp="0.8 0.99 0.01 0.3 {power}"/>
<geom class="static" type="sphere" size="0.2" pos="0 1.2 0.1"/>
<geom class="static" conaffinity="4" type="cylinder" size="0.2 0.1" pos="1 1.2 0.1"/>
<body pos="0 0 0.3"><freejoint/><geom class="round" type="capsule" size="0.08 0.15" condim="6"
  fromto="0 0 0 0.3 0 0.05"/>
  <body pos="0.3 0 0" gravcomp="0.5"><joint type="ball" frictionloss="0.05" armature="0.01" damping="0.1"/>
    <geom type="box" size="0.1 0.07 0.05" pos="0.15 0 0" condim="4"/>
    <body pos="0.3 0 0"><joint type="hinge" axis="0 1 0" pos="0.05 0 0" range="-0.2 0.3" limited="true"
      frictionloss="0.2" damping="0.1" stiffness="3" springref="0.1"/><geom type="cylinder" size="0.07 0.1"/>
      <body pos="0.2 0 0"><geom type="ellipsoid" size="0.07 0.1 0.05"/></body></body></body></body>
<body pos="-1 0 0.4"><joint type="free" armature="0.02"/><geom class="round" contype="7" type="sphere" size="0.1"
  margin="0.01" solref="0.05 1" friction="1.5"/></body>
<body pos="1 1.2 0.5"><freejoint/><geom class="round" contype="7" type="sphere" size="0.1" condim="1"/></body>
<body pos="0.9 0.05 0.4"><joint type="slide" axis="0.2 0.3 -1" range="-0.1 0.25" limited="true" margin="0.02"
  solimplimit="0.5 0.9 0.05 0.5 {power}"/><joint type="hinge" axis="1 0 0" frictionloss="0.1"/>
  <geom class="round" type="capsule" size="0.06 0.1" euler="80 0 10"/></body>
<body pos="0.05 1.1 0.5"><freejoint/><geom class="round" contype="7" type="sphere" size="0.12" condim="3"/></body>
</worldbody></mujoco>"""


def scene(cone, impratio=2, power=2):
    return exact(mujoco.MjModel.from_xml_string(SCENE.format(cone=cone, impratio=impratio, power=power)))


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_a_scene_with_everything_against_mujoco(cone):
    m = scene("pyramidal") if cone == "pyramidal" else scene("elliptic", 3, 1.5)
    model = ours(m)
    assert way_of(model).plan is not None
    reached = states(m, model, count=25, every=12, push=0.3)
    assert reached.contacts.mean() > 5
    found = solved_as_there(model, reached, CLOSE)
    again = kt.constrained_dynamics(model, reached.q, reached.qd, reached.tau, warm_start=reached.qdd)
    assert relative(again.qdd, reached.qdd) < CLOSE
    assert again.iterations.mean() < found.iterations.mean()


WALKER = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 1">
  <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>
  <geom type="capsule" size="0.05 0.2"/><body pos="0 0 -0.2"><joint axis="0 1 0" range="-40 60" armature="0.01"/>
  <geom type="capsule" size="0.04" fromto="0 0 0 0 0 -0.4"/></body></body></worldbody></mujoco>"""


def touching_states():
    m = compiled(WALKER)
    model = ours(m)
    rng = np.random.default_rng(5)
    q = rng.uniform(-1, 1, (33, 4)) * [50.0, 0.1, 0.5, 0.5] + [0, -0.6, 0, 0]
    return model, q, rng.standard_normal((33, 4)), rng.standard_normal((33, 4))


def test_a_world_has_the_same_bits_in_any_batch_and_order():
    model, q, qd, tau = touching_states()
    found = kt.constrained_dynamics(model, q, qd, tau)
    assert found.contacts.active.sum() > 10
    order = np.random.default_rng(0).permutation(33)
    shuffled = kt.constrained_dynamics(model, q[order], qd[order], tau[order])
    np.testing.assert_array_equal(shuffled.qdd, found.qdd[order])
    for k in (0, 17):
        np.testing.assert_array_equal(kt.constrained_dynamics(model, q[k], qd[k], tau[k]).qdd, found.qdd[k])
    jitted = jax.jit(lambda *a: kt.constrained_dynamics(model, *a).qdd)(q, qd, tau)
    np.testing.assert_array_equal(jitted, found.qdd)


def test_forces_on_bodies_and_single_precision():
    model, q, qd, tau = touching_states()
    f_ext = np.random.default_rng(2).standard_normal((33, model.n_bodies, 6))
    found = kt.constrained_dynamics(model, q, qd, tau, f_ext)
    back = kt.constrained_inverse_dynamics(model, q, qd, found.qdd, f_ext)
    assert (np.abs(back - tau) / np.abs(found.tau_constraint).max(-1, initial=1, keepdims=True)).max() < 1e-12
    single = kt.constrained_dynamics(model, *(x.astype(np.float32) for x in (q, qd, tau, f_ext)))
    assert single.qdd.dtype == np.float32
    error = np.abs(single.qdd - found.qdd).max(-1) / np.abs(found.qdd).max(-1)
    assert np.median(error) < 1e-4  # q is 50 m away: its own rounding is 2e-6 m


def test_contacts_and_forces_of_given_accelerations_have_derivatives():
    """Where no point comes or goes, against differences."""
    model, q, qd, x = (a[:3] if isinstance(a, np.ndarray) else a for a in touching_states())
    q[:, :2] = [[0.0, -0.55]]
    asked = {
        "depth": lambda q: kt.contacts(model, q).depth,
        "force": lambda q: kt.constrained_inverse_dynamics(model, q, qd, x),
    }
    assert kt.contacts(model, q).active.any(-1).all()
    step = 1e-6 * np.random.default_rng(1).standard_normal(q.shape)
    for name, f in asked.items():
        with recorded() as ran:
            _, slope = jax.jvp(f, (jax.numpy.asarray(q),), (jax.numpy.asarray(step),))
        assert all(choice.plan is not None for what, choice in ran if what.startswith("con"))
        known = np.isfinite(f(q))
        differences = (np.where(known, f(q + step), 0) - np.where(known, f(q - step), 0)) / 2
        np.testing.assert_allclose(
            np.where(known, slope, 0), differences, rtol=1e-5, atol=1e-9 * np.abs(f(q)[known]).max(), err_msg=name
        )


def test_what_it_does_not_know_is_told():
    way = way_of(ours(compiled('<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')))
    assert way.plan is None
    assert "nothing moves" in way.reason
