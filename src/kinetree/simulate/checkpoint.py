"""Checkpoints: a run that was killed continues from its last one, bit for bit.

A checkpoint is the state after some step and all records so far. The loop that makes the steps is the same compiled
program whatever number of steps it is asked for, and time is counted in steps, so where a run was cut leaves no trace
in its result.
"""

import dataclasses
import hashlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.model import Model, State

from .trajectory import read_arrays, write_arrays

FORMAT = "kinetree checkpoint 2"
STATE = tuple(f.name for f in dataclasses.fields(State))


class Progress(NamedTuple):
    """How far a run has come: steps made, the state there, and the records so far, as lists of arrays."""

    steps: int
    state: State
    records: dict[str, list[np.ndarray]]


def fingerprint(model: Model, *what: Any) -> str:
    """What a run is: mechanism, start, step, integrator. A controller is known by its name only."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(model):
        digest.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    for array in (model.structure.parent, model.structure.joint_code):
        digest.update(array.tobytes())
    for thing in what:
        digest.update(thing.tobytes() if isinstance(thing, np.ndarray) else repr(thing).encode())
    return digest.hexdigest()


class Checkpoint:
    """A file, written now and then: often enough to lose little, seldom enough to cost little."""

    def __init__(self, path: str | os.PathLike[str], identity: str, every: float):
        self.path, self.identity, self.every = Path(path), identity, every
        self.last, self.cost = time.monotonic(), 0.0
        for left in self.path.parent.glob(f".{self.path.name}.*.partial"):  # of a process that was killed while writing
            left.unlink(missing_ok=True)

    def read(self) -> Progress | None:
        """Where the run stands, or None if it has not begun."""
        if not self.path.exists():
            return None
        arrays = read_arrays(self.path)
        if "identity" not in arrays:
            raise ValueError(f"{self.path} is not a checkpoint")
        if str(arrays["identity"]) != self.identity:
            raise ValueError(
                f"{self.path} belongs to another run (model, start, dt, record, integrator or controller "
                "differ): remove it or choose another path"
            )
        records = {name[7:]: [a] for name, a in arrays.items() if name.startswith("record_")}
        state = State(*(arrays[name] for name in STATE))
        return Progress(int(arrays["steps"]), state, records)

    def due(self) -> bool:
        """Whether it is time: `every` seconds, and at most a tenth of the time spent on writing."""
        return time.monotonic() - self.last >= max(self.every, 10 * self.cost if self.every else 0.0)

    def write(self, progress: Progress) -> None:
        """Replace the file."""
        began = time.monotonic()
        for parts in progress.records.values():  # join them once, not at each checkpoint again
            parts[:] = [np.concatenate(parts)]
        records = {f"record_{name}": parts[0] for name, parts in progress.records.items()}
        head = {"format": np.array(FORMAT), "identity": np.array(self.identity), "steps": np.array(progress.steps)}
        write_arrays(self.path, {**head, **{name: getattr(progress.state, name) for name in STATE}, **records})
        self.last = time.monotonic()
        self.cost = self.last - began
