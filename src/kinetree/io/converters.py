"""Coordinates and velocities in the conventions of Pinocchio and MuJoCo.

    joint        ours                              Pinocchio                              MuJoCo
    continuous   angle                             cos, sin                               angle
    spherical    quaternion w x y z; ω in body     quaternion x y z w; the same           the same
    planar       x, y, angle; their derivatives    x, y, cos, sin; (ẋ, ẏ) in body, ω      -
    free         position, quaternion w x y z;     position, quaternion x y z w;          the same coordinates;
                 ω, then v, both in body           v, then ω, both in body                v in world, then ω in body

If the other library has another order of joints, give the names in that order. Accelerations are derivatives of
velocities, and forces make the same power. So a = T qdd + Ṫ qd and tau = Tᵀ tau' for velocities v = T qd. All functions
work on NumPy and JAX arrays, with any batch axes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import as_array, library, require_real
from kinetree.model import Joint, Model
from kinetree.model.arguments import batch_of
from kinetree.model.required import require_model
from kinetree.spatial import Quaternion, Vec3


def _columns(x: Any) -> list[Any]:
    return [x[..., k] for k in range(x.shape[-1])]


def _turn(quaternion: list[Any], v: list[Any]) -> list[Any]:
    """From body to world coordinates."""
    return list(Quaternion(*quaternion).turn(Vec3(*v)))


def _turn_back(quaternion: list[Any], v: list[Any]) -> list[Any]:
    return list(Quaternion(*quaternion).conjugate().turn(Vec3(*v)))


def _cross(a: list[Any], b: list[Any]) -> list[Any]:
    return list(Vec3(*a).cross(Vec3(*b)))


class _Rule:
    """The conversion of one kind of joint, in lists of columns. This rule changes nothing."""

    nq_there: Callable[[Joint], int] = staticmethod(lambda joint: joint.nq)

    def q_there(self, xp: Any, q: list) -> list:
        return q

    def q_here(self, xp: Any, q: list) -> list:
        return q

    def v_there(self, xp: Any, q: list, v: list) -> list:
        """T v; q is in kinetree's convention, also below."""
        return v

    def v_here(self, xp: Any, q: list, v: list) -> list:
        return v

    def drift(self, xp: Any, q: list, v: list) -> list | None:
        """Ṫ v, or None for zero; v is ours."""
        return None

    def force_here(self, xp: Any, q: list, f: list) -> list:
        """Tᵀ f. T is orthogonal for every joint there is, so this is its inverse."""
        return self.v_here(xp, q, f)


class _CosSin(_Rule):
    nq_there = staticmethod(lambda joint: 2)

    def q_there(self, xp: Any, q: list) -> list:
        return [xp.cos(q[0]), xp.sin(q[0])]

    def q_here(self, xp: Any, q: list) -> list:
        return [xp.arctan2(q[1], q[0])]


class _ScalarLast(_Rule):
    def q_there(self, xp: Any, q: list) -> list:
        return [*q[:-4], *q[-3:], q[-4]]

    def q_here(self, xp: Any, q: list) -> list:
        return [*q[:-4], q[-1], *q[-4:-1]]


class _PinocchioFree(_ScalarLast):
    def v_there(self, xp: Any, q: list, v: list) -> list:
        return [*v[3:], *v[:3]]

    v_here = v_there


class _PinocchioPlanar(_Rule):
    nq_there = staticmethod(lambda joint: 4)

    def q_there(self, xp: Any, q: list) -> list:
        return [q[0], q[1], xp.cos(q[2]), xp.sin(q[2])]

    def q_here(self, xp: Any, q: list) -> list:
        return [q[0], q[1], xp.arctan2(q[3], q[2])]

    def v_there(self, xp: Any, q: list, v: list) -> list:
        c, s = xp.cos(q[2]), xp.sin(q[2])
        return [c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]]

    def v_here(self, xp: Any, q: list, v: list) -> list:
        c, s = xp.cos(q[2]), xp.sin(q[2])
        return [c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]]

    def drift(self, xp: Any, q: list, v: list) -> list:
        x, y, turn = self.v_there(xp, q, v)
        return [turn * y, -turn * x, 0 * turn]


class _MujocoFree(_Rule):
    def v_there(self, xp: Any, q: list, v: list) -> list:
        return [*_turn(q[3:], v[3:]), *v[:3]]

    def v_here(self, xp: Any, q: list, v: list) -> list:
        return [*v[3:], *_turn_back(q[3:], v[:3])]

    def drift(self, xp: Any, q: list, v: list) -> list:
        return [*_turn(q[3:], _cross(v[:3], v[3:])), *(0 * x for x in v[:3])]


class _Convention:
    """Converts states of one model to and from another library's convention and order of joints.

    Arguments:
        model: the mechanism.
        joint_order: names of the joints that move, in the other library's order; ours if not given.
    """

    rules: ClassVar[dict[str, _Rule]] = {}  # by kind of joint

    def __init__(self, model: Model, joint_order: Sequence[str] | None = None):
        require_model(model)
        structure = model.structure
        if model.coupling is None:
            moving = [n for n in model.joint_names if _size(model.v_index(n))]
        else:  # followers have no coordinates of their own
            kept = np.isin(structure.v_start[:-1], model.coupling.kept_v) & (np.diff(structure.v_start) > 0)
            moving = [model.joint_names[i] for i in np.flatnonzero(kept)]
        listed = isinstance(joint_order, Iterable) and not isinstance(joint_order, str)
        order = moving if joint_order is None else list(joint_order) if listed else []
        if not all(isinstance(name, str) for name in order) or sorted(order) != sorted(moving):
            raise ValueError(f"joint_order must name each joint that moves once: {', '.join(moving)}")
        self._parts = []
        at_q = at_v = 0
        for name in order:
            joint = structure.joints[structure.joint_code[structure.joint_numbers[name]]]
            rule = self.rules.get(joint.kind, _Rule())
            nq, nv = rule.nq_there(joint), joint.nv
            there = slice(at_q, at_q + nq), slice(at_v, at_v + nv)
            self._parts.append((rule, (model.q_index(name), model.v_index(name)), there))
            at_q, at_v = at_q + nq, at_v + nv
        self.nq_here, self.nq_there, self.nv = model.nq, at_q, model.nv

    def _gather(self, like: Any, to: int, width: int, pieces: Any) -> Any:
        """Columns of all joints, put in place; `to` 0 is q here, 1 v here, 2 q there, 3 v there."""
        xp = library(like)
        columns: list[Any] = [None] * width
        for (_, here, there), piece in zip(self._parts, pieces, strict=True):
            columns[(*here, *there)[to]] = piece
        return xp.stack(columns, -1) if columns else like[..., :0]

    def q_there(self, q: Any) -> Any:
        """Their coordinates, from ours."""
        q = _floats("q", q, self.nq_here)
        pieces = [rule.q_there(library(q), _columns(q[..., here[0]])) for rule, here, _ in self._parts]
        return self._gather(q, 2, self.nq_there, pieces)

    def q_here(self, q: Any) -> Any:
        """Our coordinates, from theirs."""
        q = _floats("q", q, self.nq_there)
        pieces = [rule.q_here(library(q), _columns(q[..., there[0]])) for rule, _, there in self._parts]
        return self._gather(q, 0, self.nq_here, pieces)

    def _together(self, q: Any, v: Any) -> tuple[Any, Any]:
        """Coordinates and velocities of one library, with the batch axes of both."""
        q, v = _floats("q", q, self.nq_here), _floats("v", v, self.nv)
        xp, axes = library(q, v), batch_of({"q": q.shape[:-1], "v": v.shape[:-1]})
        return xp.broadcast_to(q, (*axes, q.shape[-1])), xp.broadcast_to(v, (*axes, v.shape[-1]))

    def _mapped(self, method: str, q: Any, v: Any, inward: bool) -> Any:
        q, v = self._together(q, v)
        pieces = []
        for rule, here, there in self._parts:
            own, given = _columns(q[..., here[0]]), _columns(v[..., (there if inward else here)[1]])
            pieces.append(getattr(rule, method)(library(v), own, given))
        return self._gather(v, 1 if inward else 3, self.nv, pieces)

    def v_there(self, q: Any, qd: Any) -> Any:
        """Their velocities from ours, in our configuration q."""
        return self._mapped("v_there", q, qd, False)

    def v_here(self, q: Any, v: Any) -> Any:
        """Our velocities from theirs, in our configuration q."""
        return self._mapped("v_here", q, v, True)

    def force_here(self, q: Any, tau: Any) -> Any:
        """Our generalised forces from theirs, in our configuration q."""
        return self._mapped("force_here", q, tau, True)

    def force_there(self, q: Any, tau: Any) -> Any:
        """Their generalised forces from ours, in our configuration q."""
        return self._mapped("v_there", q, tau, False)

    def _drift(self, q: Any, qd: Any) -> Any:
        q, qd = self._together(q, qd)
        pieces = []
        for rule, here, _ in self._parts:
            own, given = _columns(q[..., here[0]]), _columns(qd[..., here[1]])
            pieces.append(rule.drift(library(qd), own, given) or [0 * x for x in given])
        return self._gather(qd, 3, self.nv, pieces)

    def a_there(self, q: Any, qd: Any, qdd: Any) -> Any:
        """Their accelerations from ours, in our state."""
        return self.v_there(q, qdd) + self._drift(q, qd)

    def a_here(self, q: Any, qd: Any, a: Any) -> Any:
        """Our accelerations from theirs, in our state."""
        return self.v_here(q, _floats("a", a, self.nv) - self._drift(q, qd))


class Pinocchio(_Convention):
    """Pinocchio's convention; `joint_order=list(pin_model.names)[1:]` if its joints have another order."""

    rules: ClassVar[dict[str, _Rule]] = {
        "continuous": _CosSin(),
        "spherical": _ScalarLast(),
        "planar": _PinocchioPlanar(),
        "free": _PinocchioFree(),
    }


class Mujoco(_Convention):
    """MuJoCo's convention. Models that were loaded from MJCF have its order of joints."""

    rules: ClassVar[dict[str, _Rule]] = {"free": _MujocoFree()}


def _size(s: slice) -> int:
    return s.stop - s.start


def _floats(name: str, x: Any, size: int) -> Any:
    x = as_array(name, x)
    require_real(name, x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(float)
    if x.ndim < 1 or x.shape[-1] != size:
        raise ValueError(f"{name}: expected an array of shape (..., {size}), not {tuple(x.shape)}")
    return x
