"""Mimic joints: coordinates that follow others, as a linear coupling around the whole of the dynamics.

A coupled model has the tree of the free one, and fewer coordinates: q_all = G q + g, qd_all = G qd, with G constant. By
virtual work tau = Gᵀ tau_all and H = Gᵀ H_all G. The algorithms do not handle this: the decorator `coupled` widens the
arguments of a public function and narrows its result.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from reprlib import repr as shortened
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import any_rank, as_array, in_bits_of, require_real
from kinetree._unknown import did_you_mean

from .checks import frozen
from .errors import ModelError
from .fields import NUMBER, Form
from .required import require_model

F = TypeVar("F", bound=Callable[..., Any])
Follow = tuple[str, float, float]  # the joint to follow, and ratio and offset: q = ratio · q_followed + offset


class Coupling:
    """G and g. Each coordinate of the free model is a ratio times one of the coupled model's, plus an offset."""

    def __init__(self, kept_q: np.ndarray, kept_v: np.ndarray, source_q: Any, source_v: Any, ratio_v: Any, lines: Any):
        columns = (x.astype(np.int32) for x in (kept_q, kept_v, source_q, source_v))  # the same to JAX in both modes
        arrays = tuple(map(frozen, (*columns, ratio_v, *lines)))
        self.kept_q, self.kept_v = arrays[:2]  # columns of the free model that are kept
        self.source_q, self.source_v = arrays[2:4]  # for each column of the free model, the coupled model's column
        self.ratio_v, self.ratio_q, self.offset_q = arrays[4:]
        self._key = tuple(a.tobytes() for a in arrays)
        self.by_leader, self.first, self.further, self.same = _sums(self.source_v, self.nv)
        self._hash = hash(self._key)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a copy or a pickle, whose arrays can be written to."""
        self.__dict__.update({name: frozen(value) for name, value in state.items()})

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coupling) and self._key == other._key

    @property
    def nq(self) -> int:
        """Coordinates that are left."""
        return len(self.kept_q)

    @property
    def nv(self) -> int:
        """Degrees of freedom that are left."""
        return len(self.kept_v)

    def widen_q(self, q: Any) -> Any:
        """G q + g."""
        q = _array(q, self.nq, "q")
        return q[..., self.source_q] * self.ratio_q.astype(q.dtype) + self.offset_q.astype(q.dtype)

    def widen_v(self, v: Any, name: str = "qd") -> Any:
        """G v, of velocities or accelerations."""
        v = _array(v, self.nv, name)
        return v[..., self.source_v] * self.ratio_v.astype(v.dtype)

    def narrow(self, f: Any, axis: int = -1) -> Any:
        """Gᵀ f, along one axis."""
        of = np if isinstance(f, np.ndarray) else jnp
        along = (-1, *(1,) * (-1 - axis))
        total = of.take(f * self.ratio_v.astype(f.dtype).reshape(along), self.by_leader, axis, mode="clip")
        for further, same in zip(self.further, self.same, strict=True):
            more = of.take(total, further, axis, mode="clip")
            total = total + of.where(same.reshape(along), more, f.dtype.type(0))
        return of.take(total, self.first, axis, mode="clip")

    def narrow_matrix(self, H: Any) -> Any:
        """Gᵀ H G."""
        if not isinstance(H, np.ndarray | jax.Array):
            raise ValueError("mimic joints fill in the mass matrix: it has no packed form")
        return self.narrow(self.narrow(H), -2)


def _sums(source: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    """For sums over the columns of a leader: their order, each leader's first one, and which columns are added.

    Columns of one leader lie side by side. Each adds the columns 1, 2, 4, ... further, where they are of its leader, so
    the first column of a leader gets the sum. On a GPU this is five times as fast as a scatter.
    """
    order = np.argsort(source, kind="stable")
    leaders, places = source[order], np.arange(len(source))
    longest = int(np.bincount(source, minlength=1).max())
    steps = 1 << np.arange((longest - 1).bit_length())
    further = np.minimum(places + steps[:, None], len(source) - 1)
    same = (places + steps[:, None] < len(source)) & (leaders[further] == leaders)
    first = np.searchsorted(leaders, np.arange(size))
    return tuple(map(frozen, (order.astype(np.int32), first.astype(np.int32), further.astype(np.int32), same)))


def _array(x: Any, size: int, name: str) -> Any:
    x = as_array(name, x)
    if x.dtype.kind in "iub":
        x = x.astype(float)
    require_real(name, x)
    if x.ndim < 1 or x.shape[-1] != size:
        raise ValueError(f"{name} must have shape (..., {size}), not {tuple(x.shape)}")
    return x


FOLLOW = Form(
    "(name of a joint, ratio, offset)",
    lambda x: isinstance(x, tuple | list) and len(x) == 3 and isinstance(x[0], str) and all(map(NUMBER.fits, x[1:])),
)


def make_coupling(structure: Any, follows: Mapping[str, Follow]) -> Coupling:
    """Find the leader of each coupled joint. If joints follow each other in a chain, the last one leads all."""
    if not isinstance(follows, Mapping):
        raise TypeError(f"follows must be a dictionary by names of joints, not a {type(follows).__name__}")
    for name, follow in follows.items():
        if not FOLLOW.fits(follow):
            raise ModelError(f"joint {name!r} must follow {FOLLOW.words}, not {shortened(follow)}")
    numbers = structure.joint_numbers
    nq, nv = int(structure.q_start[-1]), int(structure.v_start[-1])
    ratio_q, offset_q, ratio_v = np.ones(nq), np.zeros(nq), np.ones(nv)
    lead_q, lead_v = np.arange(nq), np.arange(nv)
    for name, (leader, ratio, offset) in _lines(follows).items():
        for joint in (name, leader):
            if joint not in numbers:
                near = did_you_mean(joint, numbers)
                raise ModelError(f"joint {name!r} mimics {leader!r}, but no joint is called {joint!r}{near}")
            if structure.joints[structure.joint_code[numbers[joint]]].nq != 1:
                raise ModelError(f"joint {name!r} mimics {leader!r}: only hinges and sliders mimic or are mimicked")
        if not np.isfinite([ratio, offset]).all():
            raise ModelError(f"joint {name!r}: ratio {ratio} and offset {offset} to {leader!r} must be finite")
        own, to = numbers[name], numbers[leader]
        q, v = structure.q_start[own], structure.v_start[own]
        lead_q[q], ratio_q[q], offset_q[q] = structure.q_start[to], ratio, offset
        lead_v[v], ratio_v[v] = structure.v_start[to], ratio
    kept_q, kept_v = np.flatnonzero(lead_q == np.arange(nq)), np.flatnonzero(lead_v == np.arange(nv))
    place_q, place_v = np.searchsorted(kept_q, lead_q), np.searchsorted(kept_v, lead_v)
    return Coupling(kept_q, kept_v, place_q, place_v, ratio_v, (ratio_q, offset_q))


def _lines(follows: Mapping[str, Follow]) -> dict[str, Follow]:
    """For each joint that follows another: the free joint at the end of its chain, with ratio and offset to it.

    A line is followed up to the first joint that is known already, so each joint is passed once.
    """
    known: dict[str, Follow] = {}
    for name in follows:
        line: dict[str, None] = {}  # in order, from the follower to the joint nearest to the leader
        leader = name
        while leader in follows and leader not in known:
            if leader in line:
                raise ModelError(f"joint {name!r}: the joints it mimics form a cycle through {leader!r}")
            line[leader] = None
            leader = follows[leader][0]
        end, ratio, offset = known.get(leader, (leader, 1.0, 0.0))
        for joint in reversed(line):
            _, step, shift = follows[joint]
            ratio, offset = step * ratio, step * offset + shift
            known[joint] = (end, ratio, offset)
    return known


def _columns(x: Any, which: np.ndarray) -> Any:
    """Some columns; rows of a NumPy array stay contiguous, as direct calls need."""
    return np.take(x, which, -1) if isinstance(x, np.ndarray) else x[..., which]


WIDEN = {
    "q": Coupling.widen_q,
    "q0": Coupling.widen_q,
    "q1": Coupling.widen_q,
    "qd": Coupling.widen_v,
    "qdd": lambda c, v: c.widen_v(v, "qdd"),
}
NARROW: dict[str, Callable[[Coupling, Any], Any]] = {
    "unchanged": lambda c, x: x,
    "force": Coupling.narrow,  # (..., nv), or (..., anything, nv)
    "first": lambda c, x: c.narrow(x, -2),  # (..., nv, anything)
    "matrix": lambda c, x: c.narrow_matrix(x),
    "configuration": lambda c, q: _columns(q, c.kept_q),
    "velocity": lambda c, v: _columns(v, c.kept_v),
    "state": lambda c, s: (_columns(s[0], c.kept_q), _columns(s[1], c.kept_v)),
}


def _float64_of_jax(given: Iterable[Any]) -> np.dtype | None:
    """float64 if one of the arrays is JAX's own of that type, which JAX would narrow in its 32-bit mode."""
    wide = any(isinstance(x, jax.Array) and x.dtype == np.float64 for x in given)
    return np.dtype(np.float64) if wide else None


def coupled(result: str) -> Callable[[F], F]:
    """Decorator for a public function of a model: coupled models are computed by their free ones.

    Arguments named q, q0, q1 are widened as coordinates, qd and qdd as velocities; `result` is the kind of the result.
    """

    def decorate(function: F) -> F:
        parameters = signature(function)

        @wraps(function)
        def served(model: Any, *args: Any, **kwargs: Any) -> Any:
            require_model(model)
            coupling = model.coupling
            if coupling is None:
                return function(model, *args, **kwargs)
            bound = parameters.bind(model, *args, **kwargs)
            with in_bits_of(_float64_of_jax(bound.arguments.values())), any_rank():
                for name, value in bound.arguments.items():
                    if name in WIDEN and value is not None:
                        bound.arguments[name] = WIDEN[name](coupling, value)
                bound.arguments["model"] = model.uncoupled
                return NARROW[result](coupling, function(*bound.args, **bound.kwargs))

        return served  # type: ignore[return-value]

    return decorate
