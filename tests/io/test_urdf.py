"""URDF: what the loader makes of links and joints, and what it says about files that are wrong."""

import warnings

import numpy as np
import pytest

import kinetree as kt
from kinetree.io import NotModelled, load_with_report

LOST = "in the file, but not in the model"
BALL = '<inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'


def robot(*parts, name='name="r"'):
    return f"<robot {name}>\n" + "\n".join(parts) + "\n</robot>"


def link(name, inside=BALL):
    return f'<link name="{name}">{inside}</link>'


def joint(name, parent, child, kind="revolute", inside=""):
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


CHAIN = robot(link("a"), link("b"), joint("j", "a", "b"))


def test_the_root_link_is_a_body_on_the_base():
    model = kt.load(CHAIN)
    assert model.names == ("a", "b")
    assert model.joint_names == ("root_joint", "j")
    assert (model.nq, model.nv, model.total_mass) == (1, 1, 2)  # the root does not move, and is not counted


def test_a_floating_base():
    model = kt.load(CHAIN, floating_base=True)
    assert (model.nq, model.nv, model.total_mass) == (8, 7, 4)
    assert model.q_index("root_joint") == slice(0, 7)


def test_links_and_joints_in_any_order():
    parts = [link("c"), joint("bc", "b", "c"), link("a"), joint("ab", "a", "b", "prismatic"), link("b")]
    model = kt.load(robot(*parts))
    assert model.names == ("a", "b", "c")
    assert model.parent.tolist() == [-1, 0, 1]


def test_joint_types():
    kinds = ["revolute", "continuous", "prismatic", "fixed", "floating", "planar"]
    links = [link(f"l{i}") for i in range(7)]
    joints = [joint(f"j{i}", f"l{i}", f"l{i + 1}", kind) for i, kind in enumerate(kinds)]
    model = kt.load(robot(*links, *joints))
    assert [model.structure.joints[c].kind for c in model.structure.joint_code] == [
        "fixed", "revolute", "continuous", "prismatic", "fixed", "free", "planar",
    ]  # fmt: skip
    assert (model.nq, model.nv) == (1 + 1 + 1 + 0 + 7 + 3, 1 + 1 + 1 + 0 + 6 + 3)


def test_a_planar_joint_moves_in_the_plane_of_its_normal():
    normal = np.array([1.0, 2.0, 2.0]) / 3
    model = kt.load(robot(link("a"), link("b"), joint("j", "a", "b", "planar", '<axis xyz="1 2 2"/>')))
    for q in ([0.3, 0.0, 0.0], [0.0, 0.4, 0.0]):
        moved = kt.forward_kinematics(model, np.array(q)).position[1]
        np.testing.assert_allclose(np.linalg.norm(moved), max(q))
        assert abs(moved @ normal) < 1e-12
    turned = kt.forward_kinematics(model, np.array([0.0, 0.0, 0.5])).rotation[1]
    np.testing.assert_allclose(turned @ normal, normal, atol=1e-12)


def test_origins_turn_about_fixed_axes():
    inside = '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>'
    model = kt.load(robot(link("a"), link("b"), joint("j", "a", "b", "fixed", inside)))
    pose = kt.forward_kinematics(model, np.zeros(0))
    (cr, cp, cy), (sr, sp, sy) = np.cos([0.1, 0.2, 0.3]), np.sin([0.1, 0.2, 0.3])
    X, Y = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]]), np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    Z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    np.testing.assert_allclose(pose.rotation[1], Z @ Y @ X, atol=1e-15)
    np.testing.assert_allclose(pose.position[1], [1, 2, 3])


def test_limits_damping_and_friction():
    inside = '<limit lower="-1" upper="2" velocity="3" effort="4"/><dynamics damping="0.5" friction="0.25"/>'
    model = kt.load(robot(link("a"), link("b"), joint("j", "a", "b", inside=inside)))
    assert [x.tolist() for x in model.limits] == [[-1], [2], [3], [4]]
    assert model.passive.damping.tolist() == [0.5]
    assert model.friction.tolist() == [0.25]
    tau = kt.inverse_dynamics(model, np.zeros(1), np.ones(1), np.zeros(1))
    free = kt.inverse_dynamics(model.without_passive, np.zeros(1), np.ones(1), np.zeros(1))
    np.testing.assert_allclose(tau - free, [0.5])


def test_no_limits_are_infinite():
    assert [np.isinf(x).all() for x in kt.load(CHAIN).limits] == [True] * 4


def test_mimic_joints_are_coupled():
    follow = '<mimic joint="j" multiplier="-2" offset="0.3"/>'
    text = robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("k", "b", "c", inside=follow))
    model = kt.load(text)
    assert (model.nq, model.nv, model.uncoupled.nv) == (1, 1, 2)
    assert model.q_index("k") == model.q_index("j") == slice(0, 1)
    free = kt.forward_kinematics(model.uncoupled, np.array([0.4, -2 * 0.4 + 0.3]))
    np.testing.assert_array_equal(kt.forward_kinematics(model, np.array([0.4])).rotation, free.rotation)


def test_a_mimic_joint_that_follows_nobody_is_free():
    inside = '<mimic joint="nobody"/>'
    with pytest.warns(UserWarning, match="line 4: joint 'j' mimics 'nobody', which does not exist"):
        assert kt.load(robot(link("a"), link("b"), joint("j", "a", "b", inside=inside))).nv == 1


def test_links_without_inertia_and_robots_without_name():
    with pytest.warns(UserWarning, match="<text>: nothing that moves has mass"):
        model = kt.load(robot(link("a", ""), link("b", ""), joint("j", "a", "b"), name=""))
    assert model.total_mass == 0
    np.testing.assert_array_equal(kt.inverse_dynamics(model, np.ones(1), np.ones(1), np.ones(1)), [0.0])


@pytest.mark.filterwarnings("error::UserWarning")
def test_robots_without_moving_mass_are_told():
    """Also where only the root, which does not move, has some; not where nothing can move."""
    text = robot(link("a"), link("b", ""), joint("j", "a", "b"))
    with pytest.raises(UserWarning, match="nothing that moves has mass"):
        kt.load(text)
    assert kt.load(text, floating_base=True).total_mass == 2
    assert kt.load(robot(link("a", ""))).nv == 0


def test_negative_damping_and_friction_are_told():
    inside = '<dynamics damping="-2" friction="-3"/>'
    with pytest.warns(
        UserWarning, match=r"(damping|friction) of joint 'j' is negative; its absolute value is used"
    ) as told:
        model = kt.load(robot(link("a"), link("b"), joint("j", "a", "b", inside=inside)))
    assert len(told) == 2
    assert (model.passive.damping.tolist(), model.friction.tolist()) == ([2], [3])


def test_unphysical_inertias_are_told_and_kept():
    odd = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="5"/></inertial>'
    with pytest.warns(UserWarning, match="no distribution of mass has the inertia of link 'b'"):
        model = kt.load(robot(link("a"), link("b", odd), joint("j", "a", "b")))
    assert model.inertia.I.zz[1] == 5
    with pytest.warns(UserWarning, match="link 'b'"):
        kt.load(robot(link("a"), link("b", odd.replace('"1"/>', '"-1"/>', 1)), joint("j", "a", "b")))


def test_what_is_ignored_is_counted():
    text = robot(link("a", BALL + "<visual/><visual/><collision/>"), "<transmission/>", "<gazebo/>", "<gazebo/>")
    _, report = load_with_report(text)
    assert report.ignored == {"<visual>": 2, "<collision> without <geometry>": 1, "<transmission>": 1, "<gazebo>": 2}
    assert (report.format, report.name, report.warnings) == ("URDF", "r", [])
    assert report.not_modelled == f"<text>: {LOST}: <transmission>: 1, <gazebo>: 2, <collision> without <geometry>: 1"


@pytest.mark.filterwarnings("error::UserWarning")
def test_what_is_not_modelled_is_told_in_one_line():
    inside = '<limit lower="-1" upper="1"/><safety_controller/>'
    bodies = [link(x, BALL + "<visual/><collision/>") for x in "abc"]
    text = robot(*bodies, joint("j", "a", "b", inside=inside), joint("k", "b", "c", inside=inside))
    with pytest.raises(NotModelled) as caught:
        kt.load(text)
    assert str(caught.value) == f"<text>: {LOST}: <safety_controller>: 2, <collision> without <geometry>: 3"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kt.io.NotModelled)
        kt.load(text)
    kt.load(robot(link("a", BALL + "<visual/>"), "<material/>"))  # looks are no loss


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (robot(), "<text>:1: <robot name='r'>: has no links"),
        (robot(link("a"), link("a")), "<text>:3: <link name='a'>: a link of this name stands already in line 2"),
        (robot(link("a"), link("b")), "has 2 root links, 'a', 'b'"),
        (robot(link("a"), joint("j", "a", "x")), "<text>:3: <child>: joint 'j' names a link 'x' that does not exist"),
        (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "a", "b")), "already carried by joint 'j'"),
        (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")), "no link is the root"),
        (
            robot(link("a"), link("b"), link("c"), joint("j", "b", "c"), joint("k", "c", "b")),
            "<text>:3: <link name='b'>: is not reached from the root 'a'",
        ),
        (robot(link("a"), link("b"), joint("j", "a", "b", "ball")), "type 'ball' is none of revolute"),
        (robot("<link/>"), "<link>: needs an attribute 'name'"),
        (robot(link("a"), '<joint name="j" type="fixed"><parent link="a"/></joint>'), "needs a <child>"),
        (
            robot(link("a"), link("b"), joint("j", "a", "b", inside='<axis xyz="0 0 0"/>')),
            "the axis of joint 'j' is zero",
        ),
        (robot(link("a"), link("b"), joint("j", "a", "b", inside='<axis xyz="0 1"/>')), "xyz='0 1' must be 3 numbers"),
        (robot(link("a", BALL.replace('"2"', '"two"'))), "<mass>: value='two' must be one number"),
        (robot(link("a", BALL.replace('"2"', '"nan"'))), "is too large for a mechanism"),
        (robot(link("a", BALL.replace('"2"', '"1e99"'))), "is too large for a mechanism"),
        (robot(link("a"), "<xacro:macro/>").replace("<robot", '<robot xmlns:xacro="x"'), "expand it to URDF"),
        (robot(link("a", '<xacro:box_inertia m="1"/>')), "<text>:2: <xacro:box_inertia>: this is a xacro file"),
        (robot(link("a", BALL.replace("<mass", "<xacro:insert_block/><mass"))), "this is a xacro file"),
        (robot(link("${prefix}a")), "this is a xacro file"),
        (robot(link("a", BALL.replace('"2"', '"${m}"'))), "<mass>: value='${m}': this is a xacro file"),
        (robot(link("a"), link("b"), joint("j", "a", "c")), "names a link 'c' that does not exist: there are 'a', 'b'"),
        (robot(link("arm"), joint("j", "arn", "arm")), "names a link 'arn' that does not exist: did you mean 'arm'?"),
        (robot(link("a"), link("b"), joint("j", "a", "b", "revolut")), "planar: did you mean 'revolute'?"),
        ("<robot><link name='a'>", "<text>:1: this is not XML"),
        ("<world/>", "<text>:1: <world>: is neither <robot>"),
        ("<world/>", "this is a part of an SDF file"),
        ("<sdf/>", "<text>:1: <sdf>: holds no <model>"),
        ("<mujocoinclude/>", "load the file that includes it"),
        (
            "package://arm_description/arm.urdf",
            "This is a ROS address: give the file's path (ros2 pkg prefix --share arm_d",
        ),
        (b"https://example.org/arm.urdf", "This is an address: give the path of a file on this machine"),
        ("no such file.urdf", "is neither XML nor a file that can be read"),
        (
            robot(link("a"), link("b"), joint("j", "a", "b", inside='<mimic joint="j"/>')),
            "joint 'j': the joints it mimics form a cycle through 'j'",
        ),
    ],
)
def test_errors_say_where_and_what(text, message):
    with pytest.raises(kt.ModelError) as caught:
        kt.load(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "inside",
    [
        '<limit lower="x"/>',
        '<limit upper="nan"/>',
        '<origin xyz="a"/>',
        '<axis xyz="0 0 0"/>',
        '<dynamics damping="q"/>',
        '<mimic joint="j"/>',
        '<mimic joint="j" multiplier="m"/>',
    ],
)
def test_errors_name_the_file_once(tmp_path, inside):
    path = tmp_path / "arm.urdf"
    path.write_text(robot(link("a"), link("b"), joint("j", "a", "b", inside=inside)))
    with pytest.raises(kt.ModelError) as caught:
        kt.load(path)
    assert str(caught.value).count("arm.urdf") == 1


def test_blanks_before_the_declaration(tmp_path):
    """Editors and templates leave them; XML forbids them, and so do most parsers."""
    for before in ("\n", " \r\n\t", "\ufeff\n\n"):
        text = f'{before}<?xml version="1.0"?>\n{CHAIN}'
        path = tmp_path / "blank.urdf"
        path.write_bytes(text.encode())
        for source in (path, text, text.encode()):
            assert kt.load(source).nv == 1
        path.write_text(text.replace('name="a"', 'name=""', 1))
        line = 3 + before.count("\n")
        with pytest.raises(kt.ModelError, match=rf"^blank\.urdf:{line}: <link>: needs an attribute 'name'"):
            kt.load(path)


def test_a_file_that_is_not_there_is_suggested(tmp_path):
    (tmp_path / "panda.urdf").write_text(CHAIN)
    with pytest.raises(kt.ModelError, match=r"No such file or directory: did you mean '.*panda\.urdf'\?$"):
        kt.load(tmp_path / "pandas.urdf")


def test_files_are_named(tmp_path):
    path = tmp_path / "wrong.urdf"
    path.write_text(robot(link("a"), link("a")))
    with pytest.raises(kt.ModelError, match=r"^wrong\.urdf:3: "):
        kt.load(path)
    path.write_text(CHAIN)
    assert kt.load(str(path)).nv == kt.load(path.read_bytes()).nv == 1


def test_entities_are_refused():
    bomb = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + CHAIN.replace('"r"', '"&b;"')
    with pytest.raises(kt.ModelError, match="document type declaration is not allowed"):
        kt.load(bomb)
    outside = '<!DOCTYPE r SYSTEM "file:///etc/hostname">' + CHAIN
    with pytest.raises(kt.ModelError, match="document type declaration is not allowed"):
        kt.load(outside)


def test_a_chain_of_thirty_thousand_links():
    """Nothing calls itself from link to link, and nothing looks through all links for each."""
    n = 30_000
    links = "".join(link(f"l{i}") for i in range(n + 1))
    inside = '<origin xyz="0 0 1"/><axis xyz="0 1 0"/>'
    joints = "".join(joint(f"j{i}", f"l{i}", f"l{i + 1}", inside=inside) for i in range(n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kt.load(robot(links, joints))
    assert (model.nv, model.tree.height) == (n, n)
    assert model.total_mass == 2.0 * n


def test_elements_nested_without_end():
    depth = 200_000
    with pytest.raises(kt.ModelError, match="has no links"):
        kt.load("<robot>" + "<x>" * depth + "</x>" * depth + "</robot>")


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ('lower="1" upper="-1"', "has a lower limit above the upper one"),
        ('lower="-1" upper="1" effort="-2"', "has a negative effort limit"),
        ('lower="-1" upper="1" velocity="-2"', "has a negative velocity limit"),
    ],
)
def test_limits_that_make_no_sense_are_told(limit, says):
    inertia = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    text = (
        f'<robot name="r"><link name="a"/><link name="b">{inertia}</link><joint name="j" type="revolute">'
        f'<parent link="a"/><child link="b"/><axis xyz="0 0 1"/><limit {limit}/></joint></robot>'
    )
    with pytest.warns(UserWarning, match=f"joint 'j' {says}"):
        kt.load(text)
