"""The oldest MuJoCo that may be installed has all that we ask of it."""

from enum import IntEnum
from types import SimpleNamespace

import mujoco
import numpy as np

from kinetree.collide.hull import Hull
from kinetree.io import from_mujoco_model
from kinetree.io.mjcf_sensors import RENAMED
from kinetree.io.report import Report
from kinetree.sense.measure import KINDS

from .mujoco_names import KNOWN, lowest, of_mujoco, read

ROCK = """<mujoco><asset><mesh name="rock" vertex="{}"/></asset>
<worldbody><geom type="mesh" mesh="rock"/></worldbody></mujoco>"""


def test_every_name_that_we_read_is_known_to_the_oldest_version():
    """Where this fails after a new name is read: look for it in that version, or ask for it by getattr."""
    version, *names = KNOWN.read_text().split()
    assert version.removesuffix(".0") == lowest().removesuffix(".0")
    assert sorted((read() & of_mujoco()) - set(names)) == []


def test_hulls_of_versions_without_starts_for_the_search():
    """Before MuJoCo had `mesh_extrema` we look for the farthest corners ourselves: the same ones, ties apart."""
    points = np.random.default_rng(0).normal(size=(40, 3))
    model = mujoco.MjModel.from_xml_string(ROCK.format(" ".join(map(str, points.ravel()))))
    names = [n for n in dir(model) if n.startswith(("mesh_", "geom_")) and n != "mesh_extrema"]
    older = Hull.from_mujoco(SimpleNamespace(**{n: getattr(model, n) for n in names}), 0)
    newer = Hull.from_mujoco(model, 0)
    assert len(newer.vertices) > 10
    for name, a, b in zip(Hull._fields, older, newer, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


def test_sensors_are_known_by_name_whatever_their_numbers(monkeypatch):
    """MuJoCo 3.3.0 counts one less from `ballquat` on."""
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
