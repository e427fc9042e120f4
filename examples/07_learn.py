"""Teach a robot by trial and error: proximal policy optimisation in one of kinetree's environments.

    python examples/07_learn.py                     # a cart swings its pole up: half a minute on two cores
    python examples/07_learn.py half_cheetah        # runs: a minute on two cores
    python examples/07_learn.py ant                 # for a GPU; the last line says whether the goal was met, and when
    python examples/07_learn.py quadruped --view    # follows a velocity command; shows the result in the browser

The policy is saved as `<name>.policy.npz`, one episode with it as `<name>.npz`, for `kinetree.view.Viewer`, and the
curve as `<name>.<seed>.csv`, and .png where matplotlib is installed.
"""

import argparse
import csv
import time
from pathlib import Path

import jax
import numpy as np

import kinetree as kt
from kinetree import envs, learn

FREE = {"learning_rate": 1e-3, "divergence": 0.02, "entropy": 0.0}  # for legs: nothing keeps the actions noisy
ON_CPU = {
    "cart_pole": (learn.Settings(), 600_000),
    "reacher": (learn.Settings(discount=0.95), 400_000),
    "half_cheetah": (learn.Settings(worlds=64, unroll=64, learning_rate=3e-4), 1_500_000),
    "quadruped": (
        learn.Settings(512, 24, epochs=5, minibatches=4, hidden=(128, 64), first_spread=0.5, **FREE),
        6_000_000,
    ),
}
LARGE = learn.Settings(4096, 16, epochs=4, minibatches=8, learning_rate=3e-4, hidden=(256, 128), first_spread=0.4)
ON_GPU = {
    "ant": (LARGE._replace(worlds=8192), 120_000_000),
    "quadruped": (LARGE._replace(worlds=8192, first_spread=0.6, entropy=3e-3), 100_000_000),
    "humanoid": (LARGE, 100_000_000),
}
# What a robot that has learnt can do: the least return of its episodes, or the largest error.
GOALS = {"half_cheetah": ("return", 2000.0), "ant": ("return", 4000.0), "quadruped": ("velocity_error", 0.2)}
MARGIN = 0.15  # by which means over the training, with its noise, have to be better before it stops
PATIENCE = 5  # iterations in a row


def settings_for(name: str) -> tuple[learn.Settings, int]:
    """Many worlds on a GPU, some dozens on a CPU."""
    if jax.default_backend() == "cpu":
        return ON_CPU.get(name, (LARGE._replace(worlds=256, unroll=32), 20_000_000))
    return ON_GPU.get(name, (LARGE._replace(worlds=2048), 8_000_000))


def reached(name: str, episode_return: float, metrics: dict[str, float], margin: float = 0.0) -> bool:
    """Whether the goal is met."""
    what, goal = GOALS[name]
    if what == "return":
        return episode_return >= goal * (1 + margin)
    return metrics[what] <= goal * (1 - margin)


def episode(env: envs.Env, policy: learn.Policy, seed: int) -> kt.Trajectory:
    """One episode of one world."""
    env = env.replace(auto_reset=False)
    steps = env.time_limit or 1000

    def one(state, _):
        after = env.step(state, policy(state.obs))
        return after, (state.physics.q, state.physics.qd, after.done)

    begin = jax.jit(env.reset)(jax.random.key(seed))
    _, (q, qd, done) = jax.jit(lambda s: jax.lax.scan(one, s, None, steps))(begin)
    q, qd, done = map(np.asarray, (q, qd, done))
    length = int(np.argmax(done)) + 1 if done.any() else steps
    return kt.Trajectory(env.dt * np.arange(length), q[:length], qd[:length], np.zeros_like(qd[:length]))


def save_curve(path: Path, name: str, rows: list[tuple[int, float, float, float]]) -> None:
    """Steps, seconds and returns, as a table and as a picture."""
    with Path(f"{path}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("steps", "seconds", "return", "reward"), *rows])
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    steps, _, returns, _ = np.array(rows).T
    known = np.isfinite(returns)
    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    axes.plot(steps[known] / 1e6, returns[known])
    axes.set(xlabel="million steps", ylabel="return of an episode", title=name)
    figure.savefig(f"{path}.png", dpi=120)
    plt.close(figure)


def main() -> None:
    """Train, save, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="cart_pole", choices=list(envs.ENVS))
    parser.add_argument("--steps", type=int, help="control steps of all worlds together")
    parser.add_argument("--worlds", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--go-on", action="store_true", help="do not stop when the goal is met")
    parser.add_argument("--view", action="store_true", help="show the episode in the browser")
    options = parser.parse_args()
    begun = time.monotonic()
    name, env = options.name, envs.make(options.name)
    settings, steps = settings_for(name)
    settings = settings._replace(worlds=options.worlds or settings.worlds)
    print(f"{name}: {env.model}, {settings.worlds} worlds, {env.observation_size} numbers seen, {jax.devices()[0]}")
    curve: list[tuple[int, float, float, float]] = []
    last, before, good = -10.0, (0, 0.0), 0

    def watch(count: int, seconds: float, report: learn.Report) -> None:
        nonlocal last, before
        curve.append((count, round(seconds, 2), report.episode_return, report.reward))
        if seconds - last > 2:
            last = seconds
            shown = "".join(f"  {k} {v:6.3f}" for k, v in report.metrics.items() if k.endswith(("velocity", "error")))
            episodes = f"{report.episode_return:8.2f}" if report.episodes else "       –"  # none has ended
            speed, before = (count - before[0]) / (seconds - before[1]), (count, seconds)
            seen = f"return {episodes}  reward {report.reward:7.3f}{shown}"
            print(f"{count:12,} steps  {seen}  {speed:11,.0f} steps/s  {seconds:5.0f} s", flush=True)

    def stop(report: learn.Report) -> bool:
        nonlocal good
        # the mean error of a step is small in worlds that have just begun: only whole episodes tell
        whole = name in GOALS and GOALS[name][0] == "return"
        met = whole and reached(name, report.episode_return, report.metrics, MARGIN)
        good = good + 1 if met else 0
        return good >= PATIENCE and not options.go_on

    policy, _ = learn.train(env, settings, steps=options.steps or steps, seed=options.seed, watch=watch, stop=stop)
    score = learn.evaluate(env, policy, seed=options.seed + 1)
    took = time.monotonic() - begun
    options.out.mkdir(parents=True, exist_ok=True)
    policy.save(options.out / f"{name}.policy.npz")
    run = episode(env, policy, options.seed + 1)
    run.save(options.out / f"{name}.npz")
    save_curve(options.out / f"{name}.{options.seed}", name, curve)
    print(f"return {score.episode_return:.1f} in episodes of {score.length:.0f} steps, {score.metrics}")
    verdict = ""
    if name in GOALS:
        what, goal = GOALS[name]
        verdict = f", goal {what} {goal:g} {'met' if reached(name, *score[::2]) else 'NOT met'}"
    print(f"{name}, seed {options.seed}: {curve[-1][0]:,} steps, {took:.0f} s with all that was compiled{verdict}")
    if options.view:
        from kinetree.view import Viewer

        viewer = Viewer(env.model, run=run)
        print(f"open {viewer.url}")
        viewer.wait()


if __name__ == "__main__":
    main()
