"""Compiled programs, kept on disk between processes.

What a program compiles to depends on nothing but the package's own sources, the dtype, the target and the versions;
those make its name in the cache. An entry that can not be read is made again; writing is a rename, so two processes do
no harm.
"""

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

import jax
import llvmlite
import llvmlite.binding as llvm
import numpy as np


@cache
def _sources() -> bytes:
    """What tells this text of the package, which is what programs are made of, from others: its files' sizes and times.

    Reading them all would take a third of a first call.
    """
    root = Path(__file__).parents[1]
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(".py"))
    files = ((os.path.relpath(path, root), os.stat(path)) for path in sorted(paths))
    return repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in files]).encode()


def cache_folder() -> Path:
    """Where compiled programs are kept: KINETREE_CACHE, or the user's cache folder."""
    given = os.environ.get("KINETREE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "kinetree"


def cached_entry(name: str, signature: str, dtype: np.dtype, kind: str) -> Path:
    """Where a program compiled for this dtype and kind of target is kept."""
    versions = f"{jax.__version__} {llvmlite.__version__} {llvm.llvm_version_info}"
    text = f"{name}\n{signature}\n{dtype.name}\n{kind}\n{versions}".encode() + _sources()
    return cache_folder() / f"{name}-{hashlib.sha256(text).hexdigest()[:24]}.o"


def read_cached(path: Path) -> bytes | None:
    """The object code of an entry, or None where there is none that is whole."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    code, digest = raw[:-32], raw[-32:]
    return code if hashlib.sha256(code).digest() == digest else None


def keep_cached(path: Path, code: bytes) -> None:
    """Write an entry, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(code + hashlib.sha256(code).digest())
        os.replace(file.name, path)
    except OSError:
        pass  # a cache that can not be written costs time, nothing else
