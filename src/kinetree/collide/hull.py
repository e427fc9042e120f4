"""Convex hulls: corners, neighbours of corners, and flat faces. Constants of a shape, in its own frame."""

import math
import pickle
from typing import Any, NamedTuple

import numpy as np

from kinetree.lanes import tuning
from kinetree.lanes.kept.plans import kept_on_disk
from kinetree.lanes.program.alone import ROW

from .cube import directions, may_be_farthest

MIN_CLIMB_VERTICES = 10  # MuJoCo's mjMESH_HILLCLIMB_MIN: in smaller meshes all corners are tried, in order
NOBODY = -1  # pads lists of faces and of their corners
MAX_LISTED = 16  # corners listed for a cell of directions; with more the cell is divided, or the search climbs
# Share of a hull's radius: corners whose heights differ by less count as equally far. Corners are rounded to float32,
# so hulls are convex only to 1e-7 of their radius.
TIE = 1e-6
# Share of a hull's radius: faces count as no nearer to the middle of the box, which may be outside of the hull.
THIN = 1e-3
RING = 64  # corners of a face that are kept; a larger face keeps so many, evenly spread
START_COSINE = 0.4  # A component of a direction above this counts as one step on the grid of starts.


class Hull(NamedTuple):
    """The hull of a mesh: n corners, with at most k neighbours and f faces each, and m faces.

    The order of corners, neighbours and faces matters: where some tie, it decides which of them touch.
    """

    vertices: Any  # (n, 3)
    neighbours: Any  # (n, k) corners joined by an edge, in order; rows are filled up with the corner itself
    starts: Any  # (27,) a corner far along each direction of a grid, where MuJoCo's search for the farthest begins
    # (cells, 4) corners that may be the farthest along a direction of a cell (cube.py), or tie with it. A negative
    # number leads to another row: the last one to further corners, the first one to the smaller cells of a divided one.
    # Where the second is negative there are too many corners; the first is one of them.
    cells: Any
    # (cells, 4) the plane of the face where a ray from the middle of the box along the middle of the cell leaves: its
    # outward normal, and how far out the hull reaches along it
    facing: Any
    faces: Any  # (m, k) corners of the flat faces, in order around the outward normal; filled up with −1
    normals: Any  # (m, 3) of the faces
    faces_at: Any  # (n, f) faces at each corner; filled up with −1
    wide: Any  # (n, f, 3) three more corners of that face, spread wide; missing ones are the corner itself
    box: Any  # (2, 3) the middle of the box along the axes that holds it, and half of the box's sides
    radius: Any  # of the sphere about the shape's origin that MuJoCo gives the shape (geom_rbound)

    @staticmethod
    def from_mujoco(model: Any, geom: int) -> "Hull":
        """The hull that MuJoCo collides for a mesh geom of a compiled model."""
        mesh = int(model.geom_dataid[geom])
        start = int(model.mesh_vertadr[mesh])
        vertices = np.asarray(model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])], np.float64)
        radius = np.asarray(model.geom_rbound[geom])
        first = int(model.mesh_polyadr[mesh])
        faces = []
        for i in range(first, first + int(model.mesh_polynum[mesh])):
            at = int(model.mesh_polyvertadr[i])
            faces.append([int(v) for v in model.mesh_polyvert[at : at + int(model.mesh_polyvertnum[i])]])
        normals = np.asarray(model.mesh_polynormal[first : first + len(faces)], np.float64)
        address = int(model.mesh_graphadr[mesh])
        if address < 0 or len(vertices) < MIN_CLIMB_VERTICES:
            return _hull(vertices, _everybody(len(vertices)), faces, normals, np.zeros(27, np.int32), radius)
        graph = np.asarray(model.mesh_graph[address:])
        n = int(graph[0])
        edge_start, number, edges = graph[2 : 2 + n], graph[2 + n : 2 + 2 * n], graph[2 + 2 * n :]
        ends = np.flatnonzero(edges < 0)  # a negative number ends the list of each corner
        lists = [edges[s:e].tolist() for s, e in zip(edge_start, ends[np.searchsorted(ends, edge_start)], strict=True)]
        local = {int(old): new for new, old in enumerate(number)}
        starts = np.asarray(model.mesh_extrema[mesh], np.int32).ravel()
        return _hull(vertices[number], lists, [[local[v] for v in face] for face in faces], normals, starts, radius)

    @staticmethod
    def from_points(points: Any) -> "Hull":
        """The convex hull of points in the shape's frame."""
        from scipy.spatial import ConvexHull

        points = np.asarray(points, np.float64)
        found = ConvexHull(points, qhull_options="Qt")
        used = np.sort(found.vertices)
        local = {int(old): new for new, old in enumerate(used)}
        lists: list[list[int]] = [[] for _ in used]
        planes: dict[bytes, set[int]] = {}
        for triangle, equation in zip(found.simplices, found.equations, strict=True):
            corners = [local[int(i)] for i in triangle]
            planes.setdefault(np.round(equation, 12).tobytes(), set()).update(corners)  # Qhull repeats a face's plane
            for a in corners:
                lists[a] += [b for b in corners if b != a and b not in lists[a]]
        normals = np.array([np.frombuffer(plane)[:3] for plane in planes])
        vertices = points[used]
        places, axes = vertices.tolist(), normals.tolist()
        faces = [_around(places, sorted(face), n) for face, n in zip(planes.values(), axes, strict=True)]
        radius = np.linalg.norm(np.maximum(-points.min(0), points.max(0)))
        if len(vertices) < MIN_CLIMB_VERTICES:
            lists = _everybody(len(vertices))
        starts = _farthest(vertices)
        return _hull(vertices, lists, faces, normals, starts, np.asarray(radius))


def _everybody(n: int) -> list[list[int]]:
    """All corners as neighbours of each: the first of the farthest is found in one step."""
    return [[j for j in range(n) if j != i] for i in range(n)]


def _farthest(vertices: np.ndarray) -> np.ndarray:
    """(27,): the corner that is farthest along each direction of a 3×3×3 grid."""
    grid = np.array([[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)])
    return np.argmax(grid @ vertices.T, 1).astype(np.int32)


def _hull(vertices: np.ndarray, *others: Any) -> Hull:
    """The tables of a hull, from what `_tables` takes. Those of large hulls are kept on disk."""
    of = vertices, *others
    if len(vertices) < tuning.KEPT_HULL_MIN_CORNERS:
        return _tables(*of)
    return kept_on_disk("hull", pickle.dumps(of, protocol=5), None, lambda: _tables(*of))


def _tables(
    vertices: np.ndarray,
    lists: list[list[int]],
    faces: list[list[int]],
    normals: np.ndarray,
    starts: np.ndarray,
    radius: np.ndarray,
) -> Hull:
    """The tables of a hull: its corners' neighbours and faces."""
    at: list[list[int]] = [[] for _ in vertices]
    for f, face in enumerate(faces):
        for v in face:
            at[v].append(f)
    most = max(map(len, at), default=1)
    faces_at = np.full((len(vertices), most), NOBODY, np.int32)
    wide = np.empty((len(vertices), most, 3), np.int32)
    points = vertices.tolist()
    for v, its in enumerate(at):
        wide[v] = v
        faces_at[v, : len(its)] = its
        for j, f in enumerate(its):
            turn = faces[f].index(v)
            others = _wide_corners(points, faces[f][turn:] + faces[f][:turn])
            wide[v, j, : len(others)] = others
    faces = [_thinned(face) for face in faces]
    rings = np.full((len(faces), max(map(len, faces), default=1)), NOBODY, np.int32)
    for f, face in enumerate(faces):
        rings[f, : len(face)] = face
    cells = _by_direction(vertices, TIE * float(radius))
    low, high = vertices.min(0), vertices.max(0)
    box = np.stack((low + high, high - low)) / 2
    normals = normals.reshape(-1, 3)
    offsets = np.einsum("ij,ij->i", vertices[rings[:, 0]] - box[0], normals)
    facing = _facing(vertices, normals, np.maximum(offsets, THIN * float(radius)))
    tables = cells, facing, rings, normals, faces_at, wide, box
    return Hull(vertices, _padded(lists), starts, *tables, radius)


def _by_direction(vertices: np.ndarray, slack: float) -> np.ndarray:
    """The table `cells`. Equal rests of lists stand there once."""
    count, numbers, middle, finer = may_be_farthest(vertices, slack, MAX_LISTED)
    crowded = count > MAX_LISTED
    first, last = np.cumsum(count) - count, np.where(crowded | (finer > 0), 1, count) - 1
    found = np.minimum(first[:, None] + np.minimum(np.arange(MAX_LISTED), last[:, None]), len(numbers) - 1)
    lists = numbers[found]  # The last one fills up.
    cells = lists[:, :ROW].copy()
    long = last >= ROW
    rests, place = np.unique(lists[long, ROW - 1 :], axis=0, return_inverse=True)
    rows, at = [cells], len(cells)
    cells[long, -1] = -(at + place.ravel())
    while rests.size:
        rows.append(rests[:, :ROW].copy())
        ends = (rests[:, ROW - 1 :] == rests[:, ROW - 1 : ROW]).all(1)
        at += len(rests)
        rests = rests[~ends, ROW - 1 :]
        rows[-1][~ends, -1] = -(at + np.arange(len(rests)))
    cells[crowded, 0], cells[crowded, 1:] = middle[crowded], NOBODY
    cells[crowded, -1] = middle[crowded]
    cells[finer > 0, 0] = -finer[finer > 0]
    return np.concatenate(rows).astype(np.int32)


def _facing(vertices: np.ndarray, normals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The table `facing`, from the distances of the faces from the middle of the box."""
    slopes = normals / offsets[:, None]
    found = np.concatenate([np.argmax(rays @ slopes.T, 1) for rays in np.split(directions(), 6)])
    used, place = np.unique(found, return_inverse=True)
    outward = normals[used] / np.linalg.norm(normals[used], axis=1, keepdims=True)
    return np.concatenate([outward, (outward @ vertices.T).max(1, keepdims=True)], 1)[place]


def _thinned(face: list[int]) -> list[int]:
    """At most RING corners of a face, in order."""
    return face if len(face) <= RING else [face[i * len(face) // RING] for i in range(RING)]


def _wide_corners(vertices: list[list[float]], face: list[int]) -> list[int]:
    """Up to three corners of a face that span a large quadrilateral with its first.

    MuJoCo goes around the face once: the last corner moves on while the area grows, and after each of its moves the
    third and the second follow. This need not find the largest area.
    """
    if len(face) <= 4:
        return face[1:]
    points = [vertices[i] for i in face]

    def area(b: int, c: int, d: int) -> float:  # plain numbers: NumPy takes 50 times as long for three of them
        x, y, z = (points[c][k] - points[0][k] for k in range(3))
        u, v, w = (points[d][k] - points[b][k] for k in range(3))
        return math.hypot(y * w - z * v, z * u - x * w, x * v - y * u)

    n = len(face)
    chosen = [1, 2, 3]
    best = area(*chosen)

    def advance(k: int) -> bool:
        nonlocal best
        moved = [(i + 1) % n if j == k else i for j, i in enumerate(chosen)]
        if (found := area(*moved)) <= best:
            return False
        best, chosen[:] = found, moved
        return True

    while advance(2):
        while advance(1):
            pass
        while advance(0):
            pass
    return [face[i] for i in chosen]


def _around(vertices: list[list[float]], face: list[int], normal: list[float]) -> list[int]:
    """The corners of a face, in order around its normal."""
    middle = [math.fsum(vertices[i][k] for i in face) / len(face) for k in range(3)]
    away = {i: [vertices[i][k] - middle[k] for k in range(3)] for i in face}
    x, n = away[face[0]], normal
    y = [n[1] * x[2] - n[2] * x[1], n[2] * x[0] - n[0] * x[2], n[0] * x[1] - n[1] * x[0]]

    def angle(i: int) -> float:
        p = away[i]
        return math.atan2(p[0] * y[0] + p[1] * y[1] + p[2] * y[2], p[0] * x[0] + p[1] * x[1] + p[2] * x[2])

    return sorted(face, key=angle)


def _padded(lists: list[list[int]]) -> np.ndarray:
    """Rows of one length, a multiple of what a turn looks at; the row's own number fills up."""
    most = -(-max(map(len, lists), default=0) // ROW) * ROW
    return np.array([[*row, *[i] * (most - len(row))] for i, row in enumerate(lists)], np.int32)
