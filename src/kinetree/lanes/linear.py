"""A lane program that is linear in its last inputs, as a JAX primitive; another program is its transpose.

So if a program solves a system of equations, its result has derivatives by the right-hand side, although the repeats of
the program can not run backwards. Derivatives by the other inputs are missing: they are second derivatives of a
solution.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad

from kinetree._varying import array, custom_jvp, varying_as

from .primitive import RUN
from .program.bound import Bound
from .program.program import Program
from .transposed import linear_primitive


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
        return *map(array, self.tables), *(array(c, dtype) for c in self.constants)


@dataclass(frozen=True)
class _Call:
    """The program and its transpose, and how many inputs are fixed."""

    forward: Bound
    backward: Bound
    fixed: int

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
    return RUN.bind(*arguments[:own], *arguments[call.still - call.fixed :], bound=call.forward)


def _shapes(*arguments: Any, call: _Call) -> list:
    first = arguments[call.still]
    return [ShapedArray((*first.shape[:-1], width), first.dtype) for width in call.forward.widths]


def _transpose(fixed: tuple, params: dict) -> tuple[Any, tuple, dict]:
    call = params["call"]
    return LINEAR, call.turned(fixed), {"call": call.transposed}


def _derivative(primitive: Primitive, _: Any, primals: Any, tangents: Any, params: dict) -> tuple:
    still = params["call"].still
    if not all(isinstance(t, ad.Zero) for t in tangents[:still]):
        raise NotImplementedError("second derivatives of a solution with constraints are not known")
    moved = (ad.instantiate_zeros(t) for t in tangents[still:])
    return primitive.bind(*primals, **params), primitive.bind(*primals[:still], *moved, **params)


LINEAR = linear_primitive("lanes_linear", _run, _shapes, lambda call: call.still, _transpose, _derivative)


@partial(custom_jvp, nondiff_argnums=(0,))
def _still(call: _Call, fixed: tuple, linear: tuple) -> list:
    still = [jnp.zeros((len(linear[0]), width), linear[0].dtype) for width in call.forward.widths]
    return varying_as(still, (fixed, linear))


@partial(_still.defjvp, symbolic_zeros=True)
def _moved(call: _Call, primals: Any, tangents: Any) -> tuple:
    fixed, linear = primals
    moved = (jnp.zeros_like(x) if isinstance(t, SymbolicZero) else t for x, t in zip(linear, tangents[1], strict=True))
    return _still(call, fixed, linear), LINEAR.bind(*fixed, *moved, call=call, mapped=())


def run_change(forward: BoundProgram, backward: BoundProgram, fixed: tuple, linear: tuple) -> tuple:
    """How outputs of `forward` on inputs (lanes, width) move with the last of these, in which it is linear.

    The values are zero, those of the linear inputs do not count, and nothing moves with the `fixed` ones. `backward`
    has the same fixed inputs, then what is owed to the outputs of `forward`; it puts out what is owed to the linear
    inputs.
    """
    dtype = linear[0].dtype
    given = *forward.given(dtype), *backward.given(dtype), *(jnp.asarray(x, dtype) for x in fixed)
    return tuple(_still(_Call(forward.bound, backward.bound, len(fixed)), given, linear))
