"""Functions over lines of lanes that are not blocks of rows: quaternion joints, bodies, and the base.

A line is one joint or body for each lane of a vector. Each function takes one line in a turn, and carries no state.
"""

from typing import Any, NamedTuple

import jax

from kinetree.dynamics.recursion import Algorithm, Base, Bodies, Row, zeros
from kinetree.lanes import NOTHING
from kinetree.lanes.blocks.moves import FieldGroup
from kinetree.lanes.blocks.text import BlockWalk
from kinetree.lanes.walks.walk import Walk
from kinetree.model import Placement
from kinetree.model.coordinates import chained_acceleration, joint_pose
from kinetree.spatial import Quaternion, Transform, Vec3

from .stage_passes import in_array
from .stages import CellPlan

structure, leaves = jax.tree.structure, jax.tree.leaves
POSED, FRAME = structure(zeros(Placement)).num_leaves, structure(zeros(Transform)).num_leaves
TURNED, MOVED = 4, 3  # coordinates of a quaternion joint: its quaternion, and its position if it has one
RATES = 6  # velocities of a free joint


class PutGroup(NamedTuple):
    """Consecutive results of a cell that go to arrays with the same count of numbers for each row."""

    first: int
    given: tuple[tuple[int, int], ...]  # the number of a result's array, and of a scalar in it
    numbers: int


def put_groups(algorithm: Algorithm, names: tuple[str, ...]) -> list[PutGroup]:
    """The groups of some outputs of an algorithm."""
    order, found, first = list(algorithm.outputs), [], 0
    for name in names:
        count = structure(algorithm.outputs[name]).num_leaves
        given = tuple((order.index(name), k) for k in range(count))
        if found and found[-1].numbers == count == 1:
            found[-1] = found[-1]._replace(given=found[-1].given + given)
        else:
            found.append(PutGroup(first, given, count))
        first += count
    return found


def _lines(name: str, step: Any, streams: list[Any], gathered: int, widths: tuple[int, ...]) -> BlockWalk:
    """A function of the streams, one array each, and of gathered values; its results are arrays, too."""
    fields = tuple(f for a, s in enumerate(streams) for f in in_array(a, tuple(range(structure(s).num_leaves))))
    walk = Walk(
        name,
        lambda _, cell, given, exists: ((), step(cell, given)),
        NOTHING,
        structure(tuple(streams)),
        structure((0.0,) * gathered),
        NOTHING,
        fields,
        tuple(structure(s).num_leaves for s in streams),
    )
    results = tuple((array, k) for array, width in enumerate(widths) for k in range(width))
    return BlockWalk(walk, name, tuple(range(gathered)), gathered, results, widths)


def _posed(fixed: tuple, given: tuple) -> Placement:
    """The placement of the first row of a quaternion joint."""
    orientation, position = fixed[0]
    return joint_pose(orientation, position, Quaternion(*given[:TURNED]), Vec3(*given[TURNED:]))


def _shifts(_: tuple, given: tuple) -> tuple[Vec3, Vec3]:
    """The difference between the accelerations of a free joint and those of its rows."""
    return chained_acceleration(Vec3(*given[:3]), Vec3(*given[3:]))


def _bodies(algorithm: Algorithm, p: Bodies) -> BlockWalk:
    needed = Row({n: algorithm.fields[n] for n in p.needs})

    def step(cell: tuple, given: tuple) -> tuple:
        row = jax.tree.unflatten(structure(needed), given)
        return tuple(p.visit(Row(row | {"frame": cell[0]}), None)[1][n] for n in p.outputs)

    count = sum(structure(algorithm.outputs[n]).num_leaves for n in p.outputs)
    return _lines("bodies", step, [zeros(Transform)], structure(needed).num_leaves, (count,))


WORLD = {"gravity": zeros(Vec3), "mass": 0.0}


def _base(algorithm: Algorithm, k: int) -> BlockWalk:
    p = algorithm.passes[k]
    examples = [Row({n: algorithm.fields[n]}) for n in p.needs]

    def step(cell: tuple, _: tuple) -> tuple:
        world, *sums = cell
        row = Row({n: x for part in (world, *sums) for n, x in part.items()})
        found = p.visit(row, None)[1]
        return tuple(found[n] for n in (*p.leaves, *p.outputs))

    widths = tuple(structure(example_of(algorithm, n)).num_leaves for n in (*p.leaves, *p.outputs))
    return _lines(f"base{k}", step, [Row(WORLD), *examples], 0, widths)


def example_of(algorithm: Algorithm, name: str) -> Any:
    """An example of an output or a field."""
    return algorithm.outputs.get(name, algorithm.fields.get(name))


class AloneCode:
    """The functions of an algorithm over lines, and the moves that go with them."""

    def __init__(self, plan: CellPlan):
        algorithm = plan.algorithm
        self.walks: list[BlockWalk] = []
        self.taken: list[FieldGroup] = []
        self.put: list[FieldGroup] = []
        self.bodies = next((p for p in algorithm.passes if isinstance(p, Bodies)), None)
        if plan.quaternions:
            self.walks.append(_lines("joints", _posed, [zeros(Placement)], TURNED + MOVED, (POSED,)))
            self.taken += [FieldGroup(n, TURNED + MOVED) for n in (TURNED, MOVED)]
            self.put.append(FieldGroup(POSED, POSED))
            if any(map(plan.shifted, algorithm.passes)):
                self.walks.append(_lines("shifts", _shifts, [], RATES, (RATES,)))
                self.taken.append(FieldGroup(RATES // 2, RATES))
                self.put.append(FieldGroup(1, RATES))
        if self.bodies is not None:
            each = [structure(algorithm.fields[n]).num_leaves for n in self.bodies.needs]
            groups = put_groups(algorithm, self.bodies.outputs)
            self.walks.append(_bodies(algorithm, self.bodies))
            self.taken += [FieldGroup(n, sum(each)) for n in each]
            self.put += [FieldGroup(len(g.given), sum(len(x.given) for x in groups)) for g in groups]
        for k, p in enumerate(algorithm.passes):
            if isinstance(p, Base):
                self.walks.append(_base(algorithm, k))
            for name in () if isinstance(p, Bodies) else p.outputs if not p.stretch else ():
                count = structure(algorithm.outputs[name]).num_leaves
                self.put.append(FieldGroup(count, count))
