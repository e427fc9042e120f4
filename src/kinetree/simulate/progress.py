"""A progress bar for long runs, if rich is installed and the output is a terminal."""

import sys
import threading
import time
from types import TracebackType
from typing import Any

BAR_DELAY_SECONDS = 2.0  # seconds before the bar appears


class ProgressBar:
    """Shown after `BAR_DELAY_SECONDS` seconds if `wanted`, or, with None, if the error stream is a terminal.

    Until the first steps are made it says that they are compiled, which may take longer than all the others.
    """

    def __init__(self, total: int, wanted: bool | None):
        self.total = total
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.patience = BAR_DELAY_SECONDS if wanted is None else 0.0
        self.bar: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(self.patience, self._start)
        self._timer.daemon = True

    def __enter__(self) -> "ProgressBar":
        self.began = time.monotonic()
        if self.wanted:
            self._timer.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self.wanted = False  # A timer that has just fired starts nothing.
            if self.bar is not None:
                self.bar.stop()

    def update(self, done: int, seconds: float) -> None:
        """Steps made, and the simulated time they have reached."""
        if self.wanted and time.monotonic() - self.began >= self.patience:
            self._start()
            if self.bar is not None:
                words = f"{100 * done / max(1, self.total):.0f} %  {seconds:.6g} s simulated  left:"
                self.bar.update(self.task, total=self.total, completed=done, words=words)

    def _start(self) -> None:
        """Show the bar, once: here, or from the timer's thread."""
        with self._lock:
            if self.bar is not None or not self.wanted:
                return
            try:
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
            except ImportError:
                self.wanted = False
                return
            columns = (BarColumn(), TextColumn("{task.fields[words]}"), TimeRemainingColumn())
            self.bar = Progress("simulating", *columns, console=Console(stderr=True))
            self.task = self.bar.add_task("", total=None, words="compiling the first steps")
            self.bar.start()
