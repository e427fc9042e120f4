"""Free joints on the base: their six rows in one turn, so that a floating base costs little more than a fixed one.

The rows of a free joint are at rest in one another, each turned against the one before by a third of a full turn, and
only the last row has a body. All this is known when the program is written, and so is the base, which does not move. So
most operations of a visit are products with zeros and ones, which are left out (lanes/llvm/emit.py). No values go
through slots between these rows. States of earlier outward passes are computed again; only the other fields of passes
are kept.
"""

from typing import Any

import jax
import numpy as np

from kinetree.dynamics.recursion import AT, Algorithm, Base, Inward, Outward, Pass, Row, Total
from kinetree.lanes import Lane, Loop, Slots
from kinetree.model import Axis, Model, Placement
from kinetree.model.coordinates import chained_acceleration, joint_pose
from kinetree.spatial import Force, Inertia, Moments, Motion, Quaternion, Sym3, Vec3
from kinetree.tree import pick

from .lane_parts import column_count, row_outputs, with_columns
from .lane_rows import OWN, PARENT, STRETCH, ZERO3, Q, RowForm, RowPart, Traits, V, joint_turns
from .lane_visits import Fields, Visits

ROWS = 6  # rows of a free joint: turns about x, y, z, then slides along them
LAST = ROWS - 1
AXES = (*3 * (Axis(1.0, 0.0),), *3 * (Axis(0.0, 1.0),))
COORDINATES = 7


class Resting(Placement):
    """The placement of a row that rests: its matrix only exchanges axes, and its quaternion has exactly length 1."""

    def __matmul__(self, o: Any) -> Any:
        if isinstance(o, Motion):
            return self.transform @ o
        return Placement(o.orientation * self.orientation, o.position)

    def force_to_parent(self, f: Force) -> Force:
        """Xᵀ f."""
        return self.transform.force_to_parent(f)


def resting(k: int) -> Resting:
    """The placement of row k of a free joint in the row before (model/compile.py)."""
    half = -0.5 if k in (1, 4) else 0.5
    return Resting(Quaternion(half, half, half, half), ZERO3)


class Roots:
    """Writes the turns of root joints for the passes of one algorithm."""

    def __init__(self, algorithm: Algorithm, kind: Traits, links: RowForm, fields: Fields, shifts: bool):
        self.algorithm, self.kind, self.links, self.fields, self.shifts = algorithm, kind, links, fields, shifts

    def part(self, p: Pass) -> RowPart:
        """The loop over the root joints of one pass."""
        alg, fields, inward = self.algorithm, self.fields, isinstance(p, Inward)
        replayed = self.replayed(p)
        visits = {x.state: self.visits(x) for x in (*replayed, p)}
        given = tuple(dict.fromkeys(n for v in visits.values() for n in v.given))
        if any(v.shifted for v in visits.values()):
            given = tuple(dict.fromkeys((*given, "qd")))
        states = {x.state for x in replayed}
        sprung = any(v.sprung for v in visits.values())
        kept = tuple(n for n in p.needs if n not in (AT, STRETCH, *states)) + ((STRETCH,) if sprung else ())
        felt = inward and any(isinstance(x, Base) and p.state in x.needs for x in alg.passes)
        state = (p.state,) if p.state else ()
        shares = tuple(x.state for x in visits[p.state].shares)
        of_base = {n for x in alg.passes if isinstance(x, Base) for n in x.leaves}
        begun = tuple(x.state for x in (*replayed, p) if x.state in of_base)  # outward passes that begin there

        def step(known: Row, inputs: tuple, reads: tuple) -> tuple:
            slots, values = list(reads), list(inputs)
            q, values = values[:COORDINATES], values[COORDINATES:]
            whole = fields.taken(state, slots)[p.state] if inward else None
            rows = self.rows(known, q, {n: [values.pop(0) for _ in range(ROWS)] for n in given})
            for k in range(ROWS):
                rows[k] |= fields.taken(kept, slots)
            base = alg.base(known.gravity) | fields.taken(begun, slots)
            for x in replayed:
                self.outward(visits[x.state], rows, base[x.state])
            if inward:
                found = [{} for _ in rows]
                for k in reversed(range(ROWS)):  # rows without bodies have no own share
                    whole, found[k] = self.visit(visits[p.state], rows[k], whole)
                ends, passed = (), fields.spread(state, {p.state: whole}) if felt else ()
            else:
                found = self.outward(visits[p.state], rows, base.get(p.state))
                own = self.own_shares(visits[p.state], rows, found)
                ends, passed = fields.spread((*state, *shares), {p.state: rows[LAST][p.state], **own}), ()
            left = tuple(x for k in range(ROWS) for x in fields.spread(p.leaves, found[k]))
            results = tuple(x for k in range(ROWS) for n in p.outputs for x in jax.tree.leaves(found[k][n]))
            return ends + left, passed, results

        columns = column_count(alg, p)
        loop = Loop(
            step,
            4 + columns,
            self.structure(),
            reads=(self.at(LAST, *state) if inward else ()) + self.of_all(*kept) + fields.at(PARENT, *begun),
            writes=(() if inward else self.at(LAST, *state, *shares)) + self.of_all(*p.leaves),
            adds=fields.at(PARENT, *state) if felt else (),
            inputs=(
                *(Lane(0, Q, k) for k in range(COORDINATES)),
                *(Lane(alg.inputs.index(n), V, k) for n in given for k in range(ROWS)),
            ),
            outputs=tuple(x._replace(offset=k) for k in range(ROWS) for x in row_outputs(alg, p)),
        )
        return RowPart(loop, with_columns(joint_turns(fields.memory, with_position=1), columns), self.constants)

    # -- what a pass does -------------------------------------------------------------------------------------------

    def visits(self, p: Pass) -> Visits:
        """The visits of a pass to the rows of roots."""
        return Visits(self.algorithm, self.kind, p, self.shifts)

    def replayed(self, p: Pass) -> list[Pass]:
        """The outward passes that find the states that a pass needs, in order."""
        before = self.algorithm.all_passes[: self.algorithm.all_passes.index(p)]
        found: list[Pass] = []
        for x in before:
            if isinstance(x, Outward) and x.state in p.needs:
                found += [*(y for y in self.replayed(x) if y not in found), x]
        return found

    def visit(self, visits: Visits, row: Row, state: Any) -> tuple[Any, dict]:
        """A visit that does not change the row."""
        return visits(Row({**row, **visits.at_rest(row.qd if "qd" in row else row[AT])}), state)

    def outward(self, visits: Visits, rows: list[Row], state: Any) -> list[dict]:
        """Visits to the six rows, from the base. Each row keeps its state."""
        found = []
        for row in rows:
            state, left = self.visit(visits, row, state)
            found.append(left)
            row[visits.pass_.state] = state
        return found

    def own_shares(self, visits: Visits, rows: list[Row], found: list[dict]) -> dict[str, Any]:
        """The shares of the last row, which has the body; in totals, of all rows: they may have rotors and springs."""
        each = [visits.own_shares(row, row[visits.pass_.state], x) for row, x in zip(rows, found, strict=True)]
        sums = {x.state for x in visits.shares if isinstance(x, Total)}
        own = each[LAST]
        return {n: jax.tree.map(lambda *x: sum(x), *(y[n] for y in each)) if n in sums else own[n] for n in own}

    # -- rows -------------------------------------------------------------------------------------------------------

    def rows(self, known: Row, q: list[Any], given: dict[str, list[Any]]) -> list[Row]:
        """The rows of one root: placements, axes, bodies, inputs."""
        alg = self.algorithm
        held = (lambda x: x.transform) if alg.keeps_placements and alg.keeps == "transform" else self.links.held
        first = held(joint_pose(known.orientation, known.position, Quaternion(*q[3:]), Vec3(*q[:3])))
        no_body = (Moments if self.links.moments else Inertia)(0.0, ZERO3, Sym3(*6 * (0.0,)))
        shift: tuple[Any, ...] = ()
        if self.shifts and "qd" in given:
            turning, sliding = chained_acceleration(Vec3(*given["qd"][:3]), Vec3(*given["qd"][3:]))
            shift = (*turning, *sliding)
        rows = []
        for k, axis in enumerate(AXES):
            row = Row({AT: held(resting(k)) if k else first, "axis": axis})
            row["inertia"] = known.inertia if k == LAST else no_body
            row["mass"] = row.inertia.mass
            row["armature"] = 0.0 if self.links.hinges else known.armature[k]
            row |= {n: known[n][k] for n in ("damping", "stiffness") if n in known}
            row |= {n: x[k] for n, x in given.items()} | ({"shift": shift[k]} if shift else {})
            rows.append(row)
        return rows

    def at(self, k: int, *names: str) -> tuple[Slots, ...]:
        """Fields of row k of the joint."""
        size = self.fields.memory.size
        return tuple(x._replace(offset=x.offset + k * size) for x in self.fields.at(OWN, *names))

    def of_all(self, *names: str) -> tuple[Slots, ...]:
        """Fields of all six rows."""
        return tuple(x for k in range(ROWS) for x in self.at(k, *names))

    def constants(self, model: Model, first: np.ndarray) -> Row:
        """The constants of the joints that begin with these rows."""
        gravity = Vec3(*(model.gravity[k : k + 1].repeat(len(first)) for k in range(3)))
        pose = model.rows.orientation, model.rows.position
        orientation, position = pick(pose, first)
        links = [self.links.constants(model, first + k) for k in range(ROWS)]
        found = Row(gravity=gravity, orientation=orientation, position=position, inertia=links[LAST].inertia)
        return Row(found | {n: tuple(getattr(x, n) for x in links) for n in self.terms})

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of constants that all six rows have."""
        armature = () if self.links.hinges else ("armature",)
        return (*armature, *(("damping",) * self.kind.dampers), *(("stiffness",) * self.kind.springs))

    def structure(self) -> Any:
        """The treedef of the constants."""
        links = jax.tree.unflatten(self.links.structure, [0.0] * self.links.structure.num_leaves)
        found = Row(gravity=ZERO3, orientation=Quaternion(*4 * (0.0,)), position=ZERO3, inertia=links.inertia)
        return jax.tree.structure(Row(found | dict.fromkeys(self.terms, ROWS * (0.0,))))
