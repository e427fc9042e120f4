"""What a sensor is: what it measures, and where it sits."""

from dataclasses import dataclass
from typing import NamedTuple

BASE = -1


class Mount(NamedTuple):
    """A frame on a body. Tuples, so that models with the same sensors are the same to `jit`."""

    body: int = BASE
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    orientation: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)


WORLD = Mount()


@dataclass(frozen=True)
class Sensor:
    """One sensor. Kinds and facts are MuJoCo's (MJCF reference, "sensor"); `kinetree.with_sensors` takes names.

    Arguments:
        kind: "gyro", "accelerometer", "velocimeter", "magnetometer", "touch", "force", "torque"; "framepos",
            "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel", "framelinacc",
            "frameangacc"; "jointpos", "jointvel", "ballquat", "ballangvel", "jointactuatorfrc"; "actuatorpos",
            "actuatorvel", "actuatorfrc"; "tendonpos", "tendonvel", "tendonactuatorfrc"; "subtreecom",
            "subtreelinvel", "subtreeangmom"; "clock".
        name: its key in what `kinetree.sensors` returns.
        mount: where it sits, or the body whose subtree is meant.
        reference: the frame that a frame sensor is relative to; None is the world.
        joint: the body whose joint is meant, −1 for none.
        actuator: its number among the actuators of the model.
        tendon: its number among the tendons of the model.
        zone: kind and size of the shape, at the mount, in which a touch sensor feels.
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
