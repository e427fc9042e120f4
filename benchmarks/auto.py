"""Whether `schedule="auto"` is the best there is: `python -m benchmarks.auto [words]`, a declared table of calls.

Each call is made under every schedule, in turns, in one process. A line has the time under "auto", the best schedule,
and how many times as long "auto" takes. The worst of all is printed last: it should stay below 1.2.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

import kinetree as kt

GOAL = 1.2  # times the best schedule
SHAPES: dict[str, Callable[[], kt.Model]] = {
    "arm of 7": lambda: kt.auto_tree(7, 1),
    "tree of 30": lambda: kt.auto_tree(30, 2),
    "chain of 100": lambda: kt.auto_tree(100, 1),
    "tree of 300": lambda: kt.auto_tree(300, 1.5),
    "chain of 1000": lambda: kt.auto_tree(1000, 1),
    "binary tree of 1023": lambda: kt.auto_tree(1023, 2),
    "star of 2000": lambda: kt.auto_tree(2000, 2000),
    "tree of 10000": lambda: kt.auto_tree(10_000, 1.5),
    "chain of 30000": lambda: kt.auto_tree(30_000, 1),
}
BATCHES = (1, 16, 256, 4096)
DTYPES = ("float64", "float32")
FUNCTIONS = {"ID": kt.inverse_dynamics, "FD": kt.forward_dynamics, "H": kt.mass_matrix}
SCHEDULES = ("lanes", "levels", "paths")
MAX_ROWS = 1 << 19  # rows of all states; larger calls take long under the schedules that do not suit them
MAX_ENTRIES = 1 << 24  # entries of the mass matrices of all states


class Case(NamedTuple):
    """One call of the table."""

    shape: str
    function: str
    batch: int
    dtype: str
    inside: bool  # inside `jit`, on JAX arrays; else on NumPy arrays

    def __str__(self) -> str:
        return f"{self.shape}/{self.function}/batch={self.batch}/{self.dtype}/{'jit' if self.inside else 'numpy'}"


def cases() -> Iterator[Case]:
    """The declared table."""
    for shape, make in SHAPES.items():
        rows = make().nv
        for batch in BATCHES:
            for function in FUNCTIONS:
                entries = batch * rows * (rows if function == "H" else 1)
                if entries <= (MAX_ENTRIES if function == "H" else MAX_ROWS):
                    yield from (Case(shape, function, batch, dtype, x) for dtype in DTYPES for x in (False, True))


def calls(case: Case) -> dict[str, Callable[[], Any]]:
    """The call under each schedule that can serve it."""
    model, function = SHAPES[case.shape](), FUNCTIONS[case.function]
    q, qd = (x.astype(case.dtype) for x in kt.random_state(model, 0, (case.batch,)))
    given: tuple = (q,) if case.function == "H" else (q, qd, np.ones_like(qd))
    if case.inside:
        given = tuple(map(jax.numpy.asarray, given))

    def call(schedule: str) -> Callable[[], Any]:
        one = partial(function, model, schedule=schedule)
        if not case.inside:
            return lambda: one(*given)
        compiled = jax.jit(one)
        return lambda: jax.block_until_ready(compiled(*given))

    found = {schedule: call(schedule) for schedule in ("auto", *SCHEDULES)}
    for name in SCHEDULES:
        try:
            found[name]()
        except (ValueError, NotImplementedError, MemoryError):
            del found[name]
    return found


def medians(found: dict[str, Callable[[], Any]], rounds: int, least: float) -> dict[str, float]:
    """Seconds a call: medians of rounds in turn. What takes five times the quickest is timed once."""

    def sample(call: Callable[[], Any], count: int) -> float:
        call()
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count

    first = {name: sample(call, 1) for name, call in found.items()}
    quick = [name for name in found if name == "auto" or first[name] < 5 * min(first.values())]
    times: dict[str, list[float]] = {name: [first[name]] if name not in quick else [] for name in found}
    for _ in range(rounds):
        for name in quick:
            times[name].append(sample(found[name], max(1, int(least / first[name]))))
    return {name: statistics.median(x) for name, x in times.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the cases whose names contain all of the words; print a line each, then the worst."""
    parser = argparse.ArgumentParser("python -m benchmarks.auto", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names of cases")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least", type=float, default=0.01, help="seconds of a sample")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    worst = (0.0, "nothing")
    for case in cases():
        if not all(word in str(case) for word in options.words):
            continue
        found = medians(calls(case), options.rounds, options.least)
        best = min(found, key=lambda name: found[name])
        times = found["auto"] / found[best]
        listed = "  ".join(f"{name} {1e6 * seconds:.4g}" for name, seconds in found.items())
        print(f"{case}: {times:.2f} of {best}; µs: {listed}", flush=True)
        worst = max(worst, (times, str(case)))
    print(f"\nworst: {worst[0]:.2f} times the best schedule (goal {GOAL})  {worst[1]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
