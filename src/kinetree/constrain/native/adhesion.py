"""Actuators on bodies in lanes: adhesion presses a body onto all that it touches, as constrain/actuated.py has it.

The force is shared by the points of contact that are near, whether they push or not. It acts along their normals, on
both bodies. It has no length; its velocity is the mean of how fast bodies come together.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Memory, Slots
from kinetree.model.world import BOTH
from kinetree.spatial import Force, Vec3

from .actuators import ActuatorSlots, actuator_numbers, driven, motor_of, motors, written
from .drive_plan import DriveGroup
from .memory import ACTS, POINT, ROW, ZERO3, coupled_memory
from .parts import Part, added, fill, part, table

STICKY = Memory(count=0.0, closing=0.0, share=0.0)  # points that are near, their speeds, and the force of each


def _pushed(position: Vec3, normal: Vec3) -> Force:
    """A unit force along the normal."""
    return Force(position.cross(normal), normal)


def _ends(both: bool) -> tuple[Slots, ...]:
    """The normal's point, and where it is about the second body's tree."""
    other = (Slots(4, 0, jax.tree.structure(ZERO3), cold=True),) if both else ()
    return (Slots(2, 0, jax.tree.structure(POINT)), *other)


def _presses(plan: Any, both: bool) -> np.ndarray:
    """(3, k): points of contact of bodies that stick, their pairs, and the actuators."""
    found = []
    for k in actuator_numbers(plan, "body").number.tolist():
        body = plan.actuators.wiring.targets[k].first
        for point, number in zip(*(x.tolist() for x in plan.all_points()), strict=True):
            pair, bodies = plan.pairs[number], plan.world.scene.layout.bodies
            if (pair.moving == BOTH) == both and body in (bodies[pair.first], bodies[pair.second]):
                found.append((point, number, k))
    return np.array(found, np.int64).reshape(-1, 3).T


def _turns(both: bool) -> Any:
    """Rows of both bodies; the point, its stiffness, its other place; and the pressing actuator.

    Of a contact with the static world the first row is the base, which has no velocity and feels no force.
    """

    def turns(plan: Any) -> np.ndarray:
        point, pair, motor = _presses(plan, both)
        if not len(point):
            return np.zeros((0, 6), np.int32)
        one, two = (plan.rows_of_pair(pair, k) for k in (0, 1))
        first = plan.row(one) if both else plan.base(plan.tree_of_row[two])
        offset = [coupled_memory(plan.pairs[p].condim).at(0, "other").offset for p in pair] if both else 0
        place = plan.point(point)
        return table(first, plan.row(two), place, plan.acts(point), place + np.array(offset), plan.sticky(motor))

    return turns


def _signs(both: bool) -> Any:
    """1 where the normal points to the body in the second column, −1 where it comes from there."""

    def signs(model: Any, plan: Any, known: Any) -> np.ndarray:
        moving = [plan.pairs[p].moving for p in _presses(plan, both)[1]]
        return np.where(np.array(moving, np.int64) == 0, -1.0, 1.0)

    return signs


def count_near_points(both: bool) -> Part:
    """Count the near points of each body, and add up the speeds at which they come together."""

    def step(sign, near, v1, v2, point, *other):
        pulls = _pushed(other[0] if both else point.position, point.normal)
        first = v1.dot(_pushed(point.position, point.normal)) if both else jnp.zeros_like(sign)
        return (near, near * sign * (first - v2.dot(pulls)))

    near = ACTS.at(3, "D")
    reads, made = (near, ROW.at(0, "v"), ROW.at(1, "v"), *_ends(both)), added(*STICKY.of(5, "count", "closing"))
    return part(_turns(both), step, reads, made, (0.0, _signs(both)), when=near)


def press_bodies(both: bool) -> Part:
    """Put the forces on the bodies, at each point, before the forces of motion are summed up."""

    def step(sign, share, point, *other):
        second = _pushed(other[0] if both else point.position, point.normal) * (sign * share)
        return (_pushed(point.position, point.normal) * -share, second) if both else (second,)

    reads, made = (STICKY.at(5, "share"), *_ends(both)), added(ROW.at(0, "force"), ROW.at(1, "force"))
    return part(_turns(both), step, reads, made[not both :], (0.0, _signs(both)), when=ACTS.at(3, "D"))


def _share_forces(drive: DriveGroup, implicit: bool) -> Part:
    """Find the forces of the actuators, and the share of each point."""
    stateful = drive.stateful

    def step(known, count, closing, ctrl, *rest):
        some = jnp.maximum(count, jnp.ones_like(count))
        none = jnp.zeros_like(count)
        force, slope, rate = driven(known, none, closing / some, ctrl, rest[0] if stateful else None)
        return (force / some, *written(stateful, implicit, slope, rate))

    def turns(plan: Any) -> np.ndarray:
        at = actuator_numbers(plan, drive)
        return table(plan.sticky(at.number), *ActuatorSlots.table(plan, at))

    ports = ActuatorSlots.of(1, stateful, implicit)
    reads, writes = (*STICKY.of(0, "count", "closing"), *ports.reads), (STICKY.at(0, "share"), *ports.writes)
    return part(turns, step, reads, writes, (motor_of(drive), motors(drive)), columns=4)


def adhesion_parts(drives: list[DriveGroup], touches: tuple[bool, ...], implicit: bool) -> list[Part]:
    """All parts, after contacts were found; `touches`: with the static world (False), and between moving bodies."""
    return [
        fill(lambda plan: table(plan.sticky(actuator_numbers(plan, "body").number)), *STICKY.of(0, "count", "closing")),
        *map(count_near_points, touches),
        *(_share_forces(drive, implicit) for drive in drives),
        *map(press_bodies, touches),
    ]
