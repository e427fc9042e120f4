"""The cache on disk: what it takes, what it refuses, and what it throws away."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Lane, Loop, Program
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.kept import content
from kinetree.lanes.kept.cache import ENTRY, cache_folder, keep_cached, read_cached
from kinetree.lanes.kept.notice import forget_warnings

NOTHING = jax.tree.structure(())
POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners and modes on this system")
SOURCES = Path(kt.__file__).parents[1]


def times(factor, name="test_cache"):
    """A program of one turn that multiplies by a number which its step closes over."""
    loop = Loop(lambda _, x, __: ((), (), (factor * x[0],)), 1, NOTHING, inputs=(Lane(0, 0),), outputs=(Lane(0, 0),))
    return Program(name, (loop,), 1, 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("KINETREE_CACHE", str(path))
    forget_warnings()
    return path


def test_an_entry_is_found_again_and_a_damaged_one_made_again(folder):
    assert not CompiledProgram(times(2.0), np.float64).code.from_cache
    assert CompiledProgram(times(2.0), np.float64).code.from_cache
    (entry,) = folder.iterdir()
    assert ENTRY.fullmatch(entry.name)
    entry.write_bytes(entry.read_bytes()[:-100])
    assert not CompiledProgram(times(2.0), np.float64).code.from_cache
    assert CompiledProgram(times(2.0), np.float64).code.from_cache


def test_another_step_of_the_same_name_is_another_entry(folder):
    """The lambdas differ in a number only: a name, or where they stand, would not tell them apart."""
    for factor in (2.0, 3.0, np.nextafter(3.0, 4.0)):
        compiled = CompiledProgram(times(factor), np.float64)
        assert not compiled.code.from_cache
        result = compiled(1, (1,), (np.zeros((1, 1), np.int32),), (np.zeros((1, 0)),), (np.ones((1, 1)),))[0]
        assert result[0, 0] == factor
    assert len(list(folder.glob("test_cache-*"))) == 3  # the first call of a process keeps the code of helpers, too


def test_a_folder_that_can_not_be_written_is_no_obstacle(tmp_path, monkeypatch):
    file = tmp_path / "a_file"
    file.write_text("not a folder")
    monkeypatch.setenv("KINETREE_CACHE", str(file / "inside"))
    assert not CompiledProgram(times(5.0), np.float64).code.from_cache


@POSIX
def test_the_folder_and_its_files_are_for_one_user(folder):
    keep_cached("entry-" + 32 * "0", b"code")
    assert folder.stat().st_mode & 0o777 == 0o700
    (entry,) = folder.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600


@POSIX
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode):
    name = "entry-" + 32 * "0"
    keep_cached(name, b"code")
    assert read_cached(name) == b"code"
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        assert read_cached(name) is None
    keep_cached("other-" + 32 * "1", b"code")
    assert len(list(folder.iterdir())) == 1


@POSIX
def test_a_file_that_others_may_write_to_or_own_is_not_used(folder, monkeypatch):
    name = "entry-" + 32 * "0"
    keep_cached(name, b"code")
    path = folder / f"{name}.o"
    path.chmod(0o666)
    assert read_cached(name) is None
    path.chmod(0o600)
    assert read_cached(name) == b"code"
    real = os.fstat

    def of_another(handle):
        about = list(real(handle))
        about[4] = 12345  # st_uid
        return os.stat_result(about)

    monkeypatch.setattr(os, "fstat", of_another)
    assert read_cached(name) is None
    monkeypatch.undo()
    monkeypatch.setenv("KINETREE_CACHE", str(folder))
    link = folder / ("link-" + 32 * "0" + ".o")
    link.symlink_to(path)
    assert read_cached(link.stem) is None


def test_no_entry_takes_the_place_of_another(folder):
    a, b = "entry-" + 32 * "a", "entry-" + 32 * "b"
    keep_cached(a, b"code")
    os.rename(folder / f"{a}.o", folder / f"{b}.o")
    assert read_cached(b) is None


@POSIX
@pytest.mark.parametrize("platformdirs", ["installed", "missing"])
def test_our_own_folder_of_earlier_versions_is_made_private(tmp_path, monkeypatch, platformdirs):
    """Without platformdirs the folder is in the one for temporary files: here another one than that of this machine."""
    if platformdirs == "missing":
        monkeypatch.setitem(sys.modules, "platformdirs", None)
    else:
        pytest.importorskip("platformdirs")
    monkeypatch.delenv("KINETREE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = cache_folder()
    assert made.is_relative_to(tmp_path)
    made.mkdir(parents=True)
    made.chmod(0o775)
    name = "entry-" + 32 * "0"
    keep_cached(name, b"code")
    assert read_cached(name) == b"code"
    assert made.stat().st_mode & 0o777 == 0o700


def test_the_folder_stays_below_its_limit(folder, monkeypatch):
    """The entries unused for the longest go, one that was read lately stays; what is not ours stays too."""
    monkeypatch.setenv("KINETREE_CACHE_MB", "1")
    names = [f"entry-{k:032x}" for k in range(16)]
    folder.mkdir(mode=0o700)
    (folder / "notes.txt").write_bytes(b"x" * (1 << 20))
    now = time.time()
    for k, name in enumerate(names[:-1]):
        keep_cached(name, b"x" * (1 << 16))
        os.utime(folder / f"{name}.o", (now - 1e6 + k, now - 1e6 + k))
    assert read_cached(names[0]) is not None  # used just now
    keep_cached(names[-1], b"x" * (1 << 16))
    left = {path.stem for path in folder.glob("*.o")}
    assert sum(path.stat().st_size for path in folder.glob("*.o")) <= 1 << 20
    assert {names[0], names[-1], names[-2]} <= left
    assert names[1] not in left
    assert (folder / "notes.txt").exists()


def test_a_limit_that_is_no_number_is_told_once(folder, monkeypatch):
    monkeypatch.setenv("KINETREE_CACHE_MB", "much")
    with pytest.warns(RuntimeWarning, match="KINETREE_CACHE_MB must be a whole number"):
        keep_cached("entry-" + 32 * "0", b"code")
    keep_cached("entry-" + 32 * "1", b"code")


def test_no_temporary_files_are_left(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    old, fresh, foreign = folder / ".kinetree-abc.tmp", folder / ".kinetree-def.tmp", folder / "mine.tmp"
    earlier = folder / "tmpabcd1234"
    for path in (old, fresh, foreign, earlier):
        path.write_bytes(b"x")
    for path in (old, foreign, earlier):
        os.utime(path, (0, 0))
    keep_cached("entry-" + 32 * "0", b"code")
    assert {path.name for path in folder.iterdir()} == {fresh.name, foreign.name, "entry-" + 32 * "0" + ".o"}
    fresh.unlink()

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    keep_cached("entry-" + 32 * "1", b"code")
    assert not list(folder.glob(".kinetree-*"))


def child(code, **surroundings):
    """What a new process prints."""
    given = {**os.environ, "PYTHONPATH": str(SOURCES), **surroundings}
    given = {key: value for key, value in given.items() if value is not None}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, timeout=120, env=given)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="home folders differ on this system")
def test_without_a_home_native_code_stays_on(tmp_path):
    """No HOME, and a user that the system does not know: nothing is warned of, and no folder called ~ appears."""
    code = """
import os, pwd
def unknown(*_): raise KeyError("nobody")
pwd.getpwuid = unknown
import numpy as np, kinetree as kt
from kinetree.lanes.kept.cache import cache_folder
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.lane_rows import Traits
from kinetree.dynamics.schedules.lanes import Variant, lane_program
from kinetree.lanes.target import compiled as native
assert native(lane_program(RNEA, Variant(Traits(False, False, False))).program, "float64") is not None
print(cache_folder())
"""
    found = child(
        f"import os; os.chdir({str(tmp_path)!r})\n{code}",
        HOME=None,
        XDG_CACHE_HOME=None,
        KINETREE_CACHE=None,
        TMPDIR=str(tmp_path),
    )
    assert found.strip() == str(tmp_path / f"kinetree-{os.geteuid()}")
    assert not (tmp_path / "~").exists()
    assert any(ENTRY.fullmatch(path.name) for path in Path(found.strip()).iterdir())


def test_an_edited_source_never_meets_a_stale_entry(tmp_path, monkeypatch):
    """The same size and the same time: only the text tells."""
    step = tmp_path / "lanes" / "step.py"
    step.parent.mkdir()
    monkeypatch.setattr(content, "ROOT", tmp_path)
    names = set()
    for text in ("x = 1 + y", "x = 2 + y"):
        step.write_text(text)
        os.utime(step, (1e9, 1e9))
        names.add(content.sources.__wrapped__())
    assert len(names) == 2


JITTED = """
import sys, jax, jax.numpy as jnp, numpy as np, kinetree as kt
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", sys.argv[1] if len(sys.argv) > 1 else {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
model = kt.auto_tree(7, 2, 0.3)
step = jax.jit(lambda q: kt.forward_dynamics(model, q, q, q))
print(float(step(jnp.ones((16, 7))).sum()).hex())
print(sum(event.endswith("cache_hits") for event in hits), sum(event.endswith("cache_misses") for event in hits))
"""


def test_the_compilation_cache_of_jax_hits_in_the_next_process(tmp_path):
    first, second = (child(JITTED.format(folder=str(tmp_path))).split() for _ in range(2))
    assert first[0] == second[0]
    assert int(first[2]) > 0
    assert int(second[2]) == 0
    assert int(second[1]) == int(first[2]) + int(first[1])
