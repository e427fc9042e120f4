"""Hybrid dynamics: what is given comes back, what is not satisfies the equation of motion."""

import dataclasses

import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.reference import dense, spatial_v2

from .forward import error, mechanism
from .mixed import resisted_by_armature


def test_spatial_v2():
    case = spatial_v2.load("hybrid_nb7")
    qdd, tau = kt.hybrid_dynamics(build_model(case), case.q, case.qd, case.qdd, case.tau, case.fd)
    assert error(qdd, case.qdd_out) < 1e-10
    assert error(tau, case.tau_out) < 1e-10


@pytest.mark.parametrize(("share", "rotor"), [(0.0, 0.0), (0.5, 0.0), (0.5, 1.5), (1.0, 0.0)])
def test_equation_of_motion(share, rotor):
    d, model, s = mechanism(14, "random")
    armature = np.full(model.nv, rotor)
    model = dataclasses.replace(model, rows=model.rows._replace(armature=armature))
    given = np.random.default_rng(0).random(model.nv) < share
    qdd, tau = kt.hybrid_dynamics(model, s.q, s.qd, s.qdd, s.tau, given, s.f_ext)
    np.testing.assert_array_equal(tau[given], s.tau[given])
    np.testing.assert_allclose(qdd[~given], s.qdd[~given], atol=1e-15, rtol=1e-15)
    assert (
        error(tau, dense.rnea(d, s.q, s.qd, qdd, s.f_ext) + armature * resisted_by_armature(model, s.qd, qdd)) < 1e-12
    )
