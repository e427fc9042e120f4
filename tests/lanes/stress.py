"""First calls from many threads at once, in new processes: `python -m tests.lanes.stress --processes 200`.

Each process starts eight threads that wait for each other, then make their first calls: on NumPy and JAX arrays, in
both dtypes, under `jit` and `grad`, of several models that they share, one of them on the ground. Each answer is
compared with one that a quiet process computed before. A process that crashes, hangs or answers wrongly is told, with
what it wrote.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

THREADS = 8
CALLS = 5  # of each thread
SECONDS = 180  # after which a process counts as hanging
TOLERANCE = {"float64": 1e-9, "float32": 2e-3}  # of the largest number: threads may change no bit, XLA's fusions may

# One process: argv is a folder for the answers, "quiet" or "loud", and a number that says who begins with what.
WORK = '''
import sys, threading, pathlib
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import kinetree as kt

folder, mode, seed = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
small, tree, floating = kt.auto_tree(3, 1, 0.2), kt.auto_tree(12, 2, 0.3), kt.load(open(sys.argv[4]).read())
own = kt.specialize(kt.auto_tree(3, 1, 0.4))
HOPPER = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 0.4"><joint type="slide" axis="0 0 1"/>
  <geom size="0.1"/><body><joint axis="0 1 0"/><geom type="capsule" size="0.05" fromto="0 0 0 0.1 0 -0.35"/></body>
  </body></worldbody></mujoco>"""
hopper = kt.load(HOPPER)
models = {"small": small, "tree": tree, "arm": floating, "own": own}

def state(model, dtype, lanes):
    rng = np.random.default_rng(model.nv)
    x = rng.uniform(-1, 1, (3, lanes, model.nv)) if lanes else rng.uniform(-1, 1, (3, model.nv))
    return [a.astype(dtype) for a in x]

def calls():
    for name, model in models.items():
        for dtype in ("float64", "float32"):
            one, many = state(model, dtype, 0), state(model, dtype, 40)
            yield f"{name} id {dtype}", lambda m=model, x=one: kt.inverse_dynamics(m, *x)
            yield f"{name} fd {dtype}", lambda m=model, x=many: kt.forward_dynamics(m, *x)
            yield f"{name} H {dtype}", lambda m=model, x=one: kt.mass_matrix(m, x[0])
        x = [jnp.asarray(a) for a in state(model, "float64", 0)]
        yield f"{name} jit", lambda m=model, x=x: jax.jit(lambda *a: kt.inverse_dynamics(m, *a))(*x)
    for name in ("small", "own"):
        model = models[name]
        x = [jnp.asarray(a) for a in state(model, "float64", 0)]
        loss = lambda q, m=model, x=x: kt.forward_dynamics(m, q, *x[1:]).sum()
        yield f"{name} grad", lambda loss=loss, x=x: jax.jit(jax.grad(loss))(x[0])

    rest = kt.initial_state(hopper, np.array([[0.0, 0.3], [-0.02, 0.1]]))
    yield "hopper advance", lambda: kt.advance(hopper, rest, substeps=3).q
    yield "hopper solved", lambda: kt.constrained_dynamics(hopper, rest.q, rest.qd).qdd
    yield "hopper jit", lambda: jax.jit(lambda s: kt.advance(hopper, s).qd)(jax.tree.map(jnp.asarray, rest))
    yield "hopper rollout", lambda: kt.rollout(hopper, rest, steps=3)[0].qd
    yield "hopper touch", lambda: kt.contacts(hopper, rest.q).depth.clip(-1)

work = list(calls())
if mode == "quiet":
    np.savez(folder / "answers.npz", **{key: np.asarray(call()) for key, call in work})
    raise SystemExit
answers = np.load(folder / "answers.npz")
answers = {key: answers[key] for key in answers.files}
count, wrong = int(sys.argv[5]), []
barrier = threading.Barrier(count)

def body(k):
    order = np.random.default_rng((seed, k // 2)).permutation(len(work))  # two threads each go the same way
    barrier.wait()
    for i in order[: int(sys.argv[8])]:
        key, call = work[i]
        try:
            found = np.asarray(call())
            scale = np.abs(answers[key]).max()
            bound = float(sys.argv[7] if key.endswith("float32") else sys.argv[6]) * scale
            if found.dtype != answers[key].dtype or not np.abs(found - answers[key]).max() <= bound:
                wrong.append(f"{key}: {found} instead of {answers[key]}")
        except BaseException as error:
            wrong.append(f"{key}: {error!r}")

threads = [threading.Thread(target=body, args=(k,)) for k in range(count)]
for t in threads: t.start()
for t in threads: t.join()
if wrong:
    raise SystemExit("\\n".join(wrong))
'''

ARM = Path(__file__).parents[2] / "examples" / "robots" / "arm7.urdf"


def _process(folder: str, mode: str, seed: int, cache: str) -> subprocess.CompletedProcess | None:
    surroundings = {**os.environ, "KINETREE_CACHE": cache}
    numbers = (str(seed), str(ARM), str(THREADS), *map(str, TOLERANCE.values()), str(CALLS))
    command = [sys.executable, "-X", "faulthandler", "-c", WORK, folder, mode, *numbers]
    try:
        return subprocess.run(command, capture_output=True, timeout=SECONDS, env=surroundings)
    except subprocess.TimeoutExpired:
        return None


def failures(processes: int, cold_every: int = 10, first_seed: int = 0) -> Iterator[str]:
    """What goes wrong in so many processes; of each few, one has an empty cache and compiles everything."""
    with tempfile.TemporaryDirectory() as folder:
        warm = os.path.join(folder, "warm")
        quiet = _process(folder, "quiet", 0, warm)
        if quiet is None or quiet.returncode:
            yield "no answers to compare with: " + (quiet.stderr.decode() if quiet else "it hangs")
            return
        assert all(np.isfinite(x).all() for x in np.load(os.path.join(folder, "answers.npz")).values())
        for seed in range(first_seed, first_seed + processes):
            cache = os.path.join(folder, f"cold{seed}") if seed % cold_every == 0 else warm
            done = _process(folder, "loud", seed, cache)
            if done is None:
                yield f"process {seed} hangs"
            elif done.returncode:
                yield f"process {seed} ended with {done.returncode}: {done.stderr.decode()[-2000:]}"


def main() -> None:
    """Say what goes wrong, if anything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--processes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first process")
    given = parser.parse_args()
    wrong = 0
    for failure in failures(given.processes, first_seed=given.seed):
        print(failure, flush=True)
        wrong += 1
    print(f"{given.processes} processes of {THREADS} threads: {wrong} went wrong")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
