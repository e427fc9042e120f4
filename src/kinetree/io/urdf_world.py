"""Collision shapes of a URDF: boxes, cylinders, spheres, capsules, and the hulls of meshes.

URDF does not describe surfaces, so they have MuJoCo's defaults. Links of a robot touch one another only if the user
wants it, because links overlap in many files; parent and child never touch. A link on a joint to a fixed link never
touches fixed links. A mesh's hull takes a tenth of a second, so meshes are read only if they can touch something.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np

from kinetree.collide import Hull
from kinetree.model import Model, Shape, with_ground, with_shapes
from kinetree.model.orientation import quaternion_from_rotation

from .document import Element
from .meshes import mesh_points
from .report import Report, in_file


class TouchOptions(NamedTuple):
    """The things that links of a robot may touch besides the fixed links of its file."""

    ground: bool = False  # a floor at z = 0
    links: bool = False  # one another


NOTHING = TouchOptions()


def with_world(
    model: Model, links: Sequence[Element], origins: Any, folder: Path | None, touch: TouchOptions, report: Report
) -> Model:
    """The model with the collision shapes of its links, and a floor if requested.

    Arguments:
        model: the mechanism; its bodies are the links.
        links: their elements.
        origins: from elements to rotations and positions of their <origin>.
        folder: of the file, where meshes are looked for; None if there is none.
        touch: what links may touch.
        report: takes what is not modelled.
    """
    found = [(body, element) for body, link in enumerate(links) for element in link.all("collision")]
    R, r = origins([element for _, element in found])
    shapes = []
    for (body, element), rotation, position in zip(found, R, r, strict=True):
        quaternion = quaternion_from_rotation(np.swapaxes(rotation, -1, -2))
        geometry = element.find("geometry")
        if geometry is None or not geometry.children:
            report.ignored["<collision> without <geometry>"] += 1
            continue
        name = element.attributes.get("name", "")
        placed = {"body": body, "position": position, "orientation": quaternion, "name": name}
        if geometry.children[0].tag == "mesh" and not any(touch):
            report.ignored["collision meshes (read with ground=True)"] += 1
            continue
        shape = _shape(geometry.children[0], placed, folder, report)
        if shape is not None:
            still = model.structure.row_of_body[body] < 0
            shapes.append(replace(shape, contype=int(not still), conaffinity=int(still or touch.links)))
    with in_file(report.file):
        if shapes:
            model = with_shapes(model, shapes, exclude=_neighbours(model))
        return with_ground(model) if touch.ground else model


def _neighbours(model: Model) -> list[tuple[int, int]]:
    """Links fixed to the base, and those on joints to them."""
    structure = model.structure
    row = structure.row_of_body
    fixed = np.flatnonzero(row < 0)
    above = structure.tree.parent
    first = structure.v_start[:-1]
    moving = row >= 0
    # the first row of the joint that carries a body: of its own joint, or of the body it is fixed to
    carried = [int(b) for b in np.flatnonzero(moving) if above[_first_row(row[b], first, structure)] < 0]
    return [(int(a), b) for a in fixed for b in carried]


def _first_row(row: int, first: np.ndarray, structure: Any) -> int:
    return int(first[np.searchsorted(structure.v_start, row, side="right") - 1])


def _shape(element: Element, placed: dict[str, Any], folder: Path | None, report: Report) -> Shape | None:
    kind = element.tag
    if kind == "mesh":
        return _mesh(element, placed, folder, report)
    if kind == "box":
        size = tuple(x / 2 for x in element.numbers("size", 3))
    elif kind == "sphere":
        size = (element.number("radius"),)
    elif kind in ("cylinder", "capsule"):
        size = (element.number("radius"), element.number("length") / 2)
    else:
        report.ignored[f"collision <{kind}>"] += 1
        return None
    if min(size) <= 0:
        report.ignored["collision shapes without size"] += 1
        return None
    return Shape(kind, size, **placed)


def _mesh(element: Element, placed: dict[str, Any], folder: Path | None, report: Report) -> Shape | None:
    scale = np.array(element.numbers("scale", 3, (1.0, 1.0, 1.0)))
    path = find_mesh(element.text("filename"), folder)
    if path is None:
        report.ignored["collision meshes not found in the file's folder or those above it"] += 1
        return None
    try:
        return Shape("mesh", hull=Hull.from_points(mesh_points(path) * scale), **placed)
    except (OSError, ValueError, LookupError, RuntimeError):  # Qhull refuses flat ones with a RuntimeError
        report.ignored["collision meshes that can not be read (STL, OBJ and COLLADA can)"] += 1
        return None


def find_mesh(name: str, folder: Path | None) -> Path | None:
    """The file of a mesh, which is named from the URDF's folder, or from a package that holds it.

    `package://robot/meshes/a.stl` is looked for as robot/meshes/a.stl and as meshes/a.stl in the URDF's folder and in
    those above it.
    """
    url = urlparse(name)
    if url.scheme == "file":
        path = Path(unquote(url.path))
        return path if path.is_file() else None
    if folder is None:
        return None
    inside = Path(unquote(name.split("://", 1)[-1]).lstrip("/"))
    wanted = [inside, Path(*inside.parts[1:])] if url.scheme == "package" else [inside]
    for above in (folder, *folder.resolve().parents) if url.scheme else (folder,):
        for way in wanted:
            if (path := above / way).is_file():
                return path
    return Path(name) if not url.scheme and Path(name).is_absolute() and Path(name).is_file() else None
