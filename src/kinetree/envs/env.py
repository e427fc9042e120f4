"""Environments: two pure functions, `reset(key)` and `step(state, action)`, over any batch of worlds."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Bool, Float, Number, Pytree
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model, State
from kinetree.model.arguments import require_width
from kinetree.model.fields import COUNT, FLAG, Form, numbers, optional, require_fields, table
from kinetree.model.required import require_model
from kinetree.simulate import advance, initial_state

Controls = Float[AnyArray, "... nu"]
Actions = Float[AnyArray, "... actions"]
Observations = Float[AnyArray, "... observations"]
Numbers = Float[AnyArray, "..."]  # one for each world
Flags = Bool[AnyArray, "..."]
Judgement = tuple[Numbers, Flags, Mapping[str, Numbers]]  # rewards, which episodes are over, and metrics


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class EnvState:
    """The state of worlds, and the results of the last step. Leading axes are worlds."""

    physics: State
    obs: Observations
    reward: Numbers
    done: Flags  # the episode ended with this step, by itself or by the time limit
    metrics: Mapping[str, Numbers]  # parts of the reward, and other numbers to watch
    info: dict[str, Pytree]  # "key", "steps" since the start, "truncated" by the time limit, "task", "final_obs"

    def replace(self, **changes: Any) -> "EnvState":
        """The same with other parts."""
        return dataclasses.replace(self, **changes)


SETTINGS = {
    "auto_reset": FLAG,
    "time_limit": optional(COUNT),
    "noise": Form("finite numbers", lambda x: numbers(1).fits(x) or table("", 1).fits(x)),
    "randomise": optional(Form("a function or a model", lambda x: callable(x) or isinstance(x, Model))),
    "frame_skip": COUNT,
}


@dataclass(frozen=True, eq=False)
class Env(ABC):
    """A task for a robot. Subclasses define the start of an episode, the observations, and the rewards.

    Arguments:
        model: the robot; another one, with other numbers, may be given.
        auto_reset: worlds whose episode ended start again within the step. `obs` is then the first of the new episode,
            and `info["final_obs"]` the last of the old one.
        time_limit: control steps to an episode; None: no end.
        noise: standard deviation of the noise on observations; a number, or (observation_size,).
        randomise: worlds that differ: a function (model, key) -> model, such as one that draws factors for
            `kinetree.scaled`, called once for each world; or the models themselves, with an axis over worlds.
            Observations and rewards are those of `model`.
    """

    model: Model = None  # type: ignore[assignment]  # made by `robot`
    auto_reset: bool = True
    time_limit: int | None = 1000
    noise: Number | Float[AnyArray, " observations"] = 0.0
    randomise: Callable[[Model, jax.Array], Model] | Model | None = None
    frame_skip: int = field(default=1, kw_only=True)  # steps of the model to a control step

    def __post_init__(self) -> None:
        if self.model is None:
            object.__setattr__(self, "model", self.robot())
        require_model(self.model)
        require_fields(type(self).__name__, self, SETTINGS)
        if self.model.batch:  # models of worlds that differ; sizes and ranges are read from the first
            object.__setattr__(self, "randomise", self.model)
            first = (0,) * len(self.model.batch)
            object.__setattr__(self, "model", jax.tree.map(lambda x: np.asarray(x[first]), self.model))

    # -- what a task says ---------------------------------------------------------------------------------------------

    @abstractmethod
    def robot(self) -> Model:
        """The model of the task."""

    @abstractmethod
    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        """The start of one world, and other data of its task, a pytree of arrays."""

    @abstractmethod
    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """Observations of states, (..., observation_size)."""

    def observe_first(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """Observations at the start of an episode; by default the same function."""
        return self.observe(physics, ctrl, task)

    @abstractmethod
    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        """Rewards, which episodes are over, and metrics, (...,) each."""

    def control(self, action: Actions, physics: State, task: Pytree) -> Controls:
        """Controls (..., nu) of the actuators; by default the action."""
        return action

    def next_task(self, key: jax.Array, physics: State, task: Pytree) -> Pytree:
        """The data of the task after a step; by default unchanged. `key` is (...,)."""
        return task

    # -- what all have ------------------------------------------------------------------------------------------------

    @property
    def dt(self) -> float:
        """Seconds to a control step."""
        return float(np.asarray(self.model.timestep).max()) * self.frame_skip

    @property
    def action_size(self) -> int:
        """Numbers in an action."""
        return self.model.nu

    @property
    def action_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest actions, (action_size,) each."""
        assert self.model.actuators is not None
        bounds = np.asarray(self.model.actuators.ctrl_range)
        return bounds[:, 0], bounds[:, 1]

    @property
    def observation_size(self) -> int:
        """Numbers in an observation."""
        return jax.eval_shape(self.reset, jax.random.key(0)).obs.shape[-1]

    def replace(self, **changes: Any) -> "Env":
        """The same task with other settings."""
        return dataclasses.replace(self, **changes)

    def models(self, batch: tuple[int, ...]) -> Model:
        """The models of `count` worlds: one for all, or one with first axes over worlds that differ."""
        draw = self.randomise
        if draw is None or isinstance(draw, Model):
            return self.model if draw is None else draw

        def make() -> Model:
            with jax.ensure_compile_time_eval():  # steps are compiled for these numbers, so they must be known
                keys = jax.random.split(jax.random.key(0), batch)
                return jax.tree.map(np.asarray, each_world(partial(draw, self.model), keys))

        return _drawn.get(self, batch, make)

    def reset(self, key: jax.Array) -> EnvState:
        """Start episodes.

        Arguments:
            key: one key of `jax.random`, or an array of them, one for each world.
        """
        key = _typed(key)
        own, kept = _split(key)
        physics, task = each_world(self.start, own)
        ctrl = jnp.zeros((*key.shape, self.model.nu), physics.q.dtype)
        obs = self.observe_first(physics, ctrl, task)
        zero, no = jnp.zeros(key.shape, obs.dtype), jnp.zeros(key.shape, bool)
        _, _, metrics = jax.eval_shape(self.judge, physics, ctrl, physics, task)
        metrics = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), metrics)
        own, kept = _split(kept)
        obs = self._noisy(obs, own)
        info = {"key": kept, "steps": jnp.zeros(key.shape, jnp.int32), "truncated": no, "task": task}
        info |= {"final_obs": obs} if self.auto_reset else {}
        return _strong(EnvState(physics, obs, zero, no, metrics, info))

    def step(self, state: EnvState, action: Actions) -> EnvState:
        """One control step.

        Arguments:
            state: from `reset` or `step`.
            action: (..., action_size).
        """
        if not isinstance(state, EnvState):
            raise TypeError(f"state must be an EnvState, such as reset makes, not a {type(state).__name__}")
        action = require_width("action", action, self.action_size)
        before, task = state.physics, state.info["task"]
        own, other, noise, kept = _split(state.info["key"], 4)
        ctrl = self.control(jnp.asarray(action, before.q.dtype), before, task)
        after = advance(self.models(before.batch), before, ctrl, substeps=self.frame_skip)
        reward, over, metrics = self.judge(before, jnp.asarray(action, before.q.dtype), after, task)
        task = self.next_task(own, after, task)
        steps = state.info["steps"] + 1
        late = jnp.zeros_like(over) if self.time_limit is None else ~over & (steps >= self.time_limit)
        obs = self._noisy(self.observe(after, ctrl, task), noise)
        done = over | late
        info = {"key": kept, "steps": steps, "truncated": late, "task": task}
        if not self.auto_reset:
            return _strong(EnvState(after, obs, reward, done, metrics, info))
        fresh = self.reset(other)
        changing = {"physics": after, "obs": obs, "steps": steps, "task": task}
        anew = {"physics": fresh.physics, "obs": fresh.obs, "steps": fresh.info["steps"], "task": fresh.info["task"]}
        chosen = jax.tree.map(lambda new, old: where_done(done, new, old), anew, changing)
        info |= {"steps": chosen["steps"], "task": chosen["task"], "final_obs": obs}
        return _strong(EnvState(chosen["physics"], chosen["obs"], reward, done, metrics, info))

    def _noisy(self, obs: Any, key: Any) -> Any:
        if isinstance(self.noise, float | int) and self.noise == 0:
            return obs
        shape = obs.shape[-1:]
        drawn = each_world(lambda k: jax.random.normal(k, shape, obs.dtype), key)
        return obs + jnp.asarray(self.noise, obs.dtype) * drawn

    def physics_at(self, q: Float[AnyArray, " nq"], qd: Float[AnyArray, " nv"]) -> State:
        """A state of one world, for `start`."""
        return initial_state(self.model, jnp.asarray(q, float), jnp.asarray(qd, float))


def require_env(env: Any) -> None:
    """Refuse a value that has not the functions of an environment."""
    if not (hasattr(env, "reset") and hasattr(env, "step")):
        raise TypeError(f"env must be an environment, such as envs.make makes, not a {type(env).__name__}")


def require_worlds(env: Any, count: Any, name: str = "num_envs") -> None:
    """Refuse what is no environment, or no number of worlds."""
    require_env(env)
    if not COUNT.fits(count):
        raise ValueError(f"{name} must be {COUNT.words}, not {count!r}")


@dataclass(frozen=True, eq=False)
class Runner(Env):
    """A robot that runs along x with little effort, as gymnasium's do."""

    frame_skip: int = field(default=5, kw_only=True)
    forward_weight: float = field(default=1.0, kw_only=True)
    control_weight: float = field(default=0.1, kw_only=True)

    def running(
        self, speed: Numbers, ctrl: Controls, healthy: Flags | None = None, touch: Numbers | None = None
    ) -> Judgement:
        """The results of `judge`. `healthy`: which worlds earn the reward for it; `touch`: the cost of contacts."""
        forward, effort = self.forward_weight * speed, self.control_weight * (ctrl**2).sum(-1)
        metrics = {"x_velocity": speed, "reward_forward": forward, "reward_ctrl": -effort}
        if healthy is None:
            return forward - effort, jnp.zeros(speed.shape, bool), metrics
        alive = self.healthy_reward * healthy.astype(speed.dtype)  # type: ignore[attr-defined]
        cost = jnp.zeros_like(effort) if touch is None else touch
        metrics |= {"reward_survive": alive, "reward_contact": -cost}
        return forward + alive - effort - cost, ~healthy, metrics


_drawn: OncePerOwner[Model] = OncePerOwner()


def jittered(env: Env, key: Any, scale: float, normal_speed: bool = True) -> tuple[Any, Any]:
    """Gymnasium's usual start: coordinates of the file, uniformly off by `scale`, and small speeds, in its order."""
    first, second = jax.random.split(key)
    home = np.asarray(initial_state(env.model).q)
    q = home + jax.random.uniform(first, home.shape, float, -scale, scale)
    drawn = jax.random.normal(second, (env.model.nv,), float) if normal_speed else None
    speeds = drawn if drawn is not None else jax.random.uniform(second, (env.model.nv,), float, -1, 1)
    return q, scale * speeds


def _typed(key: Any) -> Any:
    """Keys with a type of their own, whose shape is that of the worlds."""
    kind = getattr(key, "dtype", None)
    if kind is not None and jnp.issubdtype(kind, jax.dtypes.prng_key):
        return key
    if kind != np.uint32 or not np.ndim(key):  # uint32: keys of jax.random.PRNGKey
        raise TypeError(f"key must be of jax.random, such as jax.random.key(0), not {key!r}")
    return jax.random.wrap_key_data(jnp.asarray(key))


def each_world(function: Any, keys: Any) -> Any:
    """A function of one key, for keys of any shape."""
    for _ in keys.shape:
        function = jax.vmap(function)
    return function(keys)


def _split(keys: Any, number: int = 2) -> tuple[Any, ...]:
    found = each_world(lambda k: tuple(jax.random.split(k, number)[i] for i in range(number)), keys)
    return tuple(found)


def _strong(state: EnvState) -> EnvState:
    """Arrays with types that are not weak, so that a program compiled for the first step serves the next."""
    return jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.extended) else jnp.asarray(x, x.dtype), state)


def where_done(done: Any, new: Any, old: Any) -> Any:
    """New numbers for worlds whose episode ended."""
    return jnp.where(done.reshape(done.shape + (1,) * (old.ndim - done.ndim)), new, old)
