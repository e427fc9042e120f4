"""`kinetree.rollout`: many control steps in one program, with a policy between them.

A rollout is a loop over `advance`. It has the bits of that loop written in Python, and derivatives in both modes, by
states, controls, parameters of the policy and numbers of the model.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import as_array
from kinetree._types import AnyArray, Bool, Float, Number, Pytree
from kinetree._unknown import require_word
from kinetree.dynamics.schedules.choose import note
from kinetree.model import Model, State, require_state
from kinetree.model.arguments import in_type, is_traced, require_shapes, result_dtype, without_actuators
from kinetree.model.fork import require_xla
from kinetree.model.required import is_random_key, require_function, require_model, require_steps
from kinetree.model.state import STATE_AXES

from .advance import advance, checkpointed, step_length, step_of
from .at_once import at_once
from .bounded_scan import bounded_scan
from .constrained import constraints_of, prepared, with_constraints
from .few_steps import few_steps
from .native import BoundPrograms, bound_to, bound_to_worlds, keep_direct, way_of_rollout, with_bound
from .worlds import constraints_of_worlds, prepared_worlds

Policy = Callable[
    [Pytree, State, jax.Array], tuple[Pytree, Float[AnyArray, "... nu"]]
]  # (carry, state, key) -> (carry, ctrl)
RECORDS = ("q", "qd", "act", "time", "warm_start", "ctrl", "done")
UNTRACEABLE = (
    "the policy can not be traced by JAX: use jax.numpy in place of numpy and math, and jnp.where in place of `if`, "
    "or loop over kt.advance in Python. JAX says: "
)


class _Fixed(NamedTuple):
    """What a rollout is compiled for."""

    integrator: str
    steps: int
    substeps: int
    constraints: Any
    record: Any  # a function, names, or None
    form: Any  # of the pytree of policy, f_ext, done, reset
    functions: tuple[Any, ...]  # its leaves that are not arrays, None if there are arrays


class _Parts(NamedTuple):
    """What drives a rollout: each a function, an array or None."""

    policy: Any
    f_ext: Any
    done: Any
    reset: Any


class _Given(NamedTuple):
    """The arrays of a rollout."""

    model: Model
    state: State
    carry: Any
    key: Any
    dt: Any
    arrays: tuple[Any, ...]  # leaves of the parts that are arrays, None if there are functions
    bound: BoundPrograms  # native programs, bound to the numbers of the model


def rollout(
    model: Model,
    state: State,
    policy: Policy | Float[AnyArray, "steps ... nu"] | None = None,
    *,
    steps: int,
    substeps: int = 1,
    record: Callable[[State, Float[AnyArray, "... nu"]], Pytree] | str | Sequence[str] | None = None,
    key: jax.Array | None = None,
    carry: Pytree = None,
    f_ext: Float[AnyArray, "... bodies 6"] | Callable[[State], Float[AnyArray, "... bodies 6"]] | None = None,
    dt: Number | None = None,
    integrator: str | None = None,
    done: Callable[[State], Bool[AnyArray, "..."]] | None = None,
    reset: State | Callable[[State, jax.Array | None], State] | None = None,
    return_carry: bool = False,
) -> Any:
    """Let a mechanism move under a policy. A pure function, for `jit`, `vmap`, `grad` and `scan`.

    Each of the `steps` control steps is: the policy looks at the state and chooses controls; the pair is recorded;
    `advance` makes `substeps` steps with the controls held; worlds that are `done` start again. The result has the bits
    of that loop in Python. Reverse mode keeps about 2 √steps states.

    Arguments:
        model: the mechanism.
        state: where it starts; from `kinetree.initial_state`, `model.keyframe` or an earlier rollout.
        policy: a function (carry, state, key) -> (carry, ctrl) that JAX can trace, called with all states of the batch
            at once; or controls (steps, ..., nu); or None for controls at zero. A policy may be a pytree, such as
            `jax.tree_util.Partial(function, parameters)`: its arrays are then arguments of the compiled loop. For
            anything else that is callable, one compiled loop is kept for each object.
        steps: how many control steps.
        substeps: steps of the model's time step to a control step.
        record: what to keep of every control step: a function of the state that the policy saw and the controls that it
            chose, or names out of "q", "qd", "act", "time", "warm_start", "ctrl" and "done" (whether the world was done
            after the step).
        key: for policies with chance: in step t, `jax.random.split(jax.random.fold_in(key, t))` are the keys of policy
            and reset. None gives them None.
        carry: the memory that the policy starts with, any pytree. If not given it is `policy.init(state)` where the
            policy has that function, else None.
        f_ext: (..., n_bodies, 6) forces on the bodies, held; or a function of the state that gives them at the start of
            each control step.
        dt, integrator: as in `advance`.
        done: a function of the state: which worlds are over, (...,). They start again at the end of the control step.
        reset: where they start again: a state, or a function (state, key) -> state. If not given, it is where the
            rollout began. Where the policy has `init`, its memory starts again too: those arrays whose first axes are
            the batch's.
        return_carry: return the policy's memory too, for a rollout that goes on from here.

    Returns:
        The state after the steps; what was recorded, with a first axis of `steps`: a dictionary where names were given,
        None if nothing was asked for; and the policy's memory, if asked for. NumPy arrays if the state is of NumPy
        arrays.
    """
    require_model(model)
    require_state(state)
    name = step_of(model, integrator)
    for what, count in (("steps", steps), ("substeps", substeps)):
        require_steps(what, count)
    h = step_length(model, dt)
    if done is not None:
        require_function("done", done, "a state")
    if reset is not None and not callable(reset):
        require_state(reset, "reset")
    if key is not None and not is_random_key(key):
        raise TypeError(f"key must be one JAX random key, such as jax.random.key(0), not a {type(key).__name__}")
    require_shapes(model, **state.arrays, **({} if f_ext is None or callable(f_ext) else {"f_ext": f_ext}))
    plain = (
        done is None and reset is None and carry is None and not (callable(policy) or callable(f_ext) or model.batch)
    )
    settings = {"dt": dt, "substeps": substeps, "integrator": integrator}
    if plain and not callable(record) and type(state.q) is np.ndarray:
        controls = None if policy is None else _controls(model, policy, steps)
        short = few_steps(model, state, controls, f_ext, steps, settings, _recorded(record))
        if short is not None:
            note("rollout", way_of_rollout(model, name, state.q.dtype))
            return (*short, None) if return_carry else short
    require_xla()
    original, found = model, (constraints_of_worlds if model.batch else constraints_of)(model)
    model = (prepared_worlds if model.batch else prepared)(model, found)
    pushed = f_ext if f_ext is None or callable(f_ext) or isinstance(f_ext, jax.Array) else np.asarray(f_ext)
    parts = _Parts(_controls(model, policy, steps), pushed, done, reset)
    leaves, form = jax.tree.flatten(parts)
    known = [_is_array(x) for x in leaves]
    functions = tuple(None if k else _hashable(x) for x, k in zip(leaves, known, strict=True))
    arrays = tuple(x if k else None for x, k in zip(leaves, known, strict=True))
    plain = jax.tree.leaves((state, [x for x in (parts.policy, pushed) if not callable(x)]))
    dtype, from_numpy = result_dtype(plain), not any(isinstance(x, jax.Array) for x in plain)
    fixed = _Fixed(name, int(steps), int(substeps), found, _recorded(record), form, functions)

    def compute(dtype: Any) -> tuple[State, Any, Any]:
        bind = bound_to_worlds if original.batch else bound_to
        bound = bind(original, name, dtype, h, f_ext is not None)
        begin = getattr(policy, "init", None) if carry is None else None
        memory = carry if begin is None else begin(state)
        plainly = done is None and reset is None and not callable(fixed.record) and not callable(pushed)
        if plainly and bound.stepper is not None and not model.batch and not callable(policy):
            known = at_once(
                bound.stepper, state, parts.policy, pushed, fixed.steps, fixed.substeps, fixed.record, dtype
            )
            if known is not None:
                note("rollout", way_of_rollout(original, name, dtype))
                if isinstance(state.q, np.ndarray):
                    like = state.q.reshape(-1, original.nq)
                    keep_direct(original, bound.stepper, (dt, fixed.substeps, integrator), like)
                return (*known, memory)
        start = jax.tree.map(lambda x: jnp.asarray(x, dtype), state)
        given = _Given(model, start, memory, key, dt, arrays, bound)
        traced = is_traced(given)
        try:
            result = (_run if traced else _compiled)(fixed, given)
        except (jax.errors.TracerArrayConversionError, jax.errors.TracerBoolConversionError) as error:
            raise TypeError(UNTRACEABLE + str(error).splitlines()[0]) from error
        if not from_numpy or is_traced(result):  # a policy may hold tracers
            return result
        return jax.tree.map(np.asarray, result)

    result = in_type(dtype, compute, from_numpy)
    return result if return_carry else result[:2]


def _run(fixed: _Fixed, given: _Given) -> tuple[State, Any, Any]:
    model, start, carry, key, dt, arrays, bound = given
    model = with_bound(with_constraints(model, fixed.constraints), bound)
    together = [f if a is None else a for f, a in zip(fixed.functions, arrays, strict=True)]
    parts: Any = jax.tree.unflatten(fixed.form, together)
    policy, f_ext, done, reset = parts
    given_controls = not callable(policy)
    controls: Any = policy if given_controls else None
    begin = getattr(policy, "init", None)

    def act(carry: Any, state: State, key: Any, given: Any) -> tuple[Any, Any]:
        return (carry, given) if given_controls else _pair(policy, carry, state, key)

    def push(state: State) -> Any:
        return _pushed(f_ext, model, state) if callable(f_ext) else f_ext

    def keys(t: Any) -> Any:
        return (None, None) if key is None else jax.random.split(jax.random.fold_in(key, t))

    def one(loop: tuple[State, Any], x: tuple[Any, Any]) -> tuple[tuple[State, Any], Any]:
        (state, carry), (t, chosen) = loop, x
        own, other = keys(t)
        carry, ctrl = act(carry, state, own, chosen)
        settings = {"dt": dt, "substeps": fixed.substeps, "integrator": fixed.integrator}
        after = advance(model, state, ctrl, push(state), **settings)
        over = jnp.zeros(after.batch, bool) if done is None else _ended(done, after)
        seen = _seen(fixed.record, model, state, ctrl, over)
        if done is None:
            return (after, carry), seen
        again = start if reset is None else reset(after, other) if callable(reset) else reset
        after = jax.tree.map(partial(_where, over), again, after)
        if begin is not None:
            carry = jax.tree.map(partial(_restarted, over), begin(after), carry)
        return (after, carry), seen

    first = None if controls is None else jax.ShapeDtypeStruct(controls.shape[1:], controls.dtype)
    kept, chosen = jax.eval_shape(act, carry, start, None if key is None else keys(0)[0], first)
    _require_same_carry(carry, kept)
    start = _broadcast(model.batch, start, chosen, jax.eval_shape(push, start))
    turn = checkpointed(one) if fixed.substeps == 1 else one  # advance sees to several substeps
    (end, carry), records = bounded_scan(turn, (start, carry), (jnp.arange(fixed.steps), controls), fixed.steps)
    return end, records, carry


_compiled = partial(jax.jit, static_argnums=0)(_run)


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | float | int)


def _hashable(function: Any) -> Any:
    """Compiled loops are kept for a function, so it has to be hashable: a dataclass often is not."""
    return function if function.__hash__ else partial(function)


def _controls(model: Model, policy: Any, steps: int) -> Any:
    if policy is None or callable(policy):
        return policy if policy is not None else _no_controls
    array = as_array("policy", policy)
    if array.ndim < 2 or array.shape[0] != steps or array.shape[-1] != model.nu:
        raise ValueError(
            f"controls must have shape ({steps}, ..., {model.nu}), not {array.shape}{without_actuators(model.nu)}"
        )
    require_shapes(model, ctrl=array)
    return array


def _pair(policy: Any, carry: Any, state: State, key: Any) -> tuple[Any, Any]:
    """The result of a policy, after a check of its form."""
    try:
        found = policy(carry, state, key)
    except TypeError as error:
        if key is None:
            error.add_note("The policy was given no key: kinetree.rollout(..., key=jax.random.key(0)) gives it one.")
        raise
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise TypeError(f"a policy must return a pair (carry, ctrl), not a {type(found).__name__}")
    return found[0], found[1]


def _pushed(f_ext: Any, model: Model, state: State) -> Any:
    """The forces that a function gives, after a check that it gives some."""
    found = f_ext(state)
    if found is None:
        raise TypeError(f"f_ext must return forces, an array of shape (..., {model.n_bodies}, 6), not None")
    return found


def _ended(done: Any, state: State) -> Any:
    """Which worlds are over, after a check of the form."""
    found = done(state)
    try:
        return jnp.broadcast_to(jnp.asarray(found).astype(bool), state.batch)
    except (TypeError, ValueError):
        said = f"shape {np.shape(found)}" if hasattr(found, "shape") else repr(found)
        raise TypeError(f"done must return an array of booleans of shape {state.batch}, not {said}") from None


def _require_same_carry(given: Any, returned: Any) -> None:
    """Refuse a policy whose memory changes its form from step to step."""
    before, after = ([jax.tree.structure(x), *map(np.shape, jax.tree.leaves(x))] for x in (given, returned))
    if before != after:
        forms = " instead of ".join(str(jax.tree.map(np.shape, x)) for x in (returned, given))
        raise TypeError(f"a policy must return a carry of the form that it was given; it returned shapes {forms}")


def _no_controls(carry: Any, state: State, key: Any) -> tuple[Any, Any]:
    return carry, None


def _recorded(record: Any) -> Any:
    if record is None or callable(record):
        return record if record is None else _hashable(record)
    names = tuple(record) if isinstance(record, tuple | list | set | dict) else (record,)
    for name in names:
        require_word("record", name, RECORDS)
    return names


def _seen(record: Any, model: Model, state: State, ctrl: Any, over: Any) -> Any:
    ctrl = jnp.zeros((*state.batch, model.nu), state.q.dtype) if ctrl is None else ctrl
    if record is None or callable(record):
        return None if record is None else record(state, ctrl)
    others = {"ctrl": ctrl, "done": over}
    return {name: others[name] if name in others else getattr(state, name) for name in record}


def _broadcast(worlds: tuple[int, ...], state: State, ctrl: Any, f_ext: Any) -> State:
    """The state with the batch axes that it will have after a step."""
    batches = state.batches + [x.shape[: x.ndim - n] for x, n in ((ctrl, 1), (f_ext, 2)) if x is not None]
    batch = np.broadcast_shapes(*batches)
    batch = np.broadcast_shapes(batch, worlds + (1,) * (len(batch) - len(worlds)))
    dtype = result_dtype([*jax.tree.leaves(state), *(x for x in (ctrl, f_ext) if x is not None)])

    def wide(x: Any, n: int) -> Any:
        return jnp.broadcast_to(jnp.asarray(x, dtype), batch + x.shape[x.ndim - n :])

    return State(**{k: wide(getattr(state, k), n) for k, n in STATE_AXES.items()})


def _where(over: Any, new: Any, old: Any) -> Any:
    """New numbers for worlds that are over, with any axes after those of the batch."""
    new = jnp.broadcast_to(jnp.asarray(new, old.dtype), old.shape)
    return jnp.where(over.reshape(over.shape + (1,) * (old.ndim - over.ndim)), new, old)


def _restarted(over: Any, new: Any, old: Any) -> Any:
    return _where(over, new, old) if old.shape[: over.ndim] == over.shape else old
