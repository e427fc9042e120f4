"""Huge trees by native walks, here on the CPU, against the lane programs: shapes, phases, joints, derivatives."""

import pickle
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.aba import ABA
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.matrices.crba import _OVER_STAGES as MASS_MATRIX
from kinetree.dynamics.matrices.crba import ancestor_mask
from kinetree.dynamics.schedules.choose import recorded
from kinetree.dynamics.schedules.lane_rows import ROWS
from kinetree.dynamics.schedules.run import _over_stages
from kinetree.dynamics.schedules.staged import stage_constants
from kinetree.lanes.walks.walk import Resident
from kinetree.tree import Tree
from kinetree.tree.stages import stages
from tests.build import build_model
from tests.dynamics.mixed import mixed_model
from tests.dynamics.trees import hinged, limbs
from tests.reference import generate
from tests.second import few, in_turn


@cache
def compiled(algorithm, hinges):
    """One program, as users get: operation after operation would be a hundred."""
    return jax.jit(_over_stages(algorithm, hinges, False, True))


def inverse(*given, hinges=False):
    return compiled(RNEA, hinges)(*given)["tau"]


def forward(*given):
    return compiled(ABA, False)(*given)["qdd"]


FIELDS = jax.tree.unflatten(ROWS, range(ROWS.num_leaves))

MODELS = {
    "one": lambda: kt.auto_tree(1, 1, 0.3),
    "chain": lambda: kt.auto_tree(1000, 1, 0.3),
    "binary": lambda: kt.auto_tree(500, 2, 0.3),
    "thin": lambda: kt.auto_tree(600, 1.01, 0.3),
    "twigs": lambda: kt.auto_tree(300, 1.1, 0.3),
    "trunk with limbs": lambda: hinged(limbs(300, 4, 80)),
    "forest": lambda: build_model(
        generate.random_tree(np.random.default_rng(2), 60, ("revolute", "prismatic"), "forest")
    ),
    "every joint": mixed_model,
    "chain of every joint": lambda: build_model(
        generate.random_tree(np.random.default_rng(1), 150, ("revolute", "free", "prismatic", "spherical"), "chain")
    ),
}


@cache
def made(name):
    return MODELS[name]()


@pytest.fixture(params=list(MODELS))
def model(request):
    return made(request.param)


def state(model, dtype=np.float64):
    q, qd = kt.random_state(model, 3)
    u = np.random.default_rng(4).uniform(-1, 1, qd.shape)
    return [jnp.asarray(x.astype(dtype)) for x in (q, qd, u)]


def laid_out(model, lanes):
    return jax.tree.map(jnp.asarray, stages(model.tree, lanes))


@in_turn(("model", "lanes"), MODELS, [5, 64], indirect=["model"])
def test_arrangement(model, lanes):
    """Values go where their rows are, by looking up or, where rows are in order, by turning an array around."""
    x = jnp.asarray(np.arange(model.tree.n) + 0.5)
    for stage in stages(model.tree, lanes).stages:
        arranged = np.asarray(stage.arrange(x))
        assert arranged.shape == stage.rows.shape
        np.testing.assert_array_equal(arranged[stage.rows >= 0], stage.rows[stage.rows >= 0] + 0.5)


def test_rows_in_order_are_not_looked_up():
    for n, branching in ((1000, 1), (501, 2), (37, 1)):
        assert all(s.start is not None for s in stages(kt.auto_tree(n, branching).tree, 5).stages)
    backwards = Tree([-1, 0, 0, 2, 1])
    assert any(s.start is None for s in stages(backwards, 5).stages)


@pytest.mark.parametrize("branching", [1, 1.001, 1.01, 1.1, 1.5, 2, 3])
def test_stages_are_few(branching):
    """However thin a tree is: paths hang from one another log2 n deep at most, and few levels count as one path."""
    tree = kt.auto_tree(20_000, branching).tree
    laid = stages(tree, 100, levels=4)
    assert len(laid.stages) <= 4 * np.log2(tree.n)
    rows = np.concatenate([s.rows[s.rows >= 0] for s in laid.stages])
    np.testing.assert_array_equal(np.sort(rows), np.arange(tree.n))
    assert laid.positions <= 2 * tree.n


@in_turn(("model", "lanes"), MODELS, [5, 64], 0, indirect=["model"])
def test_inverse_dynamics(model, lanes):
    q, qd, qdd = state(model)
    laid = laid_out(model, lanes)
    ours = inverse(laid, stage_constants(laid, model, q.dtype), model, q, qd, qdd)
    theirs = kt.inverse_dynamics(model, *map(np.asarray, (q, qd, qdd)), schedule="lanes")
    assert np.linalg.norm(ours - theirs) <= 1e-12 * np.linalg.norm(theirs)


@few("branching", [1, 1.01, 2], [1, 2])
def test_hinges_alone_give_the_same_without_reading_which_joints_they_are(branching):
    model = kt.auto_tree(500, branching, 0.3)
    laid, given = laid_out(model, 20), state(model)
    constants = stage_constants(laid, model, np.float64)
    any_joints, hinges = (inverse(laid, constants, model, *given, hinges=h) for h in (False, True))
    np.testing.assert_allclose(hinges, any_joints, rtol=0, atol=1e-14 * np.abs(any_joints).max())
    unread = tuple(c.at[:, np.array([FIELDS.turn, FIELDS.slide, FIELDS.armature])].set(np.nan) for c in constants)
    np.testing.assert_array_equal(inverse(laid, unread, model, *given, hinges=True), hinges)


@few(
    ("model", "lanes"),
    product(MODELS, [5, 64]),
    [("one", 5), ("binary", 64), ("trunk with limbs", 5), ("chain of every joint", 64)],
    indirect=["model"],
)
def test_mass_matrix(model, lanes):
    q = state(model)[0]
    laid = laid_out(model, lanes)
    ours = jax.jit(MASS_MATRIX)(laid, stage_constants(laid, model, q.dtype), model, q)
    theirs = kt.mass_matrix(model, np.asarray(q), schedule="lanes")
    assert np.abs(ours - theirs).max() <= 1e-13 * np.abs(theirs).max()
    related = np.asarray(ancestor_mask(model.tree))
    assert (np.asarray(ours)[~(related | related.T)] == 0).all()


@few(
    ("model", "lanes"),
    product(MODELS, [5, 64]),
    [("one", 5), ("chain", 64), ("twigs", 5), ("every joint", 64)],
    indirect=["model"],
)
def test_forward_dynamics(model, lanes):
    q, qd, tau = state(model)
    laid = laid_out(model, lanes)
    ours = forward(laid, stage_constants(laid, model, q.dtype), model, q, qd, tau)
    theirs = kt.forward_dynamics(model, *map(np.asarray, (q, qd, tau)), schedule="lanes")
    assert np.linalg.norm(ours - theirs) <= 1e-11 * np.linalg.norm(theirs)


@few("model", MODELS, ["every joint"], indirect=True)
def test_float32(model):
    q, qd, qdd = state(model, np.float32)
    laid = laid_out(model, 16)
    ours = inverse(laid, stage_constants(laid, model, q.dtype), model, q, qd, qdd)
    theirs = kt.inverse_dynamics(model, *(np.asarray(x, float) for x in (q, qd, qdd)), schedule="lanes")
    assert ours.dtype == np.float32
    assert np.linalg.norm(np.asarray(ours) - theirs) <= 1e-4 * np.linalg.norm(theirs)


def test_derivatives_and_batches():
    model = kt.auto_tree(70, 1, 0.3)
    laid = laid_out(model, 2)
    constants = stage_constants(laid, model, np.float64)
    q, qd, qdd = state(model)

    def ours(m, q):
        return inverse(laid, constants, m, q, qd, qdd)

    def theirs(m, q):
        return kt.inverse_dynamics(m, q, qd, qdd, schedule="lanes")

    weight = jnp.linspace(0, 1, 70)
    for a, b in zip(
        *(jax.tree.leaves(jax.grad(lambda m, q, f=f: weight @ f(m, q), (0, 1))(model, q)) for f in (ours, theirs)),
        strict=True,
    ):
        assert np.abs(a - b).max() <= 1e-11 * max(1, np.abs(b).max())
    many = jnp.stack([q, 2 * q, -q])
    np.testing.assert_allclose(
        jax.vmap(lambda q: ours(model, q))(many), jax.vmap(lambda q: theirs(model, q))(many), rtol=1e-11, atol=1e-8
    )


@pytest.fixture
def native_walks(monkeypatch):
    """As for large trees: `paths` of one state by native walks."""
    monkeypatch.setattr("kinetree.lanes.tuning.WALKS_MIN_ROWS", 1)


@pytest.mark.parametrize("function", [kt.inverse_dynamics, kt.forward_dynamics])
def test_as_public_functions(function, native_walks):
    """The stages are made in the first trace and serve all later ones, with the model closed over or as an argument."""
    model = kt.auto_tree(300, 1, 0.3)
    arrays = state(model)
    theirs = function(model, *map(np.asarray, arrays), schedule="lanes")

    def close(ours):
        assert np.linalg.norm(np.asarray(ours) - theirs) <= 1e-11 * np.linalg.norm(theirs)

    close(jax.jit(lambda *a: function(model, *a, schedule="paths"))(*arrays))
    close(jax.jit(lambda m, *a: function(m, *a, schedule="paths"))(model, *arrays))
    close(jax.jit(lambda m, *a: function(m, *a, schedule="paths")).lower(model, *arrays).compile()(model, *arrays))
    close(function(model, *arrays, schedule="paths"))
    close(function(model, *map(np.asarray, arrays), schedule="paths"))
    again = kt.auto_tree(300, 1, 0.3)
    close(jax.jit(lambda *a: 2 * function(again, *a, schedule="paths"))(*arrays) / 2)


@pytest.fixture
def state_by_state(monkeypatch):
    """As for huge trees: several states, one after the other."""
    monkeypatch.setattr("kinetree.lanes.tuning.WALKS_MIN_ROWS", 1)
    monkeypatch.setattr("kinetree.dynamics.schedules.tuning.STAGES_MIN_ROWS_OF_BATCH", 1)


def on_a_cart():
    """Two bodies on one row, and one that stands still."""
    joints = ["Rz", "fixed", "fixed", kt.Revolute((0, 1, 0))]
    frames = np.broadcast_to(np.eye(6), (4, 6, 6))
    body = np.array([2, 0.2, 0.4, 0.6, 1, 1.2, 1.1, 0, 0, 0.0])
    return kt.Model.from_arrays([-1, 0, -1, 1], joints, frames, np.broadcast_to(body, (4, 10)))


@pytest.mark.parametrize("name", ["every joint", "on a cart"])
def test_forces_on_bodies_and_several_states(name, state_by_state):
    """Against lanes: inverse and forward dynamics with forces, poses of all bodies, energies and momentum."""
    model = on_a_cart() if name == "on a cart" else MODELS[name]()
    q, qd = kt.random_state(model, 3, batch=(3,))
    u, f = (np.random.default_rng(4).uniform(-1, 1, s) for s in (qd.shape, (3, model.n_bodies, 6)))

    def same(function, *given):
        ways = [jax.tree.leaves(function(model, *given, schedule=s)) for s in ("paths", "lanes")]
        for ours, theirs in zip(*ways, strict=True):
            assert np.linalg.norm(ours - theirs) <= 1e-11 * np.linalg.norm(theirs)

    for function, given in (
        (kt.inverse_dynamics, (q, qd, u, f)),
        (kt.forward_dynamics, (q, qd, u, f)),
        (kt.forward_kinematics, (q,)),
        (kt.momentum, (q, qd)),
        (kt.center_of_mass, (q,)),
    ):
        with recorded() as ran:
            same(function, *given)
        assert "stages" in {choice.way for _, choice in ran}, function


@pytest.mark.parametrize("name", ["star", "star of stars", "caterpillar"])
def test_rows_with_many_children(name, state_by_state):
    """More than a level looks for: they are added up through memory."""
    rng = np.random.default_rng(5)
    parent = {
        "star": np.concatenate([[-1], np.zeros(50, np.int64)]),
        "star of stars": np.concatenate(
            [[-1], np.zeros(40, np.int64), np.repeat(np.arange(1, 41), rng.integers(0, 40, 40))]
        ),
        "caterpillar": np.concatenate([np.arange(-1, 199), np.repeat(np.arange(0, 200, 7), 12)]),
    }[name]
    model = hinged(parent)
    arrays = state(model)
    for function in (kt.inverse_dynamics, kt.forward_dynamics):
        ours, theirs = (function(model, *arrays, schedule=s) for s in ("paths", "lanes"))
        assert np.linalg.norm(ours - theirs) <= 1e-11 * np.linalg.norm(theirs)


@pytest.mark.parametrize("lanes", [1, 7, 1000])
def test_every_row_has_one_cell_after_its_parent(model, lanes):
    laid = stages(model.tree, lanes)
    cells = np.concatenate([s.rows.reshape(-1) for s in laid.stages])
    np.testing.assert_array_equal(np.sort(cells[cells >= 0]), np.arange(model.tree.n))
    np.testing.assert_array_equal(cells[laid.position_of - 1], np.arange(model.tree.n))
    stage_of = np.repeat(np.arange(len(laid.stages)), [s.rows.size for s in laid.stages])[laid.position_of - 1]
    parent = model.tree.parent
    above = np.where(parent >= 0, stage_of[np.maximum(parent, 0)], -1)
    assert (above <= stage_of).all()
    for k, stage in enumerate(laid.stages):
        if stage.chained:
            assert (above[stage.rows[0]] == k - 1).all()
            for kids in laid.stages[k - 1].children:
                has = kids >= 0
                np.testing.assert_array_equal(parent[stage.rows[0][kids[has]]], laid.stages[k - 1].rows[0][has])


@pytest.mark.parametrize("function", [kt.inverse_dynamics, kt.forward_dynamics])
def test_programs_know_the_constants_of_a_huge_tree_by_their_address(monkeypatch, function):
    monkeypatch.setattr("kinetree.dynamics.schedules.tuning.RESIDENT_MIN_NUMBERS", 1)
    model = kt.auto_tree(1100, 1, 0.3)
    q, qd, u = state(model)
    wanted = function(model, q, qd, u, schedule="paths")
    call = jax.jit(partial(lambda model, q, qd, u: function(model, q, qd, u, schedule="paths"), model))
    assert max(map(len, call.lower(q, qd, u).as_text().splitlines())) < 8 * 20 * model.nv  # bytes of the constants
    np.testing.assert_allclose(call(q, qd, u), wanted, rtol=1e-12, atol=1e-12 * abs(wanted).max())
    with pytest.raises(TypeError, match=r"jax\.export"):
        pickle.dumps(Resident(q))
