"""Environments for learners in PyTorch: tensors share their memory with JAX's arrays, on a CPU or a GPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from .env import Env, EnvState, require_worlds


def _torch() -> Any:
    try:
        return import_module("torch")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("this adapter needs PyTorch: pip install torch, or give from_dlpack") from None


Tensor: TypeAlias = Any  # PyTorch's, or what `from_dlpack` makes. kinetree does not import PyTorch.


class TorchEnv:
    """Worlds side by side, which start again by themselves.

    Arguments:
        env: the task.
        num_envs: how many worlds.
        from_dlpack: makes a tensor of an array that speaks DLPack; PyTorch's, if not given.
    """

    def __init__(self, env: Env, num_envs: int, from_dlpack: Callable[[jax.Array], Tensor] | None = None):
        require_worlds(env, num_envs)
        self._tensor = _torch().from_dlpack if from_dlpack is None else from_dlpack
        self.env, self.num_envs = env.replace(auto_reset=True), num_envs
        self.observation_size, self.action_size = env.observation_size, env.action_size
        self._reset, self._step = jax.jit(self.env.reset), jax.jit(self.env.step)
        self.state: EnvState | None = None

    def reset(self, seed: int = 0) -> Tensor:
        """Observations (num_envs, observation_size) of new episodes."""
        self.state = state = self._reset(jax.random.split(jax.random.key(seed), self.num_envs))
        return self._tensor(state.obs)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Observations, rewards, which episodes ended, and more: "truncated", "final_obs" and the metrics.

        Arguments:
            action: a tensor (num_envs, action_size), with no gradient.
        """
        if self.state is None:
            raise RuntimeError("call reset() before step()")
        if not hasattr(action, "__dlpack__"):
            raise TypeError(f"action must be a tensor, not a {type(action).__name__}")
        self.state = state = self._step(self.state, jnp.from_dlpack(action))
        more = {"truncated": state.info["truncated"], "final_obs": state.info["final_obs"], **state.metrics}
        tensors = jax.tree.map(self._tensor, (state.obs, state.reward, state.done, more))
        return tensors
