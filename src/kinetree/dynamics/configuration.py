"""Steps along the coordinates of joints as lane programs: `integrate` and `difference` of NumPy arrays.

The functions themselves, and what they mean, are in model/configuration.py. A joint is a turn of a loop: hinges and
sliders, balls, and free joints.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.lanes import NOTHING, Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Model, Structure
from kinetree.model import configuration as plain
from kinetree.model.configuration import along_screw, back_along_screw
from kinetree.spatial import Quaternion, Vec3

from .directly import Builtin, directly
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_rows import RowPart, joints_with
from .schedules.lane_visits import row_count

Q_COLUMN, V_COLUMN = range(2)
MEMORY = Memory(nothing=0.0)


def _scalars(structure: Structure) -> np.ndarray:
    rows = np.flatnonzero(structure.q_of_row >= 0)
    return np.stack([structure.q_of_row[rows], rows], -1)


def _quaternions(free: int) -> Callable[[Structure], np.ndarray]:
    return lambda structure: joints_with(structure, free)[:, [1, 0]]


def _parts(steps: tuple[Any, Any, Any], inputs: Any, outputs: Any) -> list[RowPart]:
    """A loop for each kind of joint, with `nq` columns of q and `nv` columns of v."""
    kinds = ((1, 1, _scalars), (4, 3, _quaternions(0)), (7, 6, _quaternions(1)))

    def part(step: Any, nq: int, nv: int, joints: Callable[[Structure], np.ndarray]) -> RowPart:
        def moved(_: tuple, given: tuple, __: tuple) -> tuple:
            return (), (), tuple(step(*given))

        return RowPart(Loop(moved, 2, NOTHING, inputs=inputs(nq, nv), outputs=outputs(nq, nv)), joints)

    return [part(step, *kind) for step, kind in zip(steps, kinds, strict=True)]


def _lanes(array: int, column: int, count: int) -> tuple[Lane, ...]:
    return tuple(Lane(array, column, k) for k in range(count))


def _ball_step(*g: Any) -> Quaternion:
    return (Quaternion(*g[:4]).normalized() * Quaternion.exp(Vec3(*g[4:]))).normalized()


def _free_step(*g: Any) -> tuple:
    position, old, theta = Vec3(*g[:3]), Quaternion(*g[3:7]).normalized(), Vec3(*g[7:10])
    new = (old * Quaternion.exp(theta)).normalized()
    return (*(position + old.turn(along_screw(theta, Vec3(*g[10:])))), *new)


def _ball_between(*g: Any) -> Vec3:
    return (Quaternion(*g[:4]).normalized().conjugate() * Quaternion(*g[4:]).normalized()).log()


def _free_between(*g: Any) -> tuple:
    back = Quaternion(*g[3:7]).normalized().conjugate()
    theta = (back * Quaternion(*g[10:]).normalized()).log()
    return (*theta, *back_along_screw(theta, back.turn(Vec3(*g[7:10]) - Vec3(*g[:3]))))


@once
def integrate_lanes() -> LaneAlgorithm:
    """From q and a move, the new q."""
    parts = _parts(
        (lambda q, v: (q + v,), _ball_step, _free_step),
        lambda nq, nv: _lanes(0, Q_COLUMN, nq) + _lanes(1, V_COLUMN, nv),
        lambda nq, nv: _lanes(0, Q_COLUMN, nq),
    )
    axes = ((lambda s: int(s.q_start[-1]),),)
    return LaneAlgorithm("integrate", parts, MEMORY, ("q", "v"), axes, gives=("configuration",))


@once
def difference_lanes() -> LaneAlgorithm:
    """From q0 and q1, the move between them."""
    parts = _parts(
        (lambda a, b: (b - a,), _ball_between, _free_between),
        lambda nq, nv: _lanes(0, Q_COLUMN, nq) + _lanes(1, Q_COLUMN, nq),
        lambda nq, nv: _lanes(0, V_COLUMN, nv),
    )
    return LaneAlgorithm("difference", parts, MEMORY, ("q", "q"), ((row_count,),), gives=("velocity",))


def _chosen(model: Model, dt: Any) -> tuple[LaneAlgorithm, float]:
    if not isinstance(dt, int | float):
        raise TypeError  # each state has its own time step: the ordinary path broadcasts it
    return serving(integrate_lanes(), model), float(dt)


def _for_a_time(model: Model, dtype: np.dtype, chosen: tuple[LaneAlgorithm, float]) -> Builtin | None:
    program, dt = chosen
    step = program.direct(model, dtype)
    if step is None or dt == 1.0:
        return step

    def call(q: Any, qd: Any) -> Any:
        if type(qd) is not np.ndarray or qd.dtype is not dtype:
            return None
        return step(q, qd * dt)

    return call


integrate = directly(_chosen, builtin=_for_a_time)(plain.integrate)
difference = directly(lambda model: serving(difference_lanes(), model))(plain.difference)
