"""`kinetree info`."""

import json
from pathlib import Path

import pytest

from kinetree.cli.app import run

ROBOT = """<robot name="two"><link name="base"/><link name="a"><visual/>
<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
<link name="b"><inertial><mass value="1.5"/><inertia ixx="1" iyy="1" izz="9"/></inertial></link>
<joint name="j" type="revolute"><parent link="base"/><child link="a"/><limit lower="-1" upper="2"/></joint>
<joint name="k" type="continuous"><parent link="a"/><child link="b"/><mimic joint="j"/></joint></robot>"""


@pytest.fixture
def robot(tmp_path: Path) -> str:
    path = tmp_path / "two.urdf"
    path.write_text(ROBOT)
    return str(path)


def test_info_as_json(robot, capsys):
    assert run(["info", robot, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["nq"], told["nv"], told["n_bodies"], told["mass"]) == (1, 1, 3, 3.5)
    assert told["bodies"][2] == {"name": "b", "parent": 1, "joint": "k", "mass": 1.5}
    joint = told["joints"][1]
    assert (joint["name"], joint["lower"], joint["upper"], joint["effort"]) == ("j", -1, 2, None)
    assert told["not_in_the_model"] == {"<visual>": 1}


def test_what_is_in_the_file(robot, capsys):
    assert run(["info", robot]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for part in (
        "two, URDF in two.urdf",
        "1, in 1 coordinates; 1 follow others",
        "3.5 kg moves",
        "a revolute j 2 kg",
        "j revolute 0 0 -1 2",
        "k continuous, mimic 0 0",
        "the inertia of link 'b'",
        "not in the model: nothing",
        "only for the viewer: 1 <visual>",
        "1 state on",
        "4096 states on",
    ):
        assert part in told, part


def test_a_floating_base(robot, capsys):
    assert run(["info", robot, "--floating-base"]) == 0
    assert "7, in 8 coordinates" in " ".join(capsys.readouterr().out.split())


def test_a_generated_tree(capsys):
    assert run(["info", "tree:5"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "tree:5, generated" in told
    assert "body_4 revolute joint_4 1 kg" in told


def test_what_can_not_be_read_is_told_in_one_line(capsys):
    assert run(["info", "nothing.urdf"]) == 1
    assert capsys.readouterr().err.startswith("error: 'nothing.urdf' is neither XML nor a file")
