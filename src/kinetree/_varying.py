"""Inside `jax.shard_map` JAX notes in an array's type over which axes of the mesh its numbers differ.

JAX needs that for derivatives: an array that is the same on all devices owes the sum over them. All operations of JAX
make their operands differ over the same axes first, and say that their results do. So do the primitives here. Loops of
JAX want a state whose type does not change. Those here start from a state that differs as much as it will in the end.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive
from jax.sharding import PartitionSpec


def _axes_of(kind: Any) -> frozenset:
    """The axes of the mesh over which an array of this type differs."""
    found = getattr(kind, "manual_axis_type", None)
    return (getattr(kind, "vma", None) or frozenset()) if found is None else found.varying


def _over(x: Any, axes: frozenset) -> Any:
    """An array that differs over these axes at least."""
    return jax.lax.pcast(x, tuple(axes - _axes_of(jax.typeof(x))), to="varying")


def _in_shards() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def varying_as(arrays: Any, others: Any) -> Any:
    """A pytree of arrays, made to differ over the axes over which any of the others does."""
    if not _in_shards():
        return arrays
    every = frozenset[Any]().union(*(_axes_of(jax.typeof(x)) for x in jax.tree.leaves(others)))
    return jax.tree.map(lambda x: _over(x, every), arrays)


def varying_alike(arrays: Any) -> Any:
    """A pytree of arrays, all of which differ over the axes over which one of them does."""
    return varying_as(arrays, arrays)


class SharedPrimitive(Primitive):
    """A primitive whose results differ over all axes over which an operand does, and owe each operand the sum."""

    def bind(self, *arrays: Any, **params: Any) -> Any:
        """As JAX's. Nothing is owed to known numbers."""
        if _in_shards():
            arrays = tuple(varying_as(x, arrays) if _moves(x) else made_here(x) for x in arrays)
        return super().bind(*arrays, **params)

    def def_abstract_eval(self, rule: Callable[..., list]) -> Callable[..., list]:
        """As JAX's; the rule need not know of axes."""

        def shared(*kinds: Any, **params: Any) -> list:
            found = rule(*kinds, **params)
            most = max(kinds, key=lambda kind: len(_axes_of(kind)))
            return [_like(x, most) for x in found] if _axes_of(most) else found

        return super().def_abstract_eval(shared)


def _moves(x: Any) -> bool:
    return isinstance(x, Tracer) and jnp.issubdtype(x.dtype, jnp.floating)


def _like(kind: ShapedArray, other: ShapedArray) -> ShapedArray:
    """The type of an array that differs over the axes of another."""
    sharding = other.sharding.update(spec=PartitionSpec(*(None,) * len(kind.shape)))
    return other.update(kind.shape, kind.dtype, False, sharding=sharding)


def made_here(x: Any) -> Any:
    """In shards, a known array without numbers is made in the program; all else stays as it is.

    XLA of jax 0.11 ends with a segmentation fault where arrays without numbers come into `jax.shard_map` from outside.
    """
    empty = isinstance(x, np.ndarray | jax.Array) and not isinstance(x, Tracer) and not x.size
    return jnp.zeros(x.shape, x.dtype) if empty and _in_shards() else x


def array(x: Any, dtype: Any = None) -> Any:
    """As `jax.numpy.asarray`."""
    return jnp.asarray(made_here(x), dtype)


def _all_made_here(arguments: tuple, kept: Sequence[int] = ()) -> tuple:
    if not _in_shards():
        return arguments
    return tuple(x if k in kept else jax.tree.map(made_here, x) for k, x in enumerate(arguments))


class custom_jvp(jax.custom_jvp):
    """As `jax.custom_jvp`."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return super().__call__(*_all_made_here(arguments, self.nondiff_argnums), **named)


def jit(function: Callable, static_argnums: tuple = (), **options: Any) -> Callable:
    """As `jax.jit`, for functions of models: these have arrays without numbers."""
    compiled = jax.jit(function, static_argnums=static_argnums, **options)
    return wraps(function)(lambda *arguments, **named: compiled(*_all_made_here(arguments, static_argnums), **named))


def _settled(step: Callable, state: Any) -> Any:
    """The state of a loop that differs over the axes over which it does after some steps."""
    while _in_shards():
        before = state
        state = jax.tree.map(lambda x, made: _over(x, _axes_of(made)), before, jax.eval_shape(step, before))
        if all(x is y for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(state), strict=True)):
            break
    return state


def scan(body: Callable, state: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    """As `jax.lax.scan`."""
    if length is not None or all(map(len, jax.tree.leaves(xs))):
        state = _settled(lambda s: body(s, jax.tree.map(lambda x: x[0], xs))[0], state)
    return jax.lax.scan(body, state, xs, length, reverse)


def while_loop(unfinished: Callable, body: Callable, state: Any) -> Any:
    """As `jax.lax.while_loop`."""
    return jax.lax.while_loop(unfinished, body, _settled(body, state))


def fori_loop(first: Any, end: Any, body: Callable, state: Any) -> Any:
    """As `jax.lax.fori_loop`."""
    return jax.lax.fori_loop(first, end, body, _settled(lambda s: body(first, s), state))
