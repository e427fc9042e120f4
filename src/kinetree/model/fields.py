"""What the fields of shapes, tendons, actuators, sensors and loops must hold: a table for each, and one check.

Numbers may be JAX's, alone or in a tuple. If they are traced, only their count is checked.
"""

from collections.abc import Callable, Iterable
from reprlib import repr as shortened
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jax.core import Tracer

from .errors import ModelError
from .required import is_whole

T = TypeVar("T")


class Form(NamedTuple):
    """The form of a value: in words, for a message, and as a test."""

    words: str
    fits: Callable[[Any], bool]


Table = dict[str, Form]


def require_fields(label: str, thing: Any, table: Table) -> None:
    """Refuse a thing whose fields have other forms than a table says."""
    for name, form in table.items():
        value = getattr(thing, name)
        if not form.fits(value):
            raise ModelError(f"{label}: {name} must be {form.words}, not {shortened(value)}")


def all_of(what: str, given: Iterable[Any], kind: type[T]) -> tuple[T, ...]:
    """The members of a list, all of one kind. `what` begins the message about others: "loops must be"."""
    wanted = f"{what} a list of kinetree.{kind.__name__}, not a {type(given).__name__}"
    if isinstance(given, kind):
        raise TypeError(wanted)
    try:
        members = tuple(given)
    except TypeError:
        raise TypeError(wanted) from None
    for other in (x for x in members if not isinstance(x, kind)):
        raise TypeError(f"{what} kinetree.{kind.__name__}, not a {type(other).__name__}")
    return members


def numbers(*counts: int, bounds: bool = False) -> Form:
    """So many finite numbers; one number need not be in a list. Bounds may be infinite, and the lower one is first."""

    def fits(value: Any) -> bool:
        array = _array(value)
        if array is None or array.ndim > 1 or (array.size if array.ndim else 1) not in counts:
            return False
        return not np.isnan(array).any() and array[0] <= array[1] if bounds else bool(np.isfinite(array).all())

    least, most = min(counts), max(counts)
    said = f"{least} to {most}" if least < most else f"{most}"
    words = "a finite number" if said == "1" else f"{said} finite numbers"
    return Form("a lower and an upper bound" if bounds else words, fits)


def optional(form: Form) -> Form:
    """None, or what has this form."""
    return Form(f"None or {form.words}", lambda value: value is None or form.fits(value))


def of_class(kind: type) -> Form:
    """An object of a class."""
    return Form(f"a kinetree.{kind.__name__}", lambda value: isinstance(value, kind))


def _array(value: Any) -> np.ndarray | None:
    """The numbers of a value, with zeros for those that are traced; None if there are others."""
    parts = list(value) if isinstance(value, tuple | list) else value
    if isinstance(parts, list):
        parts = [0.0 if isinstance(x, Tracer) else x for x in parts]
    elif isinstance(parts, Tracer):
        parts = np.zeros(parts.shape)
    try:
        array = np.asarray(parts)
    except Exception:  # of the value's own conversion
        return None
    return array if array.dtype.kind in "fiu" or array.size == 0 else None


def table(words: str, axes: int, width: int | None = None) -> Form:
    """An array with so many axes, perhaps of a width."""

    def fits(value: Any) -> bool:
        array = _array(value)
        formed = array is not None and array.ndim == axes and (width is None or array.shape[-1] == width)
        return formed and bool(np.isfinite(array).all())  # type: ignore[arg-type]

    return Form(words, fits)


NUMBER, PLACE, BOUNDS = numbers(1), numbers(3), optional(numbers(2, bounds=True))
TEXT = Form("a word", lambda value: isinstance(value, str))
FLAG = Form("True or False", lambda value: isinstance(value, bool | np.bool_))
WHOLE = Form("a whole number", is_whole)
COUNT = Form("a whole number, at least 1", lambda value: WHOLE.fits(value) and value >= 1)
TURN = Form("a quaternion (w, x, y, z)", lambda value: numbers(4).fits(value) and _has_length(value))
POSE: Table = {"position": PLACE, "orientation": TURN}


def _has_length(value: Any) -> bool:
    traced = any(isinstance(x, Tracer) for x in (value if isinstance(value, tuple | list) else [value]))
    return traced or bool(np.any(np.asarray(value)))
