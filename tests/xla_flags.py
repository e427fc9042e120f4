"""Flags that make XLA compile faster, of those that the installed version knows: an unknown one ends the process."""

import mmap
from importlib.util import find_spec
from pathlib import Path

# With two processes on two cores, code generation on several threads is work for nothing: one takes 15 % less in all.
WANTED = {"xla_cpu_parallel_codegen_split_count": "1"}

# The older way to write loops takes 40 % less to compile. An unknown extra option is left alone.
EXTRA = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"


def known(name: str) -> bool:
    """Whether XLA has a flag: then its library has the name, as a string of its own."""
    spec = find_spec("jaxlib")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    for library in folder.glob("libjax_common.*"):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return text.find(b"\0" + name.encode() + b"\0") >= 0
    return False


def flags(given: str) -> str:
    """The value of XLA_FLAGS: what the caller has given comes later, and wins."""
    if EXTRA in given:  # a process started by the one that has set them
        return given
    return " ".join([EXTRA, *(f"--{name}={value}" for name, value in WANTED.items() if known(name)), given])
