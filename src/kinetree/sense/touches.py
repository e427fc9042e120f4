"""Sensors that count contacts: touch, and MuJoCo's contact sensor (MJCF reference, "sensor/contact")."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.collide.shapes import MIN_VALUE
from kinetree.constrain.carried import Carried, End, ends
from kinetree.constrain.touch import contact_bodies, shapes_of_points
from kinetree.dynamics.tendons.wrapping import root
from kinetree.model import Model, Sensor
from kinetree.model.attached import in_rows
from kinetree.model.sensor import CONTACT_DATA, Side
from kinetree.model.structure import subtree
from kinetree.spatial import Scalar, Vec3
from kinetree.tree import pick

from .felt import Felt, chosen, in_world
from .zones import within


def pressed(model: Model, felt: Felt, body: int, hits: Callable[[Vec3, Vec3], Scalar]) -> Scalar:
    """The sum of normal forces on a body, (batch,), whose lines meet a zone."""
    first, second = contact_bodies(model).T
    mine = np.flatnonzero((first == body) | (second == body))
    dtype = felt.distance.dtype
    if not len(mine):
        return jnp.zeros(felt.distance.shape[-1], dtype)
    outward = jnp.asarray(np.where(second[mine] == body, -1.0, 1.0), dtype)[:, None]
    own = chosen(felt, mine)
    met = hits(own.position, own.frame.rows[0] * outward) & (own.force[0] > 0)
    return jnp.where(met, own.force[0], 0.0).sum(0)


def relative_velocity(
    model: Model, rows: Carried, position_of: np.ndarray, felt: Felt, points: np.ndarray
) -> tuple[Vec3, Vec3]:
    """Motion of second bodies relative to first ones, at points: linear and angular, along the contacts' frames."""
    own = chosen(felt, points)
    speeds = []
    for bodies in contact_bodies(model).T:
        which = bodies[points]
        still = np.zeros((len(which), 3)), np.tile([1.0, 0.0, 0.0, 0.0], (len(which), 1))
        end = ends(model, rows, which, *in_rows(model, which, *still), position_of)
        moves = jnp.asarray(which >= 0)[:, None]
        linear = end.linear + end.omega.cross(own.position - end.position)
        speeds.append([Vec3(*(jnp.where(moves, c, 0.0) for c in v)) for v in (linear, end.omega)])
    (v1, w1), (v2, w2) = speeds
    return own.frame @ (v2 - v1), own.frame @ (w2 - w1)


def _matches(model: Model, side: Side | None) -> tuple[np.ndarray, np.ndarray]:
    """Two masks over points: the first shape is of this side; the second shape is of this side."""
    assert model.world is not None
    shapes, bodies = shapes_of_points(there(model.world.scene).layout).T, contact_bodies(model).T
    if side is None:
        every = np.ones(len(shapes[0]), bool)
        return every, every
    if side.kind == "shape":
        return shapes[0] == side.number, shapes[1] == side.number
    if side.kind == "body":
        return bodies[0] == side.number, bodies[1] == side.number
    hang = np.append(subtree(model.structure.parent, [side.number])[0], side.number < 0)  # the base comes last
    return hang[bodies[0]], hang[bodies[1]]


def _directions(model: Model, sensor: Sensor) -> np.ndarray:
    """For each point 1 if it matches, −1 if it matches with its normal reversed, 0 if it does not match."""
    one, two = sensor.sides
    (match11, match12), (match21, match22) = _matches(model, one), _matches(model, two)
    counts = (match11 | match12) & (match21 | match22)
    if one is not None and two is not None:
        regular, reverse = match11 & match22, match12 & match21
        counts, turned = counts & (regular | reverse), reverse & ~regular
    elif one is not None:
        turned = ~match11
    else:
        turned = ~match22 if two is not None else np.zeros_like(counts)
    return np.where(counts, np.where(turned, -1, 1), 0)


def contact_data(
    model: Model, felt: Felt | None, sensor: Sensor, number: int, end: End, moving: Any, batch: int
) -> Scalar:
    """(num times the sizes of its fields, batch): what a contact sensor reports.

    Arguments:
        model: the mechanism.
        felt: all points of contact.
        sensor: what is asked for.
        number: of the sensor among `end`.
        end: where the zones of sensors are.
        moving: gives relative velocities at points.
        batch: how many states there are.
    """
    size = sum(CONTACT_DATA[name] for name in sensor.data)
    direction = np.zeros(0) if felt is None else _directions(model, sensor)
    points = np.flatnonzero(direction)
    if felt is None or not len(points):
        return jnp.zeros((sensor.num * size, batch), end.position.x.dtype)
    own = chosen(felt, points)
    dtype = own.distance.dtype
    matched = own.distance < jnp.inf
    if sensor.zone is not None:
        place, turn = pick((end.position, end.orientation), number)
        matched = matched & within(sensor.zone, place, turn, own.position)
    count = matched.sum(0).astype(dtype)
    sign = jnp.asarray(direction[points], dtype)[:, None]
    if sensor.reduce == "netforce":
        return jnp.concatenate(
            [_net(own, matched, sign, count, sensor.data)] + [jnp.zeros((size, batch), dtype)] * (sensor.num - 1)
        )
    linear, angular = moving(felt, points) if {"linvel", "angvel"} & set(sensor.data) else (own.position, own.position)
    one = jnp.ones_like(own.distance)
    normal, tangent, _ = own.frame.rows

    def turned(v: Any) -> Vec3:
        """Components along a frame that is turned around its third axis, of what then has the opposite sign."""
        return Vec3(v[0], v[1], v[2] * sign)

    fields = {
        "found": (one * count,),
        "force": turned(own.force[:3]),
        "torque": turned(own.force[3:]),
        "dist": (own.distance,),
        "pos": own.position,
        "normal": normal * sign,
        "tangent": tangent * sign,
        "linvel": turned(linear),
        "angvel": turned(angular),
    }
    squared = sum(f * f for f in own.force[:3])
    key = {"none": 0.0 * one, "mindist": own.distance, "maxforce": -squared}[sensor.reduce]
    order = jnp.argsort(jnp.where(matched, key, jnp.inf), axis=0, stable=True)[: sensor.num]
    values = jnp.stack([x for name in sensor.data for x in fields[name]], 1)  # (points, size, batch)
    taken = jnp.take_along_axis(values, order[:, None], 0)
    filled = jnp.take_along_axis(matched, order, 0)[:, None]
    taken = jnp.where(filled, taken, 0.0).reshape(-1, batch)
    return jnp.concatenate([taken, jnp.zeros((sensor.num * size - len(taken), batch), dtype)])


def _net(own: Felt, matched: Scalar, sign: Scalar, count: Scalar, data: tuple[str, ...]) -> Scalar:
    """One contact in world axes that is equivalent to all, at the middle of their forces."""
    flag = jnp.where(matched, sign, 0.0)
    force, moment = (Vec3(*(jnp.where(matched, c, 0.0) * flag for c in v)) for v in in_world(own))
    weight = root(jnp.where(matched, sum(f * f for f in own.force[:3]), 0.0))
    total = jnp.maximum(weight.sum(0), MIN_VALUE)
    middle = Vec3(*((weight * jnp.where(matched, c, 0.0)).sum(0) / total for c in own.position))
    arm = Vec3(*(c - m for c, m in zip(own.position, middle, strict=True)))
    whole = moment + arm.cross(force)
    zero, some = jnp.zeros_like(total), jnp.where(count > 0, jnp.ones_like(total), 0.0)
    fields = {
        "found": (count,),
        "force": tuple(c.sum(0) for c in force),
        "torque": tuple(jnp.where(matched, c, 0.0).sum(0) for c in whole),
        "dist": (zero,),
        "pos": middle,
        "normal": (some, zero, zero),
        "tangent": (zero, some, zero),
    }
    return jnp.stack([x for name in data for x in fields[name]])
