"""The page that draws a scene: as files that a server sends, or as one file that needs nothing else."""

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np

from . import solids
from .scene import Plane, ShownScene

SCRIPTS = ("maths.js", "shaders.js", "detail.js", "floor.js", "drawing.js", "camera.js", "data.js", "app.js")


def _vector(x: Any) -> list[float]:
    return [float(v) if np.isfinite(v) else 0.0 for v in np.asarray(x, float)]


def _ball(camera: Any) -> dict[str, Any]:
    low, high = camera.centre - camera.half, camera.centre + camera.half
    sizes = {"centre": _vector(camera.centre), "half": _vector(camera.half), "radius": camera.radius}
    return {**sizes, "low": _vector(low), "high": _vector(high), "follow": bool(camera.follow)}


def _plane(plane: Plane) -> dict[str, Any]:
    return {"position": _vector(plane.position), "normal": _vector(plane.normal)}


def geometry(scene: ShownScene) -> bytes:
    """All parts, one after the other: corners with their normals, float32, then three numbers for each triangle."""
    pieces = []
    for corners, triangles in _indexed(scene):
        pieces += [corners.astype("<f4").tobytes(), triangles.astype("<u4").tobytes()]
    return b"".join(pieces)


def _indexed(scene: ShownScene) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each part: its different corners, (n, 6) with their normals, and (triangles, 3) which of them."""
    found = []
    for part in scene.parts:
        rows = np.concatenate([part.solid.points, part.solid.normals], -1).reshape(-1, 6)
        first, inverse = solids.distinct(np.round(rows, 6))
        found.append((rows[first], inverse.reshape(-1, 3)))
    return found


def description(scene: ShownScene, *, name: str = "", live: bool = False, note: str = "") -> dict[str, Any]:
    """All data of the page except numbers: the JSON object that it starts from."""
    model, offset, parts = scene.model, 0, []
    for part, (corners, triangles) in zip(scene.parts, _indexed(scene), strict=True):
        body = part.body if part.body >= 0 else scene.bodies
        sizes = {"corners": len(corners), "triangles": len(triangles), "offset": offset}
        centre, axes = solids.box_around(part.solid)
        box = {"centre": _vector(centre), "axes": [_vector(axis) for axis in axes]}
        parts.append({"body": body, "colour": list(part.colour), "box": box, **sizes})
        offset += 6 * len(corners) + 3 * len(triangles)
    notes = [note] if note else []
    if scene.all_worlds > scene.worlds:
        notes.append(f"The first {scene.worlds} of {scene.all_worlds} states are shown.")
    if live:
        notes.append("Drag a body to push it; drag beside it to turn the camera.")
    limits = None if model.limits is None else (np.asarray(model.limits.lower), np.asarray(model.limits.upper))
    return {
        "name": name or "kinetree",
        "facts": f"{model.n_bodies:,} bodies, {model.nv:,} degrees of freedom"
        + (f", {scene.worlds} states" if scene.worlds > 1 else ""),
        "note": " ".join(notes),
        "live": live,
        "solid": scene.solid,
        "worlds": scene.worlds,
        "bodies": scene.bodies + 1,  # the base is the last
        "texels": scene.texels,
        "frameFloats": scene.frame_floats,
        "time": _vector(scene.time),
        "parts": parts,
        "parents": [] if scene.solid else np.asarray(model.parent).tolist(),
        "names": list(model.names) if scene.solid else [],
        "planes": [_plane(p) for p in scene.planes],
        "grid": _plane(scene.grid),
        "touches": model.world is not None and model.world.scene is not None,
        "camera": _ball(scene.camera),
        "single": _ball(scene.single),
        "joints": [{**j._asdict(), "limited": limits is not None} for j in scene.joints],
    }


def page(own_data: str = "") -> str:
    """The whole page as one text; `own_data` is a script that comes before the others."""
    folder = files("kinetree.view") / "page"
    scripts = [own_data, *((folder / name).read_text("utf-8") for name in SCRIPTS)]
    text = "".join(f"<script>\n{script}\n</script>\n" for script in scripts if script)
    return (folder / "index.html").read_text("utf-8").replace("<!--scripts-->", text)


def standalone(scene: ShownScene, **facts: Any) -> str:
    """A page that holds its scene, so it loads nothing else."""
    frames = scene.frames(0, len(scene.records)).astype("<f4").tobytes()
    data = {
        "scene": description(scene, **facts),
        "geometry": base64.b64encode(geometry(scene)).decode(),
        "frames": base64.b64encode(frames).decode(),
    }
    text = json.dumps(data).replace("<", "\\u003c")  # No name in a file can end the script.
    return page(f"window.KINETREE_SCENE = {text};")
