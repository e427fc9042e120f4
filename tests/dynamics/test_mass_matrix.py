"""The mass matrix: against spatial_v2, the 80-bit oracle, and what physics says about it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.dynamics.trees import sample, worst
from tests.reference import spatial_v2

METHODS = ("crba", "columns", "vneb")


@pytest.mark.parametrize("name", spatial_v2.cases("autotree", "mixed"))
def test_spatial_v2(name):
    case = spatial_v2.load(name)
    model = build_model(case)
    assert worst(kt.mass_matrix(model, case.q, schedule="lanes"), case.H) < 1e-13
    assert worst(kt.bias_force(model, case.q, case.qd, schedule="lanes"), case.C) < 1e-10
    assert worst(kt.bias_force(model, case.q, case.qd, case.f_ext, schedule="lanes"), case.C_fext) < 1e-10


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["random", "long"])
def test_every_method_is_the_oracle(name, method):
    s = sample(name)
    assert worst(kt.mass_matrix(s.model, s.states.q, method=method), s.H) < 1e-13


@pytest.mark.parametrize(
    ("name", "schedule"), [("forest", "lanes"), ("forest", "levels"), ("one", "sequential"), ("one", "paths")]
)
def test_every_schedule_is_the_oracle(name, schedule):
    s = sample(name)
    H = kt.mass_matrix(s.model, s.states.q, schedule=schedule)
    assert worst(H, s.H) < 1e-13
    packed = kt.mass_matrix(s.model, s.states.q, schedule=schedule, packed=True)
    assert np.abs(packed.dense() - H).max() < 1e-14 * np.abs(H).max()


def test_packed_times_a_vector():
    s = sample("forest")
    packed = kt.mass_matrix(s.model, s.states.q, packed=True)
    assert packed.values.shape == (3, s.model.tree.n_ancestor_pairs)
    x = s.states.tau
    assert worst(packed.matvec(x), np.einsum("bij,bj->bi", s.H, x)) < 1e-14
    assert packed.matvec(x[0]).shape == (3, s.model.nv)
    other = kt.mass_matrix(s.model, s.states.q, method="columns", packed=True)
    assert worst(other.values, packed.values) < 1e-13


def test_symmetric_positive_definite_and_zero_between_branches():
    s = sample("forest")
    H = kt.mass_matrix(s.model, s.states.q)
    i, j = s.model.tree.ancestor_pairs
    related = np.eye(s.model.nv, dtype=bool)
    related[i, j] = related[j, i] = True
    assert not related.all()
    assert (H[:, ~related] == 0).all()
    assert np.array_equal(H, H.swapaxes(1, 2))
    assert (np.linalg.eigvalsh(H) > 0).all()


def test_it_is_the_derivative_of_force_by_acceleration():
    s = sample("random")
    q, qd, qdd = (jnp.asarray(x[0]) for x in (s.states.q, s.states.qd, s.states.qdd))
    jacobian = jax.jacfwd(lambda a: kt.inverse_dynamics(s.model, q, qd, a, schedule="levels"))(qdd)
    assert worst(jacobian, s.H[0]) < 1e-13


def test_it_gives_the_kinetic_energy():
    s = sample("random")
    q, qd = s.states.q, s.states.qd
    twice = np.einsum("bi,bij,bj->b", qd, kt.mass_matrix(s.model, q), qd)
    assert worst(kt.kinetic_energy(s.model, q, qd), twice / 2) < 1e-13


def test_a_floating_robot_far_away_loses_nothing():
    s = sample("one")
    rng = np.random.default_rng(5)
    inertia = np.asarray(s.description.inertia, float)
    model = kt.Model.from_arrays([-1, 0], ["free", "Rx"], np.eye(6), np.concatenate([inertia, inertia]))
    q = kt.neutral(model)
    q[7] = rng.normal()
    far = q.copy()
    far[:3] = [1e6, -2e6, 3e6]
    assert np.array_equal(kt.mass_matrix(model, q, schedule="levels"), kt.mass_matrix(model, far, schedule="levels"))


@pytest.mark.parametrize("method", METHODS)
def test_armature_adds_to_the_diagonal(method):
    s = sample("random")
    armature = np.linspace(0.1, 2, s.model.nv)
    model = dataclasses.replace(s.model, rows=s.model.rows._replace(armature=armature))
    difference = kt.mass_matrix(model, s.states.q, method=method) - kt.mass_matrix(s.model, s.states.q, method=method)
    assert worst(difference, np.broadcast_to(np.diag(armature), difference.shape)) < 1e-12


def test_batches_jit_vmap_grad_and_float32():
    s = sample("forest")
    q = s.states.q
    H = kt.mass_matrix(s.model, q)
    assert kt.mass_matrix(s.model, q[0]).shape == (s.model.nv, s.model.nv)
    assert kt.mass_matrix(s.model, q[:, None]).shape == (3, 1, s.model.nv, s.model.nv)
    by_jit = jax.jit(lambda q: kt.mass_matrix(s.model, q, schedule="levels"))
    by_vmap = jax.vmap(lambda q: kt.mass_matrix(s.model, q))
    assert worst(by_jit(jnp.asarray(q)), H) < 1e-14
    assert worst(by_vmap(jnp.asarray(q)), H) < 1e-14
    single = kt.mass_matrix(s.model, q.astype(np.float32))
    assert single.dtype == np.float32
    assert worst(single, H) < 1e-5
    h, column = 1e-6, int(np.flatnonzero(s.model.structure.q_of_row >= 0)[-1])
    step = np.zeros(s.model.nq)
    step[s.model.structure.q_of_row[column]] = h

    def trace(q):
        return jnp.trace(kt.mass_matrix(s.model, q, schedule="levels"))

    slope = jax.grad(trace)(jnp.asarray(q[0])) @ step
    assert float(slope) == pytest.approx(float(trace(q[0] + step) - trace(q[0] - step)) / 2, rel=1e-6, abs=1e-12)


def test_what_can_not_be_served_is_said():
    s = sample("one")
    with pytest.raises(ValueError, match="unknown method 'inverse': choose from auto, crba, columns, vneb"):
        kt.mass_matrix(s.model, s.states.q, method="inverse")
    with pytest.raises(ValueError, match="unknown schedule"):
        kt.mass_matrix(s.model, s.states.q, schedule="sideways")
    with pytest.raises(ValueError, match="q must have shape"):
        kt.mass_matrix(s.model, np.zeros(3))
