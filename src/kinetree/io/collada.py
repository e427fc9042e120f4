"""COLLADA meshes (.dae), the kind that most robot files have: triangles, colours, and places of the parts.

Read with the loader's own parser, so that nothing else is needed. Textures are not read; their parts have no colour.
Reference: COLLADA 1.4.1 specification, sections 5 (geometry, scene) and 8 (materials).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .document import Element, parse

Colour = tuple[float, float, float, float]


class Piece(NamedTuple):
    """Triangles of one material."""

    vertices: np.ndarray  # (n, 3)
    faces: np.ndarray  # (triangles, 3)
    colour: Colour | None


def read_collada(path: Path) -> list[Piece]:
    """The pieces of a file, in metres.

    Its <up_axis> is not applied, as in ROS: robot files place meshes as they are drawn, whatever that says.
    """
    root = parse(path.read_bytes(), path.name)
    if root.tag != "COLLADA":
        root.fail("is not a COLLADA file")
    by_id: dict[str, Element] = {}
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if "id" in element.attributes:
            by_id[element.attributes["id"]] = element
        waiting += element.children
    asset = root.find("asset")
    unit = None if asset is None else asset.find("unit")
    scale = float(unit.attributes.get("meter", "1")) if unit is not None else 1.0
    turn = np.diag([scale, scale, scale, 1.0])
    found: list[Piece] = []
    scenes = [s for library in root.all("library_visual_scenes") for s in library.all("visual_scene")]
    for scene in scenes[:1]:
        for node in scene.all("node"):
            _node(node, turn, by_id, found)
    if not scenes:  # no scene: the geometries unchanged
        for library in root.all("library_geometries"):
            for geometry in library.all("geometry"):
                found += _geometry(geometry, turn, {}, by_id)
    return found


def _floats(text: str) -> np.ndarray:
    return np.array(text.split(), float)


def _transform(node: Element) -> np.ndarray:
    """The product of a node's <matrix>, <translate>, <rotate> and <scale>, in their order."""
    whole = np.eye(4)
    for child in node.children:
        own = np.eye(4)
        if child.tag == "matrix":
            own = _floats(child.content).reshape(4, 4)
        elif child.tag == "translate":
            own[:3, 3] = _floats(child.content)
        elif child.tag == "scale":
            own[:3, :3] = np.diag(_floats(child.content))
        elif child.tag == "rotate":
            x, y, z, degrees = _floats(child.content)
            axis = np.array([x, y, z]) / (np.linalg.norm([x, y, z]) or 1.0)
            cross = np.cross(np.eye(3), axis)
            angle = np.deg2rad(degrees)
            own[:3, :3] = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
        whole = whole @ own
    return whole


def _node(node: Element, above: np.ndarray, by_id: dict[str, Element], found: list[Piece], depth: int = 0) -> None:
    here = above @ _transform(node)
    if depth > 100:
        node.fail("nodes are nested without end")
    for child in node.children:
        if child.tag == "node":
            _node(child, here, by_id, found, depth + 1)
        elif child.tag == "instance_node" and (other := _target(child, by_id)) is not None:
            _node(other, here, by_id, found, depth + 1)
        elif child.tag == "instance_geometry" and (geometry := _target(child, by_id)) is not None:
            bound = {}
            for binding in child.all("bind_material"):
                for technique in binding.all("technique_common"):
                    for material in technique.all("instance_material"):
                        bound[material.attributes.get("symbol", "")] = material.attributes.get("target", "")[1:]
            found += _geometry(geometry, here, bound, by_id)


def _target(element: Element, by_id: dict[str, Element], key: str = "url") -> Element | None:
    return by_id.get(element.attributes.get(key, "").removeprefix("#"))


def _geometry(geometry: Element, place: np.ndarray, bound: dict[str, str], by_id: dict[str, Element]) -> list[Piece]:
    found = []
    for mesh in geometry.all("mesh"):
        for part in mesh.children:
            if part.tag not in ("triangles", "polylist", "polygons"):
                continue
            faces, source = _faces(part, by_id)
            if not len(faces) or source is None:
                continue
            array = source.find("float_array")
            points = _floats("" if array is None else array.content).reshape(-1, 3)
            points = points @ place[:3, :3].T + place[:3, 3]
            if np.linalg.det(place[:3, :3]) < 0:
                faces = faces[:, ::-1]
            symbol = part.attributes.get("material", "")
            found.append(Piece(points, faces, _colour(by_id.get(bound.get(symbol, symbol)), by_id)))
    return found


def _faces(part: Element, by_id: dict[str, Element]) -> tuple[np.ndarray, Element | None]:
    """Triangles (n, 3) of corners, and the source of the corners; polygons become fans."""
    inputs = list(part.all("input"))
    stride = 1 + max((int(i.attributes.get("offset", "0")) for i in inputs), default=0)
    vertex = next((i for i in inputs if i.attributes.get("semantic") == "VERTEX"), None)
    vertices = None if vertex is None else _target(vertex, by_id, "source")
    if vertex is None or vertices is None:
        return np.zeros((0, 3), int), None
    position = next((i for i in vertices.all("input") if i.attributes.get("semantic") == "POSITION"), None)
    source = None if position is None else _target(position, by_id, "source")
    offset = int(vertex.attributes.get("offset", "0"))
    lists = [np.array(p.content.split(), int)[offset::stride] for p in part.all("p")]
    if part.tag == "polygons":
        return np.concatenate([_fans(x, np.array([len(x)])) for x in lists] or [np.zeros((0, 3), int)]), source
    corners = np.concatenate([*lists, np.zeros(0, int)]).astype(int)
    if part.tag == "triangles":
        return corners[: len(corners) // 3 * 3].reshape(-1, 3), source
    counts = part.find("vcount")
    return _fans(corners, np.array([] if counts is None else counts.content.split(), int)), source


def _fans(corners: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Polygons with given numbers of corners, as triangles around their first corner."""
    start = np.cumsum(counts) - counts
    triangles = np.maximum(counts - 2, 0)
    first = np.repeat(start, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    return corners[np.stack([first, first + step + 1, first + step + 2], 1)]


def _colour(material: Element | None, by_id: dict[str, Element]) -> Colour | None:
    """The diffuse colour of a material's effect."""
    instance = None if material is None else material.find("instance_effect")
    waiting = [] if instance is None else [e for e in [_target(instance, by_id)] if e is not None]
    while waiting:
        element = waiting.pop()
        if element.tag == "diffuse":
            colour = element.find("color")
            if colour is None:
                return None
            red, green, blue, alpha = [*_floats(colour.content).tolist(), 1.0][:4]
            return red, green, blue, alpha if alpha > 0 else 1.0
        waiting += element.children
    return None
