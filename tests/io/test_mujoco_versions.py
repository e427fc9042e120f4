"""The oldest MuJoCo that may be installed has all that we ask of it."""

from enum import IntEnum

import mujoco

from kinetree.io import from_mujoco_model
from kinetree.io.mjcf_sensors import RENAMED
from kinetree.io.report import Report
from kinetree.sense.measure import KINDS

from .mujoco_names import KNOWN, lowest, of_mujoco, read


def test_every_name_that_we_read_is_known_to_the_oldest_version():
    """Where this fails after a new name is read: look for it in that version, or ask for it by getattr."""
    version, *names = KNOWN.read_text().split()
    assert version.removesuffix(".0") == lowest().removesuffix(".0")
    assert sorted((read() & of_mujoco()) - set(names)) == []


def test_sensors_are_known_by_name_whatever_their_numbers(monkeypatch):
    """Versions of MuJoCo number their kinds of sensors differently."""
    known = {name.removeprefix("mjSENS_").lower() for name in mujoco.mjtSensor.__members__}
    assert {RENAMED.get(name, name) for name in known} >= KINDS.keys()
    body = '<body name="b"><joint name="j"/><geom size="1"/></body>'
    after = '<sensor><jointpos joint="j"/><framequat objtype="body" objname="b"/><clock/></sensor>'
    compiled = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody>{after}</mujoco>")
    wanted = from_mujoco_model(compiled, Report("file", "MJCF")).sensors
    assert [sensor.kind for sensor in wanted] == ["jointpos", "framequat", "clock"]
    moved = {name: int(value) + 1 for name, value in mujoco.mjtSensor.__members__.items()}
    monkeypatch.setattr(mujoco, "mjtSensor", IntEnum("mjtSensor", moved))
    compiled.sensor_type[:] += 1
    assert from_mujoco_model(compiled, Report("file", "MJCF")).sensors == wanted
