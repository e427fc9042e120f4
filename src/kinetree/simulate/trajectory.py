"""The result of a run: states over time, saved and loaded as one .npz."""

import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinetree.model import Model
from kinetree.model.required import require_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "kinetree trajectory 1"


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States of a simulation.

    Attributes:
        time: (records,), seconds.
        q, qd: (records, *batch, nq), (records, *batch, nv).
        tau: the forces of the controller in those states, (records, *batch, nv).
    """

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray

    plotter: ClassVar[Callable[..., "Figure"] | None] = None  # the function that draws it; the package `view` sets it

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, which: slice | int) -> "Trajectory":
        """Some of the records, or a single one."""
        if isinstance(which, int | np.integer):
            at = range(len(self))[which]
            which = slice(at, at + 1)
        return Trajectory(*(a[which] for a in self._arrays()))

    def __repr__(self) -> str:
        span = f"{self.time[0]:g} to {self.time[-1]:g} s" if len(self) else "empty"
        sizes = f"nq={self.q.shape[-1]}, nv={self.qd.shape[-1]}"
        return f"Trajectory({len(self)} records, {span}, batch {self.batch}, {sizes})"

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.time, self.q, self.qd, self.tau

    @property
    def batch(self) -> tuple[int, ...]:
        """Axes of the states of one moment."""
        return self.q.shape[1:-1]

    @property
    def final(self) -> tuple[np.ndarray, np.ndarray]:
        """q and qd at the end."""
        return self.q[-1], self.qd[-1]

    def plot(self, model: Model | None = None, *, state: int | None = None) -> "Figure":
        """A figure of positions, velocities and forces over time: `kinetree.view.plots.trajectory`.

        Arguments:
            model: gives names and units.
            state: draw this state of a batch alone, in place of the median and a band.

        Returns:
            A matplotlib Figure: `.savefig("run.pdf")` writes it, a notebook shows it. Needs the extra `plot`.
        """
        assert Trajectory.plotter is not None, "kinetree/__init__.py sets it"
        return Trajectory.plotter(self, model, state=state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one .npz. The file is never left half written."""
        write_arrays(path, {"format": np.array(FORMAT), **vars(self)})

    @staticmethod
    def join(parts: "Sequence[Trajectory]") -> "Trajectory":
        """Runs of several shares (`kinetree.simulate(share=...)`), side by side along the first batch axis."""
        if not parts or any(not np.array_equal(p.time, parts[0].time) for p in parts):
            raise ValueError("runs that are joined must be recorded at the same times")
        if len(parts) == 1:
            return parts[0]
        return Trajectory(
            parts[0].time, *(np.concatenate(x, 1) for x in zip(*(p._arrays()[1:] for p in parts), strict=True))
        )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Trajectory":
        """Read what `save` wrote."""
        arrays = read_arrays(path)
        missing = [name for name in ("time", "q", "qd") if name not in arrays]
        if missing:
            raise ValueError(f"{os.fspath(path)} is not a trajectory: it has no {', '.join(missing)}")
        time, q, qd = (arrays[name] for name in ("time", "q", "qd"))
        tau = arrays.get("tau", np.zeros_like(qd))
        if q.ndim < 2 or time.shape != q.shape[:1] or q.shape[:-1] != qd.shape[:-1] or tau.shape != qd.shape:
            shapes = f"time {time.shape}, q {q.shape}, qd {qd.shape}, tau {tau.shape}"
            raise ValueError(f"{os.fspath(path)} is not a trajectory: its shapes do not fit, {shapes}")
        return Trajectory(time, q, qd, tau)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz."""
    require_path("path", path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no file {os.fspath(path)}")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{os.fspath(path)} can not be read: it is not an .npz file")
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:
        raise ValueError(f"{os.fspath(path)} can not be read as .npz: {error}") from None


def check_target(path: str | os.PathLike[str]) -> None:
    """An error that says why a file can not be written."""
    require_path("path", path)
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no folder {target.parent} to write {target.name} in")


def write_arrays(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Write an .npz under another name, flush it to disk, then rename it: no reader sees an incomplete file."""
    check_target(path)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
