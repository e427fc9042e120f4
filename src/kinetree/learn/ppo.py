"""Proximal policy optimisation (Schulman et al. 2017) in plain JAX: one compiled program to an iteration.

An iteration lets all worlds run for some steps, estimates advantages (Schulman et al. 2016), and improves policy and
value by minibatches. Episodes that the time limit ends are worth what the value function says of their last state.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.envs import Env, EnvState

from .networks import Normaliser, Policy, gaussian_log_density, make_mlp, mlp
from .optimise import Adam, adam_start, adam_step


class Settings(NamedTuple):
    """How to learn. The defaults are for a few dozen worlds on a CPU."""

    worlds: int = 64
    unroll: int = 32  # control steps of every world to an iteration
    epochs: int = 6  # passes over the data of an iteration
    minibatches: int = 8
    learning_rate: float = 1e-3
    discount: float = 0.98
    trace: float = 0.95  # λ of the advantage estimate
    clip: float = 0.2  # how far the probability ratio counts
    entropy: float = 1e-3
    reward_scale: float = 1.0
    hidden: tuple[int, ...] = (64, 64)
    first_spread: float = 0.6  # standard deviation of the first actions, as part of their range


DEFAULT = Settings()


class Parameters(NamedTuple):
    """What is learnt."""

    mean: Any  # layers of the policy
    spread: Any  # (action_size,): logarithm of the standard deviation
    value: Any  # layers of the value function


class Learner(NamedTuple):
    """All that an iteration hands to the next."""

    parameters: Parameters
    adam: Adam
    normaliser: Normaliser
    worlds: EnvState
    returns: Any  # (worlds,): of the episodes so far
    key: Any


class Steps(NamedTuple):
    """What the worlds came through; (unroll, worlds, ...), later in one row."""

    obs: Any
    action: Any  # as drawn; the world is given the nearest that its range allows
    density: Any  # logarithm of the probability density that it was drawn with
    reward: Any
    done: Any
    truncated: Any
    final_obs: Any


class Samples(NamedTuple):
    """What a minibatch is made of."""

    obs: Any
    action: Any
    density: Any
    advantage: Any
    target: Any


class Report(NamedTuple):
    """How an iteration went; means over the episodes that ended in it, not a number where none did."""

    episode_return: Any
    episodes: Any
    reward: Any  # mean of a step
    spread: Any  # mean standard deviation of actions
    loss: Any
    metrics: dict[str, Any]  # of the environment, means over all steps


def start(env: Env, settings: Settings, key: Any) -> Learner:
    """A learner that knows nothing."""
    key, policy, value, worlds = jax.random.split(key, 4)
    state = env.reset(jax.random.split(worlds, settings.worlds))
    seen, acts = env.observation_size, env.action_size
    mean = make_mlp(policy, (seen, *settings.hidden, acts), 0.01)
    spread = jnp.full(acts, np.log(settings.first_spread), float)
    parameters = Parameters(mean, spread, make_mlp(value, (seen, *settings.hidden, 1), 1.0))
    none = Normaliser.none(seen)
    return Learner(parameters, adam_start(parameters), none, state, jnp.zeros(settings.worlds), key)


def iterate(env: Env, settings: Settings, learner: Learner) -> tuple[Learner, Report]:
    """One iteration. Compile it: `jax.jit(iterate, static_argnums=(0, 1), donate_argnums=2)`."""
    key, play_key, learn_key = jax.random.split(learner.key, 3)
    worlds, returns, steps, (ended, total), metrics = _play(env, settings, learner, play_key)
    normaliser = learner.normaliser.updated(steps.obs)
    samples = _judged(settings, learner.parameters, learner.normaliser, steps)
    samples = samples._replace(obs=normaliser(samples.obs))
    parameters, adam, loss = _improve(settings, learner.parameters, learner.adam, samples, learn_key)
    mean_return = total / ended.astype(total.dtype)
    means = steps.reward.mean(), jnp.exp(parameters.spread).mean(), loss, jax.tree.map(jnp.mean, metrics)
    report = Report(mean_return, ended, *means)
    return Learner(parameters, adam, normaliser, worlds, returns, key), report


def _play(env: Env, settings: Settings, learner: Learner, key: Any) -> Any:
    """All worlds for some steps."""
    scale, middle = _action_scale(env)

    def one(carry: Any, key: Any) -> Any:
        worlds, returns, (ended, total) = carry
        obs = learner.normaliser(worlds.obs)
        mean, spread = mlp(learner.parameters.mean, obs), jnp.exp(learner.parameters.spread)
        action = mean + spread * jax.random.normal(key, mean.shape)
        density = gaussian_log_density(action, mean, learner.parameters.spread)
        after = env.step(worlds, middle + scale * jnp.clip(action, -1, 1))
        returns = returns + after.reward
        ended, total = ended + after.done.sum(dtype=jnp.int32), total + jnp.where(after.done, returns, 0.0).sum()
        returns = jnp.where(after.done, 0.0, returns)
        info = after.info
        seen = Steps(worlds.obs, action, density, after.reward, after.done, info["truncated"], info["final_obs"])
        return (after, returns, (ended, total)), (seen, after.metrics)

    none = jnp.zeros((), jnp.int32), jnp.zeros(())
    begin = learner.worlds, learner.returns, none
    (worlds, returns, ends), (steps, metrics) = jax.lax.scan(one, begin, jax.random.split(key, settings.unroll))
    return worlds, returns, steps, ends, metrics


def _action_scale(env: Env) -> tuple[Any, Any]:
    """Actions are learnt as parts of their range."""
    low, high = (jnp.asarray(x, float) for x in env.action_range)
    return (high - low) / 2, (high + low) / 2


def _judged(settings: Settings, parameters: Parameters, normaliser: Normaliser, steps: Steps) -> Samples:
    """Advantages and targets of the value function, in one row."""

    def value(obs: Any) -> Any:
        return mlp(parameters.value, normaliser(obs))[..., 0]

    here, after = value(steps.obs), value(steps.final_obs)
    over = steps.done & ~steps.truncated
    surprise = settings.reward_scale * steps.reward + settings.discount * jnp.where(over, 0.0, after) - here

    def back(later: Any, x: Any) -> Any:
        surprise, done = x
        advantage = surprise + settings.discount * settings.trace * jnp.where(done, 0.0, later)
        return advantage, advantage

    _, advantage = jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)
    samples = Samples(steps.obs, steps.action, steps.density, advantage, advantage + here)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)


def _loss(settings: Settings, parameters: Parameters, s: Samples) -> Any:
    mean = mlp(parameters.mean, s.obs)
    ratio = jnp.exp(gaussian_log_density(s.action, mean, parameters.spread) - s.density)
    advantage = (s.advantage - s.advantage.mean()) / (s.advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    error = (mlp(parameters.value, s.obs)[..., 0] - s.target) ** 2
    return -gain + 0.5 * error.mean() - settings.entropy * parameters.spread.sum()


def _improve(settings: Settings, parameters: Parameters, adam: Adam, samples: Samples, key: Any) -> Any:
    size = len(samples.advantage) // settings.minibatches

    def one(carry: Any, rows: Any) -> Any:
        parameters, adam = carry
        batch = jax.tree.map(lambda x: x[rows], samples)
        loss, slope = jax.value_and_grad(partial(_loss, settings))(parameters, batch)
        return adam_step(parameters, adam, slope, settings.learning_rate), loss

    def epoch(carry: Any, key: Any) -> Any:
        rows = jax.random.permutation(key, len(samples.advantage))[: size * settings.minibatches]
        return jax.lax.scan(one, carry, rows.reshape(settings.minibatches, size))

    (parameters, adam), losses = jax.lax.scan(epoch, (parameters, adam), jax.random.split(key, settings.epochs))
    return parameters, adam, losses.mean()


def train(
    env: Env,
    settings: Settings = DEFAULT,
    *,
    steps: int,
    seed: int = 0,
    watch: Callable[[int, float, Report], None] | None = None,
    stop: Callable[[Report], bool] | None = None,
) -> tuple[Policy, list[Report]]:
    """Learn for so many control steps of all worlds together.

    Arguments:
        env: the task.
        settings: how.
        steps: how many.
        seed: of all that is drawn.
        watch: called after every iteration with the steps so far, the seconds so far, and how it went.
        stop: ends the training when it says so of an iteration.

    Returns:
        The policy, and how every iteration went.
    """
    env = env.replace(auto_reset=True)
    begun = time.monotonic()
    learner = jax.jit(partial(start, env, settings))(jax.random.key(seed))
    compiled = jax.jit(partial(iterate, env, settings), donate_argnums=0)
    history: list[Report] = []
    for k in range(-(-steps // (settings.worlds * settings.unroll))):
        learner, report = compiled(learner)
        report = jax.tree.map(float, jax.device_get(report))
        history.append(report)
        if watch is not None:
            watch((k + 1) * settings.worlds * settings.unroll, time.monotonic() - begun, report)
        if stop is not None and stop(report):
            break
    scale, middle = _action_scale(env)
    return Policy(learner.parameters.mean, learner.normaliser, scale, middle), history
