"""Walks over blocks, from the passes of any algorithm.

Passes go in *rounds*, a way out and perhaps a way in. What one pass leaves for another of its round lies in memory
that a core has for itself, and what later rounds need in arrays of the whole tree. A pass becomes two functions: one
makes an element of a chunk, the other walks; a scan over the chunks of the top says how each begins. Rows' own shares
of a way in are kept, and what branches bring is added to them.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import jax

from kinetree.dynamics.joint_terms import FELT
from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Pass, Row, Stretch
from kinetree.lanes.blocks.lists import MAX_OPERANDS, BlockCode
from kinetree.lanes.blocks.text import NOWHERE, BlockWalk, TreeScan
from kinetree.lanes.kept.once import once
from kinetree.lanes.walks.walk import Walk
from kinetree.spatial import Vec3

from .lane_rows import GRAVITY
from .stage_passes import in_array
from .stages import CONSTANT, NOTHING, CellPlan, element_structure, inward_walks, numbered, outward_walks

structure, leaves = jax.tree.structure, jax.tree.leaves
INERTIA = structure(CONSTANT.inertia)
Place = tuple[str, int]  # The name of an array, and a field of its cells.


class Round(NamedTuple):
    """Numbers of the passes of a way out and of the way in that follows it."""

    out: int
    back: int | None


def rounds(algorithm: Algorithm) -> list[Round]:
    """The rounds of an algorithm; refuses what blocks do not know."""
    passes, found = algorithm.passes, []
    for i, p in enumerate(passes):
        if not isinstance(p, Outward | Inward) or p.stretch is None:
            raise ValueError(f"{algorithm.name}: blocks have no pass like {p.state!r}, which states no stretch")
        if isinstance(p, Outward):
            found.append(Round(i, None))
        elif not found or found[-1].back is not None:
            raise ValueError(f"{algorithm.name}: blocks have no way in that does not follow a way out")
        else:
            found[-1] = Round(found[-1].out, i)
    if max(len(algorithm.inputs), len(algorithm.outputs)) + 2 > MAX_OPERANDS:
        raise ValueError(f"{algorithm.name}: blocks have calls of at most {MAX_OPERANDS} operands")
    if not passes[0].places or sum(bool(p.outputs) for p in passes) != 1:
        raise ValueError(f"{algorithm.name}: blocks need a first pass that places the rows, and one with the results")
    return found


class CellFields(NamedTuple):
    """Fields that place a row, and those that load it: each lie together, or a core would read past the others."""

    frame: tuple[int, ...]
    load: tuple[int, ...]


def fields_held(hinges: bool) -> CellFields:
    """The fields that cells hold; of trees of hinges without rotors no axes and armatures: three numbers of twenty."""
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


class BlockFields(NamedTuple):
    """Where fields are, in the cells of blocks; `remembers`: states are, as branches hang from rows."""

    plan: CellPlan
    remembers: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        """Arrays that are taken from, by name."""
        names = dict.fromkeys(n for i in range(len(self.plan.algorithm.passes)) for n in self.plan.given(i))
        return tuple(n for n in names if n != FELT)  # Rotors feel qdd: blocks serve no quaternion joints.

    def taken(self, i: int) -> tuple[int, ...]:
        """The inputs that pass i reads, by number."""
        return tuple(self.inputs.index("qdd" if n == FELT else n) for n in self.plan.given(i))

    def later(self, i: int) -> set[str]:
        """What later rounds need of what pass i leaves."""
        passes = self.plan.algorithm.passes
        after = next((r.out for r in rounds(self.plan.algorithm) if r.out > i), len(passes))
        return {n for p in passes[after:] for n in (*p.needs, *(p.own.needs if p.own else ()))}

    def places(self, i: int) -> dict[str, list[Place]]:
        """Where pass i leaves what it leaves, by name; its own state too, where branches hang from rows."""
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
        for i in range(len(self.plan.algorithm.passes)):
            for array, field in (x for places in self.places(i).values() for x in places):
                found[array] = max(found.get(array, 0), field + 1)
        return found

    def place(self, array: int, field: int) -> Place | None:
        """Where a field of a walk is, None if nowhere: arrays of walks are the constants, then what passes leave."""
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


def _beginnings(algorithm: Algorithm) -> BlockWalk:
    """From the gravity: of each pass the element of no rows, and the state of the base."""

    def step(_: Any, gravity: Vec3, given: Any, exists: Any) -> tuple:
        base = algorithm.base(gravity)
        return (), tuple((p.stretch.identity(gravity.x), base[p.state]) for p in algorithm.passes)  # type: ignore[union-attr]

    count = sum(
        element_structure(p.stretch).num_leaves + structure(algorithm.fields[p.state]).num_leaves
        for p in algorithm.passes
    )
    results = tuple((0, k) for k in range(count))
    walk = Walk("beginnings", step, NOTHING, GRAVITY, NOTHING, NOTHING, in_array(0, (0, 1, 2)), (3,))
    return BlockWalk(walk, "beginnings", results=results, widths=(count,))


def _ballast(stretch: Stretch, state: int) -> BlockWalk:
    """What chunks are lent, from the inertias of their last rows and the means of all."""

    def step(_: Any, links: tuple, given: Any, exists: Any) -> tuple:
        last, mean = links
        return (), stretch.ballast(Row(inertia=last), Row(inertia=mean))  # type: ignore[misc]

    count = INERTIA.num_leaves
    links = structure((CONSTANT.inertia, CONSTANT.inertia))
    fields, results = in_array(0, tuple(range(2 * count))), tuple((0, k) for k in range(state))
    walk = Walk("ballast", step, NOTHING, links, NOTHING, NOTHING, fields, (2 * count,))
    return BlockWalk(walk, "ballast", results=results, widths=(state,))


class AlgorithmCode:
    """Machine code of an algorithm's passes over blocks, and where its fields are."""

    def __init__(self, fields: BlockFields, dtype: str):
        self.fields, self.algorithm = fields, fields.plan.algorithm
        self.rounds = rounds(self.algorithm)
        self.reduce: list[BlockPass] = []
        self.walk: list[BlockPass] = []
        self.state: list[int] = []  # numbers
        self.element: list[int] = []  # numbers
        walks, scans = [_beginnings(self.algorithm)], []
        for i, p in enumerate(self.algorithm.passes):
            example = self.algorithm.fields[p.state]
            self.state.append(structure(example).num_leaves)
            self.element.append(element_structure(p.stretch).num_leaves)
            scans.append(_scan(p, example, f"scan{i}"))
            for made, of in zip(self._walks(i, p), (self.reduce, self.walk), strict=True):
                walks.append(made[0])
                of.append(made[1])
        lending = [p.stretch for p in self.algorithm.passes if p.stretch and p.stretch.ballast]
        inward = [n for n, p in zip(self.state, self.algorithm.passes, strict=True) if isinstance(p, Inward)]
        if lending:
            walks.append(_ballast(lending[0], inward[0]))
        self.lends = bool(lending)
        put, cells = self.outputs, sorted({*self.state, len(leaves((CONSTANT.orientation, CONSTANT.position)))})
        name = f"{self.algorithm.name}_blocks"
        self.native = BlockCode(name, walks, scans, len(fields.inputs), put, tuple(cells), dtype)

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
            fields.blocked(i, walk, f"walk{i}", results, isinstance(p, Inward)),
        ]

    @property
    def outputs(self) -> int:
        """Numbers of a row's results."""
        return structure(tuple(self.algorithm.outputs.values())).num_leaves

    @cached_property
    def joined(self) -> dict[int, Place]:
        """For each way in, where rows keep their own share."""
        return {
            r.back: self.fields.places(r.out)[self.algorithm.passes[r.back].state][0]
            for r in self.rounds
            if r.back is not None
        }


@once
def algorithm_code(fields: BlockFields, dtype: str) -> AlgorithmCode:
    """The machine code for cells with these fields."""
    return AlgorithmCode(fields, dtype)
