"""Goals of robots on one H200: `python -m benchmarks.goals_gpu FOLDER`, float32, a million states inside `jit`.

FOLDER holds `panda.urdf`, `solo12.urdf` and `talos_reduced.urdf` of example-robot-data. A rate is that of the fastest
of some rounds; the calls of a round follow one another without waiting. The error is the largest difference from
float64 on NumPy arrays over 64 states, relative to the largest number. `--part` takes some of the groups only.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt

from .steps import ARM, rate
from .substeps import seconds_a_step

STATES = 1 << 20
CHECKED = 64  # states whose results are compared
QUADRUPED = ARM.with_name("quadruped.urdf")


class Goal(NamedTuple):
    """A function of a robot, and how many states a second it should reach."""

    robot: str
    name: str
    call: Callable[..., Any]
    inputs: int  # of q, qd and a third array
    goal: float
    specialised: bool = False


ID, FD = kt.inverse_dynamics, kt.forward_dynamics
DERIVATIVES = {"∂ID": kt.inverse_dynamics_derivatives, "∂FD": kt.forward_dynamics_derivatives}
GOALS = (
    Goal("arm7", "FK", kt.forward_kinematics, 1, 6e9),
    Goal("arm7", "H", kt.mass_matrix, 1, 6e9),
    Goal("panda", "FD", FD, 3, 5e9),
    Goal("solo12", "FD", FD, 3, 0.6e9),
    Goal("talos_reduced", "ID", ID, 3, 0.6e9),
    Goal("talos_reduced", "FD", FD, 3, 0.25e9),
    *(Goal("solo12", name, DERIVATIVES[name], 3, goal) for name, goal in (("∂ID", 100e6), ("∂FD", 40e6))),
    *(Goal("talos_reduced", name, DERIVATIVES[name], 3, goal) for name, goal in (("∂ID", 20e6), ("∂FD", 8e6))),
    Goal("solo12", "FD", FD, 3, 2e9, specialised=True),
    Goal("talos_reduced", "ID", ID, 3, 1.5e9, specialised=True),
    Goal("talos_reduced", "FD", FD, 3, 0.6e9, specialised=True),
)


def measured(model: kt.Model, goal: Goal, states: int, rounds: int) -> tuple[float, float, float]:
    """States a second, seconds of the first call, and the relative error."""
    q, qd = kt.random_state(model, 0, (states,))
    wide = (q, qd, np.random.default_rng(0).standard_normal(qd.shape))[: goal.inputs]
    given = [jnp.asarray(x, jnp.float32) for x in wide]
    call = jax.jit(partial(goal.call, kt.specialize(model) if goal.specialised else model))
    begin = time.perf_counter()
    found = jax.block_until_ready(call(*given))
    first = time.perf_counter() - begin
    right = goal.call(model, *(np.asarray(x[:CHECKED], float) for x in given))
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True)
    error = max(float(np.abs(np.asarray(a[:CHECKED]) - b).max() / np.abs(b).max()) for a, b in pairs)
    del found
    best = min(_seconds(call, given) for _ in range(rounds))
    return states / best, first, error


def _seconds(call: Callable[..., Any], given: list[jax.Array], calls: int = 10) -> float:
    begin, found = time.perf_counter(), None
    for _ in range(calls):
        found = call(*given)
    jax.block_until_ready(found)
    return (time.perf_counter() - begin) / calls


def steps(folder: Path, few: bool) -> Iterator[tuple[str, float, float, float, float]]:
    """Smooth steps; what, steps a second, goal, seconds of the first call, difference from float64."""
    worlds = 64 if few else STATES
    for path, integrator, goal in (
        (ARM, "semi_implicit", 8e9),
        (ARM, "RK4", 1.8e9),
        (QUADRUPED, "semi_implicit", 1e9),
        (folder / "talos_reduced.urdf", "semi_implicit", 200e6),
    ):
        model = kt.load(path, floating_base=path != ARM).without_constraints.replace(damping=0.1)
        found, first, error = rate(model, worlds, 10, integrator, 3)
        yield f"{path.stem}, {integrator}, 10 substeps", found, goal, first, error


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--part", nargs="+", choices=("calls", "steps", "contact"), default=["calls", "steps", "contact"]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few states, to see that it runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of what files say that models do not have
    print(f"{jax.devices()[0].device_kind}, float32\n| what | a second | goal | of the goal | first call, s | error |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)

    def line(what: str, found: float, goal: float, first: float, error: float) -> None:
        print(f"| {what} | {found:.3g} | {goal:.3g} | {found / goal:.2f} | {first:.1f} | {error:.0e} |", flush=True)

    for goal in GOALS if "calls" in options.part else ():
        path = ARM if goal.robot == "arm7" else options.folder / f"{goal.robot}.urdf"
        model = kt.load(path, floating_base=goal.robot not in ("arm7", "panda"))
        label = f"{goal.robot} {goal.name}{' specialised' if goal.specialised else ''}"
        found, first, error = measured(model, goal, 256 if options.quick else STATES, options.rounds)
        line(label, found, goal.goal, first, error)
    if "steps" in options.part:
        for found in steps(options.folder, options.quick):
            line(*found)
    if "contact" in options.part:
        few, many = (8, 16) if options.quick else (4096, 65536)
        for substeps in (1, 10):
            took = {n: seconds_a_step(n, substeps, options.rounds) for n in (few, many)}
            ratio = (few / took[few]) / (many / took[many])
            print(f"| contact, {few} worlds to {many}, {substeps} steps a call | {ratio:.2f} | 0.5 | | | |", flush=True)


if __name__ == "__main__":
    main()
