"""Forces of a fluid on bodies, in lanes."""

from typing import Any, NamedTuple

import numpy as np

from kinetree._arrays import there
from kinetree.model import Model, Placement
from kinetree.spatial import Force, Motion, Quaternion, Vec3

from ..fluid import drag
from .memory import PLACEMENT, ROW, ZERO3
from .parts import Known, Part, added, part, table
from .plan import Plan
from .tables import split


class FluidBox(NamedTuple):
    """A box in a fluid: where it is in its row's frame, and how large; and the fluid."""

    at: Placement
    size: Vec3
    wind: Vec3
    density: Any
    viscosity: Any


BOX = FluidBox(PLACEMENT, ZERO3, ZERO3, 0.0, 0.0)


class InBox(NamedTuple):
    """How a box moves: its centre about the point of the tree, its axes, and its speeds along these."""

    centre: Vec3
    to_world: Quaternion
    omega: Vec3
    speed: Vec3


def in_box(box: FluidBox, pose: Placement, v: Motion) -> InBox:
    """Of a box on a row that moves."""
    centre = pose.position + pose.orientation.turn(box.at.position)
    to_world = pose.orientation * box.at.orientation
    back = to_world.conjugate()
    speed = v.linear + v.angular.cross(centre) - box.wind
    return InBox(centre, to_world, back.turn(v.angular), back.turn(speed))


def rows_of_boxes(plan: Plan) -> np.ndarray:
    """The rows that carry boxes."""
    return plan.structure.row_of_body[list(there(plan.world.fluid).bodies)].astype(np.int64)


def box_constants(model: Model, plan: Plan, known: Known) -> FluidBox:
    """The boxes of a model, and the fluid."""
    fluid = there(plan.world.fluid)
    boxes = (fluid.orientation, fluid.position, fluid.size)
    turn, place, size = map(split, boxes)
    wind = Vec3(*(fluid.wind[k] for k in range(3)))
    at = Placement(Quaternion(*turn), Vec3(*place))
    return FluidBox(at, Vec3(*size), wind, fluid.density, fluid.viscosity)


def add_fluid_forces() -> Part:
    """The forces of the fluid on all boxes, added to the forces on their rows."""

    def step(box, *reads):
        centre, to_world, omega, speed = in_box(box, *reads)
        moment, force = drag(box.density, box.viscosity, box.size, omega, speed)
        moment, force = to_world.turn(moment), to_world.turn(force)
        return (-Force(moment + centre.cross(force), force),)

    reads, made = ROW.of(0, "pose", "v"), added(ROW.at(0, "force"))
    return part(lambda plan: table(plan.row(rows_of_boxes(plan))), step, reads, made, (BOX, box_constants))
