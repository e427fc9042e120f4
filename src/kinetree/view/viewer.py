"""The viewer: a page in the browser that plays a run, moves joints by hand, or shows a live simulation.

The page gets shapes and all frames as numbers and draws by itself: once it is loaded, playing asks nothing of Python.
"""

import html
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from kinetree._arrays import there
from kinetree._types import AnyArray, Float
from kinetree.simulate.forces import Controller

from . import page_text
from .live import Live
from .scene import ShownScene, contact_forces
from .server import PageServer, Reply
from .shapes import Source

INLINE_BYTES = 24 << 20  # bytes of frames in a page that holds its own data
NOTEBOOK_HEIGHT = 480  # pixels
FRAMES_PER_SECOND = 60.0  # A live simulation sends at most this many states in a second.
FILES = {"/": "text/html; charset=utf-8", "/index.html": "text/html; charset=utf-8"}


class Viewer:
    """A served page. `show(q)` moves the robot; `wait()` serves until interrupted."""

    def __init__(
        self,
        model: kt.Model,
        run: kt.Trajectory | kt.State | Float[AnyArray, "... nq"] | None = None,
        *,
        source: Source | None = None,
        host: str = "127.0.0.1",
        port: int = 8080,
        live: bool = False,
        controller: Controller | None = None,
        name: str = "",
    ):
        """Start serving.

        Arguments:
            model: the mechanism.
            run: a trajectory to play; or where the robot stands: a configuration (nq,), several (worlds, nq), a State.
            source: the robot file, for its shapes; the one that the model was loaded from if not given.
            host: where to listen; "0.0.0.0" lets other machines see the page.
            port: the next free one is taken if it is in use.
            live: simulate while the page is open, and let the mouse push bodies.
            controller: of a live simulation: (t, q, qd) -> tau.
            name: what the page is called.
        """
        if live and isinstance(run, kt.Trajectory):
            raise ValueError("a viewer plays a run or simulates live, not both")
        run = run if run is None or isinstance(run, kt.Trajectory) else _standing(model, run)
        self.model, self.run, self.host = model, run, host
        self._source = source
        self.name = name or _file_name(source if source is not None else model.structure.source)
        self.scene = ShownScene(model, run, source=source)
        self.q = np.array(self.scene.q[0, 0], float)
        self._geometry = page_text.geometry(self.scene)
        self._news = threading.Condition()
        self._sent = 0  # how many states were published
        self._latest = b""
        self._solving = threading.Lock()
        self.live = Live(model, controller, self.q) if live else None
        self.server = PageServer(host, port, self._get, self._post, self._stream)
        if self.live is not None:
            self._publish(self.q, working=True)
            self._player = threading.Thread(target=self._simulate, daemon=True)
            self._player.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.host, self.host)
        return f"http://{host}:{self.server.port}"

    def show(self, q: Any) -> None:
        """Draw a configuration, (nq,)."""
        q = np.array(q, float)
        if q.shape != (self.model.nq,):
            raise ValueError(f"a configuration has {self.model.nq} coordinates, not shape {q.shape}")
        self._publish(q)

    def html(self) -> str:
        """The whole scene as one page that needs no server: save it, send it, open it anywhere."""
        scene = ShownScene(self.model, self.run, source=self._source, max_bytes=INLINE_BYTES)
        return page_text.standalone(scene, name=self.name)

    def _repr_html_(self) -> str:
        """In a notebook: the page, inside the cell."""
        frame = f"width: 100%; height: {NOTEBOOK_HEIGHT}px; border: 0"
        return f'<iframe srcdoc="{html.escape(self.html())}" style="{frame}"></iframe>'

    def __repr__(self) -> str:
        return f"Viewer({self.name or self.model!r} at {self.url})"

    def stop(self) -> None:
        """Close the page."""
        self.server.stop()
        if self.live is not None:
            self.live.stopped.set()
            self._player.join(10)
        with self._news:
            self._news.notify_all()

    def wait(self) -> None:
        """Serve until interrupted."""
        print(f"showing at {self.url}: stop with Ctrl+C", flush=True)
        try:
            while not self.server.stopped.wait(1):
                pass
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    # -- What the page asks for -------------------------------------------------------------------------------------

    def _get(self, path: str, query: dict[str, str]) -> Reply | None:
        if path in FILES:
            return FILES[path], page_text.page().encode()
        if path == "/scene.json":
            facts = page_text.description(self.scene, name=self.name, live=self.live is not None)
            return "application/json", json.dumps(facts).encode()
        if path == "/geometry.bin":
            return "application/octet-stream", self._geometry
        if path == "/frames.bin":
            frames = self.scene.frames(int(query["first"]), int(query["count"]))
            return "application/octet-stream", frames.astype("<f4").tobytes()
        return None

    def _post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        if path == "/move":
            return self._move(asked)
        if path == "/contacts":
            return self._contacts(asked)
        if path == "/push" and self.live is not None:
            self.live.push(asked.get("body"), asked.get("point"), asked.get("to"))
            return {}
        if path == "/pause" and self.live is not None:
            self.live.paused = bool(asked["paused"])
            return {}
        raise ValueError(f"the viewer has no page {path}")

    def _move(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A slider was moved: from the configuration that the page shows, or from the last one that was moved."""
        with self._news:
            fresh = not self._sent
        q = self.scene.q[self.scene.records[int(asked["frame"])], int(asked["world"])] if fresh else self.q
        q = np.array(q, float)
        q[int(asked["column"])] = float(asked["value"])
        self._publish(q)
        return {}

    def _contacts(self, asked: dict[str, Any]) -> dict[str, Any]:
        world = int(asked["world"])
        tau = None
        if self.live is not None:
            q, qd = self.live.state.q, self.live.state.qd
        elif asked["shown"] or self.run is None:
            q, qd = self.q, np.zeros(self.model.nv)
        else:
            at = int(self.scene.records[int(asked["frame"])])
            q = self.scene.q[at, world]
            qd, tau = (x.reshape(len(self.run), -1, self.model.nv)[at, world] for x in (self.run.qd, self.run.tau))
        with self._solving:
            points, forces, _ = contact_forces(self.model, np.asarray(q, float), np.asarray(qd, float), tau)
        weight = float(self.model.total_mass) * float(np.linalg.norm(self.model.gravity))
        points = points + self.scene.offsets[world]
        return {"points": points.tolist(), "forces": forces.tolist(), "weight": weight}

    # -- States that are sent ---------------------------------------------------------------------------------------

    def _publish(self, q: np.ndarray, moment: float = 0.0, rate: float = 0.0, working: bool = False) -> None:
        every = np.broadcast_to(q, (1, self.scene.worlds, self.model.nq))
        head = np.array([moment, rate, working, 0.0], "<f4").tobytes()
        piece = head + self.scene.encode(every).astype("<f4").tobytes()
        with self._news:
            self.q, self._latest = q, piece
            self._sent += 1
            self._news.notify_all()

    def _stream(self) -> Iterator[bytes]:
        known = 0
        while not self.server.stopped.is_set():
            with self._news:
                if self._sent == known:
                    self._news.wait(0.5)
                if self._sent == known:
                    continue
                known, piece = self._sent, self._latest
            yield piece

    def _simulate(self) -> None:
        shown = 0.0
        for state, rate in there(self.live).states():
            now = time.monotonic()
            if now - shown >= 1 / FRAMES_PER_SECOND:
                shown = now
                self._publish(np.asarray(state.q, float), float(state.time), rate)


def _standing(model: kt.Model, given: Any) -> kt.Trajectory:
    """A run of one moment."""
    q = np.asarray(given.q if isinstance(given, kt.State) else given, float)
    if q.ndim not in (1, 2) or q.shape[-1] != model.nq:
        raise ValueError(f"a viewer shows a Trajectory, a State, or q of shape ({model.nq},), not shape {q.shape}")
    rest = np.zeros((1, *q.shape[:-1], model.nv))
    return kt.Trajectory(np.zeros(1), q[None], rest, rest)


def _file_name(source: Any) -> str:
    if isinstance(source, Path) or (isinstance(source, str) and not source.lstrip().startswith("<")):
        return Path(source).stem
    return ""
