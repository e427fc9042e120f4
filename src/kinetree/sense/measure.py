"""The measurements of all kinds of sensors, kind by kind, states side by side. Facts are MuJoCo's (engine_sensor.c).

Accelerometers and frame accelerations include gravity: the world accelerates upwards. Force and torque sensors measure
the wrench of a body's parent on it: the rate of momentum of all that hangs on it, minus forces of contacts, of
equalities, and of tendons that run through points of bodies.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree._varying import jit
from kinetree.constrain.carried import Carried, End, ends
from kinetree.constrain.constrained import SCHEDULE
from kinetree.dynamics.frames import row_rates
from kinetree.dynamics.schedules.arranged import arranged, by_position, row_poses, row_velocities
from kinetree.dynamics.tendons.lengths import paths_of, stretched, velocities
from kinetree.model import Model, Sensor
from kinetree.model.attached import in_rows
from kinetree.model.structure import subtree
from kinetree.spatial import Quaternion, Rates, Vec3
from kinetree.tree import layout

from .acting import Acting
from .bodies import BodyMotions, momenta, wrenches
from .pulls import line_bodies
from .pushes import push_bodies
from .touches import contact_data, pressed, relative_velocity
from .zones import hits


class Driven(NamedTuple):
    """Forces of actuators.

    Generalised forces (batch, nv), with gravity compensation; lengths, velocities and forces (batch, n).
    """

    force: Any
    length: Any
    velocity: Any
    own: Any


class SensorInputs(NamedTuple):
    """The quantities that sensors are computed from."""

    model: Model
    q: Any  # (batch, nq)
    qd: Any
    time: Any
    driven: Driven | None
    rows: Carried
    position_of: np.ndarray
    bodies: BodyMotions | None
    acting: Acting


Found = Any  # (sensors, k, batch)


def _stacked(v: Vec3) -> Found:
    return jnp.stack(tuple(v), 1)


def _own(end: End, v: Vec3) -> Found:
    """In the frame's own axes."""
    return _stacked(end.orientation.to_child(v))


def _relative(point: Callable[[End, End], Vec3]) -> Any:
    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        return _own(ref, point(end, ref))

    return measure


def _axis(k: int) -> Any:
    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        one, zero = jnp.ones_like(end.position.x), jnp.zeros_like(end.position.x)
        return _own(ref, end.orientation.turn(Vec3(*(one if i == k else zero for i in range(3)))))

    return measure


def _quaternion(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    return jnp.stack(tuple(ref.orientation.conjugate() * end.orientation), 1)


def _moving_past(end: End, ref: End) -> Vec3:
    """Velocity of the frame relative to the turning reference."""
    return end.linear - ref.linear + (end.position - ref.position).cross(ref.omega)


def _in_own(pick: Callable[[End], Vec3]) -> Any:
    return lambda known, some, end, ref: _own(end, pick(end))


def _in_world(pick: Callable[[End], Vec3]) -> Any:
    return lambda known, some, end, ref: _stacked(pick(end))


def _magnetometer(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    field = jnp.asarray([s.field for s in some], end.position.x.dtype)
    return _own(end, Vec3(*(field[:, k, None] + jnp.zeros_like(end.position.x) for k in range(3))))


def _coordinates(values: str, starts: str, count: int) -> Any:
    """Entries of q or qd that belong to joints."""

    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        first = getattr(known.model.structure, starts)[np.array([s.joint for s in some])]
        at = first[:, None] + np.arange(count)
        return jnp.moveaxis(getattr(known, values)[:, at], 0, -1)

    return measure


def _ball(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    q = _coordinates("q", "q_start", 4)(known, some, end, ref)
    return jnp.stack(tuple(Quaternion(*(q[:, k] for k in range(4))).normalized()), 1)


def _joint_drive(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    at = known.model.structure.v_start[np.array([s.joint for s in some])]
    if known.driven is None:
        return jnp.zeros((len(some), 1, len(known.q)), known.q.dtype)
    return known.driven.force[:, at].T[:, None]


def _actuator(name: str) -> Any:
    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        numbers = np.array([s.actuator for s in some])
        if known.driven is None:
            return jnp.zeros((len(some), 1, len(known.q)), known.q.dtype)
        values = getattr(known.driven, name)
        padded = jnp.pad(values, ((0, 0), (0, 1)))  # actuators that are not modelled do nothing
        return padded[:, np.where(numbers >= 0, numbers, values.shape[1])].T[:, None]

    return measure


def _tendon(pick: str) -> Any:
    """Lengths, velocities, or the sum of what actuators do, of tendons."""

    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        numbers = np.array([s.tendon for s in some])
        if pick == "force":
            on = () if known.model.actuators is None else known.model.actuators.wiring.targets
            own = np.array([t.first if t.kind == "tendon" else -1 for t in on], np.int64)
            if known.driven is None or not len(own):
                return jnp.zeros((len(some), 1, len(known.q)), known.q.dtype)
            share = jnp.asarray(numbers[:, None] == own, known.q.dtype)
            return jnp.einsum("sn,bn->sb", share, known.driven.own)[:, None]
        found = stretched(known.model, known.q)
        if pick == "length":
            return found.length[numbers][:, None]
        return velocities(paths_of(known.model), found.moment, known.qd)[numbers][:, None]

    return measure


def _clock(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    return jnp.broadcast_to(known.time, (len(some), 1, len(known.q)))


def _subtree(pick: str) -> Any:
    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        found = momenta(there(known.bodies), subtree(known.model.structure.parent, [s.mount.body for s in some]))
        return _stacked(getattr(found, pick))

    return measure


def _interaction(pick: str) -> Any:
    """The wrench of the parent on a body, in the frame's axes, moment about its origin."""

    def measure(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
        within = subtree(known.model.structure.parent, [s.mount.body for s in some])
        moment, force = wrenches(there(known.bodies), within)
        for push, bodies in ((known.acting.push, push_bodies), (known.acting.pull, line_bodies)):
            if push is not None:
                pushed = push.on(bodies(known.model), within)
                moment, force = moment - pushed[0], force - pushed[1]
        moment = moment - end.position.cross(force)
        return _own(end, force if pick == "force" else moment)

    return measure


def _touch(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    felt = known.acting.felt
    if felt is None:
        return jnp.zeros((len(some), 1, len(known.q)), known.q.dtype)
    values = []
    for k, sensor in enumerate(some):  # few, and each with a shape of its own
        at = jax.tree.map(lambda x, k=k: x[k], (end.position, end.orientation))
        values.append(pressed(known.model, felt, sensor.mount.body, partial(hits, there(sensor.zone), *at)))
    return jnp.stack(values)[:, None]


def _contact(known: SensorInputs, some: list[Sensor], end: End, ref: End) -> Found:
    moving = partial(relative_velocity, known.model, known.rows, known.position_of)
    return [contact_data(known.model, known.acting.felt, s, k, end, moving, len(known.q)) for k, s in enumerate(some)]


KINDS: dict[str, Any] = {
    "gyro": _in_own(lambda e: e.omega),
    "velocimeter": _in_own(lambda e: e.linear),
    "accelerometer": _in_own(lambda e: e.acceleration),
    "magnetometer": _magnetometer,
    "framepos": _relative(lambda e, r: e.position - r.position),
    "framequat": _quaternion,
    "framexaxis": _axis(0),
    "frameyaxis": _axis(1),
    "framezaxis": _axis(2),
    "framelinvel": _relative(_moving_past),
    "frameangvel": _relative(lambda e, r: e.omega - r.omega),
    "framelinacc": _in_world(lambda e: e.acceleration),
    "frameangacc": _in_world(lambda e: e.alpha),
    "jointpos": _coordinates("q", "q_start", 1),
    "jointvel": _coordinates("qd", "v_start", 1),
    "ballquat": _ball,
    "ballangvel": _coordinates("qd", "v_start", 3),
    "jointactuatorfrc": _joint_drive,
    "actuatorpos": _actuator("length"),
    "actuatorvel": _actuator("velocity"),
    "actuatorfrc": _actuator("own"),
    "tendonpos": _tendon("length"),
    "tendonvel": _tendon("velocity"),
    "tendonactuatorfrc": _tendon("force"),
    "subtreecom": _subtree("center"),
    "subtreelinvel": _subtree("velocity"),
    "subtreeangmom": _subtree("spin"),
    "force": _interaction("force"),
    "torque": _interaction("moment"),
    "touch": _touch,
    "contact": _contact,
    "clock": _clock,
}
ACCELERATED = {"accelerometer", "framelinacc", "frameangacc", "force", "torque", "touch", "contact"}
OF_BODIES = {"subtreecom", "subtreelinvel", "subtreeangmom", "force", "torque"}
INTERACTIONS = {"force", "torque"}
PUSHED = {*INTERACTIONS, "touch", "contact"}
NEVER_CUT = {"framequat", "framexaxis", "frameyaxis", "framezaxis", "ballquat", "contact"}


@jit
def measured(model: Model, q: Any, qd: Any, acting: Acting, driven: Driven | None, time: Any) -> dict[str, Any]:
    """For each sensor (batch, k)."""
    laid = layout(model.tree, SCHEDULE)
    position_of = np.asarray(laid.position_of)
    at = arranged(laid, model, q)
    zero = Vec3.zero_like(at.gravity.x)
    rates = row_rates(laid, model, at, qd, acting.qdd, Rates(zero, zero, -at.gravity))
    rows = Carried(row_poses(laid, at), row_velocities(laid, at, by_position(laid, qd)), rates)
    kinds: dict[str, list[Sensor]] = {}
    for sensor in model.sensors:
        kinds.setdefault(sensor.kind, []).append(sensor)
    bodies = BodyMotions.of(model, rows, position_of) if OF_BODIES & set(kinds) else None
    known = SensorInputs(model, q, qd, time, driven, rows, position_of, bodies, acting)

    def mounted(mounts: list[Any]) -> End:
        bodies, places, turns = (np.array(x) for x in zip(*mounts, strict=True))
        return ends(model, rows, bodies, *in_rows(model, bodies, places, turns), position_of)

    found: dict[str, Any] = {}
    for kind, some in kinds.items():
        world = type(some[0].mount)()
        values = KINDS[kind](
            known, some, mounted([s.mount for s in some]), mounted([s.reference or world for s in some])
        )
        for sensor, value in zip(some, values, strict=True):
            cut = sensor.cutoff > 0 and kind not in NEVER_CUT
            found[sensor.name] = (jnp.clip(value, -sensor.cutoff, sensor.cutoff) if cut else value).T
    return found
