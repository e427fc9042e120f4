"""Inverse dynamics under every schedule: against spatial_v2's numbers, and against the 80-bit oracle for every joint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedule import SCHEDULES
from tests.build import build_model
from tests.dynamics.trees import worst
from tests.reference import dense, generate, spatial_v2

every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)
pytestmark = pytest.mark.usefixtures("light_compilation")


@every_schedule
@pytest.mark.parametrize("name", spatial_v2.cases("autotree", "mixed"))
def test_agrees_with_spatial_v2(name, schedule):
    case = spatial_v2.load(name)
    model = build_model(case)
    tau = kt.inverse_dynamics(model, case.q, case.qd, case.qdd, schedule=schedule)
    assert worst(tau, case.ID) < 1e-11
    tau = kt.inverse_dynamics(model, case.q, case.qd, case.qdd, case.f_ext, schedule=schedule)
    assert worst(tau, case.ID_fext) < 1e-11
    assert worst(kt.bias_force(model, case.q, case.qd, schedule=schedule), case.C) < 1e-11
    assert worst(kt.bias_force(model, case.q, case.qd, case.f_ext, schedule=schedule), case.C_fext) < 1e-11


@every_schedule
@pytest.mark.parametrize("name", spatial_v2.cases("floatbase"))
def test_floating_bases_agree_with_spatial_v2(name, schedule):
    """IDfb finds the acceleration that an unactuated base gets: with it, the base needs no force, the joints IDfb's."""
    case = spatial_v2.load(name)
    model = build_model(case)
    base = np.stack([case.to_free(k, case.IDfb_xd[k, 7:]) for k in range(case.n_states)])
    qdd = np.concatenate([base, case.qdd], 1)
    tau = kt.inverse_dynamics(model, case.q_free, case.qd_free, qdd, schedule=schedule)
    assert worst(tau, np.concatenate([np.zeros((case.n_states, 6)), case.IDfb_tau], 1)) < 1e-11
    base = np.stack([case.to_free(k, case.FDfb_xd_fext[k, 7:]) for k in range(case.n_states)])
    qdd = np.concatenate([base, case.FDfb_qdd_fext], 1)
    tau = kt.inverse_dynamics(model, case.q_free, case.qd_free, qdd, case.f_ext, schedule=schedule)
    assert worst(tau, np.concatenate([np.zeros((case.n_states, 6)), case.tau], 1)) < 1e-11


@every_schedule
@pytest.mark.parametrize("shape", ["random", "forest", "chain"])
def test_every_joint_agrees_with_the_oracle(shape, schedule):
    """80 bodies, so that `paths` cuts the chain; bodies fixed to the base and to one another among them."""
    rng = np.random.default_rng(11)
    d = generate.random_tree(rng, 80, shape=shape)
    s = generate.random_state(rng, d)
    model = build_model(d)
    assert model.nv == d.nv
    assert model.nq == d.nq
    tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd, schedule=schedule)
    assert worst(tau, dense.rnea(d, s.q, s.qd, s.qdd)) < 1e-12
    tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd, s.f_ext, schedule=schedule)
    assert worst(tau, dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext)) < 1e-12


@every_schedule
@pytest.mark.parametrize("kind", generate.KINDS)
def test_one_body_on_each_kind_of_joint(kind, schedule):
    rng = np.random.default_rng(3)
    d = generate.random_tree(rng, 1, kind)
    s = generate.random_state(rng, d)
    tau = kt.inverse_dynamics(build_model(d), s.q, s.qd, s.qdd, s.f_ext, schedule=schedule)
    assert tau.shape == (d.nv,)
    assert worst(tau, dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext)) < 1e-13 or d.nv == 0


def test_bias_and_gravity_are_inverse_dynamics_at_rest():
    rng = np.random.default_rng(5)
    d = generate.random_tree(rng, 14)
    s = generate.random_state(rng, d)
    model = build_model(d)
    still = np.zeros(d.nv)
    assert worst(kt.bias_force(model, s.q, s.qd, s.f_ext), dense.rnea(d, s.q, s.qd, still, s.f_ext)) < 1e-12
    assert worst(kt.gravity_force(model, s.q), dense.rnea(d, s.q, still, still)) < 1e-12


@every_schedule
def test_gravity_acts_in_any_direction(schedule):
    rng = np.random.default_rng(6)
    d = generate.random_tree(rng, 6, "revolute")
    q = generate.random_state(rng, d).q
    model = build_model(d)
    for gravity in (np.zeros(3), np.array([9.81, 0, 0]), np.array([-1.0, 2.0, 3.0])):
        got = kt.gravity_force(model.replace(gravity=gravity), q, schedule=schedule)
        wanted = dense.rnea(d.with_gravity(gravity), q, 0 * q, 0 * q)
        np.testing.assert_allclose(got, wanted.astype(float), rtol=0, atol=1e-12)


@every_schedule
def test_without_degrees_of_freedom_there_is_nothing_to_do(schedule):
    d = generate.random_tree(np.random.default_rng(0), 3, "fixed")
    model = build_model(d)
    tau = kt.inverse_dynamics(model, np.zeros((4, 0)), np.zeros(0), np.zeros(0), np.ones((3, 6)), schedule=schedule)
    assert tau.shape == (4, 0)


class TestTransformations:
    """jit, vmap and derivatives, on one mechanism with every kind of joint."""

    d = generate.random_tree(np.random.default_rng(9), 10)
    model = build_model(d)
    s = generate.random_state(np.random.default_rng(10), d)

    @every_schedule
    def test_jit_and_nested_vmap(self, schedule):
        rng = np.random.default_rng(12)
        q, qd = kt.random_state(self.model, 13, (2, 3))
        qdd = rng.standard_normal(qd.shape)
        wanted = kt.inverse_dynamics(self.model, q, qd, qdd, schedule=schedule)

        def one(q, qd, qdd):
            return kt.inverse_dynamics(self.model, q, qd, qdd, schedule=schedule)

        got = jax.jit(jax.vmap(jax.vmap(one)))(q, qd, qdd)
        assert isinstance(got, jax.Array)
        assert worst(got, wanted) < 1e-13
        across = jax.vmap(one, (None, 0, None))(jnp.asarray(q[0, 0]), jnp.asarray(qd[0]), jnp.asarray(qdd[0, 0]))
        alone = kt.inverse_dynamics(self.model, q[0, 0], qd[0], qdd[0, 0], schedule=schedule)
        assert worst(across, alone) < 1e-13

    @every_schedule
    def test_gradient_agrees_with_differences_of_the_oracle(self, schedule):
        s, d = self.s, self.d
        weight = np.random.default_rng(14).standard_normal(d.nv)

        def loss(q, qd, qdd, f_ext):
            return weight @ kt.inverse_dynamics(self.model, q, qd, qdd, f_ext, schedule=schedule)

        point = (s.q, s.qd, s.qdd, s.f_ext)
        found = jax.jit(jax.grad(loss, range(4)))(*map(jnp.asarray, point))
        rng = np.random.default_rng(15)
        for k, (x, slope) in enumerate(zip(point, found, strict=True)):
            along, h = rng.standard_normal(x.shape), np.longdouble(1e-6)
            ahead, behind = ([*point[:k], x + sign * h * along, *point[k + 1 :]] for sign in (1, -1))
            wanted = weight @ (dense.rnea(d, *ahead) - dense.rnea(d, *behind)) / (2 * h)
            # the difference itself is right to h² = 1e-12 of the third derivative
            np.testing.assert_allclose(float(np.sum(slope * along)), float(wanted), rtol=1e-8)

    @every_schedule
    def test_forward_and_reverse_derivatives_agree(self, schedule):
        q, qd, qdd = map(jnp.asarray, (self.s.q, self.s.qd, self.s.qdd))

        def tau(qd):
            return kt.inverse_dynamics(self.model, q, qd, qdd, schedule=schedule)

        forward, reverse = jax.jit(jax.jacfwd(tau))(qd), jax.jit(jax.jacrev(tau))(qd)
        assert worst(forward, np.asarray(reverse)) < 1e-12

    def test_gradient_reaches_the_model(self):
        """τ is linear in the inertias: doubling them all, gravity kept, doubles it."""
        s = self.s

        def tau(scale):
            inertia = jax.tree.map(lambda x: x * scale, self.model.rows.inertia)
            model = self.model.with_rows(inertia=inertia) if hasattr(self.model, "with_rows") else None
            if model is None:
                import dataclasses

                model = dataclasses.replace(self.model, rows=self.model.rows._replace(inertia=inertia))
            return kt.inverse_dynamics(model, jnp.asarray(s.q), jnp.asarray(s.qd), jnp.asarray(s.qdd))

        value, slope = jax.jvp(tau, (1.0,), (1.0,))
        assert worst(slope, np.asarray(value)) < 1e-13
