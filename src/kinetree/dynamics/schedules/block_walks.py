"""Walks over blocks, from the passes of any algorithm.

Passes go in *rounds*: a way out, and a way in if there is one. Fields for another pass of the same round are in a
core's own memory; fields for later rounds are in arrays of the whole tree. A pass becomes two functions: one makes an
element of a chunk, the other walks. A scan over the chunks of the top finds the start of each chunk. Rows' own shares
of a way in are kept, and the results of branches are added to them.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import jax

from kinetree.dynamics.joint_terms import FELT
from kinetree.dynamics.recursion import (
    APPLIED,
    Algorithm,
    Base,
    Bodies,
    Inward,
    Outward,
    Pass,
    Row,
    Stretch,
    Total,
    at_rest,
)
from kinetree.lanes.blocks.lists import MAX_OPERANDS, BlockCode
from kinetree.lanes.blocks.moves import BlockMoves, FieldGroup
from kinetree.lanes.blocks.text import NOWHERE, BlockWalk, TreeScan
from kinetree.lanes.kept.once import once
from kinetree.lanes.walks.walk import Walk
from kinetree.spatial import Vec3

from .block_alone import AloneCode, put_groups
from .lane_rows import GRAVITY
from .stage_passes import in_array
from .stages import (
    CONSTANT,
    COUNT,
    NOTHING,
    SHIFT,
    CellPlan,
    element_structure,
    inward_walks,
    numbered,
    outward_walks,
)

structure, leaves = jax.tree.structure, jax.tree.leaves
INERTIA = structure(CONSTANT.inertia)
Place = tuple[str, int]  # The name of an array, and a field of its cells.


class Round(NamedTuple):
    """Numbers of the passes of a way out and of the way in that follows it."""

    out: int
    back: int | None


def rounds(algorithm: Algorithm) -> list[Round]:
    """The rounds of an algorithm. Refuses algorithms that blocks can not run."""
    passes, found, sums = algorithm.passes, [], set()
    for i, p in enumerate(passes):
        if isinstance(p, Outward | Inward) and p.stretch is None:
            raise ValueError(f"{algorithm.name}: blocks have no pass like {p.state!r}, which states no stretch")
        if isinstance(p, Outward):
            found.append(Round(i, None))
        elif isinstance(p, Inward):
            if not found or found[-1].back is not None:
                raise ValueError(f"{algorithm.name}: blocks have no way in that does not follow a way out")
            found[-1] = Round(found[-1].out, i)
        elif isinstance(p, Total):
            sums.add(p.state)
        elif not isinstance(p, Bodies | Base) or (isinstance(p, Base) and not sums.issuperset(p.needs)):
            raise ValueError(f"{algorithm.name}: blocks have no pass of kind {type(p).__name__} like {p.state!r}")
    if max(len(algorithm.inputs), *(structure(x).num_leaves for x in algorithm.outputs.values())) + 2 > MAX_OPERANDS:
        raise ValueError(f"{algorithm.name}: blocks have calls of at most {MAX_OPERANDS} operands")
    if algorithm.resting:
        raise ValueError(f"{algorithm.name}: blocks can not run an algorithm with resting inputs")
    if not passes[0].places or not any(p.outputs for p in passes):
        raise ValueError(f"{algorithm.name}: blocks need a first pass that places the rows, and one with the results")
    return found


class CellFields(NamedTuple):
    """Fields that place a row, and fields that load it. Each group is contiguous, so that a core reads without gaps."""

    frame: tuple[int, ...]
    load: tuple[int, ...]


def fields_held(hinges: bool) -> CellFields:
    """The fields of cells. Trees of hinges without rotors need no axes and armatures: three numbers of twenty."""
    frame, load = leaves((CONSTANT.orientation, CONSTANT.position)), leaves(CONSTANT.inertia)
    if not hinges:
        frame, load = frame + leaves(CONSTANT.axis), load + leaves(CONSTANT.armature)
    return CellFields(tuple(frame), tuple(load))


class BlockPass(NamedTuple):
    """A function of a pass, and the arrays that are its operands."""

    name: str
    state: int  # numbers
    streams: tuple[str, ...]
    taken: bool
    results: tuple[str, ...]


class Taken(NamedTuple):
    """Consecutive inputs of a cell, and their source: scalars of given arrays, at the place of the row."""

    first: int
    given: tuple[tuple[int, int], ...]  # the number of an array, and of a scalar among those at one place
    place: str  # "row", "coordinate" or "force": which places rows have in these arrays


FORCES = "forces"  # The array of all forces on rows, (·, 6).


class BlockFields(NamedTuple):
    """The places of fields in the cells of blocks. `remembers`: states are kept too, as branches hang from rows."""

    plan: CellPlan
    remembers: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of a row, by name; forces on bodies are the last."""
        names = dict.fromkeys(n for i in self.row_passes for n in self.plan.given(i))
        names = dict.fromkeys("qdd" if n == FELT else n for n in names)  # the acceleration of a rotor is made from qdd
        return tuple(sorted(names, key=lambda n: n in APPLIED))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that are given, by name."""
        return tuple(dict.fromkeys(FORCES if n in APPLIED else n for n in self.inputs))

    @property
    def groups(self) -> list[Taken]:
        """The inputs, in groups with the same places."""

        def place(name: str) -> str:
            return "force" if name in APPLIED else "coordinate" if name == "q" and self.plan.quaternions else "row"

        found: list[Taken] = []
        for k, name in enumerate(self.inputs):
            scalar = (self.arrays.index(FORCES), APPLIED.index(name)) if name in APPLIED else (k, 0)
            if found and found[-1].place == place(name):
                found[-1] = found[-1]._replace(given=(*found[-1].given, scalar))
            else:
                found.append(Taken(k, (scalar,), place(name)))
        return found

    @property
    def row_passes(self) -> list[int]:
        """Numbers of the passes that go over the rows."""
        return [i for i, p in enumerate(self.plan.algorithm.passes) if isinstance(p, Outward | Inward)]

    def taken(self, i: int) -> tuple[int, ...]:
        """The inputs that pass i reads, by number."""
        return tuple(self.inputs.index("qdd" if n == FELT else n) for n in self.plan.given(i))

    def later(self, i: int) -> set[str]:
        """The fields of pass i that later rounds need."""
        passes = self.plan.algorithm.passes
        after = next((r.out for r in rounds(self.plan.algorithm) if r.out > i), len(passes))
        return {n for p in passes[after:] for n in (*p.needs, *(p.own.needs if p.own else ()))}

    def places(self, i: int) -> dict[str, list[Place]]:
        """The places of the fields that pass i leaves, by name; also of its state, if branches hang from rows."""
        p, later, found, widths = self.plan.algorithm.passes[i], self.later(i), {}, {}
        left = dict(self.plan.left(i))
        if self.remembers and isinstance(p, Outward):
            left |= {p.state: self.plan.algorithm.fields[p.state]}
        for name, example in left.items():
            array = f"out{i}" if name in p.outputs else f"kept{i}" if name in later else f"own{i}"
            first, count = widths.get(array, 0), structure(example).num_leaves
            found[name] = [(array, first + k) for k in range(count)]
            widths[array] = first + count
        return found

    def widths(self) -> dict[str, int]:
        """Fields of all arrays."""
        held = fields_held(self.plan.hinges)
        found = {"frame": len(held.frame), "load": len(held.load)}
        if any(self.plan.shifted(p) for p in self.plan.algorithm.passes):
            found[SHIFT] = 1
        for i in self.row_passes:
            for array, field in (x for places in self.places(i).values() for x in places):
                found[array] = max(found.get(array, 0), field + 1)
        return found

    def place(self, array: int, field: int) -> Place | None:
        """The place of a field of a walk, or None. Arrays of walks are the constants, then the fields of passes."""
        if (array, field) == (0, COUNT):
            return SHIFT, 0
        if array == 0:
            held = fields_held(self.plan.hinges)
            return next(
                ((n, part.index(field)) for n, part in zip(held._fields, held, strict=True) if field in part), None
            )
        names = numbered(self.plan.left(array - 1))
        return next(
            self.places(array - 1)[n][leaves(names[n]).index(field)] for n in names if field in leaves(names[n])
        )

    def blocked(self, i: int, walk: Walk, name: str, results: list[Place], ends: bool) -> tuple[BlockWalk, BlockPass]:
        """A walk of pass i over blocks."""
        widths, where = self.widths(), [self.place(*f) for f in walk.fields]
        streams = tuple(dict.fromkeys(x[0] for x in where if x is not None))
        targets = tuple(dict.fromkeys(array for array, _ in results))
        walk = replace(
            walk,
            fields=tuple(NOWHERE if x is None else (streams.index(x[0]), x[1]) for x in where),
            widths=tuple(widths[n] for n in streams),
        )
        block = BlockWalk(
            walk,
            name,
            self.taken(i),
            len(self.inputs),
            tuple((targets.index(array), field) for array, field in results),
            tuple(widths[n] for n in targets),
            ends,
        )
        return block, BlockPass(name, walk.state.num_leaves, streams, bool(self.taken(i)), targets)


def _act(stretch: Stretch) -> Any:
    """`act` in scalars, as native code has it."""
    combine, lend, passed = stretch.combine_components, stretch.lend, stretch.passed
    if combine is None or lend is None or passed is None:
        return stretch.act
    return lambda e, s: passed(combine(e, lend(stretch.identity(leaves(s)[0]), s)))


def _scan(p: Pass, example: Any, name: str) -> TreeScan:
    stretch: Any = p.stretch
    element, act = element_structure(stretch), _act(stretch)
    fields, inward = in_array(0, tuple(range(element.num_leaves))), isinstance(p, Inward)

    def step(state: Any, e: Any, _: Any, exists: Any) -> tuple:
        return act(e, state), ()

    walk = Walk(
        name, step, structure(example), element, NOTHING, NOTHING, fields, (element.num_leaves,), reverse=inward
    )
    return TreeScan(walk, name)


def _beginnings(algorithm: Algorithm, passes: list[int]) -> BlockWalk:
    """A walk from the gravity to the identity element and the state of the base, for each pass over rows."""

    def step(_: Any, gravity: Vec3, given: Any, exists: Any) -> tuple:
        base, over = algorithm.base(gravity), [algorithm.passes[i] for i in passes]
        # a state that the base finds later is written then
        states = [base[p.state] if p.state in base else at_rest(algorithm.fields[p.state], gravity.x) for p in over]
        return (), tuple((p.stretch.identity(gravity.x), x) for p, x in zip(over, states, strict=True))  # type: ignore[union-attr]

    count = sum(
        element_structure(p.stretch).num_leaves + structure(algorithm.fields[p.state]).num_leaves
        for p in (algorithm.passes[i] for i in passes)
    )
    results = tuple((0, k) for k in range(count))
    walk = Walk("beginnings", step, NOTHING, GRAVITY, NOTHING, NOTHING, in_array(0, (0, 1, 2)), (3,))
    return BlockWalk(walk, "beginnings", results=results, widths=(count,))


def _ballast(stretch: Stretch, state: int) -> BlockWalk:
    """The ballast of chunks, from the inertias of their last rows and the means of all rows."""

    def step(_: Any, links: tuple, given: Any, exists: Any) -> tuple:
        last, mean = links
        return (), stretch.ballast(Row(inertia=last), Row(inertia=mean))  # type: ignore[misc]

    count = INERTIA.num_leaves
    links = structure((CONSTANT.inertia, CONSTANT.inertia))
    fields, results = in_array(0, tuple(range(2 * count))), tuple((0, k) for k in range(state))
    walk = Walk("ballast", step, NOTHING, links, NOTHING, NOTHING, fields, (2 * count,))
    return BlockWalk(walk, "ballast", results=results, widths=(state,))


class AlgorithmCode:
    """Machine code of an algorithm's passes over blocks, and the places of its fields, by number of the pass."""

    def __init__(self, fields: BlockFields, dtype: str):
        self.fields, self.algorithm = fields, fields.plan.algorithm
        self.rounds = rounds(self.algorithm)
        passes, alone = self.algorithm.passes, AloneCode(fields.plan)
        self.alone = alone
        self.reduce: dict[int, BlockPass] = {}
        self.walk: dict[int, BlockPass] = {}
        self.state: dict[int, int] = {}  # numbers
        self.element: dict[int, int] = {}  # numbers
        self.sums: dict[int, int] = {}  # how many numbers are added up while the pass goes over the rows
        walks, scans = [_beginnings(self.algorithm, fields.row_passes), *alone.walks], []
        for i in fields.row_passes:
            p = passes[i]
            example = self.algorithm.fields[p.state]
            self.state[i] = structure(example).num_leaves
            self.element[i] = element_structure(p.stretch).num_leaves
            totals = tuple(self.algorithm.fields[x.state] for x in fields.plan.totals(p))
            self.sums[i] = structure(totals).num_leaves
            scans.append(_scan(p, example, f"scan{i}"))
            for made, of in zip(self._walks(i, p), (self.reduce, self.walk), strict=True):
                walks.append(made[0])
                of[i] = made[1]
        lending = [p.stretch for p in passes if p.stretch and p.stretch.ballast]
        if lending:
            walks.append(_ballast(lending[0], next(self.state[r.back] for r in self.rounds if r.back is not None)))
        self.lends = bool(lending)
        cells = sorted({*self.state.values(), len(leaves((CONSTANT.orientation, CONSTANT.position)))})
        self.put = {i: put_groups(self.algorithm, passes[i].outputs) for i in fields.row_passes}
        put = [FieldGroup(len(g.given), sum(len(x.given) for x in of)) for of in self.put.values() for g in of]
        taken = [FieldGroup(len(g.given), len(fields.inputs)) for g in fields.groups]
        moved = BlockMoves(
            tuple(dict.fromkeys([*taken, *alone.taken])),
            tuple(dict.fromkeys([*put, *alone.put])),
            tuple(cells),
            tuple(sorted({n for n in self.sums.values() if n})),
        )
        self.native = BlockCode(f"{self.algorithm.name}_blocks", walks, scans, moved, dtype)

    def _walks(self, i: int, p: Pass) -> list[tuple[BlockWalk, BlockPass]]:
        plan, fields = self.fields.plan, self.fields
        places = fields.places(i)
        if isinstance(p, Outward):
            made = outward_walks(plan, i)
            remembered = fields.remembers and p.state not in plan.left(i)
            walk, reduce = made.walk(0, remembered, False), made.reduce(True)
        else:
            back = inward_walks(plan, i)
            walk, reduce = back.walk(False, 0, False), back.reduce(False)
        results = [x for where in places.values() for x in where]
        return [
            fields.blocked(i, reduce, f"reduce{i}", [], True),
            fields.blocked(i, walk, f"walk{i}", results, isinstance(p, Inward) or self.sums[i] > 0),
        ]

    @cached_property
    def joined(self) -> dict[int, Place]:
        """For each way in, the place of the rows' own shares."""
        return {
            r.back: self.fields.places(r.out)[self.algorithm.passes[r.back].state][0]
            for r in self.rounds
            if r.back is not None
        }


@once
def algorithm_code(fields: BlockFields, dtype: str) -> AlgorithmCode:
    """The machine code for cells with these fields."""
    return AlgorithmCode(fields, dtype)
