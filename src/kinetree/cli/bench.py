"""`kinetree bench`: methods of forward dynamics side by side, DCAe beside the theory, and the repository's own cases.

The first two print a table, write a plot (PNG) and append one JSON line for each measurement. A time is the best of
several calls, after one that compiles.
"""

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import kinetree as kt
from kinetree import theory
from kinetree._unknown import unknown
from kinetree.cli.source import load, require_positive
from kinetree.dynamics.forward_dynamics import METHODS

SKEW = 0.3  # Joint axes are not parallel, so that gravity acts on all joints.
CHOICES = ("auto", *METHODS)  # "auto" is what a plain call takes: native code, without JAX's own calls


def numbers(text: str, kind: type = int) -> list:
    """The numbers of a list such as 10,50,200."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"expected numbers with commas between, not {text!r}") from None


def best_time(call: Callable[[], Any], seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest of the calls that fit into a span of time, after a first one; three at least."""
    jax.block_until_ready(call())
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = clock()
        jax.block_until_ready(call())
        times.append(clock() - start)
    return min(times)


def machine() -> dict[str, str]:
    """The machine and versions of the measurements."""
    device = jax.devices()[0]
    return {
        "kinetree": kt.__version__,
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}",
        "processor": platform.machine(),
    }


def _problem(links: int, states: int) -> tuple[kt.Model, list]:
    """A chain and (states, links) arrays q, qd, tau in float64."""
    model = kt.auto_tree(links, skew=SKEW)
    return model, _states(model, states, links)


def _states(model: kt.Model, states: int, seed: int) -> list:
    """Random q, qd and tau."""
    q, qd = kt.random_state(model, seed, (states,))
    return [q, qd, np.random.default_rng(seed).uniform(-1, 1, (states, model.nv))]


def chains(links: list[int]) -> dict[str, kt.Model]:
    """Chains by their lengths."""
    return {str(n): kt.auto_tree(n, skew=SKEW) for n in links}


def robot(word: str, floating_base: bool) -> dict[str, kt.Model]:
    """One model of the command line."""
    return {Path(word).stem: load(word, floating_base)}


def _record(out: Path, name: str, record: dict) -> Path:
    """Append a measurement at once, so that a run that is stopped keeps its measurements so far."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.jsonl"
    with path.open("a") as file:
        file.write(json.dumps({"bench": name, **machine(), **record}) + "\n")
    return path


def _plot(out: Path, name: str, draw: Callable[[Any], None]) -> Path | None:
    """A figure, if matplotlib is installed."""
    if find_spec("matplotlib") is None:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    draw(figure.subplots())
    path = out / f"{name}.png"
    figure.savefig(path, dpi=150)
    return path


def _tidy(axes: Any, places: list[int]) -> None:
    """Ticks where there are measurements, faint lines to read them by, the legend beside the curves."""
    axes.set_xticks(places, labels=[f"{x:,}" for x in places])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _finish(console: Console, table: Table, paths: Sequence[Path | None]) -> None:
    console.print(table)
    written = [str(p) for p in paths if p is not None]
    console.print("written: " + ", ".join(written), soft_wrap=True)
    if None in paths:
        console.print("no plot: it needs the extra `plot` (pip install 'kinetree[plot]')")


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.{1 if seconds < 1e-4 else 0}f}"


def methods(problems: dict[str, kt.Model], states: int, names: list[str], seconds: float, out: Path) -> list[dict]:
    """Forward dynamics by each method: of chains, Yang, Wu and Pan's comparison (2017, §V), or of a robot.

    Arguments:
        problems: the mechanisms, by what to call them.
        states: how many states are solved in one call.
        names: the methods.
        seconds: how long each measurement may repeat.
        out: folder for the plot and the JSON lines.

    Returns:
        One record for each chain and method: its time in seconds and its largest difference from "auto", relative to
        the largest acceleration; or, for a method that refuses, why.
    """
    if strange := sorted(set(names) - set(CHOICES)):
        raise ValueError(unknown("method", strange[0], CHOICES))
    require_positive("states", states)
    records, path, console = [], out / "methods.jsonl", Console()
    with console.status("") as now:
        for title, model in problems.items():
            n, state = model.nv, _states(model, states, model.nv)
            reference = kt.forward_dynamics(model, *state)
            for name in names:
                now.update(f"{title} by {name}")
                record: dict[str, Any] = {"model": title, "links": n, "states": states, "method": name}
                try:
                    qdd = kt.forward_dynamics(model, *state, method=name)
                    record["seconds"] = best_time(
                        lambda m=model, s=state, k=name: kt.forward_dynamics(m, *s, method=k), seconds
                    )
                    record["difference"] = float(np.abs(qdd - reference).max() / np.abs(reference).max())
                except ValueError as error:
                    record["refused"] = str(error)
                records.append(record)
                path = _record(out, "methods", record)
    each_call = "one state" if states == 1 else f"{states} states"
    title = f"forward dynamics, {each_call} a call: microseconds (difference from auto)"
    table = Table(title=title, min_width=len(title))
    table.add_column("degrees of freedom" if len(problems) > 1 else "method")
    for title in problems:
        table.add_column(title, justify="right", no_wrap=True)
    for name in names:
        table.add_row(name, *(_cell(r) for r in records if r["method"] == name))

    def draw(axes: Any) -> None:
        done = {k: [r for r in records if r["method"] == k and "seconds" in r] for k in names}
        slowest_first = sorted(
            (k for k in names if done[k]), key=lambda k: (-done[k][-1]["links"], -done[k][-1]["seconds"])
        )
        if not slowest_first:
            return
        if len(problems) == 1:
            times = [1e6 * done[k][0]["seconds"] for k in slowest_first]
            axes.bar_label(axes.barh(slowest_first, times, color="#c2410c"), fmt="{:,.1f}", padding=4)
            axes.set(xscale="log", xlabel="microseconds a call", xmargin=0.1)
            axes.set_title(f"forward dynamics of {next(iter(problems))}, {each_call} a call")
            axes.spines[["top", "right"]].set_visible(False)
            return
        for name in slowest_first:  # The legend then has the order of the curves' right ends.
            x, y = [r["links"] for r in done[name]], [1e6 * r["seconds"] for r in done[name]]
            axes.loglog(x, y, marker="o", label=name)
        axes.set(
            xlabel="degrees of freedom", ylabel="microseconds a call", title=f"forward dynamics, {each_call} a call"
        )
        _tidy(axes, [model.nv for model in problems.values()])

    _finish(console, table, [path, _plot(out, "methods", draw)])
    for why, who in _refusals(records).items():
        console.print(f"{', '.join(who)}: {why}", soft_wrap=True)
    return records


def _refusals(records: list[dict]) -> dict[str, list[str]]:
    """Why methods refused, and which ones did so."""
    found: dict[str, list[str]] = {}
    for record in records:
        if "refused" in record:
            name = record["method"]
            who = found.setdefault(record["refused"].replace(f"method {name!r} ", ""), [])
            who += [name] if name not in who else []
    return found


def _cell(record: dict) -> str:
    if "refused" in record:
        return "refused"
    time = _microseconds(record["seconds"])
    return time if record["method"] == "auto" else f"{time} ({record['difference']:.0e})"


def _beside_count(record: dict) -> str:
    return f"{_microseconds(record['seconds'])} ({record['operations'] / 1e3:,.0f})"


def dcae(links: int, chunks: list[int], balances: list[float], seconds: float, out: Path) -> list[dict]:
    """Times of DCAe over the number of chunks and the load balance, beside counts (Critchley et al. 2007, fig. 5-8).

    Arguments:
        links: length of the chain.
        chunks: numbers of chunks.
        balances: sizes of the terminal chunk, in units of the others.
        seconds: how long each measurement may repeat.
        out: folder for the plot and the JSON lines.

    Returns:
        One record for each pair: the time, and the published count for as many processors as there are chunks.
    """
    model, state = _problem(links, 1)
    serial = best_time(lambda: kt.forward_dynamics(model, *state, method="aba", schedule="sequential"), seconds)
    records: list[dict[str, Any]] = [
        {"links": links, "method": "aba", "seconds": serial, "operations": theory.aba_serial(links).total}
    ]
    path = _record(out, "dcae", records[0])
    console = Console()
    with console.status("") as now:
        for p in chunks:
            for balance in balances:
                now.update(f"{p} chunks, balance {balance:g}")
                options = {"method": "dcae", "chunks": p, "balance": balance}
                record = {
                    "links": links,
                    **options,
                    "seconds": best_time(lambda o=options: kt.forward_dynamics(model, *state, **o), seconds),
                    "operations": theory.dcae_balanced(links, p, balance).total,
                }
                records.append(record)
                _record(out, "dcae", record)
    table = Table(title=f"DCAe, a chain of {links}: microseconds (thousands of operations, a processor to each chunk)")
    table.add_column("chunks", justify="right")
    for balance in balances:
        table.add_column(f"balance {balance:g}", justify="right", no_wrap=True)
    for p in chunks:
        row = [r for r in records if r.get("chunks") == p]
        table.add_row(str(p), *map(_beside_count, row))
    table.caption = f"sequential aba: {_beside_count(records[0])}"

    def draw(axes: Any) -> None:
        for balance in balances:
            row = [r for r in records if r.get("balance") == balance]
            (line,) = axes.loglog(
                chunks, [r["seconds"] / serial for r in row], marker="o", label=f"time, balance {balance:g}"
            )
            counts = [r["operations"] / records[0]["operations"] for r in row]
            axes.loglog(chunks, counts, linestyle=":", color=line.get_color(), label=f"operations, balance {balance:g}")
        axes.axhline(1, color="black", linewidth=1)
        axes.set(
            xlabel="chunks", ylabel="share of sequential aba's", title=f"DCAe, a chain of {links}: time and operations"
        )
        axes.yaxis.set_major_formatter("{x:g}")
        _tidy(axes, chunks)

    _finish(console, table, [path, _plot(out, "dcae", draw)])
    return records


def declared(filters: list[str], *, peers: bool, names: bool, seconds: float, out: Path | None) -> int:
    """Run the cases of the repository's `benchmarks/`, which is not part of the installed package.

    Arguments:
        filters: texts, one of which a case's name has to contain.
        peers: run the other libraries that are installed as well.
        names: only print the names.
        seconds: how long each measurement may repeat.
        out: a file to append JSON lines to.

    Returns:
        The exit status.
    """
    root = Path(kt.__file__).parents[2]
    if not (root / "benchmarks" / "cases.py").is_file():
        raise FileNotFoundError(
            "the declared cases are in kinetree's repository: clone it, `pip install -e .`, try again"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    runner = import_module("benchmarks.peers.__main__" if peers else "benchmarks.__main__")
    words = ["--filter", *filters, "--seconds", str(seconds)]
    return runner.main(words + ["--list"] * names + (["--out", str(out)] if out else []))
