"""Rollouts beside `mujoco.rollout`: same file, same states and controls, same threads: `python -m benchmarks.rollouts`.

Both keep all states of all steps. They are timed in turn, in one process, and the best of some rounds stands, as other
work on the machine only adds time. CPU time, which other work disturbs less, is printed beside. Results are compared:
the largest difference of positions after a few steps. Files may be given; otherwise arms of hinges and the robots of
gymnasium that touch their floor are taken.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.io.converters import Mujoco

from .real import Writer

GOALS = {"arm": 18.0, "contact": 10.0}  # times as fast
ON_THE_FLOOR = ("half_cheetah", "hopper", "walker2d", "ant", "humanoid")
COMPARED = 5  # steps after which positions are compared


class Case(NamedTuple):
    """A robot, and whether it touches something."""

    group: str
    name: str
    path: Path


class Row(NamedTuple):
    """What was measured."""

    case: Case
    worlds: int
    ours: float  # µs a step
    theirs: float
    our_cpu: float  # µs of all threads
    their_cpu: float
    error: float

    @property
    def ratio(self) -> float:
        """How many times as fast."""
        return self.theirs / self.ours


def arm_text(hinges: int) -> str:
    """An arm that touches nothing: motors and dampers."""
    body, end = "", ""
    for k in range(hinges):
        axis = ("0 0 1", "0 1 0", "1 0 0")[k % 3]
        place = f"0 {0.02 * (k % 2)} {0.25 if k else 0}"
        body += f"""<body name="b{k}" pos="{place}"><joint name="j{k}" axis="{axis}" damping="0.5"/>
          <geom type="capsule" fromto="0 0 0 0 0 0.25" size="0.04" contype="0" conaffinity="0"/>"""
        end += "</body>"
    motors = "".join(f'<motor joint="j{k}" gear="{20 / (1 + k)}"/>' for k in range(hinges))
    return f"<mujoco><option timestep='0.002'/><worldbody>{body}{end}</worldbody><actuator>{motors}</actuator></mujoco>"


def cases(folder: Path) -> list[Case]:
    """Those that need no files but gymnasium's."""
    import gymnasium

    found = []
    for hinges in (6, 7, 12):
        path = folder / f"arm{hinges}.xml"
        path.write_text(arm_text(hinges))
        found.append(Case("arm", path.stem, path))
    assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    return found + [Case("contact", name, assets / f"{name}.xml") for name in ON_THE_FLOOR]


def best(rounds: int, functions: list[Callable[[], Any]]) -> list[float]:
    """The least seconds of each function, called in turn; and the least seconds of CPU time."""
    n = len(functions)
    least = np.full(2 * n, np.inf)
    for _ in range(rounds):
        for k, function in enumerate(functions):
            begin = time.perf_counter(), time.process_time()
            function()
            took = time.perf_counter() - begin[0], time.process_time() - begin[1]
            least[[k, n + k]] = np.minimum(least[[k, n + k]], took)
    return least.tolist()


def measure(case: Case, worlds: int, steps: int, threads: int, rounds: int, dtype: Any) -> Row:
    """One robot, from states of a settled run of MuJoCo with some noise."""
    import mujoco
    from mujoco import rollout

    there = mujoco.MjModel.from_xml_path(str(case.path))
    model = kt.load(case.path)
    rng = np.random.default_rng(0)
    data = mujoco.MjData(there)
    mujoco.mj_step(there, data, 200)
    first = np.empty(mujoco.mj_stateSize(there, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(there, data, first, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    states = np.tile(first, (worlds, 1))
    states[:, 1 + there.nq : 1 + there.nq + there.nv] += 0.1 * rng.normal(size=(worlds, there.nv))
    low, high = there.actuator_ctrlrange.T
    free = there.actuator_ctrllimited == 0
    low, high = np.where(free, -1.0, low), np.where(free, 1.0, high)
    ctrl = 0.3 * rng.uniform(low, high, (worlds, steps, there.nu))
    convention = Mujoco(model)
    q = convention.q_here(states[:, 1 : 1 + there.nq])
    qd = convention.v_here(q, states[:, 1 + there.nq : 1 + there.nq + there.nv])
    begin = kt.initial_state(model, q.astype(dtype), qd.astype(dtype))
    own = np.ascontiguousarray(ctrl.swapaxes(0, 1)).astype(dtype)
    kt.set_threads(threads)
    datas = [mujoco.MjData(there) for _ in range(threads)]
    with rollout.Rollout(nthread=threads) as pool:
        found: dict[str, Any] = {}

        def ours() -> None:
            found["ours"] = kt.rollout(model, begin, own, steps=steps, record=("q", "qd"))[1]

        def theirs() -> None:
            found["theirs"] = pool.rollout(there, datas, states, ctrl)[0]

        ours()
        seconds = best(rounds, [ours, theirs])
    after = convention.q_here(found["theirs"][:, COMPARED - 1, 1 : 1 + there.nq])
    error = float(np.abs(after - found["ours"]["q"][COMPARED]).max())
    return Row(case, worlds, *(1e6 * s / (worlds * steps) for s in seconds), error)


def main() -> None:
    """Measure, and print a table with the worst of each group."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="MJCF files of robots in contact")
    parser.add_argument("--worlds", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--out", type=Path, help="file of JSON lines to add to")
    options = parser.parse_args()
    print("| robot | worlds | kinetree, µs a step | mujoco.rollout | times | times by CPU time | difference |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    write = Writer(options.out, "rollouts")
    with tempfile.TemporaryDirectory() as folder:
        chosen = [Case("contact", p.stem, p) for p in options.files] or cases(Path(folder))
        for case in chosen:
            for worlds in options.worlds:
                shape = worlds, options.steps, options.threads, options.rounds
                row = measure(case, *shape, np.dtype(options.dtype))
                rows.append(row)
                write(
                    robot=case.name,
                    group=case.group,
                    worlds=worlds,
                    microseconds=row.ours,
                    mujoco_microseconds=row.theirs,
                    processor_ratio=row.their_cpu / row.our_cpu,
                )
                times = f"{row.ratio:.1f} | {row.their_cpu / row.our_cpu:.1f}"
                numbers = f"{row.ours:.3f} | {row.theirs:.2f} | {times} | {row.error:.0e}"
                print(f"| {case.name} | {worlds} | {numbers} |", flush=True)
    for group, goal in GOALS.items():
        own = [row for row in rows if row.case.group == group]
        if own:
            worst = min(own, key=lambda row: row.ratio)
            print(f"{group}: worst {worst.ratio:.1f} times ({worst.case.name}, {worst.worlds} worlds), goal {goal:g}")


if __name__ == "__main__":
    main()
