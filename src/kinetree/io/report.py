"""What a loader has to say about a file besides the model."""

from collections import Counter
from dataclasses import dataclass, field


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


def few(names: list[str], most: int = 5) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
