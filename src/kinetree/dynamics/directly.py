"""Direct calls: machine code answers plain calls on NumPy arrays (lanes/cpu/direct.py); Python answers all others.

A control loop computes one state at a time. There the checks, broadcasts and choices of the ordinary path cost a
hundred times as much as the recursion. So each model keeps builtins that are bound to it. A builtin refuses a call that
is not plain by returning None. Then the ordinary path raises its errors, or handles JAX arrays and tracers.

The plainest calls never enter a Python function (lanes/cpu/front.py). For the other direct calls the Python code is
generated for each function, with its own parameters, because to pack arguments into a tuple and a dictionary would take
as long as the recursion of a small robot.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

import jax
import numpy as np

from kinetree.lanes.cpu.front import before
from kinetree.lanes.target import facts
from kinetree.model import Model
from kinetree.model.arguments import is_known, made_plain
from kinetree.model.required import require_model

from .schedules.choose import Call, choose
from .schedules.lane_algorithm import LaneAlgorithm

F = TypeVar("F", bound=Callable[..., Any])
Builtin = Callable[..., Any]  # arrays -> result, or None

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
PLAIN_ARRAYS, NUMBERS = {np.ndarray}, {float, int}  # the types of arrays that a builtin takes, and of Python's numbers
MAX_KEPT_CALLS = 1024  # builtins of one function and model: one for each body, frame and dtype


def directly(
    made: Callable[..., Any],
    *,
    result: type[tuple] | None = None,
    builtin: Callable[..., Builtin | None] | None = None,
    same: dict[str, str] | None = None,
) -> Callable[[F], F]:
    """Decorator for a public function of a model, of arrays, and of facts such as a body's name, if any.

    `made(model, *facts)` returns the lane algorithm for a call without other arguments, or the algorithm and the
    numbers that it is about, or None if there is none. It is used if "auto" walks a single state of the model in lanes.
    The arrays are the parameters q, q0, q1, qd, qdd and tau. `result` is the named tuple of several outputs. If the
    function takes forces on bodies, `made(model, True)` returns the algorithm that takes them after the other arrays.
    `builtin(model, dtype, *made)` binds the result of `made` if it is not one program. `same` gives, for some
    parameters, a value that means the same as the default if no joint of the model follows another.
    """

    def decorate(function: F) -> F:
        places = {dtype: f"_{function.__name__}_{dtype.name}" for dtype in (DOUBLE, SINGLE)}

        def bind(model: Any, dtype: np.dtype, given: tuple, about: tuple) -> Builtin:
            """The model's builtin for a dtype, or a function that refuses. It is made once, when it can be used."""
            if not isinstance(model, Model) or any(isinstance(x, jax.Array) for x in given):
                return _refuse
            try:
                calls = model.__dict__.setdefault(places[dtype], {})
                if about not in calls:
                    chosen = made(model, *about) if _walks(model, dtype, about is FORCED) else None
                    if len(calls) >= MAX_KEPT_CALLS:
                        calls.clear()
                    calls[about] = (_bound(model, dtype, chosen, result, builtin) or _refuse) if chosen else _refuse
            except (ValueError, KeyError, TypeError):  # the ordinary path will raise a clear error
                return _refuse
            if dtype is DOUBLE and about is FORCED:
                model.__dict__[f"_{function.__name__}_forced"] = calls[about]
            elif dtype is DOUBLE:
                _keep(model, function, about, calls[about])
            return calls[about]

        def bound(model: Any, dtype: np.dtype, given: tuple, about: tuple) -> Builtin:
            try:
                return getattr(model, places[dtype], _NONE).get(about) or bind(model, dtype, given, about)
            except TypeError:  # A fact that can not be hashed, such as a time for each state.
                return _refuse

        def other(model: Any, given: tuple, about: tuple) -> Any:
            """The result if the builtin for float64 refuses: for float32, gaps, other axes, and lists of numbers."""
            plain = set(map(type, given)) == PLAIN_ARRAYS
            if not plain:
                if any(type(x) is not list or set(map(type, x)) - NUMBERS for x in given if type(x) is not np.ndarray):
                    return None
                given = tuple(np.asarray(x, float) if type(x) is list else x for x in given)
            dtype, found = given[0].dtype, None
            if dtype is SINGLE or (dtype is DOUBLE and not (plain and all(x.flags.c_contiguous for x in given))):
                found = _called(bound(model, dtype, given, about), given)
            return widened(model, given, about) if found is None else found

        def forced(model: Any, given: tuple, f_ext: Any) -> Any:
            """The result if forces on bodies are given."""
            if set(map(type, (*given, f_ext))) != PLAIN_ARRAYS or f_ext.ndim < 2 or f_ext.shape[-1] != 6:
                return None
            found, dtype = None, given[0].dtype
            if dtype in places:
                found = _called(bound(model, dtype, given, FORCED), (*given, f_ext))
            flat = f_ext.reshape(*f_ext.shape[:-2], math.prod(f_ext.shape[-2:]))
            return widened(model, (*given, flat), FORCED) if found is None else found

        def widened(model: Any, given: tuple, about: tuple) -> Any:
            """The result for several batch axes, arrays that broadcast, and types that differ."""
            rows = made_plain(given)
            if rows is None or all(map(operator.is_, rows.arrays, given)):  # The builtin has refused these.
                return None
            if about is FORCED:
                rows.arrays[-1] = rows.arrays[-1].reshape(*rows.arrays[-1].shape[:-1], -1, 6)
            return _in_shape(_called(bound(model, rows.dtype, given, about), rows.arrays), rows.batch)

        def bind_double(model: Any, given: tuple, about: tuple) -> Builtin:
            return bind(model, DOUBLE, given, about)

        return _front(function, bind_double, (other, forced), same or {})  # type: ignore[return-value]

    return decorate


def _keep(model: Model, function: Callable[..., Any], about: tuple, call: Builtin) -> None:
    """Store a builtin for front.py: by the function's name, or by the first fact if all others are defaults."""
    place, facts = f"_{function.__name__}", _facts(function)
    if not about:
        model.__dict__[place] = call
    elif about[1:] == tuple(p.default for p in facts[1:]):
        kept = model.__dict__.setdefault(place, {})
        if len(kept) >= MAX_KEPT_CALLS:
            kept.clear()
        kept[about[0]] = call


def _facts(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters after the model that are not arrays but facts, such as a body's name."""
    parameters = list(signature(function).parameters.values())[1:]
    return [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in (*ARRAYS, "f_ext")]


_NONE: dict[Any, Any] = {}
PLAIN_FORCES = "f_ext is default_f_ext"  # the condition that no forces are given
FORCED = (True,)  # the fact that forces on bodies are given
ARRAYS = ("q", "q0", "q1", "qd", "qdd", "tau")


def _front(
    function: Callable[..., Any], bind: Callable[..., Any], others: tuple[Callable[..., Any], ...], same: dict[str, str]
) -> Callable[..., Any]:
    """The function that users call: `function`, with its own parameters, behind its builtins."""
    model, *parameters = signature(function).parameters.values()
    arrays = [p.name for p in parameters if p.name in ARRAYS]
    facts = [p.name for p in _facts(function)]
    taken = ["model"]
    passed = ["model"]
    plain = []  # conditions of a plain call: all other arguments have their defaults
    names: dict[str, Any] = {"function": function, "bind": bind, "require_model": require_model}
    names["other"], names["forced"] = others
    names["served"] = model.annotation  # some functions also take a tree over devices
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in taken:
            taken.append("*")
        optional = p.default is not Parameter.empty
        names |= {f"default_{p.name}": p.default} if optional else {}
        free = p.kind is p.VAR_KEYWORD
        taken.append(f"**{p.name}" if free else f"{p.name}=default_{p.name}" if optional else p.name)
        passed.append(f"**{p.name}" if free else f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name)
        if p.name not in (*arrays, *facts):
            usual = f"not {p.name}" if free else f"{p.name} is default_{p.name}"
            word = f"type({p.name}) is str and {p.name} == {same[p.name]!r}" if p.name in same else ""
            alike = word and f"{word} and getattr(model, 'coupling', None) is None"
            plain.append(f"({usual} or {alike})" if alike else usual)
    given, about = ", ".join(arrays), "".join(f"{name}, " for name in facts)
    free_of_forces = [x for x in plain if x != PLAIN_FORCES]
    with_forces = f"""
    if f_ext is not None and {" and ".join(free_of_forces) or "True"}:
        try:
            found = model._{function.__name__}_forced({given}, f_ext)
        except AttributeError:
            found = None
        found = forced(model, ({given},), f_ext) if found is None else found
        if found is not None:
            return found"""
    with_forces = with_forces if len(free_of_forces) < len(plain) else ""
    kept = f"model._{function.__name__}_float64[{about}]" if facts else f"model._{function.__name__}"
    text = f"""
def {function.__name__}({", ".join(taken)}):{with_forces}
    if {" and ".join(plain) or "True"}:
        try:
            call = {kept}
        except (AttributeError, KeyError, TypeError):
            call = bind(model, ({given},), ({about}))
        found = call({given})
        if found is not None:
            return found
        found = other(model, ({given},), ({about}))
        if found is not None:
            return found
    if not isinstance(model, served):
        require_model(model)
    return function({", ".join(passed)})
"""
    exec(compile(text, f"<front of {function.__name__}>", "exec"), names)
    python = wraps(function)(names[function.__name__])
    first = [p.name for p in parameters[: len(arrays) + bool(facts)]]
    if first != arrays + facts[:1]:
        return python
    usual = [p.default for p in _facts(function)[:1] if p.default is not Parameter.empty]
    return before(python, f"_{function.__name__}", len(arrays), bool(facts), *usual)


def _refuse(*given: Any) -> None:
    """A function that always refuses, if there can be no builtin."""


def _in_shape(found: Any, batch: tuple[int, ...]) -> Any:
    """Arrays with one batch axis, or none, with these axes."""
    if found is None or len(batch) < 2:
        return found
    if isinstance(found, tuple):
        return getattr(found, "_make", tuple)([_in_shape(x, batch) for x in found])
    return found.reshape(batch + found.shape[1:])


def _called(call: Builtin, given: Sequence[np.ndarray]) -> Any:
    """The result of a builtin; arrays with gaps are copied first."""
    found = call(*given)
    if found is not None or all(x.flags.c_contiguous for x in given):
        return found
    return call(*map(np.ascontiguousarray, given))


def _walks(model: Model, dtype: np.dtype, external: bool) -> bool:
    """True if the ordinary path would walk one state in lanes, and the model's numbers are known."""
    if model.nv == 0 or not is_known(model):
        return False
    return choose(Call(model, 1, "numpy", dtype, external, facts()), blocks=lambda _: True).way == "lanes"


def _bound(
    model: Model,
    dtype: np.dtype,
    chosen: Any,
    result: type[tuple] | None,
    builtin: Callable[..., Builtin | None] | None,
) -> Builtin | None:
    """The builtin of the chosen algorithm."""
    if builtin is not None:
        return builtin(model, dtype, chosen)
    algorithm, about = chosen if isinstance(chosen, tuple) else (chosen, ())
    assert isinstance(algorithm, LaneAlgorithm)
    return algorithm.direct(model, dtype, about, result)
