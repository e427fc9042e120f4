"""Points of mesh files, for hulls: STL, OBJ and COLLADA. What touches is the hull, so faces do not matter."""

import struct
from pathlib import Path

import numpy as np

from .collada import read_collada

STL_HEADER = 84  # bytes before the first triangle of a binary file: 80 of text, 4 of count
STL_TRIANGLE = 50  # bytes: a normal and three corners, float32, and two bytes of attributes


def mesh_points(path: Path) -> np.ndarray:
    """Different corners of a mesh, (n, 3).

    Raises OSError where the file can not be read, ValueError where it is no mesh that is understood.
    """
    kind = path.suffix.lower()
    if kind == ".stl":
        points = _stl(path.read_bytes())
    elif kind == ".obj":
        points = _obj(path.read_text("utf-8", errors="replace"))
    elif kind == ".dae":
        points = np.concatenate([np.zeros((0, 3)), *(p.vertices[np.unique(p.faces)] for p in read_collada(path))])
    else:
        raise ValueError(f"meshes are STL, OBJ or COLLADA files, not {kind or 'without a suffix'}")
    if len(points) < 4 or not np.isfinite(points).all():
        raise ValueError("has fewer than four points, or some that are not finite")
    return np.unique(points, axis=0)


def _stl(content: bytes) -> np.ndarray:
    if len(content) >= STL_HEADER:
        count = struct.unpack_from("<I", content, STL_HEADER - 4)[0]
        if len(content) == STL_HEADER + count * STL_TRIANGLE:  # text files do not fulfil this
            triangles = np.frombuffer(content, np.uint8, offset=STL_HEADER).reshape(count, STL_TRIANGLE)
            corners = triangles[:, 12:48].copy().view("<f4")
            return corners.reshape(-1, 3).astype(np.float64)
    words = (line.split() for line in content.decode("utf-8", errors="replace").splitlines())
    return np.array([w[1:4] for w in words if len(w) >= 4 and w[0] == "vertex"], float).reshape(-1, 3)


def _obj(text: str) -> np.ndarray:
    words = (line.split() for line in text.splitlines() if line.startswith("v "))
    return np.array([w[1:4] for w in words if len(w) >= 4], float).reshape(-1, 3)
