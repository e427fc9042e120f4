"""Laws of rootfix and leaffix that every schedule keeps exactly, on random trees."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetree.tree import MissingProperty, Tree, leaffix, rootfix
from tests.tree.exact import FLOWS, PRIME, TURNS, eye, product, turns

SCHEDULES = ("sequential", "levels", "paths")


@st.composite
def trees(draw):
    """Chains long enough for `paths` to cut, bushes, forests, and long chains with bushes on them."""
    n, reach = draw(st.sampled_from([1, 9, 150])), draw(st.sampled_from([1, 2, 150]))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    parent = np.array([rng.integers(max(-1, i - reach), i) for i in range(n)])
    spine = draw(st.sampled_from([0, n // 2, n]))
    return Tree(np.where(np.arange(n) < spine, np.arange(-1, n - 1), parent))


def of_parents(tree, states, base):
    """What each row's parent has."""
    return np.where((tree.parent < 0)[:, None, None], base, np.asarray(states)[tree.parent])


def of_children(tree, states):
    """The sum of what each row's children have."""
    total = np.zeros_like(states)
    inner = tree.parent >= 0
    np.add.at(total, tree.parent[inner], np.asarray(states)[inner])
    return total


@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(max_examples=6)
@given(tree=trees(), seed=st.integers(0, 99))
def test_rootfix(schedule, tree, seed):
    rng = np.random.default_rng(seed)
    rows, base = turns(rng, tree.n), turns(rng, 1)[0]
    fix = jax.jit(partial(rootfix, tree, TURNS, schedule=schedule), static_argnames="exclusive")
    here, above = fix(rows, base), fix(rows, base, exclusive=True)
    np.testing.assert_array_equal(above, of_parents(tree, here, base))
    np.testing.assert_array_equal(here, TURNS.step(rows, above))
    np.testing.assert_array_equal(fix(eye(rows), base), np.broadcast_to(base, rows.shape))
    # what comes in at the base comes out in front of everything
    np.testing.assert_array_equal(here, product(base, fix(rows, jnp.eye(2, dtype=int))))


@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(max_examples=6)
@given(tree=trees(), seed=st.integers(0, 99))
def test_leaffix(schedule, tree, seed):
    rng = np.random.default_rng(seed)
    A, own = (jnp.asarray(rng.integers(PRIME, size=(tree.n, *shape))) for shape in ((2, 2), (2,)))
    nothing = jnp.zeros(2, int)
    fix = jax.jit(partial(leaffix, tree, FLOWS, like=nothing, schedule=schedule), static_argnames="exclusive")
    out, into = fix((A, own)), fix((A, own), exclusive=True)
    np.testing.assert_array_equal(np.asarray(into) % PRIME, of_children(tree, np.asarray(out)) % PRIME)
    np.testing.assert_array_equal(out, FLOWS.step((A, own), into))
    np.testing.assert_array_equal(fix((A, 0 * own)), 0)
    # with nothing done on the way, what arrives is the sum over the subtree
    total = np.array(own)
    for i in reversed(range(tree.n)):
        if tree.parent[i] >= 0:
            total[tree.parent[i]] += total[i]
    np.testing.assert_array_equal(fix((eye(A), own)), total % PRIME)


@pytest.mark.parametrize("missing", ["element", "combine", "act", "identity"])
def test_what_is_missing_is_refused_only_where_it_is_needed(missing):
    chain, bush = Tree(np.arange(-1, 299)), Tree(np.zeros(300, int) - (np.arange(300) == 0))
    rows = turns(np.random.default_rng(0), 300)
    operators: Any = (type(op)(**{**vars(op), missing: None}) for op in (TURNS, FLOWS))
    given_to = (rows, jnp.eye(2, dtype=int)), ((rows, rows[:, 0]), jnp.zeros(2, int))
    for fix, op, (data, start) in zip((rootfix, leaffix), operators, given_to, strict=True):
        with pytest.raises(MissingProperty, match=f"paths.*{op.name}"):
            fix(chain, op, data, start, schedule="paths")
        fix(chain, op, data, start, schedule="levels")
        fix(bush, op, data, start, schedule="paths")  # has no path that is worth cutting
