"""Inverse dynamics under every schedule, against the numbers of spatial_v2 and against the 80-bit oracle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules.choose import SCHEDULES
from tests.build import build_model
from tests.dynamics.forests import forest
from tests.dynamics.trees import worst
from tests.reference import dense, generate, spatial_v2

every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)
# What takes seconds to compile is for the thorough profile under the other schedules: they meet the oracle on one tree,
# and test_reverse.py has their slopes on small ones.
some_schedules = pytest.mark.parametrize(
    "schedule", [pytest.param(s, marks=() if s in ("lanes", "levels") else pytest.mark.thorough) for s in SCHEDULES]
)


@some_schedules
def test_agrees_with_spatial_v2(schedule):
    f = forest()
    q, qd, qdd, f_ext = map(f.joined, ("q", "qd", "qdd", "f_ext"))
    f.check("ID", lambda model: kt.inverse_dynamics(model, q, qd, qdd, schedule=schedule), 1e-11)
    f.check("ID_fext", lambda model: kt.inverse_dynamics(model, q, qd, qdd, f_ext, schedule=schedule), 1e-11)
    f.check("C", lambda model: kt.bias_force(model, q, qd, schedule=schedule), 1e-11)
    f.check("C_fext", lambda model: kt.bias_force(model, q, qd, f_ext, schedule=schedule), 1e-11)


@some_schedules
@pytest.mark.parametrize("name", spatial_v2.cases("floatbase"))
def test_floating_bases_agree_with_spatial_v2(name, schedule):
    """At the acceleration that spatial_v2 finds for a base without motors, it needs no force, and the joints theirs."""
    case = spatial_v2.load(name)
    model = build_model(case)

    def force(rates, qdd, f_ext):
        base = np.stack([case.to_free(k, rates[k, 7:]) for k in range(case.n_states)])
        qdd = np.concatenate([base, qdd], 1)
        return kt.inverse_dynamics(model, case.q_free, case.qd_free, qdd, f_ext, schedule=schedule)

    unactuated = np.zeros((case.n_states, 6))
    unloaded = force(case.IDfb_xd, case.qdd, 0 * case.f_ext)
    assert worst(unloaded, np.concatenate([unactuated, case.IDfb_tau], 1)) < 1e-11
    loaded = force(case.FDfb_xd_fext, case.FDfb_qdd_fext, case.f_ext)
    assert worst(loaded, np.concatenate([unactuated, case.tau], 1)) < 1e-11


@every_schedule
def test_every_joint_agrees_with_the_oracle(schedule):
    """A chain long enough for `paths` to cut, branches all over it and on the base, bodies fixed to one another."""
    rng = np.random.default_rng(11)
    d = generate.random_tree(rng, 98, shape="forest")
    d = dataclasses.replace(d, parent=np.where(np.arange(98) < 56, np.arange(98) - 1, d.parent))
    s = generate.random_state(rng, d)
    model = build_model(d)
    assert (model.nq, model.nv) == (d.nq, d.nv)
    tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd, s.f_ext, schedule=schedule)
    assert worst(tau, dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext)) < 1e-12


@every_schedule
def test_one_body(schedule):
    rng = np.random.default_rng(3)
    d = generate.random_tree(rng, 1, "helical")
    s = generate.random_state(rng, d)
    tau = kt.inverse_dynamics(build_model(d), s.q, s.qd, s.qdd, s.f_ext, schedule=schedule)
    assert tau.shape == (1,)
    assert worst(tau, dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext)) < 1e-14


def test_bias_and_gravity_are_inverse_dynamics_at_rest():
    rng = np.random.default_rng(5)
    d = generate.random_tree(rng, 14)
    s = generate.random_state(rng, d)
    model = build_model(d)
    still = np.zeros(d.nv)
    assert worst(kt.bias_force(model, s.q, s.qd, s.f_ext), dense.rnea(d, s.q, s.qd, still, s.f_ext)) < 1e-12
    for gravity in (np.zeros(3), np.array([9.81, 0, 0]), np.array([-1.0, 2.0, 3.0])):
        wanted = dense.rnea(d.with_gravity(gravity), s.q, still, still).astype(float)
        got = kt.gravity_force(model.replace(gravity=gravity), s.q)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


@every_schedule
def test_without_degrees_of_freedom_there_is_nothing_to_do(schedule):
    model = build_model(generate.random_tree(np.random.default_rng(0), 3, "fixed"))
    tau = kt.inverse_dynamics(model, np.zeros((4, 0)), np.zeros(0), np.zeros(0), np.ones((3, 6)), schedule=schedule)
    assert tau.shape == (4, 0)


class TestTransformations:
    """jit, vmap and derivatives, on a chain with every kind of joint, long enough for `paths` to cut."""

    d = generate.random_tree(np.random.default_rng(9), 42, shape="chain")
    model = build_model(d)
    s = generate.random_state(np.random.default_rng(10), d)

    @some_schedules
    def test_jit_and_nested_vmap(self, schedule):
        q, qd = kt.random_state(self.model, 13, (2, 3))
        qdd = np.random.default_rng(12).standard_normal(qd.shape)
        one = jax.vmap(jax.vmap(lambda *state: kt.inverse_dynamics(self.model, *state, schedule=schedule)))
        got = jax.jit(one)(q, qd, qdd)
        assert isinstance(got, jax.Array)
        for at in np.ndindex(2, 3):
            assert worst(got[at], dense.rnea(self.d, q[at], qd[at], qdd[at])) < 1e-12

    @some_schedules
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
            scale = np.abs(slope * along).sum()  # of the terms that the derivative along `along` adds up
            assert abs(float(np.sum(slope * along)) - wanted) < 1e-9 * scale

    @some_schedules
    def test_forward_derivative_is_the_mass_matrix(self, schedule):
        q, qd, qdd = map(jnp.asarray, (self.s.q, self.s.qd, self.s.qdd))
        H = jax.jit(jax.jacfwd(lambda a: kt.inverse_dynamics(self.model, q, qd, a, schedule=schedule)))(qdd)
        assert worst(H, dense.crba(self.d, self.s.q)) < 1e-12

    def test_derivative_by_the_model(self):
        """τ is linear in the inertias: its slope by their scale, at 1, is itself."""
        state = tuple(map(jnp.asarray, (self.s.q, self.s.qd, self.s.qdd)))

        def tau(scale):
            inertia = jax.tree.map(lambda x: x * scale, self.model.rows.inertia)
            model = dataclasses.replace(self.model, rows=self.model.rows._replace(inertia=inertia))
            return kt.inverse_dynamics(model, *state)

        value, slope = jax.jvp(tau, (1.0,), (1.0,))
        assert worst(slope, np.asarray(value)) < 1e-13
