"""Primitives that are linear in their last arguments: the rules by which JAX runs, maps and transposes them.

A map stays around the primitive (`mapped`): so it is still linear in these arguments, and JAX can transpose it later.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from kinetree._varying import SharedPrimitive

from .partition import knows_devices
from .target import define_eager, lowered


def linear_primitive(
    name: str,
    body: Callable[..., list],
    shapes: Callable[..., list],
    fixed: Callable[..., int],
    transpose: Callable[[tuple, dict], tuple[Primitive, tuple, dict]],
    derivative: Callable[..., tuple],
    batched: Callable[..., tuple] | None = None,
) -> Primitive:
    """A primitive.

    Arguments:
        name: of the primitive.
        body, shapes: its results, and their types, from its arguments and parameters.
        fixed: how many arguments come before those in which it is linear, from its parameters.
        transpose: from the fixed arguments and the parameters to the primitive that is its transpose, the fixed
            arguments of that, and its parameters.
        derivative: (primitive, run, primals, tangents, parameters), as JAX's rule; `run` computes the results.
        batched: JAX's rule for maps, if there is a better one. On arrays with values such a primitive runs its body.
    """
    primitive = SharedPrimitive(f"kinetree_{name}")
    primitive.multiple_results = True

    def run(*arguments: Any, mapped: tuple, **params: Any) -> list:
        function: Callable[..., list] = partial(body, **params)
        linear = len(arguments) - fixed(**params)
        for axes in mapped:
            function = jax.vmap(function, (*axes, *(0,) * linear))
        return function(*arguments)

    def abstract(*arguments: Any, mapped: tuple, **params: Any) -> list:
        if not mapped:
            return shapes(*arguments, **params)
        found = jax.eval_shape(partial(run, mapped=mapped, **params), *arguments)
        return [ShapedArray(x.shape, x.dtype) for x in found]

    def transposed(cotangents: Any, *arguments: Any, mapped: tuple, **params: Any) -> list:
        count = fixed(**params)
        if any(ad.is_undefined_primal(x) for x in arguments[:count]):
            raise TypeError("a derivative of a lane program is linear in its directions only")
        if all(isinstance(c, ad.Zero) for c in cotangents):  # these results are not used
            return [None] * len(arguments)
        other, known, changed = transpose(arguments[:count], params)
        mapped = tuple(transpose(axes, params)[1] for axes in mapped)
        owed = (ad.instantiate_zeros(c) for c in cotangents)
        results = other.bind(*known, *owed, mapped=mapped, **changed)
        both = zip(results, arguments[count:], strict=True)
        return [None] * count + [r if ad.is_undefined_primal(x) else None for r, x in both]

    def around(arguments: Any, axes: Any, *, mapped: tuple, **params: Any) -> tuple:
        """One more map around. All linear arguments get its axis, so that each has a cotangent in the transpose."""
        size = next(x.shape[d] for x, d in zip(arguments, axes, strict=True) if d is not None)
        count = fixed(**params)
        linear = [
            jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
            for x, d in zip(arguments[count:], axes[count:], strict=True)
        ]
        mapped = (*mapped, tuple(axes[:count]))
        results = primitive.bind(*arguments[:count], *linear, mapped=mapped, **params)
        return results, [0] * len(results)

    def moved(primals: Any, tangents: Any, **params: Any) -> tuple:
        return derivative(primitive, run, primals, tangents, params)

    define_eager(primitive) if batched is None else primitive.def_impl(run)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, lowered(run))
    knows_devices(primitive)
    ad.primitive_transposes[primitive] = transposed
    ad.primitive_jvps[primitive] = moved
    batching.primitive_batchers[primitive] = batched or around
    return primitive
