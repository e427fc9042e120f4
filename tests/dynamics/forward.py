"""What the tests of all forward dynamics methods share: mechanisms, the 80-bit answer, and how far off a method is."""

from functools import cache

import numpy as np

import kinetree as kt
from tests.build import build_model
from tests.reference import dense, generate, spatial_v2

EPS = np.finfo(float).eps


def error(found, exact):
    """Largest error over the largest entry."""
    return float(np.abs(np.asarray(found) - exact).max() / max(np.abs(exact).max(), 1e-30))


@cache
def mechanism(n, shape="random", joints=generate.KINDS, seed=0):
    """Description, model and state."""
    rng = np.random.default_rng(seed)
    description = generate.random_tree(rng, n, joints, shape)
    return description, build_model(description), generate.random_state(rng, description)


def check_mechanism(n, shape, joints=generate.KINDS, bound=1e-10, **options):
    """A method against the 80-bit articulated-body algorithm, with forces on bodies, and FD(ID(qdd)) = qdd.

    The second not for long chains: their H is so ill-conditioned that tau, rounded to float64, no longer causes qdd.
    """
    d, model, s = mechanism(n, shape, joints)
    exact = dense.aba(d, s.q, s.qd, s.tau, s.f_ext)
    assert error(kt.forward_dynamics(model, s.q, s.qd, s.tau, s.f_ext, **options), exact) < bound
    if n > 30:
        return
    tau = dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext).astype(float)
    found = kt.forward_dynamics(model, s.q, s.qd, tau, s.f_ext, **options)
    # H⁻¹ tau and H⁻¹ C mostly cancel: what is left can not be better than a digit of theirs
    size = max(np.abs(np.linalg.solve(dense.crba(d, s.q).astype(float), tau)).max(), np.abs(s.qdd).max())
    assert np.abs(found - s.qdd).max() < bound * size


def check_case(name, **options):
    """A method against spatial_v2: to 1e-10 where cond(H) < 1e9, else to eps·cond(H) of the 80-bit answer."""
    case = spatial_v2.load(name)
    model = build_model(case)
    found = kt.forward_dynamics(model, case.q, case.qd, case.tau, **options)
    loaded = kt.forward_dynamics(model, case.q, case.qd, case.ID_fext, case.f_ext, **options)
    for k in range(case.n_states):
        if case.condH[k] < 1e9:
            assert error(found[k], case.FDab[k]) < 1e-10
            assert error(loaded[k], case.FDab_fext[k]) < 1e-10
        else:
            assert error(found[k], case.qdd_ld[k]) < EPS * case.condH[k]
            assert error(loaded[k], case.qdd_ld_fext[k]) < EPS * case.condH[k]


@cache
def long_chain(n, seed=0):
    """A chain with skew 0.3 and taper 1: model, state, and the 80-bit answer."""
    d = generate.auto_tree(n, 1, 0.3)
    s = generate.random_state(np.random.default_rng(n + seed), d)
    return kt.auto_tree(n, 1, 0.3), s, dense.aba(d, s.q, s.qd, s.tau)


def distance(found, exact):
    """Relative error in the 2-norm."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def long_chain_error(n, seed=0, **options):
    """Relative error, in the 2-norm, of a method on a long chain."""
    model, s, exact = long_chain(n, seed)
    return distance(kt.forward_dynamics(model, s.q, s.qd, s.tau, **options), exact)
