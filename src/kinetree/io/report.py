"""Reports about a file: parts that were ignored, and warnings."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kinetree.model import Model, ModelError

LOOKS = {"<visual>", "<material>"}  # elements of URDF that the viewer shows and dynamics does not use


class NotModelled(UserWarning):
    """The file asks for something that kinetree does not model."""


@dataclass
class Report:
    """The source of a model, the parts of the file that were ignored, and warnings about it."""

    file: str
    format: str
    name: str = ""
    ignored: Counter[str] = field(default_factory=Counter)  # what is in the file but not in the model, with counts
    warnings: list[str] = field(default_factory=list)

    def warn(self, what: str) -> None:
        """Keep a warning until the model is complete."""
        self.warnings.append(f"{self.file}: {what}")

    @property
    def not_modelled(self) -> str:
        """One line about all ignored parts; empty if there are none."""
        listed = ", ".join(f"{what}: {n}" for what, n in self.ignored.items() if what not in LOOKS)
        return f"{self.file}: in the file, but not in the model: {listed}" if listed else ""

    def look_at(self, model: Model) -> None:
        """Note warnings about the whole model."""
        if model.nv and not model.total_mass:
            self.warn("nothing that moves has mass, so forces have no accelerations; look for <inertial> in the file")


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Put the file's name before the message of a ModelError that does not name it."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


def few(names: list[str], most: int = 5) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
