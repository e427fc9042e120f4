"""Environments to learn in: pure functions `reset(key)` and `step(state, action)` over any batch of worlds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinetree._unknown import require_word

from .ant import Ant
from .cart_pole import CartPole
from .env import Env, EnvState
from .half_cheetah import HalfCheetah
from .humanoid import Humanoid
from .quadruped import Quadruped
from .reacher import Reacher
from .torch_adapter import TorchEnv

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

    from .gymnasium_adapter import ManyWorlds, OneWorld
    from .stable_baselines_adapter import StableWorlds

ENVS: dict[str, type[Env]] = {
    "cart_pole": CartPole,
    "reacher": Reacher,
    "half_cheetah": HalfCheetah,
    "ant": Ant,
    "quadruped": Quadruped,
    "humanoid": Humanoid,
}


def make(name: str, **settings: Any) -> Env:
    """An environment by its name: "cart_pole", "reacher", "half_cheetah", "ant", "quadruped" or "humanoid".

    Arguments:
        name: which.
        settings: `auto_reset`, `time_limit`, `noise`, `randomise`, `model`, and those of the environment.
    """
    require_word("environment", name, ENVS)
    return ENVS[name](**settings)


def to_gymnasium(
    env: Env, num_envs: int | None = None, autoreset_mode: "AutoresetMode | str" = "NextStep"
) -> "OneWorld | ManyWorlds":
    """The task as a `gymnasium.Env` of one world; with `num_envs`, as a `gymnasium.vector.VectorEnv`.

    Arguments:
        env: the task.
        num_envs: how many worlds.
        autoreset_mode: gymnasium's, of a vector: episodes start again with the "NextStep", or within the "SameStep"; or
            "Disabled": by `reset(options={"reset_mask": ...})`.
    """
    _require("gymnasium", "gymnasium")
    from .gymnasium_adapter import ManyWorlds, OneWorld

    return OneWorld(env) if num_envs is None else ManyWorlds(env, num_envs, autoreset_mode)


def to_stable_baselines(env: Env, num_envs: int) -> "StableWorlds":
    """A number of worlds of the task as a `VecEnv` of Stable-Baselines3, for its learners and its `VecEnv` wrappers."""
    _require("gymnasium", "gymnasium")
    _require("stable_baselines3", "stable-baselines3")
    from .stable_baselines_adapter import StableWorlds

    return StableWorlds(env, num_envs)


def _require(module: str, package: str) -> None:
    """Say which package is missing."""
    try:
        import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"this adapter needs the package {package}: pip install {package}") from None


__all__ = [
    "ENVS",
    "Ant",
    "CartPole",
    "Env",
    "EnvState",
    "HalfCheetah",
    "Humanoid",
    "Quadruped",
    "Reacher",
    "TorchEnv",
    "make",
    "to_gymnasium",
    "to_stable_baselines",
]
