"""What the viewer draws, and how it places the camera and the sliders, without a browser."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.cli.app import run as command
from tests.simulate.robots import ROBOTS

trimesh = pytest.importorskip("trimesh")
pytest.importorskip("viser")
from kinetree.view.shapes import shapes, skeleton  # noqa: E402
from kinetree.view.viewer import Viewer  # noqa: E402

ARM = ROBOTS / "arm7.urdf"
LOOK = '<visual><origin xyz="0 0 0.1"/><geometry>{}</geometry></visual>'
BALL = '<inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'
MESH = '<mesh filename="{}" scale="2 2 2"/>'


def robot(*looks):
    """A chain of links, each with one shape."""
    links = [f'<link name="l{i}">{BALL}{LOOK.format(look)}</link>' for i, look in enumerate(looks)]
    joints = [
        f'<joint name="j{i}" type="continuous"><origin xyz="0 0 1"/><parent link="l{i}"/>'
        f'<child link="l{i + 1}"/></joint>'
        for i in range(len(looks) - 1)
    ]
    return f"<robot>{''.join(links + joints)}</robot>"


@pytest.fixture
def write(tmp_path):
    def written(*looks):
        path = tmp_path / "arm.urdf"
        path.write_text(robot(*looks))
        trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.stl")
        (tmp_path / "arm_description").mkdir(exist_ok=True)
        trimesh.creation.box((1, 1, 1)).export(tmp_path / "arm_description" / "cube.stl")
        return kt.load(path), path

    return written


def test_every_shape_of_urdf_is_drawn(write):
    model, path = write(
        '<box size="1 2 3"/>', '<cylinder radius="1" length="4"/>', '<sphere radius="2"/>',
        '<capsule radius="1" length="2"/>', MESH.format("box.stl"), MESH.format("package://arm_description/cube.stl"),
    )  # fmt: skip
    drawn = shapes(model, path)
    extents = [[1, 2, 3], [2, 2, 4], [4, 4, 4], [2, 2, 4], [2, 4, 6], [2, 2, 2]]
    assert [s.body for s in drawn] == list(range(6))
    for shape, extent in zip(drawn, extents, strict=True):
        np.testing.assert_allclose(shape.mesh.extents, extent, rtol=0.02)  # round ones have corners
        np.testing.assert_allclose(shape.mesh.bounds.mean(0), [0, 0, 0.1], atol=1e-9)


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (MESH.format("gone.stl"), "gone.stl is not there"),
        (MESH.format("package://other/gone.stl"), "put the package's folder beside or above the robot file"),
        (MESH.format("broken.stl"), "are not shown"),
        ('<sphere radius="x"/>', "radius='x' must be one number"),
        ('<torus radius="1"/>', "<torus> is no shape that the viewer knows"),
    ],
)
def test_what_can_not_be_drawn_is_told_and_its_skeleton_stands_in(write, tmp_path, look, why):
    (tmp_path / "broken.stl").write_text("solid nothing")
    box = '<box size="1 2 3"/>'
    model, path = write(box, look, box)
    with pytest.warns(UserWarning, match=r"arm\.urdf: shapes of link 'l1' are not shown") as told:
        drawn = shapes(model, path)
    assert len(told) == 1
    assert why in str(told[0].message)
    assert {s.body for s in drawn} == {0, 1, 2}
    model, path = write(look, look)
    with pytest.warns(UserWarning, match="shapes of link 'l0', 'l1' are not shown"):
        assert len(shapes(model, path)) == len(skeleton(model))


def test_collada_without_its_reader_is_told(write, tmp_path, monkeypatch):
    (tmp_path / "arm.dae").write_text("<COLLADA/>")
    model, path = write(MESH.format("arm.dae"), '<box size="1 2 3"/>')

    def load_mesh(place):
        raise ImportError("missing `pip install pycollada`")

    monkeypatch.setattr(trimesh, "load_mesh", load_mesh)
    with pytest.warns(UserWarning, match=r"needs pycollada \(pip install 'kinetree\[view\]'\); its skeleton stands in"):
        assert {s.body for s in shapes(model, path)} == {0, 1}


def test_entities_are_refused(tmp_path):
    """The viewer reads robot files with the loader's parser."""
    path = tmp_path / "bomb.urdf"
    path.write_text('<!DOCTYPE r [<!ENTITY a "aaaa">]>' + robot('<box size="1 1 1"/>'))
    with pytest.raises(kt.ModelError, match="document type declaration is not allowed"):
        shapes(kt.auto_tree(1), path)


def test_bodies_without_a_name_are_drawn(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "arm.xml"
    path.write_text("<mujoco><worldbody><body><joint/><geom size='0.1'/></body></worldbody></mujoco>")
    assert [s.body for s in shapes(kt.load(path), path)] == [0]


@pytest.fixture
def viewer():
    """Starts viewers and stops them."""
    started = []

    def start(*args, **options):
        started.append(Viewer(*args, port=18200, **options))
        return started[-1]

    yield start
    for v in started:
        v.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the websocket library's own
@pytest.mark.parametrize("n", [1, 20, 1000])
def test_all_of_the_scene_is_between_the_clipping_planes(viewer, n):
    model = kt.auto_tree(n, skew=np.pi / 2)
    camera = viewer(model).server.initial_camera
    points = np.concatenate([np.zeros((1, 3)), kt.forward_kinematics(model, kt.neutral(model)).position])
    ahead = (camera.look_at - camera.position) / np.linalg.norm(camera.look_at - camera.position)
    depth = (points - camera.position) @ ahead
    assert camera.near < depth.min()
    assert depth.max() < camera.far
    aside = np.linalg.norm(points - camera.position - depth[:, None] * ahead, axis=1)
    assert (aside <= 1.001 * np.tan(camera.fov / 2) * depth).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the websocket library's own
def test_sliders_stand_where_the_joints_do(viewer):
    """Also where a joint is outside its limits, and after the robot was moved by something else."""
    model = kt.load(ARM)
    upper = float(model.limits.upper[1])
    q = np.zeros((2, 7))
    q[0, 1], q[1, 2] = upper + 1, -9.0
    run = kt.Trajectory(np.arange(2.0), q, np.zeros((2, 7)), np.zeros((2, 7)))
    shown = viewer(model, run)
    for state in (q[0], q[1], 0.1 + q[0]):
        shown.show(state)
        for column, slider in shown.sliders.items():
            assert slider.value == pytest.approx(state[column])
            assert slider.min <= slider.value <= slider.max
        np.testing.assert_array_equal(shown.q, state)
    first = viewer(model, run).sliders[1]
    assert (first.value, first.max) == (pytest.approx(upper + 1), pytest.approx(upper + 1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the websocket library's own
def test_the_command_tells_what_is_not_shown(write, monkeypatch, capsys):
    _, path = write(MESH.format("gone.stl"))
    monkeypatch.setattr(Viewer, "wait", lambda self: self.stop())
    assert command(["view", str(path), "--port", "18200"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("warning: arm.urdf: shapes of link 'l0' are not shown: gone.stl is not there"), error
