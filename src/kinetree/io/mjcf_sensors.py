"""Sensors of a compiled MuJoCo model."""

from importlib import import_module
from typing import Any

import numpy as np

from kinetree.model import Mount, Sensor
from kinetree.model.actuators import Wiring
from kinetree.model.sensor import CONTACT_DATA, CONTACT_REDUCE, Side
from kinetree.sense.measure import KINDS

from .mujoco_model import disabled
from .report import Report

# Words of MuJoCo's enumeration, and of its files.
RENAMED = {"jointactfrc": "jointactuatorfrc", "tendonactfrc": "tendonactuatorfrc"}
BODY, XBODY, JOINT, GEOM, SITE, CAMERA, TENDON, ACTUATOR = 1, 2, 3, 5, 6, 7, 18, 19  # MuJoCo's numbers of objects
ZONES = {2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box"}


NOTHING = -2  # the number of a shape that never touches


def read_sensors(
    m: Any,
    ours: dict[int, int],
    joints: dict[int, int],
    wiring: Wiring | None,
    shapes: tuple[str, ...],
    report: Report,
) -> tuple[Sensor, ...]:
    """The sensors that are modelled; others are reported.

    Arguments:
        m: the compiled model.
        ours: our number of each of its bodies.
        joints: for each of its joints, the body of ours that it moves.
        wiring: of the actuators that are modelled.
        shapes: names of the shapes that may touch.
        report: takes what is not modelled.
    """
    found = []
    taken: set[str] = set()
    kinds = import_module("mujoco").mjtSensor
    still = disabled(m, "ACTUATION")  # then MuJoCo reports no velocities of actuators
    if m.nsensor and disabled(m, "SENSOR"):
        report.ignored["flag sensor (disabled)"] += 1
    for i in range(m.nsensor):
        kind = kinds(int(m.sensor_type[i])).name.removeprefix("mjSENS_").lower()
        kind = RENAMED.get(kind, kind)
        of, number = int(m.sensor_objtype[i]), int(m.sensor_objid[i])
        mount = _mount(m, of, number, ours) if of in (BODY, XBODY, GEOM, SITE, CAMERA) else Mount()
        relative = m.sensor_refid[i] >= 0 and kind != "contact"
        reference = _mount(m, int(m.sensor_reftype[i]), int(m.sensor_refid[i]), ours) if relative else None
        turning = relative and reference is None  # relative to a camera that turns by itself
        several = of == ACTUATOR and m.sensor_dim[i] != 1
        late = np.any(m.sensor_delay[i]) or np.any(m.sensor_interval[i])
        zoned = kind == "touch" or (kind == "contact" and of == SITE)
        strange = zoned and int(m.site_type[number]) not in ZONES  # the inside of a mesh
        if kind not in KINDS or mount is None or turning or several or late or strange:
            report.ignored[f"sensors ({kind})"] += 1
            continue
        name = m.sensor(i).name or f"sensor_{i}"
        while name in taken:
            name += "_"
        taken.add(name)
        zone = None
        if zoned:
            zone = ZONES[int(m.site_type[number])], tuple(map(float, m.site_size[number]))
        found.append(
            Sensor(
                kind,
                name,
                mount,
                reference,
                joints[number] if of == JOINT else -1,
                _actuator(m, wiring, number) if of == ACTUATOR and not (still and kind == "actuatorvel") else -1,
                zone,
                tuple(map(float, m.opt.magnetic)) if kind == "magnetometer" else (0.0, 0.0, 0.0),
                float(m.sensor_cutoff[i]),
                number if of == TENDON else -1,
                **(_contact(m, i, ours, shapes) if kind == "contact" else {}),
            )
        )
    return tuple(found)


def _contact(m: Any, i: int, ours: dict[int, int], shapes: tuple[str, ...]) -> dict[str, Any]:
    """The contacts that a contact sensor counts, and the data that it reports."""
    data = tuple(name for k, name in enumerate(CONTACT_DATA) if int(m.sensor_intprm[i, 0]) >> k & 1)
    size = sum(CONTACT_DATA[name] for name in data)

    def side(of: int, number: int) -> Side | None:
        if of == GEOM:
            name = m.geom(number).name or f"geom_{number}"
            return Side("shape", shapes.index(name) if name in shapes else NOTHING)
        if of in (BODY, XBODY):
            return Side("body" if of == BODY else "subtree", ours[number])
        return None

    sides = (
        side(int(m.sensor_objtype[i]), int(m.sensor_objid[i])),
        side(int(m.sensor_reftype[i]), int(m.sensor_refid[i])),
    )
    reduce, num = CONTACT_REDUCE[int(m.sensor_intprm[i, 1])], int(m.sensor_dim[i]) // size
    return {"sides": sides, "data": data, "reduce": reduce, "num": num}


def _actuator(m: Any, wiring: Wiring | None, number: int) -> int:
    """Its place among those that are modelled, or −1."""
    control = int(m.actuator_ctrladr[number])
    return wiring.controls.index(control) if wiring is not None and control in wiring.controls else -1


def _mount(m: Any, of: int, number: int, ours: dict[int, int]) -> Mount | None:
    """The frame of an object; None for a camera that turns by itself."""

    def placed(body: int, position: Any, orientation: Any) -> Mount:
        return Mount(ours[body], tuple(map(float, position)), tuple(map(float, orientation)))

    if of == BODY:
        return placed(number, m.body_ipos[number], m.body_iquat[number])
    if of == XBODY:
        return placed(number, (0, 0, 0), (1, 0, 0, 0))
    if of == GEOM:
        return placed(int(m.geom_bodyid[number]), m.geom_pos[number], m.geom_quat[number])
    if of == SITE:
        return placed(int(m.site_bodyid[number]), m.site_pos[number], m.site_quat[number])
    if of == CAMERA and m.cam_mode[number] == 0:
        return placed(int(m.cam_bodyid[number]), m.cam_pos[number], m.cam_quat[number])
    return None
