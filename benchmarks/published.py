"""Figures that others have published, and the goals set beside them. Seconds, bodies, states a second.

LYNGHUS: Lynghus, "Data Parallel Rigid Body Dynamics" (2026). autoTree with skew 0, float64. GPU: an A100 40 GB PCIe.
CPU: one core of an EPYC 7413. RNEA with its compact data structures, CRBA (H and C) with the faster CPU variant.
YANG: Yang, Wu and Pan (2017). A Tesla K40c; of their curves only the order is quoted here.
MJX: MJX 3.17 on one H200, float32, revolute trees, 131 072 and 1 048 576 states.
"""

MICRO = 1e-6


def _by_size(sizes: tuple[int, ...], *columns: tuple[float, tuple[int, ...]]) -> dict[tuple[int, float], float]:
    return {(n, bf): MICRO * t for bf, times in columns for n, t in zip(sizes, times, strict=True)}


_RNEA_SIZES = (10, 100, 1000, 10_000, 100_000, 1_000_000, 2_000_000, 4_000_000)
_CRBA_SIZES = (100, 1000, 5000, 10_000, 20_000, 40_000)
_SCAN_SIZES = (1000, 100_000, 1_000_000, 2_000_000)

LYNGHUS = {  # platform, then algorithm, then (bodies, branching)
    "gpu": {
        "inverse_dynamics": _by_size(
            _RNEA_SIZES,
            (1.0, (657, 668, 751, 1289, 1551, 11_318, 21_927, 43_591)),
            (1.5, (656, 668, 765, 1292, 1639, 14_538, 28_998, 58_851)),
            (2.0, (657, 669, 767, 1289, 1636, 14_464, 28_610, 57_619)),
        ),
        "mass_matrix_and_bias": _by_size(
            _CRBA_SIZES,
            (1.0, (1159, 1250, 3949, 13_213, 50_620, 198_446)),
            (1.01, (1160, 1225, 2456, 4182, 7595, 15_398)),
            (1.1, (1161, 1218, 2223, 3564, 5831, 10_481)),
            (2.0, (1155, 1258, 2175, 3447, 5598, 9903)),
        ),
    },
    "cpu": {
        "inverse_dynamics": _by_size(_RNEA_SIZES, (1.0, (3, 19, 165, 1654, 17_026, 184_429, 397_342, 787_389))),
        "mass_matrix_and_bias": _by_size(
            _CRBA_SIZES,
            (1.0, (246, 19_896, 511_348, 2_008_333, 8_079_316, 32_462_912)),
            (2.0, (75, 1017, 17_078, 63_530, 227_380, 849_748)),
        ),
    },
}
LYNGHUS_MACHINE = {"gpu": "an A100", "cpu": "one core of an EPYC 7413"}

LYNGHUS_ROOTFIX = {  # on the A100, branching 2: method, then bodies
    method: {n: MICRO * t for n, t in zip(_SCAN_SIZES, times, strict=True)}
    for method, times in {
        "native": (540, 3601, 28_978, 54_982),
        "blocked": (698, 1599, 11_046, 21_353),
        "work_efficient": (1179, 4383, 27_491, 54_540),
        "mapped": (73, 127, 1617, 3339),
    }.items()
}

YANG = (
    "On a Tesla K40c one call was fastest by JSIIA at 10 links and by CFA from about 50 to 200 links on, ABIA between; "
    "over many calls of 10 links JSIIA and CFA were about equal and ahead of ABIA, of 200 links CFA was fastest and "
    "JSIIA slowest."
)

MJX_H200 = {  # states a second: algorithm, bodies
    ("inverse_dynamics", 8): 74e6,
    ("inverse_dynamics", 32): 14.4e6,
    ("forward_dynamics", 8): 56e6,
    ("forward_dynamics", 32): 8.8e6,
}
MJX_COMPILE = 6.0

# -- goals: what a case of the groups h200 and cpu is meant to reach -------------------------------------------------

GOAL_SECONDS = {  # group, algorithm, bodies, branching
    ("h200", "inverse_dynamics", 4_000_000, 1.0): 1.0e-3,
    ("h200", "inverse_dynamics", 4_000_000, 2.0): 1.5e-3,
    ("h200", "mass_matrix_and_bias", 40_000, 1.0): 5e-3,
    ("h200", "mass_matrix_and_bias", 40_000, 2.0): 5e-3,
    ("h200", "forward_dynamics", 1_000_000, 1.0): 6e-3,
    ("h200", "forward_dynamics", 1_000_000, 2.0): 6e-3,
    ("cpu", "inverse_dynamics", 1_000_000, 1.0): 20e-3,
    ("cpu", "inverse_dynamics", 1_000_000, 2.0): 20e-3,
}
GOAL_STATES = {  # group, algorithm, bodies, specialised: states a second
    ("h200", "inverse_dynamics", 8, False): 3e9,
    ("h200", "inverse_dynamics", 8, True): 15e9,
    ("h200", "inverse_dynamics", 32, False): 0.7e9,
    ("h200", "inverse_dynamics", 32, True): 2.4e9,
    ("h200", "forward_dynamics", 8, False): 0.8e9,
    ("h200", "forward_dynamics", 8, True): 6e9,
    ("h200", "forward_dynamics", 32, False): 0.2e9,
    ("h200", "forward_dynamics", 32, True): 0.5e9,
}
GOAL_FIRST_RESULT, GOAL_FROM_CACHE = 0.5, 0.1  # seconds
GOAL_TIMES_PINOCCHIO = {  # algorithm, whether a batch: how many times as fast, on as many threads
    ("inverse_dynamics", True): 20.0,
    ("forward_dynamics", True): 12.0,
    ("inverse_dynamics", False): 1.0,
    ("forward_dynamics", False): 1.0,
    ("inverse_dynamics_derivatives", True): 5.0,
    ("forward_dynamics_derivatives", True): 5.0,
}
