"""Plots: trajectories, energy, trees, the sparsity that branches bring. Each function returns a matplotlib Figure."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import kinetree as kt

INK, ACCENT, PALE = "#1f2933", "#c2410c", "#94a3b8"
MOST_CURVES = 10  # of one panel: as many as there are colours


def _panel(figure: Figure, *place: int) -> Any:
    axes = figure.add_subplot(*place)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
    return axes


def _which(run: kt.Trajectory) -> str:
    return f"state 0 of {int(np.prod(run.batch))}"


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


def trajectory(run: kt.Trajectory, model: kt.Model | None = None) -> Figure:
    """Coordinates, velocities and, where there are any, forces over time; of a batch, its first state."""
    first = (slice(None), *(0,) * len(run.batch))
    panels = [("q (rad, m)", run.q, True), ("qd (rad/s, m/s)", run.qd, False)]
    if run.tau[first].any():
        panels.append(("tau (N m, N)", run.tau, False))
    figure = Figure(figsize=(9, 1 + 2.4 * len(panels)), layout="constrained")
    told: list[str] = []
    for number, (label, values, positions) in enumerate(panels):
        axes = _panel(figure, len(panels), 1, number + 1)
        curves = values[first]
        names = column_names(model, curves.shape[-1], positions)[:MOST_CURVES]
        for k, name in enumerate(names):
            axes.plot(run.time, curves[:, k], linewidth=1, label=name)
        axes.set_ylabel(label)
        if names != told and names:  # a free joint has more coordinates than velocities
            axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        told = names
        if number == len(panels) - 1:
            axes.set_xlabel("time (s)")
    parts = [_which(run)] if run.batch else []
    if run.q.shape[-1] > MOST_CURVES:
        parts.append(f"the first {MOST_CURVES} of {run.q.shape[-1]} coordinates")
    if parts:
        figure.suptitle(", ".join(parts), fontsize=9)
    return figure


def energy(model: kt.Model, run: kt.Trajectory) -> Figure:
    """Kinetic, potential and total energy over time, and how far the total strays."""
    first = (slice(None), *(0,) * len(run.batch))
    q, qd = run.q[first], run.qd[first]
    kinetic, potential = kt.kinetic_energy(model, q, qd), kt.potential_energy(model, q)
    total = kinetic + potential
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = _panel(figure, 2, 1, 1)
    for label, values, colour in (("kinetic", kinetic, ACCENT), ("potential", potential, PALE), ("total", total, INK)):
        axes.plot(run.time, values, color=colour, linewidth=1.2, label=label)
    axes.set_ylabel("energy (J)")
    axes.legend(frameon=False, ncols=3, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1))
    if run.batch:
        axes.set_title(_which(run), fontsize=9)
    axes = _panel(figure, 2, 1, 2)
    axes.plot(run.time, total - total[0], color=INK, linewidth=1)
    axes.set_ylabel("change of total (J)")
    axes.ticklabel_format(axis="y", scilimits=(-3, 4))
    axes.set_xlabel("time (s)")
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
    if len(x) <= 40:
        for i, name in enumerate(model.names):
            axes.annotate(name, (x[i], y[i]), xytext=(4, 4), textcoords="offset points", fontsize=7, rotation=20)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    axes.set_title(
        f"{model.n_bodies} bodies, {model.nv} degrees of freedom, depth {int(model.depth.max(initial=0)) + 1}"
    )
    return figure


def sparsity(model: kt.Model, q: Any = None) -> Figure:
    """Where the mass matrix H and its factor L are not zero: the same places, which is why LᵀDL has no fill-in."""
    if model.nv > 3000:
        raise ValueError(f"a picture of {model.nv} rows shows nothing: sparsity is for up to 3000")
    free = model.uncoupled
    q = kt.random_state(free, 0)[0] if q is None else q
    H = np.asarray(kt.mass_matrix(free, q))
    L = np.asarray(kt.factorize(free, H).L)
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    scale = np.abs(H).max()
    for number, (name, matrix) in enumerate((("H", H), ("L of H = LᵀDL", L))):
        axes = figure.add_subplot(1, 2, number + 1)
        size = np.abs(matrix) / (scale if number == 0 else 1)
        shade = np.log10(np.where(matrix == 0, np.nan, np.maximum(size, 1e-6)))
        axes.imshow(shade, cmap="Oranges", vmin=-5, vmax=0.5, interpolation="nearest")
        full = np.count_nonzero(matrix) / matrix.size
        axes.set_title(f"{name}: {np.count_nonzero(matrix)} numbers, {full:.0%} full", fontsize=10)
        axes.tick_params(labelsize=7)
    return figure
