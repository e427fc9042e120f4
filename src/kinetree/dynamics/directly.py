"""Plain calls on NumPy arrays, answered by machine code at once (lanes/cpu/direct.py); all others as ever.

A control loop calls for one state at a time, where the checks, broadcasts and choices of the ordinary path cost a
hundred times what the recursion does. So each model keeps, beside its arrays, builtins bound to it. They refuse what
is not plain by returning None: wrong arguments meet the ordinary path's errors, JAX arrays and tracers its JAX.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

import jax
import numpy as np

from kinetree.lanes.target import facts
from kinetree.model import Model

from .schedules.choose import Call, choose
from .schedules.lane_algorithm import LaneAlgorithm

F = TypeVar("F", bound=Callable[..., Any])
Made = Callable[[Model], LaneAlgorithm | None]

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)


def directly(algorithm: Made, *, result: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """For a public function of a model, q, and others like qd: one call of `algorithm(model)` where it can be.

    Called with no other arguments the function must compute what the algorithm does, for a model that "auto" walks in
    lanes, a single state too. `algorithm` returns None where it should not; `result` makes one thing of several
    outputs, which are a tuple without it.
    """

    def decorate(function: F) -> F:
        keys = {dtype: f"_{function.__name__}_{dtype.name}" for dtype in (DOUBLE, SINGLE)}
        first = keys[DOUBLE]

        def bind(model: Any, given: tuple, dtype: np.dtype) -> Callable[..., Any]:
            """The model's builtin for a dtype, or a refusal in its place; made once, when it may be of use."""
            if not isinstance(model, Model) or any(isinstance(x, jax.Array) for x in given):
                return _refuse
            made = model.__dict__[keys[dtype]] = direct_call(model, algorithm, dtype, (), result) or _refuse
            return made

        @wraps(function)
        def served(model: Any, *given: Any, **options: Any) -> Any:
            if not options:
                result = (getattr(model, first, None) or bind(model, given, DOUBLE))(*given)
                if result is not None:
                    return result
                if given and getattr(given[0], "dtype", None) is SINGLE:
                    result = (getattr(model, keys[SINGLE], None) or bind(model, given, SINGLE))(*given)
                    if result is not None:
                        return result
            return function(model, *given, **options)

        return served  # type: ignore[return-value]

    return decorate


def directly_about(made: Callable[..., tuple[LaneAlgorithm, tuple[int, ...]] | None], arrays: int) -> Callable[[F], F]:
    """The same for functions of a model, some `arrays`, and facts such as a body's name.

    `made(model, *facts)` gives the algorithm, and the numbers that it is about, from all facts in order. A builtin is
    kept for each set of them.
    """

    def decorate(function: F) -> F:
        name, parameters = f"_{function.__name__}_calls", list(signature(function).parameters.values())
        facts = [p for p in parameters[1 + arrays :] if p.kind is p.POSITIONAL_OR_KEYWORD]

        def bind(model: Any, given: tuple, options: dict[str, Any], key: tuple) -> Callable[..., Any]:
            plain = len(given) >= arrays and all(type(x) is np.ndarray for x in given[:arrays])
            if not isinstance(model, Model) or not plain or given[0].dtype not in (DOUBLE, SINGLE):
                return _refuse
            dtype, calls = given[0].dtype, model.__dict__.setdefault(name, {})
            names = [p.name for p in facts]
            found = {p.name: p.default for p in facts} | dict(zip(names, given[arrays:], strict=False)) | options
            if len(found) > len(facts) or any(x is Parameter.empty for x in found.values()):
                return _refuse
            try:
                chosen = made(model, *found.values())
            except (ValueError, KeyError, TypeError):  # The ordinary path says what is wrong.
                return _refuse
            if len(calls) >= MAX_KEPT_CALLS:
                calls.clear()
            algorithm, about = chosen if chosen is not None else (None, ())
            builtin = direct_call(model, lambda _: algorithm, dtype, about, None)
            calls[key] = builtin or _refuse
            return calls[key]

        @wraps(function)
        def served(model: Any, *given: Any, **options: Any) -> Any:
            kind = given[0].dtype if given and type(given[0]) is np.ndarray else None
            key = (kind, *given[arrays:], *options.items())
            try:
                builtin = getattr(model, name, _NONE).get(key)
            except TypeError:  # A fact that is an array.
                return function(model, *given, **options)
            result = (builtin or bind(model, given, options, key))(*given[:arrays])
            return function(model, *given, **options) if result is None else result

        return served  # type: ignore[return-value]

    return decorate


MAX_KEPT_CALLS = 1024  # builtins of one function and model: one for each body, frame and dtype
_NONE: dict[Any, Any] = {}


def _refuse(*given: Any) -> None:
    """What stands for a builtin that there can not be."""


def direct_call(
    model: Model, algorithm: Made, dtype: np.dtype, about: tuple[int, ...], result: Callable[..., Any] | None
) -> Callable[..., Any] | None:
    """The builtin of an algorithm for a model, or None where the ordinary path would not walk in lanes."""
    plain = all(isinstance(x, np.ndarray) for x in jax.tree.leaves(model)) and model.nv > 0
    if not plain:
        return None
    call = Call(model, 1, "numpy", dtype, device=facts())
    if choose(call, blocks=lambda _: True).way != "lanes":
        return None
    made = algorithm(model)
    return None if made is None else made.direct(model, dtype, about, result)
