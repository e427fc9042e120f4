"""Rigid loops among soft constraints: equations of motion with both, derivatives, steps in time."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.choose import solver_for, way_of
from kinetree.constrain.native.binding import tables_of
from kinetree.constrain.native.programs import program_of
from kinetree.lanes.program.straight import slot_numbers
from tests.slopes import slopes_agree

from ..dynamics.closed import FOUR_BAR_GUESS, four_bar, grown, leg, stewart_platform


def soft_and_rigid() -> kt.Model:
    """A four-bar whose rocker lies on a floor, and whose crank has reached its limit."""
    model = kt.with_shapes(four_bar().closed, [kt.Shape("sphere", 0.1, 2, position=(0.3, 0, 0)), kt.Shape("plane")])
    lower, upper = np.full(3, -np.inf), np.full(3, np.inf)
    lower[0] = -0.6
    limits = kt.Limits(lower, upper, np.full(3, np.inf), np.full(3, np.inf))
    return model.replace(limits=limits, damping=0.1)


def test_forces_of_loops_and_of_contact_balance():
    """Inverse dynamics under the forces that are told needs no others than tau; loops stay closed."""
    model = soft_and_rigid()
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([-1.0, 0, 0]))
    tau = np.array([0.5, 0.2, -0.3])
    found = kt.constrained_dynamics(model, q, qd, tau)
    assert found.converged
    assert found.loop_forces.shape == (1, 6)
    free = model.without_loops
    np.testing.assert_allclose(kt.inverse_dynamics(free, q, qd, found.qdd), tau + found.tau_constraint, atol=1e-11)
    wrench = np.zeros((3, 6))
    wrench[2], wrench[1] = found.loop_forces[0], -found.loop_forces[0]
    left = kt.inverse_dynamics(free, q, qd, found.qdd, wrench) - tau
    rest = kt.constrained_dynamics(free, q, qd, tau, wrench)
    np.testing.assert_allclose(rest.qdd, found.qdd, atol=1e-8)  # the loop's force given, the loop itself is not missed
    np.testing.assert_allclose(rest.tau_constraint, left, atol=1e-8)
    assert np.abs(left).max() > 0.1  # contact and limit do act


def derivatives(model: kt.Model, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> None:
    """Against central differences, along motions that keep the loop closed, forward and in reverse."""
    with jax.enable_x64(True):
        along = jnp.asarray(kt.close_loops(model, q, np.array([0.4, -0.3, 0.2]))[1])

        def by_force(tau):
            found = kt.constrained_dynamics(model, jnp.asarray(q), jnp.asarray(qd), tau)
            return jnp.concatenate([found.qdd, found.tau_constraint, found.loop_forces.ravel()])

        forward, reverse = jax.jacfwd(by_force)(jnp.asarray(tau)), jax.jacrev(by_force)(jnp.asarray(tau))
        np.testing.assert_allclose(forward, reverse, atol=1e-9)
        h = 1e-5
        differences = np.stack([(by_force(tau + e) - by_force(tau - e)) / (2 * h) for e in h * np.eye(3)], 1)
        np.testing.assert_allclose(forward, differences, atol=1e-6)

        def by_state(q, qd):
            return kt.constrained_dynamics(model, q, qd, jnp.asarray(tau)).qdd

        _, slope = jax.jvp(by_state, (jnp.asarray(q), jnp.asarray(qd)), (along, jnp.zeros(3)))
        there = [kt.close_loops(model, q + s * h * np.asarray(along)) for s in (1, -1)]
        ahead = [by_state(jnp.asarray(x), jnp.asarray(qd)) for x in there]
        np.testing.assert_allclose(slope, (ahead[0] - ahead[1]) / (2 * h), atol=1e-5 * np.abs(slope).max())


def test_derivatives_are_native(monkeypatch):
    """Accelerations and forces of a loop, by state, forces and places of the loop, in both modes."""

    def refuse(*_, **__):
        raise AssertionError("loops by XLA")

    monkeypatch.setattr(sys.modules["kinetree.constrain.constrained"], "solve_constraints", refuse)
    monkeypatch.setattr(sys.modules["kinetree.dynamics.loops.forward"], "closed_answer", refuse)
    model = four_bar().closed
    q, qd = map(jnp.asarray, kt.close_loops(model, FOUR_BAR_GUESS, np.array([1.0, 0, 0])))

    def found(x):
        moved = replace(model, loops=replace(model.loops, position1=model.loops.position1 + x[9:]))
        solved = kt.constrained_dynamics(moved, q + x[:3], qd + x[3:6], x[6:9])
        plain = kt.forward_dynamics(moved, q + x[:3], qd + x[3:6], x[6:9])
        return jnp.concatenate([plain - 2 * solved.qdd, solved.tau_constraint, solved.loop_forces.ravel()])

    slopes_agree(found, jnp.zeros(12).at[6:9].set(0.3), 1e-8, 1e-12)


def test_programs_read_what_they_wrote():
    """Memory begins with what an earlier call left, which may be NaN: also where a block of rows is not full."""
    solver = solver_for(kt.load(FOLLOWING.format("0.1 0.5 0.2 0 0"), rigid_equalities=True), float, 1e-3)
    native, written = program_of(solver.variant), set()
    for loop, table in zip(native.program.loops, tables_of(native, solver.plan), strict=True):
        for row in table:
            seen = (*loop.reads, *loop.adds, *(() if loop.when is None else (loop.when,)))
            assert written.issuperset(i for place in seen for i in slot_numbers(place, row)), loop
            written.update(i for place in loop.writes for i in slot_numbers(place, row))


@pytest.mark.thorough
def test_derivatives_with_contact():
    model = soft_and_rigid()
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([-1.0, 0, 0]))
    derivatives(model, q, qd, np.array([0.5, 0.2, -0.3]))


FOLLOWING = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="crank"><joint name="a" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass="1"/>
    <body name="coupler" pos=".3 0 0"><joint name="b" axis="0 1 0"/>
      <geom type="capsule" size=".02" fromto="0 0 0 .8 0 0" mass="2" contype="0" conaffinity="0"/></body></body>
  <body name="rocker" pos=".7 0 0"><joint name="c" axis="0 1 0"/>
    <geom type="capsule" size=".02" fromto="0 0 0 .6 0 0" mass="1.5" contype="0" conaffinity="0"/></body>
</worldbody><equality><joint joint1="c" joint2="a" polycoef="{}"/></equality></mujoco>"""


@pytest.mark.thorough
def test_derivatives_with_rows_that_couple_joints():
    """A soft equality of joints beside the rigid pin: conjugate gradients within what the loop leaves free."""
    pin = kt.Loop("coupler", "rocker", [0.8, 0, 0], [0.6, 0, 0], "connect")
    model = kt.load(FOLLOWING.format("-0.8 0.5 0 0 0"), loops=[pin])
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([1.0, 0, 0]))
    derivatives(model, q, qd, np.array([0.5, 0.2, -0.3]))


@pytest.mark.thorough
def test_forces_balance_where_soft_rows_push_against_a_loop():
    """A soft connect of the two bodies that the pin joins: most of its force goes into the pin and moves nothing."""
    soft = '<connect body1="coupler" body2="rocker" anchor=".4 0 .1"/>'
    file = FOLLOWING.replace('<joint joint1="c" joint2="a" polycoef="{}"/>', soft)
    model = kt.load(file, loops=[kt.Loop("coupler", "rocker", [0.8, 0, 0], [0.6, 0, 0], "connect")])
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([1.0, 0, 0]))
    change = np.zeros((5, 3))
    change[[1, 2, 3, 4], [0, 2, 0, 1]] = -1e-5, -1e-5, 1e-4, 1e-4  # the last iterations differ from one to the next
    for tau in change + np.array([0.5, 0.2, -0.3]):
        found = kt.constrained_dynamics(model, q, qd, tau)
        needed = kt.inverse_dynamics(model, q, qd, found.qdd)
        np.testing.assert_allclose(needed, tau + found.tau_constraint, atol=1e-9 * np.abs(needed).max())


def test_equalities_of_a_file_made_rigid():
    """A joint that follows another, as a row of a loop; nothing soft is left."""
    model = kt.load(FOLLOWING.format("0.1 0.5 0.2 0 0"), rigid_equalities=True)
    assert model.world.equalities is None
    assert "rigid loops are solved with the tree" in kt.explain(model).forward_dynamics.reason
    q, qd = kt.close_loops(model, np.array([0.3, 0.2, 0.0]), np.array([1.0, 0.5, 0.0]))
    np.testing.assert_allclose(q[2], 0.1 + 0.5 * q[0] + 0.2 * q[0] ** 2, atol=1e-12)
    slope = 0.5 + 0.4 * q[0]
    np.testing.assert_allclose(qd[2], slope * qd[0], atol=1e-12)
    qdd = kt.forward_dynamics(model, q, qd, np.zeros(3))
    np.testing.assert_allclose(qdd[2], slope * qdd[0] + 0.4 * qd[0] ** 2, atol=1e-10)


def test_native_loops_as_pinocchio():
    """One loop, the same twice, so that one is redundant, and six on trees that float, each by the native program."""
    rng = np.random.default_rng(0)
    bar, (platform, there), cassie = four_bar(), stewart_platform(), leg()
    twice = bar._replace(loops=bar.loops * 2)
    for mechanism, guess in ((bar, FOUR_BAR_GUESS), (twice, FOUR_BAR_GUESS), (platform, there), (cassie, None)):
        model = mechanism.closed
        assert way_of(model).body == "native"
        q, qd = kt.close_loops(model, kt.neutral(model) if guess is None else guess, rng.standard_normal(model.nv))
        tau = rng.standard_normal(model.nv)
        expected = mechanism.accelerations(q, qd, tau)
        size = np.abs(expected).max()
        found = kt.constrained_dynamics(model, q, qd, tau)
        np.testing.assert_allclose(found.qdd, expected, atol=1e-11 * size)
        np.testing.assert_allclose(kt.forward_dynamics(model, q, qd, tau), expected, atol=1e-11 * size)
        left = kt.inverse_dynamics(model.without_loops, q, qd, found.qdd) - tau
        np.testing.assert_allclose(found.tau_constraint, left, atol=1e-10 * size)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["revolute", "prismatic", "cylindrical", "planar", "universal", "weld", "connect"])
def test_native_loops_as_the_reference(kind, monkeypatch):
    """All kinds of loops between two bodies and to the base, in steps and forces; some rows are redundant."""
    rng = np.random.default_rng(3)
    tree = grown(3, 8)
    move, qd, tau = rng.standard_normal((3, tree.model.nv))
    q = kt.integrate(tree.model, kt.neutral(tree.model), move, 1.0)
    model = tree.joined(q, [(2, 4, kind), (7, -1, kind)]).closed
    q, qd = kt.close_loops(model, q, qd)
    results = []
    for native in ("1", "0"):
        monkeypatch.setenv("KINETREE_NATIVE", native)
        solved = kt.constrained_dynamics(model, q, qd, tau)
        step = kt.advance(model, kt.initial_state(model, q, qd), dt=1e-4, integrator="Euler")
        results.append([solved.qdd, solved.tau_constraint, step.q, step.qd])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9 * max(1, np.abs(b).max()))
