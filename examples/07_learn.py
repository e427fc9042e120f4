"""Teach a robot by trial and error: proximal policy optimisation in one of kinetree's environments.

    python examples/07_learn.py                     # a cart swings its pole up: about a minute on two cores
    python examples/07_learn.py half_cheetah        # runs; a quarter of an hour
    python examples/07_learn.py ant --view          # for a GPU; shows the result in the browser

The policy is saved as `<name>.policy.npz`, and one episode with it as `<name>.npz`, for `kinetree.view.Viewer`.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import kinetree as kt
from kinetree import envs, learn

ON_CPU = {
    "cart_pole": (learn.Settings(), 600_000),
    "reacher": (learn.Settings(worlds=64, discount=0.95), 400_000),
    "half_cheetah": (learn.Settings(worlds=64, unroll=64, learning_rate=3e-4, hidden=(128, 128)), 3_000_000),
}
LARGE = learn.Settings(
    worlds=4096,
    unroll=16,
    epochs=4,
    minibatches=32,
    learning_rate=3e-4,
    discount=0.97,
    entropy=1e-3,
    reward_scale=0.1,
    hidden=(256, 256),
)
STEPS = 60_000_000  # of the large setting


def settings_for(name: str) -> tuple[learn.Settings, int]:
    """Many worlds on a GPU, some dozens on a CPU."""
    if jax.default_backend() == "cpu":
        return ON_CPU.get(name, (LARGE._replace(worlds=256), 3_000_000))
    return (LARGE, 4_000_000) if name in ("cart_pole", "reacher") else (LARGE, STEPS)


def episode(env: envs.Env, policy: learn.Policy, seed: int) -> tuple[kt.Trajectory, float]:
    """One episode of one world, and its return."""
    env = env.replace(auto_reset=False)
    steps = env.time_limit or 1000

    def one(state, _):
        after = env.step(state, policy(state.obs))
        return after, (state.physics.q, state.physics.qd, after.reward, after.done)

    begin = jax.jit(env.reset)(jax.random.key(seed))
    _, (q, qd, reward, done) = jax.jit(lambda s: jax.lax.scan(one, s, None, steps))(begin)
    q, qd, reward, done = map(np.asarray, (q, qd, reward, done))
    length = int(np.argmax(done)) + 1 if done.any() else steps
    run = kt.Trajectory(env.dt * np.arange(length), q[:length], qd[:length], np.zeros_like(qd[:length]))
    return run, float(reward[:length].sum())


def main() -> None:
    """Train, save, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="cart_pole", choices=list(envs.ENVS))
    parser.add_argument("--steps", type=int, help="control steps of all worlds together")
    parser.add_argument("--worlds", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--view", action="store_true", help="show the episode in the browser")
    options = parser.parse_args()
    env = envs.make(options.name)
    settings, steps = settings_for(options.name)
    settings = settings._replace(worlds=options.worlds or settings.worlds)
    print(f"{options.name}: {env.model}, {settings.worlds} worlds, {env.observation_size} numbers seen")
    last = -10.0

    def watch(steps: int, seconds: float, report: learn.Report) -> None:
        nonlocal last
        if seconds - last > 2:
            last = seconds
            rate = steps / seconds
            print(f"{steps:12,} steps  return {report.episode_return:9.2f}  {rate:12,.0f} steps/s  {seconds:6.0f} s")

    begun = time.monotonic()
    policy, history = learn.train(env, settings, steps=options.steps or steps, seed=options.seed, watch=watch)
    policy.save(options.out / f"{options.name}.policy.npz")
    run, total = episode(env, policy, options.seed + 1)
    run.save(options.out / f"{options.name}.npz")
    first = next((r.episode_return for r in history if np.isfinite(r.episode_return)), float("nan"))
    took = time.monotonic() - begun
    print(f"return of an episode: {first:.1f} at first, {total:.1f} with what was learnt in {took:.0f} s")
    if options.view:
        from kinetree.view import Viewer

        viewer = Viewer(env.model, run=run)
        print(f"open {viewer.url}")
        viewer.wait()


if __name__ == "__main__":
    main()
