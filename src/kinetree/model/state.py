"""States of a mechanism in motion, and the motion options of a file: time step, integrator, keyframes."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from kinetree._arrays import require_real
from kinetree._types import AnyArray, Float
from kinetree._unknown import did_you_mean

from .checks import real_numbers
from .errors import ModelError
from .required import is_whole

TIMESTEP = 2e-3  # s, of models that do not say; MuJoCo's default
INTEGRATOR = "Euler"  # likewise


STATE_AXES = {"q": 1, "qd": 1, "act": 1, "time": 0, "warm_start": 1}  # axes of a state's arrays after the batch's


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class State:
    """Where a mechanism is and how it moves. Leading axes are batches."""

    q: Float[AnyArray, "... nq"]
    qd: Float[AnyArray, "... nv"]
    act: Float[AnyArray, "... na"]  # activations of actuators
    time: Float[AnyArray, "..."]  # seconds
    warm_start: Float[AnyArray, "... nv"]  # where the solver starts; a guess, so its derivatives mean nothing

    def replace(self, **changes: Float[AnyArray, "..."]) -> "State":
        """The same state with other arrays."""
        return dataclasses.replace(self, **changes)

    def after(self, changes: Mapping[str, AnyArray]) -> "State":
        """As `replace`, without its checks of names: `dataclasses.replace` takes as long as a small step."""
        new = object.__new__(State)
        object.__setattr__(new, "__dict__", {**self.__dict__, **changes})
        return new

    @property
    def arrays(self) -> dict[str, AnyArray]:
        """All arrays by name, in the order above. `vars` has the order in which they were set."""
        return {name: getattr(self, name) for name in State.__dataclass_fields__}

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes."""
        return tuple(self.q.shape[:-1])

    @property
    def batches(self) -> list[tuple[int, ...]]:
        """Leading axes of each array, which may broadcast."""
        return [np.shape(x)[: np.ndim(x) - n] for x, n in zip(self.arrays.values(), STATE_AXES.values(), strict=True)]


def require_state(state: Any, name: str = "state") -> None:
    """Refuse a value that is not a state, such as only positions."""
    if not isinstance(state, State):
        kind = type(state).__name__
        raise TypeError(f"{name} must be a kinetree.State, such as kinetree.initial_state makes, not a {kind}")


class Keyframes:
    """Named states of a file, number by number, and the configuration it starts from. Compared by value."""

    def __init__(
        self,
        names: Any = (),
        start: Any = (),
        q: Any = (),
        qd: Any = (),
        act: Any = (),
        time: Any = (),
        ctrl: Any = (),
        placed: Any = (),
        poses: Any = (),
    ):
        """`placed` names bodies that are placed by hand; `poses`, (keyframes, bodies, 7), are their poses."""
        self.names, self.placed = tuple(names), tuple(placed)
        self.start, self.q, self.qd, self.act, self.time, self.ctrl, self.poses = (
            np.array(x, float) for x in (start, q, qd, act, time, ctrl, poses)
        )
        arrays = (self.start, self.q, self.qd, self.act, self.time, self.ctrl, self.poses)
        for a in arrays:
            a.flags.writeable = False
        self._key = (self.names, self.placed, tuple((a.shape, a.tobytes()) for a in arrays))
        self._hash = hash(self._key)

    def __repr__(self) -> str:
        """All values: checkpoints know a model by this text, so it is the same in every process."""
        return f"Keyframes{self._key!r}"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyframes) and self._key == other._key

    def __len__(self) -> int:
        return len(self.names)

    def number(self, which: str | int) -> int:
        """The number of a keyframe, from its name or number."""
        if isinstance(which, str):
            if which not in self.names:
                hint = did_you_mean(which, self.names) if self.names else ": there are none"
                raise KeyError(f"no keyframe is called {which!r}{hint}")
            return self.names.index(which)
        if not is_whole(which):
            raise TypeError(f"a keyframe is a name or a number, not a {type(which).__name__}")
        if not -len(self) <= which < len(self):
            raise IndexError(f"no keyframe has number {which}: there are {len(self)}")
        return int(which) % len(self)

    def state(self, which: str | int) -> State:
        """The state of a keyframe."""
        k = self.number(which)
        q, qd, act, time = (np.array(x[k]) for x in (self.q, self.qd, self.act, self.time))
        return State(q, qd, act, time, np.zeros(self.qd.shape[1]))

    def controls(self, which: str | int) -> np.ndarray:
        """The controls (nu,) of a keyframe."""
        return np.array(self.ctrl[self.number(which)])

    def places(self, which: str | int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Position and quaternion of the bodies that a keyframe places."""
        k = self.number(which)
        return {name: (np.array(p[:3]), np.array(p[3:])) for name, p in zip(self.placed, self.poses[k], strict=True)}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Stepping:
    """The options of a file for steps in time."""

    timestep: Any = field(default_factory=lambda: np.array(TIMESTEP))  # s
    integrator: str = field(default=INTEGRATOR, metadata={"static": True})
    implicit_damping: bool = field(default=True, metadata={"static": True})  # of "Euler"
    heavy_actuators: bool = field(default=False, metadata={"static": True})  # with armature or damping, on joints
    keyframes: Keyframes = field(default=Keyframes(), metadata={"static": True})

    def damps_later(self, damping: Any) -> bool:
        """True if "Euler" takes dampers (nv,) at the end of a step.

        MuJoCo does if one of them is positive, or if an actuator has armature or damping of its own and drives a joint.
        Numbers that are not known count as positive.
        """
        known = isinstance(damping, np.ndarray) and not self.heavy_actuators
        return self.implicit_damping and not (known and bool((damping < 0).any()) and not (damping > 0).any())


DEFAULT_STEPPING = Stepping()


def check_timestep(value: Any) -> Any:
    """A positive number of seconds, as an array; checked unless it is being traced."""
    if isinstance(value, jax.Array):
        require_real("timestep", value)
        if value.shape != ():
            raise ModelError(f"timestep must be one number, not an array of shape {value.shape}")
        return value
    array = real_numbers(value, "timestep")
    if array.shape != () or not (np.isfinite(array) and array > 0):
        raise ModelError(f"timestep must be a positive number of seconds, not {value!r}")
    return array
