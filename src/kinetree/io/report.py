"""What a loader has to say about a file besides the model."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kinetree.model import Model, ModelError

LOOKS = {"<visual>", "<material>"}  # of URDF: the viewer shows them, and dynamics has no use for them


class NotModelled(UserWarning):
    """The file asks for something that kinetree does not model."""


@dataclass
class Report:
    """Where a model came from, what in the file has no part in it, and what is odd about it."""

    file: str
    format: str
    name: str = ""
    ignored: Counter[str] = field(default_factory=Counter)  # what is in the file but not in the model, with counts
    warnings: list[str] = field(default_factory=list)

    def warn(self, what: str) -> None:
        """Keep a warning, told once the model is there."""
        self.warnings.append(f"{self.file}: {what}")

    @property
    def not_modelled(self) -> str:
        """One line for all that a user could miss; empty where there is nothing."""
        listed = ", ".join(f"{what}: {n}" for what, n in self.ignored.items() if what not in LOOKS)
        return f"{self.file}: in the file, but not in the model: {listed}" if listed else ""

    def look_at(self, model: Model) -> None:
        """Note what is odd about the whole model."""
        if model.nv and not model.total_mass:
            self.warn("nothing that moves has mass, so forces have no accelerations; look for <inertial> in the file")


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Put the file's name before the message of a ModelError that does not know where it comes from."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


def few(names: list[str], most: int = 5) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
