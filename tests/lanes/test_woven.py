"""Programs whose loops are woven into one: the same bits from less memory."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Program, Slots, run, weave
from kinetree.lanes.cpu.compiled import CompiledProgram
from tests.dynamics.forests import forest
from tests.dynamics.mixed import mixed_model
from tests.dynamics.programs import aba_lanes, rnea_lanes

MODELS = {
    "one": lambda: kt.auto_tree(1, 1, 0.3),
    "chain": lambda: kt.auto_tree(12, 1, 0.3),
    "binary": lambda: kt.auto_tree(31, 2, 0.3),
    "every joint": mixed_model,
    "forest": lambda: forest().model,
}
ALGORITHMS = {
    "rnea": rnea_lanes,
    "aba": aba_lanes,
    "aba again": lambda *kinds: aba_lanes(*kinds, again=True),
}


def problem(model, algorithm, external=False):
    """What `run` is given, for 21 states."""
    bound = ALGORITHMS[algorithm](model.structure.has_quaternions, external)
    q, qd = kt.random_state(model, 0, (21,))
    rng = np.random.default_rng(1)
    extra = (rng.normal(size=(21, 6 * model.n_bodies)),) if external else ()
    tables = tuple(table for table, _ in bound.turns(model.structure))
    slots = bound.memory.size * (model.nv + 1)
    constants = bound.constants(model, np.dtype(np.float64))
    return bound.program, slots, (model.nv,), tables, constants, (q, qd, rng.uniform(-1, 1, qd.shape), *extra)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("model", MODELS)
def test_the_same_bits(model, algorithm, external):
    program, slots, widths, tables, constants, inputs = problem(MODELS[model](), algorithm, external)
    woven = weave(program, tables)
    assert woven.slots < slots
    expected = CompiledProgram(program, "float64")(slots, widths, tables, constants, inputs)[0]
    ours = CompiledProgram(woven.program, "float64")(woven.slots, widths, woven.tables, constants, inputs)[0]
    np.testing.assert_array_equal(ours, expected)
    # and inside a compiled function, where XLA calls it
    inside = jax.jit(lambda *x: run(program, slots, widths, tables, constants, x, woven)[0])(*map(jnp.asarray, inputs))
    np.testing.assert_array_equal(np.asarray(inside), expected)


def test_computing_again_gives_the_same_bits():
    model = mixed_model()
    results = [run(*problem(model, name))[0] for name in ("aba", "aba again")]
    np.testing.assert_array_equal(*results)


def test_derivatives_of_computing_again():
    results = []
    for name in ("aba", "aba again"):
        *fixed, inputs = problem(kt.auto_tree(5, 2, 0.3), name)
        x = tuple(map(jnp.asarray, inputs))
        results.append(jax.grad(lambda *x, fixed=fixed: (run(*fixed, x)[0] ** 2).sum(), (0, 1, 2))(*x))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


def test_memory_is_that_of_the_longest_limb():
    """Inverse dynamics of a binary tree of 1023 rows keeps a path of ten rows, not a thousand."""
    program, slots, _, tables, _, _ = problem(kt.auto_tree(1023, 2, 0.3), "rnea")
    assert weave(program, tables).slots < slots / 40


def test_derivatives_of_a_woven_program():
    program, slots, widths, tables, constants, inputs = problem(kt.auto_tree(7, 2, 0.3), "rnea")
    woven = weave(program, tables)

    def tau(woven, *x):
        return run(program, slots, widths, tables, constants, x, woven)[0].sum()

    x = tuple(map(jnp.asarray, inputs))
    for ours, theirs in zip(*(jax.grad(tau, (1, 2, 3))(w, *x) for w in (woven, None)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_places_that_overlap_in_part_are_left_alone():
    program, _, _, tables, _, _ = problem(kt.auto_tree(3), "rnea")
    loop = program.loops[1]
    half = Slots(loop.reads[0].column, loop.reads[0].offset, jax.tree.structure(0.0))
    odd = dataclasses.replace(loop, reads=(*loop.reads, half))
    assert weave(Program("odd", (program.loops[0], odd, *program.loops[2:]), 3, 1), tables) is None
