"""Warnings that are given once for each reason, about things that work, but not as they should."""

import warnings
from threading import Lock

_told: set[str] = set()
_telling = Lock()


def warn_once(text: str) -> None:
    """Warn, unless the same text was given before in this process."""
    with _telling:
        if text in _told:
            return
        _told.add(text)
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def warn_not_native(what: str, reason: object) -> None:
    """Warn that a program runs in XLA and not in native code, and why."""
    warn_once(f"kinetree runs {what} in XLA instead of native code, with the same results but slower: {reason}")


def forget_warnings() -> None:
    """Forget which warnings were given; for tests."""
    with _telling:
        _told.clear()
