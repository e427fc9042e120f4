"""`kinetree.advance`: steps of a whole state, with actuators and their activations, by MuJoCo's integrators or ours."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from kinetree._arrays import dtype_of
from kinetree._types import AnyArray, Array, Float, Number
from kinetree._unknown import require_word
from kinetree._varying import array, custom_jvp, while_loop
from kinetree.constrain.constrained import known_if_huge
from kinetree.constrain.moving import jvp_of_moving, still
from kinetree.dynamics.positive import require_solution
from kinetree.dynamics.schedules.choose import note
from kinetree.dynamics.schedules.whole import use_operands
from kinetree.model import DEFAULT_STEPPING, Model, State, home, require_state
from kinetree.model.arguments import evaluate, evaluate_for, is_traced, require_shapes
from kinetree.model.fork import require_xla
from kinetree.model.required import is_number, require_function, require_model, require_seconds, require_steps, sizes_of

from .bounded_scan import bounded_scan
from .closing import closing
from .constrained import constraints_of, prepared
from .drive import Drive, Shaped
from .forces import Controller
from .integrators import discrete_step, rk4_step, semi_implicit_step
from .mujoco_steps import euler_step, implicit_step, implicitfast_step, runge_kutta_step
from .native import Stepper, at_once, keep_direct, step_solver, stepper_for, way_of_step
from .worlds import advance_worlds

Step = Callable[[Model, State, Drive], State]
STEPPED = "kinetree_stepped"  # the name, for checkpoints, of states that a native step reached

STEPS: dict[str, Step] = {
    "Euler": closing(euler_step),
    "implicitfast": closing(implicitfast_step),
    "implicit": implicit_step,
    "RK4": closing(runge_kutta_step),
    "semi_implicit": closing(semi_implicit_step),
    "rk4": closing(rk4_step),
    "variational": discrete_step,
}


def step_of(model: Model, integrator: str | None) -> str:
    """The name of the integrator: the given one, or the file's."""
    name = (model.stepping or DEFAULT_STEPPING).integrator if integrator is None else integrator
    if isinstance(name, str) and name == "euler":
        name = "Euler"
    require_word("integrator", name, STEPS)
    if name in ("variational", "implicit") and model.loops is not None:
        raise ValueError(f"the integrator {name!r} can not serve a model with rigid loops: choose another")
    if name == "implicit" and model.coupling is not None:
        raise ValueError("the integrator 'implicit' can not serve a model with mimic joints: choose another")
    return name


def _looped(name: str, model: Model, state: State, drive: Drive, count: Any) -> State:
    """Steps in a loop whose length the compiler does not know, so a single step has the same bits as one of many."""
    take = partial(_taken, STEPS[name])

    def body(carry: tuple[Any, State]) -> tuple[Any, State]:
        return carry[0] + 1, take(model, carry[1], drive)

    return while_loop(lambda carry: carry[0] < count, body, (jnp.zeros_like(count), state))[1]


def _taken(take: Step, model: Model, state: State, drive: Drive) -> State:
    """One step. A huge model comes with `drive`."""
    if drive.known is None:
        return take(model, state, drive)
    with use_operands(drive.known.operands):
        return take(drive.known.known.model, state, drive)


_plain = partial(jax.jit, static_argnums=0)(_looped)  # compiled once for any number of steps


@partial(custom_jvp, nondiff_argnums=(0, 1))
def _traced(name: str, steps: int, model: Model, state: State, drive: Drive) -> State:
    """Steps inside `jit`, and for derivatives, which need to know how many steps there are.

    XLA must know no more here than in `_plain`, or it folds numbers of the model in, and rounds otherwise.
    """
    count = jnp.asarray(steps, jnp.int32)
    return _looped(name, *jax.lax.optimization_barrier((model, state, drive, count)))


@partial(_traced.defjvp, symbolic_zeros=True)
def _derivative(name: str, steps: int, primals: Any, tangents: Any) -> Any:
    take = partial(_taken, STEPS[name])
    if steps > 1:  # a step keeps far more than its state, so reverse mode computes it again
        take = jax.checkpoint(take, prevent_cse=False)

    def scanned(model: Model, state: State, drive: Drive) -> State:
        return bounded_scan(lambda s, _: (take(model, s, drive), None), state, None, steps)[0]

    return jvp_of_moving(scanned, primals, tangents)


@partial(custom_jvp, nondiff_argnums=(0, 1))
def _native(name: str, steps: int, stepper: Stepper, model: Model, state: State, drive: Drive) -> State:
    """Steps by native code."""
    return stepper(state, drive.ctrl, drive.f_ext, steps)


@partial(_native.defjvp, symbolic_zeros=True)
def _native_derivative(name: str, steps: int, primals: Any, tangents: Any) -> Any:
    """The derivative of a step, by its native program at the known solution; several go one by one; else XLA's.

    Numbers of the model move the constants of the native program, which are functions of them.
    """
    stepper, model, state, drive = primals
    if model is not None and stepper.may_have_slopes(model):  # worlds that differ, whose numbers do not move
        stepper = stepper.with_slopes(model, drive.h)
        tangents = jax.tree.map(still, stepper), *tangents[1:]
    if not stepper.differentiable:
        return jvp_of_moving(partial(_traced, name, steps), primals[1:], tangents[1:])
    given, moved = (stepper, state, drive), (tangents[0], *tangents[2:])
    if steps != 1:

        def scanned(stepper: Stepper, state: State, drive: Drive) -> State:
            take = checkpointed(lambda stepper, s, drive: _native(name, 1, stepper, model, s, drive))
            return bounded_scan(lambda s, _: (take(stepper, s, drive), None), state, None, steps)[0]

        return jvp_of_moving(scanned, given, moved)
    if stepper.variant.free is None:
        reached = _with_facts(stepper, state, drive)
    else:
        reached = _native(name, 1, *primals), None
    after, facts = checkpoint_name(reached, STEPPED)
    found = after.warm_start, facts

    def smooth(stepper: Stepper, state: State, drive: Drive) -> State:
        return stepper.at_solution(state, drive.ctrl, drive.f_ext, *found)

    return after, jvp_of_moving(smooth, given, moved)[1]


@custom_jvp
def _with_facts(stepper: Stepper, state: State, drive: Drive) -> tuple[State, Any]:
    return stepper.with_facts(state, drive.ctrl, drive.f_ext)


@_with_facts.defjvp
def _refused(*_: Any) -> Any:
    raise NotImplementedError("second derivatives of steps with constraints are not known")


def checkpointed(function: Any) -> Any:
    """A function that reverse mode computes again. Its native steps are not: each keeps just the state it reached."""
    return jax.checkpoint(function, prevent_cse=False, policy=jax.checkpoint_policies.save_only_these_names(STEPPED))


@at_once
def advance(
    model: Model,
    state: State,
    ctrl: Float[AnyArray, "... nu"] | None = None,
    f_ext: Float[AnyArray, "... bodies 6"] | None = None,
    *,
    dt: Number | None = None,
    substeps: int = 1,
    integrator: str | None = None,
) -> State:
    """A state, some steps later, with the controls held. A pure function, for `jit`, `vmap`, `grad` and `scan`.

    Arguments:
        model: the mechanism; its springs, dampers and actuators act. Its arrays may have first axes over worlds that
            differ (see `kinetree.scaled`); those of states and controls are then the same ones, or none.
        state: where it is; from `kinetree.initial_state` or `model.keyframe`.
        ctrl: controls (..., nu) of the actuators; zero if not given.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, moment about the world origin first.
        dt: the length of a step in seconds; the model's `timestep` if not given.
        substeps: how many steps. The result has the bits of as many calls; after none the state is what it was.
        integrator: "Euler", "implicitfast", "implicit" or "RK4", which are MuJoCo's, step by step; or "semi_implicit",
            "rk4" or "variational", which are those of `kinetree.step`. None is the one of the model's file.

    Returns:
        The state after the steps. If it is not finite, NumPy arrays raise a ValueError that says why.
    """
    require_state(state)
    require_model(model)
    name = step_of(model, integrator)
    require_steps("substeps", substeps)
    h = step_length(model, dt)
    given = {
        "q": state.q,
        "qd": state.qd,
        "act": state.act,
        "warm_start": state.warm_start,
        "ctrl": ctrl,
        "f_ext": f_ext,
    }
    if model.batch:
        require_xla()
        after = advance_worlds(advance, model, state, ctrl, f_ext, dt, substeps, name)
        require_solution(model, "advance", after.qd, **given)
        return after
    if ctrl is None:
        ctrl = np.zeros(model.nu, dtype_of(state.q))

    def compute(q: Any, qd: Any, act: Any, time: Any, warm_start: Any, ctrl: Any, f_ext: Any) -> State:
        now = State(q, qd, act, time, warm_start)
        note("advance", way_of_step(model, name, q.dtype))
        traced = is_traced(model, now, ctrl, f_ext, h)
        stepper = stepper_for(model, name, q.dtype, h, f_ext is not None, slopes=traced)
        if stepper is not None and not traced:
            keep_direct(model, stepper, (dt, int(substeps), integrator), q)
            return stepper(now, ctrl, f_ext, int(substeps))
        found = constraints_of(model)
        full = prepared(model, found)
        length = h if isinstance(h, jax.Array) else np.asarray(h)
        whole = stepper is not None and stepper.differentiable
        solver = None if whole or found is None else step_solver(model, q.dtype, h, f_ext is not None)
        known = known_if_huge(full, q.dtype)
        drive = Drive(ctrl, f_ext, length.astype(q.dtype), solver=solver, constraints=found, known=known)
        full = full if known is None else None
        if not traced:
            return _plain(name, full, now, drive, np.int32(substeps))
        now, drive = jax.tree.map(array, (now, drive))
        if stepper is not None:
            return _native(name, int(substeps), stepper, full, now, drive)
        return _traced(name, int(substeps), full, now, drive)

    after = evaluate_for(model, compute, **state.arrays, ctrl=ctrl, f_ext=f_ext)
    require_solution(model, "advance", after.qd, **given)
    return after


def step_length(model: Model, dt: Any) -> Any:
    """The given length of a step, or the file's; checked unless it is being traced."""
    if dt is None:
        return model.timestep
    require_seconds("dt", dt)
    return dt


def step(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    dt: Number,
    controller: Controller | None = None,
    *,
    t: Number = 0.0,
    integrator: str = "semi_implicit",
) -> tuple[Float[Array, "... nq"], Float[Array, "... nv"]]:
    """One step in time, as a pure function: for loops of your own under `jit`, `vmap` and `grad`.

    Arguments:
        model: the mechanism; its contact, limits and dry friction act (`model.without_constraints` switches them off),
            and its actuators, with controls and activations at zero. `kinetree.advance` is the step of whole states.
        q: configurations, (..., nq).
        qd: velocities, (..., nv).
        dt: the step.
        controller: (t, q, qd) -> tau, or None.
        t: time at the start of the step.
        integrator: "semi_implicit", "rk4" or "variational", or one of `advance`'s.

    Returns:
        q, qd after the step.
    """
    require_model(model)
    name = step_of(model, integrator)
    if not (is_number(dt) and (is_traced(dt) or math.isfinite(dt))):
        raise ValueError(f"dt must be a number of seconds, not {dt!r}")
    if not is_number(t):
        raise ValueError(f"t must be a number of seconds, not {t!r}")
    if controller is None and (is_traced(dt) or dt > 0):
        require_shapes(model, q=q, qd=qd)
        act, time, warm_start = (np.zeros(shape, dtype_of(q)) for shape in (model.na, (), model.nv))
        now: Any = advance(model, State(q, qd, act, time, warm_start), dt=dt, integrator=name)
        return now.q, now.qd
    if controller is not None:
        require_function("controller", controller, "(t, q, qd)")
    require_xla()
    found = constraints_of(model)
    original, model = model, prepared(model, found)

    def compute(q: Any, qd: Any) -> tuple[Any, Any]:
        q, qd = jnp.asarray(q), jnp.asarray(qd)
        h, start = jnp.asarray(dt, q.dtype), jnp.asarray(t, q.dtype)
        nothing = jnp.zeros((len(q), model.na), q.dtype), jnp.zeros(len(q), q.dtype), jnp.zeros_like(qd)
        ctrl = jnp.zeros((len(q), model.nu), q.dtype)
        shaped = None if controller is None else Shaped(controller, np.broadcast_shapes(*axes()))
        solver = None if found is None else step_solver(original, q.dtype, dt, False)
        after = STEPS[name](model, State(q, qd, *nothing), Drive(ctrl, None, h, start, solver, found, shaped))
        return after.q, after.qd

    def axes() -> tuple[tuple[int, ...], ...]:
        return np.shape(q)[:-1], np.shape(qd)[:-1]

    after = evaluate_for(model, compute, q=q, qd=qd)
    require_solution(original, "step", after[1], q=q, qd=qd)
    return after


def initial_state(
    model: Model,
    q: Float[AnyArray, "... nq"] | None = None,
    qd: Float[AnyArray, "... nv"] | None = None,
    *,
    batch: int | tuple[int, ...] = (),
    keyframe: str | int | None = None,
) -> State:
    """A state to start from.

    Arguments:
        model: the mechanism.
        q: configurations (..., nq). If not given, those of the keyframe; without one, where the file puts its bodies
            (MuJoCo's qpos0), or the neutral configuration.
        qd: velocities (..., nv); those of the keyframe, or zero, if not given.
        batch: leading axes of the state; q and qd are broadcast to them.
        keyframe: name or number of a keyframe of the file, for all that is not given.

    Returns:
        A state of NumPy arrays, or of JAX arrays where q or qd is one.
    """
    require_model(model)
    axes = sizes_of(batch)
    if keyframe is not None:
        base = model.keyframe(keyframe)
    else:
        base = State(home(model), np.zeros(model.nv), np.zeros(model.na), np.zeros(()), np.zeros(model.nv))
    own = next((x for x in (q, qd) if isinstance(x, jax.Array | np.ndarray)), None)
    dtype = own.dtype if own is not None and jnp.issubdtype(own.dtype, jnp.floating) else np.dtype(float)

    def compute(q: Any, qd: Any, act: Any, time: Any, warm_start: Any, _: Any) -> State:
        return State(q, qd, act, time, warm_start)

    def filled(x: Any) -> Any:
        return np.asarray(x, dtype)

    return evaluate(
        compute,
        q=(filled(base.q) if q is None else q, (model.nq,)),
        qd=(filled(base.qd) if qd is None else qd, (model.nv,)),
        act=(filled(base.act), (model.na,)),
        time=(filled(base.time), ()),
        warm_start=(filled(base.warm_start), (model.nv,)),
        batch=(np.zeros(axes, dtype), ()),
    )
