"""Motions of joints in lanes, for integrators: hinges and sliders, balls, free joints, on components.

Velocities u have the linear parts of free joints in world axes (world_axes.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinetree.constrain.native.plan import Plan
from kinetree.model.configuration import along_screw, back_along_screw
from kinetree.spatial import Quaternion, Vec3

Numbers = tuple[Any, ...]


class Moves(NamedTuple):
    """A kind of joint: how many numbers it has, and how it moves."""

    nq: int
    nv: int
    joints: Callable[[Plan], tuple[np.ndarray, np.ndarray]]  # first rows, and columns of q
    moved: Callable[[Numbers, Numbers], Numbers]  # q and a move, in velocities u for unit time
    screwed: Callable[[Numbers, Numbers], Numbers]  # the same along a screw, in body velocities
    to_world: Callable[[Numbers, Numbers], Numbers]  # u of a body velocity
    to_body: Callable[[Numbers, Numbers], Numbers]
    rate: Callable[[Numbers, Numbers], Numbers]  # how fast a move grows, from the move so far and u


def _same(q: Numbers, v: Numbers) -> Numbers:
    return v


def _plus(a: Numbers, b: Numbers) -> Numbers:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _turned(q: Numbers, turn: Numbers) -> Numbers:
    return tuple((Quaternion(*q).normalized() * Quaternion.exp(Vec3(*turn))).normalized())


def _turn_rate(move: Numbers, u: Numbers) -> Numbers:
    return tuple(back_along_screw(-Vec3(*move), Vec3(*u)))


def _turn_linear(q: Numbers, v: Numbers, back: bool) -> Numbers:
    here = Quaternion(*q[3:]).normalized()
    linear = Vec3(*v[3:])
    return (*v[:3], *(here.to_child(linear) if back else here.to_parent(linear)))


def _freely(q: Numbers, move: Numbers) -> Numbers:
    return (*_plus(q[:3], move[3:]), *_turned(q[3:], move[:3]))


def _along_screw(q: Numbers, move: Numbers) -> Numbers:
    carried = Quaternion(*q[3:]).normalized().turn(along_screw(Vec3(*move[:3]), Vec3(*move[3:])))
    return (*_plus(q[:3], tuple(carried)), *_turned(q[3:], move[:3]))


def _scalar(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(plan.structure.q_of_row >= 0)
    return rows, plan.structure.q_of_row[rows].astype(np.int64)


def _quaternions(free: int) -> Callable[[Plan], tuple[np.ndarray, np.ndarray]]:
    def joints(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        found = plan.structure.quaternion_joints
        chosen = found[found[:, 2] == free].astype(np.int64)
        return chosen[:, 0], chosen[:, 1]

    return joints


SCALAR = Moves(1, 1, _scalar, _plus, _plus, _same, _same, lambda move, u: u)
BALL = Moves(4, 3, _quaternions(0), _turned, _turned, _same, _same, _turn_rate)
FREE = Moves(
    7,
    6,
    _quaternions(1),
    _freely,
    _along_screw,
    lambda q, v: _turn_linear(q, v, False),
    lambda q, u: _turn_linear(q, u, True),
    lambda move, u: (*_turn_rate(move[:3], u[:3]), *u[3:]),
)


def kinds_of_joints(plan: Plan) -> tuple[bool, bool, bool]:
    """Three truths: there are hinges or sliders, balls, free joints."""
    free = plan.structure.quaternion_joints[:, 2]
    return bool((plan.structure.q_of_row >= 0).any()), bool((free == 0).any()), bool((free == 1).any())
