"""`kinetree info`: the content of a robot file, and how kinetree will compute it."""

import json
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree as Branches

import kinetree as kt
from kinetree.cli.source import load_with_report
from kinetree.io import Report
from kinetree.io.report import LOOKS

MAX_SHOWN_ROWS = 200  # rows of the tree and the table; longer ones are summarised
BATCHES = (1, 4096)
NONE = "-"


def info(word: str, floating_base: bool, as_json: bool = False) -> None:
    """Print the tree, the sizes, the joints, what was ignored, and what `auto` takes."""
    model, report = load_with_report(word, floating_base)
    if as_json:
        print(json.dumps(facts(model, report)))
        return
    console = Console()
    console.print(_summary(model, report))
    console.print(_tree(model))
    console.print(_joints(model))
    for warning in report.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", highlight=False)
    lost, shown = (
        ", ".join(f"{n} {what}" for what, n in report.ignored.items() if (what in LOOKS) is looks)
        for looks in (False, True)
    )
    console.print(f"[bold]not in the model:[/] {lost or 'nothing'}", highlight=False)
    if shown:
        console.print(f"[bold]only for the viewer:[/] {shown}", highlight=False)
    for batch in BATCHES:
        console.print(str(kt.explain(model, batch)), highlight=False)


def facts(model: kt.Model, report: Report) -> dict[str, Any]:
    """The same as one object, for another program. Numbers that have no bound are null."""
    structure = model.structure
    kinds = [structure.joints[code].kind for code in structure.joint_code]
    numbers = {name: i for i, name in enumerate(model.names)}
    masses = np.asarray(model.inertia.mass)
    return {
        "name": report.name,
        "format": report.format,
        "file": report.file,
        "n_bodies": model.n_bodies,
        "nq": model.nq,
        "nv": model.nv,
        "nu": model.nu,
        "depth": int(model.depth.max(initial=-1)) + 1,
        "mass": float(model.total_mass),
        "gravity": [float(g) for g in model.gravity],
        "timestep": float(model.timestep),
        "bodies": [
            {"name": name, "parent": int(model.parent[i]), "joint": model.joint_names[i], "mass": float(masses[i])}
            for name, i in numbers.items()
        ],
        "joints": [_joint_facts(model, name, kind) for name, kind in zip(model.joint_names, kinds, strict=True)],
        "actuators": list(model.actuator_names),
        "warnings": report.warnings,
        "not_in_the_model": dict(report.ignored),
    }


def _joint_facts(model: kt.Model, name: str, kind: str) -> dict[str, Any]:
    q, v = model.q_index(name), model.v_index(name)
    wide_q, wide_v = model.uncoupled.q_index(name), model.uncoupled.v_index(name)
    found: dict[str, Any] = {"name": name, "type": kind, "q": [q.start, q.stop], "v": [v.start, v.stop]}
    if model.limits is not None and wide_v.stop - wide_v.start == 1:
        places = (wide_q.start, wide_q.start, wide_v.start, wide_v.start)
        for key, values, k in zip(model.limits._fields, model.limits, places, strict=True):
            found[key] = float(values[k]) if np.isfinite(values[k]) else None
    return found


def _summary(model: kt.Model, report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    kinds = [model.structure.joints[c].kind for c in model.structure.joint_code]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    followers = 0 if model.coupling is None else model.uncoupled.nv - model.nv
    where = f" in {report.file}" if report.file else ""
    rows = {
        "robot": escape(f"{report.name or '(no name)'}, {report.format}{where}"),
        "degrees of freedom": f"{model.nv}, in {model.nq} coordinates"
        + (f"; {followers} follow others" if followers else ""),
        "bodies": f"{model.n_bodies}, up to {int(model.depth.max(initial=0)) + 1} in a row",
        "joints": ", ".join(f"{n} {kind}" for kind, n in counts.items()),
        "mass": f"{_weight(float(model.total_mass))} moves, {_weight(np.sum(model.inertia.mass))} in all",
        "gravity": " ".join(f"{g:g}" for g in model.gravity),
    }
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/]", value)
    return table


def _weight(kilograms: float) -> str:
    return f"{kilograms:.4g} kg"


def _tree(model: kt.Model) -> Branches:
    """Bodies under bodies, without recursion: parents come first."""
    top = Branches("[dim]world[/]")
    branches: dict[int, Branches] = {-1: top}
    for i in range(min(model.n_bodies, MAX_SHOWN_ROWS)):
        kind = model.structure.joints[model.structure.joint_code[i]].kind
        mass = model.inertia.mass[i]
        label = f"[bold]{escape(model.names[i])}[/] [dim]{kind} {escape(model.joint_names[i])}[/]"
        branches[i] = branches[int(model.parent[i])].add(label + (f"  {_weight(mass)}" if mass else ""))
    if model.n_bodies > MAX_SHOWN_ROWS:
        top.add(f"[dim]and {model.n_bodies - MAX_SHOWN_ROWS} more[/]")
    return top


COLUMNS = ("joint", "type", "q", "v", "lower", "upper", "velocity", "effort", "damping", "friction", "armature")


def _joints(model: kt.Model) -> Table:
    """One row for each joint that moves, without empty columns."""
    moving = np.flatnonzero(np.diff(model.structure.v_start))
    rows = [_joint(model, int(i)) for i in moving[:MAX_SHOWN_ROWS]]
    kept = [k for k, _ in enumerate(COLUMNS) if any(row[k] not in ("", NONE) for row in rows)]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for k in kept:
        table.add_column(COLUMNS[k], no_wrap=k == 0, justify="left" if k < 2 else "right")
    for row in rows:
        table.add_row(*(row[k] for k in kept))
    if len(moving) > MAX_SHOWN_ROWS:
        table.add_row(f"and {len(moving) - MAX_SHOWN_ROWS} more")
    return table


def _joint(model: kt.Model, i: int) -> list[str]:
    name, free = model.joint_names[i], model.uncoupled
    q, v = free.q_index(name), free.v_index(name)
    limits = ["", "", "", ""]
    if model.limits is not None and v.stop - v.start == 1:
        at = (q.start, q.start, v.start, v.start)
        limits = [_number(float(x[k])) for x, k in zip(model.limits, at, strict=True)]
    physics = (None if model.passive is None else model.passive.damping, model.friction, model.rows.armature)
    follows = "" if model.coupling is None or v.start in model.coupling.kept_v else ", mimic"
    return [
        escape(name),
        model.structure.joints[model.structure.joint_code[i]].kind + follows,
        _range(model.q_index(name)),
        _range(model.v_index(name)),
        *limits,
        *("" if x is None else _number(float(x[v.start]), zero="") for x in physics),
    ]


def _range(s: slice) -> str:
    return f"{s.start}" if s.stop - s.start == 1 else f"{s.start}…{s.stop - 1}"


def _number(x: float, zero: str = "0") -> str:
    if np.isinf(x):
        return NONE
    return f"{x:.4g}" if x else zero
