"""Lane programs from passes: a lane holds one state, and walks the rows in order.

Each pass becomes one loop over the rows. Its state, and the fields that it leaves, are in the slots of the row. The
schedule adds what passes leave out:

- placements: a row's placement is computed in the pass that places it, and kept in the algorithm's form. Quaternion
  joints are placed by loops of their own before the first pass;
- rotors, dampers, springs and the shift of quaternion joints (lane_visits.py, joint_terms.py);
- free joints that hang from the base: six rows in one turn (lane_roots.py);
- forces on bodies: poses of the rows, then a loop over the bodies;
- facts about all rows: a mechanism of hinges without rotors needs neither axes nor armatures.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from kinetree.dynamics.algorithms.poses import to_row
from kinetree.dynamics.joint_terms import JOINT_QUANTITIES
from kinetree.dynamics.recursion import (
    AT,
    Algorithm,
    Ancestors,
    Base,
    Bodies,
    Inward,
    OneBody,
    Outward,
    Pass,
    Row,
    Total,
)
from kinetree.lanes import NOTHING, Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Model, Placement, Structure
from kinetree.spatial import Force, Rotation, Transform, Vec3

from .lane_algorithm import LaneAlgorithm
from .lane_coupling import serving
from .lane_parts import (
    PLACED,
    base_parts,
    body_parts,
    column_count,
    matrix_places,
    on_the_way,
    pose_parts,
    row_outputs,
    stretch_parts,
    total_parts,
    unrelated,
    with_columns,
    zero_parts,
)
from .lane_root_pairs import RootPairs, root_rows
from .lane_roots import Roots
from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    STRETCH,
    ZERO3,
    Q,
    RowForm,
    RowPart,
    Stroke,
    Traits,
    Turns,
    V,
    base_gravity,
    base_turn,
    kind_of,
    placing_parts,
    row_turns,
    shift_parts,
    stroke,
    with_coordinates,
)
from .lane_visits import Fields, Visits, output_axes

KEPT = {"screw": Stroke(0.0, 0.0, 0.0), "transform": Transform(Rotation(*9 * (0.0,)), ZERO3)}
SHIFT, WORLD_POSE = "shift", "world_pose"  # fields that no pass names
BELOW, START, ENTRY, MIRROR = range(4)  # Columns of a table of ancestor pairs (i, j).


class Variant(NamedTuple):
    """The variant of an algorithm's program: its kind of mechanism, with or without forces on bodies."""

    kind: Traits
    external: bool = False
    packed: bool = False  # A matrix over pairs is packed on the ancestor pairs, or dense.


class Writer:
    """Writes the parts of one program."""

    def __init__(self, algorithm: Algorithm, variant: Variant):
        self.algorithm, self.variant = algorithm, variant
        kind = variant.kind
        self.quaternions = kind.quaternions
        self.springs = kind.springs
        self.links = RowForm(kind.deep, kind.hinges or kind.limbs, algorithm.moments, algorithm.accurate)
        named = set(algorithm.inputs) | set(algorithm.outputs)
        shifts = "qd" not in algorithm.resting and not named.isdisjoint(JOINT_QUANTITIES)
        self.shifts = self.quaternions and shifts
        # the placements of quaternion joints are kept for all passes, also if only screws would be kept
        as_placed = self.quaternions and algorithm.keeps == "screw"
        self.keeps = algorithm.keeps_placements and not as_placed
        examples = dict(algorithm.fields)
        examples |= {PLACED: PLACEMENT} if self.quaternions else {}
        examples |= {AT: KEPT[algorithm.keeps]} if self.keeps else {}
        examples |= {SHIFT: 0.0} if self.shifts else {}
        examples |= {STRETCH: 0.0} if self.springs else {}
        examples |= {WORLD_POSE: PLACEMENT} if variant.external else {}
        split = algorithm.applied[0] if variant.external and len(algorithm.applied) > 1 else ""
        self.fields = Fields(examples, split)
        self.roots = Roots(algorithm, kind, self.links, self.fields, shifts) if kind.roots else None

    @property
    def memory(self) -> Memory:
        """How the slots of a row are divided."""
        return self.fields.memory

    def parts(self) -> list[RowPart]:
        """All loops, in order."""
        alg, at = self.algorithm, self.fields.at
        parts = placing_parts(self.memory) if self.quaternions else []
        parts += shift_parts(self.memory, alg.inputs.index("qd")) if self.shifts else []
        parts += stretch_parts(self.memory, self.quaternions or self.roots is not None) if self.springs else []
        # only the names, found without XLA, which a forked process can not use
        flowing = tuple(jax.eval_shape(alg.base, Vec3(*3 * (jax.ShapeDtypeStruct((), np.float32),))))

        def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
            return self.fields.spread(flowing, alg.base(gravity)), (), ()

        parts.append(RowPart(Loop(base, 4, GRAVITY, writes=at(OWN, *flowing)), base_turn(self.memory), base_gravity))
        writers: dict[type, Callable[[Pass], list[RowPart]]] = {
            Outward: self.over_rows,
            Inward: self.over_rows,
            Ancestors: self.over_ancestors,
            Total: partial(total_parts, alg, self.fields, self.roots is not None),
            Bodies: partial(body_parts, alg, self.fields),
            Base: partial(base_parts, alg, self.fields),
            OneBody: partial(body_parts, alg, self.fields),
        }
        for p in alg.all_passes:
            parts += writers[type(p)](p)
            if self.variant.external and alg.applied[0] in (x.state for x in alg.shares_after(p)):
                parts += self.applied_forces()
        return [on_the_way(part) for part in parts] if alg.about_body else parts

    # -- passes over the rows -----------------------------------------------------------------------------------------

    def over_rows(self, p: Pass) -> list[RowPart]:
        """The loops of an outward or inward pass: over root joints, and over all other rows."""
        alg, fields, inward = self.algorithm, self.fields, isinstance(p, Inward)
        screws = not self.quaternions
        again = AT in p.needs and screws and alg.keeps == "screw"  # the transform is computed again
        keeps = p.places and self.keeps and p is alg.all_passes[0]
        visits = Visits(alg, self.variant.kind, p, self.shifts)
        given = tuple(dict.fromkeys((*(("q",) if p.places and screws else ()), *visits.given)))
        frame = ("frame", "axis") if p.places and screws else ("frame",) if again else ()
        link = tuple(dict.fromkeys((*frame, *visits.link)))
        state = (p.state,) if p.state else ()
        own = tuple(n for n in p.needs if n not in (AT, STRETCH))
        own += (AT,) if AT in p.needs and self.keeps else ()
        own += (PLACED,) if self.quaternions and (p.places or (AT in p.needs and not self.keeps)) else ()
        own += ((SHIFT,) if visits.shifted else ()) + ((STRETCH,) if visits.sprung else ())
        left = p.leaves + tuple(x.state for x in visits.shares) + ((AT,) if keeps else ())

        def step(known: Row, inputs: tuple, reads: tuple) -> tuple:
            slots = list(reads)
            whole = fields.taken(state, slots).get(p.state)
            row = Row({**self.links.known(known), **dict(zip(given, inputs, strict=True)), **fields.taken(own, slots)})
            row |= visits.at_rest((known, reads))
            screw = self.place(row, p)
            new, found = visits(row, whole)
            found |= visits.own_shares(row, new, found)
            found[AT] = screw if alg.keeps == "screw" else row.get(AT)
            passed = fields.spread(state, {p.state: new})
            kept = fields.spread(left, found)
            results = tuple(x for n in p.outputs for x in jax.tree.leaves(found[n]))
            return (kept, passed, results) if inward else (passed + kept, (), results)

        columns = column_count(alg, p)
        loop = Loop(
            step,
            4 + columns,
            self.links.parts_structure(link),
            reads=fields.at(OWN if inward else PARENT, *state) + fields.at(OWN, *own),
            writes=fields.at(OWN, *(() if inward else state), *left),
            adds=fields.at(PARENT, *state) if inward else (),
            inputs=tuple(Lane(alg.inputs.index(n), Q if n == "q" else V) for n in given),
            outputs=row_outputs(alg, p),
        )
        turns = row_turns(self.memory, inward, with_coordinates if self.roots else None)
        if alg.matrix in p.outputs:
            turns = self.with_diagonal(turns)
        parts = [RowPart(loop, with_columns(turns, columns), self.links.parts_constants(link))]
        if self.roots:
            of_roots = self.root_pairs.among_roots if alg.matrix in p.outputs else self.roots.part
            parts.insert(len(parts) if inward else 0, of_roots(p))
        return parts

    @property
    def root_pairs(self) -> RootPairs:
        """The writer of the entries of root joints."""
        return RootPairs(self.algorithm, self.links, self.fields, self.variant.packed)

    def place(self, row: Row, p: Pass) -> Stroke | None:
        """Compute `row.at`. Return the stroke of the screw if only that is kept."""
        turning, keeps = self.links.held, self.algorithm.keeps
        if self.quaternions and PLACED in row:
            row[AT] = row.placed.transform if keeps == "transform" and self.keeps else turning(row.placed)
        elif p.places:
            screw = stroke(row, row.q)
            row[AT] = row.frame.screwed(*screw)
            if keeps == "transform" and self.keeps and isinstance(row.at, Placement):
                row[AT] = row.at.transform
            return screw
        elif AT in p.needs and keeps == "screw":
            row[AT] = row.frame.screwed(*row.at)
        return None

    # -- other passes -------------------------------------------------------------------------------------------------

    def over_ancestors(self, p: Pass) -> list[RowPart]:
        """A loop over the strict ancestor pairs (i, j), j from the parent of i up; then the zeros of a dense matrix."""
        fields, packed = self.fields, self.variant.packed
        names = tuple(p.needs)
        array = list(self.algorithm.outputs).index(self.algorithm.matrix)
        places = (Lane(array, ENTRY),) if packed else (Lane(array, ENTRY), Lane(array, MIRROR))

        def step(known: Row, _: tuple, reads: tuple) -> tuple:
            slots = list(reads)
            row = Row({**self.links.known(known), **fields.taken(names, slots)})
            state, found = p.visit(row, fields.taken((p.state,), slots)[p.state])
            (entry,) = (found[n] for n in p.outputs)
            return fields.spread((p.state,), {p.state: state}), (), (entry,) * len(places)

        def turns(structure: Structure) -> Turns:
            tree = structure.tree
            i, j = tree.ancestor_pairs
            strict = np.flatnonzero((i != j) & ~root_rows(structure)[j] if self.roots else i != j)
            entry, mirror = matrix_places(tree, packed)
            # the pair before a strict pair has the same row and the next ancestor below
            below = self.memory.base(j[strict - 1])
            columns = [below, self.memory.base(i[strict]), entry[strict], mirror[strict]]
            return np.stack(columns, -1), j[strict]

        carried = fields.at(START, p.state)
        loop = Loop(
            step,
            4,
            self.links.parts_structure(p.link),
            reads=fields.at(BELOW, *names) + carried,
            writes=carried,
            outputs=places,
        )
        parts = [RowPart(loop, turns, self.links.parts_constants(p.link))]
        if self.roots:
            parts.append(self.root_pairs.with_limbs())
        if not packed:
            parts += zero_parts(unrelated, (array,))
        return parts

    def with_diagonal(self, turns: Callable[[Structure], Turns]) -> Callable[[Structure], Turns]:
        """Turns over the rows whose column Q is the place of the row's diagonal entry."""

        def changed(structure: Structure) -> Turns:
            table, rows = turns(structure)
            tree = structure.tree
            table[:, Q] = matrix_places(tree, self.variant.packed)[0][tree.ancestor_start[:-1]][rows]
            return table, rows

        return changed

    def applied_forces(self) -> list[RowPart]:
        """Poses of the rows in the world; then forces on bodies, in world coordinates, are subtracted from a field."""
        alg = self.algorithm
        name = "_".join(alg.applied)
        f_array = len(alg.inputs)

        def turns(structure: Structure) -> Turns:
            bodies = np.flatnonzero(structure.row_of_body >= 0)
            first_slot = self.memory.base(structure.row_of_body[bodies])
            return np.stack([first_slot, first_slot, 6 * bodies, 0 * bodies], -1), bodies

        def step(_: tuple, f: tuple, reads: tuple) -> tuple:
            return (), (-to_row(reads[0], Force(Vec3(*f[:3]), Vec3(*f[3:]))),), ()

        loop = Loop(
            step,
            4,
            NOTHING,
            reads=(self.memory.at(OWN, WORLD_POSE),),
            adds=(self.memory.at(OWN, name),),
            inputs=tuple(Lane(f_array, V, k) for k in range(6)),
        )
        poses = pose_parts(self.memory, WORLD_POSE, self.quaternions, self.roots is not None)
        return [*poses, RowPart(loop, turns)]


# -- programs ---------------------------------------------------------------------------------------------------------


def lane_program_of(algorithm: Algorithm, model: Model, external: bool = False, packed: bool = False) -> LaneAlgorithm:
    """The program of an algorithm that serves a mechanism."""
    kind = kind_of(model)
    if algorithm.shallow is not None and not kind.deep:
        algorithm = algorithm.shallow
    if "tau" not in (*algorithm.inputs, *algorithm.outputs):
        stretched = any(STRETCH in p.needs for p in algorithm.passes)
        kind = kind._replace(dampers=False, springs=kind.springs and stretched)
    return serving(lane_program(algorithm, Variant(kind, external, packed)), model)


@once
def lane_program(algorithm: Algorithm, variant: Variant) -> LaneAlgorithm:
    """The program of an algorithm; inputs are the algorithm's, then forces on bodies."""
    writer = Writer(algorithm, variant)
    kind = variant.kind
    marks = [k for k, on in (*kind._asdict().items(), ("external", variant.external), ("packed", variant.packed)) if on]
    return LaneAlgorithm(
        "_".join([algorithm.name, *marks]),
        writer.parts(),
        writer.memory,
        (*("q" if n == "q" else "v" for n in algorithm.inputs), *(("f_ext",) * variant.external)),
        tuple(output_axes(algorithm, n, variant.packed) for n in algorithm.outputs),
        gives=tuple(algorithm.gives.get(n, "unchanged") for n in algorithm.outputs),
        reversible=not algorithm.matrix,  # entries of a matrix are carried up in place
    )
