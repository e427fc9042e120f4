"""From a model to its first result, in a process of its own: first without a cache of programs, then with it.

Imports and the start of the device and of its compiler are not counted: they are the same for every JAX program.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax

from .cases import Case
from .measure import make_problem, prepared
from .timing import stopwatch

DEVICE_SHARE = "0.1"  # of a GPU's memory; the process that asks holds most of the rest


def measure_first_result(case: Case) -> dict[str, Any]:
    """Seconds to the first result, without and with the cache on disk."""
    with tempfile.TemporaryDirectory() as folder:
        surroundings = {**os.environ, "KINETREE_CACHE": folder, "XLA_PYTHON_CLIENT_MEM_FRACTION": DEVICE_SHARE}
        command = [sys.executable, "-m", "benchmarks.first_result", json.dumps(asdict(case))]
        times = [_child(command, surroundings) for _ in range(2)]
    return {"first_result_s": times[0]["seconds"], "from_cache_s": times[1]["seconds"]} | {
        "relative_error": max(t["relative_error"] for t in times)
    }


def _child(command: list[str], surroundings: dict[str, str]) -> dict[str, float]:
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=surroundings, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main(text: str) -> None:
    """The child: one call, and how long it took."""
    jax.config.update("jax_enable_x64", True)
    case = Case(**json.loads(text))
    problem = make_problem(replace(case, algorithm=case.algorithm.removeprefix("first_")))
    jax.block_until_ready(jax.jit(jax.numpy.sin)(jax.device_put(problem.state)[0]))
    seconds, result = stopwatch(lambda: prepared(problem)[0]())
    print(json.dumps({"seconds": seconds, "relative_error": problem.error(result)}))


if __name__ == "__main__":
    main(sys.argv[1])
