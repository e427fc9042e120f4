"""Plans of huge trees on disk: they come back in the next process, and damaged ones are made anew."""

import numpy as np
import pytest

from kinetree.lanes import tuning
from kinetree.lanes.kept.cache import cache_folder
from kinetree.lanes.kept.plans import kept_plan
from kinetree.tree import Tree
from kinetree.tree.blocks import cut


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of this test's own, which is there for small trees, too."""
    monkeypatch.setenv("KINETREE_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "KEPT_PLAN_MIN_ROWS", 10)
    return tmp_path


def never():
    raise AssertionError("planned again")


def same(a, b):
    np.testing.assert_equal(a, b)
    assert type(a) is type(b)


def test_a_plan_comes_back_and_others_do_not():
    tree = Tree(np.arange(50) - 1)
    plan = kept_plan("blocks", tree.parent, (4, 8), lambda: cut(tree, 4, 8))
    same(kept_plan("blocks", tree.parent, (4, 8), never), plan)
    for name, parent, about in (
        ("stages", tree.parent, (4, 8)),
        ("blocks", tree.parent[:-1], (4, 8)),
        ("blocks", tree.parent, (4, 9)),
    ):
        with pytest.raises(AssertionError, match="planned again"):
            kept_plan(name, parent, about, never)


def test_a_damaged_plan_is_made_anew():
    tree = Tree(np.arange(50) - 1)
    plan = kept_plan("blocks", tree.parent, 0, lambda: cut(tree, 4, 8))
    (entry,) = cache_folder().iterdir()
    raw = entry.read_bytes()
    entry.write_bytes(raw[: len(raw) // 2])
    same(kept_plan("blocks", tree.parent, 0, lambda: cut(tree, 4, 8)), plan)
    same(kept_plan("blocks", tree.parent, 0, never), plan)


def test_small_trees_are_not_kept():
    kept_plan("blocks", np.arange(9) - 1, 0, lambda: "plan")
    assert not list(cache_folder().iterdir())
