"""Rigid loops: joints that close a tree to a graph. They have no coordinates; forces hold them closed.

A loop joins a frame on one body with a frame on another. Its kind says which relative motions it leaves free; axes are
those of the first frame. Loops are a part of the mechanism, as mimic joints are: forward dynamics obeys them. Soft
equalities, as in MuJoCo, belong to the world (equalities.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np

from kinetree._types import AnyArray, Float, Number, Vector
from kinetree._unknown import unknown
from kinetree.spatial import Transform

from .attached import body_number, in_rows
from .copies import with_same_rows
from .equalities import WELD, Equalities, FrameEqualities, JointEqualities
from .errors import ModelError
from .fields import TEXT, Form, all_of, numbers, require_fields
from .orientation import quaternion_from_rotation
from .rows import Placement

if TYPE_CHECKING:
    from .model import Model

ORTHOGONAL = 1e-6  # how far R Rᵀ of a rotation that is given may be from 1


@runtime_checkable
class Homogeneous(Protocol):
    """A placement that gives itself as a 4 by 4 matrix, as Pinocchio's SE3 does."""

    @property
    def homogeneous(self) -> np.ndarray:
        """(4, 4)."""
        ...


# A position (3,), a pose (7,), a 4 by 4 matrix, or one of these classes; None is the body's own frame.
Frame: TypeAlias = Vector | tuple[Vector, Vector] | Transform | Placement | Homogeneous | None


class HeldDirections(NamedTuple):
    """Which directions a kind of loop holds: axes 0, 1, 2 of the first frame."""

    linear: tuple[int, ...]
    angular: tuple[int, ...]
    point: bool = False  # holds two points together, whatever the axes
    crossed: bool = False  # holds the first frame's x axis at a right angle to the second's y axis


KINDS = {
    "connect": HeldDirections((0, 1, 2), (), point=True),
    "weld": HeldDirections((0, 1, 2), (0, 1, 2)),
    "revolute": HeldDirections((0, 1, 2), (0, 1)),
    "prismatic": HeldDirections((0, 1), (0, 1, 2)),
    "cylindrical": HeldDirections((0, 1), (0, 1)),
    "planar": HeldDirections((2,), (0, 1)),
    "universal": HeldDirections((0, 1, 2), (), crossed=True),
}
ALIASES = {
    "point": "connect",
    "ball": "connect",
    "spherical": "connect",
    "fixed": "weld",
    "hinge": "revolute",
    "slider": "prismatic",
    "slide": "prismatic",
}


SECONDS = Form("a time in seconds", lambda x: numbers(1).fits(x) and float(x) >= 0)
LOOP = {"kind": TEXT, "stabilisation": SECONDS}


@dataclass(frozen=True, eq=False)
class Loop:
    """A joint that closes a loop: it holds a frame on one body to a frame on another.

        kt.load("four_bar.urdf", loops=[kt.Loop("coupler", "rocker", [0.4, 0, 0], [0.3, 0, 0], "connect")])

    Arguments:
        body1, body2: names or numbers of the bodies; None or -1 is the base.
        placement1, placement2: of the frames in their bodies: a position (3,), a position and a quaternion w x y z
            (7,), a 4 by 4 matrix, a pair of position and rotation (quaternion or matrix), or a `Transform`; the body's
            own frame if not given.
        kind: what is held. "connect" (also "point", "ball"): the origins. "weld": all. "revolute": all but the turn
            about z. "prismatic": all but the slide along z. "cylindrical": all but both. "planar": all but slides along
            x and y and the turn about z. "universal": the origins, and x of the first frame stays at a right angle to y
            of the second. Axes are those of the first frame.
        stabilisation: a time in seconds within which errors of position and velocity fade (Baumgarte's method, damped
            critically); 0 leaves them to `kinetree.close_loops`. Steps in time close loops by themselves.
    """

    body1: int | str | None
    body2: int | str | None
    placement1: Frame = None
    placement2: Frame = None
    kind: str = "weld"
    stabilisation: Number = 0.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Loops:
    """All loops of a model. Frames are given in those of the rows that carry the bodies, or in the base's."""

    position1: Float[AnyArray, "n 3"]
    orientation1: Float[AnyArray, "n 4"]
    position2: Float[AnyArray, "n 3"]
    orientation2: Float[AnyArray, "n 4"]
    stabilisation: Float[AnyArray, " n"]
    joints: JointEqualities | None  # coordinates that follow others, rigidly
    kinds: tuple[str, ...] = field(metadata={"static": True})
    bodies1: tuple[int, ...] = field(metadata={"static": True})  # −1 is the base
    bodies2: tuple[int, ...] = field(metadata={"static": True})

    @property
    def n_rows(self) -> int:
        """How many directions are held."""
        return int(self.starts[-1]) + (0 if self.joints is None else len(self.joints.rows1))

    @property
    def starts(self) -> np.ndarray:
        """(n + 1,): where the rows of each loop begin."""
        sizes = [len(h.linear) + len(h.angular) + h.crossed for h in map(KINDS.__getitem__, self.kinds)]
        return np.cumsum([0, *sizes])


def make_loops(model: "Model", loops: Iterable[Loop]) -> Loops | None:
    """The loops of a model; None if there are none."""
    loops = all_of("loops must be", loops, Loop)
    if not loops:
        return None
    for i, loop in enumerate(loops):
        require_fields(f"loop {i}", loop, LOOP)
    bodies = [body_number(model, b) for loop in loops for b in (loop.body1, loop.body2)]
    frames = [_frame(i, p) for i, loop in enumerate(loops) for p in (loop.placement1, loop.placement2)]
    kinds = [ALIASES.get(loop.kind, loop.kind) for loop in loops]
    for kind in kinds:
        if kind not in KINDS:
            raise ModelError(unknown("kind of loop", kind, (*KINDS, *ALIASES)))
    carriers = [model.structure.row_of_body[b] if b >= 0 else -1 for b in bodies]
    for i, loop in enumerate(loops):
        if carriers[2 * i] == carriers[2 * i + 1]:
            raise ModelError(f"loop {i} joins {loop.body1!r} and {loop.body2!r}, which do not move relative to another")
    times = np.array([float(loop.stabilisation) for loop in loops])
    places, turns = np.stack([p for p, _ in frames]), np.stack([t for _, t in frames])
    (p1, t1), (p2, t2) = (in_rows(model, bodies[k::2], places[k::2], turns[k::2]) for k in (0, 1))
    return Loops(p1, t1, p2, t2, times, None, tuple(kinds), tuple(bodies[::2]), tuple(bodies[1::2]))


def _frame(number: int, given: Frame) -> tuple[np.ndarray, np.ndarray]:
    """Position and quaternion of a placement."""
    still = np.array([1.0, 0, 0, 0])
    if given is None:
        return np.zeros(3), still
    if isinstance(given, Transform):
        given = np.asarray(given.r.array()), np.asarray(given.E.array()).T
    elif isinstance(given, Placement):
        given = np.asarray(given.position.array()), np.asarray(given.orientation.array())
    elif isinstance(given, Homogeneous):
        given = given.homogeneous
    try:
        parts = [np.asarray(x, float) for x in (given if isinstance(given, tuple) and len(given) == 2 else [given])]
    except (TypeError, ValueError):  # no numbers
        parts = [np.zeros(0)]
    if len(parts) == 1:
        parts = {
            (3,): lambda x: (x, still),
            (7,): lambda x: (x[:3], x[3:]),
            (4, 4): lambda x: (x[:3, 3], x[:3, :3]),
        }.get(parts[0].shape, lambda x: (x, x))(parts[0])
    place, turn = parts
    if place.shape != (3,) or turn.shape not in ((4,), (3, 3)) or not np.isfinite([*place, *turn.flat]).all():
        raise ModelError(
            f"loop {number}: a placement is a position (3,), position and quaternion (7,), a 4 by 4 matrix or a pair "
            f"of position and rotation, of finite numbers, not {given!r}"
        )
    if turn.shape == (3, 3):
        if np.abs(turn @ turn.T - np.eye(3)).max() > ORTHOGONAL or np.linalg.det(turn) < 0:
            raise ModelError(f"loop {number}: {turn.tolist()} is not a rotation")
        turn = quaternion_from_rotation(turn.T[None])[0]
    length = np.linalg.norm(turn)
    if not length > 0:
        raise ModelError(f"loop {number}: its quaternion has length zero")
    return place, turn / length


def joined(first: Loops | None, second: Loops | None) -> Loops | None:
    """Two sets of loops as one."""
    if first is None or second is None:
        return second if first is None else first
    if first.joints is not None and second.joints is not None:
        raise ModelError("the equalities of a model are rigid already")
    joints = second.joints if first.joints is None else first.joints
    names = ("position1", "orientation1", "position2", "orientation2", "stabilisation")
    arrays = {name: np.concatenate([getattr(x, name) for x in (first, second)]) for name in names}
    both = {name: getattr(first, name) + getattr(second, name) for name in ("kinds", "bodies1", "bodies2")}
    return Loops(**arrays, **both, joints=joints)


def rigid_equalities(model: "Model") -> "Model":
    """The same model with equalities of its world as rigid loops: connects, welds, and joints that follow others."""
    world = model.world
    if world is None or world.equalities is None or "equality" in world.disabled:
        return model
    found = world.equalities
    loops = _from_equalities(found.frames, found.joints)
    left = Equalities(**{k: v for k, v in vars(found).items() if k not in ("frames", "joints")})
    rest = left if any(v is not None for v in vars(left).values()) else None
    return with_same_rows(model, loops=joined(model.loops, loops), world=world.replace(equalities=rest))


def _from_equalities(frames: FrameEqualities | None, joints: JointEqualities | None) -> Loops:
    if frames is None:
        place, turn = np.zeros((0, 3)), np.zeros((0, 4))
        return Loops(place, turn, place, turn, np.zeros(0), joints, (), (), ())
    kinds = tuple("weld" if size == WELD else "connect" for size in frames.held)
    places = frames.position1, frames.orientation1, frames.position2, frames.orientation2
    return Loops(*places, np.zeros(len(kinds)), joints, kinds, frames.bodies1, frames.bodies2)
