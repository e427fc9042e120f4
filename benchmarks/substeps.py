"""Steps with contact: many to a call against one, and few worlds against many. `python -m benchmarks.substeps --help`.

The example quadruped stands on the floor, float32. On a GPU wall time counts, on a CPU processor time.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt
from kinetree import envs


def standing(worlds: int) -> tuple[kt.Model, kt.State, jax.Array]:
    """The robot of the quadruped's task, as its episodes begin; and controls that hold it."""
    env = envs.make("quadruped")
    state = jax.jit(env.reset)(jax.random.split(jax.random.key(0), worlds)).physics
    state = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), state)
    return env.model, state, jnp.asarray(state.q[:, 7 : 7 + env.model.nu])


def seconds_a_step(worlds: int, substeps: int, rounds: int) -> float:
    """Of all worlds, the best of some rounds; the calls of a round follow one another without waiting."""
    model, state, ctrl = standing(worlds)
    clock = time.perf_counter if jax.default_backend() == "gpu" else time.process_time
    step = jax.jit(lambda s: kt.advance(model, s, ctrl, substeps=substeps))
    state, times = jax.block_until_ready(step(state)), []
    calls = max(1, 100 // substeps)
    for _ in range(rounds):
        start, s = clock(), state
        for _ in range(calls):
            s = step(s)
        jax.block_until_ready(s)
        times.append((clock() - start) / calls / substeps)
    return float(np.min(times))


def main() -> None:
    """Print rates, and the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, nargs=2, default=(4096, 65536), metavar=("FEW", "MANY"))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    took = {(n, k): seconds_a_step(n, k, given.rounds) for n in given.worlds for k in (1, 10)}
    for (n, k), seconds in took.items():
        print(f"{n} worlds, {k} steps to a call: {n / seconds:.3g} steps/s")
    few, many = given.worlds
    print(f"ten to a call / single, {many} worlds: {took[many, 1] / took[many, 10]:.2f} (goal 1.1)")
    for k in (1, 10):
        ratio = (few / took[few, k]) / (many / took[many, k])
        print(f"rate of {few} worlds / of {many}, {k} to a call: {ratio:.2f} (goal 0.5)")


if __name__ == "__main__":
    main()
