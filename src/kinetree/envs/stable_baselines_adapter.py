"""Worlds side by side for Stable-Baselines3: its `VecEnv`, in NumPy arrays on the host."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]

from .env import Env
from .gymnasium_adapter import ManyWorlds


class StableWorlds(VecEnv):
    """A world whose episode ended starts again within the step; its info then has the last observation."""

    def __init__(self, env: Env, num_envs: int):
        self.worlds = ManyWorlds(env, num_envs, AutoresetMode.SAME_STEP)
        self.actions: Any = None
        super().__init__(num_envs, self.worlds.single_observation_space, self.worlds.single_action_space)

    def reset(self) -> np.ndarray:
        """Start episodes in all worlds, by the first seed that `seed` was given."""
        obs, _ = self.worlds.reset(seed=self._seeds[0])
        self._reset_seeds()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """One control step in all worlds."""
        obs, reward, over, late, found = self.worlds.step(self.actions)
        names = [name for name in found if f"_{name}" in found and not name.startswith(("_", "final_"))]
        infos: list[dict[str, Any]] = [{name: found[name][k] for name in names} for k in range(self.num_envs)]
        done = over | late
        for k in np.flatnonzero(done).tolist():
            infos[k] |= {"terminal_observation": found["final_obs"][k], "TimeLimit.truncated": bool(late[k])}
        return obs, reward.astype(np.float32), done, infos

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _chosen(self, indices: Any) -> Sequence[int]:
        return range(self.num_envs) if indices is None else [indices] if isinstance(indices, int) else list(indices)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the task, once for each requested world; all worlds share it."""
        return [getattr(self.worlds if attr_name == "render_mode" else self.worlds.env, attr_name)] * len(
            self._chosen(indices)
        )

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: all worlds are one compiled program."""
        raise NotImplementedError("a task does not change once it is compiled: make another with `envs.make`")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **settings: Any) -> list[Any]:
        """The result of a method of the task, once for each requested world."""
        return [getattr(self.worlds.env, method_name)(*arguments, **settings)] * len(self._chosen(indices))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No world has a wrapper of its own."""
        return [False] * len(self._chosen(indices))
