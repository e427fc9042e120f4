"""Every fact of a Tree against the plainest loop that computes it, on random trees and on the usual extremes."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetree.tree import topology
from kinetree.tree.topology import Tree

SHAPES = {
    "empty": [],
    "one": [-1],
    "two": [-1, 0],
    "two roots": [-1, -1],
    "chain": list(range(-1, 40)),
    "star": [-1] + [0] * 40,
    "all roots": [-1] * 20,
    "binary": [(i + 1) // 2 - 1 for i in range(63)],
    "caterpillar": [-1, 0] + [i - 2 if i % 2 == 0 else i - 1 for i in range(2, 41)],
    "forest of chains": [-1, -1, 0, 1, 2, 3, 4, -1, 7],
}


@st.composite
def parent_lists(draw, max_size=40):
    """Random parents; `reach` makes anything from chains (1) to random recursive trees and forests of stars."""
    n = draw(st.integers(0, max_size))
    reach = draw(st.sampled_from([1, 2, 4, max_size]))
    return [draw(st.integers(max(-1, i - reach), i - 1)) for i in range(n)]


def ancestors(parent, i):
    found = []
    while i >= 0:
        found.append(i)
        i = parent[i]
    return found


def check_facts(parent):
    tree, n = Tree(np.array(parent, int)), len(parent)
    rows = range(n)
    kappa = [ancestors(parent, i) for i in rows]
    subtree = [[j for j in rows if i in kappa[j]] for i in rows]
    children = [[j for j in rows if parent[j] == i] for i in rows]
    depth = [len(k) - 1 for k in kappa]

    assert tree.n == len(tree) == n
    assert tree.parent.tolist() == parent
    assert tree.depth.tolist() == depth
    assert tree.height == max(depth, default=-1) + 1
    assert tree.roots.tolist() == [i for i in rows if parent[i] < 0]
    assert tree.level_order.tolist() == sorted(rows, key=lambda i: depth[i])
    assert tree.level_start.tolist() == [sum(d < level for d in depth) for level in range(tree.height + 1)]
    assert tree.n_children.tolist() == [len(c) for c in children]
    assert tree.child_list.tolist() == [j for c in children for j in c]
    assert len(tree.child_start) == n + 1
    assert [tree.child_list[slice(*tree.child_start[i : i + 2])].tolist() for i in rows] == children
    assert tree.subtree_size.tolist() == [len(s) for s in subtree]

    check_tour(tree, children)
    check_paths(tree, children, [len(s) for s in subtree], kappa)

    i, j = tree.ancestor_pairs
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(i, j) for i in rows for j in kappa[i]]
    assert tree.n_ancestor_pairs == len(i) == tree.ancestor_start[-1]
    assert tree.ancestor_start.tolist() == [sum(len(k) for k in kappa[:i]) for i in range(n + 1)]


def check_tour(tree, children):
    """Walk the forest heavy child first, and compare every step."""
    enter, leave, order, clock = {}, {}, [], 0
    heavy = tree.heavy_child.tolist()
    stack = [(i, True) for i in reversed(tree.roots.tolist())]
    while stack:
        i, entering = stack.pop()
        if entering:
            enter[i] = clock
            order.append(i)
            stack.append((i, False))
            stack.extend((j, True) for j in sorted(children[i], key=lambda j, i=i: (j != heavy[i], j), reverse=True))
        else:
            leave[i] = clock
        clock += 1
    assert tree.lp.tolist() == [enter[i] for i in range(tree.n)]
    assert tree.rp.tolist() == [leave[i] for i in range(tree.n)]
    assert tree.preorder.tolist() == order
    assert [order[k] for k in tree.preorder_index] == list(range(tree.n))


def check_paths(tree, children, size, kappa):
    rows = range(tree.n)
    heavy = [min(c, key=lambda j: (-size[j], j), default=-1) for c in children]
    assert tree.heavy_child.tolist() == heavy
    paths = [tree.path_list[a:b].tolist() for a, b in zip(tree.path_start[:-1], tree.path_start[1:], strict=True)]
    assert sorted(i for path in paths for i in path) == list(rows)
    for k, path in enumerate(paths):
        assert tree.path_head[k] == path[0]
        assert [heavy[i] for i in path] == [*path[1:], -1]
        assert (tree.path_of[path] == k).all()
        inner = tree.parent[path[0]]
        assert tree.path_parent[k] == (tree.path_of[inner] if inner >= 0 else -1) < k
        light = [i for i in kappa[path[0]] if tree.parent[i] >= 0 and heavy[tree.parent[i]] != i]
        assert tree.path_rank[k] == len(light) <= np.log2(tree.n)


@pytest.mark.parametrize("parent", SHAPES.values(), ids=SHAPES.keys())
def test_facts_of_named_shapes(parent):
    check_facts(parent)


@settings(max_examples=200)
@given(parent_lists())
def test_facts_of_random_trees(parent):
    check_facts(parent)


@given(st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_tour_is_nested_and_paths_are_few(n, seed):
    rng = np.random.default_rng(seed)
    tree = Tree([int(rng.integers(-1, i)) if i else -1 for i in range(n)])
    assert sorted([*tree.lp, *tree.rp]) == list(range(2 * n))
    inner = tree.parent >= 0
    p = tree.parent[inner]
    assert (tree.lp[p] < tree.lp[inner]).all()
    assert (tree.rp[inner] < tree.rp[p]).all()
    assert 2 ** int(tree.path_rank.max()) <= n


@pytest.mark.parametrize("n", [300, 600])
def test_both_ways_to_list_ancestors_agree(n):
    parent = [max(-1, i - 1 - i % 3) for i in range(n)]
    tree = Tree(parent)
    np.testing.assert_array_equal(tree._ancestors_by_copying(), tree._ancestors_by_generation())
    np.testing.assert_array_equal(tree.ancestor_pairs[1], [j for i in range(n) for j in ancestors(parent, i)])


def test_too_many_ancestor_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(topology, "MAX_ANCESTOR_PAIRS", 100)
    assert Tree(range(-1, 12)).n_ancestor_pairs == 91
    Tree(range(-1, 12)).ancestor_pairs  # noqa: B018
    with pytest.raises(ValueError, match=r"105 ancestor pairs .* limit of 100"):
        Tree(range(-1, 13)).ancestor_pairs  # noqa: B018


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ([-1, 0, -2, 7], r"parent\[2\] = -2 is out of range"),
        ([-1, 0, 9], r"parent\[2\] = 9 is out of range: it must be -1 \(the base\) or a row below 3"),
        ([-1, 1, 2], r"parent\[1\] = 1: a row can not be its own parent"),
        ([-1, 2, 0], r"parent\[1\] = 2 comes after its child: parents must come first"),
        ([0.0, 1.0], "must hold integers, got dtype float64"),
        ([True], "must hold integers, got dtype bool"),
        ([[-1, 0]], r"one-dimensional, got shape \(1, 2\)"),
        (np.array([2**64 - 1], np.uint64), r"parent\[0\] = 18446744073709551615 is out of range"),
    ],
)
def test_bad_parents_are_named(parent, message):
    with pytest.raises(ValueError, match=message):
        Tree(parent)


def test_a_tree_is_an_immutable_value():
    given_array = np.array([-1, 0, 1])
    tree = Tree(given_array)
    given_array[2] = 0  # ours is a copy
    assert tree == Tree([-1, 0, 1]) != Tree([-1, 0, 0])
    assert hash(tree) == hash(Tree(np.array([-1, 0, 1], np.int64)))
    assert tree != "tree"
    assert len({tree, Tree([-1, 0, 1]), Tree([-1, 0])}) == 2
    assert tree.depth is tree.depth
    with pytest.raises(ValueError, match="read-only"):
        tree.depth[0] = 3
    with pytest.raises(AttributeError, match="immutable"):
        tree.parent = given_array
    with pytest.raises(AttributeError, match="immutable"):
        del tree.parent
    copy = pickle.loads(pickle.dumps(tree))
    assert copy == tree
    assert not copy.parent.flags.writeable
    assert repr(tree) == "Tree(n=3, parent=[-1, 0, 1])"


def test_every_fact_is_a_read_only_int32_array():
    tree = Tree(SHAPES["forest of chains"])
    facts = {name: getattr(tree, name) for name in dir(Tree) if not name.startswith("_") and name != "n"}
    arrays = {name: value for name, value in facts.items() if isinstance(value, np.ndarray)}
    assert len(arrays) >= 20
    other = {"ancestor_start": np.int64, "starts_path": bool}
    for name, array in arrays.items():
        assert not array.flags.writeable, name
        assert array.dtype == other.get(name, np.int32), name
