"""Proximal policy optimisation (Schulman et al. 2017) in plain JAX: one compiled program to an iteration.

An iteration lets all worlds run for some steps, estimates advantages (Schulman et al. 2016), and improves policy and
value by minibatches. If the time limit ends an episode, the value function of its last state is added to its return.
Rewards are scaled so that discounted returns have unit size. The learning rate adapts so that the divergence of all
minibatches together stays near a goal (Schulman et al. 2017, section 4).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Number
from kinetree.envs import Env, EnvState
from kinetree.envs.env import require_env
from kinetree.model.fields import COUNT, NUMBER, Form, require_fields

from .networks import Normaliser, Policy, gaussian_log_density, make_mlp, mlp
from .optimise import Adam, adam_start, adam_step


class Settings(NamedTuple):
    """How to learn. The defaults are for a few dozen worlds on a CPU."""

    worlds: int = 64
    unroll: int = 32  # control steps of each world in an iteration
    epochs: int = 6  # passes over the data of one iteration
    minibatches: int = 8
    learning_rate: float = 1e-3  # at the start; it then follows `divergence`
    divergence: float = 0.01  # how far an iteration should move the policy: the learning rate aims at it
    discount: float = 0.98
    trace: float = 0.95  # λ of the advantage estimate
    clip: float = 0.2  # The probability ratio is clipped to 1 ± clip.
    entropy: float = 1e-3
    hidden: tuple[int, ...] = (64, 64)
    first_spread: float = 0.6  # standard deviation of actions at the start, as a fraction of their range


DEFAULT = Settings()
SETTINGS = {
    **dict.fromkeys(("worlds", "unroll", "epochs", "minibatches"), COUNT),
    **dict.fromkeys(("learning_rate", "divergence", "discount", "trace", "clip", "entropy", "first_spread"), NUMBER),
    "hidden": Form("the sizes of layers, a tuple", lambda x: isinstance(x, tuple | list) and all(map(COUNT.fits, x))),
}
LEAST_RATE, LARGEST_RATE = 1e-5, 5e-3  # bounds of the learning rate
LEAST_VARIANCE = 1e-8  # of discounted returns: rewards are divided by its root
RATE_STEP = 1.5  # factor of the learning rate when the divergence is over twice its goal, or under half


class Parameters(NamedTuple):
    """The parameters that are learnt."""

    mean: Any  # layers of the policy
    spread: Any  # (action_size,): logarithm of the standard deviation
    value: Any  # layers of the value function


class Learner(NamedTuple):
    """The state between iterations."""

    parameters: Parameters
    adam: Adam
    rate: Any  # the learning rate
    normaliser: Normaliser
    gains: Normaliser  # variance of discounted returns
    worlds: EnvState
    returns: Any  # (worlds,): sum of rewards in the current episode; NaN if the episode did not begin at its start
    discounted: Any  # (worlds,): sums of rewards, older ones discounted
    key: Any


class Steps(NamedTuple):
    """Recorded steps: (unroll, worlds, ...), flattened to one axis for minibatches."""

    obs: Any
    action: Any  # as drawn; the world gets it clipped to its range
    mean: Any  # of the distribution that the action was drawn from
    reward: Any
    discounted: Any  # sum of rewards so far, older ones discounted
    done: Any
    truncated: Any
    final_obs: Any


class Samples(NamedTuple):
    """The data of a minibatch."""

    obs: Any
    action: Any
    mean: Any
    advantage: Any
    target: Any


class Report(NamedTuple):
    """How an iteration went: means over the episodes that ended in it, NaN if none did."""

    episode_return: Number
    episodes: Number
    reward: Number  # mean over steps
    spread: Number  # mean standard deviation of actions
    rate: Number  # the learning rate
    loss: Number
    metrics: dict[str, Number]  # metrics of the environment, means over all steps


def start(env: Env, settings: Settings, key: Any) -> Learner:
    """A new learner."""
    key, policy, value, worlds = jax.random.split(key, 4)
    state = env.reset(jax.random.split(worlds, settings.worlds))
    seen, acts = env.observation_size, env.action_size
    mean = make_mlp(policy, (seen, *settings.hidden, acts), 0.01)
    spread = jnp.full(acts, np.log(settings.first_spread), float)
    parameters = Parameters(mean, spread, make_mlp(value, (seen, *settings.hidden, 1), 1.0))
    zero = jnp.zeros(settings.worlds)
    returns = zero
    if env.time_limit is not None:  # ages of all kinds, so that episodes do not all end in the same iteration
        key, own = jax.random.split(key)
        ages = jax.random.randint(own, (settings.worlds,), 0, env.time_limit, state.info["steps"].dtype)
        state, returns = state.replace(info=state.info | {"steps": ages}), jnp.where(ages > 0, jnp.nan, 0.0)
    rate = jnp.asarray(settings.learning_rate, float)
    norms = Normaliser.none(seen), Normaliser.none(1)
    return Learner(parameters, adam_start(parameters), rate, *norms, state, returns, zero, key)


def iterate(env: Env, settings: Settings, learner: Learner) -> tuple[Learner, Report]:
    """One iteration. Compile it: `jax.jit(iterate, static_argnums=(0, 1), donate_argnums=2)`."""
    key, play_key, learn_key = jax.random.split(learner.key, 3)
    worlds, returns, discounted, steps, (ended, total), metrics = _play(env, settings, learner, play_key)
    normaliser, gains = learner.normaliser.updated(steps.obs), learner.gains.updated(steps.discounted[..., None])
    scaled = steps._replace(reward=steps.reward / jnp.sqrt(gains.variance[0] + LEAST_VARIANCE))
    samples = _judged(settings, learner.parameters, learner.normaliser, scaled)
    samples = samples._replace(obs=normaliser(samples.obs))
    changed = _improve(settings, learner.parameters, learner.adam, learner.rate, samples, learn_key)
    parameters, adam, rate, loss = changed
    mean_return = total / ended.astype(total.dtype)
    means = steps.reward.mean(), jnp.exp(parameters.spread).mean(), rate, loss, jax.tree.map(jnp.mean, metrics)
    report = Report(mean_return, ended, *means)
    return Learner(parameters, adam, rate, normaliser, gains, worlds, returns, discounted, key), report


def _play(env: Env, settings: Settings, learner: Learner, key: Any) -> Any:
    """All worlds for some steps."""
    scale, middle = _action_scale(env)

    def one(carry: Any, key: Any) -> Any:
        worlds, returns, discounted, (ended, total) = carry
        obs = learner.normaliser(worlds.obs)
        mean, spread = mlp(learner.parameters.mean, obs), jnp.exp(learner.parameters.spread)
        action = mean + spread * jax.random.normal(key, mean.shape)
        after = env.step(worlds, middle + scale * jnp.clip(action, -1, 1))
        returns, discounted = returns + after.reward, settings.discount * discounted + after.reward
        whole = after.done & jnp.isfinite(returns)
        ended, total = ended + whole.sum(dtype=jnp.int32), total + jnp.where(whole, returns, 0.0).sum()
        results = after.reward, discounted, after.done, after.info["truncated"], after.info["final_obs"]
        returns, discounted = (jnp.where(after.done, 0.0, x) for x in (returns, discounted))
        return (after, returns, discounted, (ended, total)), (Steps(worlds.obs, action, mean, *results), after.metrics)

    none = jnp.zeros((), jnp.int32), jnp.zeros(())
    begin = learner.worlds, learner.returns, learner.discounted, none
    end, (steps, metrics) = jax.lax.scan(one, begin, jax.random.split(key, settings.unroll))
    worlds, returns, discounted, ends = end
    return worlds, returns, discounted, steps, ends, metrics


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
    surprise = steps.reward + settings.discount * jnp.where(over, 0.0, after) - here

    def back(later: Any, x: Any) -> Any:
        surprise, done = x
        advantage = surprise + settings.discount * settings.trace * jnp.where(done, 0.0, later)
        return advantage, advantage

    _, advantage = jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)
    samples = Samples(steps.obs, steps.action, steps.mean, advantage, advantage + here)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)


def _loss(settings: Settings, before: Any, parameters: Parameters, s: Samples) -> tuple[Any, Any]:
    """The loss, and the divergence from the policy of the iteration, whose spread was `before`."""
    mean, spread = mlp(parameters.mean, s.obs), parameters.spread
    ratio = jnp.exp(gaussian_log_density(s.action, mean, spread) - gaussian_log_density(s.action, s.mean, before))
    advantage = (s.advantage - s.advantage.mean()) / (s.advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    error = (mlp(parameters.value, s.obs)[..., 0] - s.target) ** 2
    squares = (jnp.exp(2 * before) + (s.mean - mean) ** 2) * jnp.exp(-2 * spread)
    divergence = (spread - before + 0.5 * squares - 0.5).sum(-1).mean()
    return -gain + 0.5 * error.mean() - settings.entropy * spread.sum(), divergence


def _improve(settings: Settings, parameters: Parameters, adam: Adam, rate: Any, samples: Samples, key: Any) -> Any:
    size = len(samples.advantage) // settings.minibatches
    loss = jax.value_and_grad(partial(_loss, settings, parameters.spread), has_aux=True)

    def one(carry: Any, rows: Any) -> Any:
        parameters, adam, rate = carry
        batch = jax.tree.map(lambda x: x[rows], samples)
        (value, divergence), slope = loss(parameters, batch)
        slower, faster = divergence > 2 * settings.divergence, divergence < settings.divergence / 2
        rate = jnp.where(slower, rate / RATE_STEP, jnp.where(faster, rate * RATE_STEP, rate))
        rate = jnp.clip(rate, LEAST_RATE, LARGEST_RATE)
        return (*adam_step(parameters, adam, slope, rate), rate), value

    def epoch(carry: Any, key: Any) -> Any:
        rows = jax.random.permutation(key, len(samples.advantage))[: size * settings.minibatches]
        return jax.lax.scan(one, carry, rows.reshape(settings.minibatches, size))

    keys = jax.random.split(key, settings.epochs)
    (parameters, adam, rate), values = jax.lax.scan(epoch, (parameters, adam, rate), keys)
    return parameters, adam, rate, values.mean()


def train(
    env: Env,
    settings: Settings = DEFAULT,
    *,
    steps: int,
    seed: int = 0,
    watch: Callable[[int, float, Report], None] | None = None,
    stop: Callable[[Report], bool] | None = None,
) -> tuple[Policy, list[Report]]:
    """Learn for a number of control steps of all worlds together.

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
    require_env(env)
    require_fields("Settings", settings, SETTINGS)
    if settings.worlds * settings.unroll < settings.minibatches:
        raise ValueError(f"{settings.minibatches} minibatches are more than worlds · unroll: take fewer")
    for name, value in (("steps", steps), ("seed", seed)):
        if not (isinstance(value, int | np.integer) and value >= 0):
            raise ValueError(f"{name} must be a whole number, at least 0, not {value!r}")
    env = env.replace(auto_reset=True)
    begun = time.monotonic()
    learner = jax.jit(partial(start, env, settings))(jax.random.key(seed))
    compiled = jax.jit(partial(iterate, env, settings), donate_argnums=0)
    history: list[Report] = []
    a_turn = settings.worlds * settings.unroll
    count = -(-steps // a_turn)
    pending: Any = None
    for k in range(count + 1):  # a report is read while the next iteration runs
        waiting, pending = pending, None
        if k < count:
            learner, pending = compiled(learner)
        if waiting is None:
            continue
        report = jax.tree.map(float, jax.device_get(waiting))
        history.append(report)
        if watch is not None:
            watch(k * a_turn, time.monotonic() - begun, report)
        if stop is not None and stop(report):
            break
    scale, middle = _action_scale(env)
    return Policy(learner.parameters.mean, learner.normaliser, scale, middle), history
