"""Names for `gymnasium.make` and `gymnasium.make_vec`: importing this file makes the environments known to gymnasium.

Scripts that take an environment's name run unchanged: `--env-id kinetree.envs.registered:kinetree/ant-v0`.
"""

from functools import partial
from typing import Any

import gymnasium

from . import ENVS, make, to_gymnasium


def _one(name: str, render_mode: Any = None, **settings: Any) -> Any:
    """One world. It has no render mode, because pictures come from `kt.view`."""
    return to_gymnasium(make(name, **settings))


def _many(
    name: str, num_envs: int = 1, render_mode: Any = None, autoreset_mode: Any = "NextStep", **settings: Any
) -> Any:
    """Worlds side by side in one program."""
    return to_gymnasium(make(name, **settings), num_envs, autoreset_mode)


for _name in ENVS:
    gymnasium.register(
        f"kinetree/{_name}-v0", entry_point=partial(_one, _name), vector_entry_point=partial(_many, _name)
    )
