"""A record of which ways were really taken, for tests and for the curious."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .choose import Choice

_log: ContextVar[list[tuple[str, Choice]] | None] = ContextVar("ways taken", default=None)


def note(algorithm: str, choice: Choice) -> None:
    """An algorithm is about to go this way."""
    log = _log.get()
    if log is not None:
        log.append((algorithm, choice))


@contextmanager
def recorded() -> Iterator[list[tuple[str, Choice]]]:
    """The algorithms that run inside, and their ways. What `jit` has compiled before leaves no trace."""
    log: list[tuple[str, Choice]] = []
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)
