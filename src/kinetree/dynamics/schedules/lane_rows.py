"""Common parts of the lane programs of all algorithms: rows in lane memory, their placements, and tables over them.

An algorithm is a list of parts: a loop, its turns for a given tree, and the source of its constants. If every joint is
a screw, a row's placement is computed in the step that needs it. If there are quaternion joints, loops before the first
pass write all placements into slots: one over the rows with a coordinate, one over those at rest, and one each over the
first rows of free and of spherical joints.

Dynamics rotates many vectors at each row, and a matrix takes half the operations of a quaternion. But the matrix of a
row has the same rounding error in every state and every similar row, and along thousands of rows these errors add up
(see spatial/rotation.py). So deep mechanisms use quaternions, normalised at every row.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import NOTHING, Lane, Loop, Memory
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Axis, Model, Placement, Rows, Structure, place
from kinetree.model.coordinates import chained_acceleration, joint_pose
from kinetree.model.piecewise import PIECE
from kinetree.spatial import Inertia, Moments, Quaternion, Rotation, Sym3, Transform, Vec3
from kinetree.tree import pick

from ..recursion import Row
from . import tuning

ZERO3 = Vec3(0.0, 0.0, 0.0)
PLACEMENT = Placement(Quaternion(0.0, 0.0, 0.0, 0.0), ZERO3)
ROWS = jax.tree.structure(Rows(*PLACEMENT, 0.0, 0.0, Inertia(0.0, ZERO3, Sym3(*6 * (0.0,))), 0.0))
GRAVITY = jax.tree.structure(ZERO3)
HINGE = Axis(1.0, 0.0)


STRETCH = "stretch"  # the field with the stretch of a joint's spring

PARENT, OWN, V, Q = range(4)  # columns of a row table: first slots of parent and row, columns of qd and of q


Turns = tuple[np.ndarray, np.ndarray]  # the table, and the rows whose constants the turns take


def row_constants(model: Model, rows: np.ndarray) -> Rows:
    """Constants of these rows, in order."""
    chosen: Any = rows
    if len(rows) == model.tree.n >= PIECE:  # All rows of a long tree, outward or inward: no copies.
        orders = (slice(None), slice(None, None, -1))
        chosen = next((x for x in orders if np.array_equal(rows[x], np.arange(len(rows)))), rows)
    return pick(model.rows, chosen)


class DynamicRow(NamedTuple):
    """The constants of a row for dynamics."""

    frame: Placement | Transform  # in its parent's, at q = 0
    axis: Axis
    inertia: Any  # an Inertia, or its moments
    armature: Any
    damping: Any
    stiffness: Any

    @property
    def mass(self) -> Any:
        """The mass of the row's own body."""
        return self.inertia.mass


class Stroke(NamedTuple):
    """How far a row's screw has gone, in the form that its frame needs."""

    cos: Any
    sin: Any
    slide: Any


def stroke(row: Any, q: Any) -> Stroke:
    """How far a row's screw has gone at coordinate q."""
    angle = row.axis.turn * q
    if isinstance(row.frame, Placement):
        angle = 0.5 * angle
    return Stroke(jnp.cos(angle), jnp.sin(angle), row.axis.slide * q)


class RowForm(NamedTuple):
    """The form of the rows of a mechanism: with quaternions if it is deep, else with matrices."""

    deep: bool
    hinges: bool  # True if all joints are hinges without rotors, as in most arms: a tenth to a fifth less work.
    moments: bool = False  # True if bodies are moments of mass.
    accurate: bool = False  # True if rotations are quaternions at every depth, as the model has them.

    def known(self, row: Row) -> Row:
        """A row, with the axis and the armature that all rows have."""
        facts = {"axis": HINGE, "armature": 0.0} if self.hinges else {}
        return Row(row | {name: fact for name, fact in facts.items() if name in row})

    def parts_structure(self, names: tuple[str, ...]) -> Any:
        """The treedef of some parts of a link."""
        link = jax.tree.unflatten(self.structure, [0.0] * self.structure.num_leaves)
        return jax.tree.structure(Row({name: getattr(link, name) for name in names}))

    def parts_constants(self, names: tuple[str, ...]) -> Callable[[Model, np.ndarray], Row]:
        """Some parts of given links of a model."""

        def constants(model: Model, rows: np.ndarray) -> Row:
            link = self.constants(model, rows)
            return Row({name: getattr(link, name) for name in names})

        return constants

    @property
    def structure(self) -> Any:
        """The treedef of one."""
        frame = PLACEMENT if self.deep or self.accurate else Transform(Rotation(*9 * (0.0,)), ZERO3)
        body = (Moments if self.moments else Inertia)(0.0, ZERO3, Sym3(*6 * (0.0,)))
        return jax.tree.structure(DynamicRow(frame, Axis(0.0, 0.0), body, 0.0, 0.0, 0.0))

    def held(self, placed: Placement) -> Placement | Transform:
        """A placement in this form."""
        return placed if self.deep or self.accurate else placed.transform

    def constants(self, model: Model, rows: np.ndarray) -> DynamicRow:
        """The links of these rows, in order."""
        of = row_constants(model, rows)
        orientation = of.orientation if self.accurate else of.orientation.renormalized()  # no gradient by its length
        frame = self.held(Placement(orientation, of.position))
        none = np.zeros(len(rows))
        damping, stiffness = (none, none) if model.passive is None else (x[rows] for x in model.passive[:2])
        body = of.inertia.moments() if self.moments else of.inertia
        return DynamicRow(frame, of.axis, body, of.armature, damping, stiffness)


ACCURATE = RowForm(False, False, accurate=True)


class Traits(NamedTuple):
    """The facts that decide which program a mechanism uses."""

    quaternions: bool  # True if some joints have quaternions.
    deep: bool  # True if the tree is so deep that matrices would be less accurate.
    hinges: bool  # True if all joints are known to be hinges without rotors.
    dampers: bool = False  # True if some joints may have dampers.
    springs: bool = False
    roots: bool = False  # True if all quaternion joints are free joints on the base; each is then one turn.
    limbs: bool = False  # True if all other rows are hinges, and no joint has a rotor.

    @property
    def rows(self) -> "Traits":
        """The kind whose programs do the rows of roots one by one."""
        return self._replace(quaternions=self.quaternions or self.roots, roots=False, limbs=False)


_kinds: OncePerOwner[Traits] = OncePerOwner()


def kind_of(model: Model) -> Traits:
    """The kind of a mechanism, found once."""

    def find() -> Traits:
        structure, (turn, slide, armature) = model.structure, (model.rows.turn, model.rows.slide, model.rows.armature)
        plain = all(isinstance(x, np.ndarray) for x in (turn, slide, armature))
        hinge = (turn == 1) & (slide == 0) & (armature == 0) if plain else np.zeros(1, bool)
        roots = has_roots(structure)
        limbs = roots and plain and bool(np.all(hinge | ((structure.q_of_row < 0) & (armature == 0))))
        passive = ((), ()) if model.passive is None else model.passive[:2]
        return Traits(
            structure.has_quaternions and not roots,
            structure.tree.height >= tuning.DEEP_MIN_LEVELS,
            bool(np.all(hinge)),
            *map(some_are_not_zero, passive),
            roots=roots,
            limbs=limbs,
        )

    return _kinds.get(model, None, find)


def has_roots(structure: Structure) -> bool:
    """True if all quaternion joints are free ones that hang from the base."""
    free = joints_with(structure, 1)
    return 0 < len(free) == len(structure.quaternion_joints) and bool(np.all(structure.tree.parent[free[:, 0]] < 0))


def some_are_not_zero(x: Any) -> bool:
    """False if all numbers are known to be zero."""
    return not isinstance(x, np.ndarray | tuple) or bool(np.any(x))


def base_gravity(model: Model, rows: np.ndarray) -> Vec3:
    """Gravity, for the one turn that fills the base."""
    return Vec3(*(model.gravity[k : k + 1] for k in range(3)))


class RowPart(NamedTuple):
    """A loop, its turns for a given tree, and its constants for a given model."""

    loop: Loop
    turns: Callable[..., Any]  # (structure, and the body that the call is about, if any) -> turns, or only a table
    constants: Callable[[Model, np.ndarray], Any] = lambda model, rows: ()
    of_coupling: bool = False  # True if turns are of a structure with its coupling.


def q_columns(structure: Structure) -> np.ndarray:
    """The first column of q of each row, also for the first rows of quaternion joints; else −1."""
    columns = np.array(structure.q_of_row)
    columns[structure.quaternion_joints[:, 0]] = structure.quaternion_joints[:, 1]
    return columns


def row_turns(memory: Memory, inward: bool = False, choose: Callable[[Structure], Any] | None = None) -> Any:
    """Turns over the rows, outward or inward: all of them, or those that `choose` lists."""

    def turns(structure: Structure) -> Turns:
        rows = np.arange(structure.tree.n) if choose is None else choose(structure)
        rows = rows[::-1] if inward else rows
        slots = memory.base(structure.tree.parent[rows]), memory.base(rows)
        return np.stack([*slots, rows, np.maximum(q_columns(structure)[rows], 0)], -1), rows

    return turns


def base_turn(memory: Memory) -> Any:
    """One turn, on the base."""
    table = np.array([[memory.base(-1), memory.base(-1), 0, 0]], np.int32)
    return lambda structure, *_: (table, np.zeros(1, np.int64))


def joints_with(structure: Structure, with_position: int) -> np.ndarray:
    joints = structure.quaternion_joints
    return joints[joints[:, 2] == with_position]


def with_coordinates(structure: Structure) -> np.ndarray:
    """The rows that have a coordinate: those of all joints but quaternion joints."""
    return np.flatnonzero(structure.q_of_row >= 0)


def joint_turns(memory: Memory, with_position: int) -> Any:
    """Turns over the first rows of free joints, or of spherical ones."""
    return row_turns(memory, choose=lambda structure: joints_with(structure, with_position)[:, 0])


def placing_parts(memory: Memory) -> list[RowPart]:
    """Parts that write the field `placed` of every row, for models with quaternion joints."""
    placed = (memory.at(OWN, "placed"),)

    def part(step: Any, count: int, turns: Any) -> RowPart:
        inputs = tuple(Lane(0, Q, k) for k in range(count))
        return RowPart(Loop(step, 4, ROWS, writes=placed, inputs=inputs), turns, row_constants)

    def at_rest(structure: Structure) -> np.ndarray:
        return np.flatnonzero(q_columns(structure) < 0)

    def moving(row: Rows, q: tuple, _: tuple) -> tuple:
        return (place(row.orientation, row.position, row.axis, *q),), (), ()

    def resting(row: Rows, _: tuple, __: tuple) -> tuple:
        return (Placement(row.orientation, row.position),), (), ()

    def free(row: Rows, q: tuple, _: tuple) -> tuple:
        return (joint_pose(row.orientation, row.position, Quaternion(*q[3:]), Vec3(*q[:3])),), (), ()

    def ball(row: Rows, q: tuple, _: tuple) -> tuple:
        return (joint_pose(row.orientation, row.position, Quaternion(*q), Vec3.zero_like(q[0])),), (), ()

    return [
        part(moving, 1, row_turns(memory, choose=with_coordinates)),
        part(resting, 0, row_turns(memory, choose=at_rest)),
        part(free, 7, joint_turns(memory, 1)),
        part(ball, 4, joint_turns(memory, 0)),
    ]


def shift_parts(memory: Memory, qd_array: int) -> list[RowPart]:
    """Parts that write the field `shift` of every row: the acceleration of a joint minus that of its row."""
    own = memory.at(OWN, "shift")

    def none(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (0.0,), (), ()

    def of_joints(width: int) -> RowPart:
        def step(_: tuple, u: tuple, __: tuple) -> tuple:
            linear = Vec3(*u[3:]) if width == 6 else Vec3.zero_like(u[0])
            turning, sliding = chained_acceleration(Vec3(*u[:3]), linear)
            return (*turning, *sliding)[:width], (), ()

        writes = tuple(own._replace(offset=own.offset + k * memory.size) for k in range(width))
        loop = Loop(step, 4, NOTHING, writes=writes, inputs=tuple(Lane(qd_array, V, k) for k in range(width)))
        return RowPart(loop, joint_turns(memory, width // 6))

    others = row_turns(memory, choose=with_coordinates)
    return [RowPart(Loop(none, 4, NOTHING, writes=(own,)), others), of_joints(6), of_joints(3)]
