"""A simulation in step with the clock, whose bodies can be pushed."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import kinetree as kt

FRAME = 1 / 60  # seconds of simulated time between two readings of the clock
PUSH_PERIOD = 0.6  # seconds; period of the spring between the mouse and the mass that it moves
MAX_LAG = 0.25  # seconds; a simulation that lags more does not try to catch up


class Live:
    """Steps a model in real time, or as fast as it can."""

    def __init__(self, model: kt.Model, controller: Any = None, q: Any = None):
        self.model, self.controller = model, controller
        self.start = kt.initial_state(model) if q is None else kt.initial_state(model, np.asarray(q, float))
        self.state = self.start
        self.paused, self.pushes = False, 0
        self.stopped = threading.Event()
        self._grip: tuple[int, np.ndarray, np.ndarray] | None = None
        self._lock = threading.Lock()
        step = float(model.timestep)
        self.substeps = max(1, round(FRAME / step))
        self.frame = self.substeps * step

    def push(self, body: int | None, point: Any = None, to: Any = None) -> None:
        """Pull a point of a body (in its frame) to a place in the world; without a body, let go."""
        grip = None
        if body is not None:
            if not 0 <= int(body) < self.model.n_bodies:
                raise ValueError(f"there is no body {body}")
            grip = int(body), np.array(point, float).reshape(3), np.array(to, float).reshape(3)
            if not (np.isfinite(grip[1]).all() and np.isfinite(grip[2]).all()):
                raise ValueError("a push needs finite points")
        with self._lock:
            self._grip = grip
            self.pushes += grip is not None

    def pull(self) -> np.ndarray:
        """Forces on the bodies, (n_bodies, 6): a spring with critical damping from the held point to the mouse."""
        force = np.zeros((self.model.n_bodies, 6))
        with self._lock:
            grip = self._grip
        if grip is None:
            return force
        body, point, to = grip
        q, qd = np.asarray(self.state.q, float), np.asarray(self.state.qd, float)
        pose = kt.forward_kinematics(self.model, q)
        at = pose.position[body] + pose.rotation[body] @ point
        J = np.asarray(kt.jacobian(self.model, q, body))  # in world coordinates, about the world origin
        turn, slide = (J @ qd)[:3], (J @ qd)[3:]
        rate = 2 * np.pi / PUSH_PERIOD
        wanted = rate**2 * (to - at) - 2 * rate * (slide + np.cross(turn, at))
        f = np.linalg.solve(self._mobility(q, J, np.asarray(at)), wanted)
        force[body] = [*np.cross(at, f), *f]
        return force

    def _mobility(self, q: np.ndarray, J: np.ndarray, at: np.ndarray) -> np.ndarray:
        """(3, 3): what a unit force at a point accelerates it by; at least as much as the whole mechanism in one."""
        x, y, z = at
        own = J[3:] - np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ J[:3]
        H = np.asarray(kt.mass_matrix(self.model, q))
        whole = max(float(self.model.total_mass), 1e-9)
        return own @ np.linalg.lstsq(H, own.T, rcond=1e-12)[0] + np.eye(3) / whole

    def states(self) -> Iterator[tuple[kt.State, float]]:
        """Each state after a sixtieth of a second of simulated time, and how fast time goes against the clock."""
        self._step()  # The first step compiles: do it before the clock starts.
        begin, done, rate = time.monotonic(), 0.0, 1.0
        last = begin
        while not self.stopped.is_set():
            if self.paused:
                begin, done, last = time.monotonic(), 0.0, time.monotonic()
                self.stopped.wait(0.05)
                continue
            self._step()
            if not np.isfinite(np.asarray(self.state.q)).all():
                self.state = self.start  # it flew apart: begin again
            done += self.frame
            now = time.monotonic()
            rate += 0.05 * (self.frame / max(now - last, 1e-6) - rate)
            last = now
            yield self.state, min(rate, 1.0)
            ahead = done - (time.monotonic() - begin)
            if ahead > 0:
                self.stopped.wait(ahead)
                last = min(last, time.monotonic())
            elif ahead < -MAX_LAG:
                begin, done = time.monotonic(), 0.0

    def _step(self) -> None:
        """One frame of simulated time, with the forces of mouse and controller."""
        if self.controller is None:
            self.state = kt.advance(self.model, self.state, None, self.pull(), substeps=self.substeps)
            return
        q, qd, t = self.state.q, self.state.qd, self.state.time
        for _ in range(self.substeps):
            q, qd = kt.step(self.model, q, qd, float(self.model.timestep), self.controller, t=t)
            t = t + float(self.model.timestep)
        self.state = self.state.replace(q=q, qd=qd, time=t)
