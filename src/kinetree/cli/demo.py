"""`kinetree demo`: one large tree and one small arm, under every schedule."""

import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import kinetree as kt
from kinetree.dynamics.schedules.choose import SCHEDULES

OWNER = (
    os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
)  # Users of one machine may share the temporary folder.
PICTURE = Path(
    tempfile.gettempdir(), f"kinetree-{OWNER}", "kinetree-demo.png"
)  # The demo leaves no file in the current folder.
LASTS = "about 40 s on two free cores, most of them compiling"  # measured: 41 s of CPU time, nothing cached
REPEAT_SECONDS = 0.2  # seconds; each call is repeated this long
FORWARD = ("lanes", "sequential", "levels", "paths")  # the schedules of the articulated-body algorithm
IN_ORDER_MAX_ROWS = 1000  # rows; XLA would take minutes for the articulated-body algorithm in order, and is left out


class DemoProblem(NamedTuple):
    """A mechanism and one state of it."""

    name: str
    model: kt.Model
    state: tuple[np.ndarray, np.ndarray, np.ndarray]


class Measured(NamedTuple):
    """One schedule on one problem."""

    schedule: str
    first: float  # seconds, compilation included
    again: float  # seconds
    error: float  # against the first schedule, which takes the rows in order, norm over norm
    chosen: bool


def problem(name: str, n: int, branching: float) -> DemoProblem:
    """Rods on skewed hinges in a random state."""
    model = kt.auto_tree(n, branching, skew=0.3)
    rng = np.random.default_rng(0)
    return DemoProblem(name, model, (rng.uniform(-np.pi, np.pi, n), rng.standard_normal(n), rng.standard_normal(n)))


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, the time of the first call, and the best of those that fit into REPEAT_SECONDS."""
    start = time.perf_counter()
    result = jax.block_until_ready(call())
    first = time.perf_counter() - start
    best, end = np.inf, time.perf_counter() + REPEAT_SECONDS
    while best == np.inf or time.perf_counter() < end:
        start = time.perf_counter()
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - start)
    return result, first, best


def measure(function: Callable[..., Any], schedules: tuple[str, ...], p: DemoProblem) -> list[Measured]:
    """A function of the state under each schedule. The first walks rows in order; the others are compared with it."""
    chosen, reference, rows = kt.explain(p.model).inverse_dynamics.schedule, None, []
    for schedule in schedules:
        result, first, again = timed(lambda schedule=schedule: function(p.model, *p.state, schedule=schedule))
        reference = result if reference is None else reference
        error = float(np.linalg.norm(result - reference) / np.linalg.norm(reference))
        rows.append(Measured(schedule, first, again, error, schedule == chosen))
    return rows


def duration(seconds: float) -> str:
    """In a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def table(title: str, rows: list[Measured]) -> Table:
    """A measurement as it is printed."""
    columns = ("schedule", "first call", "again", "times as fast", "error", "auto")
    shown = Table(*columns, title=title, title_justify="left")
    for column in shown.columns[1:5]:
        column.justify = "right"
    for r in rows:
        faster, error = f"{rows[0].again / r.again:.3g}", "" if r is rows[0] else f"{r.error:.0e}"
        shown.add_row(r.schedule, duration(r.first), duration(r.again), faster, error, "chosen" if r.chosen else "")
    return shown


def draw(results: dict[str, list[Measured]], path: Path) -> None:
    """One bar for each time, problem by problem, on a logarithmic scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.3 * sum(map(len, results.values()))), layout="constrained")
    axes = figure.subplots(len(results), sharex=True, height_ratios=[len(rows) for rows in results.values()])
    axes = np.atleast_1d(axes)
    for ax, (title, rows) in zip(axes, results.items(), strict=True):
        colors = ["tab:orange" if r.chosen else "tab:blue" for r in rows]
        ax.barh([r.schedule for r in rows], [r.again for r in rows], color=colors)
        ax.set(xscale="log", title=title)
        ax.invert_yaxis()
    axes[-1].set_xlabel("seconds a call (orange: what auto takes)")
    figure.savefig(path, dpi=150)


def demo(large: int = 100_000, small: int = 10, picture: Path | None = None) -> None:
    """Print a table for each problem and write one picture.

    Arguments:
        large: bodies of the tree.
        small: bodies of the arm.
        picture: where to write it; into the system's folder for temporary files if not given.
    """
    console = Console()
    start = time.perf_counter()
    problems = (problem(f"binary tree of {large:,} bodies", large, 2), problem(f"arm of {small} bodies", small, 1))
    console.print(f"kinetree {kt.__version__} on {jax.devices()[0].device_kind}, float64, one state", highlight=False)
    console.print(f"this takes {LASTS}", highlight=False)
    results = {}
    for p in problems:
        for what, function, schedules in (
            ("inverse dynamics", kt.inverse_dynamics, SCHEDULES),
            ("forward dynamics", _articulated, FORWARD),
        ):
            if function is _articulated and p.model.nv > IN_ORDER_MAX_ROWS:
                schedules = tuple(s for s in schedules if s != "sequential")
            results[title := f"{what}, {p.name}"] = rows = measure(function, schedules, p)
            console.print(table(title, rows))
    console.print("error: difference from the first line, norm over norm. first call: with compilation.")
    if find_spec("matplotlib") is None:
        console.print("no picture: it needs the extra `plot` (pip install 'kinetree[plot]')", markup=False)
    else:
        _write_picture(results, picture or PICTURE, console)
    console.print(f"all in {time.perf_counter() - start:.0f} s", highlight=False)


def _write_picture(results: dict[str, list[Measured]], path: Path, console: Console) -> None:
    """Draw, and print the path. If the folder can not be written to, only warn: the results were shown already."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draw(results, path)
    except OSError as error:
        console.print(f"no picture: {path} can not be written: {error.strerror or error}", markup=False, soft_wrap=True)
    else:
        console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)


def _articulated(model: kt.Model, q: Any, qd: Any, tau: Any, schedule: str) -> Any:
    return kt.forward_dynamics(model, q, qd, tau, method="aba", schedule=schedule)
