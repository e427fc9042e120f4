"""Killed and resumed runs end with the same bytes as runs that were left alone."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from tests.simulate.robots import double_pendulum, pendulum

pytestmark = pytest.mark.usefixtures("full_compilation")

CLOCK = {"dt": 1e-3, "record": 10}

KILLER = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
import kinetree as kt
from tests.simulate.robots import double_pendulum

def run(checkpoint, out):
    trajectory = kt.simulate(double_pendulum(), [1.0, 0.5], [0.0, 0.0], dt=1e-3, steps=100_000, record=20,
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
while kills < 10:
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


def test_ten_kills_leave_no_trace(tmp_path):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLER, str(root), "7"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "killed 10" in done.stdout
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
