"""The shortest way of a string around a sphere or a cylinder, as MuJoCo 4 has it, elementwise.

Both become a circle in a plane. For a sphere it is the plane through its centre and the two ends. For a cylinder it is
the plane across its axis, and the height is added afterwards.

Outside, the string turns about the centre from one end to the other: by the smaller angle, or past the given side
point. From each end it first runs along a tangent, which takes the angle acos(radius/distance) of the turn. If no angle
is left for an arc, the string does not touch the circle. Inside, the string touches the circle in one point, where its
length is least; there it is reflected.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.collide.shapes import MIN_VALUE
from kinetree.spatial import Quaternion, Scalar, Vec3

INSIDE_STEPS = 30  # steps of a bracketed Newton's method; five are enough unless an end nearly touches the circle

Point = tuple[Scalar, Scalar]  # in the plane


class WrapPath(NamedTuple):
    """The way of a string around a shape."""

    on: Scalar  # True if it touches
    length: Scalar  # on the surface
    first: Vec3  # the point where it reaches the surface, in world axes
    second: Vec3  # the point where it leaves the surface


def root(x: Scalar) -> Scalar:
    """√x, with no derivative where x is not positive."""
    some = x > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, x, 1.0)), 0.0)


def _dot(a: Point, b: Point) -> Scalar:
    return a[0] * b[0] + a[1] * b[1]


def _unit(a: Point) -> Point:
    length = root(_dot(a, a))
    some = length >= MIN_VALUE
    safe = jnp.where(some, length, 1.0)
    return jnp.where(some, a[0] / safe, 1.0), jnp.where(some, a[1] / safe, 0.0)


def unit(v: Vec3) -> tuple[Vec3, Scalar]:
    """The unit vector along a vector, and the length; the x axis for a zero vector."""
    length = root(v.dot(v))
    some = length >= MIN_VALUE
    safe = jnp.where(some, length, 1.0)
    return Vec3(jnp.where(some, v.x / safe, 1.0), jnp.where(some, v.y / safe, 0.0), jnp.where(some, v.z / safe, 0.0)), (
        length
    )


def _choose(c: Scalar, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(c, x, y), a, b)


def _turn(a: Point, b: Point) -> Scalar:
    """The angle from a to b, counterclockwise, between −π and π."""
    cross, dot = a[0] * b[1] - a[1] * b[0], _dot(a, b)
    nowhere = (cross == 0) & (dot == 0)
    return jnp.arctan2(jnp.where(cross == 0, 0.0, cross), jnp.where(nowhere, 1.0, dot))


def _turned(a: Point, angle: Scalar) -> Point:
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return cos * a[0] - sin * a[1], sin * a[0] + cos * a[1]


def _outside(a: Point, b: Point, side: Point | None, radius: Scalar) -> tuple[Scalar, Scalar, Point, Point]:
    """Around the circle: True if the string touches it, the arc, and its two ends."""
    la, lb = root(_dot(a, a)), root(_dot(b, b))
    apart = (la >= radius) & (lb >= radius) & (radius >= MIN_VALUE)
    whole = _turn(a, b) if side is None else _turn(a, side) + _turn(side, b)
    sign = jnp.where(whole < 0, -1.0, 1.0)

    def tangent(length: Scalar) -> Scalar:
        """acos(radius/length), which has no derivative where both are the same."""
        return jnp.arctan2(root(length * length - radius * radius), radius)

    first, second = tangent(la), tangent(lb)
    arc = jnp.abs(whole) - first - second
    p, q = _turned(_unit(a), sign * first), _turned(_unit(b), -sign * second)
    on = apart & (arc > 0)
    return on, radius * arc, (radius * p[0], radius * p[1]), (radius * q[0], radius * q[1])


def _inside(a: Point, b: Point, radius: Scalar) -> tuple[Scalar, Point]:
    """A string that passes inside: True if it touches the circle, and the point where it does."""
    la, lb = root(_dot(a, a)), root(_dot(b, b))
    way = b[0] - a[0], b[1] - a[1]
    squared = _dot(way, way)
    place = -_dot(way, a) / jnp.where(squared > 0, squared, 1.0)
    near = a[0] + place * way[0], a[1] + place * way[1]
    hits = (place > 0) & (place < 1) & (_dot(near, near) <= radius * radius)
    on = (la > radius) & (lb > radius) & (radius >= MIN_VALUE) & ~hits
    la, lb = jnp.where(on, la, 2 * radius + 1), jnp.where(on, lb, 2 * radius + 1)
    turn = _turn(a, b)
    whole = jnp.abs(turn)

    def lack(x: Scalar, radius: Scalar, la: Scalar, lb: Scalar, whole: Scalar) -> tuple[Scalar, Scalar]:
        """The derivative of length / radius by the angle from the first end to the point; and its own derivative."""
        value, slope = jnp.zeros_like(x), jnp.zeros_like(x)
        for sign, length, angle in ((1.0, la, x), (-1.0, lb, whole - x)):
            cos, sin = jnp.cos(angle), jnp.sin(angle)
            free = root((length - radius) ** 2 + 2 * length * radius * (1 - cos))
            value = value + sign * length * sin / free
            slope = slope + length * (cos - length * radius * sin * sin / (free * free)) / free
        return value, slope

    circle = radius, la, lb, whole
    known = jax.lax.stop_gradient(circle)

    def improve(state: tuple) -> tuple:
        count, x, low, high = state
        value, slope = lack(x, *known)
        low, high = jnp.where(value < 0, x, low), jnp.where(value < 0, high, x)
        to = x - value / jnp.where(slope > 0, slope, 1.0)
        inside = (slope > 0) & (to > low) & (to < high)
        return count + 1, jnp.where(inside, to, 0.5 * (low + high)), low, high

    start = jnp.zeros((), jnp.int32), 0.5 * known[-1], jnp.zeros_like(whole), known[-1]
    x = jax.lax.while_loop(lambda state: state[0] < INSIDE_STEPS, improve, start)[1]
    value, slope = lack(x, *circle)
    x = x - value / jnp.where(slope > 0, slope, 1.0)  # this step has the derivative of the solution
    p = _turned(_unit(a), jnp.where(turn < 0, -1.0, 1.0) * x)
    return on, (radius * p[0], radius * p[1])


def _plane_of_sphere(p: Vec3, q: Vec3) -> tuple[Vec3, Vec3]:
    """Axes of the plane through the centre and two points."""
    x, _ = unit(p)
    normal, length = unit(p.cross(q))
    ax, ay, az = (jnp.abs(c) for c in x)
    zero, one = jnp.zeros_like(ax), jnp.ones_like(ax)
    most_y = (ay > ax) & (ay > az)
    most_z = (az > ax) & (az > ay)
    most_x = ~(most_y | most_z)
    other = Vec3(*(jnp.where(c, zero, one) for c in (most_x, most_y, most_z)))
    normal = _choose(length < MIN_VALUE, unit(x.cross(other))[0], normal)
    return x, unit(normal.cross(x))[0]


def around(
    cylinder: bool,
    a: Vec3,
    b: Vec3,
    center: Vec3,
    turn: Quaternion,
    radius: Scalar,
    side: Vec3 | None,
    inside: bool = True,
) -> WrapPath:
    """The way from a to b around a sphere or cylinder; `side` is a point on the side of the way.

    `inside`: the side point may be within the shape; then the string passes through the shape.
    """
    p, q = turn.to_child(a - center), turn.to_child(b - center)
    zero, one = jnp.zeros_like(p.x), jnp.ones_like(p.x)
    x, y = (Vec3(one, zero, zero), Vec3(zero, one, zero)) if cylinder else _plane_of_sphere(p, q)
    d, e = (p.dot(x), p.dot(y)), (q.dot(x), q.dot(y))
    s = None if side is None else turn.to_child(side - center)
    towards = None
    if s is not None:
        towards = tuple(radius * c for c in _unit((s.dot(x), s.dot(y))))
    on, arc, first, second = _outside(d, e, towards, radius)
    if s is not None and inside:
        within = root(s.dot(s)) < radius
        through, touch = _inside(d, e, radius)
        on, arc = jnp.where(within, through, on), jnp.where(within, 0.0, arc)
        first, second = _choose(within, (touch, touch), (first, second))
    on = on & (root(p.dot(p)) >= MIN_VALUE) & (root(q.dot(q)) >= MIN_VALUE)
    start, end = (x * c[0] + y * c[1] for c in (first, second))
    if cylinder:
        before, after = (root((s[0] - t[0]) ** 2 + (s[1] - t[1]) ** 2) for s, t in ((d, first), (e, second)))
        whole = before + arc + after
        rise = (q.z - p.z) / jnp.where(whole > 0, whole, 1.0)
        start, end = start._replace(z=p.z + rise * before), end._replace(z=p.z + rise * (before + arc))
        arc = root(arc * arc + (end.z - start.z) ** 2)
    return WrapPath(on, arc, center + turn.turn(start), center + turn.turn(end))
