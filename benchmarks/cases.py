"""The cases: what is computed, on which mechanism, how."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One measurement."""

    group: str
    algorithm: str  # "inverse_dynamics" or "forward_dynamics"
    schedule: str
    n: int
    branching: float
    batch: int = 1
    dtype: str = "float64"
    method: str = "aba"

    @property
    def name(self) -> str:
        """What filters look at."""
        return (
            f"{self.group}/{self.algorithm}/{self.schedule}/n={self.n}/bf={self.branching:g}/"
            f"batch={self.batch}/{self.dtype}"
        )


ALGORITHMS = ("inverse_dynamics", "forward_dynamics")

MILLION = [
    Case("million", algorithm, schedule, 1_000_000, branching)
    for algorithm in ALGORITHMS
    for branching in (1.0, 2.0)
    for schedule in ("auto", "paths", "sequential")
]
BATCH = [
    Case("batch", algorithm, schedule, n, branching, batch, dtype)
    for algorithm in ALGORITHMS
    for n, branching in ((7, 1.0), (30, 2.0))
    for batch in (4096, 65_536)
    for dtype in ("float64", "float32")
    for schedule in ("auto",)
]
CROSSOVER = [
    Case("crossover", algorithm, schedule, n, branching, batch)
    for algorithm in ALGORITHMS
    for n in (10, 100, 1000, 10_000)
    for branching in (1.0, 2.0)
    for batch in (1, 64)
    for schedule in ("lanes", "levels", "paths")
    if not (schedule == "levels" and branching == 1.0 and n > 1000)
]
TINY = [Case("tiny", algorithm, schedule, 12, 2.0, 3) for algorithm in ALGORITHMS for schedule in ("lanes", "paths")]

CASES = MILLION + BATCH + CROSSOVER + TINY
