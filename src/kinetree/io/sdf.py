"""SDF, Gazebo's format: a model is rewritten as an equivalent URDF, and read as one.

SDF places links, joints and frames freely and in one another. URDF places each joint in its parent link, and the child
link at the joint. If an SDF joint is not at its child's origin, a massless link is put between the two.
"""

import math
from typing import NamedTuple

import numpy as np

from kinetree._unknown import did_you_mean

from .document import Element
from .report import Report

UNLIMITED = 1e15  # SDF writes "no limit" as 1e16; lengths and angles from here on are none
TYPES = {"revolute": "revolute", "continuous": "continuous", "prismatic": "prismatic", "fixed": "fixed"}
BALL = "sdf ball"  # A word that no URDF can hold by accident; see urdf.py.
WORLD = "world"
LEFT_OUT = ("plugin", "include", "gripper", "model")


class SdfPose(NamedTuple):
    """Rotation and position of a frame in another."""

    R: np.ndarray
    p: np.ndarray

    def then(self, inner: "SdfPose") -> "SdfPose":
        """A frame placed in this one."""
        return SdfPose(self.R @ inner.R, self.R @ inner.p + self.p)

    def inverse(self) -> "SdfPose":
        """This one, seen from the frame itself."""
        return SdfPose(self.R.T, -self.R.T @ self.p)


IDENTITY = SdfPose(np.eye(3), np.zeros(3))


def sdf_to_urdf(root: Element, report: Report) -> Element:
    """The <robot> that is equivalent to the first model of an <sdf> document."""
    model = _model(root, report)
    report.ignored.update(f"<{c.tag}>" for c in model.children if c.tag in LEFT_OUT)
    frames = _Frames(model)
    robot = Element("robot", {"name": model.attributes.get("name", "")}, model.line, model.file)
    joints = list(model.all("joint"))
    names = [link.attributes.get("name", "") for link in model.all("link")]
    if any(WORLD in (_end(j, "parent"), _end(j, "child")) for j in joints) and WORLD not in names:
        robot.children.append(_element("link", model, name=WORLD))
    for link in model.all("link"):
        robot.children.append(_link(link))
    for joint in joints:
        robot.children += _joint(joint, frames)
    return robot


def _model(root: Element, report: Report) -> Element:
    holders = [root, *root.all("world")]
    found = [m for holder in holders for m in holder.all("model")]
    if not found:
        root.fail("holds no <model>")
    if len(found) > 1:
        report.ignored["<model> beside the first"] += len(found) - 1
    return found[0]


def _element(tag: str, like: Element, *children: Element, **attributes: str) -> Element:
    new = Element(tag, attributes, like.line, like.file)
    new.children += children
    return new


def _end(joint: Element, tag: str) -> str:
    end = joint.find(tag)
    return "" if end is None else end.content.strip()


def _numbers(element: Element, count: int) -> tuple[float, ...]:
    """The content of an element as `count` numbers."""
    holder = _element(element.tag, element, value=element.content)
    return holder.numbers("value", count)


def _value(parent: Element | None, tag: str, default: float) -> float:
    found = None if parent is None else parent.find(tag)
    return (
        default if found is None or not found.content.strip() else _element(tag, found, v=found.content).bound("v", 0.0)
    )


def _pose(holder: Element | None) -> SdfPose:
    """The content of <pose>: x y z roll pitch yaw, or x y z and a quaternion x y z w."""
    pose = None if holder is None else holder.find("pose")
    if pose is None or not pose.content.strip():
        return IDENTITY
    if pose.attributes.get("rotation_format") == "quat_xyzw":
        x, y, z, a, b, c, w = _numbers(pose, 7)
        n = 2 / (a * a + b * b + c * c + w * w)
        R = np.array(
            [
                [1 - n * (b * b + c * c), n * (a * b - c * w), n * (a * c + b * w)],
                [n * (a * b + c * w), 1 - n * (a * a + c * c), n * (b * c - a * w)],
                [n * (a * c - b * w), n * (b * c + a * w), 1 - n * (a * a + b * b)],
            ]
        )
        return SdfPose(R, np.array([x, y, z]))
    x, y, z, *angles = _numbers(pose, 6)
    scale = math.pi / 180 if pose.attributes.get("degrees") in ("true", "1") else 1.0
    (cr, sr), (cp, sp), (cy, sy) = ((math.cos(scale * a), math.sin(scale * a)) for a in angles)
    R = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    return SdfPose(R, np.array([x, y, z]))


def _origin(pose: SdfPose, like: Element) -> Element:
    """The <origin> of URDF: x y z, and roll pitch yaw."""
    R = pose.R
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if math.hypot(R[0, 0], R[1, 0]) > 1e-9:
        roll, yaw = math.atan2(R[2, 1], R[2, 2]), math.atan2(R[1, 0], R[0, 0])
    else:  # looking straight up or down: roll and yaw are one turn
        roll, yaw = math.atan2(-R[1, 2], R[1, 1]), 0.0
    xyz, rpy = (" ".join(repr(float(v)) for v in w) for w in (pose.p, (roll, pitch, yaw)))
    return _element("origin", like, xyz=xyz, rpy=rpy)


class _Frames:
    """Places of links, joints and frames in the model. A joint may have the name of a link, as in old files."""

    def __init__(self, model: Element):
        self.named: dict[str, Element] = {}
        for tag in ("joint", "frame", "link"):  # a link comes before others of its name
            self.named.update({c.attributes.get("name", ""): c for c in model.all(tag)})
        self.known: dict[int, SdfPose] = {}
        self.waiting: set[int] = set()

    def place(self, name: str, asked: Element) -> SdfPose:
        """The place of a link, joint or frame in the model."""
        if name in self.named:
            return self.of(self.named[name])
        if name in ("", "__model__", WORLD):
            return IDENTITY
        return asked.fail(f"no link, joint or frame is called {name!r}{did_you_mean(name, self.named)}")

    def of(self, element: Element) -> SdfPose:
        """The place of an element in the model."""
        if id(element) in self.known:
            return self.known[id(element)]
        if id(element) in self.waiting:
            element.fail(f"{element.attributes.get('name')!r} is placed relative to itself")
        self.waiting.add(id(element))
        pose = element.find("pose")
        base = "" if pose is None else pose.attributes.get("relative_to", "")
        if not base:  # joints are placed in their child link, frames where they are attached, links in the model
            base = _end(element, "child") if element.tag == "joint" else element.attributes.get("attached_to", "")
        self.known[id(element)] = self.place(base, element).then(_pose(element))
        self.waiting.discard(id(element))
        return self.known[id(element)]


def _link(link: Element) -> Element:
    new = _element("link", link, name=link.text("name"))
    inertial = link.find("inertial")
    if inertial is not None:
        mass = _element("mass", inertial, value=repr(_value(inertial, "mass", 1.0)))
        given = inertial.find("inertia")
        keys = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        numbers = {k: repr(_value(given, k, float(k[1] == k[2]))) for k in keys}
        parts = (_origin(_pose(inertial), inertial), mass, _element("inertia", inertial, **numbers))
        new.children.append(_element("inertial", inertial, *parts))
    for part in link.children:
        if part.tag in ("visual", "collision"):
            new.children.append(_shape(part))
    return new


def _shape(part: Element) -> Element:
    """A <visual> or <collision>, with its geometry and colour."""
    new = _element(part.tag, part, _origin(_pose(part), part), name=part.attributes.get("name", ""))
    geometry = part.find("geometry")
    for shape in [] if geometry is None else geometry.children[:1]:
        words = {c.tag: " ".join(c.content.split()) for c in shape.children}
        if shape.tag == "mesh":
            words["filename"] = words.pop("uri", "").replace("model://", "package://")
        new.children.append(_element("geometry", part, _element(shape.tag, shape, **words)))
    material = part.find("material")
    diffuse = None if material is None else material.find("diffuse") or material.find("ambient")
    if diffuse is not None:
        rgba = " ".join([*diffuse.content.split(), "1"][:4])
        new.children.append(_element("material", part, _element("color", part, rgba=rgba), name=""))
    return new


def _joint(joint: Element, frames: _Frames) -> list[Element]:
    """The joint; if it is not at its child's origin, also a massless link and a fixed joint."""
    name, kind = joint.text("name"), joint.attributes.get("type", "")
    parent, child = _end(joint, "parent"), _end(joint, "child")
    if kind == "universal" or kind == "revolute2":
        return _two_hinges(joint, frames)
    if kind not in TYPES and kind != "ball":
        near = did_you_mean(kind, [*TYPES, "ball", "universal", "revolute2"])
        joint.fail(f"joints of type {kind!r} can not be read{near}")
    here = frames.of(joint)
    new = _hinge(joint, name, BALL if kind == "ball" else TYPES[kind], parent, child, joint.find("axis"), here, frames)
    placed = frames.place(parent, joint).inverse().then(here)
    new.children.append(_origin(placed, joint))
    return _with_offset(joint, new, here.inverse().then(frames.place(child, joint)), child)


def _with_offset(joint: Element, new: Element, offset: SdfPose, child: str) -> list[Element]:
    if np.allclose(offset.R, np.eye(3), atol=1e-12) and np.allclose(offset.p, 0, atol=1e-12):
        return [new]
    between = f"{new.attributes['name']}__frame"
    ends = {c.tag: c for c in new.children}
    ends["child"].attributes["link"] = between
    held = _element("joint", joint, _element("parent", joint, link=between), _element("child", joint, link=child))
    held.attributes.update(name=f"{between}_to_{child}", type="fixed")
    held.children.append(_origin(offset, joint))
    return [_element("link", joint, name=between), new, held]


def _two_hinges(joint: Element, frames: _Frames) -> list[Element]:
    """A universal joint: two hinges with a massless link between them."""
    name, parent, child = joint.text("name"), _end(joint, "parent"), _end(joint, "child")
    here, between = frames.of(joint), f"{name}__cross"
    first = _hinge(joint, f"{name}_1", "revolute", parent, between, joint.find("axis"), here, frames)
    first.children.append(_origin(frames.place(parent, joint).inverse().then(here), joint))
    second = _hinge(joint, f"{name}_2", "revolute", between, child, joint.find("axis2"), here, frames)
    second.children.append(_origin(IDENTITY, joint))
    rest = _with_offset(joint, second, here.inverse().then(frames.place(child, joint)), child)
    return [_element("link", joint, name=between), first, *rest]


def _hinge(
    joint: Element, name: str, kind: str, parent: str, child: str, axis: Element | None, here: SdfPose, frames: _Frames
) -> Element:
    """A URDF joint without its origin."""
    new = _element("joint", joint, name=name, type=kind)
    new.children += [_element("parent", joint, link=parent), _element("child", joint, link=child)]
    if axis is None or kind in ("fixed", BALL):
        return new
    stated = axis.find("xyz")
    xyz = np.array([0.0, 0.0, 1.0]) if stated is None else np.array(_numbers(stated, 3))
    frame = "" if stated is None else stated.attributes.get("expressed_in", "")
    old = axis.find("use_parent_model_frame")
    if frame or (old is not None and old.content.strip() in ("1", "true")):
        xyz = here.R.T @ frames.place(frame, axis).R @ xyz
    new.children.append(_element("axis", axis, xyz=" ".join(repr(float(v)) for v in xyz)))
    limit, dynamics = axis.find("limit"), axis.find("dynamics")
    lower, upper = (_value(limit, k, s * math.inf) for k, s in (("lower", -1), ("upper", 1)))
    free = lower <= -UNLIMITED and upper >= UNLIMITED
    if kind == "revolute" and free:
        new.attributes["type"] = "continuous"
    words = {
        "lower": "-inf" if lower <= -UNLIMITED else repr(lower),
        "upper": "inf" if upper >= UNLIMITED else repr(upper),
    }
    for key in ("effort", "velocity"):
        value = _value(limit, key, -1.0)
        words[key] = "inf" if value < 0 or value >= UNLIMITED else repr(value)
    new.children.append(_element("limit", axis, **words))
    if dynamics is not None:
        numbers = {k: repr(_value(dynamics, k, 0.0)) for k in ("damping", "friction")}
        new.children.append(_element("dynamics", dynamics, **numbers))
    mimic = axis.find("mimic")
    if mimic is not None:
        ratio, shift, at = (_value(mimic, k, d) for k, d in (("multiplier", 1.0), ("offset", 0.0), ("reference", 0.0)))
        facts = {
            "joint": mimic.attributes.get("joint", ""),
            "multiplier": repr(ratio),
            "offset": repr(shift - ratio * at),
        }
        new.children.append(_element("mimic", mimic, **facts))
    return new
