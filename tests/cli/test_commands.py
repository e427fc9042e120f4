"""The commands that move, compute and draw, as somebody types them."""

import json
import runpy
import sys

import numpy as np
import pytest

import kinetree as kt
from kinetree.cli.app import run
from tests.simulate.robots import ROBOTS

ARM = str(ROBOTS / "arm7.urdf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a short run of the arm."""
    folder = tmp_path_factory.mktemp("run")
    words = ["simulate", ARM, "--time", "0.2", "--batch", "2", "--out", str(folder / "run.npz"), "--json"]
    assert run(words) == 0
    return folder


def test_python_runs_it_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["python -m kinetree", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("kinetree", run_name="__main__", alter_sys=False)
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out == f"kinetree {kt.__version__}\n"


def test_simulate_saves_a_trajectory(folder, capsys):
    trajectory = kt.Trajectory.load(folder / "run.npz")
    assert trajectory.q.shape == (21, 2, 7)
    assert trajectory.time[-1] == pytest.approx(0.2)
    limits = kt.load(ARM).limits
    assert (limits.lower <= trajectory.q[0]).all(), "a random start is within the limits, which push otherwise"
    assert (trajectory.q[0] <= limits.upper).all()
    assert (
        run(["simulate", "tree:5", "--time", "0.05", "--out", str(folder / "t.npz"), "--controller", "hold", "--json"])
        == 0
    )
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["degrees_of_freedom"] == 5
    assert facts["records"] == len(kt.Trajectory.load(folder / "t.npz"))


def test_inverse_then_forward_dynamics_give_the_accelerations_back(folder, capsys):
    start = kt.Trajectory.load(folder / "run.npz")
    np.savez(folder / "in.npz", q=start.q, qd=start.qd, qdd=np.ones_like(start.qd))
    assert run(["id", ARM, str(folder / "in.npz"), "--out", str(folder / "tau.npz")]) == 0
    assert run(["fd", ARM, str(folder / "tau.npz"), "--out", str(folder / "qdd.npz"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["largest_qdd"] == pytest.approx(1, rel=1e-6)
    with np.load(folder / "qdd.npz") as arrays:
        np.testing.assert_allclose(arrays["qdd"], 1, rtol=1e-6)


def test_id_without_accelerations_takes_the_slope_of_qd(folder):
    """A free fall needs no forces, up to the error of the slope."""
    assert (
        run(
            [
                *["simulate", ARM, "--free", "--start", "neutral", "--time", "0.2", "--rate", "1000"],
                *["--out", str(folder / "f.npz")],
            ]
        )
        == 0
    )
    assert run(["id", ARM, str(folder / "f.npz"), "--out", str(folder / "g.npz")]) == 0
    with np.load(folder / "g.npz") as arrays:
        assert np.abs(arrays["tau"][2:-2]).max() < 1e-3


@pytest.mark.parametrize("words", [["run.npz"], ["tree", ARM], ["sparsity", ARM], ["energy", ARM, "run.npz"]])
def test_plots_are_written(folder, words, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run(["plot", *words, "--out", "picture.png"]) == 0
    assert "picture.png" in capsys.readouterr().out
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate", "missing.urdf"], "missing.urdf"),
        (["simulate", "chain:3", "--integrator", "leapfrog"], "unknown integrator 'leapfrog'"),
        (["simulate", "chain:3", "--start", "there"], "unknown start"),
        (["simulate", "chain:3", "--controller", "magic"], "unknown controller"),
        (["simulate", "chain:3", "--dt", "0"], "--dt must be positive"),
        (["simulate", "chain:3", "--time", "nan"], "--time must be positive and finite"),
        (["simulate", "chain:3", "--time", "0.5", "--dt", "1"], "--time 0.5 is shorter than a step"),
        (["simulate", "chain:3", "--seed", "-1"], "--seed must not be negative"),
        (["simulate", "chain:3", "--out", "nowhere/run.npz"], "no folder nowhere"),
        (["simulate", "chain:3", "--checkpoint", "nowhere/run.ck"], "no folder nowhere"),
        (["simulate", "chain:x"], "write chain:N"),
        (["simulate", "chain:3", "--floating-base"], "--floating-base is for robot files"),
        (["id", "chain:3", "missing.npz"], "no file missing.npz"),
        (["plot", "tree"], "needs a model"),
        (["view", "missing.urdf"], "missing.urdf"),
        (["view", "chain:3", "--gif", "a.gif", "--speed", "0"], "--speed must be positive"),
        (["view", "chain:3", "--live", "--png", "a.png"], "--live is for the browser"),
        (["bench", "methods", "--links", "2", "--states", "0"], "--states must be positive"),
    ],
)
def test_errors_are_one_line_and_exit_with_1(words, message, capsys):
    assert run(words) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_debug_shows_the_traceback():
    with pytest.raises(kt.ModelError):
        run(["--debug", "simulate", "missing.urdf"])


ROWS = np.zeros((3, 7))
TIMES = np.arange(3.0)


@pytest.mark.parametrize(
    ("words", "arrays", "message"),
    [
        (["id", ARM], {"qd": ROWS}, "no q"),
        (["id", ARM], {"time": np.arange(4.0), "q": ROWS, "qd": ROWS}, "as many rows"),
        (["id", ARM], {"time": np.zeros(3), "q": ROWS, "qd": ROWS}, "time must increase"),
        (["id", ARM], {"time": TIMES, "q": np.nan + ROWS, "qd": ROWS}, "not finite"),
        (["plot", "energy", ARM], {"time": TIMES, "q": ROWS[:, :5], "qd": ROWS[:, :5]}, "the model has 7 and 7"),
        (["view", ARM], {"time": TIMES, "q": ROWS[:, :5], "qd": ROWS[:, :5]}, "the model has 7 and 7"),
        (["id", ARM], {"time": TIMES, "q": ROWS[:, :5], "qd": ROWS[:, :5]}, "the model has 7 and 7"),
        (["fd", ARM], {"q": ROWS[:, :5], "qd": ROWS[:, :5], "tau": ROWS}, "the model has 7 and 7"),
        (["plot"], {"time": np.arange(4.0), "q": ROWS, "qd": ROWS}, "its shapes do not fit"),
        (["plot"], {"time": TIMES[:0], "q": ROWS[:0], "qd": ROWS[:0]}, "holds no states"),
        (["plot"], None, "can not be read: it is not an .npz file"),
    ],
)
def test_a_wrong_trajectory_is_told_in_one_line(words, arrays, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if arrays is None:
        (tmp_path / "wrong.npz").write_text("not an archive")
    else:
        np.savez("wrong.npz", **arrays)
    assert run([*words, "wrong.npz"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_id_says_where_accelerations_came_from(folder, capsys):
    assert run(["id", ARM, str(folder / "run.npz"), "--out", str(folder / "slope.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["qdd"] == "slope of qd over records 0.01 s apart"


def test_what_is_odd_about_a_file_is_told_in_a_line(tmp_path, capsys):
    robot = tmp_path / "light.urdf"
    robot.write_text(
        '<robot name="light"><link name="base"/><link name="a"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="9"/></inertial></link><joint name="j" type="continuous">'
        '<parent link="base"/><child link="a"/></joint></robot>'
    )
    assert run(["simulate", str(robot), "--time", "0.01", "--out", str(tmp_path / "run.npz")]) == 0
    error = capsys.readouterr().err
    assert error.startswith("warning: light.urdf: no distribution of mass has the inertia of link 'a'")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["simulate", "id", "fd", "plot", "view"])
def test_help_has_an_example(command, capsys):
    assert run([command, "--help"]) == 0
    assert f"kinetree {command}" in " ".join(capsys.readouterr().out.split())
    assert run([command, "--nonsense"]) == 2


BALL = """<robot name="ball"><link name="ball"><inertial><mass value="2"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="0.1"/></geometry></collision></link></robot>"""


def test_a_robot_starts_on_the_ground_and_stays_there(tmp_path):
    robot, out = tmp_path / "ball.urdf", tmp_path / "g.npz"
    robot.write_text(BALL)
    options = ["--floating-base", "--ground", "--start", "neutral", "--time", "0.2", "--integrator", "Euler"]
    assert run(["simulate", str(robot), *options, "--out", str(out)]) == 0
    height = kt.Trajectory.load(out).q[:, 2]
    assert height[0] == pytest.approx(0.1)
    assert np.abs(height - 0.1).max() < 1e-3  # soft contact gives way a little; free, it would fall 0.2 m
    assert run(["simulate", "chain:3", "--ground"]) == 1


def test_an_mjcf_file_starts_where_it_says_and_steps_as_it_says(tmp_path, capsys):
    """As in MuJoCo; a random start is lifted out of the floor. From inside the floor a body is thrown into the air."""
    robot, out = tmp_path / "ball.xml", tmp_path / "b.npz"
    ball = '<body pos="0 0 0.1"><freejoint/><geom size="0.1"/></body>'
    robot.write_text(
        '<mujoco><option timestep="0.004" integrator="implicitfast"/>'
        f'<worldbody><geom type="plane" size="1 1 1"/>{ball}</worldbody></mujoco>'
    )
    words = ["simulate", str(robot), "--time", "0.2", "--out", str(out), "--json"]
    assert run(words) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["steps"] == 50
    saved = kt.Trajectory.load(out)
    assert saved.q[0, 2] == 0.1
    model = kt.load(robot)
    expected = kt.advance(model, kt.initial_state(model), substeps=50)
    np.testing.assert_allclose(saved.q[-1], expected.q, rtol=1e-12)
    assert run([*words, "--start", "random", "--seed", "5", "--batch", "8"]) == 0
    heights = kt.Trajectory.load(out).q[0, :, 2]
    assert heights.min() == pytest.approx(0.1)
