"""Steps a second on this device, smooth robots in float32: `python -m benchmarks.steps [--quick] [files]`.

A rate is that of the fastest of some rounds of `advance` inside `jit`, results of one call being the states of the
next. Robots are an arm of 7 hinges, or files that are given, on free bases, with dampers and without constraints. The
states after the first call are compared with float64 on NumPy arrays.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt

ARM = Path(__file__).parents[1] / "examples" / "robots" / "arm7.urdf"


def rate(model: kt.Model, worlds: int, substeps: int, integrator: str, rounds: int) -> tuple[float, float, float]:
    """Steps a second, seconds of the first call, and the largest difference of positions after the first call."""
    q, qd = (0.1 * x for x in kt.random_state(model, 0, (worlds,)))
    q = kt.integrate(model, np.broadcast_to(kt.neutral(model), q.shape), qd, 1.0)
    few = min(worlds, 64)
    wide = kt.initial_state(model, np.asarray(q, float), np.asarray(qd, float))
    state = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), wide)
    ctrl = jnp.zeros((worlds, model.nu), jnp.float32)
    step = jax.jit(partial(kt.advance, model, substeps=substeps, integrator=integrator))
    begin = time.perf_counter()
    after = jax.block_until_ready(step(state, ctrl))
    first = time.perf_counter() - begin
    right = kt.advance(
        model,
        jax.tree.map(lambda x: np.asarray(x[:few]), wide),
        np.zeros(model.nu),
        substeps=substeps,
        integrator=integrator,
    )
    error = float(np.abs(np.asarray(after.q[:few]) - right.q).max())
    best = np.inf
    for _ in range(rounds):
        begin = time.perf_counter()
        now = state
        for _ in range(5):
            now = step(now, ctrl)
        jax.block_until_ready(now)
        best = min(best, (time.perf_counter() - begin) / 5)
    return worlds * substeps / best, first, error


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--worlds", type=int, nargs="+", default=[4096, 65536, 1048576])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few worlds, to see that it runs")
    options = parser.parse_args()
    worlds = [64] if options.quick else options.worlds
    robots = {}
    for path in options.files or [ARM]:
        robots[path.stem] = kt.load(path, floating_base=path != ARM).without_constraints.replace(damping=0.1)
    print(f"{jax.devices()[0].device_kind}, float32", flush=True)
    print("| robot | integrator | worlds | substeps | steps/s | first call, s | difference |")
    print("|---|---|---|---|---|---|---|")
    for name, model in robots.items():
        for integrator in ("semi_implicit", "RK4"):
            for count in worlds:
                for substeps in (1, 10):
                    found, first, error = rate(model, count, substeps, integrator, options.rounds)
                    numbers = f"{found:.3g} | {first:.1f} | {error:.0e}"
                    print(f"| {name} | {integrator} | {count} | {substeps} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
