"""URDF: links and joints from an XML document to a model.

Every link is a body, the root link too: it stands on the base by a fixed joint, or by a free one. Bodies are numbered
from the root outward, the joints of a link in the order of the file. Colours, transmissions and sensors are not used by
dynamics.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from kinetree._unknown import did_you_mean, nearest
from kinetree.model import Fixed, Free, Joint, Limits, Model, Prismatic, Revolute, Spherical
from kinetree.model.checks import unphysical
from kinetree.spatial import Inertia, Rotation, Transform, Vec3

from .document import XACRO, Element
from .report import Report, few, in_file
from .sdf import BALL
from .urdf_world import NOTHING, TouchOptions, with_world

ROOT_JOINT = "root_joint"
TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
KNOWN = {"robot": {"link", "joint"}, "link": {"inertial", "collision"}}
KNOWN["joint"] = {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic"}


class Mechanism(NamedTuple):
    """Links and the joints that carry them, from the root outward."""

    links: list[Element]
    joints: list[Element | None]  # None carries the root
    parent: np.ndarray


def read_urdf(
    robot: Element, report: Report, floating_base: bool, touch: TouchOptions = NOTHING, folder: Path | None = None
) -> Model:
    """The model of a <robot> element.

    Arguments:
        robot: the root of the document.
        report: takes what is ignored and what is odd.
        floating_base: put a free joint under the root link, rather than fixing it.
        touch: what its links may touch.
        folder: where meshes are looked for.
    """
    report.name = robot.attributes.get("name", "")
    _refuse_xacro(robot)
    _note_ignored(robot, report)
    mechanism = _assemble(robot)
    links, joints, parent = mechanism
    names = [link.attributes["name"].strip() for link in links]
    root_joint = ROOT_JOINT
    joint_names = [joint.attributes["name"].strip() if joint else "" for joint in joints]
    while root_joint in joint_names:
        root_joint += "_"
    joint_names[0] = root_joint
    kinds = [_kind(joint, floating_base) for joint in joints]
    inertia = _inertias(links, report)
    _warn_unphysical(inertia, names, report)
    placements = _placements(joints)
    with in_file(robot.file):
        model = Model.from_arrays(
            parent,
            kinds,
            placements,
            inertia,
            names=names,
            joint_names=joint_names,
            allow_massless_leaves=True,
            allow_unphysical=True,
        )
    model = with_world(model, links, _origins, folder, touch, report)
    return _with_physics(model, joints, report)


def _macro(robot: Element) -> Element | None:
    """The first element that xacro, a language of macros for URDF, has to expand."""
    waiting = [robot]
    while waiting:
        element = waiting.pop()
        if element.tag.startswith("xacro:") or "${" in element.attributes.get("name", ""):
            return element
        waiting += element.children
    return None


def is_xacro(robot: Element) -> bool:
    """True if there is something to expand."""
    return _macro(robot) is not None


def _refuse_xacro(robot: Element) -> None:
    """Refuse a file in which xacro left something to expand."""
    found = _macro(robot)
    if found is not None:
        found.fail(XACRO)


def _note_ignored(robot: Element, report: Report) -> None:
    for element in (robot, *robot.children):
        for child in element.children:
            if element.tag in KNOWN and child.tag not in KNOWN[element.tag]:
                report.ignored[f"<{child.tag}>"] += 1


def _by_name(robot: Element, tag: str) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in robot.all(tag):
        name = element.text("name")
        if name in found:
            element.fail(f"a {tag} of this name stands already in line {found[name].line}")
        found[name] = element
    return found


def _assemble(robot: Element) -> Mechanism:
    """The parent of each link. There is one root, and every link is reached from it."""
    links, joints = _by_name(robot, "link"), _by_name(robot, "joint")
    if not links:
        robot.fail("has no links")
    carried: dict[str, list[tuple[str, Element]]] = {}
    carrier: dict[str, Element] = {}
    for joint in joints.values():
        ends = []
        for tag in ("parent", "child"):
            end = joint.find(tag)
            if end is None:
                joint.fail(f"needs a <{tag}>")
            link = end.text("link")
            if link not in links:
                name, near = joint.attributes["name"], did_you_mean(link, links)
                end.fail(f"joint {name!r} names a link {link!r} that does not exist{near}")
            ends.append(link)
        if ends[1] in carrier:
            other = carrier[ends[1]].attributes["name"]
            joint.fail(f"link {ends[1]!r} is already carried by joint {other!r}: loops are not trees")
        carrier[ends[1]] = joint
        carried.setdefault(ends[0], []).append((ends[1], joint))
    roots = [name for name in links if name not in carrier]
    if len(roots) != 1:
        robot.fail(
            f"has {len(roots)} root links, {few(roots)}" if roots else "its joints form a cycle: no link is the root"
        )
    order: list[Element] = []
    order_joints: list[Element | None] = []
    parent: list[int] = []
    waiting: list[tuple[str, Element | None, int]] = [(roots[0], None, -1)]
    while waiting:
        name, joint, up = waiting.pop()
        waiting += [(child, j, len(order)) for child, j in reversed(carried.get(name, []))]
        order.append(links[name])
        order_joints.append(joint)
        parent.append(up)
    if len(order) < len(links):
        reached = {link.attributes["name"].strip() for link in order}
        lost = [name for name in links if name not in reached]
        links[lost[0]].fail(f"is not reached from the root {roots[0]!r}: its joints form a cycle ({few(lost)})")
    return Mechanism(order, order_joints, np.array(parent, np.int64))


def _kind(joint: Element | None, floating_base: bool) -> Joint:
    if joint is None:
        return Free() if floating_base else Fixed()
    kind = joint.attributes.get("type", "")
    if kind == "fixed":
        return Fixed()
    if kind == "floating":
        return Free()
    if kind == BALL:
        return Spherical()
    stated = joint.find("axis")
    axis = (1.0, 0.0, 0.0) if stated is None else stated.numbers("xyz", 3, (1.0, 0.0, 0.0))
    if max(map(abs, axis)) < 1e-12:
        (stated or joint).fail(f"the axis of joint {joint.attributes['name']!r} is zero")
    if kind == "revolute":
        return Revolute(axis)
    if kind == "continuous":
        return Joint("continuous", Revolute(axis).rows)
    if kind == "prismatic":
        return Prismatic(axis)
    if kind == "planar":
        return _planar(axis if stated is not None else (0.0, 0.0, 1.0))
    if not kind:
        joint.fail("needs an attribute 'type'")
    near = nearest(kind, TYPES)
    meant = "" if near is None else f": did you mean {near!r}?"
    return joint.fail(f"type {kind!r} is none of {', '.join(TYPES)}{meant}")


def _planar(normal: tuple[float, ...]) -> Joint:
    """Two slides in the plane and a turn about its normal; for a normal along z the slides are along x and y."""
    n = np.array(normal) / np.linalg.norm(normal)
    least = np.eye(3)[(np.argmin(np.abs(n)) if abs(n[2]) < 1 else 0)]
    u = least - n * (least @ n)
    u /= np.linalg.norm(u)
    v = np.cross(n, u)
    x, y, z = (tuple(map(float, a)) for a in (u, v, n))
    return Joint("planar", ((0.0, 1.0, x), (0.0, 1.0, y), (1.0, 0.0, z)))  # type: ignore[arg-type]


def _origins(elements: list[Element | None]) -> tuple[np.ndarray, np.ndarray]:
    """Rotations (n, 3, 3) from child to parent, and positions (n, 3), of what has an <origin>."""
    xyz, rpy = np.zeros((len(elements), 3)), np.zeros((len(elements), 3))
    for i, element in enumerate(elements):
        origin = None if element is None else element.find("origin")
        if origin is not None:
            xyz[i] = origin.numbers("xyz", 3, (0.0, 0.0, 0.0))
            rpy[i] = origin.numbers("rpy", 3, (0.0, 0.0, 0.0))
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy).T, np.sin(rpy).T
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.moveaxis(np.array(rows), -1, 0), xyz


def _placements(joints: list[Element | None]) -> Transform:
    R, r = _origins(joints)
    return Transform(Rotation.from_array(np.swapaxes(R, -1, -2)), Vec3.from_array(r))


def _inertias(links: list[Element], report: Report) -> np.ndarray:
    """(n, 10), in link coordinates about the link's origin."""
    inertials = [link.find("inertial") for link in links]
    numbers = np.zeros((len(links), 7))  # mass, then ixx iyy izz ixy ixz iyz about the centre of mass
    for i, inertial in enumerate(inertials):
        if inertial is None:
            continue
        mass, inertia = inertial.find("mass"), inertial.find("inertia")
        if mass is None or inertia is None:
            report.warn(
                f"line {inertial.line}: link {links[i].attributes['name']!r} has no mass or no inertia; zero is used"
            )
        numbers[i, 0] = 0.0 if mass is None else mass.number("value")
        if inertia is not None:
            numbers[i, 1:4] = [inertia.number(k) for k in ("ixx", "iyy", "izz")]
            numbers[i, 4:] = [inertia.number(k, 0.0) for k in ("ixy", "ixz", "iyz")]
    R, c = _origins(inertials)
    mass = numbers[:, 0]
    xx, yy, zz, xy, xz, yz = numbers[:, 1:].T
    about_com = np.moveaxis(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), -1, 0)
    turned = R @ about_com @ np.swapaxes(R, -1, -2)
    squared = np.einsum("ni,ni->n", c, c)[:, None, None] * np.eye(3)
    whole = turned + mass[:, None, None] * (squared - c[:, :, None] * c[:, None, :])
    upper = [whole[:, i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    return np.stack([mass, *(mass[:, None] * c).T, *upper], -1)


def _warn_unphysical(inertia: np.ndarray, names: list[str], report: Report) -> None:
    bad = (inertia[:, 0] < 0) | unphysical(Inertia.from_array(inertia))
    if bad.any():
        which = few([names[i] for i in np.flatnonzero(bad)])
        report.warn(f"no distribution of mass has the inertia of link {which}; it is used unchanged")


def _with_physics(model: Model, joints: list[Element | None], report: Report) -> Model:
    """Damping, friction, limits and mimic joints."""
    nq, nv = model.nq, model.nv
    damping, friction = np.zeros(nv), np.zeros(nv)
    limits = Limits(np.full(nq, -np.inf), np.full(nq, np.inf), np.full(nv, np.inf), np.full(nv, np.inf))
    follows = {}
    for name, joint in zip(model.joint_names, joints, strict=True):
        if joint is None:
            continue
        v = model.v_index(name)
        q = model.q_index(name)
        if (dynamics := joint.find("dynamics")) is not None:
            damping[v], friction[v] = (dynamics.number(k, 0.0) for k in ("damping", "friction"))
        if (limit := joint.find("limit")) is not None:
            limits.velocity[v], limits.effort[v] = (limit.bound(k, np.inf) for k in ("velocity", "effort"))
            if joint.attributes["type"] in ("revolute", "prismatic"):
                limits.lower[q], limits.upper[q] = (limit.bound(k, 0.0) for k in ("lower", "upper"))
        if (mimic := joint.find("mimic")) is not None and v.stop > v.start:
            leader = mimic.text("joint")
            if leader in model.structure.joint_numbers:
                follows[name] = (leader, mimic.number("multiplier", 1.0), mimic.number("offset", 0.0))
            else:
                near = nearest(leader, model.structure.joint_numbers)
                meant = "" if near is None else f" (did you mean {near!r}?)"
                report.warn(
                    f"line {mimic.line}: joint {name!r} mimics {leader!r}, which does not exist{meant}; it moves freely"
                )
    for what, values in (("damping", damping), ("friction", friction)):
        if (values < 0).any():
            which = few([n for n in model.joint_names if (values[model.v_index(n)] < 0).any()])
            report.warn(f"{what} of joint {which} is negative; its absolute value is used")
    for what, values, where in (
        ("lower limit above the upper one", limits.lower > limits.upper, model.q_index),
        ("negative velocity limit", limits.velocity < 0, model.v_index),
        ("negative effort limit", limits.effort < 0, model.v_index),
    ):
        if values.any():
            which = few([n for n in model.joint_names if values[where(n)].any()])
            report.warn(f"joint {which} has a {what}; it is used unchanged")
    with in_file(report.file):
        model = model.replace(limits=limits)
        if damping.any():
            model = model.replace(damping=np.abs(damping))
        if friction.any():
            model = model.replace(friction=np.abs(friction))
        return model.couple(follows)
