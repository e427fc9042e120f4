"""Objects that are made once, by the first thread that needs them, and kept.

`functools.cache` has no such lock: if two threads ask at the same time, both make the object and one of the two is
dropped, perhaps after XLA got its address. Here the second thread waits for the first. Each key has its own lock, so
different objects are made side by side, and making one may need others. A failure is not kept: the next caller tries
again.
"""

import ctypes
import os
from collections.abc import Callable, Hashable
from functools import update_wrapper
from threading import Lock, RLock
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakSet

P = ParamSpec("P")
T = TypeVar("T")


class Once(Generic[T]):
    """Values by key. The first caller makes the value of a key."""

    def __init__(self) -> None:
        self._values: dict[Hashable, T] = {}
        self._forget_locks()
        _everything.add(self)

    def _forget_locks(self) -> None:
        self._guard = Lock()
        self._making: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; `make()` if there is none."""
        try:
            return self._values[key]
        except KeyError:
            pass
        with self._guard:
            lock = self._making.setdefault(key, RLock())
        with lock:
            if key not in self._values:
                self._values[key] = make()
            value = self._values[key]
        with self._guard:
            self._making.pop(key, None)  # a thread that still waits for this lock will find the value
        return value

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()


class OncePerOwner(Generic[T]):
    """Values by owner and key. They die with their owner, so no value may refer to its owner."""

    def __init__(self) -> None:
        self._owners: WeakKeyDictionary[Any, Once[T]] = WeakKeyDictionary()
        self._forget_locks()
        _everything.add(self)

    def _forget_locks(self) -> None:
        self._guard = Lock()

    def get(self, owner: Any, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key of an owner; `make()` if there is none."""
        with self._guard:
            kept = self._owners.get(owner)
            if kept is None:
                kept = self._owners[owner] = Once()
        return kept.get(key, make)

    def __len__(self) -> int:
        """How many owners there are."""
        return len(self._owners)

    def clear(self) -> None:
        """Forget all values."""
        with self._guard:
            self._owners.clear()


class OnceFunction(Generic[P, T]):
    """A function of hashable arguments that is called once for each set of them."""

    def __init__(self, function: Callable[P, T]):
        self._function, self._kept = function, Once[T]()
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (args, tuple(sorted(kwargs.items()))) if kwargs else args
        return self._kept.get(key, lambda: self._function(*args, **kwargs))

    def cache_clear(self) -> None:
        """Forget all results."""
        self._kept.clear()


def once(function: Callable[P, T]) -> OnceFunction[P, T]:
    """Decorator: call the function once in a process for each set of arguments, and keep the results."""
    return OnceFunction(function)


def immortal(thing: T) -> T:
    """Keep an object until the process ends: native threads and XLA may outlive the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


_everything: WeakSet[Any] = WeakSet()


def _after_fork() -> None:
    for each in list(_everything):
        each._forget_locks()  # the threads that held them stayed in the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
