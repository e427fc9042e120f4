"""Tendons: strings that pull on joints or on points of bodies. Soft limits, springs, dampers and rotors act along them.

A fixed tendon's length is a sum of coordinates, Σ c q. A spatial tendon is the shortest string through some points; on
its way it may go around spheres and cylinders, and over pulleys, which count what follows by a part. Names, defaults
and facts are MuJoCo's (MJCF reference, "tendon").

`Tendon` describes one, in words; `Tendons` holds them all, and belongs to a world.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from kinetree._types import AnyArray, Float, Number, Vector

BASE = -1
NO_WRAP = NO_SIDE = -1


@dataclass(frozen=True)
class Via:
    """A point of a body that a tendon runs through.

    Arguments:
        body: name or number of the body; None is the base.
        position: in the body's frame.
    """

    body: int | str | None = None
    position: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Wrap:
    """A sphere or cylinder that a tendon goes around, between the points before and after it.

    Arguments:
        kind: "sphere" or "cylinder"; a cylinder is infinite along its z axis.
        radius: of it.
        body: name or number of the body that carries it; None is the base.
        position, orientation: in the body's frame; the orientation is a quaternion (w, x, y, z).
        side: a `Via`, or the name of a body: the tendon passes on this side. A side within the shape makes the tendon
            pass through its inside.
    """

    kind: str
    radius: Number
    body: int | str | None = None
    position: Vector = (0.0, 0.0, 0.0)
    orientation: Vector = (1.0, 0.0, 0.0, 0.0)
    side: Via | str | None = None


@dataclass(frozen=True)
class Pulley:
    """From here on, lengths and forces of a tendon's path are divided by `divisor`."""

    divisor: Number = 1.0


@dataclass(frozen=True)
class Tendon:
    """A tendon, for models made in code; defaults are MuJoCo's. `kinetree.with_tendons` takes them.

    Arguments:
        name: of the tendon.
        joints: of a fixed tendon: names of hinges or sliders, and how much each coordinate counts.
        path: of a spatial tendon: names of bodies or sites, `Via`, `Wrap` and `Pulley`, in their order.
        stiffness: force per stretch beyond `spring_length`.
        spring_length: where the spring is at rest: a length, or the ends of a range; None is the length where the model
            is at rest.
        damping: force per velocity.
        armature: inertia that resists changes of length.
        range: least and largest length, or None.
        margin: limits push from this distance on.
        friction: dry friction.
        force_range: least and largest sum of the forces of actuators, or None.
        limit_solref, limit_solimp, friction_solref, friction_solimp: how soft limits and friction are.
    """

    name: str
    joints: Mapping[str, Number] = field(default_factory=dict)
    path: Sequence[str | Via | Wrap | Pulley] = ()
    stiffness: Number = 0.0
    spring_length: Number | tuple[Number, Number] | None = None
    damping: Number = 0.0
    armature: Number = 0.0
    range: tuple[Number, Number] | None = None
    margin: Number = 0.0
    friction: Number = 0.0
    force_range: tuple[Number, Number] | None = None
    limit_solref: Vector = (0.02, 1.0)
    limit_solimp: Vector = (0.9, 0.95, 0.001, 0.5, 2.0)
    friction_solref: Vector = (0.02, 1.0)
    friction_solimp: Vector = (0.9, 0.95, 0.001, 0.5, 2.0)


class Span(NamedTuple):
    """A stretch of a tendon from point to point, perhaps around something."""

    tendon: int
    first: int  # points
    second: int
    wrap: int  # the number of the wrap that it goes around, or NO_WRAP


class Around(NamedTuple):
    """What is static about a sphere or cylinder."""

    cylinder: bool
    row: int  # that carries it; BASE
    side: int  # a point, or NO_SIDE


class Routes(NamedTuple):
    """What is static about tendons. Compared by value, so that jit can tell two models apart."""

    names: tuple[str, ...]
    fixed: tuple[tuple[int, int], ...]  # tendon and row of each coefficient
    points: tuple[int, ...]  # the rows that carry points; BASE
    spans: tuple[Span, ...]
    arounds: tuple[Around, ...]
    bodies: tuple[int, ...] = ()  # that have the points, and then what tendons go around; BASE


class Pull(NamedTuple):
    """What acts along tendons; first axis over tendons."""

    stiffness: Float[AnyArray, " n"]
    slack: Float[AnyArray, "n 2"]  # lengths between which the spring is at rest
    damping: Float[AnyArray, " n"]
    armature: Float[AnyArray, " n"]
    range: Float[AnyArray, "n 2"]  # infinite where there is no limit
    margin: Float[AnyArray, " n"]
    limit_solref: Float[AnyArray, "n 2"]
    limit_solimp: Float[AnyArray, "n 5"]
    friction: Float[AnyArray, " n"]
    friction_solref: Float[AnyArray, "n 2"]
    friction_solimp: Float[AnyArray, "n 5"]
    force_range: Float[AnyArray, "n 2"]  # of the sum of all actuators of a tendon


class WrapShapes(NamedTuple):
    """Spheres and cylinders that tendons go around, in the frames of the rows that carry them."""

    position: Float[AnyArray, "n 3"]
    orientation: Float[AnyArray, "n 4"]
    radius: Float[AnyArray, " n"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Tendons:
    """All tendons of a model."""

    coefficients: Any  # of fixed tendons, one for each of `routes.fixed`
    points: Float[AnyArray, "n 3"]  # in the frames of the rows that carry them
    divisors: Any  # of the spans
    shapes: WrapShapes
    pull: Pull
    start: Float[AnyArray, " n"]  # lengths where the model is at rest; tendon equalities count from there
    routes: Routes = field(metadata={"static": True})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tendons."""
        return self.routes.names

    def __len__(self) -> int:
        return len(self.routes.names)
