"""Tables of real robots for docs/performance.md: beside Pinocchio, on the ground beside MuJoCo, and in rollouts.

`benchmarks.robots`, `benchmarks.ground` and `benchmarks.rollouts` write the records with `--out`. Each of them has a
field `table`, which tells them from the records of `python -m benchmarks`. The worst robot of a table is what counts.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .environment import environment
from .records import Record, append
from .text import count, rate, ratio, table

WORDS = {"ID": "inverse dynamics", "FD": "forward dynamics", "H": "mass matrix", "FK": "poses of all bodies"}
WORDS |= {"J": "Jacobians", "CoM": "centre of mass", "∂ID": "derivatives of ID", "∂FD": "derivatives of FD"}
WORDS |= {"ID specialised": "inverse dynamics, specialised", "FD specialised": "forward dynamics, specialised"}
WORDS |= {"FK, joints": "poses of all bodies beside Pinocchio's of the joints alone"}


class Writer:
    """Writes the records of one run; without a file it writes nothing."""

    def __init__(self, path: Path | None, name: str):
        self.path, self.name = path, name
        self.shared: Record = (
            {} if path is None else {**environment(), "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        )

    def __call__(self, **measured: Any) -> None:
        """Add a record."""
        if self.path is not None:
            append(self.path, {"table": self.name, **measured, **self.shared})


def is_real(record: Record) -> bool:
    """Whether a record belongs to the tables of this file."""
    return "table" in record


def latest(records: Sequence[Record], name: str, keys: Sequence[str]) -> list[Record]:
    """The last record of each case of a table, by machine, in the order of the first ones."""
    own = sorted((r for r in records if r.get("table") == name), key=lambda r: r["run"])
    return list({(machine(r), *(r[k] for k in keys)): r for r in own}.values())


def machine(record: Record) -> str:
    """What a record was measured on, in a few words."""
    name = record["processor" if record["platform"] == "cpu" else "device"]
    return " ".join(name.split()[:2])


CALLS = {"one": "one call from Python", "batch": "4\u202f096 states"}


def robots(records: Sequence[Record]) -> Iterator[str]:
    """The median and the worst robot beside Pinocchio, a row for each quantity."""
    own = latest(records, "robots", ("robot", "call"))
    names = list(dict.fromkeys(name for r in own for name in r["ratios"]))
    if not names:
        return
    days = Counter(r["run"][:10] for r in latest(records, "robots", ("robot",)))
    when = ", ".join(f"{n} on {day}" for day, n in sorted(days.items()))
    yield f"## Times as fast as Pinocchio: robots of example-robot-data as loaded, fixed and floating ({when})\n"
    heads = (f"{call}: {what}" for call in CALLS.values() for what in ("median", "worst robot"))
    rows = ([WORDS.get(name, name), *(x for call in CALLS for x in _spread(own, call, name))] for name in names)
    yield from table(["quantity, two threads each", *heads], rows)


def _spread(records: Sequence[Record], call: str, name: str) -> tuple[str, str]:
    """The median, and the worst robot."""
    ratios = [(r["ratios"][name], r["robot"]) for r in records if r["call"] == call and name in r["ratios"]]
    if not ratios:
        return "", ""
    (worst, robot), (middle, _) = (sorted(ratios)[k] for k in (0, len(ratios) // 2))
    return ratio(middle), f"{ratio(worst)} ({robot.split('/')[-1].replace('.urdf', '')})"


def ground(records: Sequence[Record]) -> Iterator[str]:
    """Steps with contact, limits and actuators."""
    rows = []
    for r in latest(records, "ground", ("robot", "worlds", "pairs", "controls", "dtype")):
        what = f"{r['robot']}, {r['pairs']}, {r['controls']} controls"
        theirs = r.get("mujoco")
        rows.append(
            [
                what,
                machine(r),
                f"{count(r['worlds'])}, {r['dtype']}",
                rate(r["steps_per_second"]),
                f"MuJoCo, one core: {rate(theirs)}" if theirs else "",
            ]
        )
    if rows:
        yield "## On the ground\n"
        yield from table(["robot", "machine", "worlds", "steps", "beside"], rows)


def rollouts(records: Sequence[Record]) -> Iterator[str]:
    """Rollouts beside `mujoco.rollout`: the worst robot of each group."""

    def times(r: Record) -> float:
        return r["mujoco_microseconds"] / r["microseconds"]

    groups: dict[str, list[Record]] = {}
    for r in latest(records, "rollouts", ("robot", "worlds")):
        groups.setdefault(r["group"], []).append(r)
    rows = []
    for group, own in groups.items():
        r = min(own, key=times)
        ours, theirs = (f"{r[k]:.3g} µs" for k in ("microseconds", "mujoco_microseconds"))
        rows.append([f"{group}, worst: {r['robot']}", count(r["worlds"]), ours, theirs, ratio(times(r))])
    if rows:
        yield "## Rollouts beside `mujoco.rollout`, two threads each\n"
        yield from table(["robots", "worlds", "a step", "MuJoCo", "times as fast"], rows)


def sections(records: Sequence[Record]) -> Iterator[str]:
    """All tables of real robots."""
    yield from robots(records)
    yield from ground(records)
    yield from rollouts(records)
