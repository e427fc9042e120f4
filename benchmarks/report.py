"""`python -m benchmarks.report benchmarks/results/*.jsonl`: the pages about speed and their figures, from JSON lines.

performance.md is one screen (summary.py), performance_details.md is here, experiments.md is in experiments.py.
Nothing on the pages is typed in but what others have published and what we aim at: see published.py.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from . import experiments, figures, peer_tables, real, summary
from .cases import METHODS
from .published import (
    GOAL_FIRST_RESULT,
    GOAL_FROM_CACHE,
    GOAL_SECONDS,
    GOAL_STATES,
    LYNGHUS,
    LYNGHUS_MACHINE,
    LYNGHUS_ROOTFIX,
    MJX_COMPILE,
    MJX_H200,
    YANG,
)
from .records import Record, read
from .text import count, is_measured, mechanism, rate, seconds, table

DOCS = Path(__file__).parents[1] / "docs"
IDLE = 0.25  # a machine's load before a run, for each of its threads, that disturbs nothing
FEW_DIGITS = 1e-6  # a relative error in float64 that has to be owned up to


def machine(record: Record) -> str:
    """What a record was measured on: the accelerator, or the CPU where there is none."""
    return record["processor" if record["platform"] == "cpu" else "device"]


def latest(records: Sequence[Record]) -> list[Record]:
    """The last record of each case, by each library in each way."""
    in_time = sorted(records, key=lambda r: r["run"])
    return list({(r["library"], r["case"], r.get("way")): r for r in in_time}.values())


class Machine:
    """The records of one machine, and the sections of the page that they fill."""

    def __init__(self, name: str, records: Sequence[Record], folder: Path):
        here = [r for r in records if machine(r) == name]
        self.name, self.platform = name, here[0]["platform"]
        self.all = [r for r in here if not r.get("settings")]
        self.records = latest(self.all)
        self.ours = [r for r in self.records if r["library"] == "kinetree" and is_measured(r)]
        self.narrow = latest([r for r in here if r.get("settings") == {"KINETREE_AVX512": "0"} and is_measured(r)])
        judged = [r for r in self.ours if r["group"] in ("h200", "cpu") and r.get("load") is not None]
        self.load = max((r["load"] for r in judged), default=0.0)
        self.busy = any(r["load"] > IDLE * r["threads"] for r in judged)
        self.folder = folder
        self.slower: list[str] = []  # what the last section owns up to

    def verdict(self, met: bool) -> str:
        """Whether a goal was reached; two runs on a busy machine have differed by more than most goals ask."""
        return "not judged" if self.busy else "yes" if met else "**no**"

    def group(self, name: str) -> list[Record]:
        """Our measured records of one group of cases."""
        return [r for r in self.ours if r["group"] == name]

    def _largest(self, algorithm: str) -> list[Record]:
        """The trees of the H200's table, which are larger than those of the heat maps."""
        return [r for r in self.group("h200") if r["algorithm"] == algorithm and r["batch"] == 1]

    def figure(self, name: str, drawn: Figure | None, caption: str) -> Iterator[str]:
        """A picture on the page, where there is one."""
        if drawn is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = re.sub(r"\W+", "_", f"{self.name}_{name}".lower()) + ".png"
            drawn.savefig(self.folder / file, dpi=110)
            yield f"![{caption}]({self.folder.name}/{file})\n"

    def page(self) -> Iterator[str]:
        """All sections."""
        yield f"## {self.name}\n"
        yield from self.described()
        yield from self.large_trees()
        yield from self.large_matrices()
        yield from self.goals()
        yield from peer_tables.section(self)
        yield from self.narrower_vectors()
        yield from self.scans()
        yield from self.methods()
        yield from self.first_results()
        yield from self.what_is_slower()

    def described(self) -> Iterator[str]:
        """What it was measured on."""
        keys = ("device", "processor", "jax", "jaxlib", "numpy", "llvmlite", "python", "commit")
        found = {key: sorted({str(r[key]) for r in self.ours if r.get(key)}) for key in keys}
        device = "" if self.platform == "cpu" else f"{self.name}, beside "
        threads = max(r["threads"] for r in self.ours)
        copies = [r["copy_bandwidth"] for r in self.ours if "copy_bandwidth" in r]
        versions = ", ".join(f"{key} {' and '.join(found[key])}" for key in keys[2:7])
        copy = f" A copy moves {max(copies) / 1e9:,.0f} GB/s, read and written." if copies else ""
        yield f"Machine: {device}{', '.join(found['processor'])} with {threads} threads; {versions};"
        busy = (
            f" **It had other work to do, a load of {self.load:.1f} before a run: times, and ratios too, may be wrong"
            " by a factor of two or three, and no goal is judged.**"
            if self.busy
            else ""
        )
        yield f"kinetree at commit {', '.join(found['commit'])}.{copy}{busy}\n"

    def _against_lynghus(self, records: list[Record]) -> Iterator[str]:
        for r in records:
            published = LYNGHUS[self.platform][r["algorithm"]].get((r["n"], r["branching"]))
            if published and published < r["median_s"]:
                theirs = f"{LYNGHUS_MACHINE[self.platform]} {seconds(published)} (Lynghus)"
                self.slower.append(f"{mechanism(r)}: {seconds(r['median_s'])}, {theirs}")
        yield from table(
            ["mechanism", "time", "published", "a body", "of copy bandwidth", "relative error"],
            [
                [
                    mechanism(r),
                    seconds(r["median_s"]),
                    seconds(LYNGHUS[self.platform][r["algorithm"]].get((r["n"], r["branching"]))),
                    seconds(1e-9 * r["ns_per_body"]),
                    f"{r['fraction_of_copy_bandwidth']:.1%}",
                    f"{r['relative_error']:.0e}",
                ]
                for r in sorted(records, key=lambda r: (r["branching"], r["n"]))
            ],
        )

    def large_trees(self) -> Iterator[str]:
        """Inverse dynamics over bodies and branching."""
        if records := self.group("lynghus_rnea") + self._largest("inverse_dynamics"):
            yield "### One tree, inverse dynamics over bodies and branching\n"
            yield from self.figure("rnea", figures.heat_maps(records, self.platform), "heat maps of inverse dynamics")
            yield from self._against_lynghus(records)

    def large_matrices(self) -> Iterator[str]:
        """H and C over bodies and branching."""
        if records := self.group("lynghus_crba") + self._largest("mass_matrix_and_bias"):
            yield "### One tree, the dense mass matrix H and the bias C\n"
            yield from self.figure("crba", figures.heat_maps(records, self.platform), "heat maps of H and C")
            yield from self._against_lynghus(records)

    def goals(self) -> Iterator[str]:
        """The table of targets, met or not."""
        rows = []
        for r in self.group("h200" if self.platform == "gpu" else "cpu"):
            by_time = GOAL_SECONDS.get((r["group"], r["algorithm"], r["n"], r["branching"]))
            by_rate = GOAL_STATES.get((r["group"], r["algorithm"], r["n"], r["specialised"]))
            if by_time is None and by_rate is None:
                continue
            met = r["median_s"] <= by_time if by_time else r["states_per_s"] >= (by_rate or 0)
            goal = f"≤ {seconds(by_time)}" if by_time else f"≥ {rate(by_rate)}"
            found = seconds(r["median_s"]) if by_time else rate(r["states_per_s"])
            published = LYNGHUS[self.platform].get(r["algorithm"], {}).get((r["n"], r["branching"]))
            peer = rate(MJX_H200.get((r["algorithm"], r["n"]))) if by_rate else seconds(published)
            if not met:
                self.slower.append(f"short of its goal: {mechanism(r)}: {found}, goal {goal}")
            error, share = f"{r['relative_error']:.0e}", f"{r['fraction_of_copy_bandwidth']:.1%}"
            rows.append([mechanism(r), found, goal, self.verdict(met), peer, share, error])
        if rows:
            yield "### Goals\n"
            peer = "" if self.platform == "cpu" else "; MJX 3.17 on an H200"
            yield f"Published or peer: Lynghus on {LYNGHUS_MACHINE[self.platform]}{peer}.\n"
            head = ["case", "measured", "goal", "reached", "published or peer", "of copy bandwidth", "relative error"]
            yield from table(head, rows)

    def narrower_vectors(self) -> Iterator[str]:
        """The same cases with AVX2 alone."""
        wide = {r["case"]: r for r in self.ours if "median_s" in r}
        rows = [
            [mechanism(r), r["arrays"], seconds(r["median_s"]), f"{wide[r['case']]['median_s'] / r['median_s']:.2f}"]
            for r in self.narrow
            if r["library"] == "kinetree" and r["case"] in wide and "median_s" in r
        ]
        if rows:
            yield "### With AVX2 alone\n"
            yield "The same with `KINETREE_AVX512=0`, and its speed as a fraction of that with AVX-512.\n"
            yield from table(["case", "arrays", "time", "fraction"], rows)

    def scans(self) -> Iterator[str]:
        """The variants of the scan."""
        if records := self.group("scans"):
            yield "### Scan variants\n"
            yield "Poses of all bodies by one scan over the Euler tour, the vector tree's way; `mapped` sums six"
            yield "numbers a body. `auto` never takes this way: see [the vector tree](algorithms/euler.md).\n"
            yield from self.figure("scans", figures.scan_variants(records), "times of scan variants")
            rows = []
            for n in sorted({r["n"] for r in records}):
                of_size = {r["method"]: r for r in records if r["n"] == n}
                cells = [seconds(of_size[m]["median_s"]) if m in of_size else "" for m in LYNGHUS_ROOTFIX]
                rows.append([count(n), *cells])
            yield from table(["bodies", *(m.replace("_", "-") for m in LYNGHUS_ROOTFIX)], rows)

    def methods(self) -> Iterator[str]:
        """Yang's comparison."""
        links, batches = self.group("yang_links"), self.group("yang_batch")
        if not links:
            return
        yield "### Methods of forward dynamics over links and over states\n"
        yield f"{YANG}\n"
        yield from self.figure("methods", figures.methods(links, batches), "methods over links and over states")
        chains = sorted({(r["n"], r["batch"]) for r in (*links, *batches)})
        names = [method for method in METHODS if any(r["method"] == method for r in links)]
        found = {(r["n"], r["batch"], r["method"]): r for r in (*links, *batches)}
        rows = [
            [count(n), count(b), *(_cell(found.get((n, b, method))) for method in names)] for n, b in chains
        ]  # fmt: skip
        yield "Time a state (relative error):\n"
        yield from table(["links", "states", *names], rows)

    def first_results(self) -> Iterator[str]:
        """From model to first result."""
        records = [r for r in self.ours if "first_result_s" in r]
        if not records:
            return
        yield "### From a model to its first result\n"
        yield f"In a new process, imports not counted. MJX compiles for about {MJX_COMPILE:g} s (on an H200).\n"
        rows = []
        for r in records:
            for key, goal in (("first_result_s", GOAL_FIRST_RESULT), ("from_cache_s", GOAL_FROM_CACHE)):
                if r[key] > goal:
                    what = "first result" if key == "first_result_s" else "first result from the cache"
                    self.slower.append(f"short of its goal: {what}, {mechanism(r)}: {r[key]:.2f} s, goal {goal:g} s")
            rows.append([mechanism(r), f"{r['first_result_s']:.2f} s", f"{r['from_cache_s']:.2f} s"])
        yield from table(["case", "nothing cached", "program cached on disk"], rows)

    def _inaccurate(self) -> list[str]:
        wide = [r for r in self.ours if r["dtype"] == "float64" and r["relative_error"] > FEW_DIGITS]
        return [f"few digits: {mechanism(r)} by {r['method']}: relative error {r['relative_error']:.0e}" for r in wide]

    def what_is_slower(self) -> Iterator[str]:
        """The other side of the ledger."""
        failed = [f"failed: {r['library']}, {r['case']}: {r['failed']}" for r in self.records if "failed" in r]
        yield "### What is slower, and what fell short\n"
        lines = [*dict.fromkeys(self.slower), *self._inaccurate(), *failed]
        yield "\n".join(f"- {line}" for line in lines) if lines else "Nothing that was measured here."
        yield ""


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    return f"{seconds(record['median_s'] / record['batch'])} ({record['relative_error']:.0e})"


def machines(records: Sequence[Record], folder: Path) -> list[Machine]:
    """All that kinetree was measured on."""
    measured = [r for r in records if r["library"] == "kinetree" and is_measured(r)]
    return [Machine(name, records, folder) for name in sorted({machine(r) for r in measured})]


def details(every: Sequence[Machine]) -> str:
    """The page with all cases."""
    parts = [
        "# Performance, in detail\n",
        "The short form is [Performance](performance.md).",
        "This page is written by `python -m benchmarks.report` from the measurements in `benchmarks/results/`; none of",
        "our numbers is typed in. A time is the median of samples of many calls, results waited for, compilation not",
        "counted. *Relative error* is the largest difference from a float64 result on the CPU that was computed in",
        "another way, over its largest entry. *Of copy bandwidth* is the time in which the least bytes that must move",
        "(states in, results out, the model's constants once) would be copied on this machine, over the time taken. To",
        "measure your own machine: `kinetree bench run --filter cpu --peers --out mine.jsonl`.\n",
        *(line for one in every for line in one.page()),
    ]
    return "\n".join(parts).rstrip() + "\n"


def page(records: Sequence[Record], folder: Path) -> str:
    """The page with all cases; figures go to the folder."""
    return details(machines(records, folder))


def pages(records: Sequence[Record], folder: Path) -> dict[str, str]:
    """The texts of all pages by their files; figures go to the folder, and to folders beside it."""
    robots = [r for r in records if real.is_real(r)]
    records = [r for r in records if not real.is_real(r)]
    every = machines(records, folder)
    return {
        "performance_details.md": details(every),
        "performance.md": summary.page(every, robots),  # after the details, which find what is slower
        "experiments.md": experiments.Page(records, folder.parent / experiments.FOLDER).text(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="files of JSON lines")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages; figures go to folders in it")
    options = parser.parse_args(arguments)
    for name, text in pages(read(options.results), options.docs / "performance").items():
        (options.docs / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
