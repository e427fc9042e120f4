"""Transmission: lengths and velocities of actuators, and the moments that carry their forces to joints.

A moment is a row over the degrees of freedom that an actuator moves, padded to the widest. For hinges, sliders and
joints made of them it is the gear itself. On a ball the gear is an axis in the body, or in the parent, and the length
the turn from rest along it. On a free joint the gear is a force along the world's axes and a moment about the body's
(or, in the parent, the world's) axes, and there is no length: it counts as zero. A tendon's length and moment are its
own, times the gear (dynamics/tendons); for sites and cranks see sites.py, for bodies constrain/actuated.py. The facts
are MuJoCo's.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import flattened, there
from kinetree.dynamics.tendons.lengths import stretched
from kinetree.dynamics.tendons.paths import paths
from kinetree.model import Actuators, Model, ModelError, Structure
from kinetree.model.actuators import Wiring
from kinetree.model.tendons import Routes
from kinetree.spatial import Quaternion, Vec3

from .sites import pushed, reach

GEARS = 6


class ActuatorColumns(NamedTuple):
    """Where the actuators of a wiring act.

    Tables of indices are of 32 bits. JAX remembers the type that it gave to an array, and would give those of 64 bits
    again in its other mode, where it is wrong.
    """

    dof: np.ndarray  # (n, width), columns of qd; `used` is False where there is none
    q: np.ndarray  # (n, width), columns of q, for joints without a quaternion
    used: np.ndarray  # (n, width)
    on_joint: np.ndarray  # (n,)
    has_length: np.ndarray  # (n,), length is gear · q
    turned: tuple[tuple[int, int, bool], ...]  # actuators on balls and free joints: number, quaternion in q, is free
    on_ball: np.ndarray  # (n,)
    on_refsite: np.ndarray  # (n,), on a site, with a reference
    tendon: np.ndarray  # (n,), −1 for actuators on something else
    sources: np.ndarray  # (nv, most), for each degree of freedom the flat places in (n, width), or n · width
    diagonal: bool  # no actuator couples two degrees of freedom

    @property
    def width(self) -> int:
        """The most degrees of freedom that an actuator moves."""
        return self.dof.shape[1]

    @property
    def winds(self) -> np.ndarray:
        """(n,): lengths that may be turns."""
        return self.on_ball | self.on_refsite


def columns_of(model: Model) -> ActuatorColumns:
    """The tables of a model with actuators."""
    tendons = None if model.world is None else model.world.tendons
    return columns(model.structure, there(model.actuators).wiring, None if tendons is None else tendons.routes)


@lru_cache(maxsize=256)
def columns(structure: Structure, wiring: Wiring, routes: Routes | None = None) -> ActuatorColumns:
    """Tables for one mechanism; the routes are those of its tendons."""
    kind = np.array([t.kind for t in wiring.targets], str)
    on_joint = kind == "joint"
    joint = np.array(wiring.joints, np.int64)
    tendon = np.where(kind == "tendon", [t.first for t in wiring.targets], -1).astype(np.int32)
    rows = _rows(structure, wiring, routes)
    width = max(1, max(map(len, rows), default=1))
    dof, used = np.zeros((len(rows), width), np.int32), np.zeros((len(rows), width), bool)
    for i, own in enumerate(rows):
        dof[i, : len(own)], used[i, : len(own)] = own, True
    code = structure.joint_code[joint]
    has = on_joint & np.array([structure.joints[c].quaternion for c in code], bool)
    free = has & np.array([structure.joints[c].position for c in code], bool)
    start = structure.q_start[joint]
    plain = used & (on_joint & ~has)[:, None]
    q = np.where(plain, start[:, None] + np.arange(width), 0).astype(np.int32)
    turned = tuple((int(i), int(start[i] + 3 * free[i]), bool(free[i])) for i in np.flatnonzero(has))
    refers = np.array([t.kind == "site" and t.second >= 0 for t in wiring.targets], bool)
    sources = _sources(dof, used, structure.tree.n)
    lone = not (used.sum(1) > 1).any()
    return ActuatorColumns(dof, q, used, on_joint, on_joint & ~has, turned, has & ~free, refers, tendon, sources, lone)


def _rows(structure: Structure, wiring: Wiring, routes: Routes | None) -> list[Any]:
    """The degrees of freedom that each actuator moves."""
    on_frames = iter(reach(structure, wiring).rows)
    strung = None if routes is None else paths(structure, routes)
    rows: list[Any] = []
    for target in wiring.targets:
        if target.kind == "joint":
            rows.append(range(*structure.v_start[target.first : target.first + 2].tolist()))
        elif target.kind == "tendon":
            if strung is None or target.first >= len(strung.dof):
                raise ModelError("an actuator pulls on a tendon that the model does not have any more")
            rows.append(strung.dof[target.first][strung.used[target.first]].tolist())
        elif target.kind == "body":
            rows.append(range(structure.tree.n))
        else:
            rows.append(next(on_frames))
    return rows


def _sources(dof: np.ndarray, used: np.ndarray, nv: int) -> np.ndarray:
    """The inverse of `dof`: forces are gathered, as scatters are slow on a CPU."""
    at = np.flatnonzero(used.reshape(-1))
    target = dof.reshape(-1)[at]
    order = np.argsort(target, kind="stable")
    at, target = at[order], target[order]
    counts = np.bincount(target, minlength=nv)
    rank = np.arange(len(at)) - (np.cumsum(counts) - counts)[target]
    table = np.full((nv, int(counts.max(initial=1)) or 1), used.size, np.int32)
    table[target, rank] = at
    return table


class Transmission(NamedTuple):
    """Lengths and velocities of actuators, (batch, n), and their moments, (batch or 1, n, width)."""

    length: Any
    velocity: Any
    moment: Any


def transmission(model: Model, q: Any, qd: Any, pressed: Any = None) -> Transmission:
    """From q (batch, nq) and qd (batch, nv), of a model with actuators.

    `pressed` are the moments (batch, k, nv) of actuators on bodies, which contacts decide (constrain/actuated.py).
    """
    actuators = there(model.actuators)
    at = columns_of(model)
    gear = jnp.asarray(actuators.gear, q.dtype)
    wide = jnp.pad(gear, ((0, 0), (0, max(0, at.width - GEARS))))[:, : at.width]
    plain = jnp.where(at.used & at.has_length[:, None], wide, jnp.zeros((), q.dtype))
    # Zero for the joints that turn: from jax 0.10 to 0.12 XLA takes the memory of `gear` for `moment` if the two are
    # equal, and writes there before it has read the gears of these joints.
    moment = plain[None]
    length = jnp.where(at.has_length, (plain * q[:, at.q]).sum(-1), jnp.zeros((), q.dtype))
    for number, column, is_free in at.turned:  # few actuators are on balls or free joints
        here = Quaternion.from_array(q[:, column : column + 4]).normalized()
        own, along = _turned(gear[number], here, is_free, actuators.wiring.in_parent[number])
        moment = jnp.broadcast_to(moment, (q.shape[0], *plain.shape)).at[:, number, : own.shape[1]].set(own)
        length = length.at[:, number].set(along)
    if (at.tendon >= 0).any():
        moment, length = _on_tendons(model, at, gear, q, moment, length)
    if not at.on_joint.all() and len(reach(model.structure, actuators.wiring).which):
        moment, length = _on_frames(model, actuators, at, q, moment, length)
    on_bodies = np.flatnonzero([t.kind == "body" for t in actuators.wiring.targets])
    if pressed is not None and len(on_bodies):
        moment = jnp.broadcast_to(moment, (q.shape[0], *plain.shape)).at[:, on_bodies, : pressed.shape[2]].set(pressed)
    return Transmission(length, (moment * qd[:, at.dof]).sum(-1), moment)


def _on_tendons(model: Model, at: ActuatorColumns, gear: Any, q: Any, moment: Any, length: Any) -> tuple[Any, Any]:
    """Moments and lengths, with those of actuators on tendons."""
    which = np.flatnonzero(at.tendon >= 0)
    found = stretched(model, q)
    tendon, ratio = at.tendon[which], gear[which, 0]
    own = jnp.moveaxis(found.moment, -1, 0)[:, tendon] * ratio[:, None]
    (batch,) = np.broadcast_shapes(own.shape[:1], moment.shape[:1])
    most = min(own.shape[2], at.width)  # the rest of a moment's places is not used
    moment = jnp.broadcast_to(moment, (batch, *moment.shape[1:])).at[:, which, :most].set(own[:, :, :most])
    return moment, length.at[:, which].set(found.length.T[:, tendon] * ratio)


def _on_frames(
    model: Model, actuators: Actuators, at: ActuatorColumns, q: Any, moment: Any, length: Any
) -> tuple[Any, Any]:
    """Moments and lengths, with those of actuators on sites and cranks."""
    known = reach(model.structure, actuators.wiring)
    found = pushed(model, q)
    owner = known.end % len(known.which)
    slot = np.array([known.rows[k].index(r) for k, r in zip(owner, known.row, strict=True)], np.int32)
    moment = jnp.broadcast_to(moment, (q.shape[0], *moment.shape[1:]))
    moment = moment.at[:, known.which[owner], slot].set(found.entries.T)
    return moment, length.at[:, known.which].set(found.length.T)


def _turned(gear: Any, here: Quaternion, is_free: bool, in_parent: bool) -> tuple[Any, Any]:
    """Moment (batch, 3 or 6) in body axes, angular first, and length (batch,)."""

    def axis(numbers: Any) -> Vec3:
        return Vec3(*(jnp.broadcast_to(x, here.w.shape) for x in numbers))

    angular = axis(gear[3:] if is_free else gear[:3])
    angular = here.to_child(angular) if in_parent else angular
    if not is_free:
        return angular.array(), here.log().dot(angular)
    return jnp.concatenate([angular.array(), here.to_child(axis(gear[:3])).array()], -1), jnp.zeros_like(here.w)


def gathered(at: ActuatorColumns, values: Any) -> Any:
    """Sums (batch, nv) over the degrees of freedom of values (batch, n, width)."""
    flat = flattened(values)
    flat = jnp.concatenate([flat, jnp.zeros((flat.shape[0], 1), flat.dtype)], -1)
    return flat[:, at.sources].sum(-1)
