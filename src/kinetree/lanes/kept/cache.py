"""Compiled programs, kept on disk between processes.

The folder is KINETREE_CACHE, or the user's cache folder. An entry's name says what it was compiled from (content.py).
An entry that can not be read, or does not fit its name, is made again. Writing is a rename: two processes do no harm.
What lies there is run as machine code, so a folder or a file that others could have written is not used.
Whoever writes an entry also tidies up: the folder stays below KINETREE_CACHE_MB, and those unused for the longest go.
"""

import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import llvmlite
import llvmlite.binding as llvm
import numpy as np
from jaxlib.version import __version__ as jaxlib_version

from .. import tuning
from .content import Indescribable, describe, digest, sources
from .notice import warn_once

OTHERS_MAY_WRITE = 0o022

ENTRY = re.compile(r"\w+-[0-9a-f]{24,32}\.o")
TEMPORARY = re.compile(r"\.kinetree-\w+\.tmp|tmp\w{8}")  # the second is what earlier versions left behind


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    if given := os.environ.get("KINETREE_CACHE"):
        return Path(given)
    # A source tree may be used where nothing can be installed: without platformdirs the temporary folder serves.
    with suppress(ImportError, RuntimeError):  # a RuntimeError: there is no home folder
        from platformdirs import user_cache_path

        folder = user_cache_path("kinetree", appauthor=False)
        if folder.is_absolute():  # earlier versions of platformdirs do not raise
            return folder
    # the temporary folder is for all users, so what has this name in it must turn out to be ours
    return Path(tempfile.gettempdir()) / f"kinetree-{_user()}"


def entry_name(name: str, made_from: Any, dtype: np.dtype, kind: str, text: Callable[[], str] | None) -> str:
    """A name for a program compiled for a dtype and a kind of target: the same wherever the same code would come out.

    `made_from` is all that its LLVM text is written from; `text` writes it, where that can not be described. Without
    `text` it raises Indescribable then.
    """
    versions = f"{jax.__version__} {jaxlib_version} {llvmlite.__version__} {llvm.llvm_version_info}"
    try:
        described = describe(made_from)
    except Indescribable:
        if text is None:
            raise
        described = text()
    return f"{name}-{digest(name, described, dtype.name, kind, versions, sources())}"


def read_cached(name: str) -> bytes | None:
    """The code of an entry, or None where there is none that is whole and ours."""
    path = cache_folder() / f"{name}.o"
    try:
        if not _trusted_folder(path.parent):
            return None
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            about = os.fstat(file.fileno())
            if not _only_we_write(about):
                return None
            raw = file.read()
        if time.time() - about.st_mtime > tuning.CACHE_USED_SECONDS:
            os.utime(path)
    except OSError:
        return None
    code, check = raw[:-32], raw[-32:]
    return code if _check(name, code) == check else None


def keep_cached(name: str, code: bytes) -> None:
    """Write an entry, whole or not at all."""
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _trusted_folder(folder):
            return
        handle, temporary = tempfile.mkstemp(".tmp", ".kinetree-", folder)
        try:
            with open(handle, "wb") as file:
                file.write(code + _check(name, code))
            os.replace(temporary, folder / f"{name}.o")
        except BaseException:
            os.unlink(temporary)
            raise
        _tidy_up(folder)
    except OSError:
        pass  # a cache that can not be written costs time, nothing else


def _check(name: str, code: bytes) -> bytes:
    """What stands at the end of an entry; with its name, so that no entry can take the place of another."""
    return hashlib.sha256(name.encode() + b"\0" + code).digest()


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _only_we_write(about: os.stat_result) -> bool:
    """True if a file or folder is this user's, or the administrator's, and nobody else may write to it."""
    if not hasattr(os, "geteuid"):
        return True  # such systems keep the users' folders apart by other means
    return about.st_uid in (_user(), 0) and not stat.S_IMODE(about.st_mode) & OTHERS_MAY_WRITE


def _trusted_folder(folder: Path) -> bool:
    """True if nobody else can put files there; says so if somebody can. Raises OSError where there is no folder."""
    about = os.stat(folder)
    if _only_we_write(about):
        return True
    if about.st_uid == _user() and not os.environ.get("KINETREE_CACHE"):
        os.chmod(folder, 0o700)  # it is for nothing else; earlier versions left this to the umask
        return True
    warn_once(
        f"kinetree does not use its cache {folder}, and compiles again in each process: others may write to it. "
        "Make it yours (chown) and writable by you alone (chmod 700), or name another folder in KINETREE_CACHE"
    )
    return False


def _limit_bytes() -> int:
    given = os.environ.get("KINETREE_CACHE_MB", "").strip()
    if given and not (given.isascii() and given.isdigit()):
        instead = f"{tuning.CACHE_MAX_MB} is used"
        warn_once(f"KINETREE_CACHE_MB must be a whole number of megabytes, not {given!r}; {instead}")
        given = ""
    return int(given or tuning.CACHE_MAX_MB) << 20


def _tidy_up(folder: Path) -> None:
    """Remove what a process that was killed left behind, and the entries unused for the longest if there are many."""
    entries, limit, now = [], _limit_bytes(), time.time()
    with os.scandir(folder) as found:
        for file in found:
            try:
                about = file.stat(follow_symlinks=False)
            except OSError:
                continue  # another process was faster
            if ENTRY.fullmatch(file.name):
                entries.append((about.st_mtime, about.st_size, file.path))
            elif TEMPORARY.fullmatch(file.name) and now - about.st_mtime > tuning.CACHE_STALE_SECONDS:
                _remove(file.path)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        if total <= tuning.CACHE_KEPT_SHARE * limit:
            return
        _remove(path)
        total -= size


def _remove(path: str) -> None:
    with suppress(OSError):  # another process was faster, or it is not ours
        os.unlink(path)
