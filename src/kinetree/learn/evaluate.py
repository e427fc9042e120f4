"""The returns of a policy: whole episodes of many worlds, in one program."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.envs import Env
from kinetree.envs.env import Actions, Observations, require_worlds


class Score(NamedTuple):
    """Means over episodes."""

    episode_return: float
    length: float  # control steps
    metrics: dict[str, float]  # of the environment, over all steps


def evaluate(env: Env, policy: Callable[[Observations], Actions], *, worlds: int = 128, seed: int = 0) -> Score:
    """Run a policy without noise for one episode in each world.

    Arguments:
        env: the task, with a time limit.
        policy: from observations (..., observation_size) to actions.
        worlds: how many.
        seed: of the episodes.

    Returns:
        Score: .episode_return, .length, .metrics, such as `kinetree.learn.evaluate(env, policy).episode_return`.
    """
    require_worlds(env, worlds, "worlds")
    if env.time_limit is None:
        raise ValueError("an environment without a time limit has episodes without end")
    once = env.replace(auto_reset=False)

    def one(carry: Any, _: Any) -> Any:
        state, going, (total, count, sums) = carry
        after = once.step(state, policy(state.obs))
        share = going.astype(after.reward.dtype)
        sums = jax.tree.map(lambda s, m: s + jnp.where(going, m, 0.0).sum(), sums, after.metrics)
        found = total + jnp.where(going, after.reward, 0.0).sum(), count + share.sum(), sums
        return (after, going & ~after.done, found), None

    @jax.jit
    def run(keys: Any) -> Any:
        begin = once.reset(keys)
        zero = jnp.zeros((), begin.reward.dtype)
        none = zero, zero, jax.tree.map(lambda _: zero, begin.metrics)
        (_, _, found), _ = jax.lax.scan(one, (begin, jnp.ones(worlds, bool), none), None, env.time_limit)
        return found

    total, count, sums = jax.device_get(run(jax.random.split(jax.random.key(seed), worlds)))
    return Score(float(total) / worlds, float(count) / worlds, {k: float(s / count) for k, s in sums.items()})
