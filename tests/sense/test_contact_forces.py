"""Forces of contacts on bodies: MuJoCo's, and Newton's laws."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree import envs
from kinetree.constrain.joint_groups import present
from kinetree.io.converters import Mujoco
from kinetree.sense.acting import _by_xla
from kinetree.sense.pushes import push_bodies
from tests.actuate.scenes import GYMNASIUM

PILE = """
<mujoco><option cone="{cone}" integrator="Euler"/><worldbody>
  <geom type="plane" size="5 5 .1" condim="6" friction="1 .01 .01"/>
  <body name="below" pos="0 0 .1"><freejoint/><geom type="sphere" size=".1" condim="4"/></body>
  <body name="above" pos=".02 .01 .295"><freejoint/><geom type="capsule" size=".1 .2" euler="90 0 20"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_forces_between_bodies_and_on_the_floor_are_mujocos(cone):
    """Contacts of several dimensions, with the floor and between bodies that move; by lanes and by XLA."""
    text = PILE.format(cone=cone)
    there = mujoco.MjModel.from_xml_string(text)
    there.opt.tolerance = 1e-14
    data = mujoco.MjData(there)
    data.qvel[:] = np.random.default_rng(0).normal(size=there.nv) * 0.1
    mujoco.mj_step(there, data, 20)
    mujoco.mj_forward(there, data)
    mujoco.mj_rnePostConstraint(there, data)
    assert data.ncon >= 2
    model = kt.load(text)
    convention = Mujoco(model)
    q = convention.q_here(np.array(data.qpos))
    state = kt.initial_state(model, q, convention.v_here(q, np.array(data.qvel)))
    forces = kt.contact_forces(model, state)
    np.testing.assert_allclose(forces[:, 3:], data.cfrc_ext[1:, 3:], rtol=1e-7, atol=1e-7)
    center = data.subtree_com[there.body_rootid[1:]]
    moment = forces[:, :3] - np.cross(center, forces[:, 3:])
    np.testing.assert_allclose(moment, data.cfrc_ext[1:, :3], rtol=1e-7, atol=1e-7)
    if cone == "elliptic":  # one comparison with XLA is enough: it takes long to compile
        return
    has = present(model)
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], state)
    by_xla = _by_xla(has, model, one.q, one.qd, one.act, one.warm_start, jnp.zeros((1, 0)))
    moment, force = by_xla.push.on(push_bodies(model), np.eye(model.n_bodies, dtype=bool))
    np.testing.assert_allclose(jnp.stack([*moment, *force], 1)[..., 0], forces, rtol=1e-9, atol=1e-9)


def test_all_forces_together_move_the_centre_of_mass():
    """Newton's second law of a robot whose feet touch: under jit and over a batch."""
    model = kt.load(GYMNASIUM / "ant.xml")
    q = np.tile(kt.initial_state(model).q, (3, 1))
    q[:, 2] = [0.07, 0.05, 2.0]
    state = kt.initial_state(model, jnp.asarray(q))
    ctrl = jnp.full((3, model.nu), 0.3)
    forces = jax.jit(lambda s: kt.contact_forces(model, s, ctrl))(state)
    assert forces.shape == (3, model.n_bodies, 6)
    qdd = kt.constrained_dynamics(model, state.q, state.qd, ctrl=ctrl).qdd
    jacobian = kt.com_jacobian(model, state.q)
    acceleration = (jacobian @ qdd[..., None])[..., 0]
    np.testing.assert_allclose(forces[..., 3:].sum(1), model.total_mass * (acceleration - model.gravity), atol=1e-8)
    np.testing.assert_array_equal(forces[2], 0.0)
    assert (forces[:2, :, 5].sum(1) > 1).all()
    free = envs.make("cart_pole").model
    np.testing.assert_array_equal(kt.contact_forces(free, kt.initial_state(free)), np.zeros((free.n_bodies, 6)))


def test_states_without_an_answer_have_no_forces():
    model = kt.load(PILE.format(cone="pyramidal"))
    state = kt.initial_state(model)
    lost = state.replace(q=np.where(np.arange(model.nq) == 2, np.nan, state.q))
    with pytest.raises(ValueError, match=r"contact_forces: q\[2\] is nan"):
        kt.contact_forces(model, lost)
    with pytest.raises(ValueError, match=r"constrained_dynamics: q\[2\] is nan"):
        kt.constrained_dynamics(model, lost.q, lost.qd)
    traced = jax.jit(lambda s: kt.contact_forces(model, s))(jax.tree.map(jnp.asarray, lost))
    assert np.isnan(traced).all()
