"""The vector tree against plain loops over parents: construction, rootfix and leaffix, split, merge and delete."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetree.tree.scans import add
from kinetree.tree.vector_tree import VectorTree, delete, merge, split

# The example of Lynghus (2026), figure 3, and of the vtree library.
LP, RP = [0, 1, 2, 4, 6, 9], [11, 8, 3, 5, 7, 10]
PARENT = [-1, 0, 1, 1, 1, 0]


@st.composite
def parent_lists(draw, max_size=25, shuffled=True):
    n = draw(st.integers(0, max_size))
    reach = draw(st.sampled_from([1, 3, max_size]))
    parent = [draw(st.integers(max(-1, i - reach), i - 1)) for i in range(n)]
    name = draw(st.permutations(range(n))) if shuffled else list(range(n))
    out = [-1] * n
    for i, p in enumerate(parent):
        out[name[i]] = name[p] if p >= 0 else -1
    return out


@st.composite
def flagged_trees(draw):
    parent = draw(parent_lists())
    return parent, draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent)))


def ancestors(parent, i):
    """From i to its root."""
    found = []
    while i >= 0:
        found.append(i)
        i = parent[i]
    return found


def preorder(parent):
    """Siblings ascending."""
    order, stack = [], [i for i in reversed(range(len(parent))) if parent[i] < 0]
    while stack:
        order.append(stack.pop())
        stack.extend(j for j in reversed(range(len(parent))) if parent[j] == order[-1])
    return order


def data_of(n):
    return {"name": np.arange(n), "pair": np.stack([np.arange(n), -np.arange(n)], axis=1)}


# -- construction and facts --------------------------------------------------------------------------------------------


def test_the_example_of_the_thesis():
    tree = VectorTree.from_parents(PARENT)
    assert tree.lp.tolist() == LP
    assert tree.rp.tolist() == RP
    assert VectorTree(LP, RP).parents().tolist() == PARENT
    assert tree.depth().tolist() == [0, 1, 2, 2, 2, 1]
    assert tree.subtree_size().tolist() == [6, 4, 1, 1, 1, 1]


@settings(max_examples=200)
@given(parent_lists())
def test_parents_there_and_back(parent):
    tree, n = VectorTree.from_parents(parent), len(parent)
    assert tree.n == n
    assert tree.parents().tolist() == parent
    assert tree.preorder().tolist() == preorder(parent)
    assert tree.depth().tolist() == [len(ancestors(parent, i)) - 1 for i in range(n)]
    assert tree.subtree_size().tolist() == [sum(i in ancestors(parent, j) for j in range(n)) for i in range(n)]


@given(parent_lists())
def test_from_preorder_and_from_depths(parent):
    order = preorder(parent)
    new = {old: k for k, old in enumerate(order)} | {-1: -1}
    renumbered = [new[parent[old]] for old in order]
    depth = [len(ancestors(parent, i)) - 1 for i in order]
    for tree in (VectorTree.from_preorder(renumbered), VectorTree.from_preorder_depths(depth)):
        assert tree.parents().tolist() == renumbered
        assert tree.preorder().tolist() == list(range(len(parent)))


@pytest.mark.parametrize(
    ("lp", "rp", "message"),
    [
        ([0], [1, 2], "one length, got 1 and 2"),
        ([0, 0], [1, 2], "steps 0 to 3, each once"),
        ([0, 5], [1, 2], "steps 0 to 3, each once"),
        ([-1, 0], [1, 2], "steps 0 to 3, each once"),
        ([1], [0], "vertex 0 is left at step 0, before it is entered at step 1"),
        ([0, 1], [2, 3], "interval 0 to 2 of vertex 0 overlaps"),
        ([0.0], [1.0], "one-dimensional array of integers"),
    ],
)
def test_bad_tours_are_named(lp, rp, message):
    with pytest.raises(ValueError, match=message):
        VectorTree(lp, rp)


def test_bad_constructions_are_named():
    with pytest.raises(ValueError, match="cycle of 2 rows"):
        VectorTree.from_parents([1, 0])
    with pytest.raises(ValueError, match="not numbered in preorder: 3 comes before 2"):
        VectorTree.from_preorder([-1, 0, 0, 1])
    for depth in ([1], [0, 2], [0, -1]):
        with pytest.raises(ValueError, match=r"depth\[.\] = .* must be between 0 and"):
            VectorTree.from_preorder_depths(depth)


def test_a_vector_tree_can_not_be_changed():
    tree = VectorTree(LP, RP)
    with pytest.raises(AttributeError):
        tree.lp = RP
    with pytest.raises(ValueError, match="read-only"):
        tree.lp[0] = 1


# -- rootfix and leaffix -----------------------------------------------------------------------------------------------


def unit_matrices(n):
    """Upper unitriangular integer matrices: exact inverses, and a group that does not commute."""
    x = np.broadcast_to(np.eye(3, dtype=np.int64), (n, 3, 3)).copy()
    x[:, [0, 0, 1], [1, 2, 2]] = np.random.default_rng(0).integers(-9, 10, (n, 3))
    return x


def unit_inverse(x):
    strict = x - jnp.eye(3, dtype=x.dtype)
    return jnp.eye(3, dtype=x.dtype) - strict + strict @ strict


def negative(x):
    return jax.tree.map(jnp.negative, x)


TREES = {
    "empty": [],
    "one": [-1],
    "chain": list(range(-1, 20)),
    "star": [-1] + [0] * 20,
    "example": PARENT,
    "shuffled forest": [4, -1, 0, 4, -1, 1, 2, 2, 1, 0, 10 - 1],
}


@pytest.mark.parametrize("parent", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("method", ["native", "blocked", "work_efficient"])
def test_rootfix_of_a_group_that_does_not_commute(parent, method):
    tree, n = VectorTree.from_parents(parent), len(parent)
    data = unit_matrices(n)
    for exclusive in (False, True):
        options = {"exclusive": exclusive, "method": method, "block": 4}
        run = jax.jit(lambda x, options=options: tree.rootfix(jnp.matmul, unit_inverse, np.eye(3), x, **options))
        got = np.asarray(run(data))
        for i in range(n):
            wanted = np.eye(3, dtype=np.int64)
            for j in reversed(ancestors(parent, i)[exclusive:]):
                wanted = wanted @ data[j]
            np.testing.assert_array_equal(got[i], wanted)


@pytest.mark.parametrize("parent", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("method", ["blocked", "mapped"])
def test_leaffix_of_a_commutative_group(parent, method):
    tree, n = VectorTree.from_parents(parent), len(parent)
    data = data_of(n)
    zero = {"name": 0, "pair": np.zeros(2)}
    for exclusive in (False, True):
        options = {"exclusive": exclusive, "method": method, "block": 4}
        got = jax.jit(lambda x, options=options: tree.leaffix(add, negative, zero, x, **options))(data)
        got = jax.tree.map(np.asarray, got)
        for i in range(n):
            below = [j for j in range(n) if i in ancestors(parent, j)[exclusive:]]
            assert got["name"][i] == sum(below)
            assert got["pair"][i].tolist() == [sum(below), -sum(below)]


def test_sums_of_the_thesis_under_jit():
    tree = VectorTree(LP, RP)
    ones = jnp.ones(6)
    depth = jax.jit(lambda x: tree.rootfix(add, negative, 0, x, exclusive=True, method="mapped"))(ones)
    size = jax.jit(lambda x: tree.leaffix(add, negative, 0, x))(ones)
    assert depth.tolist() == tree.depth().tolist()
    assert size.tolist() == tree.subtree_size().tolist()


# -- surgery -----------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(flagged_trees())
def test_delete_hands_children_to_the_nearest_that_stays(tree_and_flags):
    parent, flags = tree_and_flags
    got, data = delete(VectorTree.from_parents(parent), data_of(len(parent)), np.array(flags, bool))
    kept = [i for i, removed in enumerate(flags) if not removed]
    assert data["name"].tolist() == kept
    assert data["pair"][:, 1].tolist() == [-i for i in kept]
    new = {old: k for k, old in enumerate(kept)}
    wanted = [next((new[j] for j in ancestors(parent, i)[1:] if j in new), -1) for i in kept]
    assert got.parents().tolist() == wanted
    # The tour of what stays is the old tour with steps left out.
    assert [kept[k] for k in got.preorder()] == [i for i in preorder(parent) if i in new]


@settings(max_examples=200)
@given(flagged_trees())
def test_split_cuts_the_edge_above_each_flag(tree_and_flags):
    parent, flags = tree_and_flags
    n = len(parent)
    got = split(VectorTree.from_parents(parent), data_of(n), np.array(flags, bool))
    owner = [next((j for j in ancestors(parent, i) if flags[j]), -1) for i in range(n)]
    assert got.cut_data["name"].tolist() == got.cut_rows.tolist()
    assert got.rest_data["name"].tolist() == got.rest_rows.tolist() == [i for i in range(n) if owner[i] < 0]

    roots = [i for i in preorder(parent) if flags[i]]
    assert len(got.cut_start) == len(roots) + 1
    for k, root in enumerate(roots):
        a, b = got.cut_start[k : k + 2]
        rows = got.cut_rows[a:b].tolist()
        assert rows == [i for i in preorder(parent) if owner[i] == root]
        assert sorted([*got.cut.lp[a:b], *got.cut.rp[a:b]]) == list(range(2 * a, 2 * b))
    check_parents(got.cut, got.cut_rows.tolist(), [-1 if flags[i] else p for i, p in enumerate(parent)])
    check_parents(got.rest, got.rest_rows.tolist(), parent)


def check_parents(tree, rows, parent):
    """Parents of a part, in the numbers of the whole."""
    assert [rows[p] if p >= 0 else -1 for p in tree.parents()] == [parent[i] for i in rows]


@settings(max_examples=200)
@given(parent_lists(), parent_lists(), st.data())
def test_merge_hangs_each_branch_last(parent, branch_parent, draw):
    tree, branches = VectorTree.from_parents(parent), VectorTree.from_parents(branch_parent)
    roots = [i for i, p in enumerate(branch_parent) if p < 0]
    n, vertices = len(parent), st.integers(-1, len(parent) - 1)
    at = draw.draw(st.lists(vertices, min_size=len(roots), max_size=len(roots)))
    got, data = merge(tree, data_of(n), branches, data_of(len(branch_parent)), at)
    wanted = parent + [p + n if p >= 0 else at[roots.index(i)] for i, p in enumerate(branch_parent)]
    assert got.parents().tolist() == wanted
    # Siblings ascending is what "last, and in their order" comes to, as branches have the higher numbers.
    assert got.preorder().tolist() == preorder(wanted)
    assert data["name"].tolist() == [*range(n), *range(len(branch_parent))]
    assert data["pair"].shape == (len(wanted), 2)


@settings(max_examples=100)
@given(flagged_trees())
def test_merge_undoes_split(tree_and_flags):
    parent, flags = tree_and_flags
    # Keep the outermost flags only: a branch can hang from the rest, not from another branch.
    flags = [flag and not any(flags[j] for j in ancestors(parent, i)[1:]) for i, flag in enumerate(flags)]
    parts = split(VectorTree.from_parents(parent), data_of(len(parent)), np.array(flags, bool))
    rest = parts.rest_rows.tolist()
    at = [rest.index(parent[i]) if parent[i] >= 0 else -1 for i in parts.cut_rows[parts.cut_start[:-1]]]
    whole, data = merge(parts.rest, parts.rest_data, parts.cut, parts.cut_data, at)
    check_parents(whole, data["name"].tolist(), parent)
    assert sorted(data["name"].tolist()) == list(range(len(parent)))


def test_surgery_keeps_jax_data_in_jax():
    tree = VectorTree(LP, RP)
    parts = split(tree, jnp.arange(6), np.arange(6) == 1)
    assert isinstance(parts.cut_data, jax.Array)
    _, data = merge(parts.rest, parts.rest_data, parts.cut, parts.cut_data, [0])
    assert isinstance(data, jax.Array)
    assert data.tolist() == [0, 5, 1, 2, 3, 4]


def test_bad_surgery_is_named():
    tree = VectorTree(LP, RP)
    with pytest.raises(ValueError, match="flags must be 6 booleans"):
        split(tree, None, [True])
    with pytest.raises(ValueError, match="flags must be 6 booleans, got int64"):
        delete(tree, None, [0, 1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="each of the 1 roots of the branches, got 2"):
        merge(tree, None, tree, None, [0, 1])
    with pytest.raises(ValueError, match="vertices below 6, or -1"):
        merge(tree, None, tree, None, [6])
