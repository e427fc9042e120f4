"""What the viewer draws: shapes, meshes and colours of robot files."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import kinetree as kt
from kinetree.cli.app import run as command

trimesh = pytest.importorskip("trimesh")
from kinetree.view import solids  # noqa: E402
from kinetree.view.shapes import STEEL, shapes, skeleton  # noqa: E402
from kinetree.view.solids import Solid, box, box_around, capsule, cylinder, ellipsoid, mesh, simplified, sphere  # noqa: E402
from kinetree.view.viewer import Viewer  # noqa: E402

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
        np.testing.assert_allclose(shape.solid.extents, extent, rtol=0.02)  # round ones have corners
        np.testing.assert_allclose(shape.solid.bounds.mean(0), [0, 0, 0.1], atol=1e-6)


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (MESH.format("gone.stl"), "gone.stl is not there"),
        (MESH.format("package://other/gone.stl"), "put the package's folder beside or above the robot file"),
        (MESH.format("broken.stl"), "are not shown"),
        ('<sphere radius="x"/>', "radius='x' must be one number"),
        ('<torus radius="1"/>', "<torus> is a shape that the viewer can not draw"),
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


DAE = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="0.01"/><up_axis>Y_UP</up_axis></asset>
<library_effects><effect id="e"><profile_COMMON><technique sid="c"><lambert><diffuse><color>1 0 0 1</color></diffuse>
</lambert></technique></profile_COMMON></effect></library_effects>
<library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh><source id="s"><float_array id="f" count="12">
0 0 0 100 0 0 100 200 0 0 200 0</float_array></source><vertices id="v"><input semantic="POSITION" source="#s"/>
</vertices><polylist count="1" material="sym"><input semantic="VERTEX" source="#v" offset="1"/>
<input semantic="NORMAL" source="#n" offset="0"/><vcount>4</vcount><p>9 0 9 1 9 2 9 3</p></polylist></mesh></geometry>
</library_geometries><library_visual_scenes><visual_scene id="w"><node><translate>300 0 0</translate>
<rotate>1 0 0 90</rotate><instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="sym" target="#m"/></technique_common></bind_material></instance_geometry></node>
</visual_scene></library_visual_scenes></COLLADA>"""


def test_collada_is_read(write, tmp_path):
    """A rectangle of 1 m by 2 m: in centimetres, a polygon, turned upright and moved; its colour is red."""
    (tmp_path / "arm.dae").write_text(DAE)
    model, path = write(MESH.format("arm.dae"))
    (shape,) = shapes(model, path)
    assert shape.colour == (1, 0, 0, 1)
    assert len(shape.solid.points) == 2
    # A turn by 90° about x takes y to z. The robot file scales by 2 and lifts by 0.1.
    np.testing.assert_allclose(shape.solid.bounds, [[6, 0, 0.1], [8, 0, 4.1]], atol=1e-6)


@pytest.mark.parametrize(("texture", "red"), [("", 0), ("<texture/>", 1)])
def test_a_mesh_shows_its_own_colour_where_a_texture_is_meant(write, tmp_path, texture, red):
    (tmp_path / "arm.dae").write_text(DAE)
    model, path = write(MESH.format("arm.dae"))
    text = path.read_text().replace(
        "</visual>", f'<material name="m">{texture}<color rgba="0 0 0 1"/></material></visual>'
    )
    path.write_text(text)
    (shape,) = shapes(model, path)
    assert shape.colour == (red, 0, 0, 1)


@pytest.mark.parametrize("text", ["<COLLADA/>", "<robot/>", "not XML"])
def test_collada_without_faces_is_told(write, tmp_path, text):
    (tmp_path / "arm.dae").write_text(text)
    model, path = write(MESH.format("arm.dae"), '<box size="1 2 3"/>')
    with pytest.warns(
        UserWarning, match=r"shapes of link 'l0' are not shown: .*arm\.dae.*; its skeleton is shown instead"
    ):
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


def test_geoms_of_the_world_are_drawn_and_planes_are_floors():
    pytest.importorskip("mujoco")
    text = """<mujoco><asset><material name="red" rgba="1 0 0 1"/></asset><worldbody><geom type="plane" size="1 1 1"/>
    <geom type="box" size="1 1 1" rgba="0 1 0 1"/><geom type="sphere" size="1" group="4"/>
    <body name="b"><joint/><geom type="ellipsoid" size="1 2 3" material="red"/></body></worldbody></mujoco>"""
    found = shapes(kt.load(text))
    assert [(s.body, s.colour) for s in found] == [(-1, (0, 1, 0, 1)), (0, (1, 0, 0, 1))]
    np.testing.assert_allclose(found[1].solid.extents, [2, 4, 6], rtol=0.02)


def test_colours_of_urdf():
    """A colour inside a link, one by its name, one that only another link gives, and none."""
    text = robot(*['<box size="1 1 1"/>'] * 4)
    looks = [
        '<material name="a"><color rgba="1 0 0 1"/></material>',
        '<material name="top"/>',
        '<material name="a"/>',
        "",
    ]
    for look in looks:
        text = text.replace("</geometry></visual>", f"</geometry>{look} </visual>", 1)
    text = text.replace("<robot>", '<robot><material name="top"><color rgba="0 0 1 0.5"/></material>')
    assert [s.colour for s in shapes(kt.load(text))] == [(1, 0, 0, 1), (0, 0, 1, 0.5), (1, 0, 0, 1), STEEL]


def test_each_part_of_a_mesh_file_has_its_colour(tmp_path):
    red, blue = trimesh.creation.box((1, 1, 1)), trimesh.creation.box((1, 1, 1))
    red.visual.face_colors, blue.visual.face_colors = (255, 0, 0, 255), (0, 0, 255, 255)
    trimesh.Scene([red, blue.apply_translation((3, 0, 0))]).export(tmp_path / "two.glb")
    path = tmp_path / "arm.urdf"
    path.write_text(robot(MESH.format("two.glb")))
    found = shapes(kt.load(path))
    assert sorted(s.colour for s in found) == [(0, 0, 1, 1), (1, 0, 0, 1)]


def test_shapes_that_may_touch_stand_in_for_a_file():
    model = kt.with_shapes(kt.auto_tree(2), [kt.Shape("sphere", 0.3, 1), kt.Shape("box", (1, 2, 3)), kt.Shape("plane")])
    assert [(s.body, round(float(s.solid.extents[0]), 2)) for s in shapes(model)] == [(1, 0.6), (-1, 2.0)]


def volume(solid: Solid) -> float:
    """Enclosed, by Gauss's theorem: positive where all faces look outward."""
    a, b, c = np.moveaxis(solid.points.astype(float), 1, 0)
    return float((a * np.cross(b, c)).sum() / 6)


def test_solids_are_closed_and_look_outward():
    for solid, exact in (
        (box((1, 2, 3)), 6.0),
        (sphere(2.0, 64), 4 / 3 * np.pi * 8),
        (cylinder(1.0, 3.0, 64), 3 * np.pi),
        (capsule(1.0, 3.0, 64), 3 * np.pi + 4 / 3 * np.pi),
        (ellipsoid((1, 2, 3), 64), 4 / 3 * np.pi * 6),
    ):
        assert volume(solid) == pytest.approx(exact, rel=0.01)
        own = np.cross(solid.points[:, 1] - solid.points[:, 0], solid.points[:, 2] - solid.points[:, 0])
        assert ((own[:, None] * solid.normals).sum(-1) > 0).all()


def test_a_mesh_with_fewer_triangles_keeps_its_size():
    ball = trimesh.creation.icosphere(5)
    whole = mesh(ball.vertices, ball.faces)
    few = simplified(whole, 500)
    assert 100 < len(few.points) <= 500 < len(whole.points)
    assert volume(few) == pytest.approx(volume(whole), rel=0.1)
    assert simplified(few, 500) is few
    rod = simplified(cylinder(0.01, 10.0, 64), 100)
    np.testing.assert_allclose(rod.extents, [0.02, 0.02, 10], rtol=0.3)


def test_the_command_tells_what_is_not_shown(write, monkeypatch, capsys):
    _, path = write(MESH.format("gone.stl"))
    monkeypatch.setattr(Viewer, "wait", lambda self: self.stop())
    assert command(["view", str(path), "--port", "0"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("warning: arm.urdf: shapes of link 'l0' are not shown: gone.stl is not there"), error


def test_a_box_around_a_leaning_leg_is_as_thin_as_the_leg():
    lean = Rotation.from_euler("xyz", [0.4, 0.7, 0.2]).as_matrix()
    leg = cylinder(0.05, 1.0).placed(lean, [1.0, 2.0, 3.0])
    centre, axes = box_around(leg)
    np.testing.assert_allclose(centre, [1, 2, 3], atol=1e-6)
    np.testing.assert_allclose(np.sort(np.linalg.norm(axes, axis=1)), [0.05, 0.05, 0.5], rtol=0.02)
    inside = (leg.points.reshape(-1, 3) - centre) @ np.linalg.inv(axes)
    assert np.abs(inside).max() < 1 + 1e-5
    _, cube = box_around(box([1, 1, 1]))
    np.testing.assert_allclose(np.abs(cube).max(1), 0.5, rtol=1e-6)  # not turned, though all axes are principal ones


def test_rows_that_differ_are_found():
    """As `np.unique` finds them, whatever the order; -0 is 0."""
    rows = np.random.default_rng(0).integers(-2, 3, (500, 3)) / 4
    rows[rows == 0] = -0.0
    rows[::2] += 0.0
    first, number = solids.distinct(rows)
    assert (rows[first][number] == rows).all()
    assert len(first) == len(np.unique(rows, axis=0))
