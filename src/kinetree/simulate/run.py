"""`kinetree.simulate`: many steps in one compiled loop, called for stretches of about half a second.

Between stretches the host copies records, draws the progress bar, and writes checkpoints. Inside a stretch the cost of
a step is that of its forward dynamics. The loop gets the number of steps at run time, so one compilation serves every
stretch, and the result does not depend on how the run was cut.
"""

import dataclasses
import math
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kinetree._arrays import in_bits_of
from kinetree._types import AnyArray, Float
from kinetree.dynamics.positive import require_solution
from kinetree.model import Model, State, integrate
from kinetree.model.arguments import evaluate_for, is_traced
from kinetree.model.fork import require_xla
from kinetree.model.memory import require_memory
from kinetree.model.required import (
    is_number,
    is_whole,
    require_flag,
    require_function,
    require_model,
    require_path,
    require_seconds,
)

from .advance import STEPS, step_of
from .checkpoint import Checkpoint, Progress, fingerprint
from .constrained import constraints_of, prepared
from .drive import Drive, Shaped
from .errors import Failure, explain_failure
from .forces import HAS_STATE, Controller, control_force
from .native import step_solver
from .progress import ProgressBar
from .shares import Share, file_of, standing, tidy, worlds_of
from .trajectory import Trajectory

SEGMENT_SECONDS = 0.5  # seconds of wall time of a stretch
WORKING = 8  # states, with forces, that a step needs as working memory, for its stages and algorithms
BUFFER = 2**24  # the most numbers in the records of one stretch
FEW_RECORDS, FEW_NUMBERS = 1024, 2**16  # up to these sizes all runs of a mechanism share one program
TRACED = "simulate runs on the host, and not under jit, vmap or grad: use kt.rollout, or kt.step with jax.lax.scan"


class Segment(NamedTuple):
    """The result of a call of the loop."""

    steps: Any  # steps made; fewer than requested if a state was not finite
    state: State
    next_q: Any  # the state that was not finite, else the same again
    next_qd: Any
    records: dict[str, Any]  # the first are those of this stretch


@partial(jax.jit, static_argnames=("integrator", "size"))
def _advance(
    model: Model, state: State, drive: Drive, first: Any, count: Any, every: Any, *, integrator: str, size: int
) -> Segment:
    """Steps first to first + count. State k is recorded if k is a multiple of `every`: number k/every of the run."""
    take, dt = STEPS[integrator], drive.h

    def at(k: Any) -> Any:
        return jnp.asarray(k, dt.dtype) * dt

    def going(carry: Any) -> Any:
        k, _, _, finite = carry
        return (k < first + count) & finite

    def one(carry: Any) -> Any:
        k, (_, now), records, _ = carry
        after = take(model, now, dataclasses.replace(drive, time=at(k)))
        slot = k // every - first // every  # overwritten until k + 1 is a multiple
        new = after.q, after.qd
        records = jax.tree.map(lambda a, x: jax.lax.dynamic_update_index_in_dim(a, x, slot, 0), records, new)
        finite = jnp.isfinite(after.q).all() & jnp.isfinite(after.qd).all()
        return k + 1, (now, after), records, finite

    empty = tuple(jnp.zeros((size, *x.shape), x.dtype) for x in (state.q, state.qd))
    start = first, (state, state), empty, jnp.asarray(True)
    k, (before, after), records, finite = jax.lax.while_loop(going, one, start)
    made = jnp.where(finite, k, k - 1) - first
    here = jax.tree.map(partial(jnp.where, finite), after, before)
    new = (first + made) // every - first // every

    def control(slot: Any, taus: Any) -> Any:
        time = at((first // every + 1 + slot) * every)
        return taus.at[slot].set(control_force(drive.controller, time, records[0][slot], records[1][slot]))

    taus = jnp.zeros_like(records[1])
    if drive.controller is not None:
        taus = jax.lax.fori_loop(jnp.zeros_like(new), new, control, taus)
    return Segment(made, here, after.q, after.qd, {"q": records[0], "qd": records[1], "tau": taus})


def simulate(
    model: Model,
    q: Float[AnyArray, "... nq"],
    qd: Float[AnyArray, "... nv"],
    controller: Controller | None = None,
    *,
    dt: float,
    steps: int,
    integrator: str = "semi_implicit",
    ctrl: Float[AnyArray, "... nu"] | None = None,
    record: int = 1,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    share: Share | None = None,
    devices: Sequence[jax.Device] | None = None,  # pyright: ignore[reportInvalidTypeForm]
) -> Trajectory:
    """Let a mechanism move.

    Arguments:
        model: the mechanism. Its springs, dampers, actuators, and its contact, limits and dry friction act;
            `model.without_constraints` and `model.without_actuators` switch them off.
        q: where it starts, (..., nq); leading axes are batches and broadcast.
        qd: how fast, (..., nv).
        controller: a function (t, q, qd) -> tau that JAX can trace, called with all states of the batch at once; see
            `kinetree.controllers` for ready-made ones. None leaves the joints free.
        dt: the step, in seconds.
        steps: how many.
        integrator: "semi_implicit" (first order, cheap, stable with dampers), "rk4" (fourth order, accurate) or
            "variational" (second order, implicit, symplectic: for long runs and stiff springs; constraints do not act,
            dry friction is smooth), or one of those of `advance`.
        ctrl: controls (..., nu) of the actuators, held; zero if not given.
        record: keep every so many-th state; `steps` must be a multiple. The first state is always kept.
        progress: show a progress bar; None shows one on a terminal when a run takes long.
        checkpoint: a file to write the state of the run to now and then. If it exists, the run continues from it, and
            ends with the same bits as one that was never cut.
        checkpoint_seconds: how long to wait between checkpoints.
        share: for runs by several processes, each of which is given the start of all worlds: (number, processes), or
            "process" for this one among those of `jax.distributed`. It computes, and returns, its part of the first
            batch axis. Its checkpoints have the worlds in their names; any number of processes may continue them.
        devices: JAX devices of this process to divide the batch over; their number must divide it.

    Returns:
        Times, states and controller forces, as NumPy arrays in the dtype of the start.

    Raises SimulationError, naming time and joint and what is likely wrong, when a state is not finite.
    """
    require_model(model)
    if is_traced(model, q, qd, dt):
        raise TypeError(TRACED)
    require_seconds("dt", dt)
    if not (is_number(checkpoint_seconds) and checkpoint_seconds >= 0):
        raise ValueError(f"checkpoint_seconds must be a number of seconds, not {checkpoint_seconds!r}")
    if controller is not None:
        require_function("controller", controller, "(t, q, qd)")
    if not (is_whole(steps) and is_whole(record)) or steps < 0 or record < 1 or steps % record:
        raise ValueError(f"steps must be a multiple of record, which is at least 1: steps={steps}, record={record}")
    steps, record = int(steps), int(record)  # small numbers of NumPy overflow
    if checkpoint is not None:
        require_path("checkpoint", checkpoint)
    if progress is not None:
        require_flag("progress", progress)
    name = step_of(model, integrator)
    require_xla()
    given = {"q": q, "qd": qd} | ({} if ctrl is None else {"ctrl": ctrl})
    start = evaluate_for(model, lambda *x: x, **given)
    q, qd, *controls = map(np.asarray, start)
    count, records = q.size // max(1, q.shape[-1]), steps // record + 1
    require_memory(
        (q.nbytes + 2 * qd.nbytes) * (WORKING + 3 * records),  # a stretch has room for twice as many; see _buffer
        f"a run of {count:,} states with {records:,} records of each",
        "use a smaller batch, or record fewer states",
    )
    with in_bits_of(q.dtype):
        unit = np.asarray(integrate(model, q, np.zeros_like(qd), 1.0))  # quaternions of unit length
        finite = np.concatenate([unit, qd, *controls], -1)
        require_solution(model, "simulate", finite, **dict(zip(given, (q, qd, *controls), strict=True)))
        q = unit
        found = constraints_of(model)
        original, model = model, prepared(model, found)
        u = controls[0] if controls else np.zeros((*q.shape[:-1], model.nu), q.dtype)
        # the compiled loop is kept for a controller, so it has to be hashable: a dataclass often is not
        held = controller if controller is None or controller.__hash__ else partial(controller)
        solver = None if found is None or name == "variational" else step_solver(original, q.dtype, float(dt), False)

        def run(q: Any, qd: Any, u: Any) -> _Run:
            batch = q.shape[:-1]
            many = math.prod(batch)
            flat = [x.reshape(many, x.shape[-1]) for x in (q, qd, u)]
            state = State(
                flat[0], flat[1], np.zeros((many, model.na), q.dtype), np.zeros(many, q.dtype), np.zeros_like(flat[1])
            )
            shaped = None if held is None else Shaped(held, batch)
            drive = Drive(flat[2], None, np.asarray(dt, q.dtype), np.zeros((), q.dtype), solver, found, shaped)
            return _Run(model, state, drive, name, float(dt), int(record), batch, devices)

        known = None
        if checkpoint is not None:
            start = q, qd, u.reshape(math.prod(u.shape[:-1]), u.shape[-1])
            known = fingerprint(model, *start, float(dt), int(record), name, controller)
        if share is None:
            file = None if checkpoint is None else Checkpoint(checkpoint, known, checkpoint_seconds)  # type: ignore[arg-type]
            return _finish(run(q, qd, u), int(steps), progress, file)
        if q.ndim < 2:
            raise ValueError("share divides the first batch axis, and this is a single state")
        mine = worlds_of(share, len(q))
        pieces = [mine] if checkpoint is None else standing(checkpoint, known, mine)
        runs = []
        for piece in pieces:
            file = None
            if checkpoint is not None:
                file = Checkpoint(file_of(checkpoint, piece), known, checkpoint_seconds)  # type: ignore[arg-type]
            part = run(*(x[piece.first : piece.last] for x in (q, qd, u)))
            runs.append(_finish(part, int(steps), progress, file, piece.progress))
            if checkpoint is not None:
                tidy(checkpoint, piece)
        return Trajectory.join(runs)


class _Run(NamedTuple):
    """A run, as it begins."""

    model: Model
    state: State
    drive: Drive
    integrator: str
    dt: float
    every: int
    batch: tuple[int, ...]
    devices: Sequence[Any] | None = None

    @property
    def controller(self) -> Controller | None:
        """The controller, as it was given."""
        return None if self.drive.controller is None else self.drive.controller.controller  # type: ignore[attr-defined]

    def shaped(self, x: Any) -> np.ndarray:
        """States in one row, with their batch axes again."""
        return np.asarray(x).reshape(*self.batch, x.shape[-1])


def _finish(
    begun: _Run, steps: int, wanted: bool | None, file: Checkpoint | None, so_far: Progress | None = None
) -> Trajectory:
    """The whole run. It continues from `so_far`, else from the checkpoint file."""
    model, state, dt, every = begun.model, begun.state, begun.dt, begun.every
    q, qd = np.asarray(state.q), np.asarray(state.qd)
    size = _buffer(steps // every, q.size + 2 * qd.size)
    tau = control_force(begun.drive.controller, np.asarray(0.0, q.dtype), q, qd)
    if isinstance(tau, Tracer):
        raise TypeError(TRACED)
    tau = np.asarray(tau)
    run = Progress(0, state, {"q": [q[None]], "qd": [qd[None]], "tau": [tau[None]]})
    if so_far is not None or file is not None:
        run = so_far or (file.read() if file else None) or run
    records = run.records
    state, made, length = _placed(begun, run.state), run.steps, 1
    with ProgressBar(steps, wanted) as bar:
        while made < steps:
            count = min(length, steps - made, (size - 1) * every)
            began = time.monotonic()
            clock = np.asarray(made), count, np.asarray(every)
            try:
                done = _advance(model, state, begun.drive, *clock, integrator=begun.integrator, size=size)
            except jax.errors.UnexpectedTracerError:
                raise TypeError(HAS_STATE) from None
            stretch = int(done.steps)  # waits for the result
            new = (made + stretch) // every - made // every
            for name, parts in records.items():
                parts.append(np.array(np.asarray(done.records[name])[:new]))  # JAX would compile for each length
            if stretch < count:
                bad = map(begun.shaped, (done.state.q, done.state.qd, done.next_q, done.next_qd))
                last = Failure((made + stretch) * dt, *bad)
                error = explain_failure(model, begun.controller, dt, begun.integrator, last)
                error.trajectory = _trajectory(begun, records)
                raise error
            state, made = done.state, made + stretch
            length = _next_length(length, time.monotonic() - began)
            bar.update(made, made * dt)
            if file is not None and (file.due() or made == steps):
                file.write(Progress(made, jax.tree.map(np.asarray, state), records))
    return _trajectory(begun, records)[: steps // every + 1]


def _buffer(records: int, numbers: int) -> int:
    """The size of the buffer of a stretch. There are few sizes, as each size is a program to compile."""
    most = max(1, BUFFER // max(1, numbers))
    few = min(FEW_RECORDS, FEW_NUMBERS // max(1, numbers))
    return min(most, max(few, 1 << max(0, records - 1).bit_length())) + 1


def _placed(begun: _Run, state: State) -> State:
    """A state divided over the given devices."""
    if begun.devices is None:
        return jax.tree.map(jnp.asarray, state)
    many = len(state.q)
    if not isinstance(begun.devices, Sequence) or not all(isinstance(d, jax.Device) for d in begun.devices):
        raise TypeError(f"devices must be JAX devices, such as jax.devices(), not {begun.devices!r}")
    count = len(begun.devices)
    if not count or many % count:
        raise ValueError(f"a batch of {many} can not be divided over {count} devices: make it a multiple of {count}")
    mesh = jax.sharding.Mesh(np.array(begun.devices), ("worlds",))
    divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("worlds"))
    return jax.device_put(state, divided)


def _next_length(length: int, took: float) -> int:
    """Steps for the next stretch, from the time of this one; the first one may include a compilation."""
    return int(max(1, min(10 * length, length * SEGMENT_SECONDS / max(took, 1e-6))))


def _trajectory(begun: _Run, records: dict[str, list[np.ndarray]]) -> Trajectory:
    q, qd, tau = (np.concatenate(records[name]) for name in ("q", "qd", "tau"))
    q, qd, tau = (x.reshape(len(x), *begun.batch, x.shape[-1]) for x in (q, qd, tau))
    return Trajectory(np.arange(len(q)) * begun.every * begun.dt, q, qd, tau)
