"""A lane program that is linear in its last inputs, as a JAX primitive; another program is its transpose.

So if a program solves a system of equations, its result has derivatives by the right-hand side, although the repeats of
the program can not run backwards. Derivatives by the other inputs are missing: they are second derivatives of a
solution.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .partition import knows_devices
from .primitive import RUN, Bound
from .program.program import Program
from .target import define_eager

Axes = tuple[int | None, ...]


class BoundProgram(NamedTuple):
    """A program with all that it needs except its inputs. The names are those of `run`."""

    program: Program
    slots: int
    widths: tuple[int, ...]
    tables: tuple
    constants: tuple

    @property
    def bound(self) -> Bound:
        """Everything that a compiled call depends on."""
        return Bound(self.program, self.slots, self.widths)

    def given(self, dtype: Any) -> tuple:
        """Tables and constants."""
        return *map(jnp.asarray, self.tables), *(jnp.asarray(c, dtype) for c in self.constants)


@dataclass(frozen=True)
class _Call:
    """The program and its transpose, how many inputs are fixed, and the axes of maps around both."""

    forward: Bound
    backward: Bound
    fixed: int
    mapped: tuple[Axes, ...] = ()

    @property
    def still(self) -> int:
        """The number of arguments that are not linear: tables and constants of both programs, and fixed inputs."""
        return 2 * sum(len(b.program.loops) for b in (self.forward, self.backward)) + self.fixed

    @property
    def transposed(self) -> "_Call":
        return replace(self, forward=self.backward, backward=self.forward)

    def turned(self, arguments: Any) -> tuple:
        """The arguments that are not linear, in the order of the transpose."""
        own, other = (2 * len(b.program.loops) for b in (self.forward, self.backward))
        return *arguments[own : own + other], *arguments[:own], *arguments[own + other : self.still]


def _run(*arguments: Any, call: _Call) -> list:
    own = 2 * len(call.forward.program.loops)

    def body(*given: Any) -> list:
        return RUN.bind(*given[:own], *given[call.still - call.fixed :], bound=call.forward)

    for axes in call.mapped:
        body = jax.vmap(body, (*axes, *(0,) * (len(arguments) - call.still)))
    return body(*arguments)


def _shapes(*arguments: Any, call: _Call) -> list:
    first = arguments[call.still]
    return [ShapedArray((*first.shape[:-1], width), first.dtype) for width in call.forward.widths]


LINEAR = Primitive("kinetree_lanes_linear")
LINEAR.multiple_results = True
define_eager(LINEAR)
LINEAR.def_abstract_eval(_shapes)
mlir.register_lowering(LINEAR, mlir.lower_fun(_run, multiple_results=True))
knows_devices(LINEAR)


def _transposed(cotangents: Any, *arguments: Any, call: _Call) -> list:
    linear = arguments[call.still :]
    if all(isinstance(c, ad.Zero) for c in cotangents):  # the result is not used
        return [None] * len(arguments)
    owed = [ad.instantiate_zeros(c) for c in cotangents]
    found = LINEAR.bind(*call.turned(arguments), *owed, call=call.transposed)
    return [None] * call.still + [r if ad.is_undefined_primal(x) else None for r, x in zip(found, linear, strict=True)]


def _derivative(primals: Any, tangents: Any, *, call: _Call) -> tuple:
    if not all(isinstance(t, ad.Zero) for t in tangents[: call.still]):
        raise NotImplementedError("second derivatives of a solution with constraints are not known")
    moved = (ad.instantiate_zeros(t) for t in tangents[call.still :])
    return LINEAR.bind(*primals, call=call), LINEAR.bind(*primals[: call.still], *moved, call=call)


def _batched(arguments: Any, axes: Any, *, call: _Call) -> tuple:
    """One more map around the run. All linear inputs get its axis, so that each has a cotangent in the transpose."""
    size = next(x.shape[d] for x, d in zip(arguments, axes, strict=True) if d is not None)
    linear = [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(arguments[call.still :], axes[call.still :], strict=True)
    ]
    around = replace(call, mapped=(*call.mapped, tuple(axes[: call.still])))
    results = LINEAR.bind(*arguments[: call.still], *linear, call=around)
    return results, [0] * len(results)


ad.primitive_transposes[LINEAR] = _transposed
ad.primitive_jvps[LINEAR] = _derivative
batching.primitive_batchers[LINEAR] = _batched


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _still(call: _Call, fixed: tuple, linear: tuple) -> list:
    return [jnp.zeros((len(linear[0]), width), linear[0].dtype) for width in call.forward.widths]


@partial(_still.defjvp, symbolic_zeros=True)
def _moved(call: _Call, primals: Any, tangents: Any) -> tuple:
    fixed, linear = primals
    moved = (jnp.zeros_like(x) if isinstance(t, SymbolicZero) else t for x, t in zip(linear, tangents[1], strict=True))
    return _still(call, fixed, linear), LINEAR.bind(*fixed, *moved, call=call)


def run_change(forward: BoundProgram, backward: BoundProgram, fixed: tuple, linear: tuple) -> tuple:
    """How outputs of `forward` on inputs (lanes, width) move with the last of these, in which it is linear.

    The values are zero, those of the linear inputs do not count, and nothing moves with the `fixed` ones. `backward`
    has the same fixed inputs, then what is owed to the outputs of `forward`; it puts out what is owed to the linear
    inputs.
    """
    dtype = linear[0].dtype
    given = *forward.given(dtype), *backward.given(dtype), *(jnp.asarray(x, dtype) for x in fixed)
    return tuple(_still(_Call(forward.bound, backward.bound, len(fixed)), given, linear))
