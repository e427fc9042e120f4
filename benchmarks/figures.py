"""The figures of the pages about speed, each drawn from records. A figure whose records are not there is None."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from kinetree import theory
from kinetree.view.plots import ACCENT, INK, PALE

from .cases import METHODS
from .published import LYNGHUS, LYNGHUS_MACHINE, LYNGHUS_ROOTFIX
from .records import Record
from .text import ALGORITHMS, seconds

COLOURS = ("#c2410c", "#1f2933", "#0f766e", "#7c3aed", "#94a3b8", "#b45309", "#2563eb", "#be185d", "#65a30d")


def short(number: float) -> str:
    """1 000 as 1k, 1 000 000 as 1M; three digits at most."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _axes(figure: Figure, *place: int, title: str = "") -> Any:
    axes = figure.add_subplot(*place)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.tick_params(labelsize=8)
    return axes


def _grid(records: Sequence[Record]) -> tuple[list[int], list[float]]:
    return sorted({r["n"] for r in records}), sorted({r["branching"] for r in records})


def _heat(axes: Any, cells: np.ndarray, names: Any, sizes: list[int], branchings: list[float], *, centre: bool) -> None:
    """A heat map with names in its cells; `centre` gives what is above 1 one colour and what is below another."""
    shades = np.log10(cells)
    known = shades[np.isfinite(shades)]
    reach = max(np.abs(known).max(initial=0), 0.3)
    low, high = (-reach, reach) if centre else (known.min(), max(known.max(), known.min() + 0.3))
    cmap = "PuOr_r" if centre else "YlOrBr"
    axes.imshow(shades, cmap=cmap, vmin=low, vmax=high, aspect="auto")
    for (row, column), shade in np.ndenumerate(shades):
        r, g, b, _ = colormaps[cmap]((shade - low) / (high - low)) if np.isfinite(shade) else (1, 1, 1, 1)
        ink = INK if 0.3 * r + 0.6 * g + 0.1 * b > 0.5 else "white"
        axes.text(column, row, names(cells[row, column]), ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(sizes)), [short(n) for n in sizes])
    axes.set_yticks(range(len(branchings)), [f"{bf:g}" for bf in branchings])
    axes.set_xlabel("bodies", fontsize=9)
    axes.set_ylabel("branching", fontsize=9)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def heat_maps(records: Sequence[Record], platform: str) -> Figure | None:
    """Time over bodies and branching, and how many times less than the published time it is."""
    if not records:
        return None
    algorithm = records[0]["algorithm"]
    published = LYNGHUS[platform][algorithm]
    sizes, branchings = _grid(records)
    times = np.full((len(branchings), len(sizes)), np.nan)
    gains = times.copy()
    for r in records:
        at = branchings.index(r["branching"]), sizes.index(r["n"])
        times[at] = r["median_s"]
        gains[at] = published.get((r["n"], r["branching"]), np.nan) / r["median_s"]
    compared = [k for k, row in enumerate(gains) if np.isfinite(row).any()]
    figure = Figure(figsize=(11, 1.3 + 0.5 * len(branchings)), layout="constrained")
    axes = _axes(figure, 1, 2, 1, title=f"{ALGORITHMS[algorithm]}: time")
    _heat(axes, times, lambda t: seconds(t) if t == t else "", sizes, branchings, centre=False)
    if compared:
        axes = _axes(figure, 1, 2, 2, title=f"times as fast as Lynghus published ({LYNGHUS_MACHINE[platform]})")
        rows = [branchings[k] for k in compared]
        _heat(axes, gains[compared], lambda x: f"{x:.2g}" if x == x else "", sizes, rows, centre=True)
    return figure


def scan_variants(records: Sequence[Record]) -> Figure | None:
    """A rootfix by each scan, over bodies; dashed what is published."""
    if not records:
        return None
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = _axes(figure, title="rootfix of a tree of branching 2, by scan; dashed: Lynghus, A100")
    for colour, (method, published) in zip(COLOURS, LYNGHUS_ROOTFIX.items(), strict=False):
        mine = sorted((r["n"], 1e6 * r["median_s"]) for r in records if r["method"] == method)
        if mine:
            axes.loglog(
                *zip(*mine, strict=True), marker="o", markersize=4, color=colour, label=method.replace("_", "-")
            )
        axes.loglog(published.keys(), [1e6 * t for t in published.values()], "--", linewidth=1, color=colour)
    axes.set_xlabel("bodies", fontsize=9)
    axes.set_ylabel("microseconds", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    return figure


def methods(links: Sequence[Record], batches: Sequence[Record]) -> Figure | None:
    """Forward dynamics by method: over links for one state, over states for short and long chains."""
    if not links:
        return None
    colours = dict(zip(METHODS, COLOURS, strict=True))
    lengths = sorted({r["n"] for r in batches})
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = [("one state, over links", "links", "n", links)]
    for n in lengths:
        one = [r for r in links if r["n"] == n]
        panels.append((f"{n} links, over states", "states", "batch", [*one, *(r for r in batches if r["n"] == n)]))
    for k, (title, label, key, records) in enumerate(panels):
        axes = _axes(figure, 1, len(panels), k + 1, title=title)
        shown = {r["method"] for r in (links if key == "n" else batches)}
        for method in [m for m in METHODS if m in shown]:
            curve = sorted((r[key], 1e6 * r["median_s"] / r["batch"]) for r in records if r["method"] == method)
            style = {"color": colours[method], "linewidth": 2.2 if method == "aba" else 1.2}
            axes.loglog(*zip(*curve, strict=True), marker="o", markersize=3, label=method, **style)
        axes.set_xlabel(label, fontsize=9)
        ticks = sorted({r[key] for r in records})
        axes.set_xticks(ticks, [short(t) for t in ticks])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("microseconds a state", fontsize=9)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=8)
    return figure


def throughput(groups: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> Figure | None:
    """Bars of states a second: for each problem its title, and (library, states a second) from the fastest down."""
    if not groups:
        return None
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    most = max(len(bars) for _, bars in groups)
    figure = Figure(figsize=(11, rows * (0.7 + 0.24 * most)), layout="constrained")
    everything = [rate for _, bars in groups for _, rate in bars]
    for k, (title, bars) in enumerate(groups):
        axes = _axes(figure, rows, columns, k + 1)
        axes.set_title(title, fontsize=8.5, color=INK, loc="left")
        for row, (library, rate) in enumerate(bars):
            axes.barh(row, rate, 0.7, color=ACCENT if library == "kinetree" else PALE)
            axes.text(rate * 1.2, row, short(rate), va="center", fontsize=8, color=INK)
        axes.set_yticks(range(len(bars)), [library for library, _ in bars], fontsize=8)
        axes.set_ylim(most - 0.4, -0.6)
        axes.set_xscale("log")
        axes.set_xlim(min(everything) / 3, max(everything) * 15)
        axes.tick_params(axis="x", labelsize=7)
    figure.supxlabel("states a second", fontsize=9)
    return figure


def over_bodies(records: Sequence[Record], algorithm: str) -> Figure:
    """Times over bodies, CPU and GPU; dashed what Lynghus has published."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for k, platform in enumerate(("cpu", "gpu")):
        axes = _axes(figure, 1, 2, k + 1, title=f"{platform.upper()}; dashed: Lynghus, {LYNGHUS_MACHINE[platform]}")
        here = [r for r in records if r["platform"] == platform]
        published = LYNGHUS[platform][algorithm]
        branchings = sorted({r["branching"] for r in here} | {bf for _, bf in published})
        for colour, bf in zip(COLOURS, branchings, strict=False):
            best: dict[int, float] = {}
            for r in here:
                if r["branching"] == bf:
                    best[r["n"]] = min(best.get(r["n"], np.inf), 1e6 * r["median_s"])
            theirs = sorted((n, 1e6 * t) for (n, b), t in published.items() if b == bf)
            if best:
                curve = sorted(best.items())
                axes.loglog(
                    *zip(*curve, strict=True), marker="o", markersize=4, color=colour, label=f"branching {bf:g}"
                )
            if theirs:
                axes.loglog(*zip(*theirs, strict=True), "--", linewidth=1, color=colour)
        axes.set_xlabel("bodies", fontsize=9)
        axes.set_ylabel("microseconds", fontsize=9)
        if here:
            axes.legend(frameon=False, fontsize=8)
    return figure


def divide_and_conquer(n: int, processors: Sequence[int]) -> Figure:
    """Published operation counts over processors."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = _axes(figure, title=f"operations on the longest way, chain of {n}")
    for colour, (name, way) in zip(
        COLOURS, {"DCA": theory.dca, "DCAe": theory.dcae, "DCAe, balanced": theory.dcae_balanced}.items(), strict=False
    ):
        axes.loglog(
            processors, [way(n, p).total for p in processors], marker="o", markersize=3, color=colour, label=name
        )
    axes.axhline(theory.aba_serial(n).total, color=INK, linewidth=1, linestyle="--", label="ABA, serial")
    axes.set_xticks(list(processors), [str(p) for p in processors])
    axes.minorticks_off()
    axes.set_xlabel("processors", fontsize=9)
    axes.set_ylabel("multiplications and additions", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    return figure


def bejczy(joints: Sequence[int]) -> Figure:
    """Published operation counts over joints, with n(n + 1)/2 processors."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = _axes(figure, title="operations on the longest way, n(n + 1)/2 processors")
    parts = {
        "forward dynamics": theory.vneb_forward_dynamics,
        "inertia matrix": theory.vneb_inertia_matrix,
        "bias vector": theory.vneb_bias_vector,
        "linear solve": theory.vneb_linear_solve,
    }
    for colour, (name, way) in zip(COLOURS, parts.items(), strict=False):
        axes.loglog(joints, [way(n).total for n in joints], marker="o", markersize=3, color=colour, label=name)
    serial = [theory.aba_serial_lee_chang(n).total for n in joints]
    axes.loglog(joints, serial, color=INK, linewidth=1, linestyle="--", label="ABA, serial")
    axes.set_xlabel("joints", fontsize=9)
    axes.set_ylabel("multiplications and additions", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    return figure
