"""Killed and resumed runs end with the same bytes as runs that were left alone."""

import dataclasses
import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.simulate import checkpoint
from tests.simulate.robots import double_pendulum, pendulum

CLOCK = {"dt": 1e-3, "record": 10}

KILLER = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
import kinetree as kt
from tests.simulate.robots import double_pendulum

def run(checkpoint, out):
    trajectory = kt.simulate(double_pendulum(), [1.0, 0.5], [0.0, 0.0], dt=1e-3, steps=50_000, record=20,
                             integrator="rk4", checkpoint=checkpoint, checkpoint_seconds=0)
    trajectory.save(out)

def child(*arguments):
    pid = os.fork()
    if pid == 0:
        run(*arguments)
        os._exit(0)
    return pid

def stamp():
    return os.stat("cut").st_mtime_ns if os.path.exists("cut") else 0

random.seed(int(sys.argv[2]))
kills = 0
while kills < 4:
    before, pid = stamp(), child("cut", "cut.npz")
    while stamp() == before and os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the run ended before it was killed"
    kills += 1
for arguments in (("cut", "cut.npz"), (None, "whole.npz")):
    assert os.waitpid(child(*arguments), 0)[1] == 0
print("killed", kills)
"""


def test_kills_leave_no_trace(tmp_path):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLER, str(root), "7"]
    compiled_once = os.environ | {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=compiled_once, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "killed 4" in done.stdout
    assert (tmp_path / "cut.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_a_finished_run_is_extended(tmp_path):
    start = [1.0, 0.5], [0.0, 0.0]
    kt.simulate(double_pendulum(), *start, **CLOCK, steps=100, checkpoint=tmp_path / "c")
    longer = kt.simulate(double_pendulum(), *start, **CLOCK, steps=300, checkpoint=tmp_path / "c")
    whole = kt.simulate(double_pendulum(), *start, **CLOCK, steps=300)
    np.testing.assert_array_equal(longer.q, whole.q)
    again = kt.simulate(double_pendulum(), *start, **CLOCK, steps=100, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(again.q, whole.q[:11])


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    kt.simulate(pendulum(), [1.0], [0.0], **CLOCK, steps=10, checkpoint=tmp_path / "c")
    for model, q in ((pendulum(), [1.1]), (pendulum(length=2), [1.0])):
        with pytest.raises(ValueError, match="another run"):
            kt.simulate(model, q, [0.0], **CLOCK, steps=10, checkpoint=tmp_path / "c")
    (tmp_path / "broken").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="can not be read"):
        kt.simulate(pendulum(), [1.0], [0.0], **CLOCK, steps=10, checkpoint=tmp_path / "broken")


# -- which run a checkpoint belongs to ----------------------------------------------------------------------------


def _gain(k):
    def controller(t, q, qd):
        return -k * q

    return controller


@dataclasses.dataclass
class Spring:
    k: Any

    def __call__(self, t, q, qd):
        return -self.k * q


def _scaled(t, q, qd, k=1.0):
    return -k * q


def _run(path, controller, model=None):
    model = double_pendulum() if model is None else model
    start = np.full(model.nq, 0.3), np.zeros(model.nv)
    return kt.simulate(model, *start, controller, dt=1e-3, steps=4, checkpoint=path, checkpoint_seconds=0)


@pytest.mark.parametrize(
    "controller",
    [_gain, Spring, lambda k: partial(_scaled, k=k), lambda k: Spring(k).__call__, lambda k: jax.jit(_gain(k))],
    ids=["closure", "dataclass", "partial", "method", "jit"],
)
def test_another_controller_is_another_run(tmp_path, controller):
    """The old fingerprint knew controllers by name."""
    _run(tmp_path / "a", controller(np.array([1.0, 2.0])))
    _run(tmp_path / "a", controller(np.array([1.0, 2.0])))  # the same numbers in other arrays
    with pytest.raises(ValueError, match="another run"):
        _run(tmp_path / "a", controller(np.array([1.0, 2.5])))


def test_other_code_is_another_run(tmp_path):
    _run(tmp_path / "a", lambda t, q, qd: -q)
    with pytest.raises(ValueError, match="another run"):
        _run(tmp_path / "a", lambda t, q, qd: -q - qd)


def test_another_coupling_is_another_run(tmp_path):
    model = double_pendulum()
    first, second = model.joint_names[:2]
    _run(tmp_path / "a", None, model.couple({second: (first, 1.0, 0.0)}))
    with pytest.raises(ValueError, match="another run"):
        _run(tmp_path / "a", None, model.couple({second: (first, 1.0, 0.5)}))


def test_a_model_of_a_file_is_the_same_run_when_it_is_loaded_again(tmp_path):
    """Keyframes were known by their address in memory."""
    text = """<mujoco><worldbody><body><joint/><geom size="0.1" pos="1 0 0"/></body></worldbody>
      <keyframe><key qpos="%s"/></keyframe></mujoco>"""
    models = [kt.load(text % q) for q in (0.1, 0.1, 0.2)]
    known = [checkpoint.fingerprint(model) for model in models]
    assert known[0] == known[1] != known[2]


def test_a_controller_without_identity_can_not_be_continued(tmp_path):
    stream = iter(())

    def controller(t, q, qd):
        return -q if stream is not None else q

    _run(tmp_path / "a", controller)
    with pytest.raises(ValueError, match=r"can not be continued.*iterator"):
        _run(tmp_path / "a", controller)


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch):
    """Writes fail at first, and succeed at last."""
    calls = []
    write = checkpoint.write_arrays

    def full(path, arrays):
        calls.append(path)
        if len(calls) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, arrays)

    monkeypatch.setattr(checkpoint, "write_arrays", full)
    model = double_pendulum()
    start = np.full(model.nq, 0.3), np.zeros(model.nv)
    with pytest.warns(RuntimeWarning, match=r"could not be written.*No space left.*goes on"):
        run = kt.simulate(model, *start, dt=1e-3, steps=400, checkpoint=tmp_path / "a", checkpoint_seconds=0)
    assert len(calls) >= 3
    assert len(run) == 401
    again = kt.simulate(model, *start, dt=1e-3, steps=400, checkpoint=tmp_path / "a")
    np.testing.assert_array_equal(again.q, run.q)


@pytest.mark.cpu
def test_a_file_too_large_does_not_end_the_run(tmp_path):
    """The same with a limit that the system sets."""
    code = """
import resource, warnings, kinetree as kt
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
warnings.simplefilter("always")
run = kt.simulate(kt.auto_tree(2), [0.1, 0.2], [0, 0], dt=1e-3, steps=5, checkpoint="a", checkpoint_seconds=0)
print(len(run))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "6", done.stderr
    assert "could not be written" in done.stderr
