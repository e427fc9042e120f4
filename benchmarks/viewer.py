"""Frames a second that the viewer's page counts by itself, in headless Chromium without a GPU.

Two scenes: 256 quadrupeds on the ground, and a chain of 10 000 links. Run: python -m benchmarks.viewer
"""

import contextlib
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import kinetree as kt
from kinetree.view.viewer import Viewer

SECONDS = 8  # of counting, after one second of warming up
QUADRUPED = "examples/robots/quadruped.urdf"


def quadrupeds(worlds: int = 256, frames: int = 60) -> Viewer:
    """Robots that stand and swing their legs; shadows are on."""
    model = kt.load(QUADRUPED, floating_base=True, ground=True)
    q = np.tile(kt.neutral(model), (frames, worlds, 1))
    q[..., 2] = 0.42
    q[..., 7:] = 0.4 * np.sin(np.linspace(0, 2 * np.pi, frames)[:, None, None] + np.arange(worlds)[:, None])
    return _shown(model, q)


def chain(links: int = 10_000, frames: int = 60) -> Viewer:
    """A chain that sways."""
    model = kt.auto_tree(links, skew=np.pi / 2, taper=0.9995)
    return _shown(model, 0.02 * np.sin(np.linspace(0, 2 * np.pi, frames))[:, None] * np.ones(model.nv))


def _shown(model: kt.Model, q: np.ndarray) -> Viewer:
    rates = np.zeros((*q.shape[:-1], model.nv))
    return kt.view(model, kt.Trajectory(np.linspace(0, 2, len(q)), q, rates, rates), port=0)


class Counted(NamedTuple):
    """Frames a second by the page's own counter; processor time of the browser for a frame, in milliseconds."""

    frames: list[float]
    processor: float


def counted(viewer: Viewer) -> Counted:
    """Let the page play, and read its counter each second."""
    from tests.view.browser import Browser

    with Browser() as browser:
        browser.open(viewer.url)
        browser.eventually(lambda: browser.evaluate("window.kinetree && kinetree.fps > 0"))
        browser.evaluate(
            "kinetree.total = 0; kinetree.follow_ = kinetree.follow; "
            "kinetree.follow = function (s) { this.total++; this.follow_(s); }; 1"
        )
        start, found = processor_seconds(browser.process.pid), []
        for _ in range(SECONDS):
            time.sleep(1.05)
            found.append(browser.evaluate("kinetree.fps"))
        taken = processor_seconds(browser.process.pid) - start
        return Counted(found, 1e3 * taken / max(1, browser.evaluate("kinetree.total")))


def processor_seconds(process: int) -> float:
    """Of a process and all that it started; Linux only."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            stats[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    family = {process}
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return sum(stats[pid][1] for pid in family if pid in stats) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print what the page counts."""
    warnings.simplefilter("ignore")
    for name, scene in (("256 quadrupeds", quadrupeds), ("chain of 10 000", chain)):
        with scene() as viewer:
            frames, processor = counted(viewer)
        spread = f"{statistics.median(frames):.0f} frames/s ({min(frames):.0f} to {max(frames):.0f})"
        print(f"{name}: {spread}, {processor:.1f} ms of processor time a frame", flush=True)


if __name__ == "__main__":
    main()
