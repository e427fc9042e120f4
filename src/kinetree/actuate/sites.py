"""Actuators on sites, and slider-cranks: lengths, and the wrenches that a unit force makes at the two frames.

The gear of a site is a force along its axes and a moment about them. With a reference site the axes are that one's, the
length is the site's position there, and its rotation vector, along the gear; rows that carry both feel nothing. A crank
moves a slider along the slider's z axis by a rod. The facts are MuJoCo's (mj_transmission).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.dynamics.schedules.arranged import arranged, row_poses
from kinetree.dynamics.tendons.lengths import SCHEDULE
from kinetree.dynamics.tendons.paths import ancestors
from kinetree.model import Model, Placement, Structure
from kinetree.model.actuators import Wiring
from kinetree.model.attached import in_rows
from kinetree.spatial import Force, Quaternion, Scalar, Vec3
from kinetree.tree import layout, pick, restore

NONE = -1


class MovedRows(NamedTuple):
    """The rows that actuators on frames move."""

    which: np.ndarray  # (k,): their numbers
    crank: np.ndarray  # (k,): True for cranks
    first: np.ndarray  # (k,): frames, as bodies
    second: np.ndarray  # NONE without one
    end: np.ndarray  # (entries,): the first frames, then the second ones
    row: np.ndarray  # (entries,)
    rows: tuple[tuple[int, ...], ...]  # of each actuator


@lru_cache(maxsize=256)
def reach(structure: Structure, wiring: Wiring) -> MovedRows:
    """Tables of one mechanism."""
    found = [(i, t) for i, t in enumerate(wiring.targets) if t.kind in ("site", "crank")]
    parent = np.asarray(structure.tree.parent)
    entries: list[tuple[int, int]] = []
    rows: list[tuple[int, ...]] = []
    for k, (_, t) in enumerate(found):
        one, two = (
            set() if body == NONE else set(ancestors(parent, int(structure.row_of_body[body])))
            for body in (t.first, t.second)
        )
        entries += [(k, r) for r in sorted(one - two)] + [(len(found) + k, r) for r in sorted(two - one)]
        rows.append(tuple(sorted(one ^ two)))
    return MovedRows(
        np.array([i for i, _ in found], np.int32),
        np.array([t.kind == "crank" for _, t in found], bool),
        np.array([t.first for _, t in found], np.int32),
        np.array([t.second for _, t in found], np.int32),
        np.array([e for e, _ in entries], np.int32),
        np.array([r for _, r in entries], np.int32),
        tuple(rows),
    )


class Pushed(NamedTuple):
    """Lengths and moments of actuators on frames."""

    length: Any  # (k, batch)
    entries: Any  # (entries, batch): moments, in the order of `MovedRows`


def pushed(model: Model, q: Any) -> Pushed:
    """From q (batch, nq)."""
    actuators = there(model.actuators)
    at = reach(model.structure, actuators.wiring)
    laid, batch = layout(model.tree, SCHEDULE), q.shape[0]
    arrangement = arranged(laid, model, q)
    axis, pose = restore(laid, (arrangement.rows.axis, row_poses(laid, arrangement)))
    one, two = (_frames(model, pose, bodies, batch) for bodies in (at.first, at.second))
    gear = jnp.asarray(actuators.gear, q.dtype)[at.which]
    push, turn = (Vec3(*(gear[:, k + j, None] for j in range(3))) for k in (0, 3))
    wrenches, length = on_sites((at.second != NONE)[:, None], one, two, push, turn)
    if at.crank.any():
        rod = jnp.asarray(actuators.rod, q.dtype)[at.which][:, None]
        made = by_crank(one, two, rod, gear[:, :1])
        crank = jnp.asarray(at.crank)[:, None]
        wrenches, length = jax.tree.map(lambda a, b: jnp.where(crank, a, b), made, (wrenches, length))
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b])[at.end], *wrenches)
    point = jax.tree.map(lambda a, b: jnp.concatenate([a, b])[at.end], one.position, two.position)
    own, place = pick((axis, pose), at.row)
    z = place.orientation.rotation().rows[2]
    moved = z * own.slide + z.cross(point - place.position) * own.turn
    return Pushed(length, moved.dot(both.linear) + z.dot(both.angular) * own.turn)


def _frames(model: Model, pose: Placement, bodies: np.ndarray, batch: int) -> Placement:
    """Frames of bodies, or of the base, in the world, (k, batch)."""
    dtype, k = pose.position.x.dtype, len(bodies)
    place, turn = in_rows(model, bodies, np.zeros((k, 3)), np.tile([1.0, 0, 0, 0], (k, 1)))
    place, turn = jnp.asarray(place, dtype), jnp.asarray(turn, dtype)
    own = Placement(Quaternion(*(turn[:, j, None] for j in range(4))), Vec3(*(place[:, j, None] for j in range(3))))
    rows = model.structure.rows_of(bodies)
    base = Placement.identity_like(jnp.zeros((1, batch), dtype))
    on: Placement = jax.tree.map(lambda x, b: jnp.concatenate([x, b])[rows], pose, base)  # −1 is the base
    return Placement(on.orientation * own.orientation, on.position + on.orientation.turn(own.position))


def on_sites(refers: Any, one: Placement, two: Placement, push: Vec3, turn: Vec3) -> tuple[tuple[Force, Force], Scalar]:
    """Wrenches on two sites, at their points, of a unit force; and the length. `refers`: there is a second one."""
    axes = jax.tree.map(lambda a, b: jnp.where(refers, a, b), two.orientation, one.orientation)
    force, moment = axes.turn(push), axes.turn(turn)
    there = two.orientation.to_child(one.position - two.position)
    turned = (two.orientation.conjugate() * one.orientation).log()
    length = jnp.where(refers, there.dot(push) + turned.dot(turn), 0.0)
    own = Force(moment, force)
    return (own, -own), length


def by_crank(one: Placement, two: Placement, rod: Scalar, gear: Scalar) -> tuple[tuple[Force, Force], Scalar]:
    """length = a·v − √((a·v)² + rod² − v²), with a the slider's axis and v the way to the crank; a·v out of reach."""
    axis, way = two.orientation.rotation().rows[2], one.position - two.position
    along = way.dot(axis)
    rest = along * along + rod * rod - way.dot(way)
    reaches = rest > 0
    short = jnp.where(reaches, jnp.sqrt(jnp.where(reaches, rest, 1.0)), 1.0)
    factor = jnp.where(reaches, 1 - along / short, 1.0) * gear
    by_way = axis * factor + way * (jnp.where(reaches, 1 / short, 0.0) * gear)
    zero = Vec3.zero_like(along)
    length = (along - jnp.where(reaches, short, 0.0)) * gear
    return (Force(zero, by_way), Force(axis.cross(way * factor), -by_way)), length
