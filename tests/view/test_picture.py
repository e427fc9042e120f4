"""Pictures without a screen: the right pixels are drawn, in the right order, with shadows; films have all frames."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.cli.app import run as command
from kinetree.view.picture import DARK_TONES, LIGHT_TONES, Canvas, render
from tests.simulate.robots import ROBOTS

Image = pytest.importorskip("PIL.Image")


def test_the_nearer_triangle_is_seen():
    canvas = Canvas((8, 8))
    near, far = np.array([[0, 0], [8, 0], [0, 8]], float), np.array([[-1, -1], [20, -1], [-1, 20]], float)
    red, blue = np.tile([1.0, 0, 0], (3, 1)), np.tile([0, 0, 1.0], (3, 1))
    canvas.triangles(np.array([near, far]), np.array([[1.0] * 3, [2.0] * 3]), np.array([red, blue]))
    colour = canvas.colour.reshape(8, 8, 3)
    assert (colour[1, 1] == [1, 0, 0]).all()
    assert (colour[7, 7] == [0, 0, 1]).all()
    canvas.triangles(near[None], np.array([[3.0] * 3]), blue[None])  # behind both
    assert (canvas.colour.reshape(8, 8, 3)[1, 1] == [1, 0, 0]).all()


def test_a_ball_covers_its_disc_and_shades_the_floor():
    ball = kt.Model.from_arrays([-1], "free", np.eye(6)[None], np.array([[1.0, 0, 0, 0, 0.1, 0.1, 0.1, 0, 0, 0]]))
    ball = kt.with_shapes(ball, [kt.Shape("sphere", 0.5, 0)])
    picture = render(ball, size=(300, 200), pitch=0.0).astype(int)
    back = np.round(255 * np.array(LIGHT_TONES.back))
    seen = np.abs(picture - back).max(-1) > 30  # lines of the grid below are fainter
    covered, rows = seen.sum(), np.flatnonzero(seen.any(1))
    assert covered == pytest.approx(np.pi / 4 * len(rows) ** 2, rel=0.05), "a disc"
    q = np.array([0, 0, 0.6, 1.0, 0, 0, 0])
    rest = np.zeros((1, 6))
    floor = render(kt.with_ground(ball), kt.Trajectory(np.zeros(1), q[None], rest, rest), size=(300, 200)).astype(int)
    tones = [255 * (1 - LIGHT_TONES.shadow) * np.array(t) for t in (LIGHT_TONES.floor, LIGHT_TONES.floor2)]
    shaded = sum((np.abs(floor - tone).max(-1) < 3).sum() for tone in tones)
    assert shaded > 100


@pytest.mark.parametrize(("pitch", "dark"), [(0.5, False), (0.5, True), (0.0, False), (-0.5, False)])
def test_a_scene_without_a_floor_stands_on_faint_lines(pitch, dark):
    tones = DARK_TONES if dark else LIGHT_TONES
    picture = render(kt.auto_tree(3), size=(200, 120), pitch=pitch, dark=dark)
    strength = (picture[..., 0] / 255 - tones.back[0]) / (tones.floor2[0] - tones.back[0])
    lines = ((strength > 0.1) & (strength < 0.7))[:, :40]  # beside the robot
    assert not lines[:40].any() or pitch > 0, "none above the horizon"
    assert lines[80:].any() == (pitch >= 0), "none from below"
    assert lines.mean() < 0.5


def test_command_writes_pictures_films_and_pages(tmp_path, capsys):
    model = kt.load(ROBOTS / "arm7.urdf")
    q = np.linspace(0, 1, 21)[:, None] * np.ones(7)
    rates = np.zeros((21, 7))
    kt.Trajectory(np.linspace(0, 0.4, 21), q, rates, rates).save(tmp_path / "run.npz")
    files = [f"--{kind}={tmp_path / kind}.{kind}" for kind in ("png", "gif", "html")]
    assert command(["view", str(ROBOTS / "arm7.urdf"), str(tmp_path / "run.npz"), "--size", "160x120", *files]) == 0
    with Image.open(tmp_path / "gif.gif") as film:
        assert (film.n_frames, film.size) == (10, (160, 120))  # 0.4 s at 25 a second
    with Image.open(tmp_path / "png.png") as picture:
        assert np.ptp(np.asarray(picture)) > 50
    assert "KINETREE_SCENE" in (tmp_path / "html.html").read_text("utf-8")
    assert capsys.readouterr().out.count("wrote") == 3
    assert model.nv == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--gif", "x.gif"], "needs a trajectory"),
        (["--png", "x.png", "--size", "9"], "--size is width x height"),
        (["--png", "missing/x.png"], "no folder missing"),
    ],
)
def test_what_can_not_be_drawn_is_told(words, told, capsys):
    assert command(["view", str(ROBOTS / "arm7.urdf"), *words]) == 1
    assert told in capsys.readouterr().err
