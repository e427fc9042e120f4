"""rootfix and leaffix under every schedule against plain Python loops, and layouts that visit every row once."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.tree import InwardRecursion, MissingProperty, OutwardRecursion, Tree, layout, leaffix, rootfix


def chain(n):
    return np.arange(-1, n - 1)


def caterpillar(n):
    """A spine whose every row carries a leg."""
    spine = n // 2
    return np.concatenate([chain(spine), np.arange(n - spine) % spine])


def broom_of_brooms(n, rng):
    """Long paths that hang from the middle of long paths."""
    parent, start = [-1], 0
    while len(parent) < n:
        hook = int(rng.integers(start, len(parent)))
        start = len(parent)
        parent.append(hook)
        parent.extend(range(start, start + 150))
    return np.array(parent[:n])


def shapes():
    rng = np.random.default_rng(0)
    return {
        "one": np.array([-1]),
        "chain": chain(500),
        "star": np.concatenate([[-1], np.zeros(300, int)]),
        "forest": np.full(70, -1),
        "binary": (np.arange(1, 400) - 1) // 2 - (np.arange(1, 400) == 1),
        "random": np.array([-1] + [int(rng.integers(-1, i)) for i in range(1, 300)]),
        "caterpillar": caterpillar(600),
        "brooms": broom_of_brooms(1000, rng),
    }


SHAPES = shapes()
SCHEDULES = ("sequential", "levels", "paths")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_layout_visits_every_row_once_and_after_its_parent(shape, schedule):
    tree = Tree(SHAPES[shape])
    laid = layout(tree, schedule)
    assert sorted(laid.position_of) == sorted(set(laid.position_of))
    assert laid.position_of.min() >= 1
    np.testing.assert_array_equal(laid.row_at[laid.position_of], np.arange(tree.n))
    visited = np.zeros(laid.positions, bool)
    visited[0] = True
    for grid in laid.grids:
        count, steps, _ = grid.shape
        cells = np.arange(grid.valid.size).reshape(grid.shape) + grid.offset
        for k in range(count):
            assert visited[grid.source[k][grid.valid[k, 0]]].all()  # a lane starts from a row of an earlier grid
            linked = grid.rank[k] > 0
            for lane in np.flatnonzero(linked & grid.valid[k, 0]):  # or goes on where the lane before it ends
                assert tree.parent[laid.row_at[cells[k, 0, lane]]] == laid.row_at[cells[k, steps - 1, lane - 1]]
            for step in range(1, steps):
                inside = grid.valid[k, step]
                parents = tree.parent[laid.row_at[cells[k, step][inside]]]
                np.testing.assert_array_equal(parents, laid.row_at[cells[k, step - 1][inside]])
            visited[cells[k][grid.valid[k]]] = True
    assert visited.sum() == tree.n + 1


def matmul(a, b):
    return jnp.einsum("...ij,...jk->...ik", a, b)


PRODUCT = OutwardRecursion(  # does not commute
    step=lambda row, state: matmul(state, row),
    element=lambda row: row,
    combine=matmul,
    act=lambda e, state: matmul(state, e),
    identity=lambda e: jnp.broadcast_to(jnp.eye(2, dtype=e.dtype), e.shape),
    inverse=jnp.linalg.inv,
    name="product of matrices",
)
AFFINE = InwardRecursion(  # what the children bring, plus one's own, turned: does not commute
    step=lambda row, state: jnp.einsum("...ij,...j->...i", row[0], row[1] + state),
    element=lambda row, state: (row[0], jnp.einsum("...ij,...j->...i", row[0], row[1] + state)),
    combine=lambda inner, outer: (
        matmul(inner[0], outer[0]),
        inner[1] + jnp.einsum("...ij,...j->...i", inner[0], outer[1]),
    ),
    act=lambda e, state: e[1] + jnp.einsum("...ij,...j->...i", e[0], state),
    identity=lambda e: (jnp.broadcast_to(jnp.eye(2, dtype=e[0].dtype), e[0].shape), jnp.zeros_like(e[1])),
    name="affine map",
)
SUM = InwardRecursion(
    step=lambda row, state: row + state, name="sum",
    element=lambda row, state: row + state, combine=lambda a, b: a + b, act=lambda e, state: e + state,
    identity=jnp.zeros_like,
)  # fmt: skip


def both(fix, tree, op, rows, start, schedule):
    """With a row's own share and without, in one program: operation by operation it takes four times as long."""
    ways = [partial(fix, tree, op, schedule=schedule, exclusive=exclusive) for exclusive in (False, True)]
    return jax.jit(lambda *data: [way(*data) for way in ways])(rows, start)


def turns(rng, n):
    angle = rng.uniform(-np.pi, np.pi, n)
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, 0.9 * s], -1), np.stack([-s / 0.9, c], -1)], -2)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rootfix_of_a_product_that_does_not_commute(shape, schedule):
    tree, rng = Tree(SHAPES[shape]), np.random.default_rng(1)
    rows = turns(rng, tree.n)
    expected, above = np.empty_like(rows), np.empty_like(rows)
    for i, p in enumerate(tree.parent):
        above[i] = expected[p] if p >= 0 else np.eye(2)
        expected[i] = above[i] @ rows[i]
    inclusive, exclusive = both(rootfix, tree, PRODUCT, rows, jnp.eye(2), schedule)
    np.testing.assert_allclose(inclusive, expected, atol=1e-10)
    np.testing.assert_allclose(exclusive, above, atol=1e-10)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_leaffix_of_an_affine_map(shape, schedule):
    tree, rng = Tree(SHAPES[shape]), np.random.default_rng(2)
    A, own = 0.7 * turns(rng, tree.n), rng.normal(size=(tree.n, 2))
    into, out = np.zeros((tree.n, 2)), np.zeros((tree.n, 2))
    for i in reversed(range(tree.n)):
        out[i] = A[i] @ (own[i] + into[i])
        if tree.parent[i] >= 0:
            into[tree.parent[i]] += out[i]
    inclusive, exclusive = both(leaffix, tree, AFFINE, (A, own), jnp.zeros(2), schedule)
    np.testing.assert_allclose(inclusive, out, atol=1e-11)
    np.testing.assert_allclose(exclusive, into, atol=1e-11)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_leaffix_of_a_sum_counts_the_subtree(schedule):
    for parent in SHAPES.values():
        tree = Tree(parent)
        sizes = jax.jit(partial(leaffix, tree, SUM, schedule=schedule))(np.ones((tree.n, 3)), jnp.zeros(3))
        np.testing.assert_array_equal(sizes[:, 1], tree.subtree_size)


def test_a_schedule_refuses_an_operator_that_lacks_what_it_needs():
    tree, rows = Tree(chain(300)), np.ones((300, 2))
    plain = OutwardRecursion(step=lambda row, state: row + state, name="plain steps")
    np.testing.assert_allclose(rootfix(tree, plain, rows, jnp.zeros(2), schedule="levels")[-1], 300)
    with pytest.raises(MissingProperty, match=r"paths.*combine.*plain steps"):
        rootfix(tree, plain, rows, jnp.zeros(2), schedule="paths")
    with pytest.raises(ValueError, match="unknown schedule 'diagonal'"):
        rootfix(tree, plain, rows, jnp.zeros(2), schedule="diagonal")
