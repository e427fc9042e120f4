"""Meshes that touch: the same points from STL, OBJ and COLLADA files."""

import struct

import numpy as np
import pytest

import kinetree as kt
from kinetree.io.meshes import mesh_points

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3.0]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
LINK = """<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<collision><geometry><mesh filename="{}" scale="2 2 2"/></geometry></collision></link>"""


def stl() -> bytes:
    triangles = [struct.pack("<12fH", 0, 0, 1, *CORNERS[face].ravel(), 0) for face in FACES]
    return bytes(80) + struct.pack("<I", len(FACES)) + b"".join(triangles)


def obj() -> bytes:
    lines = [f"v {x} {y} {z}" for x, y, z in CORNERS] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES]
    return "\n".join(lines).encode()


def dae() -> bytes:
    """With a corner that no face has, and the second geometry of two parts that the scene does not show."""
    numbers = " ".join(map(str, [*CORNERS.ravel(), 9, 9, 9]))
    return f"""<COLLADA><asset><unit meter="1"/></asset><library_geometries><geometry id="g"><mesh>
    <source id="s"><float_array>{numbers}</float_array></source>
    <vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
    <triangles><input semantic="VERTEX" source="#v" offset="0"/><p>{" ".join(map(str, FACES.ravel()))}</p></triangles>
    </mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="w"><node>
    <instance_geometry url="#g"/></node></visual_scene></library_visual_scenes></COLLADA>""".encode()


@pytest.mark.parametrize(("name", "make"), [("a.stl", stl), ("a.obj", obj), ("a.dae", dae), ("A.DAE", dae)])
def test_every_kind_of_file_has_the_same_points(tmp_path, name, make):
    (tmp_path / name).write_bytes(make())
    np.testing.assert_array_equal(mesh_points(tmp_path / name), np.unique(CORNERS, axis=0))
    (tmp_path / "robot.urdf").write_text(f'<robot name="r">{LINK.format(name)}</robot>')
    model = kt.load(tmp_path / "robot.urdf", floating_base=True, ground=True)
    found = kt.contacts(model, [0, 0, -0.01, 1, 0, 0, 0])
    assert found.active.sum() == 3, "the triangle that lies on the floor"
    np.testing.assert_allclose(found.position[found.active][:, :2].max(0), [2, 4], atol=1e-12)


def test_files_that_are_no_meshes_are_told(tmp_path):
    for name, text in (
        ("a.dae", "<COLLADA/>"),
        ("b.dae", "<robot/>"),
        ("c.dae", dae().decode().replace("1 3 0", "1 77 0")),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / "robot.urdf").write_text(f'<robot name="r">{LINK.format(name)}</robot>')
        with pytest.warns(UserWarning, match=r"can not be read \(STL, OBJ and COLLADA can\): 1"):
            kt.load(tmp_path / "robot.urdf", ground=True)
