"""MJCF, by way of MuJoCo's own compiler: its compiled model to ours.

A MuJoCo body may have several joints, each about a point of the body. Here each joint carries a body of its own: a
body's joints make a chain of massless bodies, shifted from point to point, and the body stands at the end.
Coordinates are in MuJoCo's order, q is qpos, number by number; velocities differ for free joints only (see
converters). Sites are massless bodies on fixed joints.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kinetree.model import Fixed, Free, Joint, Limits, Model, ModelError, Prismatic, Revolute, Spherical
from kinetree.model.checks import unphysical
from kinetree.model.copies import with_same_rows
from kinetree.spatial import Inertia, Quaternion, Rotation, Transform, Vec3

from .mjcf_motion import joint_bodies, with_motion
from .mjcf_sensors import read_sensors
from .mjcf_world import read_world
from .mujoco_model import armature, check_numbers, damping, disabled, in_our_order, strange_flags
from .report import Report, few, in_file

PUSHED = ("touch", "force", "torque", "contact")  # sensors that feel the forces of contacts
FREE, BALL, SLIDE, HINGE = range(4)  # MuJoCo's numbers of joint types


def read_mjcf(source: str | bytes | Path, report: Report) -> Model:
    """The model of an MJCF file, or of its text.

    Arguments:
        source: a path, so that includes and meshes are found, or the XML.
        report: takes what is not modelled.
    """
    try:
        compiled = compiled_by_mujoco(source)
    except ImportError:
        raise ImportError("MJCF files are compiled by MuJoCo: pip install 'kinetree[io]'") from None
    except Exception as error:  # MuJoCo raises ValueError, FatalError, ...: whatever it is, the file is at fault
        raise ModelError(f"{report.file}: MuJoCo can not compile it: {' '.join(str(error).split())}") from None
    return from_mujoco_model(compiled, report)


def compiled_by_mujoco(source: str | bytes | Path) -> Any:
    """The `mujoco.MjModel` of an MJCF file, or of its text."""
    kind = import_module("mujoco").MjModel
    if isinstance(source, Path):
        return kind.from_xml_path(str(source))
    return kind.from_xml_string(source if isinstance(source, str) else source.decode("utf-8"))


def from_mujoco_model(compiled: Any, report: Report) -> Model:
    """Our model of a compiled MuJoCo model (`mujoco.MjModel`)."""
    report.name = compiled.names[: compiled.names.find(b"\0")].decode(errors="replace")
    check_numbers(compiled, report.file)
    bodies = _Bodies(compiled)
    for number in range(1, compiled.nbody):
        bodies.add_body(number)
    for number in range(compiled.nsite):
        bodies.add_site(number)
    inertia = np.array(bodies.inertia).reshape(-1, 10)
    bad = unphysical(Inertia.from_array(inertia))
    if bad.any():
        which = few([bodies.names[i] for i in np.flatnonzero(bad)])
        report.warn(f"no distribution of mass has the inertia of body {which}; it is used unchanged")
    quaternion, position = np.array(bodies.quaternion).reshape(-1, 4), np.array(bodies.position).reshape(-1, 3)
    turned = Quaternion.from_array(quaternion).rotation()
    with in_file(report.file):
        model = Model.from_arrays(
            bodies.parent,
            bodies.joints,
            Transform(Rotation(*map(np.asarray, turned)), Vec3.from_array(position)),
            inertia,
            gravity=np.zeros(3) if disabled(compiled, "GRAVITY") else compiled.opt.gravity,
            names=bodies.names,
            joint_names=bodies.joint_names,
            allow_massless_leaves=True,
            allow_unphysical=True,
        )
        model = _with_physics(model, compiled, report)
        model = model.replace(world=read_world(model, compiled, bodies.ours, report))
        model = with_motion(model, compiled, bodies.ours, report)
        wiring = None if model.actuators is None else model.actuators.wiring
        scene = None if model.world is None else model.world.scene
        shapes = () if scene is None else scene.layout.names
        found = read_sensors(compiled, bodies.ours, joint_bodies(model), wiring, shapes, report)
        model = with_same_rows(model, sensors=found)
        if compiled.opt.noslip_iterations and any(s.kind in PUSHED for s in found):
            report.warn("friction is without slip, but sensors of touch, contact, force and torque feel soft friction")
    _note_unmodelled(compiled, report)
    return model


class _Bodies:
    """Our bodies, as they are made out of MuJoCo's."""

    def __init__(self, compiled: Any):
        self.compiled = compiled
        self.parent: list[int] = []
        self.joints: list[Joint] = []
        self.names: list[str] = []
        self.joint_names: list[str] = []
        self.quaternion: list[np.ndarray] = []
        self.position: list[np.ndarray] = []
        self.inertia: list[np.ndarray] = []
        self.ours = {0: -1}  # our number of each MuJoCo body
        self._taken: set[str] = set()
        self._joint_taken: set[str] = set()

    def _add(
        self, parent: int, joint: Joint, names: tuple[str, str], quaternion: Any, position: Any, inertia: Any
    ) -> int:
        self.parent.append(parent)
        self.joints.append(joint)
        self.names.append(_unused(names[0], self._taken))
        self.joint_names.append(_unused(names[1], self._joint_taken))
        self.quaternion.append(quaternion)
        self.position.append(position)
        self.inertia.append(inertia)
        return len(self.parent) - 1

    def add_body(self, number: int) -> None:
        """A chain of its joints, then the body itself."""
        m = self.compiled
        name = m.body(number).name or f"body_{number}"
        first, count = int(m.body_jntadr[number]), int(m.body_jntnum[number])
        joints = range(first, first + count)
        free = count and m.jnt_type[first] == FREE  # its coordinates are its pose in the world
        at = self.ours[int(m.body_parentid[number])]
        quaternion, position = _IDENTITY if free else (m.body_quat[number], m.body_pos[number])
        point = np.zeros(3)  # of the body, where the last joint was
        own = _inertia(m, number)
        for j in joints:
            joint = m.joint(j).name or f"joint_{j}"
            axis, anchor = m.jnt_axis[j], np.zeros(3) if free else m.jnt_pos[j]
            turn, shift = _reference(m, j)
            place = position + _turn(quaternion, anchor - point + shift)
            rotation = _multiply(quaternion, turn)
            last = j == joints[-1] and not anchor.any()
            at = self._add(
                at,
                _joint(int(m.jnt_type[j]), axis),
                (name if last else f"{name}/{joint}", joint),
                rotation,
                place,
                own if last else np.zeros(10),
            )
            point, (quaternion, position) = anchor, _IDENTITY
        if not count or point.any():
            names = (name, f"{name}/fixed")
            at = self._add(at, Fixed(), names, quaternion, position + _turn(quaternion, -point), own)
        self.ours[number] = at

    def add_site(self, number: int) -> None:
        """A frame without mass."""
        m = self.compiled
        name = m.site(number).name or f"site_{number}"
        parent = self.ours[int(m.site_bodyid[number])]
        name = f"site:{name}" if name in self._taken else name
        self._add(parent, Fixed(), (name, f"{name}/fixed"), m.site_quat[number], m.site_pos[number], np.zeros(10))


_IDENTITY = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _joint(kind: int, axis: np.ndarray) -> Joint:
    if kind == FREE:
        return Free()
    if kind == BALL:
        return Spherical()
    return Prismatic(axis) if kind == SLIDE else Revolute(axis)


def _reference(m: Any, j: int) -> tuple[np.ndarray, np.ndarray]:
    """The start of a hinge or slider whose coordinate is qpos: turned, or shifted, back by its reference."""
    kind, axis, start = m.jnt_type[j], m.jnt_axis[j], m.qpos0[m.jnt_qposadr[j]]
    if kind == HINGE:
        return np.array([np.cos(start / 2), *(-np.sin(start / 2) * axis)]), np.zeros(3)
    return _IDENTITY[0], -start * axis if kind == SLIDE else np.zeros(3)


def _multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.array(Quaternion(*p) * Quaternion(*q))


def _turn(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array(Quaternion(*q).turn(Vec3(*v)))


def _inertia(m: Any, number: int) -> np.ndarray:
    """(10,) in body coordinates about the body's origin."""
    mass, c = m.body_mass[number], m.body_ipos[number]
    R = np.swapaxes(np.array(Quaternion(*m.body_iquat[number]).rotation()).reshape(3, 3), 0, 1)
    I = R @ np.diag(m.body_inertia[number]) @ R.T + mass * ((c @ c) * np.eye(3) - np.outer(c, c))
    return np.array([mass, *(mass * c), I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])


def _with_physics(model: Model, m: Any, report: Report) -> Model:
    stiffness, rest = np.zeros(m.nv), np.array(m.qpos_spring)
    limits = Limits(np.full(m.nq, -np.inf), np.full(m.nq, np.inf), np.full(m.nv, np.inf), np.full(m.nv, np.inf))
    dofs = np.append(m.jnt_dofadr, m.nv)
    for j in range(m.njnt):
        at, kind = int(m.jnt_qposadr[j]), m.jnt_type[j]
        stiffness[dofs[j] : dofs[j + 1]] = m.jnt_stiffness[j]
        if m.jnt_limited[j] and kind in (SLIDE, HINGE):
            limits.lower[at], limits.upper[at] = m.jnt_range[j]
        if m.jnt_actfrclimited[j]:
            limits.effort[dofs[j]] = np.abs(m.jnt_actfrcrange[j]).max()
    model = model.replace(limits=limits)
    if disabled(m, "SPRING"):
        stiffness[:] = 0
    rotors, dampers = armature(m), damping(m)
    friction = in_our_order(m, np.maximum(m.dof_frictionloss, 0))  # as MuJoCo takes it
    _warn_of_pushing({"armature": rotors, "damping": dampers, "stiffness": stiffness}, m, report)
    if rotors.any():
        model = model.replace(armature=rotors, allow_unphysical=True)
    if friction.any():
        model = model.replace(friction=friction)
    if dampers.any() or stiffness.any():
        model = model.replace(damping=dampers, stiffness=stiffness, rest=rest, allow_unphysical=True)
    return model


def _warn_of_pushing(given: dict[str, np.ndarray], m: Any, report: Report) -> None:
    """Warn about negative numbers, which push instead of resisting. MuJoCo accepts them, and so does kinetree."""
    for what, values in given.items():
        if (values < 0).any():
            joints = dict.fromkeys(int(j) for j in m.dof_jntid[values < 0])
            which = few([m.joint(j).name or f"joint_{j}" for j in joints])
            report.warn(f"{what} of joint {which} is negative; it is used unchanged")


def _uneven(m: Any) -> int:
    """How many free joints have dampers along the axes of the world that differ. Ours are along the body's."""
    along = m.dof_damping[m.jnt_dofadr[m.jnt_type == FREE, None] + np.arange(3)]
    return int((along != along[:, :1]).any(1).sum())


def _note_unmodelled(m: Any, report: Report) -> None:
    """Report the features of MuJoCo that kinetree does not model."""

    def count(name: str) -> int:
        return int(np.count_nonzero(getattr(m, name, 0)))

    ignored = {
        "flexible bodies": m.nflex,
        "plugins": m.nplugin,
        "adhesion": count("geom_adhesion") + count("pair_adhesion"),
        "moving surfaces": count("geom_surfacevel"),
        "nonlinear springs": count("jnt_stiffnesspoly") + count("tendon_stiffnesspoly"),
        "nonlinear damping": count("dof_dampingpoly") + count("actuator_dampingpoly") + count("tendon_dampingpoly"),
        "dampers of free joints that differ along the axes of the world": _uneven(m),
        "plastic springs": int(getattr(m, "nplastic", 0)),
    }
    report.ignored.update({what: n for what, n in ignored.items() if n})
    report.ignored.update({f"flag {name}": 1 for name in strange_flags(m)})
