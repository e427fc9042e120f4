"""Derivatives of native answers, and derivatives along a direction with many zeros: inputs that do not move are left
out, not multiplied by zeros.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

from kinetree._varying import custom_jvp


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


def still(x: Any) -> SymbolicZero:
    """The tangent of a number that does not move."""
    return SymbolicZero(jax.typeof(x).to_tangent_aval())


def _still(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


@partial(custom_jvp, nondiff_argnums=(0, 1, 2))
def natively(run: Callable, reference: Callable, smooth: Callable | None, solver: Any, q: Any, *given: Any) -> Any:
    """`run(solver, q, *given)`, native code, with derivatives.

    If the solver has derivatives, and `smooth` is given, they are those of `smooth(solver, motions, reached, q,
    *given)`, for the results `reached`. It gives the same results, with None for those that do not move; their values
    may differ. Otherwise derivatives are those of `reference(q, *given)`.
    """
    return run(solver, q, *given)


@partial(natively.defjvp, symbolic_zeros=True)
def _derivative(run: Callable, reference: Callable, smooth: Callable | None, primals: Any, tangents: Any) -> Any:
    solver, q = primals[:2]
    if smooth is None or not solver.differentiable:
        return jvp_of_moving(reference, primals[1:], tangents[1:])
    reached = natively(run, reference, smooth, *primals)
    motions = solver.motions(q)
    moved = jvp_of_moving(lambda solver, *given: smooth(solver, motions, reached, *given), primals, tangents)[1]
    still = jax.tree.map(SymbolicZero.from_primal_value, reached)  # counts, flags, and missing forces
    return reached, jax.tree.map(lambda t, x: x if t is None else t, moved, still, is_leaf=lambda t: t is None)
