"""The section of the performance page that sets kinetree beside other libraries: all from one run on one machine."""

from collections.abc import Iterator, Sequence
from typing import Any

from . import figures
from .published import GOAL_TIMES_PINOCCHIO
from .records import Record
from .text import ALGORITHMS, count, is_measured, rate, ratio, seconds, table


def last_run(records: Sequence[Record]) -> list[Record]:
    """The measured records of the last run that had peers in it."""
    runs = [r["run"] for r in records if r["library"] != "kinetree" and is_measured(r)]
    return [r for r in records if runs and r["run"] == max(runs) and "median_s" in r]


def problems(records: Sequence[Record]) -> list[list[Record]]:
    """Records of one problem together, in the order they were taken, each list from the fastest down."""
    groups: dict[tuple, list[Record]] = {}
    for r in records:
        groups.setdefault((r["algorithm"], r["n"], r["branching"], r["batch"], r["dtype"]), []).append(r)
    return [sorted(group, key=lambda r: r["median_s"]) for group in groups.values()]


def label(r: Record) -> str:
    """A library, and in which way."""
    if r["library"] != "kinetree":
        return f"{r['library']}, {r['way']}" if r["way"] != "jit" else r["library"]
    words = ["kinetree", "NumPy arrays" if r["arrays"] == "numpy" else "jit", *["specialised"] * r["specialised"]]
    if r["method"] != "auto" or r["schedule"] != "auto":
        words.append(next(x for x in (r["method"], r["schedule"]) if x != "auto"))
    return ", ".join(words)


def title(r: Record) -> str:
    """A problem, over its bars."""
    kind = "chain" if r["branching"] == 1 else "tree"
    states = f"{count(r['batch'])} state{'s' * (r['batch'] > 1)}"
    return f"{ALGORITHMS[r['algorithm']]}\n{kind} of {r['n']}, {states}"


def fastest(group: Sequence[Record]) -> dict[str, float]:
    """States a second of each library in its fastest way."""
    found: dict[str, float] = {}
    for r in group:
        found.setdefault(r["library"], r["states_per_s"])
    return found


def in_a_line(r: Record) -> str:
    """A problem, in the table and in sentences."""
    return title(r).replace("\n", ", ")


def section(machine: Any) -> Iterator[str]:
    """Bars, a table, and what the goals say of it."""
    records = last_run(machine.all)
    groups = [g for g in problems(records) if len({r["library"] for r in g}) > 1]
    if not groups:
        return
    versions = dict.fromkeys(f"{r['library']} {r['version']}" for r in records if r.get("version"))
    same_run = [r for r in machine.all if r["run"] == records[0]["run"]]
    missing = [r["library"] for r in same_run if "missing" in r]
    yield "### Beside other libraries, in one run\n"
    absent = f" Not installed: {', '.join(missing)}." if missing else ""
    yield f"The same trees and states; {', '.join(versions)}.{absent}"
    yield "*One by one* is a loop over states in Python, on one thread.\n"
    bars = [(title(g[0]), list(fastest(g).items())) for g in groups]
    yield from machine.figure("peers", figures.throughput(bars), "states a second of kinetree and of other libraries")
    rows, goals = [], []
    for group in groups:
        ours = next(r for r in group if r["library"] == "kinetree")
        for r in group:
            times = "" if r["library"] == "kinetree" else ratio(r["median_s"] / ours["median_s"])
            rows.append(
                [
                    in_a_line(r) if r is group[0] else "",
                    label(r),
                    seconds(r["median_s"] / r["batch"]),
                    rate(r["states_per_s"]),
                    str(r["threads"]),
                    times,
                    seconds(r["compile_s"]) if r["compile_s"] > 1e-3 else "",
                    f"{r['relative_error']:.0e}",
                ]
            )
            if r["library"] != "kinetree" and r["median_s"] < ours["median_s"]:
                found = f"{label(ours)} {seconds(ours['median_s'])}, {label(r)} {seconds(r['median_s'])}"
                machine.slower.append(f"{in_a_line(r)}: {found}")
        goals += _goal(machine, group, ours)
    if goals:
        yield from table(["problem", "times as fast as Pinocchio's fastest way", "goal", "reached"], goals)
    head = ["problem", "library", "a state", "rate", "threads", "kinetree is faster by", "compile", "relative error"]
    yield from table(head, rows)
    for r in [r for r in same_run if "skipped" in r and r["library"] != "kinetree"]:
        yield f"Not tried: {in_a_line(r)} by {r['library']}, as {r['skipped']}.\n"


def _goal(machine: Any, group: Sequence[Record], ours: Record) -> list[list[str]]:
    """A row of the goals: how many times as fast as Pinocchio's fastest way."""
    goal = GOAL_TIMES_PINOCCHIO.get((ours["algorithm"], ours["batch"] > 1))
    theirs = next((r for r in group if r["library"] == "pinocchio"), None)
    if goal is None or theirs is None:
        return []
    times = theirs["median_s"] / ours["median_s"]
    if times < goal:
        machine.slower.append(
            f"short of its goal: {in_a_line(ours)}: {ratio(times)} times Pinocchio, goal {goal:g} times"
        )
    return [[in_a_line(ours), ratio(times), f"{goal:g}", machine.verdict(times >= goal)]]
