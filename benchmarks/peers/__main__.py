"""`python -m benchmarks.peers --filter cpu`: kinetree and the libraries that are installed, side by side."""

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import jax

from kinetree.lanes.cpu.threads import threads

from ..__main__ import attempt, line, parser
from ..cases import Case, chosen
from ..environment import environment, package_version
from ..measure import describe, make_problem
from ..records import Record, append
from ..text import count
from ..timing import copy_bandwidth, repeated
from . import PEERS
from .way import Way

COMPARED = ("inverse_dynamics", "forward_dynamics", "inverse_dynamics_derivatives", "forward_dynamics_derivatives")
LARGEST = 1000  # bodies; beyond, peers run out of memory
PATIENCE = 2.0  # seconds of a call after which a peer is not given more states


def compared(filters: list[str]) -> list[list[Case]]:
    """The chosen cases that peers may answer; those that differ only in how kinetree goes about it stand together."""
    groups: dict[tuple, list[Case]] = {}
    for case in chosen(filters):
        if case.algorithm in COMPARED and case.n <= LARGEST:
            groups.setdefault((case.algorithm, case.n, case.branching, case.batch, case.dtype), []).append(case)
    return list(groups.values())


def load(name: str) -> Any:
    """A peer's module, or why there is none."""
    try:
        return import_module(f"{__package__}.{name}")
    except ImportError as error:
        return str(error)


def _measured(way: Way, problem: Any, seconds: float) -> Record:
    error = problem.error(way.result())
    timed = repeated(way.call, seconds, queued=way.queued)
    return timed | {
        "way": way.name,
        "threads": way.threads,
        "compile_s": way.compile_s,
        "states_per_s": problem.case.batch / timed["median_s"],
        "relative_error": error,
    }


def answers(name: str, peer: Any, case: Case, seconds: float, slow: dict[tuple, Record]) -> Iterator[Record]:
    """The records of one peer on one case.

    `slow` remembers trees on which a call took too long; larger batches of those are not tried.
    """
    about = describe(case) | {"library": name, "version": package_version(peer.PACKAGE)}
    tree = (name, case.algorithm, case.n, case.branching)
    if tree in slow and case.batch > slow[tree]["batch"]:
        yield about | {"skipped": f"{count(slow[tree]['batch'])} states took {slow[tree]['median_s']:.1f} s"}
        return
    try:
        problem = make_problem(case)
        for way in peer.ways(problem, threads()):
            record = about | _measured(way, problem, seconds)
            if record["median_s"] > PATIENCE:
                slow[tree] = record
            yield record
    except Exception as error:  # a peer that fails must not cost the others
        yield about | {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, append to the file."""
    options = parser("python -m benchmarks.peers", __doc__).parse_args(arguments)
    groups = compared(options.filter)
    if not groups:
        print(f"no case that peers answer contains {' or '.join(options.filter)}")
        return 1
    if options.list:
        print("\n".join(case.name for cases in groups for case in cases))
        return 0
    jax.config.update("jax_enable_x64", True)
    common = environment(options.commit) | {"run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    bandwidth = copy_bandwidth(threads())

    def write(record: Record) -> None:
        record = common | record  # a peer counts its own threads
        print(line(record), flush=True)
        if options.out:
            append(options.out, record)

    peers, slow = {}, {}
    for name in PEERS:
        loaded = load(name)
        if isinstance(loaded, str):
            write({"case": "", "library": name, "missing": loaded})
        else:
            peers[name] = loaded
    for cases in groups:
        for case in cases:
            write(attempt(case, bandwidth, options.seconds))
        for name, peer in peers.items():
            with jax.enable_x64(cases[0].dtype == "float64"):  # some peers compute in the widest type there is
                for record in answers(name, peer, cases[0], options.seconds, slow):
                    write(record)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
