"""A viewer in the browser, on viser: play a trajectory, or move the joints by hand.

Few bodies are drawn as solids, one frame to a body. Many (a chain of 10 000) are one set of lines, sent as one message.
"""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import viser

import kinetree as kt
from kinetree.model.compile import quaternion_from_rotation

from .plots import column_names
from .shapes import shapes

MOST_SOLIDS = 300  # bodies
MOST_SLIDERS = 40
FRAMES_PER_SECOND = 30.0
FIELD_OF_VIEW = np.deg2rad(50.0)
VIEW_FROM = np.array([1.3, -1.3, 0.8])  # a direction
PANEL = 0.3  # of the view lies under the controls, on the right: the scene stands so much farther away, and left of it
NEAR, FAR = 1e-3, 100.0  # clipping planes, over the radius of the scene: from close by to a hundred times as far


class Viewer:
    """A served page. `show(q)` moves the robot; `wait()` serves until interrupted."""

    def __init__(
        self, model: kt.Model, run: kt.Trajectory | None = None, *, source: Path | None = None, port: int = 8080
    ):
        """Start serving.

        Arguments:
            model: the mechanism.
            run: a trajectory to play.
            source: the robot file, for its shapes.
            port: where to listen; the next free one is taken if it is in use.
        """
        self.model, self.run = model, run
        self.q = np.array(kt.neutral(model) if run is None else self._states(run)[0, 0])
        self.server = viser.ViserServer(host="127.0.0.1", port=port, label="kinetree", verbose=False)
        self.server.scene.set_up_direction("+z")
        self.solid = model.n_bodies <= MOST_SOLIDS
        self.lines: Any = None
        self.sliders: dict[int, Any] = {}
        self.frames: list[Any] = []
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._draw(source)
        self._build_controls()
        self._player = threading.Thread(target=self._play, daemon=True)
        self._player.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server.get_port()}"

    @staticmethod
    def _states(run: kt.Trajectory) -> np.ndarray:
        """(records, states, nq)."""
        return run.q.reshape(len(run), -1, run.q.shape[-1])

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self, source: Path | None) -> None:
        scene = self.server.scene
        position = kt.forward_kinematics(self.model, self.q).position
        around = np.zeros(len(position))  # how far the shapes of each body reach from its origin
        if self.solid:
            for body in range(self.model.n_bodies):
                self.frames.append(scene.add_frame(f"/robot/{body}", show_axes=False))
            for number, shape in enumerate(shapes(self.model, source)):
                extent = float(np.linalg.norm(shape.mesh.vertices, axis=1).max(initial=0.0))
                around[shape.body] = max(around[shape.body], extent)
                scene.add_mesh_simple(
                    f"/robot/{shape.body}/{number}",
                    np.asarray(shape.mesh.vertices, np.float32),
                    np.asarray(shape.mesh.faces, np.uint32),
                    color=shape.colour,
                    flat_shading=True,
                )
        else:
            self.lines = scene.add_line_segments(
                "/robot", self._segments(position), (194, 65, 12), thickness=2.0, thickness_units="screen"
            )
        self._frame(position, around)
        self.show(self.q)

    def _frame(self, position: np.ndarray, around: np.ndarray) -> None:
        """Lay the ground, and place the camera so that all of the scene is seen, however large it is."""
        base = np.zeros((1, 3))
        lowest = np.concatenate([base, position - around[:, None]]).min(0)
        highest = np.concatenate([base, position + around[:, None]]).max(0)
        centre = (lowest + highest) / 2
        radius = max(float(np.linalg.norm(highest - lowest)) / 2, 1e-3)
        self.server.scene.add_grid(
            "/ground", 6 * radius, 6 * radius, plane="xy", cell_size=radius / 5, section_size=radius,
            fade_distance=30 * radius,
            position=(float(centre[0]), float(centre[1]), min(0.0, float(lowest[2]))),
        )  # fmt: skip
        camera = self.server.initial_camera
        camera.fov = FIELD_OF_VIEW
        camera.near, camera.far = NEAR * radius, FAR * radius
        back = VIEW_FROM / np.linalg.norm(VIEW_FROM)
        right = np.cross([0.0, 0.0, 1.0], back)
        camera.look_at = centre + right / np.linalg.norm(right) * PANEL * radius
        camera.position = camera.look_at + back * (1 + PANEL) * radius / np.sin(FIELD_OF_VIEW / 2)

    def _segments(self, position: np.ndarray) -> np.ndarray:
        """(bodies, 2, 3): from each body's origin to its parent's, the base standing in its place for roots."""
        parent = np.asarray(self.model.parent)
        start = np.where((parent >= 0)[:, None], position[parent], position)
        return np.stack([start, position], 1).astype(np.float32)

    def show(self, q: Any) -> None:
        """Draw a configuration, (nq,)."""
        pose = kt.forward_kinematics(self.model, np.asarray(q, float))
        with self._lock, self.server.atomic():
            self.q = np.array(q, float)
            self._set_sliders()
            if self.lines is not None:
                self.lines.points = self._segments(pose.position)
                return
            turned = quaternion_from_rotation(np.swapaxes(pose.rotation, -1, -2))
            for frame, wxyz, position in zip(self.frames, turned, pose.position, strict=True):
                frame.wxyz, frame.position = wxyz, position

    # -- controls ---------------------------------------------------------------------------------------------------

    def _build_controls(self) -> None:
        gui = self.server.gui
        self.playing = False
        if self.run is not None and len(self.run) > 1:
            last = len(self.run) - 1
            with gui.add_folder("Time"):
                self.play_button = gui.add_button("Play")
                self.record = gui.add_slider("record", 0, last, 1, 0)
                self.speed = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)
                states = self._states(self.run).shape[1]
                self.state = gui.add_slider("state", 0, states - 1, 1, 0) if states > 1 else None
            self.play_button.on_click(lambda _: self.toggle())
            self.record.on_update(lambda _: self._show_record())
            if self.state is not None:
                self.state.on_update(lambda _: self._show_record())
        names = column_names(self.model, self.model.nq, positions=True)
        with gui.add_folder("Joints", expand_by_default=self.run is None):
            for column in self._scalar_columns()[:MOST_SLIDERS]:
                start = float(self.q[column])
                low, high = self._range(column)
                low, high = min(low, start), max(high, start)  # what stands outside its limits is shown as it stands
                slider = gui.add_slider(names[column], low, high, (high - low) / 200, start)
                slider.on_update(lambda event, column=column: self._from_slider(event, column))
                self.sliders[column] = slider

    def _scalar_columns(self) -> list[int]:
        structure, coupling = self.model.structure, self.model.coupling
        columns = structure.q_of_row[structure.q_of_row >= 0]
        return [int(c) for c in (columns if coupling is None else range(coupling.nq))]

    def _range(self, column: int) -> tuple[float, float]:
        limits, coupling = self.model.limits, self.model.coupling
        at = column if coupling is None else int(coupling.kept_q[column])
        low, high = (-np.inf, np.inf) if limits is None else (limits.lower[at], limits.upper[at])
        return (float(low), float(high)) if np.isfinite([low, high]).all() and low < high else (-np.pi, np.pi)

    def _set_sliders(self) -> None:
        """Let the sliders stand where the joints do, also outside their limits."""
        for column, slider in self.sliders.items():
            value = float(self.q[column])
            if not np.isfinite(value) or value == slider.value:
                continue
            slider.min, slider.max = min(slider.min, value), max(slider.max, value)
            slider.value = value

    def _from_slider(self, event: Any, column: int) -> None:
        if not self.playing and event.client is not None:  # moved by hand, not by `show`
            q = self.q.copy()
            q[column] = self.sliders[column].value
            self.show(q)

    def _show_record(self) -> None:
        assert self.run is not None
        state = 0 if self.state is None else self.state.value
        self.show(self._states(self.run)[self.record.value, state])

    def toggle(self) -> None:
        """Play or pause."""
        self.playing = not self.playing
        self.play_button.label = "Pause" if self.playing else "Play"

    def _play(self) -> None:
        """Move the record slider in step with the clock; drawing follows the slider."""
        moment, shown = None, 0.0
        while not self._stop.wait(1 / FRAMES_PER_SECOND):
            if not self.playing or self.run is None:
                moment = None
                continue
            now = time.monotonic()
            times = self.run.time
            if moment is None:
                shown = float(times[self.record.value])
                moment = now
            shown = (shown + (now - moment) * self.speed.value) % max(float(times[-1]), 1e-9)
            moment = now
            self.record.value = int(np.searchsorted(times, shown, side="right")) - 1
            self._show_record()

    def stop(self) -> None:
        """Close the page."""
        self._stop.set()
        self.server.stop()

    def wait(self) -> None:
        """Serve until interrupted."""
        print(f"showing at {self.url}: stop with Ctrl+C")
        try:
            while not self._stop.wait(1):
                pass
        except KeyboardInterrupt:
            self.stop()
