"""The model of several devices (`kinetree.theory.scale`) beside 1, 2, 4 and 8 host devices of this machine.

Host devices share the cores, so what they show is overhead. The machine's figures are fitted to the calls marked
"fitted"; all others are predicted. The second table has the model's H200 beside records of benchmarks/results.

    python -m benchmarks.scaling
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinetree.theory import scale

DEVICES = (1, 2, 4, 8)
WORLDS = (200_000, 1_000_000)  # of an arm with 7 joints
BODIES = (10_000, 1_000_000)  # of a chain
ROUNDS = 15  # each of which calls all of them in turn
RECORDS = Path(__file__).parent / "results" / "h200.jsonl"


class Case(NamedTuple):
    """What is timed: a batch of worlds or the bodies of a chain, over so many devices."""

    kind: str
    size: int
    devices: int


def calls() -> dict[Case, Callable[[], Any]]:
    """Inverse dynamics in float32, compiled, of each case."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import kinetree as kt

    arm, found = kt.auto_tree(7, 1, 0.3), {}
    torques = jax.jit(lambda q, qd: kt.inverse_dynamics(arm, q, qd, qd))
    for devices in DEVICES:
        mesh = Mesh(np.array(jax.devices()[:devices]), ("parts",))
        for size in WORLDS:
            state = (x.astype(np.float32) for x in kt.random_state(arm, 0, batch=(size,)))
            given = [jax.device_put(x, NamedSharding(mesh, PartitionSpec("parts"))) for x in state]
            found[Case("batch", size, devices)] = lambda given=given: torques(*given)
        for size in BODIES:
            tree = kt.shard_tree(kt.chain_pieces(size, max(DEVICES), 0.3), mesh, dtype=np.float32)
            x: Any = tree.spread(np.linspace(-1, 1, size, dtype=np.float32))
            found[Case("chain", size, devices)] = lambda tree=tree, x=x: kt.inverse_dynamics(tree, x, x, x)
    for call in found.values():
        jax.block_until_ready(call())
    return found


def measured() -> dict[Case, float]:
    """Seconds of a call, medians."""
    import jax

    timed: dict[Case, list[float]] = {}
    every = calls()
    for _ in range(ROUNDS):
        for case, call in every.items():
            for fresh in (True, False):  # the first finds the caches full of another's numbers
                start = time.perf_counter()
                jax.block_until_ready(call())
                if not fresh:
                    timed.setdefault(case, []).append(time.perf_counter() - start)
    return {case: statistics.median(times) for case, times in timed.items()}


WORK = {"batch": scale.inverse_dynamics_of_worlds(7), "chain": scale.INVERSE_DYNAMICS_OF_TREE}


def predicted(case: Case, machine: scale.Machine) -> float:
    """Seconds of a call by the model, on host devices of a machine."""
    part = scale.part_of(machine, case.devices)
    if case.kind == "batch":
        return scale.batch(WORK["batch"], case.size, case.devices, part).total
    return scale.tree(WORK["chain"], case.size, case.devices, part, chunks_in_a_row=max(DEVICES)).total


def fitted(found: dict[Case, float]) -> tuple[scale.Machine, set[Case]]:
    """A machine from four of the calls, one for each of its figures, and which those are."""
    most, (small, large), chain = max(DEVICES), BODIES, WORK["chain"]
    batch, long = Case("batch", max(WORLDS), 1), Case("chain", large, most)
    short, spread = Case("chain", small, 1), Case("chain", small, most)
    machine = scale.Machine(
        stream=WORK["batch"].bytes * batch.size / found[batch],
        walk=chain.bytes * large / found[long],
        rate=float("inf"),
        launch=0.0,  # small beside the rest
        prefix=(found[short] - found[long] * small / large) / chain.passes,
        latency=0.0,  # all in one memory
        link=float("inf"),
        chunk=(found[spread] - found[short]) / (chain.passes * most * most),
        memory=float("inf"),
    )
    return machine, {batch, long, short, spread}


def h200() -> list[tuple[str, float, float]]:
    """(Case, seconds measured, seconds by the model) of the records of inverse dynamics on one H200 that it covers."""
    latest = {}
    for line in RECORDS.read_text("utf-8").splitlines():
        r = json.loads(line)
        chain = r["n"] >= 100_000 and r["branching"] == 1
        covered = chain if r["batch"] == 1 else r["specialised"] or r["n"] <= 10
        if r["algorithm"] == "inverse_dynamics" and r["schedule"] == "auto" and covered:
            latest[r["case"]] = r
    return [(case, r["median_s"], _on_h200(r)) for case, r in sorted(latest.items())]


def _on_h200(record: dict[str, Any]) -> float:
    if record["batch"] > 1:
        return scale.batch(scale.inverse_dynamics_of_worlds(record["n"]), record["batch"]).total
    return scale.tree(scale.inverse_dynamics_of_tree(8 if record["dtype"] == "float64" else 4), record["n"]).total


def main() -> None:
    """Print both tables."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={max(DEVICES)}"
    found = measured()
    machine, used = fitted(found)
    print("| case | devices | measured | by the model | model / measured |\n|---|---:|---:|---:|---:|")
    for case in sorted(found):
        seconds, model = found[case], predicted(case, machine)
        note = " (fitted)" if case in used else ""
        row = f"{case.kind} of {case.size} | {case.devices} | {1e3 * seconds:.2f} ms | {1e3 * model:.2f} ms"
        print(f"| {row} | {model / seconds:.2f}{note} |")
    print("\n| one H200 | measured | by the model | model / measured |\n|---|---:|---:|---:|")
    for name, seconds, model in h200():
        print(f"| {name} | {1e3 * seconds:.3f} ms | {1e3 * model:.3f} ms | {model / seconds:.2f} |")


if __name__ == "__main__":
    main()
