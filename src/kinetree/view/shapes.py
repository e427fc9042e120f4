"""What bodies look like: the primitives and meshes of a robot file, or else capsules between joints."""

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import trimesh

import kinetree as kt
from kinetree.io.document import Element, parse
from kinetree.io.report import few

STEEL, ORANGE = (110, 130, 155), (194, 65, 12)


class Shape(NamedTuple):
    """A mesh in the frame of a body; body −1 is the world."""

    body: int
    mesh: trimesh.Trimesh
    colour: tuple[int, int, int] = STEEL


def shapes(model: kt.Model, source: Path | None = None) -> list[Shape]:
    """Shapes from the file that the model was loaded from; a skeleton where it has none.

    The skeleton also stands in for bodies whose shapes can not be drawn; a warning says which, and why.
    """
    found: list[Shape] = []
    if source is not None:
        root = parse(source.read_bytes(), source.name)
        found = _urdf_shapes(model, root, source) if root.tag == "robot" else _mjcf_shapes(model, source)
    return found or skeleton(model)


def _pose(origin: Element | None) -> np.ndarray:
    """4×4, from <origin xyz rpy>."""
    if origin is None:
        return np.eye(4)
    zero = (0.0, 0.0, 0.0)
    roll, pitch, yaw = origin.numbers("rpy", 3, zero)
    pose = trimesh.transformations.euler_matrix(roll, pitch, yaw, "sxyz")
    pose[:3, 3] = origin.numbers("xyz", 3, zero)
    return pose


def _urdf_shapes(model: kt.Model, robot: Element, source: Path) -> list[Shape]:
    found: list[Shape] = []
    lost: dict[str, list[str]] = {}  # why: names of the bodies
    for link in robot.all("link"):
        name = link.text("name")
        for visual in link.all("visual"):
            geometry = visual.find("geometry")
            if geometry is None or not geometry.children:
                continue
            try:
                mesh = _urdf_mesh(geometry.children[0], source.parent).apply_transform(_pose(visual.find("origin")))
                found.append(Shape(model.body_index(name), mesh))
            except Exception as error:  # readers of mesh files raise all there is, and a picture is no reason to stop
                lost.setdefault(_reason(error), []).append(name)
    for why, names in lost.items():
        told = f"{source.name}: shapes of link {few(list(dict.fromkeys(names)))} are not shown: {why}"
        warnings.warn(f"{told}; its skeleton stands in", stacklevel=2)
    drawn = {shape.body for shape in found}
    missing = {model.body_index(name) for names in lost.values() for name in names} - drawn
    return found + [bone for bone in skeleton(model) if bone.body in missing] if missing and drawn else found


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "reading .dae files needs pycollada (pip install 'kinetree[view]')"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _urdf_mesh(part: Element, folder: Path) -> trimesh.Trimesh:
    """A primitive, or what is in a mesh file."""
    if part.tag == "box":
        return trimesh.creation.box(part.numbers("size", 3))
    if part.tag == "cylinder":
        return trimesh.creation.cylinder(part.number("radius"), part.number("length"))
    if part.tag == "capsule":
        return capsule(part.number("length"), part.number("radius"))
    if part.tag == "sphere":
        return trimesh.creation.icosphere(3, part.number("radius"))
    if part.tag != "mesh":
        raise ValueError(f"<{part.tag}> is no shape that the viewer knows")
    place = _mesh_file(part.text("filename"), folder)
    mesh = trimesh.load_mesh(place)
    if not len(mesh.faces):
        raise ValueError(f"{place.name} has no faces")
    return mesh.apply_scale(part.numbers("scale", 3, (1.0, 1.0, 1.0)))


def _mesh_file(address: str, folder: Path) -> Path:
    """The file of a mesh: at its path, or, for package:// addresses, in a folder above the robot file."""
    scheme, _, rest = address.rpartition("://")
    for place in (*(up / rest for up in (folder, *folder.resolve().parents)), folder / Path(rest).name):
        if place.is_file():
            return place
    hint = "; put the package's folder beside or above the robot file" if scheme == "package" else ""
    raise FileNotFoundError(f"{address} is not there{hint}")


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
        body = m.body(m.geom_bodyid[g]).name or f"body_{m.geom_bodyid[g]}"  # as the loader calls it
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
