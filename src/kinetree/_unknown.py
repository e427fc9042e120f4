"""Messages about a name that does not exist: similar names, and the names that exist."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

MAX_LISTED = 12  # names; a longer list of bodies is not printed
MAX_SEARCHED = 5_000  # names; to compare one takes about 10 µs, and an error should come at once


def nearest(name: object, choices: Iterable[str]) -> str | None:
    """The name that was probably meant, capitals aside; None if no name is near."""
    known = list(islice((str(c) for c in choices), MAX_SEARCHED))
    of_lower_case: dict[str, list[str]] = {}
    for choice in known:
        of_lower_case.setdefault(choice.lower(), []).append(choice)
    near = get_close_matches(str(name).lower(), of_lower_case, n=1)
    if not near:
        return None
    meant = of_lower_case[near[0]]  # Names that differ in capitals alone: the one written most like it.
    return meant[0] if len(meant) == 1 else get_close_matches(str(name), meant, n=1, cutoff=0.0)[0]


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """To be put behind a message: ": did you mean 'elbow'?", or the names where they are few, or nothing."""
    known = list(islice(choices, MAX_SEARCHED))
    near = nearest(name, known)
    if near is not None:
        return f": did you mean {near!r}?"
    return f": there are {', '.join(map(repr, known))}" if 0 < len(known) <= MAX_LISTED else ""


def unknown(kind: str, name: object, choices: Iterable[str], where: str = "") -> str:
    """The message for a word that is none of a few.

    Arguments:
        kind: what the word is, in the singular: "schedule", "method".
        name: what was given.
        choices: all that could be given.
        where: goes behind the name, with a space in front.
    """
    words = list(choices)
    if not isinstance(name, str):
        return f"{kind} must be a word{where}, not of type {type(name).__name__}: choose from {', '.join(words)}"
    near = nearest(name, words)
    hint = "choose from" if near is None else f"did you mean {near!r}? Choose from"
    return f"unknown {kind} {name!r}{where}: {hint} {', '.join(words)}"


def require_word(kind: str, word: object, choices: Iterable[str]) -> None:
    """Refuse a value that is not one of a few words. Arrays are refused, too; they can not be compared with words."""
    words = tuple(choices)
    if not (isinstance(word, str) and word in words):
        raise ValueError(unknown(kind, word, words))
