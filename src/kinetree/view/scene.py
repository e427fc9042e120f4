"""What there is to draw: shapes on bodies, where the bodies are over time, floors, and how large it all is.

Few bodies are drawn as solids. Many (a chain of 10 000) are drawn as lines from each body to its parent. States of a
batch stand side by side. The browser page and the pictures without a screen are both made from this.
"""

import math
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.model.orientation import quaternion_from_rotation

from . import solids
from .shapes import DrawnShape, Source, rotation, shapes

MAX_SOLID_BODIES = 300  # bodies of one state; larger mechanisms are drawn as lines
MAX_WORLDS = 1024  # states that are drawn side by side; the rest of a batch is left out
MAX_TRIANGLES = 400_000  # in all states together (256 quadrupeds: 0.2 M); shapes are simplified above it
MAX_BYTES = 256 << 20  # bytes of all frames; of longer runs every second record is drawn, or fewer
FEW = 60  # A part keeps at least this many triangles when it is simplified.
FINE_SIDES, COARSE_SIDES = 24, 6  # sides of round shapes, for few robots and for many
GAP = 1.3  # distance between neighbouring states, in sizes of one state


class Plane(NamedTuple):
    """A floor: a point on it, and its normal."""

    position: np.ndarray
    normal: np.ndarray


class Camera(NamedTuple):
    """What the camera shall frame: a box around the mechanism."""

    centre: np.ndarray
    half: np.ndarray  # half of its edges
    follow: bool  # True if the mechanism may leave that box

    @property
    def radius(self) -> float:
        """Of the ball around the box."""
        return max(float(np.linalg.norm(self.half)), 1e-6)


class Slider(NamedTuple):
    """A coordinate that a slider can move."""

    name: str
    column: int
    unit: str
    lower: float
    upper: float


class ShownScene:
    """A mechanism, and the states that are shown."""

    def __init__(
        self,
        model: kt.Model,
        run: kt.Trajectory | None = None,
        *,
        source: Source | None = None,
        max_bytes: int = MAX_BYTES,
    ):
        """Gather all that does not change.

        Arguments:
            model: the mechanism.
            run: states over time; the neutral configuration, or the file's first one, if not given.
            source: the robot file; the one that the model was loaded from if not given.
            max_bytes: how large all frames together may be.
        """
        self.model = model
        if run is None:
            q = np.asarray(kt.initial_state(model).q, float).reshape(1, 1, -1)
            self.time = np.zeros(1)
        else:
            q, self.time = run.q.reshape(len(run), -1, run.q.shape[-1]), np.asarray(run.time, float)
        self.all_worlds = q.shape[1]
        self.q = q[:, :MAX_WORLDS]
        self.worlds = self.q.shape[1]
        self.bodies = model.n_bodies
        self.solid = self.bodies <= MAX_SOLID_BODIES
        stride = max(1, math.ceil(len(self.q) * self.frame_floats * 4 / max_bytes))
        self.records = np.arange(0, len(self.q), stride)  # those that are drawn
        self.time = self.time[self.records]
        self.parts = self._parts(source) if self.solid else []
        self.planes = planes(model)
        if run is None:
            self.q = self._lifted(self.q)
        self.offsets = np.zeros((self.worlds, 3))
        self.single = self._size()
        self.offsets = _grid(self.worlds, GAP * 2 * float(max(self.single.half[:2].max(), 0.2 * self.single.radius)))
        self.camera = self._camera(self.single)

    @property
    def grid(self) -> Plane:
        """Where faint lines are drawn, if there is no floor: at z = 0, or below what is shown."""
        lowest = 0.0 if self.planes else min(0.0, float(self.camera.centre[2]) - self.single.radius)
        return Plane(np.array([0.0, 0.0, lowest]), np.array([0.0, 0.0, 1.0]))

    @property
    def texels(self) -> int:
        """Groups of four numbers that a body takes in a frame: position, and quaternion where it is a solid."""
        return 2 if self.solid else 1

    @property
    def frame_floats(self) -> int:
        """Numbers in a frame: poses of all bodies and the base, centres of mass, slider coordinates."""
        return self.worlds * (4 * self.texels * (self.bodies + 1) + 3 + len(self.joints))

    @property
    def joints(self) -> list[Slider]:
        """Coordinates of hinges, sliders and screws; the first of many."""
        if "_joints" not in self.__dict__:
            self._joints = _joints(self.model)
        return self._joints

    def _parts(self, source: Source | None) -> list[DrawnShape]:
        many = self.worlds > 16
        found = shapes(self.model, source, COARSE_SIDES if many else FINE_SIDES)
        allowed = MAX_TRIANGLES / self.worlds
        total = sum(len(part.solid.points) for part in found)
        if total <= allowed:
            return found
        share = allowed / total
        return [p._replace(solid=solids.simplified(p.solid, max(FEW, int(share * len(p.solid.points))))) for p in found]

    def _lifted(self, q: np.ndarray) -> np.ndarray:
        """A robot without a given place (its free root lies at the origin) stands on the floor, not in it."""
        structure = self.model.structure
        free = self.model.nq >= 7 and structure.joints[structure.joint_code[0]].kind in ("free", "floating")
        level = [p for p in self.planes if p.normal[2] > 0.999]
        if not (self.solid and free and level) or q[0, 0, :3].any():
            return q
        depth = float(level[0].position[2] - self._corners(q)[..., 2].min())
        q = q.copy()
        q[..., 2] += max(0.0, depth)
        return q

    # -- Frames -----------------------------------------------------------------------------------------------------

    def frames(self, first: int, count: int) -> np.ndarray:
        """So many frames, (count, frame_floats)."""
        return self.encode(self.q[self.records[first : first + count]])

    def encode(self, q: np.ndarray) -> np.ndarray:
        """Frames of states (frames, worlds, nq), as the page reads them: float32, (frames, frame_floats)."""
        n, worlds = q.shape[:2]
        poses = np.zeros((n, worlds, self.bodies + 1, self.texels, 4), np.float32)
        centre = np.zeros((n, worlds, 3), np.float32)
        offsets = self.offsets[:worlds]
        step = max(1, 2_000_000 // max(1, worlds * (self.bodies + 1)))  # states at a time: some 100 MB
        for k in range(0, n, step):
            at = slice(k, k + step)
            states = np.asarray(q[at], float)
            found = kt.forward_kinematics(self.model, states)
            poses[at, :, :-1, 0, :3] = found.position + offsets[:, None]
            if self.solid:
                poses[at, :, :-1, 1] = quaternion_from_rotation(np.swapaxes(found.rotation, -1, -2))
            if self.model.nv and float(self.model.total_mass) > 0:
                centre[at] = kt.center_of_mass(self.model, states) + offsets
        poses[:, :, -1, 0, :3] = offsets
        if self.solid:
            poses[:, :, -1, 1, 0] = 1.0
        columns = [j.column for j in self.joints]
        flat = (poses.reshape(n, -1), centre.reshape(n, -1), q[..., columns].reshape(n, -1).astype(np.float32))
        return np.concatenate(flat, 1)

    def positions(self, q: np.ndarray) -> np.ndarray:
        """(states, bodies + 1, 3): where bodies are, the base last, without the offsets of worlds."""
        found = kt.forward_kinematics(self.model, np.asarray(q, float)).position
        return np.concatenate([found, np.zeros((*found.shape[:-2], 1, 3))], -2)

    # -- Sizes ------------------------------------------------------------------------------------------------------

    @property
    def floating(self) -> bool:
        """True if a body on the base moves freely."""
        roots = np.flatnonzero(np.asarray(self.model.parent) < 0)
        kinds = [self.model.structure.joints[self.model.structure.joint_code[b]].kind for b in roots]
        return any(kind in ("free", "floating", "planar", "translation") for kind in kinds) or any(
            kind == "prismatic" for kind in kinds
        )

    def _size(self) -> Camera:
        """The box around one state over all of its time; where it travels farther than its size, around where it is."""
        some = np.unique(np.linspace(0, len(self.records) - 1, 30).astype(int))
        few = np.unique(np.linspace(0, self.worlds - 1, 16).astype(int))
        at = self._corners(self.q[self.records[some]][:, few])  # (frames, worlds, points, 3)
        if not at.shape[2]:
            return Camera(np.zeros(3), np.ones(3), False)
        low, high = np.nanmin(at, 2), np.nanmax(at, 2)  # (frames, worlds, 3)
        middle = (low + high) / 2
        travel = float(np.linalg.norm(middle - middle[:1], axis=-1).max())
        own = ((high - low) / 2).max((0, 1))
        if self.floating and travel > 0.5 * np.linalg.norm(own):
            return Camera(middle[0].mean(0), own, True)
        low, high = low.min((0, 1)), high.max((0, 1))
        return Camera((low + high) / 2, (high - low) / 2, self.floating)

    def _corners(self, q: np.ndarray) -> np.ndarray:
        """Points that the picture must hold, (..., n, 3): corners of the boxes around shapes, and origins of bodies."""
        found = kt.forward_kinematics(self.model, np.asarray(q, float))
        p, R = np.nan_to_num(found.position, posinf=0, neginf=0), np.nan_to_num(found.rotation, posinf=0, neginf=0)
        pieces = [p] if self.floating else [p, np.zeros((*p.shape[:-2], 1, 3))]  # A fixed base is a part of it.
        signs = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        for part in self.parts:
            low, high = part.solid.bounds
            box = np.where(signs, high, low)
            if part.body >= 0:
                pieces.append(np.einsum("...ij,kj->...ki", R[..., part.body, :, :], box) + p[..., part.body, None, :])
            elif not self.floating:
                pieces.append(np.broadcast_to(box, (*p.shape[:-2], 8, 3)))
        return np.concatenate(pieces, -2)

    def _camera(self, single: Camera) -> Camera:
        """All states together."""
        spread = np.ptp(self.offsets, axis=0) / 2
        return Camera(single.centre, single.half + spread, single.follow)


def _grid(worlds: int, step: float) -> np.ndarray:
    """(worlds, 3): places on a square grid about the origin, row by row."""
    side = math.ceil(math.sqrt(worlds))
    rows, columns = np.divmod(np.arange(worlds), side)
    at = np.stack([rows, columns, np.zeros(worlds)], 1)
    return (at - (at.max(0) / 2 if worlds else 0)) * step


def _joints(model: kt.Model, most: int = 60) -> list[Slider]:
    structure, coupling, limits = model.structure, model.coupling, model.limits
    found: list[Slider] = []
    row_of_q = {int(c): row for row, c in enumerate(structure.q_of_row) if c >= 0}
    for name, body in structure.joint_numbers.items():
        if len(found) >= most:
            break
        for k, wide in enumerate(range(int(structure.q_start[body]), int(structure.q_start[body + 1]))):
            if wide not in row_of_q or (coupling is not None and wide not in coupling.kept_q):
                continue
            column = wide if coupling is None else int(np.flatnonzero(coupling.kept_q == wide)[0])
            turns = float(np.asarray(model.rows.turn)[row_of_q[wide]]) != 0
            several = structure.q_start[body + 1] - structure.q_start[body] > 1
            low, high = (-np.inf, np.inf) if limits is None else (float(limits.lower[wide]), float(limits.upper[wide]))
            if not (np.isfinite([low, high]).all() and low < high):
                low, high = (-math.pi, math.pi) if turns else (-1.0, 1.0)
            found.append(Slider(f"{name}[{k}]" if several else name, column, "rad" if turns else "m", low, high))
    return found


def planes(model: kt.Model) -> list[Plane]:
    """Floors of the model's world: planes that do not move."""
    scene = None if model.world is None else model.world.scene
    if scene is None:
        return []
    found = []
    for i, (kind, body) in enumerate(zip(scene.layout.kinds, scene.layout.bodies, strict=True)):
        if kind == "plane" and body < 0:
            turn = rotation(np.asarray(scene.shapes.orientation[i], float))
            found.append(Plane(np.asarray(scene.shapes.position[i], float), turn[:, 2]))
    return found


def contact_forces(model: kt.Model, q: Any, qd: Any, tau: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points where a mechanism touches, the forces that act on it there, (n, 3) each, and which body it is, (n,).

    The solver gives forces on joints. Those at the points are the smallest that add up to them.
    """
    solved = kt.constrained_dynamics(model, q, qd, tau)
    touch = solved.contacts
    active = np.flatnonzero(np.asarray(touch.active))
    points = np.asarray(touch.position)[active]
    if not len(points):
        return points, np.zeros_like(points), np.zeros(0, int)
    rows = []
    for point, pair in zip(points, np.asarray(touch.bodies)[active], strict=True):
        whole = np.zeros((3, model.nv))
        for sign, body in ((-1.0, int(pair[0])), (1.0, int(pair[1]))):
            if body >= 0:
                J = np.asarray(kt.jacobian(model, q, body))  # world coordinates, about the world origin
                cross = np.array([[0, point[2], -point[1]], [-point[2], 0, point[0]], [point[1], -point[0], 0]])
                whole += sign * (J[3:] + cross @ J[:3])
        rows.append(whole)
    J = np.concatenate(rows)
    forces = np.linalg.lstsq(J.T, np.asarray(solved.tau_constraint), rcond=1e-9)[0].reshape(-1, 3)
    pairs = np.asarray(touch.bodies)[active]
    second = pairs[:, 1] >= 0  # the moving body; the force on the first is the opposite
    return points, forces * np.where(second, 1.0, -1.0)[:, None], np.where(second, pairs[:, 1], pairs[:, 0])
