"""`python -m benchmarks.peers --filter cpu`: kinetree and the libraries that are installed, side by side."""

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import jax

from kinetree.lanes.threads import threads

from ..__main__ import attempt, line, parser
from ..cases import Case, chosen
from ..environment import environment, package_version
from ..measure import describe, make_problem
from ..records import Record, append
from ..timing import copy_bandwidth, repeated
from . import PEERS
from .way import Way

COMPARED = ("inverse_dynamics", "forward_dynamics", "inverse_dynamics_derivatives", "forward_dynamics_derivatives")
LARGEST = 1000  # bodies; beyond, peers run out of memory or of patience


def compared(filters: list[str]) -> list[Case]:
    """The chosen cases that a peer may answer."""
    return [c for c in chosen(filters) if c.algorithm in COMPARED and c.n <= LARGEST and not c.specialised]


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


def answers(name: str, peer: Any, case: Case, seconds: float) -> Iterator[Record]:
    """The records of one peer on one case."""
    about = describe(case) | {"library": name, "version": package_version(peer.PACKAGE)}
    try:
        problem = make_problem(case)
        for way in peer.ways(problem, threads()):
            yield about | _measured(way, problem, seconds)
    except Exception as error:  # a peer that fails must not cost the others
        yield about | {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, append to the file."""
    options = parser("python -m benchmarks.peers", __doc__).parse_args(arguments)
    cases = compared(options.filter)
    if not cases:
        print(f"no case that peers answer contains {' or '.join(options.filter)}")
        return 1
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    jax.config.update("jax_enable_x64", True)
    common = environment(options.commit) | {"run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    bandwidth = copy_bandwidth(threads())

    def write(record: Record) -> None:
        record = common | record  # a peer counts its own threads
        print(line(record), flush=True)
        if options.out:
            append(options.out, record)

    peers = {}
    for name in PEERS:
        loaded = load(name)
        if isinstance(loaded, str):
            write({"case": "", "library": name, "missing": loaded})
        else:
            peers[name] = loaded
    for case in cases:
        write(attempt(case, bandwidth, options.seconds))
        for name, peer in peers.items():
            with jax.enable_x64(case.dtype == "float64"):  # some peers compute in the widest type there is
                for record in answers(name, peer, case, options.seconds):
                    write(record)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
