"""`kinetree.sensors`: the readings of a model's sensors in a state; `with_sensors` adds sensors in code."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import dtype_of
from kinetree._types import AnyArray, Float
from kinetree._unknown import did_you_mean, unknown
from kinetree.constrain.actuated import actuated, carried
from kinetree.model import Model, ModelError, Mount, Sensor, State, require_state
from kinetree.model.arguments import evaluate_for
from kinetree.model.attached import body_number
from kinetree.model.fields import NUMBER, PLACE, POSE, TEXT, WHOLE, Form, all_of, numbers, optional, require_fields
from kinetree.model.required import require_model
from kinetree.model.sensor import CONTACT_DATA, CONTACT_REDUCE, WORLD, ZONE_SIZES, Side

from .acting import Acting, acting, with_pulls
from .measure import ACCELERATED, INTERACTIONS, KINDS, PUSHED, Driven, measured

NAME_OR_NUMBER = Form("a name or a number", lambda x: TEXT.fits(x) or WHOLE.fits(x))
SIDES = Form(
    "two sides, kinetree.Side or None",
    lambda x: isinstance(x, tuple | list) and len(x) == 2 and all(s is None or isinstance(s, Side) for s in x),
)
SENSOR = {
    **dict.fromkeys(("kind", "name", "reduce"), TEXT),
    **dict.fromkeys(("joint", "tendon"), NAME_OR_NUMBER),
    "actuator": WHOLE,
    "num": Form("a number of contacts", lambda x: WHOLE.fits(x) and x > 0),
    "field": PLACE,
    "cutoff": NUMBER,
    "zone": optional(Form(f"a shape ({', '.join(ZONE_SIZES)}) and its sizes", lambda x: _is_zone(x))),
    "data": Form("names of data", lambda x: isinstance(x, tuple | list) and all(map(TEXT.fits, x))),
    "sides": SIDES,
}


def sensors(
    model: Model, state: State, ctrl: Float[AnyArray, "... nu"] | None = None
) -> dict[str, Float[AnyArray, "..."]]:
    """The readings of the sensors.

    Arguments:
        model: the mechanism; its sensors come from its file, or from `with_sensors`.
        state: its configuration and velocity.
        ctrl: controls (..., nu) of the actuators; zero if not given.

    Returns:
        For each sensor's name an array (..., k), in MuJoCo's units and axes, without noise. Quaternions may have the
        opposite sign.
    """
    require_model(model)
    require_state(state)
    if not model.sensors:
        return {}
    if ctrl is None:
        ctrl = np.zeros(model.nu, dtype_of(state.q))
    free, coupling = model.uncoupled, model.coupling
    kinds = {s.kind for s in model.sensors}

    def compute(q: Any, qd: Any, act: Any, time: Any, warm: Any, ctrl: Any) -> dict[str, Any]:
        q, qd, time = jnp.asarray(q), jnp.asarray(qd), jnp.asarray(time)
        now = Acting(jnp.zeros_like(qd))
        if kinds & ACCELERATED:
            now = acting(model, q, qd, act, warm, ctrl, forces=bool(kinds & PUSHED))
        if coupling is not None:
            q, qd, now = coupling.widen_q(q), coupling.widen_v(qd), now._replace(qdd=coupling.widen_v(now.qdd))
        driven = None
        if model.actuators is not None:
            found = actuated(free, q, qd, ctrl, act, jnp.asarray(model.timestep, q.dtype))
            driven = Driven(found.force + carried(free, q), found.length, found.velocity, found.own)
        if kinds & INTERACTIONS:
            now = with_pulls(free, now, q, qd, None if driven is None else driven.own)
        return measured(free, q, qd, now, driven, time)

    found = evaluate_for(model, compute, **state.arrays, ctrl=ctrl)
    return {s.name: found[s.name] for s in model.sensors}  # in the file's order, which JAX does not keep


def with_sensors(model: Model, given: Iterable[Sensor]) -> Model:
    """The model with these sensors, in place of any it had.

    Arguments:
        model: the mechanism.
        given: see `Sensor`; bodies, joints and tendons in them may be names.
    """
    require_model(model)
    found: list[Sensor] = []
    for sensor in all_of("with_sensors takes", given, Sensor):
        require_fields(f"sensor {sensor.name!r}", sensor, SENSOR)
        if sensor.kind not in KINDS:
            raise ModelError(f"sensor {sensor.name!r}: {unknown('kind of sensor', sensor.kind, sorted(KINDS))}")
        if sensor.kind == "touch" and sensor.zone is None:
            raise ModelError(f"sensor {sensor.name!r}: a touch sensor has a zone, such as ('sphere', (0.1,))")
        if any(sensor.name == other.name for other in found):
            raise ModelError(f"two sensors are called {sensor.name!r}")
        mount, reference = _mounted(model, sensor.mount), sensor.reference and _mounted(model, sensor.reference)
        joint, tendon = _joint(model, sensor), _tendon(model, sensor)
        if sensor.kind.startswith("actuator") and not 0 <= sensor.actuator < model.nu:
            raise ModelError(f"sensor {sensor.name!r}: there is no actuator {sensor.actuator}: there are {model.nu}")
        sides = _sides(model, sensor)
        found.append(
            dataclasses.replace(sensor, mount=mount, reference=reference, joint=joint, tendon=tendon, sides=sides)
        )
    return dataclasses.replace(model, sensors=tuple(found))


def _is_zone(given: Any) -> bool:
    if not (isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str)):
        return False
    kind, size = given
    return kind in ZONE_SIZES and numbers(*range(ZONE_SIZES[kind], 4)).fits(size) and min(size) >= 0


def _joint(model: Model, sensor: Sensor) -> int:
    """The body of a sensor's joint, which may be the joint's name."""
    given: Any = sensor.joint
    if isinstance(given, str):
        if given not in model.joint_names:
            near = did_you_mean(given, model.joint_names)
            raise ModelError(f"sensor {sensor.name!r}: no joint is called {given!r}{near}")
        return model.joint_names.index(given)
    if sensor.kind.startswith(("joint", "ball")) and not 0 <= given < model.n_bodies:
        raise ModelError(f"sensor {sensor.name!r}: no body has number {given}, whose joint is meant")
    return int(given)


def _tendon(model: Model, sensor: Sensor) -> int:
    """The number of a sensor's tendon, which may be a name."""
    names = () if model.world is None or model.world.tendons is None else model.world.tendons.names
    given: Any = sensor.tendon
    number = names.index(given) if given in names else given
    if sensor.kind.startswith("tendon") and not (isinstance(number, int) and 0 <= number < len(names)):
        raise ModelError(f"sensor {sensor.name!r}: there is no tendon {given!r}")
    return number


def _sides(model: Model, sensor: Sensor) -> tuple[Side | None, Side | None]:
    """The sides of a contact sensor, by number."""
    scene = None if model.world is None else model.world.scene
    shapes = () if scene is None else scene.layout.names

    def numbered(side: Side | None) -> Side | None:
        if side is None:
            return None
        kind, given = side
        if kind not in ("shape", "body", "subtree"):
            raise ModelError(f"sensor {sensor.name!r}: a side is a shape, a body or a subtree, not {kind!r}")
        if kind == "shape":
            number: Any = shapes.index(given) if given in shapes else given
            known = isinstance(number, int) and 0 <= number < len(shapes)
        else:
            number = model.body_index(given) if isinstance(given, str) else given
            known = isinstance(number, int) and WORLD.body <= number < model.n_bodies
        if not known:
            raise ModelError(f"sensor {sensor.name!r}: there is no {kind} {given!r}")
        return Side(kind, number)

    if sensor.kind == "contact":
        if bad := [x for x in sensor.data if x not in CONTACT_DATA]:
            raise ModelError(f"sensor {sensor.name!r}: {unknown('field of a contact', bad[0], CONTACT_DATA)}")
        if sensor.reduce not in CONTACT_REDUCE:
            raise ModelError(f"sensor {sensor.name!r}: {unknown('reduce', sensor.reduce, CONTACT_REDUCE)}")
        if sensor.reduce == "netforce" and {"linvel", "angvel"} & set(sensor.data):
            raise ModelError(f"sensor {sensor.name!r}: a net force has no velocity")
    return numbered(sensor.sides[0]), numbered(sensor.sides[1])


def _mounted(model: Model, mount: Any) -> Mount:
    """From a mount, or the name of a body."""
    mount = mount if isinstance(mount, Mount) else Mount(mount)
    number = body_number(model, mount.body)
    require_fields(f"mount on {mount.body!r}", mount, POSE)
    return Mount(number, tuple(map(float, mount.position)), tuple(map(float, mount.orientation)))
