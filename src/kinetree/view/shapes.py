"""What bodies look like: the primitives and meshes of a robot file, or else capsules between joints."""

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import trimesh

import kinetree as kt

STEEL, ORANGE = (110, 130, 155), (194, 65, 12)


class Shape(NamedTuple):
    """A mesh in the frame of a body; body −1 is the world."""

    body: int
    mesh: trimesh.Trimesh
    colour: tuple[int, int, int] = STEEL


def shapes(model: kt.Model, source: Path | None = None) -> list[Shape]:
    """Shapes from the file that the model was loaded from; a skeleton where it has none."""
    found: list[Shape] = []
    if source is not None:
        root = ElementTree.parse(source).getroot()
        found = _urdf_shapes(model, root, source.parent) if root.tag == "robot" else _mjcf_shapes(model, source)
    return found or skeleton(model)


def _numbers(text: str | None, default: str) -> np.ndarray:
    return np.array([float(x) for x in (text or default).split()])


def _pose(element: Any) -> np.ndarray:
    """4×4, from <origin xyz rpy>."""
    if element is None:
        return np.eye(4)
    roll, pitch, yaw = _numbers(element.get("rpy"), "0 0 0")
    pose = trimesh.transformations.euler_matrix(roll, pitch, yaw, "sxyz")
    pose[:3, 3] = _numbers(element.get("xyz"), "0 0 0")
    return pose


def _urdf_shapes(model: kt.Model, robot: Any, folder: Path) -> list[Shape]:
    found = []
    for link in robot.iter("link"):
        for visual in link.findall("visual"):
            mesh = _urdf_mesh(visual.find("geometry"), folder)
            if mesh is not None:
                found.append(
                    Shape(
                        model.body_index(link.get("name").strip()), mesh.apply_transform(_pose(visual.find("origin")))
                    )
                )
    return found


def _urdf_mesh(geometry: Any, folder: Path) -> trimesh.Trimesh | None:
    """A primitive, or a mesh file that is there; None otherwise."""
    if geometry is None or not len(geometry):
        return None
    part = geometry[0]
    if part.tag == "box":
        return trimesh.creation.box(_numbers(part.get("size"), "1 1 1"))
    if part.tag == "cylinder":
        return trimesh.creation.cylinder(float(part.get("radius")), float(part.get("length")))
    if part.tag == "sphere":
        return trimesh.creation.icosphere(3, float(part.get("radius")))
    name = (part.get("filename") or "").split("://")[-1]
    places = [folder / name, *(up / name for up in folder.parents), *(up / Path(name).name for up in (folder,))]
    for place in places:
        if name and place.is_file():
            mesh = trimesh.load_mesh(place)
            return mesh.apply_scale(_numbers(part.get("scale"), "1 1 1"))
    return None


def _mjcf_shapes(model: kt.Model, source: Path) -> list[Shape]:
    """MuJoCo's geoms, except planes and height fields."""
    mujoco = import_module("mujoco")
    m = mujoco.MjModel.from_xml_path(str(source))
    kinds = mujoco.mjtGeom
    found = []
    for g in range(m.ngeom):
        size = m.geom_size[g]
        kind = m.geom_type[g]
        if kind == kinds.mjGEOM_SPHERE:
            mesh = trimesh.creation.icosphere(3, size[0])
        elif kind == kinds.mjGEOM_CAPSULE:
            mesh = capsule(2 * size[1], size[0])
        elif kind == kinds.mjGEOM_CYLINDER:
            mesh = trimesh.creation.cylinder(size[0], 2 * size[1])
        elif kind == kinds.mjGEOM_BOX:
            mesh = trimesh.creation.box(2 * size)
        elif kind == kinds.mjGEOM_ELLIPSOID:
            mesh = trimesh.creation.icosphere(3).apply_scale(size)
        elif kind == kinds.mjGEOM_MESH:
            mesh = _mujoco_mesh(m, int(m.geom_dataid[g]))
        else:
            continue
        body = m.body(m.geom_bodyid[g]).name
        pose = trimesh.transformations.quaternion_matrix(m.geom_quat[g])
        pose[:3, 3] = m.geom_pos[g]
        red, green, blue = (int(255 * c) for c in m.geom_rgba[g][:3])
        if m.geom_bodyid[g] == 0 or m.geom_rgba[g][3] == 0:
            continue
        found.append(Shape(model.body_index(body), mesh.apply_transform(pose), (red, green, blue)))
    return found


def _mujoco_mesh(m: Any, number: int) -> trimesh.Trimesh:
    first, count = m.mesh_vertadr[number], m.mesh_vertnum[number]
    face, faces = m.mesh_faceadr[number], m.mesh_facenum[number]
    return trimesh.Trimesh(m.mesh_vert[first : first + count], m.mesh_face[face : face + faces], process=False)


def capsule(length: float, radius: float) -> trimesh.Trimesh:
    """A capsule about z, its middle at the origin; `length` without the caps."""
    mesh = trimesh.creation.capsule(height=length, radius=radius, count=[16, 8])
    return mesh.apply_translation(-mesh.bounds.mean(0))


def skeleton(model: kt.Model) -> list[Shape]:
    """A capsule from each joint to the next, and a rod along each joint's axis."""
    pose = kt.forward_kinematics(model, kt.neutral(model))
    R, p = pose.rotation, pose.position
    parent = np.asarray(model.parent)
    span = np.ptp(np.concatenate([p, np.zeros((1, 3))]), axis=0).max() if len(p) else 1.0
    radius = max(0.02 * span, 1e-3) if len(p) < 12 else max(0.01 * span, 1e-3)
    found = []
    for body, up in enumerate(parent):
        if up >= 0:
            way = R[up].T @ (p[body] - p[up])
            length = float(np.linalg.norm(way))
            if length > 1e-9:
                turn = trimesh.geometry.align_vectors([0, 0, 1], way / length)
                link = capsule(length, radius).apply_transform(turn).apply_translation(way / 2)
                found.append(Shape(int(up), link))
        if model.structure.v_start[body + 1] - model.structure.v_start[body] == 1:
            found.append(Shape(body, _axis(model, body, radius), ORANGE))
        if body not in parent:  # a leaf ends somewhere: at its centre of mass
            found.append(Shape(body, _tip(model, body, radius)))
    return found


def _axis(model: kt.Model, body: int, radius: float) -> trimesh.Trimesh:
    E = model.frames.E
    axis = np.array([np.asarray(x)[body] for x in (E.xz, E.yz, E.zz)])  # z of the row in the body's frame
    rod = trimesh.creation.cylinder(0.6 * radius, 6 * radius)
    return rod.apply_transform(trimesh.geometry.align_vectors([0, 0, 1], axis))


def _tip(model: kt.Model, body: int, radius: float) -> trimesh.Trimesh:
    mass = float(np.asarray(model.inertia.mass)[body])
    centre = np.array([np.asarray(x)[body] for x in model.inertia.h]) / mass if mass > 0 else np.zeros(3)
    return trimesh.creation.icosphere(2, 1.5 * radius).apply_translation(centre)
