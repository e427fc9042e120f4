"""JSON lines: one record to a line, written as soon as it is there, so that a run that is stopped keeps what it has."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def append(path: Path, record: Record) -> None:
    """Add a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def read(paths: Iterable[Path]) -> list[Record]:
    """All records of some files, in order."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines() if line.strip()]
