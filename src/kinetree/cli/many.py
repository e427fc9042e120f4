"""Many devices and processes on the command line: which devices a run takes, and a run by several processes."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax

import kinetree as kt
from kinetree.simulate.shares import Share


class RunPlace(NamedTuple):
    """Where a run is computed: options of `simulate`."""

    devices: str | None = None
    processes: int = 1
    share: str | None = None


HERE = RunPlace()


def devices_of(wanted: str | None) -> list[Any] | None:
    """Devices of this process: all of them, or the first N. A CPU is divided into N host devices."""
    if wanted is None:
        return None
    if wanted == "all":
        return jax.local_devices()
    if not wanted.isdigit() or int(wanted) < 1:
        raise ValueError(f"--devices is a number, or all, not {wanted!r}")
    with suppress(RuntimeError):  # JAX raises it if it has looked for devices already: too late to divide the CPU
        jax.config.update("jax_num_cpu_devices", int(wanted))
    found = jax.local_devices()
    if len(found) < int(wanted):
        raise ValueError(f"--devices {wanted}: JAX has {len(found)} here")
    return found[: int(wanted)]


def share_of(wanted: str | None) -> Share | None:
    """This process's share of a run: "2/8" is the third of eight shares."""
    if wanted is None:
        return None
    number, slash, count = wanted.partition("/")
    if not (slash and number.isdigit() and count.isdigit()):
        raise ValueError(f"--share is the number of this process and how many there are, as 0/8, not {wanted!r}")
    return int(number), int(count)


def part_of(out: Path, share: Share) -> Path:
    """Where a share of a run is saved."""
    return out.with_name(f"{out.stem}.{share[0]}of{share[1]}{out.suffix}")


def by_processes(count: int, words: list[str], out: Path) -> None:
    """Run a command line in `count` processes, each with a share of the batch, and join the files that they save."""
    command = [sys.executable, "-c", "from kinetree.cli import main; main()", *words]
    started = [
        subprocess.Popen([*command, "--share", f"{k}/{count}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for k in range(count)
    ]
    failed = None
    for k, process in enumerate(started):
        _, errors = process.communicate()
        if process.returncode:
            failed = failed or f"process {k} of {count} failed: {errors.decode().strip()[-2000:]}"
    if failed:
        raise ValueError(failed)
    parts = [part_of(out, (k, count)) for k in range(count)]
    kt.Trajectory.join([kt.Trajectory.load(part) for part in parts]).save(out)
    for part in parts:
        part.unlink()
