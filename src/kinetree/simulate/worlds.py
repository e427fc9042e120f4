"""Worlds whose models differ: one model whose arrays have first axes over the worlds (`kinetree.scaled` makes such).

They run side by side in one program, and each lane has its own constants. Facts that decide on the program, such as the
joints with limits, are found over all worlds together.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kinetree.constrain.joint_groups import Present
from kinetree.model import Model, State
from kinetree.model.arguments import in_type, result_dtype
from kinetree.model.state import STATE_AXES

from .constrained import constraints_of, prepared, with_constraints
from .native import BoundPrograms, axes_of, bound_to_worlds, typical_of, with_bound

AXES = STATE_AXES | {"ctrl": 1, "f_ext": 2}  # after those of the batch


def _checked(worlds: tuple[int, ...], name: str, x: Any) -> tuple[Any, int | None]:
    """An array, and True if its first axes are those of the worlds."""
    x = x if isinstance(x, jax.Array) else np.asarray(x)
    batch = x.shape[: x.ndim - AXES[name]]
    if batch and batch[: len(worlds)] != worlds:
        raise ValueError(f"{name} must have no batch axes, or first those of the models, {worlds}; not {batch}")
    return x, 0 if batch else None


def _wide(more: tuple[int, ...], x: Any, dtype: Any) -> Any:
    return jnp.broadcast_to(jnp.asarray(x, dtype), more + x.shape)


def constraints_of_worlds(model: Model) -> Present | None:
    """The constraints that act in some world; if numbers are unknown, all possible ones."""
    if "_constraints" in model.__dict__:
        return constraints_of(model)
    typical = typical_of(model)
    return constraints_of(model if typical is None else typical)


def advance_worlds(
    take: Callable[..., State], model: Model, state: State, ctrl: Any, f_ext: Any, dt: Any, substeps: int, name: str
) -> State:
    """`advance`, which is `take`, of states in worlds that differ."""
    worlds = model.batch
    parts = {k: _checked(worlds, k, getattr(state, k)) for k in STATE_AXES}
    others = {k: (None, None) if x is None else _checked(worlds, k, x) for k, x in (("ctrl", ctrl), ("f_ext", f_ext))}
    arrays = [x for x, _ in (*parts.values(), *others.values()) if x is not None]
    from_numpy, dtype = not any(isinstance(x, jax.Array) for x in arrays), result_dtype(arrays)

    def compute(dtype: Any) -> State:
        bound = bound_to_worlds(model, name, dtype, model.timestep if dt is None else dt, f_ext is not None)
        whole = State(**{k: _wide(worlds if axis is None else (), x, dtype) for k, (x, axis) in parts.items()})
        (u, u_axis), (f, f_axis) = others.values()
        settings = {"axes": (u_axis, f_axis), "depth": len(worlds), "substeps": int(substeps), "integrator": name}
        found = constraints_of_worlds(model)
        result = _each(take, model, bound, whole, u, f, dt, found=found, **settings)
        return jax.tree.map(lambda x: x if isinstance(x, Tracer) else np.asarray(x), result) if from_numpy else result

    return in_type(dtype, compute, from_numpy)


@partial(jax.jit, static_argnums=0, static_argnames=("axes", "depth", "substeps", "integrator", "found"))
def _each(
    take: Callable[..., State], model: Model, bound: BoundPrograms, state: State, ctrl: Any, f_ext: Any, dt: Any,
    *, axes: tuple, depth: int, substeps: int, integrator: str, found: Present | None
) -> State:  # fmt: skip
    def one(model: Model, bound: BoundPrograms, state: State, ctrl: Any, f_ext: Any) -> State:
        known = with_bound(with_constraints(model, found), bound)
        return take(known, state, ctrl, f_ext, dt=dt, substeps=substeps, integrator=integrator)

    for _ in range(depth):
        one = jax.vmap(one, (0, axes_of(bound), 0, *axes))
    return one(model, bound, state, ctrl, f_ext)


@partial(jax.jit, static_argnums=1)
def prepared_worlds(model: Model, found: Present | None) -> Model:
    """The models with the constants of their constraints, which do not change from step to step."""
    one: Callable[[Model], Model] = partial(prepared, found=found)
    for _ in model.batch:
        one = jax.vmap(one)
    return one(model)
