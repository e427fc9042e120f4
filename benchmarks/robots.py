"""Real robots beside Pinocchio: `python -m benchmarks.robots`, every robot of example-robot-data as it is loaded.

Each robot is tried on a fixed and on a floating base: batches of 4 096 states with two threads each, and one call. Both
libraries are called in turn in one process, each several times in a row where a call is short: that is how fast they
are once threads are awake. Ratios are those of medians over rounds, each of which goes over all quantities. On a busy
machine take `--threads 1 --cpu`: ratios of processor time; where Pinocchio has no parallel call, two of our threads
make twice that. Pinocchio answers by its parallel call where it has one, else by a loop over its function of one state.
The worst robot of each column is printed last: that is the figure which counts. `--random` makes up other robots.
A robot beside which other processes took a core's time (`others`, where the system tells) is measured again.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

import kinetree as kt

from .random_robots import random_files
from .real import Writer

Clock = Callable[[], float]
Calls = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]  # Ours and theirs, by what they compute.

GOALS = {"ID": 12, "FD": 9, "H": 10, "FK": 10, "J": 8, "∂ID": 8, "∂FD": 6, "ID specialised": 20, "FD specialised": 15}
UNTIL_ASLEEP = 0.008  # seconds after which threads of either library no longer look for work
TIMED_ALONE = 2e-5  # seconds of a call that is timed by itself
BATCH_SECONDS = 5e-3  # seconds of a sample of batches, at the least
OTHERS_MAX = 0.03  # of all cores' time that other processes may take while a robot is measured
ATTEMPTS = 3  # to measure a robot without them
SPECIALISED_ROWS = 60  # rows; compiling a program for a larger robot takes longer than measuring it


def robot_files() -> dict[str, Path]:
    """Every URDF of the package example-robot-data, by name."""
    folder = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.urdf"))}


def pinocchio_model(path: Path, floating: bool) -> Any:
    """Pinocchio's model of a file. Its mimic joints are free: few of its functions serve others."""
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    return pin.buildModelFromUrdf(str(path), *root, False)


def states_of(theirs: Any, batch: int) -> list[np.ndarray]:
    """Random q, v, and a third array, a row to a state."""
    rng = np.random.default_rng(0)
    low, high = -np.ones(theirs.nq), np.ones(theirs.nq)
    q = np.stack([pin.randomConfiguration(theirs, low, high) for _ in range(batch)])
    return [q, *rng.standard_normal((2, batch, theirs.nv))]


def batch_calls(model: kt.Model, theirs: Any, batch: int, threads: int, specialise: bool) -> Calls:
    """What is compared over batches."""
    given = _ours(model, batch)
    q = given[0]
    their_given = states_of(theirs, batch)
    pool, data = pin.ModelPool(theirs, threads), theirs.createData()
    columns = [np.asfortranarray(x.T) for x in their_given]
    out = np.zeros((theirs.nv, batch), order="F")
    each = list(zip(*(list(x) for x in their_given), strict=True))
    bodies = sorted({0, model.n_bodies // 2, model.n_bodies - 1})
    frames = [theirs.getFrameId(model.names[body], pin.BODY) for body in bodies]

    def loop(function: Callable[..., Any], count: int) -> Callable[[], None]:
        def call() -> None:
            for state in each:
                function(theirs, data, *state[:count])

        return call

    def jacobians() -> None:
        for state in each:
            for frame in frames:
                pin.computeFrameJacobian(theirs, data, state[0], frame, pin.WORLD)

    def rnea() -> None:
        pin.rneaInParallel(threads, pool, *columns, out)

    def aba() -> None:
        pin.abaInParallel(threads, pool, *columns, out)

    calls: Calls = {
        "ID": (lambda: kt.inverse_dynamics(model, *given), rnea),
        "FD": (lambda: kt.forward_dynamics(model, *given), aba),
        "H": (lambda: kt.mass_matrix(model, q), loop(pin.crba, 1)),
        "FK": (lambda: kt.forward_kinematics(model, q), loop(pin.framesForwardKinematics, 1)),
        "J": (lambda: [kt.jacobian(model, q, body) for body in bodies], jacobians),
        "∂ID": (lambda: kt.inverse_dynamics_derivatives(model, *given), loop(pin.computeRNEADerivatives, 3)),
        "∂FD": (lambda: kt.forward_dynamics_derivatives(model, *given), loop(pin.computeABADerivatives, 3)),
    }
    if specialise and model.tree.n <= SPECIALISED_ROWS:
        own = kt.specialize(model)
        calls["ID specialised"] = (lambda: kt.inverse_dynamics(own, *given), rnea)
        calls["FD specialised"] = (lambda: kt.forward_dynamics(own, *given), aba)
    return calls


def single_calls(model: kt.Model, theirs: Any) -> Calls:
    """What is compared in one call."""
    q, v, x = (a[0] for a in _ours(model, 1))
    p, w, y = (a[0] for a in states_of(theirs, 1))
    data, body = theirs.createData(), model.n_bodies - 1
    frame = theirs.getFrameId(model.names[body], pin.BODY)
    return {
        "ID": (lambda: kt.inverse_dynamics(model, q, v, x), lambda: pin.rnea(theirs, data, p, w, y)),
        "FD": (lambda: kt.forward_dynamics(model, q, v, x), lambda: pin.aba(theirs, data, p, w, y)),
        "H": (lambda: kt.mass_matrix(model, q), lambda: pin.crba(theirs, data, p)),
        "FK": (lambda: kt.forward_kinematics(model, q), lambda: pin.framesForwardKinematics(theirs, data, p)),
        "FK, joints": (lambda: kt.forward_kinematics(model, q), lambda: pin.forwardKinematics(theirs, data, p)),
        "J": (
            lambda: kt.jacobian(model, q, body),
            lambda: pin.computeFrameJacobian(theirs, data, p, frame, pin.WORLD),
        ),
        "CoM": (lambda: kt.center_of_mass(model, q), lambda: pin.centerOfMass(theirs, data, p)),
        "∂ID": (
            lambda: kt.inverse_dynamics_derivatives(model, q, v, x),
            lambda: pin.computeRNEADerivatives(theirs, data, p, w, y),
        ),
        "∂FD": (
            lambda: kt.forward_dynamics_derivatives(model, q, v, x),
            lambda: pin.computeABADerivatives(theirs, data, p, w, y),
        ),
    }


def _ours(model: kt.Model, batch: int) -> list[np.ndarray]:
    q, qd = kt.random_state(model, 0, (batch,))
    return [q, qd, np.random.default_rng(0).standard_normal(qd.shape)]


class Timed:
    """A call, and the seconds that it took in each round so far."""

    def __init__(self, call: Callable[[], Any], clock: Clock):
        self.call, self.clock = call, clock
        self.first = self._seconds(1)
        self.rounds: list[float] = []

    def _seconds(self, count: int) -> float:
        start = self.clock()
        for _ in range(count):
            self.call()
        return (self.clock() - start) / count

    def sample(self, least: float, alone: bool) -> None:
        """One round, of at least so many seconds.

        It waits until the other library's threads sleep: OpenMP's look for work for some 5 ms, on the core that ours
        need. The first of several calls in a row is not counted: it wakes threads. Of those that follow the median
        counts, unless they are too short to be timed `alone`.
        """
        time.sleep(UNTIL_ASLEEP)
        count = max(1, int(least / self.first))
        if count > 1:
            self.call()
        in_a_row = 1 if alone else count
        self.rounds.append(statistics.median(self._seconds(in_a_row) for _ in range(count // in_a_row)))


def compare(calls: Calls, rounds: int, least: float, clock: Clock) -> dict[str, float]:
    """Ratios by what is computed; those that a robot has no answer to are left out.

    Each round goes over all quantities, ours and theirs in turn. So a moment in which the machine is slow touches one
    round of some of them, and medians over the rounds do not see it.
    """
    pairs: dict[str, tuple[Timed, Timed]] = {}
    for name, (ours, theirs) in calls.items():
        try:
            ours(), theirs()
        except (ValueError, RuntimeError):  # A singular mass matrix, mostly.
            continue
        pairs[name] = Timed(ours, clock), Timed(theirs, clock)
    for _ in range(rounds):
        for pair in pairs.values():
            alone = min(timed.first for timed in pair) >= TIMED_ALONE
            for timed in pair:
                timed.sample(least, alone)
    medians = {name: [statistics.median(timed.rounds) for timed in pair] for name, pair in pairs.items()}
    return {name: theirs / ours for name, (ours, theirs) in medians.items()}


def _busy() -> tuple[float, float]:
    """Seconds that all cores were busy since the start of the system, and those of this process."""
    own = sum(os.times()[:2])
    try:
        user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    except OSError:  # This system does not tell.
        return own, own
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK"), own


def undisturbed(measure: Callable[[], dict[str, float]], wall: bool) -> tuple[dict[str, float], float]:
    """The ratios with the least time of other processes, as a share of all cores' time, and that share."""
    best: tuple[dict[str, float], float] = {}, float("inf")
    for _ in range(ATTEMPTS if wall else 1):
        start, before = time.perf_counter(), _busy()
        found = measure()
        (busy, own), passed = _busy(), time.perf_counter() - start
        others = max(0.0, (busy - before[0]) - (own - before[1])) / (passed * (os.cpu_count() or 1))
        best = min(best, (found, others), key=lambda x: x[1])
        if best[1] <= OTHERS_MAX:
            break
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all robots whose names contain one of the words; print a line each, then the worst."""
    parser = argparse.ArgumentParser("python -m benchmarks.robots", description=__doc__)
    parser.add_argument("names", nargs="*", default=[""], help="parts of robots' names")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="processor time, not time on the wall")
    parser.add_argument("--one", action="store_true", help="one call instead of a batch")
    parser.add_argument("--specialise", action="store_true", help="programs of each robot, too")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N random robots of each kind instead")
    parser.add_argument("--part", default="1/1", help="k/n: the k-th of n parts of the robots")
    parser.add_argument("--out", type=Path, help="file of JSON lines to add to")
    options = parser.parse_args(arguments)
    kt.set_threads(options.threads)
    clock = time.process_time if options.cpu else time.perf_counter
    write = Writer(options.out, "robots")
    worst: dict[str, tuple[float, str]] = {}
    part, parts = map(int, options.part.split("/"))
    files = random_files(options.random) if options.random else robot_files()
    chosen = [(name, path) for name, path in files.items() if any(word in name for word in options.names)]
    for name, path in chosen[part - 1 :: parts]:
        for floating in (False, True):
            try:
                theirs = pinocchio_model(path, floating)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = kt.load(path, floating_base=floating)
            except (ValueError, RuntimeError) as error:
                print(f"{name}: not loaded: {str(error)[:80]}")
                continue
            if not model.nv:
                continue
            if options.one:
                calls, least = single_calls(model, theirs), 1e-3
            else:
                calls = batch_calls(model, theirs, options.batch, options.threads, options.specialise)
                least = BATCH_SECONDS
            measure = partial(compare, calls, options.rounds, least, clock)
            found, others = undisturbed(measure, not options.cpu)
            label = f"{name}{' floating' if floating else ''}"
            mark = f"  (others {others:.0%})" if others > OTHERS_MAX and not options.cpu else ""
            print(f"{label}: " + "  ".join(f"{k} {v:.2f}" for k, v in found.items()) + mark, flush=True)
            call = "one" if options.one else "batch"
            write(robot=label, call=call, ratios=found, clock=clock.__name__, others=round(others, 3))
            for what, times in found.items():
                worst[what] = min(worst.get(what, (np.inf, "")), (times, label))
    print("\nworst:")
    for what, (times, label) in worst.items():
        goal = 1 if options.one else GOALS.get(what)
        print(f"  {what:15} {times:6.2f} (goal {goal})  {label}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
