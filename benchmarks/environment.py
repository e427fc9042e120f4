"""What figures were measured with: commit, versions, device, processor, threads."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

import kinetree as kt
from kinetree.lanes.threads import threads

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
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,  # of the machine, before the run
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }
