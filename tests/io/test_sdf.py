"""SDF: the same mechanism as its URDF, wherever links, joints and frames are placed; xacro, where it is installed."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

import kinetree as kt
from kinetree.io.document import parse
from kinetree.view.shapes import shapes
from tests.simulate.robots import ROBOTS

INERTIAL = """<inertial><pose>0.1 0.2 0.3 0.4 0.5 0.6</pose><mass>2</mass>
<inertia><ixx>0.3</ixx><iyy>0.4</iyy><izz>0.5</izz><ixy>0.01</ixy></inertia></inertial>"""
URDF_INERTIAL = """<inertial><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/><mass value="2"/>
<inertia ixx="0.3" iyy="0.4" izz="0.5" ixy="0.01" ixz="0" iyz="0"/></inertial>"""
HELD = '<joint name="j" type="{}"><parent>world</parent><child>a</child></joint>'


def model_of(body: str, version: str = "1.9") -> kt.Model:
    return kt.load(f'<sdf version="{version}"><model name="m">{body}</model></sdf>')


def urdf_to_sdf(path) -> str:
    """A writer that places every link in the model, as SDF has it by default; by forward kinematics at zero."""
    robot = parse(path.read_bytes(), path.name)
    model = kt.load(path)
    pose = kt.forward_kinematics(model, kt.neutral(model))

    def text(tag, value):
        return f"<{tag}>{value}</{tag}>"

    def place(R, p):
        pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
        words = [*p, np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])]
        return text("pose", " ".join(repr(float(w)) for w in words))

    out = []
    for link in robot.all("link"):
        body = model.body_index(link.attributes["name"])
        inner = place(pose.rotation[body], pose.position[body])
        inertial = link.find("inertial")
        if inertial is not None:
            o = inertial.find("origin")
            at = f"{o.attributes.get('xyz', '0 0 0')} {o.attributes.get('rpy', '0 0 0')}" if o else "0 0 0 0 0 0"
            numbers = "".join(text(k, v) for k, v in inertial.find("inertia").attributes.items())
            mass = text("mass", inertial.find("mass").attributes["value"])
            inner += text("inertial", text("pose", at) + mass + text("inertia", numbers))
        out.append(f'<link name="{link.attributes["name"]}">{inner}</link>')
    for joint in robot.all("joint"):
        a = joint.attributes
        axis = text("xyz", joint.find("axis").attributes["xyz"]) if joint.find("axis") else ""
        if (limit := joint.find("limit")) is not None:
            axis += text("limit", "".join(text(k, v) for k, v in limit.attributes.items()))
        if (dynamics := joint.find("dynamics")) is not None:
            axis += text("dynamics", "".join(text(k, v) for k, v in dynamics.attributes.items()))
        ends = "".join(text(k, joint.find(k).attributes["link"]) for k in ("parent", "child"))
        out.append(f'<joint name="{a["name"]}" type="{a["type"]}">{ends}{text("axis", axis) if axis else ""}</joint>')
    return f'<?xml version="1.0"?><sdf version="1.9"><model name="r">{"".join(out)}</model></sdf>'


@pytest.mark.parametrize("name", ["arm7.urdf", "quadruped.urdf"])
def test_a_robot_is_the_same_in_both_formats(name):
    urdf, sdf = kt.load(ROBOTS / name), kt.load(urdf_to_sdf(ROBOTS / name))
    assert urdf.names == sdf.names
    assert urdf.joint_names == sdf.joint_names
    q, qd = kt.random_state(urdf, 0)
    np.testing.assert_allclose(kt.bias_force(sdf, q, qd), kt.bias_force(urdf, q, qd), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kt.mass_matrix(sdf, q), kt.mass_matrix(urdf, q), rtol=1e-9, atol=1e-12)
    for one, other in zip(urdf.limits, sdf.limits, strict=True):
        np.testing.assert_allclose(one, other)
    assert (urdf.passive is None) == (sdf.passive is None)
    if urdf.passive is not None:
        np.testing.assert_allclose(urdf.passive.damping, sdf.passive.damping)


def test_frames_stand_in_one_another_and_joints_beside_their_links():
    """A joint away from its child's origin, an axis in another frame, degrees, a frame in a frame; against URDF."""
    sdf = model_of(
        f"""<link name="a">{INERTIAL}</link>
        <frame name="f" attached_to="a"><pose degrees="true">1 0 0 0 0 90</pose></frame>
        <link name="b"><pose relative_to="f">0 0.5 0 0 0 0</pose>{INERTIAL}</link>
        <joint name="j" type="revolute"><pose>0 0 0.25 0 0 0</pose><parent>a</parent><child>b</child>
        <axis><xyz expressed_in="__model__">1 0 0</xyz><limit><lower>-1e16</lower><upper>1e16</upper></limit></axis>
        </joint>"""
    )
    # b stands at (1, 0, 0) turned by 90° about z, then 0.5 along its own y: (0.5, 0, 0); the joint 0.25 above it.
    urdf = kt.load(
        f"""<robot name="m"><link name="a">{URDF_INERTIAL}</link><link name="c"/><link name="b">{URDF_INERTIAL}</link>
        <joint name="j" type="continuous"><parent link="a"/><child link="c"/>
        <origin xyz="0.5 0 0.25" rpy="0 0 {np.pi / 2!r}"/><axis xyz="0 -1 0"/></joint>
        <joint name="k" type="fixed"><parent link="c"/><child link="b"/><origin xyz="0 0 -0.25"/></joint></robot>"""
    )
    q, qd = np.array([0.7]), np.array([1.3])
    np.testing.assert_allclose(kt.bias_force(sdf, q, qd), kt.bias_force(urdf, q, qd), rtol=1e-12)
    places = [kt.forward_kinematics(m, q).position[m.body_index("b")] for m in (sdf, urdf)]
    np.testing.assert_allclose(*places, atol=1e-12)
    assert np.isinf(sdf.limits.upper).all()


def test_universal_ball_and_joints_to_the_world():
    links = "".join(f'<link name="{n}">{INERTIAL}</link>' for n in "abc")
    model = model_of(
        f"""{links}<joint name="w" type="fixed"><parent>world</parent><child>a</child></joint>
        <joint name="u" type="universal"><parent>a</parent><child>b</child><axis><xyz>1 0 0</xyz></axis>
        <axis2><xyz>0 1 0</xyz></axis2></joint>
        <joint name="s" type="ball"><parent>b</parent><child>c</child></joint>"""
    )
    assert (model.nq, model.nv) == (2 + 4, 2 + 3)
    assert {"world", "a", "b", "c"} <= set(model.names)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('<link name="a"/>' + HELD.format("screw"), "type 'screw' can not"),
        ('<link name="a"><pose relative_to="a">0 0 0 0 0 0</pose></link>' + HELD.format("fixed"), "relative to itself"),
        ('<link name="a"><pose relative_to="bb">0 0 0 0 0 0</pose></link>' + HELD.format("fixed"), "is called 'bb'"),
        ('<link name="a"><inertial><pose>1 2</pose></inertial></link>', "must be 6 numbers"),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_told_with_its_line(body, told):
    with pytest.raises(kt.ModelError, match=re.escape(told)) as error:
        model_of(body)
    assert "<text>:1" in str(error.value)


def test_shapes_of_sdf_are_drawn_and_touch():
    model = kt.load(
        f"""<sdf version="1.9"><model name="m"><link name="a">{INERTIAL}<visual name="v"><pose>0 0 1 0 0 0</pose>
        <geometry><box><size>1 2 3</size></box></geometry><material><diffuse>1 0 0</diffuse></material></visual>
        <collision name="c"><geometry><sphere><radius>0.5</radius></sphere></geometry></collision></link></model>
        </sdf>""",
        floating_base=True,
        ground=True,
    )
    (box,) = shapes(model)
    np.testing.assert_allclose(box.solid.extents, [1, 2, 3], rtol=1e-6)
    assert box.colour == (1, 0, 0, 1)
    assert model.world.scene.layout.kinds == ("sphere", "plane")


def test_xacro_is_expanded_or_the_package_is_named(tmp_path):
    path = tmp_path / "r.xacro"
    path.write_text(
        '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="m" value="3"/>'
        '<link name="a"><inertial><mass value="${m}"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link></robot>'
    )
    if find_spec("xacro") is None:
        with pytest.raises(kt.ModelError, match="pip install xacro"):
            kt.load(path)
    else:
        assert kt.load(path, floating_base=True).total_mass == 3
