"""How JAX runs a lane program: one primitive for the program, two for its derivatives, and their rules.

A batch axis becomes lanes. The derivative in a direction, and its transpose, are linear in the direction. From these
JAX builds `jacfwd`, `jacrev` and gradients of any order. Both are runs of derived programs, so they are native if the
program is native. Models whose numbers differ from lane to lane run natively too (own_constants.py). Programs that can
not be reversed, and trees that differ from lane to lane, are run by XLA.

The compiled program computes NumPy arrays directly. JAX arrays go through the primitive: on a CPU it is an XLA FFI call
of the same machine code, on an NVIDIA GPU of a kernel made from the same text, elsewhere the XLA body.
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
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from kinetree._arrays import flattened
from kinetree._varying import SharedPrimitive, array, custom_jvp, varying_as

from .partition import knows_devices, over_devices
from .program import xla
from .program.bound import Bound
from .program.derivative import adjoint_program, backward_memory, tangent_program, tangent_tables
from .program.own_constants import own_table, with_own_constants
from .program.program import Program
from .program.woven import Woven
from .target import Target, compiled, define_eager, lower, lowered
from .transposed import linear_primitive


def _make(name: str, abstract: Callable) -> Primitive:
    primitive = SharedPrimitive(f"kinetree_{name}")
    primitive.multiple_results = True
    define_eager(primitive)
    primitive.def_abstract_eval(abstract)
    return primitive


def _array(shape: tuple, dtype: Any, like: Any = None) -> Any:
    """An abstract array. Its lanes are divided among devices like those of `like`, if a mesh puts that in types."""
    sharding = getattr(like, "sharding", None)
    if sharding is None or sharding.mesh.empty:
        return ShapedArray(shape, dtype)
    return ShapedArray(shape, dtype, sharding=sharding.update(spec=PartitionSpec(sharding.spec[0], None)))


# -- running ----------------------------------------------------------------------------------------------------------


def _run_abstract(*arguments: Any, bound: Bound) -> list:
    first = bound.split(arguments)[2][0]
    return [_array((first.shape[0], w), first.dtype, first) for w in bound.widths]


def _by_xla(*arguments: Any, bound: Bound) -> list:
    kinds = _run_abstract(*arguments, bound=bound)
    if not kinds[0].shape[0]:  # no lanes: native code leaves them to XLA, and steps can not be traced without numbers
        return [jnp.zeros(x.shape, x.dtype) for x in kinds]
    return list(xla.run(*bound[:3], *bound.split(arguments)[:3]))


def _natively(target: Target, *arguments: Any, bound: Bound) -> list | None:
    tables, constants, inputs, _ = bound.split(arguments)
    if bound.woven is not None:
        bound, tables = bound._replace(program=bound.woven.program, slots=bound.woven.slots), bound.woven.tables
    return target.run(bound, tables, constants, inputs)


HERE = _make("lanes_here", _run_abstract)  # on one device
lower(HERE, _by_xla, _natively)


def _on_all_devices(*arguments: Any, bound: Bound) -> list:
    counts = [len(group) for group in bound.split(arguments)]
    local = partial(HERE.bind, bound=bound)
    return over_devices(local, counts[0] + counts[1], counts[2], len(bound.widths))(*arguments)


RUN = _make("lanes", _run_abstract)
mlir.register_lowering(RUN, lowered(_on_all_devices))


def _as_lanes(x: Any, axis: int | None, size: int) -> Any:
    """(lanes, width) for every member of a batch, one after the other."""
    x = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    return x.reshape(size * x.shape[1], x.shape[2])


def _run_batched(arguments: Any, axes: Any, *, bound: Bound) -> tuple:
    inputs, in_axes = bound.split(arguments)[2], bound.split(axes)
    size = next(x.shape[d] for x, d in zip(arguments, axes, strict=True) if d is not None)
    if any(d is not None for d in in_axes[0]):  # the trees differ, so these are not lanes of one program
        results = jax.vmap(partial(_by_xla, bound=bound), tuple(axes))(*arguments)
        return results, [0] * len(results)
    lanes = [_as_lanes(x, d, size) for x, d in zip(inputs, in_axes[2], strict=True)]
    repeats = inputs[0].shape[1 if in_axes[2][0] == 0 else 0]  # lanes of a member; the batch may be empty
    bound, shared, own = _with_own_constants(bound, arguments, axes, size, repeats)
    results = RUN.bind(*shared, *lanes, *own, bound=bound)
    return [y.reshape(size, repeats, y.shape[1]) for y in results], [0] * len(results)


def _with_own_constants(bound: Bound, arguments: Any, axes: Any, size: int, repeats: int) -> tuple[Bound, list, list]:
    """A run in which each member of a batch has its own constants, and `repeats` lanes.

    It comes with its tables, and constants that all members share; then lane arrays, (lanes, turns · constants), for
    each loop whose constants differ.
    """
    (tables, constants, *_), const_axes = bound.split(arguments), bound.split(axes)[1]
    shared = [x if d is None else jnp.moveaxis(x, d, 0)[0] for x, d in zip(constants, const_axes, strict=True)]
    new_tables, lanes = list(tables), []
    which = tuple(d is not None and x.size > 0 for d, x in zip(const_axes, shared, strict=True))
    for k in (k for k, own in enumerate(which) if own):
        turns, count = shared[k].shape
        new_tables[k] = own_table(tables[k], count)
        own = jnp.repeat(flattened(jnp.moveaxis(constants[k], const_axes[k], 0)), repeats, 0)
        pool = bound.program.loops[k].pool  # the pool stays shared: it is the same in all worlds
        lanes.append(own[:, : tables[k].shape[0] * count] if pool else own)
        shared[k] = shared[k] if pool else jnp.zeros((turns, 0), shared[k].dtype)
    if lanes:
        written = None if bound.written is None else with_own_constants(bound.written, which)
        bound = Bound(with_own_constants(bound.program, which), bound.slots, bound.widths, None, written)
    return bound, [*new_tables, *shared], lanes


def _run_jvp(primals: Any, tangents: Any, *, bound: Bound) -> tuple:
    n = len(bound.program.loops)

    def instantiate(group: Any) -> list:
        return [ad.instantiate_zeros(t) for t in group]

    if bound.program.searches:  # JAX forgets rules for derivatives where reverse mode computes a step again
        raise NotImplementedError("second derivatives of a solution with constraints are not known")
    if not bound.program.reversible:
        by_xla = partial(_by_xla, *primals[:n], bound=bound)
        return jax.jvp(by_xla, tuple(primals[n:]), tuple(instantiate(tangents[n:])))
    results = RUN.bind(*primals, bound=bound)
    of_constants, of_inputs = tangents[n : 2 * n], tangents[2 * n :]
    moving = not all(isinstance(t, ad.Zero) for t in of_constants)
    moved = (*(instantiate(of_constants) if moving else ()), *instantiate(of_inputs))
    return results, TANGENT.bind(*primals, *moved, bound=bound, moving=moving, mapped=())


batching.primitive_batchers[RUN] = _run_batched
ad.primitive_jvps[RUN] = _run_jvp


# -- derivatives ------------------------------------------------------------------------------------------------------


def _tangent_body(*arguments: Any, bound: Bound, moving: bool) -> list:
    tables, constants, inputs, moved = bound.split(arguments)
    if moving:
        constants = [jnp.concatenate(pair, 1) for pair in zip(constants, moved[: len(constants)], strict=True)]
    derived = Bound(tangent_program(bound.program, moving), 2 * bound.slots, bound.widths)
    tables, moved = tangent_tables(bound.slots, tables), moved[len(moved) - len(inputs) :]
    return RUN.bind(*tables, *constants, *inputs, *moved, bound=derived)


def _adjoint_body(*arguments: Any, bound: Bound, moving: bool) -> list:
    tables, constants, inputs, owed = bound.split(arguments)
    widths = tuple(x.shape[1] for x in inputs)
    memory = backward_memory(bound.program, bound.slots, widths, tables, constants, moving)
    counts = tuple(c.shape[0] * c.shape[1] for c in constants) if moving else ()
    derived = Bound(adjoint_program(bound.program, moving), memory.slots, widths + counts)
    results = RUN.bind(*memory.tables, *memory.constants, *inputs, *owed, bound=derived)
    of_inputs, of_constants = results[: len(widths)], results[len(widths) :]
    return [*(x.sum(0).reshape(c.shape) for x, c in zip(of_constants, constants, strict=False)), *of_inputs]


def _tangent_abstract(*arguments: Any, bound: Bound, moving: bool) -> list:
    return _run_abstract(*arguments, bound=bound)


def _adjoint_abstract(*arguments: Any, bound: Bound, moving: bool) -> list:
    _, constants, inputs, _ = bound.split(arguments)
    return [_array(x.shape, x.dtype) for x in (*(constants if moving else ()), *inputs)]


def _fixed(bound: Bound, moving: bool) -> int:
    """Tables, constants and inputs."""
    return 2 * len(bound.program.loops) + bound.program.n_inputs


def _derivative(_: Primitive, body: Callable, primals: Any, tangents: Any, params: dict) -> tuple:
    """The derivative of any order: the body runs a derived program, which has derivatives itself."""
    n = len(params["bound"].program.loops)
    still = 2 * n if all(isinstance(t, ad.Zero) for t in tangents[: 2 * n]) else n  # tables, and often the constants
    moved = tuple(ad.instantiate_zeros(t) for t in tangents[still:])
    return jax.jvp(partial(body, *primals[:still], **params), tuple(primals[still:]), moved)


TANGENT = linear_primitive(
    "lanes_tangent", _tangent_body, _tangent_abstract, _fixed, lambda a, params: (ADJOINT, a, params), _derivative
)
ADJOINT = linear_primitive(
    "lanes_adjoint", _adjoint_body, _adjoint_abstract, _fixed, lambda a, params: (TANGENT, a, params), _derivative
)
knows_devices(RUN)


def run(
    program: Program,
    slots: int,
    widths: tuple,
    tables: tuple,
    constants: tuple,
    inputs: tuple,
    woven: Woven | None = None,
    written: Program | None = None,
) -> tuple:
    """Outputs (lanes, width) of a program on inputs (lanes, width).

    For each loop there is a table, (turns, columns) of int32, and an array of constants, (turns, count). On JAX arrays
    native code runs the `woven` program if there is one. A GPU runs the `written` program if there is one: the same,
    written out for one mechanism (cuda/sequence.py).
    """
    plain = all(isinstance(x, np.ndarray) for x in (*constants, *inputs))
    if plain and (native := compiled(program, np.dtype(inputs[0].dtype).name)) is not None:
        return native(slots, widths, tables, constants, inputs)
    inputs = tuple(x if isinstance(x, jax.Array) else jnp.asarray(x) for x in inputs)
    dtype = inputs[0].dtype  # JAX may have converted it to float32
    constants = tuple(c if c.dtype == dtype else c.astype(dtype) for c in constants)
    bound = Bound(program, slots, tuple(widths), woven, written)
    return tuple(RUN.bind(*tables, *constants, *inputs, bound=bound))


@partial(custom_jvp, nondiff_argnums=(0,))
def _still(bound: Bound, arguments: tuple) -> list:
    inputs = bound.split(arguments)[2]
    return varying_as([jnp.zeros((inputs[0].shape[0], w), inputs[0].dtype) for w in bound.widths], arguments)


@partial(_still.defjvp, symbolic_zeros=True)
def _moved(bound: Bound, primals: Any, tangents: Any) -> tuple:
    ((tables, constants, inputs, _), (_, *groups, _)) = map(bound.split, (primals[0], tangents[0]))
    of_constants, of_inputs = ([None if isinstance(t, SymbolicZero) else t for t in group] for group in groups)
    moving = any(t is not None for t in of_constants)
    given = (*constants, *inputs) if moving else inputs
    directions = (*of_constants, *of_inputs) if moving else of_inputs
    filled = [jnp.zeros_like(x) if t is None else t for x, t in zip(given, directions, strict=True)]
    results = TANGENT.bind(*tables, *constants, *inputs, *filled, bound=bound, moving=moving, mapped=())
    return _still(bound, primals[0]), results


def run_slope(program: Program, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
    """What has the derivatives of `run`, and is zero: for values that are known already. Nothing else is computed."""
    inputs = tuple(map(jnp.asarray, inputs))
    given = *map(array, tables), *(array(c, inputs[0].dtype) for c in constants), *inputs
    return tuple(_still(Bound(program, slots, tuple(widths)), given))
