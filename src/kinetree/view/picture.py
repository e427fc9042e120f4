"""Pictures and films without a browser or a screen: triangles drawn in NumPy, with a floor and shadows on it.

It draws the same scene as the page: the same shapes, light and colours. A picture of 64 robots takes about a second.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt

from .scene import Plane, ShownScene
from .shapes import Source

LIGHT = np.array([0.45, -0.35, 1.0]) / np.linalg.norm([0.45, -0.35, 1.0])
FIELD_OF_VIEW = np.deg2rad(40.0)
SMOOTH = 2  # Each pixel is the mean of SMOOTH × SMOOTH finer ones: smooth edges.
MARGIN = 1.06  # size of the picture over the size of the shown objects
CHUNK_PIXELS = 3_000_000  # pixels that triangles may cover, tested at once: about 300 MB
LINE_WIDTH = 2.2  # pixels; of mechanisms that are drawn as lines
FRAMES_PER_SECOND = 25  # pictures in a second of a film


class Tones(NamedTuple):
    """Colours of everything except the robot."""

    back: tuple[float, float, float]
    floor: tuple[float, float, float]
    floor2: tuple[float, float, float]
    shadow: float
    line: tuple[float, float, float]
    line2: tuple[float, float, float]


LIGHT_TONES = Tones(
    (0.95, 0.965, 0.98), (0.85, 0.88, 0.91), (0.79, 0.83, 0.87), 0.3, (0.76, 0.25, 0.05), (0.1, 0.35, 0.65)
)
DARK_TONES = Tones(
    (0.09, 0.11, 0.14), (0.17, 0.2, 0.24), (0.21, 0.245, 0.29), 0.5, (0.98, 0.55, 0.25), (0.35, 0.65, 0.95)
)


class Eye:
    """The place and the projection of the camera."""

    def __init__(
        self, scene: ShownScene, centre: np.ndarray, size: tuple[int, int], yaw: float, pitch: float, zoom: float
    ):
        width, height = size
        (cy, sy), (cp, sp) = (np.cos(yaw), np.sin(yaw)), (np.cos(pitch), np.sin(pitch))
        self.back = np.array([cy * cp, sy * cp, sp])
        self.right, self.up = np.array([-sy, cy, 0.0]), np.array([-cy * sp, -sy * sp, cp])
        tall = np.tan(FIELD_OF_VIEW / 2)
        wide = tall * width / height
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        corners = signs * scene.camera.half
        aside = np.maximum(np.abs(corners @ self.right) / wide, np.abs(corners @ self.up) / tall)
        self.distance = max(float((corners @ self.back + MARGIN * aside).max()), 1e-6) / zoom
        self.centre, self.place = centre, centre + self.back * self.distance
        self.scale, self.size = height / (2 * tall), size

    def see(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (..., 2) of points, and how far they are in front of the camera."""
        way = points - self.place
        depth = -(way @ self.back)
        safe = np.where(depth > 0, depth, np.nan)
        x, y = way @ self.right / safe * self.scale, way @ self.up / safe * self.scale
        return np.stack([self.size[0] / 2 + x, self.size[1] / 2 - y], -1), depth

    def rays(self) -> np.ndarray:
        """The direction of each pixel, (height, width, 3)."""
        x = (np.arange(self.size[0]) + 0.5 - self.size[0] / 2) / self.scale
        y = (self.size[1] / 2 - np.arange(self.size[1]) - 0.5) / self.scale
        return x[None, :, None] * self.right + y[:, None, None] * self.up - self.back


class Canvas:
    """A picture with a depth for each pixel."""

    def __init__(self, size: tuple[int, int]):
        self.width, self.height = size
        self.colour = np.zeros((self.height * self.width, 3), np.float32)
        self.depth = np.full(self.height * self.width, np.inf, np.float32)

    def triangles(self, at: np.ndarray, depth: np.ndarray, colours: np.ndarray) -> None:
        """Draw triangles: corners in pixels (n, 3, 2), their depths (n, 3), and their colours (n, 3, 3)."""
        seen: Any = np.isfinite(at).all((1, 2)) & (depth > 0).all(1)
        low = np.maximum(np.ceil(at.min(1) - 0.5), 0)
        high = np.minimum(np.floor(at.max(1) - 0.5), [self.width - 1, self.height - 1])
        span = np.where(seen[:, None], high - low + 1, 0)
        seen &= (span > 0).all(1)
        at, depth, colours, low, span = (x[seen] for x in (at, depth, colours, low, span))
        low, span = low.astype(np.int64), span.astype(np.int64)
        count = span.prod(1)
        ends = np.searchsorted(np.cumsum(count), np.arange(0, count.sum() + CHUNK_PIXELS, CHUNK_PIXELS), side="left")
        for a, b in zip(ends[:-1], ends[1:] + 1, strict=True):
            part = slice(a, b)
            if len(count[part]):
                self._some(at[part], depth[part], colours[part], low[part], span[part], count[part])

    def _some(self, at: Any, depth: Any, colours: Any, low: Any, span: Any, count: Any) -> None:
        which = np.repeat(np.arange(len(count)), count)
        inside = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        x, y = low[which, 0] + inside % span[which, 0], low[which, 1] + inside // span[which, 0]
        a, ab, ac = at[:, 0], at[:, 1] - at[:, 0], at[:, 2] - at[:, 0]
        area = ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]
        inverse = 1 / np.where(area == 0, np.nan, area)
        px, py = x + 0.5 - a[which, 0], y + 0.5 - a[which, 1]
        v = (px * ac[which, 1] - py * ac[which, 0]) * inverse[which]
        w = (py * ab[which, 0] - px * ab[which, 1]) * inverse[which]
        hit = np.flatnonzero((v >= 0) & (w >= 0) & (v + w <= 1))
        which, v, w, pixel = which[hit], v[hit], w[hit], (y[hit] * self.width + x[hit])
        weights = np.stack([1 - v - w, v, w], 1) / depth[which]  # divided by depth, colours are straight in space
        near = 1 / weights.sum(1)
        order = np.lexsort((near, pixel))
        first = order[np.flatnonzero(np.diff(pixel[order], prepend=-1))]
        first = first[near[first] < self.depth[pixel[first]]]
        at_pixel = pixel[first]
        self.depth[at_pixel] = near[first]
        self.colour[at_pixel] = np.einsum("ni,nic->nc", weights[first] * near[first, None], colours[which[first]])

    def picture(self) -> np.ndarray:
        """(height, width, 3), 0 to 255."""
        fine = self.colour.reshape(self.height // SMOOTH, SMOOTH, self.width // SMOOTH, SMOOTH, 3).mean((1, 3))
        return (255 * np.clip(fine, 0, 1)).round().astype(np.uint8)


def draw(
    scene: ShownScene,
    record: int = 0,
    *,
    size: tuple[int, int] = (960, 600),
    dark: bool = False,
    yaw: float = -0.85,
    pitch: float | None = None,
    zoom: float = 1.0,
) -> np.ndarray:
    """A picture (height, width, 3) of one frame of a scene."""
    tones = DARK_TONES if dark else LIGHT_TONES
    frame = scene.frames(record, 1)[0]
    count = scene.worlds * (scene.bodies + 1) * scene.texels * 4
    poses = frame[:count].astype(float).reshape(scene.worlds, scene.bodies + 1, scene.texels, 4)
    masses = frame[count : count + 3 * scene.worlds].reshape(-1, 3).astype(float)
    centre = scene.camera.centre
    if scene.camera.follow:  # keep the middle where it was in the first frame, relative to the camera
        begin = scene.frames(0, 1)[0][count : count + 3 * scene.worlds].reshape(-1, 3)
        centre = centre + masses.mean(0) - begin.mean(0)
    flat = scene.camera.half[2] < 0.25 * scene.camera.half[:2].max()
    fine = (size[0] * SMOOTH, size[1] * SMOOTH)
    eye = Eye(scene, centre, fine, yaw, (0.6 if flat else 0.33) if pitch is None else pitch, zoom)
    canvas = Canvas(fine)
    if scene.solid:
        corners, colours = _solids(scene, poses, eye)
    else:
        corners, colours = None, None
    _floors(canvas, scene, eye, tones, poses, corners)
    if corners is not None and colours is not None:
        pixels, depth = eye.see(corners)
        canvas.triangles(pixels, depth, colours)
    else:
        canvas.triangles(*_lines(scene, poses, eye, tones, LINE_WIDTH * SMOOTH))
    return canvas.picture()


def _turned(quaternion: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors (n, 3) turned by each of (worlds, 4): (worlds, n, 3)."""
    w, u = quaternion[:, None, :1], np.broadcast_to(quaternion[:, None, 1:], (len(quaternion), len(v), 3))
    t = 2 * np.cross(u, v[None])
    return v + w * t + np.cross(u, t)


def _solids(scene: ShownScene, poses: np.ndarray, eye: Eye) -> tuple[np.ndarray, np.ndarray]:
    """Corners of all triangles in the world, and how they are lit."""
    corners, colours = [], []
    for part in scene.parts:
        at, turn = poses[:, part.body, 0, :3], poses[:, part.body, 1]  # body −1 is the last: the base
        points = _turned(turn, part.solid.points.reshape(-1, 3).astype(float)) + at[:, None]
        normals = _turned(turn, part.solid.normals.reshape(-1, 3).astype(float))
        view = eye.place - points
        view /= np.linalg.norm(view, axis=-1, keepdims=True)
        normals = np.where((normals * view).sum(-1, keepdims=True) < 0, -normals, normals)
        sun, sky = np.maximum(normals @ LIGHT, 0), 0.5 + 0.5 * normals[..., 2]
        half = LIGHT + view
        half /= np.linalg.norm(half, axis=-1, keepdims=True)
        shine = np.maximum((normals * half).sum(-1), 0) ** 32
        light = 0.34 + 0.2 * sky + 0.58 * sun
        colours.append((light[..., None] * np.array(part.colour[:3]) + 0.1 * shine[..., None]).reshape(-1, 3, 3))
        corners.append(points.reshape(-1, 3, 3))
    if not corners:
        return np.zeros((0, 3, 3)), np.zeros((0, 3, 3))
    return np.concatenate(corners), np.concatenate(colours)


def _lines(scene: ShownScene, poses: np.ndarray, eye: Eye, tones: Tones, width: float) -> tuple[np.ndarray, ...]:
    """Thin rectangles on the screen, from each body to its parent: corners, depths, colours."""
    parent = np.asarray(scene.model.parent)
    own = np.flatnonzero(parent >= 0)
    ends = np.stack([poses[:, parent[own], 0, :3], poses[:, own, 0, :3]], 2).reshape(-1, 2, 3)
    pixels, depth = eye.see(ends)
    way = pixels[:, 1] - pixels[:, 0]
    length = np.linalg.norm(way, axis=1, keepdims=True)
    way = np.where(length > 1e-9, way / np.where(length > 1e-9, length, 1), [1.0, 0.0]) * width / 2
    aside = np.stack([-way[:, 1], way[:, 0]], 1)
    a, b = pixels[:, 0] - way / 2, pixels[:, 1] + way / 2
    quad = np.stack([a - aside, a + aside, b - aside, b + aside], 1)
    faces = np.array([[0, 1, 2], [2, 1, 3]])
    along = np.tile(own / max(1, scene.bodies - 1), scene.worlds)[:, None]
    colour = np.array(tones.line) * (1 - along) + np.array(tones.line2) * along
    corner_depth = depth[:, [0, 0, 1, 1]]
    return (
        quad[:, faces].reshape(-1, 3, 2),
        corner_depth[:, faces].reshape(-1, 3),
        np.repeat(np.repeat(colour[:, None], 2, 1).reshape(-1, 1, 3), 3, 1),
    )


def _floors(canvas: Canvas, scene: ShownScene, eye: Eye, tones: Tones, poses: np.ndarray, corners: Any) -> None:
    canvas.colour[:] = tones.back
    if not scene.planes:
        _lattice(canvas, scene, eye, tones)
        return
    rays = eye.rays().reshape(-1, 3)
    for number, plane in enumerate(scene.planes):
        down = rays @ plane.normal
        height = float((plane.position - eye.place) @ plane.normal)
        depth = height / np.where(down == 0, np.nan, down)
        hit = np.flatnonzero((depth > 0) & (depth < canvas.depth))
        at = eye.place + rays[hit] * depth[hit, None]
        x, y = _axes(plane)
        cell = _cell(scene)
        check = (np.floor(at @ x / cell) + np.floor(at @ y / cell)) % 2
        colour = np.where(check[:, None] > 0, tones.floor, tones.floor2)
        if number == 0:
            shaded = np.zeros(len(canvas.depth), bool)
            shadow = Canvas((canvas.width, canvas.height))
            if corners is not None:
                pixels, far = eye.see(_dropped(corners, plane))
                shadow.triangles(pixels, far, np.zeros((len(pixels), 3, 3)))
            else:
                fallen = poses.copy()
                fallen[..., 0, :3] = _dropped(poses[..., 0, :3], plane)
                shadow.triangles(*_lines(scene, fallen, eye, tones, 0.7 * LINE_WIDTH * SMOOTH))
            shaded = np.isfinite(shadow.depth)[hit]
            colour = np.where(shaded[:, None], (1 - tones.shadow) * colour, colour)
        fade = _fade(scene, eye, np.linalg.norm(at - eye.centre, axis=1))[:, None]
        canvas.colour[hit] = (1 - fade) * colour + fade * np.array(tones.back)
        canvas.depth[hit] = depth[hit] * 1.0005  # what lies on the floor is seen


def _cell(scene: ShownScene) -> float:
    """The side of a square: 1, 2 or 5 times a power of ten."""
    size = scene.camera.radius / 4
    power = 10.0 ** np.floor(np.log10(size))
    return power * (5 if size / power > 5 else 2 if size / power > 2 else 1)


def _fade(scene: ShownScene, eye: Eye, away: Any) -> Any:
    """How far places on a floor are towards the horizon, 0 to 1, by their distances from the middle."""
    return np.clip((away / (12 * max(scene.camera.radius, eye.distance / 4)) - 0.2) / 0.7, 0, 1)


def _lattice(canvas: Canvas, scene: ShownScene, eye: Eye, tones: Tones) -> None:
    """Faint lines, a pixel wide, on the level below a scene without a floor: a row of pixels is at one depth."""
    height, width, scale = canvas.height // SMOOTH, canvas.width // SMOOTH, eye.scale / SMOOTH  # lines are smooth
    x, y = ((np.arange(n) + 0.5 - n / 2) / scale for n in (width, height))
    down = -y * eye.up[2] - eye.back[2]
    rows = np.flatnonzero(down < -1e-6)
    level, cell = scene.grid.position[2], _cell(scene)
    depth = (level - eye.place[2]) / down[rows]
    start = eye.place - depth[:, None] * (y[rows, None] * eye.up + eye.back)
    strength = np.zeros((len(rows), width), np.float32)
    away = np.full_like(strength, (level - eye.centre[2]) ** 2)
    if len(rows) < 2 or depth[-1] < 0:  # from below
        return
    for k in (0, 1):
        first, step = start[:, k] / cell, depth * eye.right[k] / cell
        square, down_a_pixel = (
            (u[:, None] + v[:, None] * x).astype(np.float32)
            for u, v in ((first, step), (np.gradient(first), np.gradient(step)))
        )
        pixel = np.hypot(down_a_pixel, (step / scale).astype(np.float32)[:, None])
        line = np.clip(1.2 - np.abs(square - np.round(square)) / pixel, 0, 1)
        strength = np.maximum(strength, line * np.clip(1.5 - 4 * pixel, 0, 1))  # squares of few pixels would be grey
        away += (cell * square - eye.centre[k]) ** 2
    strength *= 0.6 * (1 - _fade(scene, eye, np.sqrt(away)))
    below = canvas.colour.reshape(height, SMOOTH, width, SMOOTH, 3)[rows[0] : rows[-1] + 1]
    below += strength[:, None, :, None, None] * (np.array(tones.floor2) - np.array(tones.back)).astype(np.float32)


def _axes(plane: Plane) -> tuple[np.ndarray, np.ndarray]:
    n = plane.normal
    x = np.cross(np.cross(n, [1.0, 0.0, 0.0]), n) if abs(n[0]) < 0.9 else np.cross(n, [0.0, 0.0, 1.0])
    x = x / np.linalg.norm(x)
    return x, np.cross(n, x)


def _dropped(points: np.ndarray, plane: Plane) -> np.ndarray:
    """Points, moved along the light until they reach the plane."""
    above = np.maximum((points - plane.position) @ plane.normal, 0)
    return points - above[..., None] / (plane.normal @ LIGHT) * LIGHT


def render(
    model: kt.Model,
    run: kt.Trajectory | None = None,
    *,
    source: Source | None = None,
    time: float | None = None,
    **looks: Any,
) -> np.ndarray:
    """A picture (height, width, 3) of a mechanism, or of a run at a moment (its end if not given).

    Arguments:
        model, run, source: as in `kinetree.view.viewer.Viewer`.
        time: seconds.
        looks: size, dark, yaw, pitch and zoom of the picture.
    """
    scene = ShownScene(model, run, source=source)
    record = len(scene.time) - 1 if time is None else int(np.abs(scene.time - time).argmin())
    return draw(scene, record, **looks)


def save_picture(path: Path, picture: np.ndarray) -> None:
    """Write a picture: .png, or whatever else Pillow writes."""
    from PIL import Image

    Image.fromarray(picture).save(path)
