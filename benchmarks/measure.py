"""From a case to a record: build, compile, check, time; compile time apart."""

import gc
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np

import kinetree as kt

from .algorithms import ALGORITHMS, Algorithm
from .cases import Case
from .timing import repeated, stopwatch

SKEW = 0.3  # joint axes out of parallel, so that gravity shows
ROW_CONSTANTS = 20  # of a compiled row: a quaternion, a position, a screw, ten inertia numbers, an armature


class NotHere(Exception):
    """A case that this kinetree, or this machine, can not run."""


@dataclass(frozen=True)
class Problem:
    """A mechanism and states, the same for kinetree and for its peers."""

    case: Case
    model: kt.Model
    state: list[np.ndarray]

    @property
    def algorithm(self) -> Algorithm:
        """What is computed."""
        return ALGORITHMS[self.case.algorithm]

    def error(self, result: Any) -> float:
        """Relative error of a result, against float64 on the CPU."""
        return self.algorithm.error(self.case, self.model, self.state, result)


def make_problem(case: Case) -> Problem:
    """The case's tree, and states that are random and always the same."""
    shape = (case.n,) if case.batch == 1 else (case.batch, case.n)
    rng = np.random.default_rng(0)
    state = [rng.uniform(-1, 1, shape).astype(case.dtype) for _ in range(ALGORITHMS[case.algorithm].inputs)]
    return Problem(case, kt.auto_tree(case.n, case.branching, SKEW), state)


def least_bytes(case: Case) -> int:
    """What must be moved at the least: the state in, the model's rows in once, the result out."""
    algorithm = ALGORITHMS[case.algorithm]
    numbers = case.batch * (algorithm.inputs * case.n + algorithm.results(case.n)) + ROW_CONSTANTS * case.n
    return numbers * np.dtype(case.dtype).itemsize


def arrays_of(case: Case) -> str:
    """NumPy or JAX arrays, where a case leaves it to the device."""
    if case.arrays != "auto":
        return case.arrays
    return "numpy" if jax.default_backend() == "cpu" else "jax"


ROBOT, HUGE = 1000, 20_000  # rows


def prepared(problem: Problem) -> tuple[Callable[[], Any], float]:
    """A call without arguments, and the seconds that compiling it took.

    JAX arrays are on the device and so is a large model, an argument like them: its constants are neither sent at each
    call nor folded into the program. A robot is closed over, as users do, and so is a huge tree on a GPU, whose
    constants kinetree then arranges once and not at each call.
    """
    case, model, state, run = problem.case, problem.model, problem.state, problem.algorithm.call
    if case.specialised:
        if not hasattr(kt, "specialize"):
            raise NotHere("this kinetree has no specialize")
        model = kt.specialize(model)  # type: ignore[attr-defined]
    if arrays_of(case) == "numpy":
        return lambda: run(case, model, *state), 0.0
    given = [jax.device_put(x) for x in state]
    if case.specialised or case.n <= ROBOT or (case.n >= HUGE and jax.default_backend() == "gpu"):
        jitted = jax.jit(lambda *state: run(case, model, *state))
    else:
        jitted = jax.jit(lambda model, *state: run(case, model, *state))
        given = [jax.device_put(model), *given]
    seconds, compiled = stopwatch(lambda: jitted.lower(*given).compile())
    return lambda: compiled(*given), seconds


def measure(case: Case, bandwidth: float, seconds: float = 1.0) -> dict[str, Any]:
    """One record."""
    if case.algorithm.startswith("first_"):
        from .first_result import measure_first_result

        return describe(case) | measure_first_result(case)
    gc.collect()
    building, problem = stopwatch(lambda: make_problem(case))
    call, compiling = prepared(problem)
    first, result = stopwatch(call)
    error = problem.error(result)
    del result
    timed = repeated(call, seconds, queued=arrays_of(case) == "numpy" or jax.default_backend() != "cpu")
    return describe(case) | timed | {
        "build_s": building,
        "compile_s": compiling or max(0.0, first - timed["median_s"]),
        "states_per_s": case.batch / timed["median_s"],
        "ns_per_body": 1e9 * timed["median_s"] / case.batch / case.n,
        "least_bytes": least_bytes(case),
        "copy_bandwidth": bandwidth,
        "fraction_of_copy_bandwidth": least_bytes(case) / timed["median_s"] / bandwidth,
        "relative_error": error,
        "process_peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def describe(case: Case) -> dict[str, Any]:
    """The part of a record that says what was measured."""
    return {"case": case.name, "library": "kinetree", **asdict(case), "arrays": arrays_of(case)}
