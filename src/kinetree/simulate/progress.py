"""A progress bar for runs that take long, where rich is installed and somebody is looking."""

import sys
import time
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds before the bar appears


class ProgressBar:
    """Shown after `PATIENCE` seconds if `wanted`, or, with None, if the error stream is a terminal."""

    def __init__(self, total: int, wanted: bool | None):
        self.total, self.began = total, time.monotonic()
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.patience = PATIENCE if wanted is None else 0.0
        self.bar: Any = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: int, seconds: float) -> None:
        """Steps made, and the simulated time they have reached."""
        if not self.wanted or time.monotonic() - self.began < self.patience:
            return
        if self.bar is None:
            self._start()
        if self.bar is not None:
            self.bar.update(self.task, completed=done, simulated=f"{seconds:.6g} s simulated")

    def _start(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError:
            self.wanted = False
            return
        columns = (
            BarColumn(),
            TextColumn("{task.percentage:.0f} %  {task.fields[simulated]}  left:"),
            TimeRemainingColumn(),
        )
        self.bar = Progress("simulating", *columns, console=Console(stderr=True))
        self.task = self.bar.add_task("", total=self.total, simulated="")
        self.bar.start()
