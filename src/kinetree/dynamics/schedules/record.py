"""A record of the ways that calls really took, for tests and for users who want to know."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Decision(Protocol):
    """What was chosen: a `Choice`, or the `Way` of constraints and steps."""

    @property
    def body(self) -> str: ...

    @property
    def reason(self) -> str: ...


_log: ContextVar[list[tuple[str, Decision]] | None] = ContextVar("ways taken", default=None)


def note(algorithm: str, choice: Decision) -> None:
    """An algorithm is about to go this way."""
    log = _log.get()
    if log is not None:
        log.append((algorithm, choice))


@contextmanager
def recorded() -> Iterator[list[tuple[str, Decision]]]:
    """The algorithms that run inside, and their ways. What `jit` has compiled before leaves no trace."""
    log: list[tuple[str, Decision]] = []
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)
