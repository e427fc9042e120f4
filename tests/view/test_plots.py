"""Plots: that they show what they should."""

import sys

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


def test_a_large_matrix_keeps_its_single_entries_in_a_small_picture():
    diagonal = np.diag(np.r_[np.zeros(98), 7.0, 3.0])
    small = plots.largest_of_blocks(diagonal, 30)  # 30, 30, 30 and 10 rows
    np.testing.assert_array_equal(small, np.diag([0, 0, 0, 7.0]))
    shown = plots.sparsity(kt.auto_tree(800, branching=2)).axes[0].images[0]
    assert len(shown.get_array()) == 400
    assert shown.get_extent() == [-0.5, 799.5, 799.5, -0.5]


def test_trajectory_has_a_curve_for_each_joint():
    model = arm()
    run = kt.Trajectory(np.arange(3.0), np.zeros((3, 2, 7)), np.zeros((3, 2, 7)), np.ones((3, 2, 7)))
    figure = run.plot(model)
    assert [len(a.lines) for a in figure.axes] == [7, 7, 7]
    assert [len(a.collections) for a in figure.axes] == [7, 7, 7], "a band for each joint of a batch"
    assert [a.get_ylabel() for a in figure.axes] == ["position (rad)", "velocity (rad/s)", "force (N m)"]
    assert not any(a.collections for a in run.plot(model, state=1).axes)
    assert figure.axes[0].lines[3].get_label() == "elbow"
    assert len(plots.energy(model, run).axes) == 2
    assert plots.tree(model).axes[0].texts[0].get_text() == "base"


def test_quaternions_and_units_stand_apart():
    """No panel of zeros; metres, angles and quaternions each have a panel; names say which part of a joint it is."""
    model = kt.load(ROBOTS / "quadruped.urdf", floating_base=True)
    run = kt.Trajectory(np.arange(3.0), np.zeros((3, 19)), np.zeros((3, 18)), np.zeros((3, 18)))
    found = {a.get_ylabel(): a for a in run.plot(model).axes}
    assert list(found) == ["position (m)", "quaternion", "position (rad)", "velocity (rad/s)", "velocity (m/s)"]
    assert [line.get_label() for line in found["quaternion"].lines] == [f"root_joint q{k}" for k in "wxyz"]
    assert [line.get_label() for line in found["velocity (m/s)"].lines] == [f"root_joint v{k}" for k in "xyz"]
    assert found["position (rad)"].get_legend().get_title().get_text() == "first 10 of 12"


def test_bands_and_medians_of_a_batch():
    q = np.linspace(-1, 1, 101)[None, :, None] * np.ones((2, 1, 1))
    run = kt.Trajectory(np.arange(2.0), q, q, q)
    axes = run.plot().axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 0, atol=1e-12)
    corners = axes.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == pytest.approx((-0.9, 0.9))


def test_runs_are_compared_and_contact_carries_the_weight():
    model = arm()
    runs = {n: kt.Trajectory(np.arange(3.0), *[np.full((3, 7), k)] * 3) for k, n in enumerate(("ours", "theirs"))}
    figure = plots.compare(runs, model, joints=["elbow"])
    assert [line.get_label() for line in figure.axes[0].lines] == ["ours", "theirs"]
    assert figure.axes[0].get_ylabel() == "elbow\n(rad)"
    assert plots.compare(runs, model).get_suptitle() == "first 6 of 7"
    assert figure.get_suptitle() == ""
    with pytest.raises(ValueError, match="no column is called 'knee'"):
        plots.compare(runs, model, joints=["knee"])
    ball = kt.Model.from_arrays([-1], "free", np.eye(6)[None], np.array([[2.0, 0, 0, 0, 0.01, 0.01, 0.01, 0, 0, 0]]))
    ball = kt.with_ground(kt.with_shapes(ball, [kt.Shape("sphere", 0.1, 0)]))
    state = kt.advance(ball, kt.initial_state(ball, [0, 0, 0.1, 1, 0, 0, 0]), substeps=500)
    run = kt.Trajectory(np.zeros(1), *(np.array(x)[None] for x in (state.q, state.qd, 0 * state.qd)))
    lines = {line.get_label(): line.get_ydata()[0] for line in plots.contact(ball, run).axes[0].lines}
    assert lines["body_0"] == pytest.approx(2 * 9.81, rel=1e-3)
    assert lines["weight"] == pytest.approx(2 * 9.81)


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


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "kinetree.view.plots")
    monkeypatch.delattr(sys.modules["kinetree.view"], "plots")
    run = kt.Trajectory(np.arange(2.0), np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1)))
    with pytest.raises(ModuleNotFoundError, match=r"kinetree\[plot\]"):
        run.plot()
