"""docs/experiments.md: each published experiment beside ours, with its figure drawn again.

Published numbers are in published.py and in kinetree.theory; ours come from benchmarks/results and from the programs
themselves (operations.py).
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from kinetree import theory

from . import figures
from .operations import of_a_body
from .published import LYNGHUS, LYNGHUS_MACHINE, LYNGHUS_ROOTFIX
from .records import Record
from .text import count, ratio, seconds, table

CHAIN, PROCESSORS = 1024, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # of the figure about divide and conquer
JOINTS = (4, 6, 10, 20, 50, 100, 200, 500, 1000)
FOLDER = "experiments"
HEAD = """# The published experiments, beside ours

Five works stand behind kinetree. Here each of their experiments is drawn again with our numbers in it. The page and its
figures are written by `python -m benchmarks.report benchmarks/results/*.jsonl`: published numbers are copied from
the works, ours are read from `benchmarks/results/`. **Machines differ**: an H200 copies 2.8 times as fast as the A100
of the thesis (4.3 and 1.55 TB/s). So read the shapes of curves first. [Performance, in detail](performance_details.md)
says what ours was measured on. The fifth work, Featherstone's slides on CRBA and LTDL, has no experiment.
"""
NO_DATA = "No measurement of ours is kept for this one yet."


class Page:
    """Text and figures, from our records."""

    def __init__(self, records: Sequence[Record], folder: Path):
        self.records = [
            r for r in records if r.get("library") == "kinetree" and "median_s" in r and not r.get("settings")
        ]
        self.folder = folder

    def text(self) -> str:
        """All of it."""
        parts: list[Callable[[], Iterator[str]]] = [
            self.inverse_dynamics, self.mass_matrix, self.scans, self.divide_and_conquer, self.bejczy, self.methods,
        ]  # fmt: skip
        return "\n".join([HEAD, *(line for part in parts for line in part())]).rstrip() + "\n"

    def figure(self, name: str, drawn: Figure, caption: str) -> str:
        """Save a figure; returns the line that shows it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        drawn.savefig(self.folder / f"{name}.png", dpi=110)
        return f"![{caption}]({self.folder.name}/{name}.png)\n"

    def of(self, *groups: str, **like: object) -> list[Record]:
        """The last record of each case in these groups."""
        found = [r for r in self.records if r["group"] in groups and all(r[k] == v for k, v in like.items())]
        return list({(r["platform"], r["case"]): r for r in sorted(found, key=lambda r: r["run"])}.values())

    # -- Lynghus ------------------------------------------------------------------------------------------------------

    def _against_lynghus(self, algorithm: str, group: str, name: str, caption: str) -> Iterator[str]:
        ours = [r for r in self.of(group, "h200", algorithm=algorithm, batch=1) if r["dtype"] == "float64"]
        if not ours:
            yield NO_DATA + "\n"
            return
        yield self.figure(name, figures.over_bodies(ours, algorithm), caption)
        for platform, words in (("cpu", "CPU"), ("gpu", "GPU")):
            published = LYNGHUS[platform][algorithm]
            times = {(r["n"], r["branching"]): r["median_s"] for r in ours if r["platform"] == platform}
            branchings = sorted({bf for _, bf in published})
            sizes = sorted({n for n, _ in published} | {n for n, _ in times})
            rows = [
                [count(n), *(seconds(x.get((n, bf))) for bf in branchings for x in (published, times))] for n in sizes
            ]
            heads = [f"{who}, branching {bf:g}" for bf in branchings for who in ("published", "ours")]
            yield f"{words}: published on {LYNGHUS_MACHINE[platform]}, ours on {_machines(ours, platform)}.\n"
            yield from table(["bodies", *heads], rows)

    def inverse_dynamics(self) -> Iterator[str]:
        """Lynghus §7: RNEA."""
        yield "## Lynghus 2026: inverse dynamics of one tree\n"
        yield "A thesis in Futhark: RNEA as scans over the Euler tour of a tree (a vector tree), float64.\n"
        yield from self._against_lynghus("inverse_dynamics", "lynghus_rnea", "rnea", "time of RNEA over bodies")

    def mass_matrix(self) -> Iterator[str]:
        """Lynghus §7: H and C."""
        yield "## Lynghus 2026: the dense mass matrix and the bias\n"
        yield "H and C by CRBA. H has n² numbers, so from some size on writing it is all that counts.\n"
        yield from self._against_lynghus("mass_matrix_and_bias", "lynghus_crba", "crba", "time of H and C over bodies")

    def scans(self) -> Iterator[str]:
        """Lynghus §7: scan variants."""
        yield "## Lynghus 2026: a rootfix by three scans\n"
        yield "Which scan carries poses outward best. Published on an A100; ours on the CPU, where none of them pays:"
        yield "kinetree takes [paths](algorithms/aba.md) in their place.\n"
        records = self.of("scans")
        drawn = figures.scan_variants(records)
        if drawn is None:
            yield NO_DATA + "\n"
            return
        yield self.figure("scans", drawn, "time of a rootfix by scan")
        times = {(r["method"], r["n"]): r["median_s"] for r in records}
        sizes = sorted({n for _, n in times} | {n for x in LYNGHUS_ROOTFIX.values() for n in x})
        rows = [
            [
                count(n),
                *(seconds(t) for m, theirs in LYNGHUS_ROOTFIX.items() for t in (theirs.get(n), times.get((m, n)))),
            ]
            for n in sizes
        ]
        heads = [f"{m.replace('_', '-')}, {who}" for m in LYNGHUS_ROOTFIX for who in ("published", "ours")]
        yield from table(["bodies", *heads], rows)

    # -- operation counts ---------------------------------------------------------------------------------------------

    def divide_and_conquer(self) -> Iterator[str]:
        """Critchley, Anderson and Binani: counts over processors."""
        yield "## Critchley, Anderson and Binani 2007: divide and conquer over processors\n"
        yield f"Operations on the longest way through forward dynamics of a chain of {count(CHAIN)}, as published."
        yield "DCAe beats the serial method with two processors; DCA needs more than four.\n"
        yield self.figure(
            "divide_and_conquer", figures.divide_and_conquer(CHAIN, PROCESSORS), "operations over processors"
        )
        serial = theory.aba_serial(CHAIN).total
        ways = (theory.dca, theory.dcae, theory.dcae_balanced)
        rows = [[count(p), *(ratio(serial / way(CHAIN, p).total) for way in ways)] for p in PROCESSORS]
        yield "How many times fewer than serial ABA:\n"
        yield from table(["processors", "DCA", "DCAe", "DCAe, terminal chunk twice as long"], rows)
        ours, published = of_a_body("forward_dynamics"), theory.aba_serial(1)
        yield f"A body of serial ABA: {_operations(published)} published, with simplified frames; {_operations(ours)}"
        inverse = of_a_body("inverse_dynamics")
        yield f"in our program, where a hinge may stand anywhere. Our RNEA: {_operations(inverse)}.\n"

    def bejczy(self) -> Iterator[str]:
        """Fijany and Bejczy: counts over joints."""
        yield "## Fijany and Bejczy 1989: n(n + 1)/2 processors\n"
        yield "Operations on the longest way, by the published counts; and what one core takes for the same method in"
        yield "kinetree, where nothing of that parallelism is left.\n"
        yield self.figure("bejczy", figures.bejczy(JOINTS), "operations over joints")
        rows = []
        times = {(r["method"], r["n"]): r["median_s"] for r in self.of("yang_links", platform="cpu")}
        for n in sorted({n for _, n in times} | {6, 100}):
            vneb, serial = theory.vneb_forward_dynamics(n), theory.aba_serial_lee_chang(n)
            cells = [count(n), _operations(vneb), _operations(serial), ratio(serial.total / vneb.total)]
            rows.append([*cells, *(seconds(times.get((m, n))) for m in ("vneb", "aba"))])
        heads = ["VNEB, published", "serial ABA, published", "times fewer", "VNEB here", "ABA here"]
        yield from table(["joints", *heads], rows)

    # -- Yang, Wu and Pan ---------------------------------------------------------------------------------------------

    def methods(self) -> Iterator[str]:
        """Yang, Wu and Pan: which method is fastest."""
        yield "## Yang, Wu and Pan 2017: which method is fastest\n"
        yield "Serial robots on a Tesla K40c. The text of the work has orders, no times.\n"
        links, batches = self.of("yang_links", platform="cpu"), self.of("yang_batch", platform="cpu")
        drawn = figures.methods(links, batches)
        if drawn is None:
            yield NO_DATA + "\n"
            return
        yield self.figure("methods", drawn, "methods over links and over states")
        experiments = [
            (10, 1, "JSIIA first"),
            (50, 1, "CFA takes over between 50 and 200"),
            (200, 1, "CFA first, ABIA between"),
        ]
        for n, order in ((10, "JSIIA about as CFA, both before ABIA"), (200, "CFA first, JSIIA last")):
            experiments.append((n, max((r["batch"] for r in batches if r["n"] == n), default=1), order))
        rows = []
        for n, batch, published in experiments:
            words = f"{count(batch)} calls, {n} links" if batch > 1 else f"one call, {n} links"
            every = [_order(self.of("yang_links", "yang_batch", platform=p), n, batch) for p in ("cpu", "gpu")]
            rows.append([words, published, *every])
        yield "Times a call:\n"
        yield from table(["experiment", "published order", "ours on the CPU", "ours on the GPU"], rows)
        yield "On a CPU there is no width to fill, so the method with the least work wins; ABA does the least of all.\n"


def _operations(found: theory.Operations) -> str:
    return f"{count(round(found.multiplications))}m + {count(round(found.additions))}a"


def _machines(records: Sequence[Record], platform: str) -> str:
    key = "processor" if platform == "cpu" else "device"
    found = {(r[key], r["threads"]) for r in records if r["platform"] == platform}
    return (
        ", ".join(f"{name} with {threads} threads" if platform == "cpu" else name for name, threads in sorted(found))
        or "no machine yet"
    )


def _order(records: Sequence[Record], n: int, batch: int) -> str:
    names = {"jsiia": "JSIIA", "abia": "ABIA", "cfa": "CFA", "aba": "ABA"}
    found = sorted(
        (r["median_s"] / batch, r["method"])
        for r in records
        if (r["n"], r["batch"]) == (n, batch) and r["method"] in names
    )
    return ", ".join(f"{names[m]} {seconds(t)}" for t, m in found)
