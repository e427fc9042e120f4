"""Constraints on trees that are walked as a whole: the same numbers as MuJoCo's, and the equation of motion."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jax import tree

import kinetree as kt
from kinetree.constrain import choose, constrained, problem, two_lanes
from kinetree.constrain.crowd import near_pairs
from kinetree.constrain.weights import inverse_weights
from kinetree.dynamics.algorithms.laden import (
    BIAS,
    FACTORS,
    INERTIA,
    LADEN,
    MOVED,
    PUSH,
    PUSHED,
    RESISTANCE,
    inputs_of,
)
from kinetree.dynamics.algorithms.row_motion import FORCES, ON_JOINTS, ROW_VELOCITIES, VELOCITIES
from kinetree.dynamics.schedules.run import run
from kinetree.model import ModelError, world
from kinetree.spatial import Force, Vec3

LINK = 0.1  # metres
BALL = [1.0, 0, 0, 0, 0.01, 0.01, 0.01, 0, 0, 0]  # mass, moment, inertia


def rope(n):
    """Capsules on hinges about y and z in turn, along x, lying on a floor; they touch the floor alone."""
    x = np.tile(np.eye(6), (n, 1, 1))
    x[1:, 4, 2], x[1:, 5, 1] = LINK, -LINK
    x[0, 3, 1], x[0, 4, 0] = 0.0199, -0.0199
    mass, c = 0.05, LINK / 2
    across = mass * (LINK**2 / 12 + c * c)
    inertia = np.tile([mass, mass * c, 0, 0, 1e-5, across, across, 0, 0, 0], (n, 1))
    model = kt.Model.from_arrays(np.arange(-1, n - 1), ["Ry", "Rz"] * (n // 2), x, inertia)
    bits = {"contype": 0, "conaffinity": 0, "orientation": (0.5**0.5, 0, 0.5**0.5, 0)}
    shapes = [kt.Shape("capsule", (0.02, c), k, position=(c, 0, 0), **bits) for k in range(n)]
    return kt.with_ground(kt.with_shapes(model, shapes))


@pytest.fixture
def all_huge(monkeypatch):
    """Trees of a few rows count as huge."""
    for module in (problem, constrained, choose, two_lanes):
        monkeypatch.setattr(module, "MAX_ROWS", 3)


NET = """<mujoco><default><geom type="capsule" size="0.01" contype="0"/></default><worldbody>
  <geom type="plane" size="0 0 1" pos="0 0 0.895" contype="1" conaffinity="0"/>
  <body name="a" pos="0 0 1"><joint type="ball" limited="true" range="0 0.05"/><geom fromto="0 0 0 0 0 -0.1"/>
    <body name="b" pos="0 0 -0.1"><joint type="ball"/><geom fromto="0 0 0 0.1 0 0"/></body></body>
  <body name="c" pos="0.1 0 1"><joint type="ball"/><geom fromto="0 0 0 0 0 -0.1"/></body></worldbody>
  <equality><connect body1="b" body2="c" anchor="0.1 0 0"/></equality></mujoco>"""


@pytest.mark.usefixtures("all_huge")
def test_loops_limits_of_balls_and_contacts_agree_with_mujoco():
    reference = mujoco.MjModel.from_xml_string(NET)
    reference.opt.tolerance = 1e-15
    data = mujoco.MjData(reference)
    data.qpos[:4] = [np.cos(0.05), np.sin(0.05), 0, 0]  # past the limit
    data.qvel[:] = 0.3 * np.random.default_rng(1).normal(size=reference.nv)
    mujoco.mj_forward(reference, data)
    found = kt.constrained_dynamics(kt.load(NET), data.qpos, data.qvel)
    assert found.contacts.active.sum() == data.ncon > 0
    for ours, theirs in ((found.qdd, data.qacc), (found.tau_constraint, data.qfrc_constraint)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * abs(theirs).max())


def test_a_rope_of_two_thousand_links_is_walked_natively():
    model = rope(2000)
    velocity = 0.01 * np.random.default_rng(2).normal(size=2000)
    found = kt.constrained_dynamics(model, kt.neutral(model), velocity)
    assert found.converged
    assert found.contacts.active.all()
    assert found.contacts.bodies.shape == (4000, 2)
    back = kt.inverse_dynamics(model, kt.neutral(model), velocity, found.qdd)  # M qdd + C = Jᵀ f
    np.testing.assert_allclose(back, found.tau_constraint, atol=1e-9 * abs(back).max())
    weights = inverse_weights(model)
    assert weights.dof.shape == (2000,)


@pytest.mark.parametrize("schedule", ["lanes", "levels"])
def test_laden_trees_solve_their_equation(schedule):
    model = kt.auto_tree(9, 1.5, 0.4)
    rng = np.random.default_rng(3)
    q = rng.uniform(-1, 1, (1, 9))
    inertia = tree.map(lambda x: np.broadcast_to(np.asarray(x), (1, 9)), model.inertia.articulated())
    bias = Force.from_array(rng.normal(size=(1, 9, 6)))
    push, resistance = rng.normal(size=(1, 9)), rng.uniform(size=(1, 9))
    found = run(LADEN, model, {"q": q, **inputs_of(push, resistance, inertia, bias)}, schedule=schedule)
    moved = np.stack([np.asarray(found[n])[0] for n in MOVED], -1)
    velocities = run(ROW_VELOCITIES, model, {"q": q, "qd": np.asarray(found["x"])}, schedule=schedule)
    np.testing.assert_allclose(moved, np.stack([np.asarray(velocities[n])[0] for n in VELOCITIES], -1), atol=1e-12)
    force = np.einsum("nij,nj->ni", np.asarray(tree.map(lambda x: x[0], inertia).array()), moved)
    force = force + np.stack([np.asarray(x)[0] for x in tree.leaves(bias)], -1)
    inputs = {"q": q, **{n: force[None, :, k] for k, n in enumerate(FORCES)}}
    felt = np.asarray(run(ON_JOINTS, model, inputs, schedule=schedule)["felt_force"])
    np.testing.assert_allclose(felt + resistance * np.asarray(found["x"]), push, atol=1e-11)
    given = {"q": q, RESISTANCE: resistance, **dict(zip(INERTIA, tree.leaves(inertia), strict=True))}
    factors = run(FACTORS, model, given, schedule=schedule)
    forces = {PUSH: push, **dict(zip(BIAS, tree.leaves(bias), strict=True))}
    again = run(PUSHED, model, {"q": q, **forces, **factors}, schedule=schedule)
    for name in ("x", *MOVED):
        np.testing.assert_allclose(again[name], found[name], rtol=1e-12, atol=1e-12)


def test_numbers_of_a_huge_model_are_operands_of_its_program():
    chain = np.arange(-1, 400)
    net = kt.Model.from_arrays(chain, ["spherical"] * 401, np.tile(np.eye(6), (401, 1, 1)), np.tile(BALL, (401, 1)))
    net = kt.with_ground(kt.with_shapes(net, [kt.Shape("sphere", 0.1, 400)]))
    state = jnp.asarray(kt.neutral(net)), jnp.zeros(net.nv)
    traced = jax.make_jaxpr(lambda q, qd: kt.constrained_dynamics(net, q, qd).qdd)(*state)
    (solve,) = (e for e in traced.eqns if e.params.get("name") == "solve_constraints")
    assert max(c.nbytes for c in solve.params["jaxpr"].consts) < 24 * net.nv  # of one number a row there are some


def scattered(n, kinds, seed=4):
    """Free bodies at random, some of which meet."""
    rng = np.random.default_rng(seed)
    model = kt.Model.from_arrays([-1] * n, ["free"] * n, np.tile(np.eye(6), (n, 1, 1)), np.tile(BALL, (n, 1)))
    sizes = {"sphere": 0.1, "capsule": (0.05, 0.1), "ellipsoid": (0.1, 0.06, 0.08)}
    shapes = [kt.Shape(kind, sizes[kind], k, contype=1 + k % 2) for k, kind in zip(range(n), kinds * n, strict=False)]
    q = np.array(kt.neutral(model)).reshape(n, 7)
    q[:, :3], q[:, 3:] = rng.uniform(-0.35, 0.35, (n, 3)) + np.array([50, -3, 7]), rng.normal(size=(n, 4))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    return model, shapes, q.reshape(-1)


def pairs_of(found):
    """The bodies that touch, and how deep, in order."""
    touch = np.asarray(found.active).reshape(-1)
    bodies = np.sort(np.broadcast_to(found.bodies, (*found.active.shape, 2)).reshape(-1, 2)[touch], 1)
    order = np.lexsort((np.asarray(found.depth).reshape(-1)[touch].round(9), *bodies.T))
    return bodies[order], np.asarray(found.depth).reshape(-1)[touch][order]


@pytest.mark.parametrize("kinds", [["sphere"], ["capsule", "sphere"]])
def test_pairs_of_a_crowd_are_those_of_a_list(monkeypatch, kinds):
    model, shapes, q = scattered(40, kinds)
    listed = kt.contacts(kt.with_shapes(model, shapes), q)
    monkeypatch.setattr(world, "MAX_LISTED", 1)
    crowd = kt.with_shapes(model, shapes)
    assert not crowd.world.scene.layout.pairs
    ours, theirs = pairs_of(kt.contacts(crowd, q)), pairs_of(listed)
    assert len(theirs[0]) > 10
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-12)
    both = kt.contacts(crowd, np.stack([q, q + 0.0]))  # a state after the other
    np.testing.assert_array_equal(both.bodies[0], both.bodies[1])


@pytest.mark.parametrize("short", [{"slots": 1}, {"room": 3}])
def test_a_crowd_says_where_its_room_does_not_do(monkeypatch, short):
    model, shapes, q = scattered(40, ["sphere"])
    monkeypatch.setattr(world, "MAX_LISTED", 1)
    near = kt.with_shapes(model, shapes).world.scene.layout.crowd
    centre = Vec3(*jnp.asarray(q.reshape(-1, 7)[:, :3].T))
    assert not near_pairs(near, centre, jnp.full(40, 0.1), jnp.zeros(40)).lost
    assert near_pairs(near._replace(**short), centre, jnp.full(40, 0.1), jnp.zeros(40)).lost


@pytest.mark.thorough
def test_a_heap_of_a_crowd_moves_as_that_of_a_list(monkeypatch):
    model, shapes, q = scattered(30, ["sphere"])
    qd = 0.1 * np.random.default_rng(5).normal(size=model.nv)
    listed = kt.constrained_dynamics(kt.with_ground(kt.with_shapes(model, shapes)), q, qd)
    monkeypatch.setattr(world, "MAX_LISTED", 1)
    found = kt.constrained_dynamics(kt.with_ground(kt.with_shapes(model, shapes)), q, qd)
    assert found.converged
    np.testing.assert_allclose(found.qdd, listed.qdd, atol=1e-10 * abs(listed.qdd).max())


def test_crowds_that_can_not_be_served_are_refused():
    model = kt.auto_tree(2000, 1.0)
    shapes = [kt.Shape("sphere", 0.1, k, condim=1 if k else 3) for k in range(2000)]
    with pytest.raises(ModelError, match="different condim"):
        kt.with_shapes(model, shapes)
    crowd = kt.with_shapes(model, [kt.Shape("sphere", 0.1, k) for k in range(2000)])
    with pytest.raises(ValueError, match="crowd of shapes"):
        kt.contact_forces(crowd, kt.initial_state(crowd))
