"""Floating bases: the six rows of a free joint on the base, taken in one turn, are the rows one by one."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms import wholes
from kinetree.dynamics.algorithms.aba import aba_of
from kinetree.dynamics.algorithms.crba import CRBA
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.jacobians import jacobian_lanes
from kinetree.dynamics.schedules.lane_rows import kind_of
from kinetree.dynamics.schedules.lanes import Variant, lane_program, lane_program_of
from tests.build import build_model
from tests.dynamics.trees import worst
from tests.reference import dense, generate

N = 7


def two_robots(kinds):
    """A floating robot of limbs of these joints, and a body that floats beside it; and a state."""
    rng = np.random.default_rng(3)
    d = generate.random_tree(rng, N, kinds, "random")
    parent = np.maximum(d.parent, 0)
    parent[[0, -1]] = -1
    d = replace(d, parent=parent, joints=("free", *d.joints[1:-1], "free"))
    return d, generate.random_state(rng, d)


def with_physics(model):
    """The model with rotors, dampers and springs. Rotors of a root are as MuJoCo has them, the same along all axes."""
    rng = np.random.default_rng(5)
    changes = {n: rng.uniform(0.1, 0.5, model.nv) for n in ("armature", "damping", "stiffness")}
    for first in model.structure.quaternion_joints[:, 0]:
        changes["armature"][first + 3 : first + 6] = 0.3
    return model.replace(**changes)


@pytest.mark.parametrize("kinds", [("revolute",), ("revolute", "prismatic", "helical")], ids=["hinges", "screws"])
def test_every_limb_agrees_with_the_oracle(kinds):
    d, s = two_robots(kinds)
    model = build_model(d)
    kind = kind_of(model)
    assert kind.roots
    assert not kind.quaternions
    assert kind.limbs == (kinds == ("revolute",))
    assert "roots" in lane_program_of(RNEA, model).program.name
    for f_ext in (None, s.f_ext):
        tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd, f_ext, schedule="lanes")
        assert worst(tau, dense.rnea(d, s.q, s.qd, s.qdd, f_ext)) < 1e-13
        back = kt.forward_dynamics(model, s.q, s.qd, tau, f_ext, schedule="lanes")
        assert worst(back, s.qdd) < 1e-11
    np.testing.assert_allclose(kt.gravity_force(model, s.q), kt.inverse_dynamics(model, s.q, 0 * s.qd, 0 * s.qd))


def test_only_free_joints_on_the_base_are_roots():
    d, _ = two_robots(("revolute",))
    ball = replace(d, joints=(*d.joints[:3], "spherical", *d.joints[4:]))
    inner = replace(d, parent=np.array([*d.parent[:-1], 2]))
    for other in (ball, inner):
        kind = kind_of(build_model(other))
        assert kind.quaternions
        assert not kind.roots


CASES = [
    (RNEA, True, np.float64),
    (RNEA, False, np.float32),
    (aba_of(False), True, np.float64),
    (aba_of(True), False, np.float32),
    (aba_of(True).again, False, np.float64),
]


@pytest.mark.parametrize(("algorithm", "external", "dtype"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_rotors_dampers_and_springs(algorithm, external, dtype):
    """Beside the program that takes all rows one by one."""
    d, s = two_robots(("revolute", "prismatic"))
    model = with_physics(build_model(d))
    kind = kind_of(model)
    given = [x[None].astype(dtype) for x in (s.q, s.qd, s.qdd, *((s.f_ext.ravel(),) if external else ()))]
    joined, single = (lane_program(algorithm, Variant(k, external))(model, *given)[0] for k in (kind, kind.rows))
    assert joined.dtype == dtype
    assert worst(joined, single) < (1e-12 if dtype is np.float64 else 1e-4)


def test_derivatives_of_the_program():
    d, s = two_robots(("revolute", "prismatic"))
    model = build_model(d)
    direction = np.random.default_rng(0).standard_normal(model.nv)

    def along(schedule):
        def power(qd, qdd):
            return direction @ kt.inverse_dynamics(model, s.q, qd, qdd, schedule=schedule)

        return jax.jit(jax.grad(power, (0, 1)))(s.qd, s.qdd)

    for a, b in zip(along("lanes"), along("levels"), strict=True):
        assert worst(a, b) < 1e-12


def test_specialised_programs_have_the_same_bits():
    d, s = two_robots(("revolute",))
    model = build_model(d)
    own = kt.specialize(model)
    for function, x in ((kt.inverse_dynamics, s.qdd), (kt.forward_dynamics, s.tau)):
        np.testing.assert_array_equal(function(own, s.q, s.qd, x), function(model, s.q, s.qd, x))


@pytest.mark.parametrize("packed", [False, True])
def test_matrices_over_pairs(packed):
    """Entries of the rows of two roots, with rotors; beside the program that takes all rows one by one, bit by bit."""
    d, s = two_robots(("revolute", "prismatic"))
    model = build_model(d)
    armature = np.linspace(0.1, 0.5, model.nv)
    for first in model.structure.quaternion_joints[:, 0]:
        armature[first + 3 : first + 6] = 0.3
    model = model.replace(armature=armature)
    kind = kind_of(model)
    program, plain = (lane_program(CRBA, Variant(k, packed=packed)) for k in (kind, kind.rows))
    assert "roots" in program.program.name
    H = program(model, s.q[None])[0]
    np.testing.assert_array_equal(H, plain(model, s.q[None])[0])
    if not packed:
        assert worst(H.reshape(model.nv, -1), dense.crba(d, s.q) + np.diag(armature)) < 1e-12


WHOLES = [
    wholes.POTENTIAL_WITH_SPRINGS,
    wholes.KINETIC_ENERGY,
    wholes.CENTROIDAL_MOMENTUM,
    wholes.CENTROIDAL_MATRIX,
]


@pytest.mark.parametrize("algorithm", WHOLES, ids=lambda x: x.name)
def test_quantities_of_the_whole_robot(algorithm):
    """Sums over rows, and columns of matrices, beside the program that takes all rows one by one."""
    d, s = two_robots(("revolute", "prismatic"))
    model = with_physics(build_model(d))
    assert "roots" in lane_program_of(algorithm, model).program.name
    kind = kind_of(model)
    given = [{"q": s.q, "qd": s.qd}[n][None] for n in algorithm.inputs]
    joined, single = (lane_program(algorithm, Variant(k))(model, *given)[0] for k in (kind, kind.rows))
    assert worst(joined, single) < 1e-14


@pytest.mark.parametrize("way", range(3))
def test_jacobians(way):
    d, s = two_robots(("revolute",))
    model = build_model(d)
    programs = jacobian_lanes(False, True, way), jacobian_lanes(True, False, way)
    for body in (0, 3, N - 1):
        joined, single = (p(model, s.q[None], about=(body,))[0] for p in programs)
        assert worst(joined, single) < 1e-13


def test_a_long_arm_on_a_floating_base():
    """From 100 levels on rows are held by quaternions; articulated bodies are turned by matrices there, too."""
    d = generate.random_tree(np.random.default_rng(2), 101, "revolute", "chain", spread=0.1)
    model = build_model(replace(d, joints=("free", *d.joints[1:])))
    assert kind_of(model).deep
    assert kind_of(model).roots
    q, qd = kt.random_state(model, 0, (5,))
    qdd = np.random.default_rng(1).standard_normal(qd.shape)
    tau = kt.inverse_dynamics(model, q, qd, qdd)
    np.testing.assert_allclose(kt.forward_dynamics(model, q, qd, tau), qdd, rtol=0, atol=1e-7 * np.abs(qdd).max())
