"""Derivatives of lane programs against JAX's own of the XLA body: both modes, first and second order."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.closed_form.rnea import SlopeVariant, program
from kinetree.dynamics.schedules.tuning import MATRICES_MIN_DIRECTIONS as MIN_DIRECTIONS
from kinetree.lanes import Lane, Loop, Program, Slots, xla
from kinetree.lanes.program.derivative import adjoint_program, backward_memory, tangent_program
from kinetree.lanes.target import compiled
from tests.build import build_model
from tests.dynamics.programs import aba_lanes, rnea_lanes
from tests.reference import generate
from tests.second import few, in_turn

FUNCTIONS = {"inverse": kt.inverse_dynamics, "forward": kt.forward_dynamics}


@pytest.fixture(scope="module")
def mixed():
    """A small tree with a free base, a ball and screws."""
    return build_model(
        generate.random_tree(np.random.default_rng(3), 5, ["free", "revolute", "spherical", "prismatic", "helical"])
    )


def state(model, batch=()):
    q, qd = kt.random_state(model, 0, batch)
    u = np.random.default_rng(0).uniform(-1, 1, qd.shape)
    return jnp.asarray(q), jnp.asarray(qd), jnp.asarray(u)


def close(ours, theirs, bound=1e-12):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= bound * max(1.0, np.abs(b).max())


@in_turn(("name", "kind"), FUNCTIONS, ["arm", "mixed"])
def test_jacobians(name, kind, mixed):
    """In closed form (dynamics/closed_form/rules.py), in both modes."""
    model = kt.auto_tree(4, 1.5, 0.3).replace(armature=0.1) if kind == "arm" else mixed
    arguments = state(model)

    def jacobian(schedule, mode):
        return jax.jit(mode(lambda *a: FUNCTIONS[name](model, *a, schedule=schedule), (0, 1, 2)))(*arguments)

    theirs = jacobian("sequential", jax.jacfwd)
    for mode in (jax.jacfwd, jax.jacrev):
        close(jacobian("lanes", mode), theirs)


def test_few_directions_and_many_agree(mixed):
    """Many go by matrices in closed form, few by runs of the derived program."""
    q, qd, u = state(mixed)
    moved = jnp.asarray(np.random.default_rng(2).uniform(-1, 1, (MIN_DIRECTIONS, *q.shape)))

    def along(moved):
        return jax.jvp(lambda q: kt.inverse_dynamics(mixed, q, qd, u), (q,), (moved,))[1]

    def back(owed):
        return jax.vjp(lambda q: kt.inverse_dynamics(mixed, q, qd, u), q)[1](owed)[0]

    for function, given in ((along, moved), (back, moved[:, : mixed.nv])):
        text = [str(jax.make_jaxpr(jax.vmap(function))(x)) for x in (given, given[1:])]
        assert ["dot_general" in x for x in text] == [True, False]
        close(jax.vmap(function)(given)[1:], jax.vmap(function)(given[1:]))


def test_external_forces_have_gradients(mixed):
    q, qd, u = state(mixed)
    f = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (mixed.n_bodies, 6)))

    def loss(f, schedule):
        return (kt.inverse_dynamics(mixed, q, qd, u, f, schedule=schedule) ** 2).sum()

    slope = jax.jit(jax.grad(loss), static_argnums=1)
    close(slope(f, "lanes"), slope(f, "sequential"))


@few("name", FUNCTIONS, ["forward"])
def test_parameters_have_gradients(name):
    model = kt.auto_tree(4, 1.5, 0.3)
    arguments = state(model, (5,))

    def loss(model, schedule):
        return (FUNCTIONS[name](model, *arguments, schedule=schedule) ** 2).sum()

    @partial(jax.jit, static_argnums=1)
    def both_modes(model, schedule):
        direction = jax.tree.map(jnp.ones_like, model)
        return jax.grad(loss)(model, schedule), jax.jvp(lambda m: loss(m, schedule), (model,), (direction,))[1]

    known = jax.tree.map(jnp.asarray, model)
    close(both_modes(known, "lanes"), both_modes(known, "sequential"))


def test_second_derivatives_in_every_order_of_modes():
    model = kt.auto_tree(2, 1, 0.3)
    q, qd, u = state(model)

    def energy_like(schedule):
        return lambda q: (kt.inverse_dynamics(model, q, qd, u, schedule=schedule) ** 2).sum()

    orders = list(itertools.product((jax.jacfwd, jax.jacrev), repeat=2))
    theirs = jax.jit(jax.jacfwd(jax.jacfwd(energy_like("sequential"))))(q)
    for ours in jax.jit(lambda q: [outer(inner(energy_like("lanes")))(q) for outer, inner in orders])(q):
        close(ours, theirs)


def test_batches_of_gradients_are_lanes():
    model = kt.auto_tree(4, 1.5, 0.3)
    q, qd, u = state(model, (3, 2))

    def loss(q, qd, u):
        return (kt.inverse_dynamics(model, q, qd, u) ** 2).sum()

    at_once = jax.grad(lambda q: loss(q, qd, u))(q)
    one_by_one = jax.vmap(jax.vmap(jax.grad(loss)))(q, qd, u)
    close(at_once, one_by_one)
    text = jax.jit(jax.vmap(jax.vmap(jax.grad(loss)))).lower(q, qd, u).as_text()
    assert "stablehlo.custom_call" in text  # native code, not the XLA body
    assert "stablehlo.while" not in text


def test_gradient_inside_a_loop_and_jit():
    model = kt.auto_tree(3, 1, 0.3)
    q, qd, u = state(model)

    def rollout(u, schedule):
        def step(carry, _):
            q, qd = carry
            qdd = kt.forward_dynamics(model, q, qd, u, schedule=schedule)
            return (q + 0.01 * qd, qd + 0.01 * qdd), None

        return jax.lax.scan(step, (q, qd), None, length=5)[0][0].sum()

    close(jax.jit(jax.grad(lambda u: rollout(u, "lanes")))(u), jax.jit(jax.grad(lambda u: rollout(u, "sequential")))(u))


@in_turn(("algorithm", "quaternions"), [rnea_lanes, aba_lanes], [False, True])
def test_derived_programs_compile(algorithm, quaternions):
    program = algorithm(quaternions, True).program
    for moving in (False, True):
        assert compiled(tangent_program(program, moving), "float32") is not None
        assert compiled(adjoint_program(program, moving), "float32") is not None


def rnea_derivatives(quaternions, external):
    return program(SlopeVariant(quaternions, external, coupled=False))


def named_slots(places, row):
    return {row[s.column] + s.offset + i for s in places for i in range(s.count)}


@pytest.mark.parametrize(
    ("algorithm", "quaternions"),
    [*itertools.product([rnea_lanes, aba_lanes], [False, True]), *itertools.product([rnea_derivatives], [False, True])],
)
def test_programs_that_say_so_are_reversible(algorithm, quaternions, mixed):
    """No turn changes a slot that an earlier turn has read."""
    model = mixed if quaternions else kt.auto_tree(6, 1.5, 0.3)
    bound = algorithm(quaternions, True)
    read = set()
    for loop, (table, _) in zip(bound.program.loops, bound.turns(bound.shape(model)), strict=True):
        for row in table:
            now = named_slots(loop.reads, row)
            assert not named_slots(loop.writes + loop.adds, row) & (read | now)
            read |= now


def test_steps_that_write_a_number_have_gradients_in_xla_too():
    """XLA's body sees lanes: a number that a step writes has none of their axes."""
    places = {"inputs": (Lane(0, 0),), "writes": (Slots(0, 0, jax.tree.structure(0.0)),)}
    first = Loop(lambda _, x, __: ((1.0,), (), ()), 1, jax.tree.structure(()), **places)
    second = Loop(
        lambda _, x, seen: ((), (), (x[0] ** 2 + seen[0],)),
        1,
        jax.tree.structure(()),
        reads=places["writes"],
        inputs=places["inputs"],
        outputs=(Lane(0, 0),),
    )
    program = Program("written", (first, second), 1, 1, reversible=True)
    known = (np.zeros((1, 1), np.int32),) * 2, (np.zeros((1, 0)),) * 2
    memory = backward_memory(program, 1, (1,), *known, False)
    x = np.array([[2.0], [3.0]])
    given = memory.slots, (1,), memory.tables, memory.constants, (x, np.ones_like(x))
    np.testing.assert_array_equal(xla.run(adjoint_program(program, False), *given)[0], 2 * x)
