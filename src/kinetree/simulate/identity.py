"""The identity of a run, as a hash: its mechanism, its numbers, and its controller with all that it refers to.

A controller is a function of three arguments, but its result also depends on its code, the values it closes over, its
defaults, the attributes of its object, and the globals it names. All of these are followed, through partials,
containers, dataclasses and other functions. Functions of installed packages are identified by their code and the values
they close over. Objects that can not be followed (a generator, an open file, an object without attributes) have no
identity.
"""

import dataclasses
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from kinetree.model import Model

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.MethodWrapperType, np.ufunc)
INSTALLED = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class NoIdentity(TypeError):
    """An object can not be distinguished from others like it."""


def identity(*what: Any) -> str:
    """A hash of these objects. Raises NoIdentity, which names the object that can not be followed."""
    return _Digest().of(what).hex()


class _Digest:
    def __init__(self) -> None:
        self.seen: dict[int, int] = {}  # objects being followed, so that cycles end
        self.kept: list[Any] = []  # objects kept alive, so that no id is used twice

    def of(self, thing: Any) -> bytes:
        if isinstance(thing, PLAIN):
            return _hash(type(thing).__name__, repr(thing))
        if id(thing) in self.seen:
            return _hash("again", str(self.seen[id(thing)]))
        self.seen[id(thing)] = len(self.seen)
        self.kept.append(thing)
        return _hash(type(thing).__module__, type(thing).__qualname__, *self.parts(thing))

    def parts(self, thing: Any) -> Iterator[bytes | str]:
        """The parts of an object, in an order that is the same in every process."""
        if isinstance(thing, np.ndarray | np.generic | jax.Array):
            yield from self.array(thing)
        elif isinstance(thing, Model):
            yield from self.model(thing)
        elif isinstance(thing, Mapping):
            yield from sorted(self.of(key) + self.of(value) for key, value in thing.items())
        elif isinstance(thing, set | frozenset):
            yield from sorted(map(self.of, thing))
        elif isinstance(thing, tuple | list):
            yield from map(self.of, thing)
        elif isinstance(thing, functools.partial):
            yield from map(self.of, (thing.func, thing.args, thing.keywords))
        elif isinstance(thing, types.MethodType):
            yield from map(self.of, (thing.__func__, thing.__self__))
        elif isinstance(thing, types.FunctionType):
            yield from self.function(thing)
        elif isinstance(thing, types.CodeType):
            yield from self.code(thing)
        elif isinstance(thing, (*BUILTIN, types.ModuleType, type, np.dtype)):
            yield getattr(thing, "__qualname__", None) or getattr(thing, "__name__", repr(thing))
        else:
            yield from self.object(thing)

    def array(self, array: Any) -> Iterator[bytes | str]:
        """Type, shape and numbers."""
        if isinstance(array, Tracer):
            raise NoIdentity("a value that JAX is tracing")
        array = np.asarray(array)
        if array.dtype.hasobject:
            raise NoIdentity("an array of Python objects")
        yield from (str(array.dtype), str(array.shape), np.ascontiguousarray(array).tobytes())

    def model(self, model: Model) -> Iterator[bytes]:
        """All numbers, the tree, the joints with their names, and which joint follows which."""
        s, coupling = model.structure, model.coupling
        yield from map(self.array_hash, jax.tree.leaves(model))
        yield self.of((str(jax.tree.structure(dataclasses.replace(model, structure=None, coupling=None))),))  # type: ignore[arg-type]
        yield from map(self.array_hash, (s.parent, s.joint_code))
        yield self.of((repr(s.joints), s.names, s.joint_names))
        yield self.of(None if coupling is None else vars(coupling)["_key"])

    def array_hash(self, array: Any) -> bytes:
        """The hash of an array that need not be remembered."""
        return _hash(*self.array(array))

    def function(self, function: types.FunctionType) -> Iterator[bytes | str]:
        """Code, defaults, the values it closes over, and the globals that it names."""
        yield from map(self.of, (function.__code__, function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                yield self.of(cell.cell_contents)
            except ValueError:  # the cell is empty
                yield b"empty"
        if not _installed(function):
            for name in sorted(_names(function.__code__)):
                if name in function.__globals__:
                    yield self.of((name, function.__globals__[name]))

    def code(self, code: types.CodeType) -> Iterator[bytes]:
        """Instructions and names, without files and line numbers."""
        yield from map(self.of, (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_consts))

    def object(self, thing: Any) -> Iterator[bytes | str]:
        """Attributes, and the function behind a call of the object."""
        if wrapped := getattr(thing, "__wrapped__", None):  # functions under jax.jit and other decorators
            yield self.of(wrapped)
            return
        slots = [s for c in type(thing).__mro__ for s in getattr(c, "__slots__", ()) if hasattr(thing, s)]
        attributes = getattr(thing, "__dict__", None)
        if (attributes is None and not slots) or isinstance(thing, types.GeneratorType) or hasattr(thing, "fileno"):
            raise NoIdentity(f"{type(thing).__name__} {thing!r}"[:200])
        yield self.of(dict(attributes or {}))
        yield from (self.of((name, getattr(thing, name))) for name in sorted(slots) if not name.startswith("__"))
        for kind in type(thing).__mro__:
            if not _installed(kind):
                yield from (self.of((k, _unbound(v))) for k, v in sorted(vars(kind).items()) if _matters(k, v))


def _hash(*parts: bytes | str) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def _unbound(member: Any) -> Any:
    """The function behind a method of a class."""
    return member.fget if isinstance(member, property) else getattr(member, "__func__", member)


def _matters(name: str, member: Any) -> bool:
    """True if a member of a class is something that its author wrote."""
    written = isinstance(_unbound(member), types.FunctionType | np.ndarray | jax.Array)
    return written or (isinstance(member, PLAIN) and not name.startswith("__"))


def _names(code: types.CodeType) -> set[str]:
    """Names that a function and those defined in it look up."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _installed(function: Callable | type) -> bool:
    """True if a function or class belongs to an installed package or to this one, so that its code identifies it."""
    module = function.__module__ or ""
    if module.split(".")[0] == "kinetree":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    shipped = module.split(".")[0] in sys.stdlib_module_names and module != "__main__"
    return shipped or (file is not None and file.startswith(INSTALLED))
