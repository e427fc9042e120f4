"""Derivatives of inverse dynamics in closed form, as lane programs: ∂τ/∂q, ∂τ/∂qd and H, all at once, in O(n · depth).

There is one loop outward, one inward, and one over the pairs of a row and a row that it carries, where a derivative
costs one or two dot products (terms.py). The rows of a quaternion joint move together: their rates are those of the
joint's axes in its parent, so there is no shift of accelerations (model/coordinates.py) to differentiate.

Each entry is an output. In two cases entries are first gathered in slots (columns.py): if joints follow others, because
several entries, each times the ratios of its rows, add up (Gᵀ X G); and for forward dynamics, which solves with the
matrices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import NOTHING, NUMBER, Lane, Loop, Memory, Slots, slot
from kinetree.lanes.kept.once import once
from kinetree.model import Model
from kinetree.spatial import Force, Inertia, Mat3, Motion, Sym3, Vec3

from ..elements.articulated import base_acceleration, own_bias
from ..recursion import Row
from ..schedules.lane_algorithm import LaneAlgorithm
from ..schedules.lane_parts import unrelated, zero_parts
from ..schedules.lane_rows import (
    OWN,
    PARENT,
    PLACEMENT,
    ZERO3,
    Q,
    RowPart,
    Turns,
    V,
    placing_parts,
    row_turns,
)
from . import columns, sweeps
from .links import (
    SlopeJoint,
    base_part,
    joint_constants,
    link_constants,
    link_structure,
    pair_ratios,
    placed_at,
    world_axis,
)
from .shape import Skeleton
from .terms import Axes, Entries, RowTerms, VelocityProduct, pair_entries, row_terms

Q_IN, QD_IN, QDD_IN, F_IN = range(4)
JOINT, LAST, PLACE, PACKED = range(4, 8)  # more columns of a row table: slots of v_p, of v; places of the diagonal
ANCESTOR, ROW, ENTRY, MIRROR, PACKED_ENTRY = range(5)  # columns of a pair table: slots of both rows, places of entries
INERTIA = Inertia(0.0, ZERO3, Sym3(*6 * (0.0,)))
MOTION, FORCE = Motion(ZERO3, ZERO3), Force(ZERO3, ZERO3)


class SlopeVariant(NamedTuple):
    """The variant of a program: its kind of mechanism, and its function."""

    quaternions: bool
    external: bool = False  # True if forces act on bodies.
    coupled: bool = False  # True if joints follow others.
    forward: bool = False  # True for derivatives of forward dynamics.
    sweeps: bool = False  # True to solve by sweeps (sweeps.py), not by factors of H (columns.py).

    @property
    def gathered(self) -> bool:
        """True if entries go to slots first."""
        return self.coupled or self.forward


def program_of(model: Model, external: bool = False, forward: bool = False) -> LaneAlgorithm:
    """The program that serves a model."""
    by_sweeps = forward and sweeps.sweeps_are_faster(Skeleton.of(model))
    return program(
        SlopeVariant(model.structure.has_quaternions, external, model.coupling is not None, forward, by_sweeps)
    )


def _size(shape: Skeleton) -> int:
    return shape.size


@once
def program(variant: SlopeVariant) -> LaneAlgorithm:
    """q, qd, qdd, and forces on bodies, to three matrices of nv² columns: see the module, and columns.py."""
    writer = SlopeWriter(variant)
    marks = [name for name, on in variant._asdict().items() if on]
    return LaneAlgorithm(
        "_".join(["rnea_derivatives", *marks]),
        writer.parts(),
        writer.memory,
        ("q", "v", "v", *(("f_ext",) * variant.external)),
        ((_size, _size),) * 3,
        reversible=not variant.forward,  # factors overwrite H
        shape=Skeleton.of,
        slots=lambda shape: writer.region(shape).end if variant.gathered else writer.rows_end(shape),
    )


class SlopeWriter:
    """Writes the parts of one program."""

    def __init__(self, variant: SlopeVariant):
        self.variant = variant
        fields: dict[str, Any] = {"pose": PLACEMENT, "v": MOTION, "a": MOTION, "S": MOTION, "turning": ZERO3}
        fields |= {"moving": ZERO3, "second": MOTION, "I": INERTIA}  # ψ̇ is (turning, moving).
        fields |= {
            "B": VelocityProduct(Mat3(*9 * (0.0,)), ZERO3),
            "f": FORCE,
            "owed": RowTerms(FORCE, FORCE, ZERO3, FORCE),
        }
        fields |= {"placed": PLACEMENT, "both": MOTION} if variant.quaternions else {}
        fields |= {"applied": FORCE, "pulled": FORCE} if variant.external else {}
        fields |= sweeps.FIELDS if variant.sweeps else {}
        self.memory = Memory(**fields)
        self.applied = ("applied",) if variant.external else ()
        self.pulled = ("pulled",) if variant.external else ()

    def parts(self) -> list[RowPart]:
        """All loops, in order."""
        variant = self.variant
        parts = self.placing() if variant.quaternions else []
        if variant.sweeps:
            parts = sweeps.prepare(self.region) + parts
        elif variant.gathered:
            parts = columns.prepare(self.region, variant) + parts
        parts += [self.base(), self.outward()]
        parts += [self.forces()] if variant.external else []
        parts += [self.inward(), self.pairs()]
        parts += [self.within()] if variant.quaternions else []
        parts += [self.coupled_pairs()] if variant.coupled else []
        if variant.sweeps:
            return parts + sweeps.solve(self.region, self.memory)
        parts += columns.solve(self.region) if variant.forward else []
        if variant.gathered:
            return parts + columns.store(self.region)
        return parts + zero_parts(lambda shape: unrelated(shape.structure), (0, 1, 2))

    def at(self, column: int, *names: str) -> tuple[Slots, ...]:
        """The slots of some fields of the row in this column of the table."""
        return tuple(self.memory.at(column, name) for name in names)

    def rows_end(self, shape: Skeleton) -> int:
        """The first slot after those of the rows."""
        return self.memory.size * (shape.rows + 1)

    def region(self, shape: Skeleton) -> Any:
        """The slots where matrices are gathered: a region of columns.py, or of sweeps.py."""
        start = self.rows_end(shape)
        if self.variant.sweeps:
            return sweeps.SweepRegion(shape, start)
        return columns.ColumnRegion(shape, start, self.variant.forward)

    # -- tables -------------------------------------------------------------------------------------------------------

    def of_shape(self, turns: Callable[..., Turns]) -> Callable[[Skeleton], Turns]:
        """Turns over rows, with the columns of q and qd of their coordinates, or of those that these follow."""

        def changed(shape: Skeleton) -> Turns:
            table, rows = turns(shape.structure)
            table[:, Q], table[:, V] = shape.q_column(table[:, Q]), shape.v_column(table[:, V])
            return table, rows

        return changed

    def row_table(self, inward: bool) -> Callable[[Skeleton], Turns]:
        """Turns over all rows, with the slots of their joints, and the places of the diagonal."""

        def turns(shape: Skeleton) -> Turns:
            table, rows = self.of_shape(row_turns(self.memory, inward))(shape)
            joint = self.memory.base(shape.structure.tree.parent[shape.joint_of_row[rows]])
            last = self.memory.base(shape.last_of_row[rows])
            more = [joint, last, *self.places(shape, rows, rows)]
            return np.concatenate([table, np.stack(more, -1)], 1), rows

        return turns

    def places(self, shape: Skeleton, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, ...]:
        """The places of the entries of rows i and j: in three matrices, and in packed H."""
        i, j = shape.v_column(i), shape.v_column(j)
        if not self.variant.gathered:
            return i * shape.size + j, 0 * i
        region = self.region(shape)
        return region.entry(i, j), 0 * i if self.variant.sweeps else region.packed + shape.packed(i, j)

    def pair_table(
        self, chosen: Callable[[Skeleton, np.ndarray, np.ndarray], np.ndarray]
    ) -> Callable[[Skeleton], Turns]:
        """Turns over some of the pairs. The constants of a turn are the ratios of both rows."""

        def turns(shape: Skeleton) -> Turns:
            i, j = shape.pairs
            some = chosen(shape, i, j)
            i, j = i[some], j[some]
            entry, packed = self.places(shape, i, j)
            table = [self.memory.base(i), self.memory.base(j), entry, self.places(shape, j, i)[0], packed]
            return np.stack(table, -1), i * shape.rows + j

        return turns

    # -- passes over the rows -----------------------------------------------------------------------------------------

    def placing(self) -> list[RowPart]:
        """The placements of all rows, if there are quaternion joints."""
        parts = [part._replace(turns=self.of_shape(part.turns)) for part in placing_parts(self.memory)]
        if not self.variant.coupled:
            return parts
        moving, own = parts[0], self.at(OWN, "placed")
        names = ("frame", "axis")

        def step(link: Row, q: tuple, _: tuple) -> tuple:
            return (placed_at(link, link.ratio * q[0] + link.offset),), (), ()

        loop = Loop(step, 4, link_structure(names, True), writes=own, inputs=(Lane(Q_IN, Q),))
        return [RowPart(loop, moving.turns, link_constants(names)), *parts[1:]]

    def base(self) -> RowPart:
        """The state of the base, with gravity as an upward acceleration."""

        def begins(gravity: Vec3) -> dict[str, Any]:
            s = gravity.x
            rest, nothing = Motion.zero_like(s), Inertia.zero_like(s)
            found = {"v": rest, "a": base_acceleration(gravity), "I": nothing, "B": VelocityProduct.of(nothing, rest)}
            found |= {"whole": nothing.articulated()} if self.variant.sweeps else {}
            return found | {name: Force.zero_like(s) for name in ("f", *self.applied)}

        return base_part(self.memory, self.variant.quaternions, begins)

    def outward(self) -> RowPart:
        """Placements, velocities, accelerations, and the terms of each body."""
        quaternions, coupled = self.variant.quaternions, self.variant.coupled
        reads = self.at(PARENT, "pose", "v", "a")
        reads += self.at(OWN, "placed") + self.at(JOINT, "v", "a") if quaternions else ()
        inputs = (Lane(QD_IN, V), Lane(QDD_IN, V), *(() if quaternions else (Lane(Q_IN, Q),)))
        names = ("axis", "inertia", *(() if quaternions else ("frame",)))

        def step(link: Row, given: tuple, reads: tuple) -> tuple:
            qd, qdd = (link.ratio * x if coupled else x for x in given[:2])
            pose, v, a = reads[:3]
            if quaternions:
                placed, v_joint, a_joint = reads[3:]
            else:
                q = link.ratio * given[2] + link.offset if coupled else given[2]
                placed, v_joint, a_joint = placed_at(link, q), v, a
            pose = placed @ pose
            S = world_axis(pose, link.axis)
            rate = v_joint.cross(S)
            second = a_joint.cross(S) + v_joint.cross(rate)
            v = v + S * qd
            a = a + S * qdd + rate * qd
            I: Inertia = pose.transform.inertia_to_parent(link.inertia)
            f = I @ a + own_bias(I, v)
            more: list[Any] = [Force.zero_like(qd) for _ in self.applied]
            more += [I.articulated()] if self.variant.sweeps else []
            return (pose, v, a, S, *rate, second, I, VelocityProduct.of(I, v), f, *more), (), ()

        fields = ("pose", "v", "a", "S", "turning", "moving", "second", "I", "B", "f", *self.applied)
        fields += ("whole",) if self.variant.sweeps else ()
        structure = link_structure(names, coupled)
        loop = Loop(step, 8, structure, reads, self.at(OWN, *fields), inputs=inputs)
        return RowPart(loop, self.row_table(False), link_constants(names))

    def forces(self) -> RowPart:
        """Forces on bodies, moved from the world's origin to that of the program."""

        def turns(shape: Skeleton) -> np.ndarray:
            of_body = shape.structure.row_of_body
            bodies = np.flatnonzero(of_body >= 0)
            table = [self.memory.base(-1) + 0 * bodies, self.memory.base(of_body[bodies]), 6 * bodies]
            return np.stack(table, -1)

        def step(_: tuple, f: tuple, reads: tuple) -> tuple:
            moment, force = Vec3(*f[:3]), Vec3(*f[3:])
            return (), (Force(moment + reads[0].position.cross(force), force),), ()

        inputs = tuple(Lane(F_IN, V, k) for k in range(6))
        loop = Loop(step, 3, NOTHING, self.at(PARENT, "pose"), adds=self.at(OWN, "applied"), inputs=inputs)
        return RowPart(loop, turns)

    def inward(self) -> RowPart:
        """Composites, the terms of each row for pairs, and the diagonals."""
        quaternions = self.variant.quaternions
        reads = self.at(OWN, "S", "turning", "moving", "second", "I", "B", "f", *self.applied)
        reads += self.at(LAST, "v") if quaternions else ()
        both = ("both",) if quaternions else ()
        example = SlopeJoint(0.0, 0.0, 0.0, 0.0 if self.variant.coupled else None)

        def step(joint: SlopeJoint, _: tuple, reads: tuple) -> tuple:
            S, turning, moving, second, I, B, f = reads[:7]
            rate = Motion(turning, moving)
            sum_of_rates = rate + reads[-1].cross(S) if quaternions else rate * 2.0
            own = row_terms(S, rate, second, sum_of_rates, (I, B, f))
            by_q, by_qd = S.dot(own.by_q) + joint.stiffness, S.dot(own.by_qd) + joint.damping
            H = S.dot(own.momentum) + joint.armature
            pulled = [S.cross_force(g) for g in reads[7 : 7 + len(self.applied)]]
            writes = (own, *([sum_of_rates] if quaternions else []), *pulled)
            passed = (I, B, f, *reads[7 : 7 + len(self.applied)])
            ratio = None if joint.ratio is None else joint.ratio * joint.ratio
            return self.put(writes, passed, (by_q, by_qd, H), ratio)

        writes, adds, outputs = self.entry_places((PLACE,), PACKED)
        loop = Loop(
            step,
            8,
            jax.tree.structure(example),
            reads,
            self.at(OWN, "owed", *both, *self.pulled) + writes,
            self.at(PARENT, "I", "B", "f", *self.applied) + adds,
            outputs=outputs,
        )
        return RowPart(loop, self.row_table(True), joint_constants)

    # -- entries ------------------------------------------------------------------------------------------------------

    def entry_places(self, entries: tuple[int, ...], packed: int) -> tuple[tuple, tuple, tuple]:
        """Places of results, of each of the three matrices at these columns of the table: writes, adds, outputs."""
        if not self.variant.gathered:
            return (), (), tuple(Lane(array, column) for array in range(3) for column in entries)
        count = 2 if self.variant.forward else 3
        slots = tuple(Slots(column, 0, jax.tree.structure((0.0,) * count)) for column in entries)
        slots += (slot(packed),) if self.variant.forward and not self.variant.sweeps else ()
        return ((), slots, ()) if self.variant.coupled else (slots, (), ())

    def put(self, writes: tuple, adds: tuple, entries: tuple, ratio: Any) -> tuple:
        """The results of a step: entries (by_q, by_qd, H), or both sides of the diagonal of each, at their places."""
        if not self.variant.gathered:
            return writes, adds, entries
        sides = len(entries) // 3
        if ratio is not None:
            entries = tuple(x * ratio for x in entries)
        by_q, by_qd, H = (entries[k * sides : (k + 1) * sides] for k in range(3))
        if self.variant.forward:  # The equation is H ∂qdd/∂q = −∂τ/∂q.
            groups = tuple((-x, -y) for x, y in zip(by_q, by_qd, strict=True))
            groups += () if self.variant.sweeps else (H[0],)
        else:
            groups = tuple(zip(by_q, by_qd, H, strict=True))
        return (writes, adds + groups, ()) if self.variant.coupled else (writes + groups, adds, ())

    def axes_slots(self) -> tuple[Slots, ...]:
        """The slots that a pair reads of the row that carries the other."""
        return self.at(ANCESTOR, "S", "turning", "second", "both" if self.variant.quaternions else "moving")

    def axes(self, reads: tuple) -> Axes:
        """The axes of that row, as read."""
        S, turning, second, last = reads[:4]
        return Axes(S, turning, second, last if self.variant.quaternions else Motion(turning, last) * 2.0)

    def pair_part(
        self, read: tuple, entries: Callable[[tuple], Entries], chosen: Any, entry: tuple = (ENTRY, MIRROR)
    ) -> RowPart:
        """A loop over pairs."""
        coupled = self.variant.coupled

        def step(ratio: Any, _: tuple, reads: tuple) -> tuple:
            e = entries(reads)
            both_sides = (e.by_q, e.back_q, e.by_qd, e.back_qd, e.H, e.H)
            if len(entry) == 1:  # one entry gets both sides
                both_sides = (e.by_q + e.back_q, e.by_qd + e.back_qd, 2.0 * e.H)
            return self.put((), (), both_sides, ratio if coupled else None)

        writes, adds, outputs = self.entry_places(entry, PACKED_ENTRY)
        loop = Loop(step, 5, NUMBER if coupled else NOTHING, read, writes, adds, outputs=outputs)
        part = RowPart(loop, self.pair_table(chosen))
        return part._replace(constants=pair_ratios) if coupled else part

    def apart(self, shape: Skeleton, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Pairs of different joints, which follow different ones."""
        return (shape.joint_of_row[i] != shape.joint_of_row[j]) & (shape.v_column(i) != shape.v_column(j))

    def pairs(self) -> RowPart:
        """Entries of two rows, one of which carries the other."""
        reads = self.axes_slots() + self.at(ROW, "owed", *self.pulled)
        return self.pair_part(reads, lambda r: pair_entries(self.axes(r), *r[4:]), self.apart)

    def within(self) -> RowPart:
        """Entries of two axes of one joint, which turn together."""
        reads = self.axes_slots() + self.at(ROW, "owed", *self.pulled, "S", "f", *self.applied)

        def entries(reads: tuple) -> Entries:
            rest = reads[4:]
            found = pair_entries(self.axes(reads), *rest[: 1 + len(self.pulled)])
            S, f, *g = rest[1 + len(self.pulled) :]
            turned = S.cross_force(f - g[0] if g else f)
            return found._replace(by_q=found.by_q - reads[0].dot(turned))

        return self.pair_part(reads, entries, lambda s, i, j: s.joint_of_row[i] == s.joint_of_row[j])

    def coupled_pairs(self) -> RowPart:
        """Entries of two rows that follow the same joint."""
        reads = self.axes_slots() + self.at(ROW, "owed", *self.pulled)
        return self.pair_part(
            reads,
            lambda r: pair_entries(self.axes(r), *r[4:]),
            lambda s, i, j: s.v_column(i) == s.v_column(j),
            (ENTRY,),
        )
