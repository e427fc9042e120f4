"""Names for compiled code, made from everything that the code depends on.

Machine code depends on the steps of a program, on the emitter, on versions and on the target. To trace the steps would
be exact, but takes longer than to load the code (20 to 40 ms against 5). So a step of this package is described by its
place in the sources, whose text is part of every name (3 ms, once in a process), and by everything that it closes over.
If a step closes over something that can not be described, or comes from another package, the whole LLVM text is the
description.
"""

import dataclasses
import hashlib
import os
from functools import cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import jax
import numpy as np

from .once import once

PACKAGE = __name__.split(".")[0]
VERSIONED = (PACKAGE, "jax", "jaxlib", "numpy", "builtins")  # packages whose text or version is part of every name
PLAIN = (bool, int, float, complex, str, bytes, np.dtype, np.generic)
DIGEST_LENGTH = 32  # characters, see `digest`


class Indescribable(Exception):
    """An object has no complete description."""


def describe(x: Any) -> str:
    """A text with all that the code made from an object can depend on. Raises Indescribable if that is not known."""
    try:
        return _describe(x, {})
    except (RecursionError, ValueError) as error:  # it refers to itself, or to a variable that is not set yet
        raise Indescribable(str(error)) from error


Known = dict[
    int, tuple[Any, str]
]  # By address: the object, kept alive so that no other one gets its address, and its description.


def _describe(x: Any, known: Known) -> str:
    """Each object is described once. A long description becomes a digest: steps of one program share objects."""
    if x is None or isinstance(x, PLAIN):
        return f"{type(x).__name__}:{x!r}"
    if id(x) not in known:
        text = _description(x, known)
        known[id(x)] = x, text if len(text) <= DIGEST_LENGTH else digest(text)
    return known[id(x)][1]


def _description(x: Any, known: Known) -> str:
    if isinstance(x, jax.tree_util.PyTreeDef):
        return str(x)
    if isinstance(x, tuple | list):
        return f"{_name(type(x))}({', '.join(_describe(y, known) for y in x)})"
    if isinstance(x, dict):
        return f"{{{', '.join(f'{_describe(k, known)}: {_describe(v, known)}' for k, v in x.items())}}}"
    if isinstance(x, np.ndarray):
        return f"array({x.shape}, {x.dtype}, {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()})"
    if isinstance(x, FunctionType):
        return _of_function(x, known)
    if isinstance(x, MethodType):
        return f"{_describe(x.__func__, known)} of {_describe(x.__self__, known)}"
    if isinstance(x, partial):
        return f"partial{_describe((x.func, x.args, x.keywords), known)}"
    if isinstance(x, type | BuiltinFunctionType | np.ufunc | jax.numpy.ufunc) or hasattr(x, "__wrapped__"):
        return _name(x)
    if dataclasses.is_dataclass(x):
        fields = {f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
        return f"{_name(type(x))}{_describe(fields, known)}"
    if type(x).__module__.split(".")[0] == PACKAGE and hasattr(x, "__dict__"):
        return f"{_name(type(x))}{_describe(vars(x), known)}"
    raise Indescribable(f"{type(x).__name__} says nothing of what it is")


def _name(x: Any) -> str:
    """The name of an object that is defined in a package and closes over nothing."""
    module, name = getattr(x, "__module__", None) or "builtins", getattr(x, "__qualname__", None) or x.__name__
    if module.split(".")[0] not in VERSIONED or "<" in name:
        raise Indescribable(f"{module}.{name} comes from elsewhere")
    return f"{module}.{name}"


def _of_function(f: FunctionType, known: Known) -> str:
    if (f.__module__ or "").split(".")[0] not in VERSIONED:
        raise Indescribable(f"{f.__module__}.{f.__qualname__} comes from elsewhere")
    held = [_describe(cell.cell_contents, known) for cell in f.__closure__ or ()]
    defaults = _describe((f.__defaults__, f.__kwdefaults__), known)
    return f"{f.__module__}.{f.__qualname__}{_of_code(f.__code__)}({', '.join(held)}; {defaults})"


@cache
def _of_code(code: CodeType) -> str:
    """A text that distinguishes functions of the same name, such as two lambdas on one line."""
    constants = [_of_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    text = repr((code.co_firstlineno, code.co_names, code.co_varnames, constants)).encode() + code.co_code
    return f"@{code.co_firstlineno}:{hashlib.sha256(text).hexdigest()[:12]}"


ROOT = Path(__file__).parents[2]  # root of the package: steps of all rooms become machine code


def source_files() -> list[str]:
    """The package's own sources."""
    return sorted(
        os.path.join(folder, name) for folder, _, names in os.walk(ROOT) for name in names if name.endswith(".py")
    )


@once
def sources() -> str:
    """A digest of the package's own sources."""
    digest = hashlib.sha256()
    for path in source_files():
        with open(path, "rb") as file:
            text = file.read()
        digest.update(f"{os.path.relpath(path, ROOT)} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def digest(*parts: str) -> str:
    """A short name for texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGEST_LENGTH]
