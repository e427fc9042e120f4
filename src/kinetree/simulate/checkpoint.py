"""Checkpoints: a run that was killed continues from its last one, bit for bit.

A checkpoint is the state after some step and all records so far. The loop that makes the steps is the same compiled
program for any number of steps, and time is counted in steps. So the place where a run was cut does not change its
result.
"""

import dataclasses
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinetree.model import State

from .identity import NoIdentity, identity
from .trajectory import check_target, read_arrays, write_arrays

FORMAT = "kinetree checkpoint 3"
STATE = tuple(f.name for f in dataclasses.fields(State))


class Progress(NamedTuple):
    """How far a run has come: steps made, the state there, and the records so far, as lists of arrays."""

    steps: int
    state: State
    records: dict[str, list[np.ndarray]]


def fingerprint(*what: Any) -> str | NoIdentity:
    """The identity of a run: mechanism, start, step, integrator and controller; or the reason why it has none."""
    try:
        return identity(*what)
    except NoIdentity as error:
        return error


class Checkpoint:
    """A file that is written regularly: often enough to lose little, seldom enough to cost little."""

    def __init__(self, path: str | os.PathLike[str], identity: str | NoIdentity, every: float, owner: bool = True):
        check_target(path)
        self.path, self.identity, self.every = Path(path), identity, every
        self.last, self.cost = time.monotonic(), 0.0
        if owner:
            for left in self.path.parent.glob(f".{self.path.name}.*.partial"):  # of a process killed while writing
                left.unlink(missing_ok=True)

    def read(self) -> Progress | None:
        """The progress of the run, or None if it has not begun."""
        if not self.path.exists():
            return None
        arrays = read_arrays(self.path)
        if "identity" not in arrays:
            raise ValueError(f"{self.path} is not a checkpoint")
        if isinstance(self.identity, NoIdentity):
            raise ValueError(
                f"{self.path} can not be continued: it is unknown if it belongs to this run, because the controller "
                f"uses {self.identity}. Remove the file, or let the controller use only numbers, arrays and functions"
            )
        if str(arrays["identity"]) != self.identity:
            raise ValueError(
                f"{self.path} belongs to another run (model, start, dt, record, integrator or controller "
                "differ, or what the controller uses): remove it or choose another path"
            )
        records = {name[7:]: [a] for name, a in arrays.items() if name.startswith("record_")}
        state = State(*(arrays[name] for name in STATE))
        return Progress(int(arrays["steps"]), state, records)

    def due(self) -> bool:
        """True if it is time: `every` seconds, and at most a tenth of the time spent on writing."""
        return time.monotonic() - self.last >= max(self.every, 10 * self.cost if self.every else 0.0)

    def write(self, progress: Progress) -> None:
        """Replace the file. If that fails, as on a full disk, warn; the run goes on, and the next write may succeed."""
        try:
            self._write(progress)
        except OSError as error:
            self.last = time.monotonic()
            warnings.warn(
                f"checkpoint {self.path} could not be written: {error}. The run goes on, and tries again at the next "
                "checkpoint",
                RuntimeWarning,
                stacklevel=4,
            )

    def _write(self, progress: Progress) -> None:
        began = time.monotonic()
        for parts in progress.records.values():  # join them once, not at each checkpoint
            parts[:] = [np.concatenate(parts)]
        records = {f"record_{name}": parts[0] for name, parts in progress.records.items()}
        head = {"format": np.array(FORMAT), "identity": np.array(str(self.identity)), "steps": np.array(progress.steps)}
        write_arrays(self.path, {**head, **{name: getattr(progress.state, name) for name in STATE}, **records})
        self.last = time.monotonic()
        self.cost = self.last - began
