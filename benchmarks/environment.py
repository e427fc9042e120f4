"""What figures were measured with: commit, versions, device, processor, threads."""

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

import kinetree as kt
from kinetree.lanes.cpu.threads import threads

PACKAGES = ("jax", "jaxlib", "numpy", "llvmlite")
SETTINGS = ("KINETREE_AVX512", "KINETREE_NATIVE")  # variables that change what is measured


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""  # no git on this machine


def _commit() -> str:
    """The commit; a plus where src/ has changed since."""
    return _git("rev-parse", "--short", "HEAD") + "+" * bool(_git("status", "--porcelain", "../src"))


def _processor() -> str:
    """The CPU's own name for itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def package_version(name: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _load(seconds: float = 0.5) -> float | None:
    """How many cores others kept busy in the moment before the run; what this process did before it is not in it."""
    try:
        before = _ticks()
        time.sleep(seconds)
        after = _ticks()
    except OSError:
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    total, idle = (b - a for a, b in zip(before, after, strict=True))
    return round((1 - idle / max(1, total)) * (os.cpu_count() or 1), 2)


def _ticks() -> tuple[int, int]:
    """Of all cores since the machine started, in all and idle."""
    numbers = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def environment(commit: str | None = None) -> dict[str, Any]:
    """The part of a record that all cases of a run share.

    Arguments:
        commit: for a copy of the sources that git does not know.
    """
    device = jax.devices()[0]
    return {
        "commit": commit or _commit(),
        "kinetree": kt.__version__,
        "python": platform.python_version(),
        **{name: package_version(name) for name in PACKAGES},
        "platform": device.platform,
        "device": device.device_kind,
        "processor": _processor(),
        "threads": threads(),
        "load": _load(),
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }
