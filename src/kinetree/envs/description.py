"""Robots of the environments, described in code: bodies of capsules and spheres, and their joints, to a model.

Numbers and rules are those of MJCF: masses from volumes, several joints to a body, each about a point of it. So the
robots match files of MuJoCo, but MuJoCo is not needed to make them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinetree.model import Actuator, Fixed, Free, Limits, Model, Prismatic, Revolute, Shape, with_shapes
from kinetree.model.state import DEFAULT_STEPPING, Keyframes
from kinetree.model.world import SOLIMP, SOLREF, JointSoftness, World
from kinetree.spatial import Quaternion, Rotation, Transform, Vec3


class Capsule(NamedTuple):
    """A capsule about the line from `start` to `end`, in the body's frame; a sphere where they are the same."""

    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius: float


def sphere(center: tuple[float, float, float], radius: float) -> Capsule:
    """A ball."""
    return Capsule(center, center, radius)


def rod(center: Any, half_length: float, angle: float, radius: float) -> Capsule:
    """A capsule whose axis is z, turned about y by an angle."""
    way = half_length * np.array([np.sin(angle), 0.0, np.cos(angle)])
    start, end = np.asarray(center) - way, np.asarray(center) + way
    return Capsule(tuple(start), tuple(end), radius)


@dataclass(frozen=True)
class JointSpec:
    """A joint of a body; its axis goes through the point `anchor` of the body."""

    name: str
    kind: str = "hinge"  # or "slide", "free"
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    anchor: tuple[float, float, float] = (0.0, 0.0, 0.0)
    range: tuple[float, float] = (-np.inf, np.inf)  # radians or metres
    armature: float = 0.0
    damping: float = 0.0
    stiffness: float = 0.0


@dataclass(frozen=True)
class BodySpec:
    """A body, placed in its parent's frame. Without joints it is fixed to the parent."""

    name: str
    parent: str | None
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    joints: tuple[JointSpec, ...] = ()
    shapes: tuple[Capsule, ...] = ()
    orientation: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Robot:
    """A robot, and its floor."""

    bodies: Sequence[BodySpec]
    motors: Mapping[str, float]  # joint -> gear, in the order of the controls
    control_range: tuple[float, float] = (-1.0, 1.0)
    density: float = 1000.0  # kg/m³
    total_mass: float | None = None  # kg; masses are scaled to this sum, if it is given
    start: Mapping[str, float] = dataclasses.field(default_factory=dict)  # start coordinates that are not 0
    floor: Mapping[str, Any] | None = None  # options of the floor's Shape; None for no floor
    surface: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # options of the robot's own shapes
    limit_solimp: tuple[float, ...] = SOLIMP
    timestep: float = 0.002  # s
    integrator: str = "Euler"

    def model(self) -> Model:
        """The model."""
        built = _Built(self.density)
        for body in self.bodies:
            built.add(body)
        inertia = np.array(built.inertia)
        moving = built.moves(np.arange(len(inertia)))
        if self.total_mass is not None:
            inertia = inertia * (self.total_mass / inertia[moving, 0].sum())
        turned = Quaternion.from_array(np.array(built.orientation, float)).rotation()
        place = Transform(Rotation(*map(np.asarray, turned)), Vec3.from_array(np.array(built.position, float)))
        model = Model.from_arrays(
            built.parent, built.kinds, place, inertia, names=built.names, joint_names=built.joint_names
        )
        model = _with_physics(model, built.joints, self.limit_solimp)
        model = with_shapes(model, [*self._floor(), *built.shapes(self.surface)], exclude=self._neighbours())
        motors = [Actuator.motor(j, gear=gear, ctrl_range=self.control_range) for j, gear in self.motors.items()]
        model = model.replace(actuators=motors, timestep=self.timestep, integrator=self.integrator)
        stepping = dataclasses.replace(
            model.stepping or DEFAULT_STEPPING, keyframes=Keyframes(start=self._start(model))
        )
        return dataclasses.replace(model, stepping=stepping)

    def _neighbours(self) -> list[tuple[str, str]]:
        """Bodies that never touch: those of a rigid group, and of the group that carries it."""
        group: dict[str | None, str | None] = {None: None}
        above: dict[str | None, str | None] = {}
        for body in self.bodies:
            group[body.name] = body.name if body.joints else group[body.parent]
            if body.joints:
                above[body.name] = group[body.parent]
        names = [body.name for body in self.bodies]
        return [(a, b) for a in names for b in names if group[b] is not None and above.get(group[a]) == group[b]]

    def _floor(self) -> list[Shape]:
        return [] if self.floor is None else [Shape("plane", name="floor", **self.floor)]

    def _start(self, model: Model) -> np.ndarray:
        q = np.array(model.structure.neutral, float)
        for body in self.bodies:
            for joint in body.joints:
                if joint.kind == "free":
                    q[model.q_index(joint.name)] = [*body.position, *body.orientation]
        for name, value in self.start.items():
            q[model.q_index(name)] = value
        return q


class _Built:
    """The bodies so far. A body with several joints is a chain; its frame is at the anchor of the last joint."""

    def __init__(self, density: float):
        self.density = density
        self.parent, self.kinds, self.position, self.orientation, self.inertia = [], [], [], [], []
        self.names, self.joint_names, self.joints = [], [], []
        self.solids: list[tuple[int, Capsule]] = []
        self.last: dict[str | None, tuple[int, np.ndarray]] = {None: (-1, np.zeros(3))}  # number, anchor in its body

    def add(self, body: BodySpec) -> None:
        number, anchor = self.last[body.parent]
        place, turn = np.array(body.position, float) - anchor, body.orientation
        at = np.zeros(3)
        joints = body.joints or (None,)
        for k, joint in enumerate(joints):
            to = np.zeros(3) if joint is None else np.array(joint.anchor, float)
            free = joint is not None and joint.kind == "free"  # its place is in its coordinates
            moved = np.array([*Quaternion.from_array(np.array(turn)).turn(Vec3.from_array(to - at))])
            self.parent.append(number)
            self.position.append(np.zeros(3) if free else place + moved)
            self.orientation.append((1.0, 0.0, 0.0, 0.0) if free else turn)
            self.kinds.append(_kind(joint))
            self.names.append(body.name if k == len(joints) - 1 else f"{body.name}/{joint.name}")  # type: ignore[union-attr]
            self.joint_names.append(body.name if joint is None else joint.name)
            self.joints.append(joint)
            self.inertia.append(np.zeros(10))
            number, at = len(self.parent) - 1, to
            place, turn = np.zeros(3), (1.0, 0.0, 0.0, 0.0)
        for solid in body.shapes:
            moved = Capsule(tuple(np.array(solid.start) - at), tuple(np.array(solid.end) - at), solid.radius)
            self.solids.append((number, moved))
            self.inertia[number] += _inertia(moved, self.density)
        self.last[body.name] = number, at

    def moves(self, numbers: np.ndarray) -> np.ndarray:
        """Which bodies are not fixed to the base."""
        moving = np.zeros(len(self.parent), bool)
        for i, (parent, joint) in enumerate(zip(self.parent, self.joints, strict=True)):
            moving[i] = joint is not None or (parent >= 0 and moving[parent])
        return moving[numbers]

    def shapes(self, surface: Mapping[str, Any]) -> list[Shape]:
        found = []
        for number, (start, end, radius) in self.solids:
            half = 0.5 * np.linalg.norm(np.subtract(end, start))
            center = 0.5 * np.add(start, end)
            if half == 0:
                found.append(Shape("sphere", (radius,), number, center, **surface))
            else:
                turn = _z_to(np.subtract(end, start) / (2 * half))
                found.append(Shape("capsule", (radius, float(half)), number, center, turn, **surface))
        return found


def _kind(joint: JointSpec | None) -> Any:
    if joint is None:
        return Fixed()
    axis = np.array(joint.axis, float)
    return {"hinge": Revolute(axis), "slide": Prismatic(axis), "free": Free()}[joint.kind]


def _inertia(solid: Capsule, density: float) -> np.ndarray:
    """(10,): mass, first moments, and moments of inertia about the body's origin."""
    start, end, r = np.array(solid.start), np.array(solid.end), solid.radius
    length = float(np.linalg.norm(end - start))
    tube, ball = density * np.pi * r**2 * length, density * 4 / 3 * np.pi * r**3
    along = tube * r**2 / 2 + ball * 2 / 5 * r**2
    across = tube * (3 * r**2 + length**2) / 12 + ball * (2 / 5 * r**2 + length**2 / 4 + 3 / 8 * length * r)
    axis = (end - start) / length if length else np.array([0.0, 0.0, 1.0])
    about = across * np.eye(3) + (along - across) * np.outer(axis, axis)
    m, c = tube + ball, (start + end) / 2
    I = about + m * ((c @ c) * np.eye(3) - np.outer(c, c))
    return np.array([m, *(m * c), I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])


def _z_to(way: np.ndarray) -> np.ndarray:
    """The shortest turn of the z axis to a direction, as a quaternion."""
    turn = np.array([1 + way[2], -way[1], way[0], 0.0])
    size = np.linalg.norm(turn)
    return np.array([0.0, 1.0, 0.0, 0.0]) if size < 1e-9 else turn / size


def _with_physics(model: Model, joints: list[JointSpec | None], limit_solimp: tuple[float, ...]) -> Model:
    nq, nv = model.nq, model.nv
    numbers: dict[str, Any] = {name: np.zeros(nv) for name in ("armature", "damping", "stiffness")}
    lower, upper = np.full(nq, -np.inf), np.full(nq, np.inf)
    for joint in joints:
        if joint is None or joint.kind == "free":
            continue
        for name, values in numbers.items():
            values[model.v_index(joint.name)] = getattr(joint, name)
        lower[model.q_index(joint.name)], upper[model.q_index(joint.name)] = joint.range
    endless = np.full(nv, np.inf)
    soft = JointSoftness.default(nv)
    soft = soft._replace(limit_solref=np.tile(SOLREF, (nv, 1)), limit_solimp=np.tile(limit_solimp, (nv, 1)))
    return model.replace(**numbers, limits=Limits(lower, upper, endless, endless), world=World(joints=soft))
