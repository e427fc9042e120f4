"""`kinetree simulate`, `id` and `fd`."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import kinetree as kt
from kinetree._unknown import unknown
from kinetree.cli import many
from kinetree.cli.source import load, require_positive, require_same_robot
from kinetree.simulate.constrained import acting
from kinetree.simulate.shares import worlds_of
from kinetree.simulate.trajectory import check_target, read_arrays, write_arrays

HOLD = 10.0  # natural frequency of the controller `hold`, rad/s


class SimulateOptions(NamedTuple):
    """Options of `simulate`. Those whose default depends on the model are None until they are `completed`."""

    time: float
    dt: float
    integrator: str
    batch: int
    start: str
    seed: int
    controller: str
    rate: float
    free: bool = False
    ground: bool = False

    def completed(self, model: kt.Model) -> "SimulateOptions":
        """With the step, integrator and start of an MJCF file, or those for other models, where none were given."""
        own = model.stepping
        dt, integrator, start = (
            (1e-3, "semi_implicit", "random") if own is None else (float(own.timestep), own.integrator, "file")
        )
        return self._replace(
            dt=dt if self.dt is None else self.dt,
            integrator=self.integrator or integrator,
            start=self.start or start,
        )


UNITS = {"seconds": "s", "largest_speed": "rad/s or m/s", "energy_change": "of the largest energy"}


def tell(facts: dict[str, Any], as_json: bool) -> None:
    """Facts as one JSON object, or as a table for people."""
    if as_json:
        print(json.dumps(facts))
        return
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(f"[bold]{name.replace('_', ' ')}[/]", f"{shown} {UNITS.get(name, '')}".rstrip())
    Console().print(table)


def _controller(model: kt.Model, name: str, q: Any) -> Any:
    if name == "none":
        return None
    gravity = kt.controllers.gravity_compensation(model)
    if name == "gravity":
        return gravity
    if name != "hold":
        raise ValueError(unknown("controller", name, ("none", "gravity", "hold")))

    def reference(t: Any) -> tuple[Any, Any, Any]:
        still = np.zeros((*q.shape[:-1], model.nv))
        return q, still, still

    return kt.controllers.computed_torque(model, reference, HOLD**2, 2 * HOLD)


def _check(choice: SimulateOptions) -> None:
    for option in ("time", "dt", "rate", "batch"):
        require_positive(option, getattr(choice, option))
    if choice.seed < 0:
        raise ValueError(f"--seed must not be negative: {choice.seed}")
    if choice.time < choice.dt:
        raise ValueError(f"--time {choice.time:g} is shorter than a step, --dt {choice.dt:g}")


def _onto_floor(model: kt.Model, q: Any) -> Any:
    """Configurations lifted so far that no shape starts inside the floor. Only a free first joint can be lifted."""
    structure = model.structure
    if not structure.joints[structure.joint_code[0]].position:
        return q
    found = kt.contacts(model, q)
    with_world = found.active & (found.bodies < 0).any(-1)
    q = np.array(q)
    q[..., 2] += np.max(np.where(with_world, found.depth, 0.0), -1, initial=0.0)
    return q


def _steps(choice: SimulateOptions) -> tuple[int, int]:
    """How many steps, a whole number of records, and how many to a record."""
    steps = round(choice.time / choice.dt)
    record = min(steps, max(1, round(1 / (choice.rate * choice.dt))))
    return round(steps / record) * record, record


def _words(name: str, floating_base: bool, choice: SimulateOptions, out: Path, checkpoint: Path | None) -> list[str]:
    """The command line of a run."""
    options = {k: v for k, v in choice._asdict().items() if not isinstance(v, bool)} | {"out": out}
    options |= {} if checkpoint is None else {"checkpoint": checkpoint}
    flags = {"--free": choice.free, "--ground": choice.ground, "--floating-base": floating_base}
    given = [word for k, v in options.items() for word in (f"--{k}", str(v))]
    return ["simulate", name, *given, "--json", *(flag for flag, wanted in flags.items() if wanted)]


def simulate(
    name: str,
    floating_base: bool,
    choice: SimulateOptions,
    out: Path,
    checkpoint: Path | None,
    as_json: bool,
    place: many.RunPlace = many.HERE,
) -> None:
    """Run, save, and say how it went."""
    devices, share = many.devices_of(place.devices), many.share_of(place.share)
    model = load(name, floating_base, simulated=True, ground=choice.ground)
    choice = choice.completed(model)
    model = model.without_constraints if choice.free else model
    _check(choice)
    for target in (out, checkpoint):  # before the run, which may be long
        if target is not None:
            check_target(target)
    batch = () if choice.batch == 1 else (choice.batch,)
    if choice.start == "random":
        q, qd = kt.random_state(model, choice.seed, batch, within_limits=True)
    elif choice.start == "neutral":
        q, qd = np.broadcast_to(kt.neutral(model), (*batch, model.nq)), np.zeros((*batch, model.nv))
    elif choice.start == "file":
        begin = kt.initial_state(model, batch=batch)
        q, qd = begin.q, begin.qd
    else:
        raise ValueError(unknown("start", choice.start, ("random", "neutral", "file")))
    q = q if choice.start == "file" else _onto_floor(model, q)
    steps, record = _steps(choice)
    if place.processes < 1:
        raise ValueError(f"--processes must be at least 1, not {place.processes}")
    if place.processes > 1:
        if share is not None:
            raise ValueError("--processes starts the processes itself: leave --share out")
        words = _words(name, floating_base, choice, out, checkpoint)
        words += [] if place.devices is None else ["--devices", place.devices]
        many.by_processes(place.processes, words, out)
        run = kt.Trajectory.load(out)
    else:
        mine = slice(None) if share is None else slice(*worlds_of(share, choice.batch)[:2])
        control = _controller(model, choice.controller, q[mine] if batch else q)
        settings = {"integrator": choice.integrator, "record": record, "checkpoint": checkpoint}
        settings |= {"share": share, "devices": devices}
        run = kt.simulate(model, q, qd, control, dt=choice.dt, steps=steps, **settings)
        out = out if share is None else many.part_of(out, share)
        run.save(out)
    energy = kt.kinetic_energy(model, run.q, run.qd) + kt.potential_energy(model, run.q)
    scale = np.maximum(np.abs(energy[0]), kt.kinetic_energy(model, run.q, run.qd).max(0))
    facts = {
        "model": name,
        "bodies": model.n_bodies,
        "degrees_of_freedom": model.nv,
        "seconds": float(run.time[-1]),
        "steps": steps,
        "states": math.prod(run.batch),
        "records": len(run),
        "acting": acting(model, choice.integrator),
        "largest_speed": float(np.abs(run.qd).max(initial=0)),
        "energy_change": float((np.abs(energy - energy[0]) / np.where(scale > 0, scale, 1)).max()),
        "saved": str(out),
    }
    tell(facts, as_json)


def _computed(
    name: str, trajectory: Path, out: Path, result: str, as_json: bool, compute: Callable[[dict, dict], Any]
) -> None:
    """Read, compute, write the same arrays with the result among them, and say how large it is."""
    check_target(out)
    arrays, facts = read_arrays(trajectory), {"model": name}
    with Console(stderr=True).status("computing, after a compilation the first time"):  # seen on a terminal
        value = np.asarray(compute(arrays, facts))
    if not np.isfinite(value).all():
        raise ValueError(f"{result} is not finite everywhere: look for nan or inf in {trajectory}")
    write_arrays(out, {**arrays, result: value})
    size = {"states": int(np.prod(value.shape[:-1])), f"largest_{result}": float(np.abs(value).max(initial=0))}
    tell({**facts, **size, "saved": str(out)}, as_json)


def _need(arrays: dict, *names: str) -> list:
    missing = [n for n in names if n not in arrays]
    if missing:
        raise ValueError(f"the trajectory has no {', '.join(missing)}")
    return [arrays[n] for n in names]


def _slope(qd: np.ndarray, times: np.ndarray) -> np.ndarray:
    if len(times) < 2:
        raise ValueError("without qdd, a trajectory needs two states at least")
    if np.shape(times) != np.shape(qd)[:1]:
        raise ValueError(f"time has shape {np.shape(times)}, qd {np.shape(qd)}: they need as many rows")
    if not (np.diff(times) > 0).all():
        raise ValueError("without qdd, the trajectory's time must increase")
    return np.gradient(qd, times, axis=0)


def inverse(name: str, floating_base: bool, trajectory: Path, out: Path, as_json: bool) -> None:
    """tau of a trajectory."""
    model = load(name, floating_base)

    def compute(arrays: dict, facts: dict) -> Any:
        q, qd = _need(arrays, "q", "qd")
        require_same_robot(trajectory, model, q, qd)
        qdd = arrays.get("qdd")
        facts["qdd"] = "from the trajectory"
        if qdd is None:
            (times,) = _need(arrays, "time")
            qdd = _slope(qd, times)
            facts["qdd"] = f"slope of qd over records {np.diff(times).max():.3g} s apart"
        return kt.inverse_dynamics(model, q, qd, qdd)

    _computed(name, trajectory, out, "tau", as_json, compute)


def forward(name: str, floating_base: bool, trajectory: Path, out: Path, method: str, as_json: bool) -> None:
    """qdd of a trajectory."""
    model = load(name, floating_base)

    def compute(arrays: dict, facts: dict) -> Any:
        q, qd, tau = _need(arrays, "q", "qd", "tau")
        require_same_robot(trajectory, model, q, qd)
        return kt.forward_dynamics(model, q, qd, tau, method=method)

    _computed(name, trajectory, out, "qdd", as_json, compute)
