"""All methods of forward dynamics, put to the same questions; what concerns one of them stands in a file of its own."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.reference import dense, spatial_v2

from .forests import forest
from .forward import EPS, check_mechanism, error, mechanism

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
BY_PATHS = {"aba, paths": {"method": "aba", "schedule": "paths"}}
DIGITS_LOST = {"dca": 4.0}  # bound on the error over eps·cond(H), where cond(H) is large; 1 for the others


def over(options):
    return pytest.mark.parametrize("options", options.values(), ids=options)


def check(case, found, column, exact, lost=1.0):
    """To 1e-10 of spatial_v2's own numbers where cond(H) < 1e9; else to lost·eps·cond(H) of the 80-bit answer."""
    for k in range(case.n_states):
        if case.condH[k] < 1e9:
            for theirs in (f"FDab{column}", f"FDcrb{column}"):
                assert error(found[k], getattr(case, theirs)[k]) < 1e-10, (case.name, theirs, k)
        assert error(found[k], getattr(case, exact)[k]) < max(1e-10, lost * EPS * case.condH[k]), (case.name, exact, k)


@over(ON_TREES | BY_PATHS)
def test_every_tree_of_spatial_v2(options):
    f = forest()
    q, qd, tau, pushing, f_ext = map(f.joined, ("q", "qd", "tau", "ID_fext", "f_ext"))
    lost = DIGITS_LOST.get(options["method"], 1.0)
    for gravity in {tuple(case.gravity) for case in f.cases}:
        model = f.model.replace(gravity=gravity)
        free = kt.forward_dynamics(model, q, qd, tau, 0 * f_ext, **options)  # zeros: no other program to compile
        pushed = kt.forward_dynamics(model, q, qd, pushing, f_ext, **options)
        for case, part in zip(f.cases, f.bodies, strict=True):
            if tuple(case.gravity) == gravity:
                check(case, free[:, part], "", "qdd_ld", lost)
                check(case, pushed[:, part], "_fext", "qdd_ld_fext", lost)


@pytest.mark.parametrize("options", [{"method": "cg"}, {"method": "cfa"}], ids=["cg", "cfa"])
@pytest.mark.parametrize("name", [n for n in spatial_v2.cases("autotree") if n.endswith("_bf1") and "nb100" not in n])
def test_chains_of_spatial_v2(name, options):
    """The methods that must not stand in a forest: one refuses, the other would converge for the largest tree only."""
    case = spatial_v2.load(name)
    model = build_model(case)
    check(case, kt.forward_dynamics(model, case.q, case.qd, case.tau, **options), "", "qdd_ld")
    pushed = kt.forward_dynamics(model, case.q, case.qd, case.ID_fext, case.f_ext, **options)
    check(case, pushed, "_fext", "qdd_ld_fext")


@pytest.mark.parametrize("name", spatial_v2.cases("mixed"))
def test_mixed_trees_of_spatial_v2_by_conjugate_gradients(name):
    case = spatial_v2.load(name)
    check(case, kt.forward_dynamics(build_model(case), case.q, case.qd, case.tau, method="cg"), "", "qdd_ld")


@over(ON_CHAINS)
def test_every_joint_in_a_forest(options):
    """FD(ID(qdd)) = qdd, forces on bodies included; CFA's forests are chains."""
    check_mechanism(14, "chain" if options["method"] == "cfa" else "forest", bound=1e-8, **options)


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

    assert error(jax.jit(jax.vmap(solve))(*states), exact) < 1e-11
    single = solve(*(x.astype(jnp.float32) for x in states))
    assert single.dtype == jnp.float32
    assert error(single, exact) < (1e-3 if options["method"] == "cfa" else 1e-4)  # CFA loses more digits than the rest
    weight = jnp.asarray([1.0, -2.0, 0.5, 3.0])
    q, qd, tau = (x[0] for x in states)
    by_q, by_tau = jax.grad(lambda q, tau: weight @ solve(q, qd, tau), (0, 1))(q, tau)
    assert error(by_tau, inverse @ np.asarray(weight)) < 1e-10
    along, h = jnp.asarray([0.3, 1.0, -0.7, 0.2]), 1e-5
    difference = weight @ (solve(q + h * along, qd, tau) - solve(q - h * along, qd, tau)) / (2 * h)
    assert error(by_q @ along, np.asarray(difference)) < 1e-6
