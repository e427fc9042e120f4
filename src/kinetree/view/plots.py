"""Plots fit for a paper: runs, energy, contact, comparisons, trees and sparsity. Each function returns a Figure.

Joints have names and units; quaternions stand in a panel of their own; a batch is a median with a band around it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree._unknown import did_you_mean, unknown

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise ModuleNotFoundError("plots need the extra plot: pip install 'kinetree[plot]'") from None

INK, ACCENT, PALE = "#1f2933", "#c2410c", "#94a3b8"
CURVES = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#eab308", "#0891b2", "#db2777", "#84cc16", "#475569", "#78350f")
MOST_CURVES = len(CURVES)  # A panel has at most one curve of each colour.
BAND = (5.0, 95.0)  # percentiles of a batch that its band spans
WIDTH = 7.0  # inches; the width of the text on a page
PANEL = 1.75  # inches; the height of one panel
MOST_PANELS = 6  # panels of a comparison, if the user does not choose joints
MOST_CELLS = 750  # rows and columns of a picture of a matrix: more than it has dots on a page


class Column(NamedTuple):
    """One coordinate, velocity or force."""

    index: int
    name: str
    unit: str


def _panel(figure: Figure, *place: int) -> Any:
    axes = figure.add_subplot(*place)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=8)
    return axes


def column_names(model: kt.Model | None, count: int, positions: bool = False) -> list[str]:
    """A name for each column of q or qd: its joint, numbered where the joint has several."""
    if model is None:
        return [f"{'q' if positions else 'v'}{i}" for i in range(count)]
    names = [""] * count
    for joint in model.joint_names:
        at = model.q_index(joint) if positions else model.v_index(joint)
        for k in range(at.start, at.stop):
            names[k] = joint if at.stop - at.start == 1 else f"{joint}[{k - at.start}]"
    return names


PARTS = {  # Column names of joints with several coordinates, by their numbers of q and v.
    (7, 6): (("x", "y", "z", "qw", "qx", "qy", "qz"), ("ωx", "ωy", "ωz", "vx", "vy", "vz")),
    (4, 3): (("qw", "qx", "qy", "qz"), ("ωx", "ωy", "ωz")),
}
MEANING = {"q": ("rad", "m"), "qd": ("rad/s", "m/s"), "tau": ("N m", "N")}  # units of hinges, units of sliders


def _columns(model: kt.Model | None, run: kt.Trajectory, what: str) -> dict[str, list[Column]]:
    """Columns of q, qd or tau, by unit; those of quaternions, which have none, by themselves."""
    count = (run.q if what == "q" else run.qd).shape[-1]
    angular, linear = MEANING[what]
    if model is None:
        names = column_names(None, count, what == "q")
        return {f"{angular}, {linear}": [Column(i, name, "") for i, name in enumerate(names)]}
    found: dict[str, list[Column]] = {}
    turn = np.asarray(model.uncoupled.rows.turn)
    done: set[int] = set()
    for joint in model.joint_names:
        q, v = model.q_index(joint), model.v_index(joint)
        wide = model.uncoupled.v_index(joint)
        size = q.stop - q.start, v.stop - v.start
        at = q if what == "q" else v
        for k in range(at.stop - at.start):
            if at.start + k in done:
                continue
            done.add(at.start + k)
            if size in PARTS:
                part = PARTS[size][0 if what == "q" else 1][k]
                unit = "" if part[0] == "q" else linear if part[0] in "xyzv" else angular
                name = f"{joint} {part}"
            else:
                unit = angular if turn[wide.start + k] else linear
                name = joint if size[1] == 1 else f"{joint}[{k}]"
            found.setdefault(unit, []).append(Column(at.start + k, name, unit))
    return found


def _curves(axes: Any, time: np.ndarray, values: np.ndarray, columns: list[Column], shown: int | None) -> None:
    """Each column of values (records, states, n): a line for one state, else the median and a band."""
    for number, column in enumerate(columns[:MOST_CURVES]):
        y, colour = values[..., column.index], CURVES[number]
        if y.shape[1] == 1 or shown is not None:
            axes.plot(time, y[:, shown or 0], color=colour, linewidth=1.1, label=column.name)
            continue
        low, high = np.nanpercentile(y, BAND, axis=1)
        axes.fill_between(time, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(time, np.nanmedian(y, 1), color=colour, linewidth=1.1, label=column.name)


def _legend(axes: Any, columns: list[Column]) -> None:
    title = f"first {MOST_CURVES} of {len(columns)}" if len(columns) > MOST_CURVES else None
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1.05), frameon=False, title=title, title_fontsize=7)


NAMES = {"q": "position", "qd": "velocity", "tau": "force"}


def trajectory(run: kt.Trajectory, model: kt.Model | None = None, *, state: int | None = None) -> Figure:
    """Positions, velocities and, where there are any, forces over time.

    Arguments:
        run: what to draw; of a batch, the median and the band from the 5th to the 95th percentile.
        model: gives names and units.
        state: draw this state of the batch alone.
    """
    values = {w: getattr(run, w).reshape(len(run), -1, getattr(run, w).shape[-1]) for w in MEANING}
    panels = [(w, unit, cols) for w in MEANING for unit, cols in _columns(model, run, w).items()]
    panels = [
        (w, unit, cols) for w, unit, cols in panels if w != "tau" or values[w][..., [c.index for c in cols]].any()
    ]
    figure = Figure(figsize=(WIDTH, 0.6 + PANEL * len(panels)), layout="constrained")
    first = None
    for number, (what, unit, columns) in enumerate(panels):
        axes = _panel(figure, len(panels), 1, number + 1)
        if first is not None:
            axes.sharex(first)
        first = first or axes
        _curves(axes, run.time, values[what], columns, state)
        label = "quaternion" if what == "q" and not unit else f"{NAMES[what]} ({unit})"
        axes.set_ylabel(label, fontsize=9)
        _legend(axes, columns)
        if number == len(panels) - 1:
            axes.set_xlabel("time (s)", fontsize=9)
        else:
            axes.tick_params(labelbottom=False)
    if run.batch:
        count = int(np.prod(run.batch))
        text = f"state {state} of {count}" if state is not None else f"median and 5 to 95 % of {count} states"
        figure.suptitle(text, fontsize=9)
    return figure


def energy(model: kt.Model, run: kt.Trajectory) -> Figure:
    """Kinetic, potential and total energy over time, and how far the total strays; of a batch, median and band."""
    q, qd = (x.reshape(len(run), -1, x.shape[-1]) for x in (run.q, run.qd))
    kinetic, potential = np.asarray(kt.kinetic_energy(model, q, qd)), np.asarray(kt.potential_energy(model, q))
    total = kinetic + potential
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    axes = _panel(figure, 2, 1, 1)
    for label, values, colour in (("kinetic", kinetic, ACCENT), ("potential", potential, PALE), ("total", total, INK)):
        _band(axes, run.time, values, colour, label)
    axes.set_ylabel("energy (J)", fontsize=9)
    axes.legend(frameon=False, ncols=3, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1))
    if run.batch:
        axes.set_title(f"median and 5 to 95 % of {q.shape[1]} states", fontsize=9, loc="left")
    axes = _panel(figure, 2, 1, 2)
    _band(axes, run.time, total - total[0], INK, "")
    axes.set_ylabel("change of total (J)", fontsize=9)
    axes.ticklabel_format(axis="y", scilimits=(-3, 4))
    axes.set_xlabel("time (s)", fontsize=9)
    return figure


def _band(axes: Any, time: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
    if values.shape[1] > 1:
        low, high = np.nanpercentile(values, BAND, axis=1)
        axes.fill_between(time, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(time, np.nanmedian(values, 1), color=colour, linewidth=1.2, label=label)


def contact(model: kt.Model, run: kt.Trajectory, *, state: int = 0) -> Figure:
    """The force of the floor on each body that touches it, along gravity, and the weight; of one state of a batch."""
    from .scene import contact_forces

    q, qd, tau = (x.reshape(len(run), -1, x.shape[-1])[:, state] for x in (run.q, run.qd, run.tau))
    gravity = np.asarray(model.gravity, float)
    size = float(np.linalg.norm(gravity))
    up = -gravity / size if size else np.array([0.0, 0.0, 1.0])
    loads: dict[str, np.ndarray] = {}
    for k in range(len(run)):
        _, forces, bodies = contact_forces(model, q[k], qd[k], tau[k])
        for body, force in zip(bodies, forces, strict=True):
            loads.setdefault(model.names[body], np.zeros(len(run)))[k] += force @ up
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = _panel(figure, 1, 1, 1)
    for number, (name, load) in enumerate(list(loads.items())[:MOST_CURVES]):
        axes.plot(run.time, load, color=CURVES[number], linewidth=1.1, label=name)
    total = sum(loads.values(), np.zeros(len(run)))
    axes.plot(run.time, total, color=INK, linewidth=1.4, label="total")
    axes.axhline(float(model.total_mass) * size, color=INK, linewidth=0.8, linestyle="--", label="weight")
    axes.set_ylabel("contact force (N)", fontsize=9)
    axes.set_xlabel("time (s)", fontsize=9)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1.05), frameon=False)
    return figure


def compare(
    runs: Mapping[str, kt.Trajectory], model: kt.Model | None = None, *, joints: Any = None, what: str = "q"
) -> Figure:
    """Several runs over each other, a panel for each joint.

    Arguments:
        runs: from a name to a run, which may have its own times; of a batch, the median is drawn.
        model: gives names and units.
        joints: names of the columns to draw; the first six if not given.
        what: "q", "qd" or "tau".
    """
    if what not in MEANING:
        raise ValueError(unknown("quantity", what, MEANING))
    if not runs:
        raise ValueError("there is no run to compare")
    columns = [c for cols in _columns(model, next(iter(runs.values())), what).values() for c in cols]
    if joints is not None:
        known = {c.name: c for c in columns}
        missing = [j for j in joints if j not in known]
        if missing:
            raise ValueError(f"no column is called {missing[0]!r}{did_you_mean(missing[0], known)}")
        columns = [known[j] for j in joints]
    count, columns = len(columns), columns[:MOST_PANELS] if joints is None else columns
    figure = Figure(figsize=(WIDTH, 0.7 + 1.4 * len(columns)), layout="constrained")
    if len(columns) < count and joints is None:
        figure.suptitle(f"first {len(columns)} of {count}", fontsize=8)
    for number, column in enumerate(columns):
        axes = _panel(figure, len(columns), 1, number + 1)
        for k, (name, run) in enumerate(runs.items()):
            values = getattr(run, what)
            values = values.reshape(len(run), -1, values.shape[-1])[..., column.index]
            style = "-" if k == 0 else (0, (4, 1 + k))
            colour = CURVES[k % len(CURVES)]
            axes.plot(run.time, np.nanmedian(values, 1), color=colour, linewidth=1.2, linestyle=style, label=name)
        axes.set_ylabel(f"{column.name}\n({column.unit})" if column.unit else column.name, fontsize=8)
        if number == 0:
            axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        if number == len(columns) - 1:
            axes.set_xlabel("time (s)", fontsize=9)
        else:
            axes.tick_params(labelbottom=False)
    return figure


def tree_layout(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x and y of each node: leaves side by side in the order of a walk, parents above the middle of their children."""
    n = len(parent)
    depth = np.zeros(n, np.int64)
    leaves = np.ones(n, np.int64)  # below each node
    has_child = np.zeros(n, bool)
    has_child[parent[parent >= 0]] = True
    leaves[has_child] = 0
    for i in range(n - 1, -1, -1):
        if parent[i] >= 0:
            leaves[parent[i]] += leaves[i]
    start, taken, base = np.zeros(n), np.zeros(n), 0.0
    for i in range(n):
        up = parent[i]
        if up < 0:
            start[i], base = base, base + leaves[i]
        else:
            depth[i] = depth[up] + 1
            start[i] = start[up] + taken[up]
            taken[up] += leaves[i]
    return start + leaves / 2, -depth.astype(float)


def tree(model: kt.Model) -> Figure:
    """The bodies as a tree, the base on top; names where there is room."""
    x, y = tree_layout(np.asarray(model.parent))
    inner = np.flatnonzero(model.parent >= 0)
    up = np.asarray(model.parent)[inner]
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    gap = np.full(len(inner), np.nan)  # one line with gaps: a line for each edge takes minutes for a large tree
    edges = [np.stack([z[inner], z[up], gap], 1).ravel() for z in (x, y)]
    axes.plot(*edges, color=PALE, linewidth=0.8, zorder=1)
    moves = np.diff(model.structure.v_start) > 0
    size = float(np.clip(4000 / max(1, len(x)), 2, 60))
    axes.scatter(x[moves], y[moves], s=size, color=ACCENT, zorder=2, label="moves")
    if not moves.all():
        axes.scatter(x[~moves], y[~moves], s=size, color=INK, zorder=2, label="fixed to its parent")
        figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    if len(x) <= 40:
        for i, name in enumerate(model.names):
            axes.annotate(name, (x[i], y[i]), xytext=(4, 4), textcoords="offset points", fontsize=7, rotation=20)
    axes.set_title(
        f"{model.n_bodies} bodies, {model.nv} degrees of freedom, depth {int(model.depth.max(initial=0)) + 1}"
    )
    return figure


def largest_of_blocks(matrix: np.ndarray, side: int) -> np.ndarray:
    """The largest number of each block of side × side numbers, so that no entry is lost in a small picture."""
    starts = np.arange(0, len(matrix), side)
    return np.maximum.reduceat(np.maximum.reduceat(matrix, starts, 0), starts, 1) if len(matrix) else matrix


def sparsity(model: kt.Model, q: Any = None) -> Figure:
    """Where the mass matrix H and its factor L are not zero: the same places, which is why LᵀDL has no fill-in."""
    if model.nv > 3000:
        raise ValueError(f"sparsity draws at most 3000 rows, and this model has {model.nv}")
    free = model.uncoupled
    q = kt.random_state(free, 0)[0] if q is None else q
    H = np.asarray(kt.mass_matrix(free, q))
    L = np.asarray(kt.factorize(free, H).L)
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    scale, side = np.abs(H).max(), max(1, -(-len(H) // MOST_CELLS))
    for number, (name, matrix) in enumerate((("H", H), ("L of H = LᵀDL", L))):
        axes = figure.add_subplot(1, 2, number + 1)
        size = largest_of_blocks(np.abs(matrix), side) / (scale if number == 0 else 1)
        shade = np.log10(np.where(size == 0, np.nan, np.maximum(size, 1e-6)))
        end = side * len(size) - 0.5
        axes.imshow(shade, cmap="Oranges", vmin=-5, vmax=0.5, interpolation="nearest", extent=(-0.5, end, end, -0.5))
        full = np.count_nonzero(matrix) / matrix.size
        axes.set_title(f"{name}: {np.count_nonzero(matrix)} numbers, {full:.0%} full", fontsize=10)
        axes.tick_params(labelsize=7)
    return figure
