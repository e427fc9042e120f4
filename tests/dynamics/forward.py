"""What the tests of all forward dynamics methods share: mechanisms, the 80-bit answer, and how far off a method is."""

from functools import cache

import numpy as np

import kinetree as kt
from tests.build import build_model
from tests.reference import dense, generate

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


def check_case(case, found, column, lost=1.0):
    """The accelerations that a method has found for a case of spatial_v2, without forces on bodies or with ("_fext").

    Where cond(H) < 1e9, to 1e-10 of spatial_v2's own numbers and of the 80-bit answer. Else, against the latter, to
    1e-5·eps·cond(H) without forces on bodies (measured: dca 1.5e-6, cg 1.3e-6, the others 1e-7 or less), and to
    `lost`·eps·cond(H) with them, which on very light bodies all but cancel tau.
    """
    for k, condition in enumerate(case.condH):
        if condition < 1e9:
            bounds = dict.fromkeys(("FDab", "FDcrb", "qdd_ld"), 1e-10)
        else:
            bounds = {"qdd_ld": (lost if column else 1e-5) * EPS * condition}
        for theirs, bound in bounds.items():
            assert error(found[k], getattr(case, theirs + column)[k]) < bound, (case.name, theirs + column, k)


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
