"""Compiled programs, kept on disk between processes.

The folder is KINETREE_CACHE, or the user's cache folder. An entry's name says what it was compiled from (content.py).
An entry that can not be read, or does not fit its name, is made again. Entries are written by a rename, so two
processes can write the same one. Entries run as machine code, so a folder or file that other users could have written
is not used. After each write the folder is tidied up: it stays below KINETREE_CACHE_MB, and the entries unused for
longest are deleted.
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
TEMPORARY = re.compile(r"\.kinetree-\w+\.tmp|tmp\w{8}")  # the second form comes from earlier versions


def cache_folder() -> Path:
    """The folder of compiled programs."""
    if given := os.environ.get("KINETREE_CACHE"):
        return Path(given)
    # A source tree may be used without its dependencies: without platformdirs the temporary folder is used.
    with suppress(ImportError, RuntimeError):  # a RuntimeError: there is no home folder
        from platformdirs import user_cache_path

        folder = user_cache_path("kinetree", appauthor=False)
        if folder.is_absolute():  # earlier versions of platformdirs do not raise
            return folder
    # All users write to the temporary folder, so a folder of this name is checked before its use.
    return Path(tempfile.gettempdir()) / f"kinetree-{_user()}"


def entry_name(name: str, made_from: Any, dtype: np.dtype, kind: str, text: Callable[[], str] | None) -> str:
    """A name for a program compiled for a dtype and a kind of target. Equal names mean equal code.

    `made_from` is all that the LLVM text depends on. If it can not be described, `text` writes the LLVM text, which is
    used instead; without `text`, Indescribable is raised.
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
    """The code of an entry, or None if there is none that is complete and trusted."""
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
    """Write an entry, complete or not at all."""
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
        pass  # a cache that can not be written only costs time


def _check(name: str, code: bytes) -> bytes:
    """The checksum at the end of an entry. It includes the name, so that no entry can replace another."""
    return hashlib.sha256(name.encode() + b"\0" + code).digest()


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _only_we_write(about: os.stat_result) -> bool:
    """True if a file or folder belongs to this user or the administrator, and no other user may write to it."""
    if not hasattr(os, "geteuid"):
        return True  # such systems protect the users' folders in another way
    return about.st_uid in (_user(), 0) and not stat.S_IMODE(about.st_mode) & OTHERS_MAY_WRITE


def _trusted_folder(folder: Path) -> bool:
    """True if no other user can write to a folder; else it warns. Raises OSError if there is no folder."""
    about = os.stat(folder)
    if _only_we_write(about):
        return True
    if about.st_uid == _user() and not os.environ.get("KINETREE_CACHE"):
        os.chmod(folder, 0o700)  # the folder has no other use; earlier versions left this to the umask
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
    """Remove files of killed processes; if the folder is too large, also the entries unused for longest."""
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
    with suppress(OSError):  # another process was faster, or the file belongs to another user
        os.unlink(path)
