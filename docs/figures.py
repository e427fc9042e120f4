"""Draws the pictures of the documentation and of the README: python docs/figures.py [folder]."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

import kinetree as kt
from kinetree.tree import Tree
from kinetree.view.plots import ACCENT, INK, PALE, tree_layout

ROOT = Path(__file__).resolve().parents[1]
TREE = Tree(np.array([-1, 0, 1, 2, 3, 1, 5, 6, 0, 8, 9, 8, 11, 2, 13, 9, 5]))


def _blank(figure: Figure, *place: int, title: str = "") -> Any:
    axes = figure.add_subplot(*place)
    axes.set_axis_off()
    axes.set_title(title, fontsize=10, color=INK)
    return axes


def _draw_tree(axes: Any, tree: Tree, colours: Any, widths: Any = 2.0) -> None:
    x, y = tree_layout(tree.parent)
    widths = np.broadcast_to(widths, tree.n)
    for i in np.flatnonzero(tree.parent >= 0):
        up = tree.parent[i]
        axes.plot([x[up], x[i]], [y[up], y[i]], color=colours[i], linewidth=widths[i], zorder=1, solid_capstyle="round")
    axes.scatter(x, y, s=40, color=colours, zorder=2, edgecolors="white", linewidths=0.8)


def _path_colours(tree: Tree) -> np.ndarray:
    head = np.arange(tree.n)
    for i in range(tree.n):
        if tree.parent[i] >= 0 and tree.heavy_child[tree.parent[i]] == i:
            head[i] = head[tree.parent[i]]
    numbers = np.unique(head, return_inverse=True)[1]
    return colormaps["tab10"](numbers % 10)


def swing(axes: Any) -> None:
    """A chain of 20 links swings: every tenth of a second."""
    chain = kt.auto_tree(20, taper=0.97).replace(gravity=(0, -9.81, 0), damping=0.2)
    run = kt.simulate(chain, np.full(20, 0.03), np.zeros(20), dt=1e-3, steps=2600, integrator="rk4", record=100)
    places = kt.forward_kinematics(chain, run.q).position
    for k, points in enumerate(places):
        shade = colormaps["YlOrBr"](0.15 + 0.8 * k / len(places))
        axes.plot(points[:, 0], points[:, 1], color=shade, linewidth=1.6, solid_capstyle="round")
    axes.scatter([0], [0], s=40, color=INK, zorder=3)
    axes.set_aspect("equal")


def hero() -> Figure:
    """The README's picture."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    swing(_blank(figure, 1, 3, 1, title="any mechanism that is a tree ..."))
    _draw_tree(_blank(figure, 1, 3, 2, title="... walked in parallel: heavy paths ..."), TREE, _path_colours(TREE), 3.5)
    axes = figure.add_subplot(1, 3, 3)
    model = kt.auto_tree(60, branching=2)
    H = np.asarray(kt.mass_matrix(model, kt.random_state(model, 0)[0]))
    axes.imshow(np.log10(np.where(H == 0, np.nan, np.abs(H))), cmap="Oranges", interpolation="nearest")
    axes.set_title("... with sparsity kept: the mass matrix", fontsize=10, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    return figure


def elements() -> Figure:
    """Idea 1: elements combine, so a recursion is a scan."""
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = _blank(figure, title="combine(e1, e2) acts like e1, then e2: eight steps in three rounds")
    for round_, width in enumerate((1, 2, 4, 8)):
        for start in range(0, 8, width):
            left, right = start + 0.05, start + width - 0.05
            shade = colormaps["YlOrBr"](0.15 + 0.2 * round_)
            axes.fill_between([left, right], round_, round_ + 0.6, color=shade)
            label = f"e{start + 1}" if width == 1 else f"e{start + 1} … e{start + width}"
            axes.text((left + right) / 2, round_ + 0.3, label, ha="center", va="center", fontsize=9)
    return figure


def rows() -> Figure:
    """Idea 2: a joint with three degrees of freedom is three rows."""
    figure = Figure(figsize=(8, 2.2), layout="constrained")
    axes = _blank(figure, title="bodies, and the rows they are compiled to")
    bodies = [("base", 0), ("hip: spherical", 3), ("knee: hinge", 1), ("foot: fixed", 0)]
    x = 0.0
    for name, count in bodies:
        width = max(count, 1) * 1.2
        axes.text(x + width / 2, 1.25, name, ha="center", fontsize=9, color=INK)
        for k in range(count):
            last = k == count - 1
            colour = ACCENT if last else "#fed7aa"
            axes.fill_between([x + 1.2 * k + 0.06, x + 1.2 * k + 1.14], 0, 0.8, color=colour)
            text = "axis, inertia" if last else "axis"
            axes.text(
                x + 1.2 * k + 0.6, 0.4, text, ha="center", va="center", fontsize=8, color="white" if last else INK
            )
        if not count:
            axes.text(
                x + 0.6,
                0.4,
                "no row" if name == "base" else "a frame of\nthe knee's row",
                ha="center",
                va="center",
                fontsize=8,
            )
        x += width + 0.3
    axes.set_xlim(-0.2, x)
    axes.set_ylim(-0.1, 1.6)
    return figure


def components() -> Figure:
    """Idea 3: multiplications to transform a motion vector and an inertia."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.add_subplot()
    names = ["a motion vector to another frame", "a rigid-body inertia to another frame"]
    for k, (full, few) in enumerate(((36, 24), (432, 73))):
        axes.barh(k + 0.18, full, 0.34, color=PALE, label="6×6 matrices" if not k else None)
        axes.barh(k - 0.18, few, 0.34, color=ACCENT, label="components" if not k else None)
        axes.text(full + 4, k + 0.18, str(full), va="center", fontsize=8)
        axes.text(few + 4, k - 0.18, str(few), va="center", fontsize=8)
    axes.set_yticks([0, 1], names, fontsize=9)
    axes.set_xlabel("multiplications", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def schedules() -> Figure:
    """Idea 4: one tree, three ways to walk it."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    depth = TREE.depth
    levels = colormaps["viridis"](0.9 * depth / depth.max())
    order = np.argsort(np.argsort(TREE.preorder_index))
    steps = colormaps["plasma"](0.9 * order / TREE.n)
    titles = (
        f"sequential: {TREE.n} steps",
        f"levels: {TREE.height} steps",
        "paths: log n rounds of scans",
    )
    for k, (title, colours) in enumerate(zip(titles, (steps, levels, _path_colours(TREE)), strict=True)):
        _draw_tree(_blank(figure, 1, 3, k + 1, title=title), TREE, colours, 3.0 if k == 2 else 1.5)
    return figure


def lanes() -> Figure:
    """Idea 5: memory [slot, lane], and a loop that walks it."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = _blank(figure, title="the lane machine: a table row names slots; all lanes take the step together")
    for slot in range(6):
        for lane in range(12):
            colour = {1: "#fed7aa", 4: ACCENT}.get(slot, "#e2e8f0")
            axes.fill_between([lane + 0.05, lane + 0.95], 5 - slot, 5.8 - slot, color=colour)
        label = {1: "parent: read", 4: "own: written"}.get(slot, f"slot {slot}")
        axes.text(-0.2, 5.4 - slot, label, ha="right", va="center", fontsize=9, color=INK)
    axes.text(6, -0.6, "lane 0 … 11: one state each", ha="center", fontsize=9, color=INK)
    axes.set_xlim(-3, 12.2)
    axes.set_ylim(-1, 6)
    return figure


def energy() -> Figure:
    """How the three integrators keep the energy of a double pendulum for ten minutes."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.add_subplot()
    model = kt.auto_tree(2, skew=0.0).replace(gravity=(0, -9.81, 0))
    for name, colour in (("semi_implicit", PALE), ("rk4", INK), ("variational", ACCENT)):
        run = kt.simulate(model, [1.0, 1.0], [0.0, 0.0], dt=1e-2, steps=60_000, integrator=name, record=50)
        total = kt.kinetic_energy(model, run.q, run.qd) + kt.potential_energy(model, run.q)
        axes.plot(run.time, total - total[0], color=colour, linewidth=0.8, label=name)
    axes.set_ylim(-2, 2)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("change of energy (J)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, fontsize=9)
    return figure


def learning() -> Figure:
    """Returns of ant and quadruped while they learn on one GPU, three seeds, over the seconds since the start."""
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    for k, (name, goal) in enumerate((("ant", 4000.0), ("quadruped", None)), 1):
        axes = figure.add_subplot(1, 2, k)
        for path in sorted((ROOT / "benchmarks" / "results" / "learning").glob(f"{name}.*.csv")):
            _, seconds, returns, _ = np.genfromtxt(path, delimiter=",", skip_header=1).T
            axes.plot(seconds, returns, linewidth=1.2, label=f"seed {path.stem.split('.')[1]}")
        if goal is not None:
            axes.axhline(goal, color=INK, linewidth=0.8, linestyle=":")
        axes.set(title=name, xlabel="s, with loading and compiling", ylabel="return of an episode", xlim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    return figure


def crowd(path: Path) -> None:
    """The README's moving picture: what its ten lines simulate."""
    from kinetree.view.film import save_film
    from kinetree.view.scene import Scene

    root = Path(__file__).parents[1]
    (code,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text("utf-8"), re.S)
    found: dict[str, Any] = {}
    exec(code.replace("kt.view(", "dict(seen="), found)  # The names that the page gives: robot and run.
    scene = Scene(found["robot"], found["run"])
    save_film(path, scene, speed=0.5, rate=15, size=(640, 330), zoom=1.04, pitch=0.5)


FIGURES: tuple[Callable[[], Figure], ...] = (hero, elements, rows, components, schedules, lanes, energy, learning)


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in FIGURES:
        draw().savefig(folder / f"{draw.__name__}.png", dpi=110)
    crowd(folder / "crowd.gif")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "figures")
