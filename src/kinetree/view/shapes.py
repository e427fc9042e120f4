"""What bodies look like: the shapes of a robot file, those that may touch, or else capsules between joints."""

import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.collide import KINDS
from kinetree.io.collada import read_collada
from kinetree.io.document import Element, parse
from kinetree.io.load import robot_element
from kinetree.io.mjcf import compiled_by_mujoco
from kinetree.io.report import Report, few
from kinetree.io.urdf_world import find_mesh

from . import solids
from .solids import Solid

STEEL, ORANGE = (0.44, 0.52, 0.62, 1.0), (0.86, 0.33, 0.09, 1.0)
FINE = 24  # sides of a round shape
VISIBLE_GROUPS = 3  # MuJoCo's viewer shows the geoms of groups 0, 1 and 2.
MUJOCO_GREY = (0.5, 0.5, 0.5, 1.0)  # MuJoCo's default colour: a geom that has it takes its material's
Colour = tuple[float, float, float, float]
Source = str | bytes | os.PathLike[str]


class DrawnShape(NamedTuple):
    """A surface in the frame of a body; body −1 is the world."""

    body: int
    solid: Solid
    colour: Colour = STEEL


def shapes(model: kt.Model, source: Source | None = None, sides: int = FINE) -> list[DrawnShape]:
    """Shapes from the file that the model was loaded from, else those that may touch, else a skeleton.

    The skeleton also stands in for bodies whose shapes can not be drawn; a warning says which, and why.

    Arguments:
        model: the mechanism.
        source: the path or the text of the file; the one it was loaded from if not given.
        sides: of round shapes.
    """
    source = model.structure.source if source is None else source
    found: list[DrawnShape] = []
    if source is not None:
        content, path = _content(source)
        root = parse(content, "<text>" if path is None else path.name)
        if root.tag == "mujoco":
            found = _mjcf_shapes(model, content if path is None else path, sides)
        elif root.tag in ("robot", "sdf"):
            robot = robot_element(root, path, Report("", ""))
            found = _urdf_shapes(model, robot, path, sides)
    return found or _touching_shapes(model, sides) or skeleton(model, sides)


def _content(source: Source) -> tuple[str | bytes, Path | None]:
    if isinstance(source, str | bytes) and source.lstrip()[:1] in ("<", b"<"):
        return source, None
    path = Path(os.fsdecode(source))
    return path.read_bytes(), path


def rotation(quaternion: Any) -> np.ndarray:
    """Rotation matrix, body to world, of (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _origin(origin: Element | None) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and position, from <origin xyz rpy>."""
    if origin is None:
        return np.eye(3), np.zeros(3)
    zero = (0.0, 0.0, 0.0)
    (cr, cp, cy), (sr, sp, sy) = (f(origin.numbers("rpy", 3, zero)) for f in (np.cos, np.sin))
    turn = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    return turn, np.array(origin.numbers("xyz", 3, zero))


# -- URDF ----------------------------------------------------------------------------------------------------------


def _urdf_shapes(model: kt.Model, robot: Element, path: Path | None, sides: int) -> list[DrawnShape]:
    found: list[DrawnShape] = []
    lost: dict[str, list[str]] = {}  # why: names of the bodies
    file, folder = ("<text>", None) if path is None else (path.name, path.parent)
    colours = {m.attributes.get("name", ""): c for m in robot.all("material") if (c := _rgba(m)) is not None}
    for link in robot.all("link"):
        name = link.text("name")
        for visual in link.all("visual"):
            geometry = visual.find("geometry")
            if geometry is None or not geometry.children:
                continue
            material = visual.find("material")
            colour, textured = None, False
            if material is not None:
                textured = material.find("texture") is not None  # Its colour is a filler then, often black.
                own = material.attributes.get("name", "")
                colour = _rgba(material) or colours.get(own)
                if colour is not None:
                    colours.setdefault(own, colour)  # A colour given inside a link has its name everywhere.
            try:
                turn, position = _origin(visual.find("origin"))
                for solid, of_mesh in _urdf_solids(geometry.children[0], folder, sides):
                    placed = solid.placed(turn, position)
                    own = (of_mesh or colour) if textured else (colour or of_mesh)
                    found.append(DrawnShape(model.body_index(name), placed, own or STEEL))
            except (
                Exception
            ) as error:  # Mesh readers raise errors of any kind. A shape that can not be drawn must not stop the rest.
                lost.setdefault(_reason(error), []).append(name)
    for why, names in lost.items():
        told = f"{file}: shapes of link {few(list(dict.fromkeys(names)))} are not shown: {why}"
        warnings.warn(f"{told}; its skeleton is shown instead", stacklevel=2)
    drawn = {shape.body for shape in found}
    missing = {model.body_index(name) for names in lost.values() for name in names} - drawn
    return found + [bone for bone in skeleton(model, sides) if bone.body in missing] if missing and drawn else found


def _rgba(material: Element) -> Colour | None:
    colour = material.find("color")
    if colour is None:
        return None
    try:
        red, green, blue, alpha = np.clip(colour.numbers("rgba", 4), 0, 1).tolist()
    except kt.ModelError:  # A colour that can not be read is no reason to stop either.
        return None
    return red, green, blue, alpha


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "reading this kind of mesh needs trimesh (pip install 'kinetree[view]')"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _urdf_solids(part: Element, folder: Path | None, sides: int) -> list[tuple[Solid, Colour | None]]:
    """A primitive or the content of a mesh file: its parts, with their colours."""
    if part.tag == "box":
        return [(solids.box(part.numbers("size", 3)), None)]
    if part.tag == "cylinder":
        return [(solids.cylinder(part.number("radius"), part.number("length"), sides), None)]
    if part.tag == "capsule":
        return [(solids.capsule(part.number("radius"), part.number("length"), sides), None)]
    if part.tag == "sphere":
        return [(solids.sphere(part.number("radius"), sides), None)]
    if part.tag != "mesh":
        raise ValueError(f"<{part.tag}> is a shape that the viewer can not draw")
    return mesh_file(part.text("filename"), folder, part.numbers("scale", 3, (1.0, 1.0, 1.0)))


def mesh_file(address: str, folder: Path | None, scale: Any) -> list[tuple[Solid, Colour | None]]:
    """The parts of a mesh file, with their colours."""
    place = find_mesh(address, folder)
    if place is None and folder is not None and (folder / Path(address).name).is_file():
        place = folder / Path(address).name
    if place is None:
        hint = "; put the package's folder beside or above the robot file" if address.startswith("package:") else ""
        raise FileNotFoundError(f"{address} is not there{hint}")
    if place.suffix.lower() == ".dae":
        pieces = read_collada(place)
        if not pieces:
            raise ValueError(f"{place.name} has no faces")
        return [(solids.mesh(p.vertices * scale, _outward(p.faces, scale)), p.colour) for p in pieces]
    trimesh = import_module("trimesh")
    whole = trimesh.load_scene(place)
    found = []
    for piece in whole.dump():
        if len(getattr(piece, "faces", ())):
            vertices = np.asarray(piece.vertices, float) * scale
            faces = _outward(np.asarray(piece.faces), scale)
            found.append((solids.mesh(vertices, faces), _mesh_colour(piece)))
    if not found:
        raise ValueError(f"{place.name} has no faces")
    return found


def _outward(faces: np.ndarray, scale: Any) -> np.ndarray:
    """Faces, turned over where the scale mirrors them."""
    return faces if np.prod(scale) > 0 else faces[:, ::-1]


def _mesh_colour(piece: Any) -> Colour | None:
    if not piece.visual.defined:
        return None
    try:
        looks = piece.visual.to_color() if piece.visual.kind == "texture" else piece.visual
        red, green, blue, alpha = (float(c) / 255 for c in looks.main_color)
        return red, green, blue, alpha
    except Exception:  # a texture that can not be read
        return None


# -- MJCF ----------------------------------------------------------------------------------------------------------


def _mjcf_shapes(model: kt.Model, source: Path | str | bytes, sides: int) -> list[DrawnShape]:
    """MuJoCo's geoms, except planes, which are floors."""
    m, found = compiled_by_mujoco(source), []
    for g in range(m.ngeom):
        colour = _geom_colour(m, g)
        solid = None if m.geom_group[g] >= VISIBLE_GROUPS or colour[3] == 0 else _geom_solid(m, g, sides)
        if solid is None:
            continue
        number = int(m.geom_bodyid[g])
        name = m.body(number).name or f"body_{number}"  # as the loader calls it
        body = -1 if number == 0 else model.body_index(name)
        found.append(DrawnShape(body, solid.placed(rotation(m.geom_quat[g]), m.geom_pos[g]), colour))
    return found


def _geom_colour(m: Any, g: int) -> Colour:
    own, material = m.geom_rgba[g], int(m.geom_matid[g])
    given = m.mat_rgba[material] if material >= 0 and np.allclose(own, MUJOCO_GREY) else own
    red, green, blue, alpha = (float(c) for c in given)
    return (*STEEL[:3], alpha) if np.allclose(given, MUJOCO_GREY) else (red, green, blue, alpha)


def _geom_solid(m: Any, g: int, sides: int) -> Solid | None:
    kinds = import_module("mujoco").mjtGeom
    kind, data = m.geom_type[g], int(m.geom_dataid[g])
    if kind < len(KINDS) and (solid := _primitive(KINDS[kind], m.geom_size[g], sides)) is not None:
        return solid
    if kind in (kinds.mjGEOM_MESH, kinds.mjGEOM_SDF) and data >= 0:
        first, count = m.mesh_vertadr[data], m.mesh_vertnum[data]
        face, faces = m.mesh_faceadr[data], m.mesh_facenum[data]
        return solids.mesh(m.mesh_vert[first : first + count], m.mesh_face[face : face + faces])
    if kind == kinds.mjGEOM_HFIELD and data >= 0:
        return _height_field(m, data)
    return None


def _primitive(kind: str, size: Any, sides: int) -> Solid | None:
    """A shape with MuJoCo's sizes; None for planes, meshes and height fields."""
    if kind == "sphere":
        return solids.sphere(size[0], sides)
    if kind in ("capsule", "cylinder"):
        return getattr(solids, kind)(size[0], 2 * size[1], sides)
    if kind == "box":
        return solids.box(2 * size)
    return solids.ellipsoid(size, sides) if kind == "ellipsoid" else None


def _height_field(m: Any, number: int) -> Solid:
    rows, columns, start = int(m.hfield_nrow[number]), int(m.hfield_ncol[number]), int(m.hfield_adr[number])
    x_half, y_half, top, _ = m.hfield_size[number]
    height = top * m.hfield_data[start : start + rows * columns]
    x, y = np.meshgrid(np.linspace(-x_half, x_half, columns), np.linspace(-y_half, y_half, rows))
    corner = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (k.ravel() for k in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]))
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return solids.mesh(np.stack([x.ravel(), y.ravel(), height], 1), faces)


# -- Without a file ------------------------------------------------------------------------------------------------


def _touching_shapes(model: kt.Model, sides: int) -> list[DrawnShape]:
    """The shapes of the model's world, except planes, which are floors."""
    scene = None if model.world is None else model.world.scene
    found: list[DrawnShape] = []
    if scene is None:
        return found
    shapes, layout = scene.shapes, scene.layout
    for i, (kind, body) in enumerate(zip(layout.kinds, layout.bodies, strict=True)):
        solid = _primitive(kind, np.asarray(shapes.size[i], float), sides)
        if kind == "mesh" and i in shapes.hulls:
            solid = _hull(np.asarray(shapes.hulls[i].vertices, float))
        if solid is None:
            continue
        turn = rotation(np.asarray(shapes.orientation[i], float))
        found.append(DrawnShape(int(body), solid.placed(turn, shapes.position[i])))
    return found


def _hull(points: np.ndarray) -> Solid:
    trimesh = import_module("trimesh")
    body = trimesh.convex.convex_hull(points)
    return solids.mesh(body.vertices, body.faces)


def skeleton(model: kt.Model, sides: int = FINE) -> list[DrawnShape]:
    """A capsule from each joint to the next, and a rod along each joint's axis."""
    pose = kt.forward_kinematics(model, kt.neutral(model))
    R, p = pose.rotation, pose.position
    parent = np.asarray(model.parent)
    span = np.ptp(np.concatenate([p, np.zeros((1, 3))]), axis=0).max() if len(p) else 1.0
    radius = max(0.02 * span, 1e-3) if len(p) < 12 else max(0.01 * span, 1e-3)
    inner = set(parent.tolist())
    found = []
    for body, up in enumerate(parent):
        if up >= 0:
            way = np.asarray(R[up].T @ (p[body] - p[up]))
            length = float(np.linalg.norm(way))
            if length > 1e-9:
                link = solids.capsule(radius, length, sides).placed(_turn_to(way / length), way / 2)
                found.append(DrawnShape(int(up), link))
        if model.structure.v_start[body + 1] - model.structure.v_start[body] == 1:
            found.append(DrawnShape(body, _axis(model, body, radius, sides), ORANGE))
        if body not in inner:  # a leaf ends somewhere: at its centre of mass
            found.append(DrawnShape(body, _tip(model, body, radius, sides)))
    return found


def _turn_to(way: np.ndarray) -> np.ndarray:
    """A rotation that takes z to this direction."""
    aside = np.eye(3)[int(np.argmin(np.abs(way)))]
    x = np.cross(aside, way)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(way, x), way], 1)


def _axis(model: kt.Model, body: int, radius: float, sides: int) -> Solid:
    E = model.frames.E
    axis = np.array([np.asarray(x)[body] for x in (E.xz, E.yz, E.zz)])  # z of the row in the body's frame
    return solids.cylinder(0.6 * radius, 6 * radius, sides).placed(_turn_to(axis))


def _tip(model: kt.Model, body: int, radius: float, sides: int) -> Solid:
    mass = float(np.asarray(model.inertia.mass)[body])
    centre = np.array([np.asarray(x)[body] for x in model.inertia.h]) / mass if mass > 0 else np.zeros(3)
    return solids.sphere(1.5 * radius, sides).placed(position=centre)
