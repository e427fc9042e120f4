"""Runs by several processes: the same bits as by one, through kills, and with another number of processes."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import kinetree as kt
from tests.devices import environment

WORLDS, STEPS = 12, 40


def start(worlds=WORLDS):
    model = kt.auto_tree(3, 1, 0.3)
    return model, *kt.random_state(model, 0, (worlds,))


def run(path=None, share=None, steps=STEPS, worlds=WORLDS):
    model, q, qd = start(worlds)
    return kt.simulate(
        model, q, qd, dt=1e-3, steps=steps, record=10, checkpoint=path, checkpoint_seconds=0.0, share=share
    )


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("time", "q", "qd", "tau"))


def test_shares_have_the_bits_of_the_whole():
    whole = run()
    for shares in (1, 2, 5):
        assert same(kt.Trajectory.join([run(share=(k, shares)) for k in range(shares)]), whole)


def test_another_number_of_processes_goes_on(tmp_path):
    """Four shares come to different steps, one of them not at all; two continue, then three read what they left."""
    whole, path = run(), tmp_path / "run.npz"
    for k, steps in ((0, 20), (1, 30), (3, 10)):
        run(path, (k, 4), steps)
    assert same(kt.Trajectory.join([run(path, (k, 2)) for k in range(2)]), whole)
    kept = {file.name for file in tmp_path.iterdir()}
    assert same(kt.Trajectory.join([run(path, (k, 3)) for k in range(3)]), whole)
    assert {file.name for file in tmp_path.iterdir()} != kept


def test_a_share_of_another_run_is_refused(tmp_path):
    run(tmp_path / "run.npz", (0, 2))
    model, q, qd = start()
    with pytest.raises(ValueError, match="another run"):
        kt.simulate(model, q, 2 * qd, dt=1e-3, steps=10, checkpoint=tmp_path / "run.npz", share=(0, 3))


def test_shares_that_make_no_sense_are_refused():
    model, q, qd = start()
    for share, match in (((2, 2), "share must be"), ("mine", "share must be"), ((0, 13), "can not be shared")):
        with pytest.raises(ValueError, match=match):
            kt.simulate(model, q, qd, dt=1e-3, steps=1, share=share)
    with pytest.raises(ValueError, match="single state"):
        kt.simulate(model, q[0], qd[0], dt=1e-3, steps=1, share=(0, 1))


WORKER = """
import json, sys
import jax, numpy as np
number, count, port, path, worlds, steps = *map(int, sys.argv[1:4]), sys.argv[4], *map(int, sys.argv[5:7])
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", count, number)
from jax.sharding import NamedSharding, PartitionSpec as P
import kinetree as kt
from tests.simulate.test_processes import run, start

# A batch over all processes: each gives its part, computes it, and reads its own results.
model, q, qd = start(worlds)
mesh = jax.make_mesh((jax.device_count(),), ("worlds",))
whole = [jax.make_array_from_callback(x.shape, NamedSharding(mesh, P("worlds")), lambda i, x=x: x[i]) for x in (q, qd)]
tau = jax.jit(lambda q, qd: kt.inverse_dynamics(model, q, qd, qd))(*whole)
expected = kt.inverse_dynamics(model, q, qd, qd)
error = max(float(np.abs(np.asarray(s.data) - expected[s.index]).max()) for s in tau.addressable_shards)
error /= np.abs(expected).max()

# One tree over all processes; it takes long to compile.
if count > 2:
    tree = kt.shard_tree(kt.auto_tree(50, 1, 0.3), jax.make_mesh((jax.device_count(),), ("tree",)))
    x = np.linspace(-1, 1, 50)
    forces = tree.inverse_dynamics(*(tree.spread(x) for _ in range(3))).parts
    right = kt.inverse_dynamics(kt.auto_tree(50, 1, 0.3), x, x, x)
    for shard in forces.addressable_shards:
        held = tree.rows.at[shard.index[0]]
        wrong = np.abs(np.asarray(shard.data)[held >= 0] - right[held[held >= 0]]).max() / np.abs(right).max()
        error = max(error, float(wrong))

run(path, "process", steps, worlds).save(f"{path}.result{number}")
print(json.dumps([jax.process_count(), error]))
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def processes(count, path, worlds, steps):
    port = free_port()
    given = [[k, count, port, path, worlds, steps] for k in range(count)]
    return [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, *map(str, g)],
            env=environment(2),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for g in given
    ]


def finish(started):
    for p in started:
        out, error = p.communicate(timeout=600)
        assert p.returncode == 0, error.decode()[-3000:]
        count, wrong = json.loads(out.decode().splitlines()[-1])
        assert count == len(started)
        assert wrong < 1e-10
    return started


def collected(path, count):
    return kt.Trajectory.join([kt.Trajectory.load(f"{path}.result{k}") for k in range(count)])


def test_two_processes(tmp_path):
    path = os.fspath(tmp_path / "run.npz")
    finish(processes(2, path, WORLDS, STEPS))
    assert same(collected(path, 2), run())


@pytest.mark.thorough
def test_four_processes_one_is_killed_all_go_on(tmp_path):
    """4 × 10 000 worlds; one process dies, JAX ends the others, and four or three new ones give the same bits."""
    path, worlds, steps = os.fspath(tmp_path / "run.npz"), 40_000, 60
    first = processes(4, path, worlds, steps)
    limit = time.monotonic() + 400
    while not any(".npz." in f.name and ".partial" not in f.name for f in tmp_path.iterdir()):
        assert time.monotonic() < limit
        time.sleep(0.2)
    for p in reversed(first):  # one is killed; JAX would end the others after a minute, and this need not wait
        p.kill()
        p.communicate()
    finish(processes(4, path, worlds, steps))
    whole = run(steps=steps, worlds=worlds)
    assert same(collected(path, 4), whole)
    assert same(kt.Trajectory.join([run(path, (k, 3), steps, worlds) for k in range(3)]), whole)
