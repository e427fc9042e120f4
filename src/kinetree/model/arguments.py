"""The arguments of public functions: shapes, dtypes, batches, and NumPy or JAX.

NumPy arrays give NumPy results, and float64 is computed in float64 for any setting of JAX. JAX arrays follow JAX,
except that float64 arrays stay float64 if x64 is off.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kinetree._arrays import any_rank, as_array, in_bits_of, require_real
from kinetree._varying import made_here, varying_alike

from .fork import require_xla, without_xla, xla_is_lost
from .memory import require_memory
from .model import Model

Given = tuple[Any, tuple[int, ...]]  # a value and the shape of its last axes
OPTIONAL = ("f_ext", "warm_start")
SMALLER = "use smaller batches"
PLAIN_TYPES = (np.dtype(np.float64), np.dtype(np.float32))  # that nothing has to be converted to
WIDENED_MAX_STATES = 1 << 16  # states; to widen arrays for more, memory is looked at first
KNOWN = "_known"  # where a model keeps whether its numbers are known, beside its fields


def _is_jax(value: Any) -> bool:
    return isinstance(value, jax.Array)


def _checked(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    value = as_array(name, value, f" of shape ({', '.join(['...', *map(str, shape)])})")
    require_real(name, value)
    if value.ndim < len(shape) or value.shape[value.ndim - len(shape) :] != shape:
        wanted = ", ".join(["...", *map(str, shape)])
        hint = without_actuators(*shape) if name == "ctrl" else ""
        raise ValueError(f"{name} must have shape ({wanted}), not {tuple(value.shape)}{hint}")
    return value


def without_actuators(nu: int) -> str:
    """What to do about controls of a model without actuators, for errors; empty if it has some."""
    if nu:
        return ""
    return "; the model has no actuators: add some by model.replace(actuators=[kt.Actuator.motor(joint), ...])"


def require_width(name: str, value: Any, width: int) -> Any:
    """An array (..., width), after a check of its form."""
    return _checked(name, value, (width,))


def _is_known_jax(value: Any) -> bool:
    return _is_jax(value) and not isinstance(value, Tracer)


def result_dtype(values: list[Any]) -> Any:
    """The type that a function of these arrays computes in."""
    if any(_is_jax(x) and x.dtype == np.float64 for x in values):
        return np.dtype(np.float64)  # JAX would narrow it in its 32-bit mode
    found = jnp.result_type(*values) if any(map(_is_jax, values)) else np.result_type(*values)
    if jnp.issubdtype(found, jnp.floating):
        return found if found.itemsize >= 4 else np.dtype(np.float32)
    return np.dtype(np.float64) if not any(map(_is_jax, values)) else jnp.result_type(float)


class PlainArrays(NamedTuple):
    """Arrays as machine code takes them: of one type, a row for each state, or one state without a batch axis."""

    dtype: np.dtype
    batch: tuple[int, ...]
    arrays: list[np.ndarray]


def made_plain(given: tuple[np.ndarray, ...]) -> PlainArrays | None:
    """Arrays (..., numbers) in this form. None if they are not real, do not broadcast, or copies may not fit."""
    dtype = given[0].dtype
    if dtype not in PLAIN_TYPES or any(x.dtype is not dtype for x in given):
        if any(x.dtype.kind not in "fiu" for x in given):
            return None
        dtype = result_dtype(list(given))
    if dtype not in PLAIN_TYPES or not all(x.ndim for x in given):
        return None
    batch = given[0].shape[:-1]
    if any(x.shape[:-1] != batch for x in given):
        try:
            batch = np.broadcast_shapes(*(x.shape[:-1] for x in given))
        except ValueError:
            return None
        if len(batch) > 1 and math.prod(batch) > WIDENED_MAX_STATES:
            return None

    def rows(x: np.ndarray) -> np.ndarray:
        x = x if x.dtype is dtype else x.astype(dtype)
        x = x if x.shape[:-1] == batch else np.broadcast_to(x, batch + x.shape[-1:])
        return x if len(batch) < 2 else x.reshape(math.prod(batch), x.shape[-1])

    return PlainArrays(dtype, batch, [rows(x) for x in given])


def evaluate(function: Callable[..., Any], **given: Given) -> Any:
    """Call `function` on the given arrays, each flattened to (batch, *shape); give its results the batch axes back.

    `function` takes the arrays in order (None if None was given) and returns a pytree of (batch, ...) arrays.
    """
    plain = _plain(given)
    if plain is not None:
        return _evaluate_plain(function, given, *plain)
    for name, (value, _) in given.items():
        if value is None and name not in OPTIONAL:
            raise ValueError(f"{name} must be an array, not None")
    values = {name: (_checked(name, v, shape), shape) for name, (v, shape) in given.items() if v is not None}
    arrays = [v for v, _ in values.values()]
    dtype = result_dtype(arrays)
    batch = _batch_of(values)
    from_numpy = not any(map(_is_jax, arrays))
    _require_room(values, batch, dtype)
    if xla_is_lost() and any(map(_is_known_jax, arrays)):
        require_xla()

    def compute(dtype: Any) -> Any:
        library = np if from_numpy else jnp

        def flat(name: str) -> Any:
            if name not in values:
                return None
            v, shape = values[name]
            v = v if from_numpy else made_here(v)
            whole = batch + shape
            # on JAX arrays each of these costs about 20 µs, even if it changes nothing
            if not _is_jax(v) or v.dtype != dtype or v.shape != whole or v.weak_type:
                v = library.broadcast_to(library.asarray(v, dtype), whole)
            return v if len(batch) == 1 else v.reshape(math.prod(batch), *shape)

        flattened = varying_alike([flat(name) for name in given])
        result = without_xla(function, *flattened) if from_numpy and xla_is_lost() else function(*flattened)
        if from_numpy:
            return _mapped(result, None if len(batch) == 1 else batch, flattened)
        if len(batch) != 1:  # a copy outside of jit
            result = jax.tree.map(lambda x: x.reshape((*batch, *x.shape[1:])), result)
        return result

    return _run(compute, dtype, batch, from_numpy)


def _run(compute: Callable[[Any], Any], dtype: Any, batch: tuple[int, ...], from_numpy: bool) -> Any:
    """`compute` in a type, in the settings of JAX that it needs."""
    # only `jit` turns NumPy arrays into JAX's
    by_jit = jax.disable_jit(False) if from_numpy and jax.config.jax_disable_jit else nullcontext()  # type: ignore
    with by_jit, any_rank(), _whole_products(dtype):
        try:
            return in_type(dtype, compute, from_numpy)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise MemoryError(f"a batch of {math.prod(batch):,} states does not fit: {SMALLER} ({error})") from error


def _plain(given: dict[str, Given]) -> tuple[np.dtype, tuple[int, ...]] | None:
    """The type and the batch axes that all arrays have, if they are NumPy's and need no change; else None."""
    dtype = batch = None
    for name, (value, shape) in given.items():
        if value is None and name in OPTIONAL:
            continue
        if type(value) is not np.ndarray:
            return None
        axes = value.ndim - len(shape)
        if axes < 0 or value.shape[axes:] != shape or (axes and 0 in value.strides[:axes]):
            return None
        if dtype is None:
            dtype, batch = value.dtype, value.shape[:axes]
            if dtype not in PLAIN_TYPES:
                return None
        elif value.dtype != dtype or value.shape[:axes] != batch:
            return None
    return None if dtype is None or batch is None or xla_is_lost() else (dtype, batch)


def _evaluate_plain(
    function: Callable[..., Any], given: dict[str, Given], dtype: np.dtype, batch: tuple[int, ...]
) -> Any:
    """`evaluate` on plain NumPy arrays: nothing is checked, converted or widened."""
    flat = len(batch) == 1

    def compute(dtype: Any) -> Any:
        arrays = [v if v is None or flat else v.reshape(math.prod(batch), *shape) for v, shape in given.values()]
        arrays = [v if v is None or v.dtype == dtype else v.astype(dtype) for v in arrays]
        return _mapped(function(*arrays), None if flat else batch, arrays)

    return _run(compute, dtype, batch, True)


def _mapped(result: Any, batch: tuple[int, ...] | None, given: list[Any]) -> Any:
    """Results of NumPy states: NumPy arrays, unless a number of the model is traced, with their batch axes."""
    if type(result) is tuple:
        return tuple([_mapped(x, batch, given) for x in result])
    plain = type(result) is np.ndarray
    return _own(result, batch, given) if plain else jax.tree.map(lambda x: _own(x, batch, given), result)


def _own(x: Any, batch: tuple[int, ...] | None, given: list[Any]) -> Any:
    """A result that is not on the memory of an argument: that may be written to, and neither changes the other."""
    if not isinstance(x, Tracer):
        x = np.asarray(x)
        x = x.copy() if any(g is not None and np.may_share_memory(x, g) for g in given) else x
    return x if batch is None else x.reshape((*batch, *x.shape[1:]))


def _whole_products(dtype: Any) -> AbstractContextManager[Any]:
    """A context in which products of float32 matrices use all 24 bits: a GPU would round the factors to 11."""
    return jax.default_matmul_precision("highest") if dtype == np.float32 else nullcontext()


def _require_room(values: dict[str, Given], batch: tuple[int, ...], dtype: Any) -> None:
    """Check that there is memory for arrays that are broadcast to the batch: they have not taken it yet."""
    states = math.prod(batch)
    whole = [(v, states * math.prod(shape)) for v, shape in values.values()]
    needed = sum(n for v, n in whole if v.size < n or (isinstance(v, np.ndarray) and 0 in v.strides))
    require_memory(needed * np.dtype(dtype).itemsize, f"a batch of {states:,} states", SMALLER)


def in_type(dtype: Any, compute: Callable[[Any], Any], from_numpy: bool) -> Any:
    """`compute(dtype)`, in 64-bit mode where the type needs it.

    If something else is traced (a model's number, a time step, a gain), NumPy states get JAX's own type: the derivative
    of the call is computed in JAX's mode, where float64 may not exist.
    """
    with in_bits_of(dtype):
        result = compute(dtype)
    if not from_numpy or dtype != np.float64 or not is_traced(result):
        return result
    own = jnp.result_type(float)  # of 32 bits where JAX has 64 switched off
    return result if own == np.float64 else compute(own)


def _batch_of(values: dict[str, Given]) -> tuple[int, ...]:
    """The batch axes of arrays together."""
    return batch_of({name: v.shape[: v.ndim - len(shape)] for name, (v, shape) in values.items()})


def batch_of(lead: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The batch axes of arrays together, from those of each."""
    try:
        return np.broadcast_shapes(*lead.values())
    except ValueError:
        shapes = ", ".join(f"{name} {shape}" for name, shape in lead.items())
        raise ValueError(f"batch axes do not broadcast: {shapes}") from None


def evaluate_for(model: Model, function: Callable[..., Any], **arrays: Any) -> Any:
    """`evaluate`, for arrays whose names tell their kind."""
    return evaluate(function, **_with_shapes(model, arrays))


def require_shapes(model: Model, **arrays: Any) -> None:
    """Refuse arrays whose axes or types do not match the model or one another. Their names tell their kind."""
    given = _with_shapes(model, arrays)
    _batch_of({name: (_checked(name, value, shape), shape) for name, (value, shape) in given.items()})


def _with_shapes(model: Model, arrays: dict[str, Any]) -> dict[str, Given]:
    """Arrays with the shapes of their last axes; those not listed here have nv numbers."""
    shapes: dict[str, tuple[int, ...]] = {
        "f_ext": (model.n_bodies, 6),
        "ctrl": (model.nu,),
        "act": (model.na,),
        "time": (),
        "dt": (),
    }
    shapes |= dict.fromkeys(("q", "q0", "q1"), (model.nq,))
    return {name: (x, shapes.get(name, (model.nv,))) for name, x in arrays.items()}


def is_known(*trees: Any) -> bool:
    """True if all arrays are NumPy's: their numbers are known, and stay as they are."""
    return all(map(_is_known, trees))


def _is_known(tree: Any) -> bool:
    if isinstance(tree, np.ndarray):
        return True
    if not isinstance(tree, Model):
        return all(isinstance(x, np.ndarray) for x in jax.tree.leaves(tree))
    kept = tree.__dict__  # a model has some 80 arrays, which are never replaced
    if KNOWN not in kept:
        kept[KNOWN] = all(isinstance(x, np.ndarray) for x in jax.tree.leaves(tree))
    return kept[KNOWN]


def is_traced(*trees: Any) -> bool:
    """True if some array has no values yet: it is inside `jit` or another transformation of JAX."""
    return any(isinstance(x, Tracer) for t in trees if not _is_known(t) for x in jax.tree.leaves(t))
