"""Plots: that they show what they should."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.view.shapes import ORANGE, shapes, skeleton
from tests.simulate.robots import ROBOTS, arm

pytest.importorskip("matplotlib")
from kinetree.view import plots


def test_tree_layout_puts_parents_above_their_children():
    parent = np.array([-1, 0, 0, 1, 1, 2, -1])
    x, y = plots.tree_layout(parent)
    assert (y == [0, -1, -1, -2, -2, -2, 0]).all()
    assert len(set(zip(x, y, strict=True))) == 7
    assert x[1] == (x[3] + x[4]) / 2


def test_sparsity_counts_ancestor_pairs():
    model = kt.auto_tree(15, branching=2)
    titles = [a.get_title() for a in plots.sparsity(model).axes]
    pairs = model.tree.n_ancestor_pairs
    assert titles[0].startswith(f"H: {2 * pairs - 15} numbers")
    assert f"{pairs} numbers" in titles[1]


def test_trajectory_has_a_curve_for_each_joint():
    model = arm()
    run = kt.Trajectory(np.arange(3.0), np.zeros((3, 2, 7)), np.zeros((3, 2, 7)), np.ones((3, 2, 7)))
    figure = plots.trajectory(run, model)
    assert [len(a.lines) for a in figure.axes] == [7, 7, 7]
    assert [a.get_legend() is not None for a in figure.axes] == [True, False, False], "the names are the same"
    assert figure.axes[0].lines[3].get_label() == "elbow"
    assert len(plots.energy(model, run).axes) == 2
    assert plots.tree(model).axes[0].texts[0].get_text() == "base"


def test_trajectory_without_forces_and_with_a_free_joint():
    """No panel of zeros; a legend for q and one for qd, whose columns are not the same."""
    model = kt.load(ROBOTS / "quadruped.urdf", floating_base=True)
    run = kt.Trajectory(np.arange(3.0), np.zeros((3, 19)), np.zeros((3, 18)), np.zeros((3, 18)))
    figure = plots.trajectory(run, model)
    seventh = [a.get_legend().get_texts()[6].get_text() for a in figure.axes]
    assert seventh == ["root_joint[6]", "front_left_hip"]
    assert figure.get_suptitle() == "the first 10 of 19 coordinates"


def test_shapes_come_from_the_file_or_from_the_joints():
    pytest.importorskip("trimesh")
    path = ROBOTS / "quadruped.urdf"
    model = kt.load(path, floating_base=True)
    drawn = shapes(model, path)
    assert {s.body for s in drawn} == set(range(model.n_bodies))
    torso = next(s for s in drawn if s.body == 0)
    np.testing.assert_allclose(torso.solid.extents, [0.5, 0.2, 0.12], rtol=1e-6)
    bones = skeleton(arm())
    assert len([s for s in bones if s.colour == ORANGE]) == 7, "an axis for each joint"
