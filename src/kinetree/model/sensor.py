"""Sensors: what they measure, and where they are mounted."""

from dataclasses import dataclass
from typing import NamedTuple

BASE = -1


class Mount(NamedTuple):
    """A frame on a body. Tuples, so that models with the same sensors are the same to `jit`."""

    body: int = BASE
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    orientation: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)


WORLD = Mount()

# The quantities that a contact sensor can report of each contact, with the count of their numbers.
CONTACT_DATA = {
    "found": 1,
    "force": 3,
    "torque": 3,
    "dist": 1,
    "pos": 3,
    "normal": 3,
    "tangent": 3,
    "linvel": 3,
    "angvel": 3,
}
ZONE_SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}  # how many numbers each zone needs
CONTACT_REDUCE = ("none", "mindist", "maxforce", "netforce")


class Side(NamedTuple):
    """The contacts that a sensor counts: those of a shape, of a body, or of a body with all that hangs on it."""

    kind: str  # "shape", "body" or "subtree"
    number: int = BASE  # of the shape or the body; for `kinetree.with_sensors` it may be a name


@dataclass(frozen=True)
class Sensor:
    """One sensor. Kinds and facts are MuJoCo's (MJCF reference, "sensor"); `kinetree.with_sensors` takes names.

    Arguments:
        kind: "gyro", "accelerometer", "velocimeter", "magnetometer", "touch", "force", "torque"; "framepos",
            "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel", "framelinacc",
            "frameangacc"; "jointpos", "jointvel", "ballquat", "ballangvel", "jointactuatorfrc"; "actuatorpos",
            "actuatorvel", "actuatorfrc"; "tendonpos", "tendonvel", "tendonactuatorfrc"; "subtreecom",
            "subtreelinvel", "subtreeangmom"; "contact"; "clock".
        name: its key in what `kinetree.sensors` returns.
        mount: where it sits, or the body whose subtree is meant.
        reference: the frame that a frame sensor is relative to; None is the world.
        joint: the body whose joint is meant, −1 for none.
        actuator: its number among the actuators of the model.
        tendon: its number among the tendons of the model.
        zone: kind and size of the shape, at the mount, in which a touch or contact sensor feels.
        sides: of a contact sensor: whose contacts it counts. Normals point from the first side to the second.
        data: of a contact sensor: what it reports of each contact, in the order of `CONTACT_DATA`.
        reduce: of a contact sensor: which contacts it reports: the first ones ("none"), the deepest ("mindist"), the
            strongest ("maxforce"), or one that does what all do together ("netforce").
        num: of a contact sensor: how many contacts it reports.
        field: the world's magnetic field.
        cutoff: the largest absolute value; 0 for none.
    """

    kind: str
    name: str
    mount: Mount = WORLD
    reference: Mount | None = None
    joint: int = BASE
    actuator: int = -1
    zone: tuple[str, tuple[float, ...]] | None = None
    field: tuple[float, ...] = (0.0, 0.0, 0.0)
    cutoff: float = 0.0
    tendon: int = -1
    sides: tuple[Side | None, Side | None] = (None, None)
    data: tuple[str, ...] = ("found",)
    reduce: str = "none"
    num: int = 1
