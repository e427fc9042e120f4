"""Derivatives along a direction with many zeros: inputs that do not move are left out, not multiplied by zeros."""

from collections.abc import Callable
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero


def jvp_of_moving(function: Callable[..., Any], primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """`jax.jvp`, where some tangents may be symbolic zeros."""
    values, form = jax.tree.flatten(primals)
    directions = form.flatten_up_to(tangents)
    moving = [not _still(t) for t in directions]

    def of_moving(*given: Any) -> Any:
        rest = iter(given)
        return function(
            *jax.tree.unflatten(form, [next(rest) if m else x for x, m in zip(values, moving, strict=True)])
        )

    chosen = [(x, t) for x, t, m in zip(values, directions, moving, strict=True) if m]
    return jax.jvp(of_moving, tuple(x for x, _ in chosen), tuple(t for _, t in chosen))


def _still(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)
