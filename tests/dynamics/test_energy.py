"""Energies, centre of mass and momentum under every schedule, against spatial_v2 and the 80-bit oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules.choose import SCHEDULES
from tests.build import build_model
from tests.dynamics.forests import forest
from tests.dynamics.mixed import mixed_model, state
from tests.dynamics.trees import worst
from tests.reference import dense, generate, spatial_v2
from tests.second import few

every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)
# Slopes under the others, which take seconds to compile each, are for the thorough profile: values are
# compared under all of them.
some_schedules = pytest.mark.parametrize(
    "schedule", [pytest.param(s, marks=() if s in ("lanes", "levels") else pytest.mark.thorough) for s in SCHEDULES]
)
QUANTITIES = {  # of spatial_v2: ours
    "KE": kt.kinetic_energy,
    "PE": lambda model, q, qd, **options: kt.potential_energy(model, q, **options),
    "cm": lambda model, q, qd, **options: kt.center_of_mass(model, q, **options),
    "htot": kt.momentum,
}


def oracle(d, q, qd):
    kinetic, potential = dense.energy(d, q, qd)
    return {"KE": kinetic, "PE": potential, "cm": dense.center_of_mass(d, q), "htot": dense.momentum(d, q, qd)}


@some_schedules
def test_agrees_with_spatial_v2(schedule):
    """All trees stand in one forest; all but one at a time are without mass, so that one program serves every case."""
    f = forest()
    q, qd = f.joined("q"), f.joined("qd")
    for case, part in zip(f.cases, f.bodies, strict=True):
        inertia = np.zeros((f.model.n_bodies, 6, 6))
        inertia[part] = case.inertia
        alone = f.model.replace(inertia=inertia, gravity=case.gravity)
        for name, function in QUANTITIES.items():
            found = function(alone, q, qd, schedule=schedule)[: case.n_states]
            wanted = getattr(case, name).reshape(found.shape)
            # a rod that turns about an upright axis has no potential energy at all, and rounding of its kinetic energy
            scale = np.abs(case.KE if name == "PE" and not wanted.any() else wanted).max()
            assert np.abs(found - wanted).max() < 1e-11 * scale, (case.name, name)


@some_schedules
@pytest.mark.parametrize("name", spatial_v2.cases("floatbase"))
def test_floating_bases_agree_with_the_oracle_on_six_joints(name, schedule):
    """At spatial_v2's states; it has stored no energies of these, so they are the oracle's for six sliders and hinges
    that spatial_v2 itself takes for the free joint.
    """
    case = spatial_v2.load(name)
    model, chain = build_model(case), case.chain.description(np.longdouble)
    q6, qd6 = np.concatenate([case.q6, case.q], 1), np.concatenate([case.qd6, case.qd], 1)
    for k in range(case.n_states):
        for quantity, wanted in oracle(chain, q6[k], qd6[k]).items():
            found = QUANTITIES[quantity](model, case.q_free[k], case.qd_free[k], schedule=schedule)
            assert worst(found, wanted) < 1e-11, quantity


@every_schedule
def test_every_joint_agrees_with_the_oracle(schedule):
    rng = np.random.default_rng(21)
    d = generate.random_tree(rng, 40, shape="forest")
    s = generate.random_state(rng, d)
    model = build_model(d)
    moving = oracle(d, s.q, s.qd)
    fixed = np.flatnonzero(model.structure.row_of_body < 0)  # to the base: not counted here
    assert len(fixed) == 0 or d.joints[fixed[0]] == "fixed"
    if len(fixed):
        inertia = d.inertia.copy()
        inertia[fixed] = 0
        moving = oracle(dense.Description(d.parent, d.joints, d.x_tree, inertia, d.gravity), s.q, s.qd)
    for quantity, wanted in moving.items():
        assert worst(QUANTITIES[quantity](model, s.q, s.qd, schedule=schedule), wanted) < 1e-12, quantity


@few("schedule", SCHEDULES, ["lanes"])
def test_jit_vmap_derivatives_and_dtypes(schedule):
    """The slope of kinetic energy by qd is H qd, that of potential energy by q the force that holds against gravity."""
    model = mixed_model()
    q, qd, _ = state(model)

    def kinetic(q, qd):
        return kt.kinetic_energy(model, q, qd, schedule=schedule)

    slope = jax.jit(jax.vmap(jax.grad(kinetic, 1)))(q, qd)
    assert worst(slope, np.einsum("bij,bj->bi", kt.mass_matrix(model, q), qd)) < 1e-12
    assert worst(jax.jit(jax.vmap(kinetic))(q, qd), np.asarray(kinetic(q, qd))) < 1e-14
    fall = jax.grad(lambda d: kt.potential_energy(model, kt.integrate(model, q[0], d, 1.0), schedule=schedule))
    assert worst(fall(jnp.zeros(model.nv)), np.asarray(kt.gravity_force(model, q[0]))) < 1e-12
    single = kinetic(q.astype(jnp.float32), qd.astype(jnp.float32))
    assert single.dtype == jnp.float32
    assert worst(single, np.asarray(kinetic(q, qd))) < 1e-5


def test_batches_nothing_that_moves_and_unknown_schedules():
    model = mixed_model()
    q, qd = kt.random_state(model, 1, (2, 1, 3))
    assert kt.momentum(model, q, qd[0, 0, 0]).shape == (2, 1, 3, 6)
    assert isinstance(kt.center_of_mass(model, q), np.ndarray)
    still = build_model(generate.random_tree(np.random.default_rng(0), 3, "fixed"))
    assert not kt.momentum(still, np.zeros((4, 0)), np.zeros(0)).any()
    with pytest.raises(ValueError, match="unknown schedule"):
        kt.kinetic_energy(model, q, qd, schedule="random")
