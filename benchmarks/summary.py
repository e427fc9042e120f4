"""docs/performance.md: one screen of what matters. Details are in performance_details.md, written by report.py."""

from collections.abc import Iterator, Sequence
from typing import Any

from . import peer_tables, real
from .published import LYNGHUS, LYNGHUS_MACHINE
from .records import Record
from .text import count, mechanism, rate, ratio, seconds, table

LARGE = (  # platform, group, algorithm, bodies, branching
    ("cpu", "cpu", "inverse_dynamics", 1_000_000, 1.0),
    ("cpu", "million", "forward_dynamics", 1_000_000, 1.0),
    ("gpu", "h200", "inverse_dynamics", 4_000_000, 1.0),
    ("gpu", "h200", "forward_dynamics", 1_000_000, 1.0),
)
HEAD = """# Performance

One screen; every number is read from `benchmarks/results/` by `python -m benchmarks.report`. [All cases, errors
and versions](performance_details.md). [Published experiments, drawn again](experiments.md). Your own machine:
`kinetree bench run --filter cpu --peers --out mine.jsonl`. What is slow: [limits](limits.md). Of these tables are
behind what others have published or reach, or short of a goal: SLOWER.
"""


def page(machines: Sequence[Any], robots: Sequence[Record] = ()) -> str:
    """The text of the page; `robots` are the records of real robots."""
    head = HEAD.replace("SLOWER", ", ".join(map(slower_cases, machines)))
    parts = [head, *many_states(machines), *real.sections(robots), *large_trees(machines)]
    return "\n".join(parts).rstrip() + "\n"


def many_states(machines: Sequence[Any]) -> Iterator[str]:
    """States a second beside the fastest other library, in the largest batch.

    Of each algorithm the problem with the smallest ratio is shown.
    """
    rows = []
    for machine in machines:
        groups = peer_tables.problems(peer_tables.last_run(machine.all))
        groups = [g for g in groups if g[0]["batch"] > 1 and len({r["library"] for r in g}) > 1]
        largest = {(g[0]["algorithm"], g[0]["n"], g[0]["branching"]): g for g in sorted(groups, key=_batch)}
        worst: dict[str, list] = {}
        for group in largest.values():
            found = peer_tables.fastest(group)
            ours = found.pop("kinetree")
            other = max(found, key=lambda name: found[name])
            times = ours / found[other]
            row = [peer_tables.in_a_line(group[0]), machine.name, rate(ours), f"{other} {rate(found[other])}"]
            algorithm = group[0]["algorithm"]
            if algorithm not in worst or times < worst[algorithm][-1]:
                worst[algorithm] = [*row, times]
        rows += [[*row, ratio(times)] for *row, times in worst.values()]
    if rows:
        yield "## Many states of one mechanism, the worst of each algorithm\n"
        yield from table(["problem", "machine", "kinetree", "fastest other", "times as fast"], rows)


def _batch(group: Sequence[Record]) -> int:
    return group[0]["batch"]


def large_trees(machines: Sequence[Any]) -> Iterator[str]:
    """One state of one large tree."""
    rows = []
    for machine in machines:
        for platform, group, algorithm, n, branching in LARGE:
            wanted = (machine.platform, algorithm, n, branching, 1)
            keys = ("algorithm", "n", "branching", "batch")
            like = [r for r in machine.group(group) if (platform, *(r[k] for k in keys)) == wanted]
            if not like:
                continue
            best = min(like, key=lambda r: r["median_s"])
            published = LYNGHUS[platform].get(algorithm, {}).get((n, branching))
            theirs = f"{seconds(published)} on {LYNGHUS_MACHINE[platform]} (Lynghus)" if published else ""
            rows.append(
                [mechanism(best), machine.name, seconds(best["median_s"]), theirs, f"{best['relative_error']:.0e}"]
            )
    if rows:
        yield "## One large tree\n"
        yield from table(["problem", "machine", "time", "published", "relative error"], rows)


def slower_cases(machine: Any) -> str:
    """How much is slower on a machine; the details name each case."""
    found = len(dict.fromkeys(machine.slower))
    words = f"{count(found)} case{'s' * (found != 1)}" if found else "nothing that was measured"
    return f"[{words}](performance_details.md) on {machine.name}"
