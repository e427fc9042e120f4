"""The memory of one world in the native body: blocks of slots for rows, bodies, points of contact, and joint limits.

All spatial quantities are in world axes, about a point of the tree that they belong to: sweeps then need no transforms.
Each tree has a block of its own before the rows, its base. SlotBlocks lie one after the other; tables name their first
slots. Values that all loops share (`GLOBAL`) have fixed slots.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import jax

from kinetree.lanes import Memory, Slots
from kinetree.model import Placement
from kinetree.spatial import ArticulatedInertia, Force, Inertia, Mat3, Motion, Quaternion, Sym3, Vec3

ZERO3 = Vec3(0.0, 0.0, 0.0)
MOTION, FORCE = Motion(ZERO3, ZERO3), Force(ZERO3, ZERO3)
PLACEMENT = Placement(Quaternion(0.0, 0.0, 0.0, 0.0), ZERO3)
SYM3 = Sym3(*6 * (0.0,))
INERTIA = Inertia(0.0, ZERO3, SYM3)
NUMBER = jax.tree.structure(0.0)
NOTHING = jax.tree.structure(())


class ArticulatedBody(NamedTuple):
    """f = inertia · a + bias, of a row and all that hangs from it."""

    inertia: ArticulatedInertia
    bias: Force


ARTICULATED = ArticulatedBody(ArticulatedInertia(SYM3, Mat3(*9 * (0.0,)), SYM3), FORCE)


class PivotSlots(NamedTuple):
    """The quantities of a row's joint that give its acceleration."""

    U: Force
    d: Any
    d_inverse: Any
    u: Any


class Sums(NamedTuple):
    """Sums over the constraints, for the length of a step."""

    changed: Any  # how many have another state at the end of the full step
    curved: Any  # how many have a force that is not linear there
    begin: Any  # Σ force · Δw at the start of the step
    end: Any  # and at its end
    bent: Any  # Σ Δwᵀ H Δw


class Norms(NamedTuple):
    """Squared norms of Newton's step and of its end, in the metric of the matrix."""

    change: Any
    size: Any


class Search(NamedTuple):
    """The search along a step: the place, its bracket, and the slope m1 + m2 α − Σ Δw · force."""

    alpha: Any
    low: Any
    high: Any
    m1: Any
    m2: Any


class Slope(NamedTuple):
    """Sums over the constraints at a place along the step: force · Δw, and Δwᵀ H Δw."""

    power: Any
    bending: Any


class Gripping(NamedTuple):
    """The state of friction without slip (gripping.py)."""

    on: Any  # 1 after the soft forces were found
    again: Any  # 1 if this round ended a turn, and another one follows
    turns: Any  # the most turns that are left


class Conjugate(NamedTuple):
    """The state of conjugate gradients for constraints that couple bodies."""

    turns: Any
    closing: Any  # 1 after the last turn, when the tree is moved by the forces that were found
    size: Any  # ρᵀ G A⁻¹ Gᵀ ρ of the turn before
    alpha: Any
    beta: Any
    steep: Any  # the largest of ρᵀ G A⁻¹ Gᵀ ρ / ρᵀ ρ so far


GLOBAL = Memory(
    going=0.0,  # 1 while Newton's method goes on
    searching=0.0,  # 1 while the search along a step goes on
    finishing=0.0,  # 1 in the last round, which solves for the acceleration of the integrator
    settled=0.0,
    iterations=0.0,
    converged=0.0,
    h=0.0,  # the time step
    steps=0.0,  # that are still to be done
    time=0.0,
    stages=0.0,  # of a step, that are still to be done
    share=0.0,  # of the step, at which a stage stands
    weight=0.0,  # of a stage in the step
    least_time=0.0,  # of constraints
    gravity=ZERO3,
    search=Search(*5 * (0.0,)),
    coupling=0.0,  # 1 while conjugate gradients go on
    conjugate=Conjugate(*6 * (0.0,)),
    rest=0.0,  # Σ ρ² at the beginning
    lacks=0.0,  # and now
    product=0.0,  # ρᵀ G A⁻¹ Gᵀ ρ
    bent=0.0,  # of a direction
    gripping=Gripping(*3 * (0.0,)),
)
TOTAL = Memory(  # a part of the sums over rows and constraints
    sums=Sums(*5 * (0.0,)),
    norms=Norms(0.0, 0.0),
    slope=Slope(0.0, 0.0),
)
SIDES = 3  # the trunk, and two sides that are alike (`Plan.side`): each has its own part of the sums


def in_banks(memory: Memory) -> Memory:
    """The same with an odd size, so that a field of neighbouring blocks is in different banks of shared memory."""
    memory.size |= 1
    return memory


def overlaid(kept: dict[str, Any], *phases: dict[str, Any]) -> Memory:
    """Fields that are kept, and after them the fields of phases that follow each other, on the same slots."""
    memory = Memory(**kept)
    start = memory.size
    for phase in phases:
        own = Memory(**phase)
        memory.fields |= {name: (start + offset, tree) for name, (offset, tree) in own.fields.items()}
        memory.size = max(memory.size, start + own.size)
    return in_banks(memory)


ROW = overlaid(
    {
        "qd": 0.0,
        "shift": 0.0,
        "load": 0.0,  # resistance that the integrator adds
        "driven": 0.0,  # the sum of the actuators
        "alpha": 0.0,  # the acceleration of the integrator
        "b": 0.0,  # all forces but those of constraints
        "x": 0.0,  # the acceleration on which constraints act
        "S": MOTION,
    },
    {
        "pose": PLACEMENT,  # in the world's axes, about the point of the tree
        "v": MOTION,
        "drift": MOTION,  # acceleration where x is zero
        "a": MOTION,  # J x of the first guess
    },
    {
        "before": (PLACEMENT, MOTION),
        "force": FORCE,  # on the row and all that hangs from it; it takes the place of the drift
    },
    {
        "placed": PLACEMENT,  # in the frame of the parent, until its pose is known
        "seen": PLACEMENT,  # the pose about the origin of the world, of rows on the way to the point of a tree
    },
    {
        "resistance": 0.0,
        "push": 0.0,
        "x_new": 0.0,  # where Newton's step leads
        "pivot": PivotSlots(FORCE, 0.0, 0.0, 0.0),
        "a_new": MOTION,  # J x_new
        "change": MOTION,  # J (x_new − x)
    },
)
BODY = in_banks(Memory(inertia=INERTIA))
ARTICULATED_BLOCK = Memory(body=ARTICULATED)


def articulated_bias(column: int) -> Slots:
    """The bias of a block that a row holds."""
    count = jax.tree.structure(FORCE).num_leaves
    return Slots(column, ARTICULATED_BLOCK.size - count, jax.tree.structure(FORCE))


class Point(NamedTuple):
    """A point of contact: where, normal and first tangent."""

    position: Vec3
    normal: Vec3
    tangent: Vec3


POINT = Point(ZERO3, ZERO3, ZERO3)
LIMIT = Memory(D=0.0, ref=0.0)


# Of a row: how the tree answers forces on bodies; `on` is 1 if the row moves a body that touches another.
REPLY = in_banks(Memory(applied=FORCE, u=0.0, a=MOTION, on=0.0))


ACTS = Memory(D=0.0)  # of a point of contact: its stiffness, 0 where it does not act


@cache
def coupled_memory(dim: int) -> Memory:
    """A point of contact between two moving bodies; it begins as others do. Of many such points few are in use.

    `other` is its position about the point of the second body's tree. The rest is for conjugate gradients: forces,
    those that they began with, what they lack, directions, and how directions and what is lacking move the bodies.
    """
    own = (0.0,) * dim
    forces = dict.fromkeys(("force", "first", "rest", "way", "moves", "moved"), own)
    memory = in_banks(Memory(point=POINT, ref=own, other=ZERO3, w=own, w_new=own, **forces))
    memory.cold = True
    return memory


@cache
def point_memory(dim: int) -> Memory:
    """A point of contact with `dim` dimensions; ref[0] begins as the distance. w is J x − ref, w_new J x_new − ref."""
    own = (0.0,) * dim
    return in_banks(Memory(point=POINT, ref=own, w=own, w_new=own))


def kept_forces(dim: int, cone: bool) -> int:
    """Slots of a constraint's forces, and of bounds on friction, after its own: where friction does not slip."""
    return 2 * dim - 1 if cone else dim


SHAPE = Memory(position=ZERO3, rotation=Mat3(*9 * (0.0,)))  # in the world
SHAPE.cold = True


def fixed(name: str) -> Slots:
    """What all loops share."""
    return GLOBAL.at(None, name)


def total(column: int | None, name: str) -> Slots:
    """A part of a sum, named by the column; without a column the first part, which comes after what all loops share."""
    place = TOTAL.at(column, name)
    return place if column is not None else Slots(None, GLOBAL.size + place.offset, place.tree)


def totals(name: str) -> tuple[Slots, ...]:
    """All parts of a sum, in loops with the table `Plan.totals`."""
    return tuple(TOTAL.at(side, name) for side in range(SIDES))


def summed(parts: Sequence[Any]) -> Any:
    """The sum of its parts."""
    return jax.tree.map(lambda *x: sum(x[1:], x[0]), *parts)
