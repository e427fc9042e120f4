"""All methods of forward dynamics, put to the same questions; what concerns one of them stands in a file of its own."""

import dataclasses
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.forward_dynamics import METHODS
from tests.build import build_model
from tests.reference import dense, spatial_v2

from .forests import forest
from .forward import check_case, check_mechanism, error, mechanism
from .mixed import resisted_by_armature

ON_TREES = {
    "aba, lanes": {"method": "aba", "schedule": "lanes"},
    "aba, levels": {"method": "aba", "schedule": "levels"},
    "crba": {"method": "crba"},
    "jsiia": {"method": "jsiia"},
    "vneb": {"method": "vneb"},
    "abia": {"method": "abia"},
    "dca": {"method": "dca"},
    "dcae": {"method": "dcae", "chunks": 3},
}
ON_CHAINS = ON_TREES | {"cg": {"method": "cg"}, "cfa": {"method": "cfa"}}
MORE_SCHEDULES = {f"aba, {schedule}": {"method": "aba", "schedule": schedule} for schedule in ("sequential", "paths")}
DIGITS_LOST = {"dca": 4.0}  # error over eps·cond(H) where cond(H) is large: 1.1 measured; the others 0.12 or less


def over(options):
    """A test for each of the options."""
    return pytest.mark.parametrize("options", list(options.values()), ids=list(options))


def is_chain(parent):
    return (parent == np.arange(len(parent)) - 1).all()


def test_no_method_is_left_out():
    assert {options["method"] for options in ON_CHAINS.values()} == set(METHODS)


@over(ON_TREES | MORE_SCHEDULES)
def test_every_tree_of_spatial_v2(options, request):
    if options["method"] == "vneb":  # cubic: runs longer than it compiles
        request.getfixturevalue("full_compilation")
    f = forest()
    q, qd, tau, pushing, f_ext = map(f.joined, ("q", "qd", "tau", "ID_fext", "f_ext"))
    lost = DIGITS_LOST.get(options["method"], 1.0)
    for gravity in {tuple(case.gravity) for case in f.cases}:
        model = f.model.replace(gravity=gravity)
        free = kt.forward_dynamics(model, q, qd, tau, 0 * f_ext, **options)  # zeros: no other program to compile
        pushed = kt.forward_dynamics(model, q, qd, pushing, f_ext, **options)
        for case, part in zip(f.cases, f.bodies, strict=True):
            if tuple(case.gravity) == gravity:
                check_case(case, free[:, part], "", lost)
                check_case(case, pushed[:, part], "_fext", lost)


FIXED_BASE = spatial_v2.cases("autotree", "mixed")
CHAINS = [name for name in FIXED_BASE if is_chain(spatial_v2.load(name).parent)]


@pytest.mark.parametrize(("method", "name"), [*product(("aba", "cg"), FIXED_BASE), *product(("cfa",), CHAINS)])
def test_each_tree_of_spatial_v2(method, name):
    """One by one: as users meet aba, and the methods that must not stand in a forest.

    CFA refuses branches, and conjugate gradients would converge for the largest tree only. They need 304 iterations
    for the chain of 100 bodies, elsewhere less than two for each body.
    """
    case = spatial_v2.load(name)
    model = build_model(case)
    if method == "aba":
        check_case(case, kt.forward_dynamics(model, case.q, case.qd, case.tau), "")
        check_case(case, kt.forward_dynamics(model, case.q, case.qd, case.ID_fext, case.f_ext), "_fext")
        return
    both = [np.stack(x) for x in ((case.tau, case.ID_fext), (0 * case.f_ext, case.f_ext))]  # one program to compile
    free, pushed = kt.forward_dynamics(model, case.q, case.qd, *both, method=method)
    check_case(case, free, "")
    check_case(case, pushed, "_fext")


@over(ON_TREES | MORE_SCHEDULES | {"cg": {"method": "cg"}})
def test_floating_base_of_spatial_v2(options):
    case = spatial_v2.load("floatbase_nb4")
    tau = np.concatenate([np.zeros((case.n_states, 6)), case.tau], 1)
    for f_ext, base, joints in (
        (0 * case.f_ext, case.FDfb_xd, case.FDfb_qdd),
        (case.f_ext, case.FDfb_xd_fext, case.FDfb_qdd_fext),
    ):
        found = kt.forward_dynamics(build_model(case), case.q_free, case.qd_free, tau, f_ext, **options)
        for k in range(case.n_states):
            assert error(found[k], np.concatenate([case.to_free(k, base[k][7:]), joints[k]])) < 1e-10


@over(ON_CHAINS)
def test_every_joint_in_a_forest(options):
    """FD(ID(qdd)) = qdd, forces on bodies included; CFA's forests are chains."""
    bound = 1e-10 if options["method"] == "aba" else 1e-8
    check_mechanism(14, "chain" if options["method"] == "cfa" else "forest", bound=bound, **options)


@over({name: ON_TREES[name] for name in ("aba, lanes", "aba, levels", "abia", "dca")})
def test_armature(options):
    """Rotor inertia adds to the diagonal of H. The programs are those of the test above, which had forces on bodies."""
    _, model, s = mechanism(14, "forest")
    armature = np.random.default_rng(1).uniform(0.1, 2, model.nv)
    geared = dataclasses.replace(model, rows=model.rows._replace(armature=armature))
    tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd) + armature * resisted_by_armature(model, s.qd, s.qdd)
    assert error(kt.forward_dynamics(geared, s.q, s.qd, tau, 0 * s.f_ext, **options), s.qdd) < 1e-11


@cache
def arm():
    """A chain that all methods serve: model, states, accelerations and H⁻¹ by the oracle."""
    d, model, s = mechanism(4, "chain", ("Rz", "Px", "helical"))
    rng = np.random.default_rng(3)
    q, qd, tau = (x + 0.3 * rng.standard_normal((2, *x.shape)) for x in (s.q, s.qd, s.tau))
    exact = np.stack([dense.aba(d, *state) for state in zip(q, qd, tau, strict=True)]).astype(float)
    return model, tuple(map(jnp.asarray, (q, qd, tau))), exact, np.linalg.inv(dense.crba(d, q[0]).astype(float))


@over(ON_CHAINS)
def test_under_jit_and_vmap_in_single_precision_and_by_derivative(options):
    """∂q̈/∂τ is H⁻¹; the slope by q is that of differences."""
    model, states, exact, inverse = arm()

    def solve(q, qd, tau):
        return kt.forward_dynamics(model, q, qd, tau, **options)

    many = jax.jit(jax.vmap(solve))
    assert error(many(*states), exact) < 1e-11
    single = solve(*(x.astype(jnp.float32) for x in states))
    assert single.dtype == jnp.float32
    assert error(single, exact) < (1e-3 if options["method"] == "cfa" else 1e-4)  # CFA loses more digits than the rest
    weight = jnp.asarray([1.0, -2.0, 0.5, 3.0])
    q, qd, tau = (x[0] for x in states)
    by_q, by_tau = jax.grad(lambda q, tau: weight @ solve(q, qd, tau), (0, 1))(q, tau)
    assert error(by_tau, inverse @ np.asarray(weight)) < 1e-10
    along, h = jnp.asarray([0.3, 1.0, -0.7, 0.2]), 1e-5
    ahead, behind = many(jnp.stack([q + h * along, q - h * along]), *(jnp.stack([x, x]) for x in (qd, tau)))
    assert error(by_q @ along, np.asarray(weight @ (ahead - behind) / (2 * h))) < 1e-6
