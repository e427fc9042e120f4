"""How the scene is laid out: cameras, sliders, floors, states side by side, and what the page is sent."""

import json
import re
import urllib.request

import numpy as np
import pytest

import kinetree as kt
from kinetree.view.live import Live
from kinetree.view.page_text import page, standalone
from kinetree.view.scene import ShownScene, contact_forces
from kinetree.view.viewer import Viewer
from tests.simulate.robots import ROBOTS

ARM = ROBOTS / "arm7.urdf"


def still(model: kt.Model, q: np.ndarray) -> kt.Trajectory:
    """A run through these configurations, (records, *batch, nq)."""
    rates = np.zeros((*q.shape[:-1], model.nv))
    return kt.Trajectory(0.1 * np.arange(len(q)), q, rates, rates)


@pytest.mark.parametrize(("n", "length"), [(1, 1.0), (20, 1.0), (1000, 1000.0)])
def test_the_camera_frames_all_of_it(n, length):
    """Also a chain of a million metres."""
    scaled = np.full(n, length)
    model = kt.auto_tree(n, skew=np.pi / 2)
    model = kt.Model.from_arrays(
        model.parent, "Rz", _moved(scaled), np.tile([1.0, 0.5, 0, 0, 1, 1, 1, 0, 0, 0], (n, 1))
    )
    scene = ShownScene(model)
    points = scene.positions(scene.q[0, 0])
    assert (np.abs(points - scene.camera.centre) <= 1.0001 * scene.camera.half + 1e-9).all()
    assert scene.camera.radius < 2 * np.linalg.norm(np.ptp(points, axis=0)) + 1


def _moved(x: np.ndarray) -> np.ndarray:
    """Plücker matrices of steps along x."""
    X = np.tile(np.eye(6), (len(x), 1, 1))
    X[:, 4, 2], X[:, 5, 1] = x, -x
    return X


def test_states_of_a_batch_stand_side_by_side():
    model = kt.load(ARM)
    q = np.random.default_rng(0).normal(size=(3, 9, 7))
    scene = ShownScene(model, still(model, q))
    place = scene.frames(1, 1)[0][: 9 * 9 * 8].reshape(9, 9, 8)[:, :, :3]
    plain = kt.forward_kinematics(model, q[1]).position
    np.testing.assert_allclose(place[:, :-1] - scene.offsets[:, None], plain, atol=1e-5)
    apart = np.linalg.norm(scene.offsets[:, None] - scene.offsets, axis=-1) + 1e3 * np.eye(9)
    assert apart.min() > np.ptp(plain[..., :2].reshape(-1, 2), axis=0).max()


def test_floors_come_from_the_world():
    model = kt.load(ROBOTS / "quadruped.urdf", floating_base=True, ground=True)
    (floor,) = ShownScene(model).planes
    np.testing.assert_allclose(floor.normal, [0, 0, 1])
    assert ShownScene(kt.load(ARM)).planes == []
    half = np.sqrt(0.5)
    tilted = kt.with_shapes(kt.auto_tree(1), [kt.Shape("plane", position=(0, 0, 2), orientation=(half, half, 0, 0))])
    (wall,) = ShownScene(tilted).planes
    np.testing.assert_allclose(wall.normal, [0, -1, 0], atol=1e-12)
    np.testing.assert_allclose(wall.position, [0, 0, 2])


def test_sliders_have_names_units_and_limits():
    scene = ShownScene(kt.load(ARM))
    elbow = scene.joints[3]
    model = scene.model
    assert (elbow.name, elbow.column, elbow.unit) == ("elbow", 3, "rad")
    assert (elbow.lower, elbow.upper) == (model.limits.lower[3], model.limits.upper[3])
    slide = ShownScene(kt.Model.from_arrays([-1], "Px", np.eye(6)[None], np.ones((1, 10)), allow_unphysical=True))
    assert slide.joints[0].unit == "m"


def ask(viewer: Viewer, path: str, body: dict | None = None) -> bytes:
    """What the server answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(viewer.url + path, data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return answer.read()


def test_a_slider_moves_one_joint_and_show_moves_all():
    model = kt.load(ARM)
    q = np.array([0.1 * np.arange(7), np.full(7, 9.0)])  # the second is outside all limits
    with Viewer(model, still(model, q), port=0) as viewer:
        ask(viewer, "/move", {"frame": 1, "world": 0, "column": 2, "value": 0.5})
        np.testing.assert_allclose(viewer.q, [9, 9, 0.5, 9, 9, 9, 9])
        ask(viewer, "/move", {"frame": 1, "world": 0, "column": 0, "value": 0.25})
        np.testing.assert_allclose(viewer.q, [0.25, 9, 0.5, 9, 9, 9, 9])
        viewer.show(q[0])
        np.testing.assert_allclose(viewer.q, q[0])
        size = 4 * (4 + viewer.scene.frame_floats)
        with urllib.request.urlopen(viewer.url + "/stream") as stream:
            sent = np.frombuffer(stream.read(size), "<f4")
        np.testing.assert_allclose(sent[-7:], q[0], rtol=1e-6)
        with pytest.raises(ValueError, match="7 coordinates"):
            viewer.show([1.0])
        with pytest.raises(urllib.error.HTTPError):
            ask(viewer, "/nothing", {})


def test_a_push_pulls_the_body_to_the_mouse():
    """The tip of an arm follows the mouse to within the sag of the spring; without gravity there is none."""
    model = kt.load(ARM).without_constraints.replace(gravity=(0, 0, 0))
    live, tip = Live(model), model.n_bodies - 1
    live.state = live.state.replace(q=np.array([0.0, 0.5, 0, 1.0, 0, 0.5, 0]))
    start = kt.forward_kinematics(model, live.state.q).position[tip]
    goal = start + np.array([0.1, 0.1, -0.1])
    live.push(tip, [0, 0, 0], goal)
    for _ in range(90):
        live._step()
    end = kt.forward_kinematics(model, np.asarray(live.state.q)).position[tip]
    assert np.linalg.norm(end - goal) < 0.1 * np.linalg.norm(start - goal)
    live.push(None)
    assert not live.pull().any()
    with pytest.raises(ValueError, match="no body 99"):
        live.push(99, [0, 0, 0], goal)


def test_contact_forces_carry_the_weight():
    """A ball at rest on the floor: one point, and a force that is its weight."""
    ball = kt.Model.from_arrays([-1], "free", np.eye(6)[None], np.array([[2.0, 0, 0, 0, 0.01, 0.01, 0.01, 0, 0, 0]]))
    ball = kt.with_ground(kt.with_shapes(ball, [kt.Shape("sphere", 0.1, 0)]))
    state = kt.advance(ball, kt.initial_state(ball, [0, 0, 0.1, 1, 0, 0, 0]), substeps=500)
    points, forces, bodies = contact_forces(ball, state.q, state.qd)
    np.testing.assert_allclose(points, [[0, 0, 0]], atol=1e-3)
    assert bodies.tolist() == [0]
    np.testing.assert_allclose(forces, [[0, 0, 2 * 9.81]], rtol=1e-3, atol=1e-6)


def test_the_page_asks_nobody():
    """No address but those of the page's own server stands in it; a page of its own needs not even that."""
    assert not re.search(r"(?:https?:)?//[a-z]", re.sub(r"(^|\s)//.*", "", page(), flags=re.M))
    model = kt.load(ARM)
    text = standalone(ShownScene(model), name="</script><b>")
    assert "</script><b>" not in text.replace("\\u003c", "")
    assert "KINETREE_SCENE" in text
    with Viewer(model, port=0) as viewer:
        assert viewer._repr_html_().startswith("<iframe srcdoc=")


def test_a_robot_that_nobody_placed_stands_on_the_floor():
    model = kt.load(ROBOTS / "quadruped.urdf", floating_base=True, ground=True)
    scene = ShownScene(model)
    lowest = scene._corners(scene.q)[..., 2].min()
    assert lowest == pytest.approx(0.0, abs=1e-6)
    assert scene.q[0, 0, 2] > 0.1
    placed = np.array(kt.neutral(model))
    placed[2] = -0.2  # as somebody wants it
    run = kt.Trajectory(np.zeros(1), placed[None], np.zeros((1, model.nv)), np.zeros((1, model.nv)))
    assert ShownScene(model, run).q[0, 0, 2] == -0.2
    assert not ShownScene(kt.load(ROBOTS / "quadruped.urdf", floating_base=True)).q[0, 0, :3].any()


def test_a_robot_stands_where_it_is_told_to():
    """A configuration, several of them, or a State can be shown; other arrays are refused in words."""
    model = kt.load(ARM)
    q = np.linspace(0.1, 0.7, 7)
    for given in (q, kt.initial_state(model, q)):
        with kt.view(model, given, port=0) as viewer:
            np.testing.assert_array_equal(viewer.q, q)
    with kt.view(model, np.stack([q, 2 * q]), port=0) as viewer:
        assert viewer.scene.worlds == 2
    with pytest.raises(ValueError, match=r"q of shape \(7,\), not shape \(8,\)"):
        kt.view(model, np.zeros(8), port=0)
