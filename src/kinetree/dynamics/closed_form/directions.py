"""Derivatives along directions: one direction by a run of the derived lane program, many by matrices in closed form.

A direction costs two or three times the function, for any robot; all n² derivatives cost as much as about five
directions. The number of directions is known when JAX maps over them, as `jacfwd` and `jacrev` do. So the derivative
along a direction is one primitive, linear in the direction. If it is mapped over directions only, it multiplies them by
matrices; otherwise it is JAX's own derivative of the function.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad

from kinetree._varying import custom_jvp
from kinetree.lanes.transposed import linear_primitive

from ..schedules import tuning

Linear = Callable[..., Any]  # directions of some parts of the state -> direction of the result


class Function:
    """A function of parameters and a state, and its derivative in closed form.

    Arguments:
        value: (parameters, *state) -> result.
        linear: (parameters, state, which, result) -> a linear function of the directions of those of the state that
            `which` lists; None if matrices would be too large.
        gradient: (parameters, state, owed) -> gradients by the state, if there is a special way to find them.
    """

    def __init__(
        self,
        value: Callable[..., Any],
        linear: Callable[..., Linear] | None,
        gradient: Callable[[list, list, Any], Any] | None = None,
    ):
        self.value, self.linear, self.gradient = value, linear, gradient


class RuleCall:
    """A function, its number of parameters, and which parts of the state move."""

    def __init__(self, function: Function, parameters: int, state: int, which: tuple[int, ...]):
        self.function, self.parameters, self.state, self.which = function, parameters, state, which

    @property
    def fixed(self) -> int:
        """The number of arguments that are not directions."""
        return self.parameters + self.state

    def split(self, arguments: Any) -> tuple[list, list, list]:
        """Parameters, state, and directions."""
        a = list(arguments)
        return a[: self.parameters], a[self.parameters : self.fixed], a[self.fixed :]

    def of_moving(self, parameters: list, state: list) -> tuple[Callable[..., Any], list]:
        """The function of the moving parts of the state, and their values."""

        def function(*moving: Any) -> Any:
            values = list(state)
            for k, x in zip(self.which, moving, strict=True):
                values[k] = x
            return self.function.value(parameters, *values)

        return function, [state[k] for k in self.which]


def _forward(*arguments: Any, call: RuleCall) -> list:
    parameters, state, moved = call.split(arguments)
    function, at = call.of_moving(parameters, state)
    return [jax.jvp(function, tuple(at), tuple(moved))[1]]


def _backward(*arguments: Any, call: RuleCall) -> list:
    parameters, state, (owed,) = call.split(arguments)
    if call.function.gradient is not None:
        found = call.function.gradient(parameters, state, owed)
        return [found[k] for k in call.which]
    function, at = call.of_moving(parameters, state)
    return list(jax.vjp(function, *at)[1](owed))


def _forward_shapes(*arguments: Any, call: RuleCall) -> list:
    qd = call.split(arguments)[1][1]
    return [ShapedArray(qd.shape, qd.dtype)]


def _backward_shapes(*arguments: Any, call: RuleCall) -> list:
    state = call.split(arguments)[1]
    return [ShapedArray(state[k].shape, state[k].dtype) for k in call.which]


def direction(function: Function, parameters: list, state: list, moved: dict[int, Any]) -> Any:
    """The direction of the result, from directions of some parts of the state."""
    call = RuleCall(function, len(parameters), len(state), tuple(moved))
    return FORWARD.bind(*parameters, *state, *moved.values(), call=call, mapped=())[0]


def with_rule(
    function: Callable[..., Any],
    slow: Callable[..., Any],
    linear: Callable[..., Linear] | None = None,
    gradient: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """`function(fixed, *state)`, of one array, with derivatives by `slow(fixed, *state)`.

    If no derivative by `fixed` is needed, directions and gradients come from `linear` and `gradient` (see `Function`;
    `fixed` are its parameters). Without both, all derivatives are those of `slow`.
    """
    rule = custom_jvp(function)

    def derivative(primals: tuple, tangents: tuple) -> tuple:
        fixed, *state = primals
        still = all(map(_is_zero, jax.tree.leaves(tangents[0], is_leaf=_is_zero)))
        if not still or (linear is None and gradient is None):
            return jax.jvp(slow, primals, jax.tree.map(_instantiated, tangents, is_leaf=_is_zero))
        found = rule(*primals)
        moved = {k: x for k, x in enumerate(tangents[1:]) if not _is_zero(x)}
        if not moved:
            return found, jax.tree.map(jnp.zeros_like, found)
        parameters, tree = jax.tree.flatten(fixed)

        def of_fixed(f: Callable[..., Any] | None) -> Callable[..., Any] | None:
            return f and (lambda parameters, *rest: f(jax.tree.unflatten(tree, parameters), *rest))

        def value(parameters: list, *state: Any) -> Any:
            return jax.tree.leaves(slow(jax.tree.unflatten(tree, parameters), *state))[0]

        described = Function(value, of_fixed(linear), of_fixed(gradient))
        along = direction(described, parameters, state, moved)
        return found, jax.tree.unflatten(jax.tree.structure(found), [along])

    rule.defjvp(derivative, symbolic_zeros=True)
    return rule


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


def _instantiated(x: Any) -> Any:
    if not _is_zero(x):
        return x
    moves = jnp.issubdtype(x.dtype, jnp.inexact)
    return jnp.zeros(x.shape, x.dtype) if moves else np.zeros(x.shape, jax.dtypes.float0)


def _batched(body: Callable, arguments: Any, axes: Any, *, call: RuleCall, mapped: tuple) -> tuple:
    linear = list(zip(arguments, axes, strict=True))[call.fixed :]
    many = max((x.shape[d] for x, d in linear if d is not None), default=0)
    linear_map = call.function.linear
    if any(d is not None for d in axes[: call.fixed]) or many < tuning.MATRICES_MIN_DIRECTIONS or linear_map is None:
        results = jax.vmap(partial(body, call=call), tuple(axes))(*arguments)
        return results, [0] * len(results)
    parameters, state, _ = call.split(arguments)
    result = call.function.value(parameters, *state)
    apply = linear_map(parameters, state, call.which, result)
    along = tuple(d for _, d in linear)
    if body is _forward:
        return [jax.vmap(apply, along)(*(x for x, _ in linear))], [0]
    shapes = [jax.ShapeDtypeStruct(state[k].shape, state[k].dtype) for k in call.which]
    results = jax.vmap(jax.linear_transpose(apply, *shapes), along)(linear[0][0])
    return list(results), [0] * len(results)


def _derivative(primitive: Primitive, body: Callable, primals: Any, tangents: Any, params: dict) -> tuple:
    """The derivative, of any order. It is linear in its directions; if only they move, it is its own derivative."""
    fixed = params["call"].fixed
    if all(isinstance(t, ad.Zero) for t in tangents[:fixed]):
        moved = (ad.instantiate_zeros(t) for t in tangents[fixed:])
        return primitive.bind(*primals, **params), primitive.bind(*primals[:fixed], *moved, **params)
    known = [k for k, t in enumerate(tangents) if not isinstance(t, ad.Zero)]

    def moving(*values: Any) -> list:
        arguments = list(primals)
        for k, x in zip(known, values, strict=True):
            arguments[k] = x
        return body(*arguments, **params)

    return jax.jvp(moving, tuple(primals[k] for k in known), tuple(tangents[k] for k in known))


def _fixed(call: RuleCall) -> int:
    return call.fixed


FORWARD = linear_primitive(
    "direction",
    _forward,
    _forward_shapes,
    _fixed,
    lambda a, p: (BACKWARD, a, p),
    _derivative,
    partial(_batched, _forward),
)
BACKWARD = linear_primitive(
    "direction_back",
    _backward,
    _backward_shapes,
    _fixed,
    lambda a, p: (FORWARD, a, p),
    _derivative,
    partial(_batched, _backward),
)
