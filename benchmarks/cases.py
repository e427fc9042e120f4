"""The cases: what is computed, on which mechanism, how. A group's name says what question its cases answer.

- h200, cpu: the tables of targets, for one NVIDIA H200 and for CPU cores.
- lynghus_rnea, lynghus_crba: inverse dynamics, and H with C, over bodies and branching, as published by Lynghus.
- scans: the variants of the scan under a rootfix.
- yang_links, yang_batch: the methods of forward dynamics over links and over states, as published by Yang, Wu and Pan.
- million: one tree of a million bodies under each schedule.
- crossover: where one schedule overtakes another.
- tiny: one of each, for the test suite.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One measurement."""

    group: str
    algorithm: str  # a name of algorithms.ALGORITHMS
    n: int
    branching: float = 1.0
    batch: int = 1  # 1 is one state without a batch axis
    dtype: str = "float64"
    method: str = "auto"
    schedule: str = "auto"
    arrays: str = "auto"  # "numpy", "jax" (on the device, inside jit), or by the device: "numpy" on a CPU, else "jax"
    specialised: bool = False

    @property
    def name(self) -> str:
        """What filters look at."""
        parts = [self.group, self.algorithm, f"n={self.n}", f"bf={self.branching:g}", f"batch={self.batch}", self.dtype]
        marks = [
            f"{key}={value}" for key in ("method", "schedule", "arrays") if (value := getattr(self, key)) != "auto"
        ]
        return "/".join(parts + marks + ["specialised"] * self.specialised)


DYNAMICS = ("inverse_dynamics", "forward_dynamics")
DERIVATIVES = ("inverse_dynamics_derivatives", "forward_dynamics_derivatives")
MILLION = 1_000_000
ARM, TREE = (7, 1.0), (30, 2.0)  # bodies and branching of the robots in the CPU table
CHAIN_8, TREE_32 = (8, 1.0), (32, 2.0)  # and in the H200 table

H200 = [
    *(Case("h200", "inverse_dynamics", 4 * MILLION, branching) for branching in (1.0, 2.0)),
    *(Case("h200", "mass_matrix_and_bias", 40_000, branching) for branching in (1.0, 2.0)),
    *(Case("h200", "forward_dynamics", MILLION, branching) for branching in (1.0, 2.0)),
    *(
        Case("h200", algorithm, *robot, 1_048_576, "float32", specialised=specialised)
        for algorithm in DYNAMICS
        for robot in (CHAIN_8, TREE_32)
        for specialised in (False, True)
    ),
    *(
        Case("h200", f"first_{algorithm}", *robot, 4096, "float32")
        for algorithm in DYNAMICS
        for robot in (CHAIN_8, TREE_32)
    ),
]

CPU = [
    *(
        Case("cpu", algorithm, *robot, batch, arrays=arrays, specialised=specialised)
        for algorithm in DYNAMICS
        for robot in (ARM, TREE)
        for batch in (4096, 65_536)
        for arrays in ("numpy", "jax")
        for specialised in (False, True)
    ),
    *(Case("cpu", algorithm, *ARM, arrays="numpy") for algorithm in DYNAMICS),
    *(Case("cpu", "inverse_dynamics", MILLION, branching, arrays="numpy") for branching in (1.0, 2.0)),
    *(Case("cpu", algorithm, *ARM, 4096, arrays="jax") for algorithm in (*DERIVATIVES, "forward_kinematics")),
    *(Case("cpu", f"first_{algorithm}", *ARM, 4096, arrays="numpy") for algorithm in DYNAMICS),
]

LYNGHUS_RNEA = [
    Case("lynghus_rnea", "inverse_dynamics", n, branching)
    for branching in (1.0, 1.5, 2.0)
    for n in (10, 100, 1000, 10_000, 100_000, MILLION)
]
LYNGHUS_CRBA = [
    Case("lynghus_crba", "mass_matrix_and_bias", n, branching)
    for branching in (1.0, 1.01, 1.1, 2.0)
    for n in (100, 1000, 5000, 10_000)
]
SCANS = [
    Case("scans", "rootfix", n, 2.0, method=method, arrays="jax")
    for n in (1000, 100_000, MILLION)
    for method in ("native", "blocked", "work_efficient", "mapped")
]
METHODS = ("aba", "crba", "jsiia", "abia", "dca", "dcae", "cfa", "vneb", "cg")
YANG_LINKS = [
    Case("yang_links", "forward_dynamics", n, method=method, arrays="jax") for n in (10, 50, 200) for method in METHODS
]
YANG_BATCH = [
    Case("yang_batch", "forward_dynamics", n, 1.0, batch, method=method, arrays="jax")
    for n in (10, 200)
    for batch in (16, 256)
    for method in ("aba", "crba", "jsiia", "abia", "cfa")
]
MILLIONS = [
    Case("million", algorithm, MILLION, branching, schedule=schedule)
    for algorithm in DYNAMICS
    for branching in (1.0, 2.0)
    for schedule in ("auto", "paths", "sequential")
]
CROSSOVER = [
    Case("crossover", algorithm, n, branching, batch, schedule=schedule)
    for algorithm in DYNAMICS
    for n in (10, 100, 1000, 10_000)
    for branching in (1.0, 2.0)
    for batch in (1, 64)
    for schedule in ("lanes", "levels", "paths")
    if not (schedule == "levels" and branching == 1.0 and n > 1000)
]
TINY = [
    *(Case("tiny", algorithm, 12, 2.0, 3, schedule=s) for algorithm in DYNAMICS for s in ("lanes", "paths")),
    Case("tiny", "inverse_dynamics", 5, arrays="numpy"),
    Case("tiny", "inverse_dynamics", 5, 1.0, 40, "float32", arrays="jax"),
    Case("tiny", "mass_matrix_and_bias", 12, 2.0),
    Case("tiny", "forward_kinematics", 12, 2.0, 3, arrays="jax"),
    *(Case("tiny", algorithm, 3, 1.0, 2, arrays="jax") for algorithm in DERIVATIVES),
    *(Case("tiny", "rootfix", 12, 2.0, method=method, arrays="jax") for method in ("blocked", "mapped")),
    Case("tiny", "forward_dynamics", 4, method="jsiia", arrays="jax"),
    Case("tiny", "inverse_dynamics", 3, 1.0, 2, specialised=True),
    Case("tiny", "first_inverse_dynamics", 3, 1.0, 2, arrays="numpy"),
]

CASES = [*H200, *CPU, *LYNGHUS_RNEA, *LYNGHUS_CRBA, *SCANS, *YANG_LINKS, *YANG_BATCH, *MILLIONS, *CROSSOVER, *TINY]


def chosen(filters: list[str]) -> list[Case]:
    """The cases whose names contain one of these."""
    return [case for case in CASES if any(text in case.name for text in filters)]
