"""Environments for gymnasium: one world, or a vector of worlds, in NumPy arrays on the host."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from kinetree._unknown import require_word
from kinetree.model.arguments import require_width

from .env import Env, EnvState, each_world, require_env, require_worlds, where_done

DTYPE = np.float32  # of observations and actions, in either mode of JAX


def _in_shape(action: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Actions as the programs take them, after a check of their form."""
    array = require_width("action", action, shape[-1])
    if array.shape != shape:
        raise ValueError(f"action must have shape {shape}, not {array.shape}")
    return np.asarray(array, DTYPE)


def _spaces(env: Env) -> tuple[Box, Box]:
    low, high = (np.asarray(x, DTYPE) for x in env.action_range)
    return Box(-np.inf, np.inf, (env.observation_size,), DTYPE), Box(low, high, dtype=DTYPE)


class OneWorld(gymnasium.Env):
    """One world, which does not start again by itself."""

    metadata = {"render_modes": []}  # noqa: RUF012  # gymnasium's own is a dictionary of the class

    def __init__(self, env: Env):
        require_env(env)
        self.env = env.replace(auto_reset=False)
        self.observation_space, self.action_space = _spaces(env)
        self._reset, self._step = jax.jit(self.env.reset), jax.jit(self.env.step)
        self.state: EnvState | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.state = state = self._reset(jax.random.key(int(self.np_random.integers(2**31))))
        return np.array(state.obs, DTYPE), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One control step."""
        if self.state is None:
            raise RuntimeError("call reset() before step()")
        self.state = state = self._step(self.state, _in_shape(action, (self.env.action_size,)))
        late = bool(state.info["truncated"])
        metrics = {name: float(value) for name, value in state.metrics.items()}
        over = bool(state.done) and not late
        return np.array(state.obs, DTYPE), float(state.reward), over, late, metrics


class ManyWorlds(gymnasium.vector.VectorEnv):
    """Worlds side by side in one program.

    An episode that ended starts again with the next step, which ignores its action and has no reward, as gymnasium's
    own vectors do and its wrappers expect; or within the same step, whose `infos` then have the last observation, and
    what was to be said of it; or by `reset(options={"reset_mask": ...})`, if the mode is "Disabled".
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, env: Env, num_envs: int, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP):
        require_worlds(env, num_envs)
        word = autoreset_mode.value if isinstance(autoreset_mode, AutoresetMode) else autoreset_mode
        require_word("autoreset_mode", word, [m.value for m in AutoresetMode])
        mode = AutoresetMode(word)
        self.metadata = self.metadata | {"autoreset_mode": mode}
        self.same_step = mode is AutoresetMode.SAME_STEP
        self.env, self.num_envs = env.replace(auto_reset=self.same_step), num_envs
        self.single_observation_space, self.single_action_space = _spaces(env)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._reset = jax.jit(self.env.reset)
        self._step = jax.jit(partial(_next_step, self.env) if mode is AutoresetMode.NEXT_STEP else self.env.step)
        self._choose = jax.jit(lambda chosen, new, old: jax.tree.map(partial(where_done, chosen), new, old))
        self.state: EnvState | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Any = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start episodes by one seed, or by one for each world: then a world starts as `OneWorld` does.

        All worlds start, or those of `options["reset_mask"]`.
        """
        chosen = (options or {}).get("reset_mask")
        if chosen is not None:
            chosen = np.asarray(chosen)
            if chosen.dtype != bool or chosen.shape != (self.num_envs,):
                raise ValueError(f"reset_mask must be {self.num_envs} truth values, not {chosen!r}")
            if self.state is None:
                raise RuntimeError("call reset() without a reset_mask first")
        if seed is None or isinstance(seed, int | np.integer):
            super().reset(seed=seed if seed is None else int(seed))
            keys = jax.random.split(jax.random.key(int(self.np_random.integers(2**31))), self.num_envs)
        else:
            keys = jax.vmap(jax.random.key)(np.array(self._drawn(seed), np.uint32))
        fresh = self._reset(keys)
        self.state = state = fresh if chosen is None else self._choose(chosen, fresh, self.state)
        return np.array(state.obs, DTYPE), {}

    def _drawn(self, seeds: Any) -> list[int]:
        """The first number that each seed draws."""
        if not isinstance(seeds, Sequence | np.ndarray) or isinstance(seeds, str) or len(seeds) != self.num_envs:
            raise ValueError(f"seed must be a whole number, or a list of {self.num_envs} of them, not {seeds!r}")
        sources = (self.np_random if s is None else np_random(int(s))[0] for s in seeds)
        return [int(source.integers(2**31)) for source in sources]

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One control step in all worlds."""
        if self.state is None:
            raise RuntimeError("call reset() before step()")
        self.state = state = self._step(self.state, _in_shape(actions, (self.num_envs, self.env.action_size)))
        done, late = np.asarray(state.done), np.asarray(state.info["truncated"])
        infos: dict[str, Any] = {name: np.asarray(value) for name, value in state.metrics.items()}
        infos |= {f"_{name}": np.ones(self.num_envs, bool) for name in state.metrics}
        if self.same_step and done.any():
            last = infos | {f"_{name}": done for name in state.metrics}
            infos |= {"final_info": last, "_final_info": done}
            infos |= {"final_obs": np.array(state.info["final_obs"], DTYPE), "_final_obs": done}
        return np.array(state.obs, DTYPE), np.array(state.reward, np.float64), done & ~late, late, infos


def _next_step(env: Env, state: EnvState, action: Any) -> EnvState:
    """A step in the worlds whose episodes go on; the others start again."""
    after, anew = env.step(state, action), env.reset(each_world(partial(jax.random.fold_in, data=1), state.info["key"]))
    return jax.tree.map(partial(where_done, state.done), anew, after)
