"""The loops of a lane program as LLVM text: turns, slots, repeats, conditions. Targets add the access to memory
(cpu/function.py, cuda/ptx.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from .. import tuning
from ..program.program import Body, Lane, Program, Repeat, Slots, Straight, flattened, number_in
from ..program.straight import changed, expected, slot_numbers, turn_order
from .alone import Room
from .elementary import define
from .emit import Emitter

Given = tuple[int, tuple[str, str, str]]  # the number of a loop; its constants, its table, its number of turns


def with_helpers(*texts: Emitter) -> str:
    """The texts, with declarations and the functions of each width that they call."""
    helpers = []
    for width, name in sorted({(to.width, name) for to in texts for name in to.called}):
        helpers.append(Emitter(width, texts[0].dtype))
        define(helpers[-1], name)
    declarations = set().union(*(to.declarations for to in (*texts, *helpers)))
    return "\n".join([*sorted(declarations), *map(str, (*helpers, *texts))])


class WrittenOut(NamedTuple):
    """The values that are known in the text of a straight program."""

    slots: dict[int, str]  # values
    read: Callable[[Lane, Any], str]  # (place, row of a table) -> an input
    constant: Callable[[int, int], list[str]]  # the constants of a turn of a loop


class LoopWriter(ABC):
    """Writes the loops of a program. A target adds the access to tables, slots and lane arrays."""

    def __init__(self, program: Program, jaxprs: list[Any], width: int, dtype: Any):
        self.program, self.jaxprs = program, jaxprs
        self.to = Emitter(width, dtype)
        self.size = self.to.dtype.itemsize
        self.columns: list[str] = []
        self.mask = ""  # the lanes that take part; empty: all do

    def text(self) -> str:
        """Declarations and definitions."""
        return with_helpers(self.to)

    @abstractmethod
    def constant(self, kind: str, base: str, index: str | int) -> str:
        """A constant of a table or a row."""

    @abstractmethod
    def pool(self, constants: str) -> Room:
        """The constants of a loop as one array."""

    @abstractmethod
    def read_slot(self, number: str) -> str:
        """The value in a slot."""

    @abstractmethod
    def write_slot(self, number: str, value: str) -> None:
        """A new value for a slot."""

    @abstractmethod
    def read_lane(self, array: int, column: str) -> str:
        """An input of this lane."""

    @abstractmethod
    def write_lane(self, array: int, column: str, value: str) -> None:
        """An output of this lane."""

    def body(self, constants: list[str], tables: list[str], turns: list[str], after: str) -> None:
        """The whole program, from label `before0` to label `after`."""
        if self.program.woven:
            self.woven(constants, tables, turns, after)
            return
        self.to.label("before0")
        if self.program.straight is not None:
            self.straight(self.program.straight, constants)
        else:
            self._parts(self.program.body, iter(enumerate(zip(constants, tables, turns, strict=True))))
        self.to.go(after)

    def _parts(self, body: Body, given: Iterator[Given]) -> None:
        """Loops and repeats one after the other; `given` has a number and the arrays of each loop."""
        for part in body:
            if isinstance(part, Repeat):
                self._repeat(part, partial(self.going, part), partial(self._parts, part.body, given))
            else:
                self._loop(*next(given))

    def _repeat(self, part: Repeat, going: Callable[[], str], body: Callable[[], None]) -> None:
        """Repeat the body while some lane of the vector is going; the others keep their values."""
        to, before = self.to, self.mask
        label = to.new_label("repeat")
        with to.each(part.most):
            self._choose(going(), label, f"{label}_after")
            if part.uniform:
                self.mask = before
            body()
        to.into(f"{label}_after")
        self.mask = before

    def going(self, part: Repeat) -> str:
        """The value that says if lanes go on."""
        return self.read_slot(str(part.going))

    def _choose(self, value: str, then: str, otherwise: str) -> None:
        """Go on at label `then` with the lanes whose value is not 0; at `otherwise` if there is none."""
        to = self.to
        chosen = to.op(f"fcmp une {to.real} {value}, {to.number(0.0)}")
        if self.mask:
            chosen = to.op(f"and {to.truth} {self.mask}, {chosen}")
        to.branch(to.any(chosen), then, otherwise)
        to.label(then)
        self.mask = chosen if to.width > 1 else ""  # a single lane gets here only if it takes part

    def woven(self, constants: list[str], tables: list[str], turns: list[str], after: str) -> None:
        """Turns of all loops. Each names the next as: number of its turn times the number of loops, plus its loop."""
        to, loops = self.to, self.program.loops
        to.label("before0")
        header = to.op(f"mul i64 {turns[0]}, {loops[0].columns}")
        start = to.op(f"sext i32 {self.constant('i32', tables[0], to.op(f'sub i64 {header}, 1'))} to i64")
        to.into("pick")
        ways = ", ".join(f"[ %next{k}, %turn{k} ]" for k in range(len(loops)))
        to.lines.append(f"  %number = phi i64 [ {start}, %before0 ], {ways}")
        to.branch(to.op("icmp slt i64 %number, 0"), after, "choose")
        to.label("choose")
        turn, which = (to.op(f"{op} i64 %number, {len(loops)}") for op in ("udiv", "urem"))
        cases = " ".join(f"i64 {k}, label %turn{k}" for k in range(1, len(loops)))
        to.do(f"switch i64 {which}, label %turn0 [ {cases} ]")
        for k in range(len(loops)):
            to.label(f"turn{k}")
            self._take_row(k, turn, tables[k])
            self._turn(k, turn, constants[k])
            to.lines.append(f"  %next{k} = add i64 {self.columns[-1]}, 0")
            to.go("pick")

    def _short(self, known: Straight) -> bool:
        """True if all inputs of a lane are few enough to be read before anything else."""
        return sum(known.widths[: self.program.n_inputs]) <= tuning.INPUTS_IN_REGISTERS

    def straight(self, known: Straight, constants: list[str]) -> None:
        """All turns one after the other, with slots as values: no table is read, and no slot goes through memory."""
        given: dict[tuple[int, int], str] = {}
        if self._short(known):
            # all at once, so that neighbours can be loaded together
            for array in range(self.program.n_inputs):
                for column in range(known.widths[array]):
                    given[array, column] = self.read_lane(array, str(column))

        def read(x: Lane, row: Any) -> str:
            place = x.array, number_in(x, row)
            return given[place] if place in given else self.read_lane(x.array, str(place[1]))

        def constant(k: int, turn: int) -> list[str]:
            to, count = self.to, self.program.loops[k].constants.num_leaves
            values = None if known.constants is None else known.constants[k]
            if values is not None:
                return [to.number(x) for x in values[turn]]
            places = range(turn * count, (turn + 1) * count)
            return [to.broadcast(self.constant(to.scalar, constants[k], i)) for i in places]

        self._in_a_row(self.program.body, 0, known.tables, WrittenOut({}, read, constant), set())

    def _in_a_row(self, body: Body, number: int, tables: Any, known: "WrittenOut", after: set[int]) -> None:
        """Parts of a straight program. `number` is that of their first loop; `after` are slots needed later."""
        rest = list(body)
        while rest:
            count = next((n for n, part in enumerate(rest) if isinstance(part, Repeat)), len(rest))
            self._turns(rest[:count], number, tables[:count], known)
            rest, tables, number = rest[count:], tables[count:], number + count
            if rest:
                part, rest = rest[0], rest[1:]
                own = len(list(flattened((part,))))
                needed = expected(tuple(rest), tables[own:]) | after
                self._carried(part, number, tables[:own], known, needed)
                tables, number = tables[own:], number + own

    def _carried(self, part: Any, number: int, tables: Any, known: "WrittenOut", after: set[int]) -> None:
        """A repeat. Values that the next time or later parts need are kept in variables of the function."""
        to, slots = self.to, known.slots
        after = after | expected(part.body, tables) | {part.going}
        new = changed(part.body, tables)
        places = {
            i: to.variable(to.real) for i in sorted(new & after)
        }  # with a value for each lane; LLVM has registers

        def keep() -> None:
            for i, place in places.items():
                if i in slots:
                    to.do(f"store {to.real} {slots[i]}, ptr {place}")

        def fetch() -> None:
            to.begin_block()
            for i in new:
                slots.pop(i, None)
            slots.update((i, to.op(f"load {to.real}, ptr {place}")) for i, place in places.items())

        def body() -> None:
            fetch()
            self._in_a_row(part.body, number, tables, known, after)
            keep()

        keep()
        self._repeat(part, lambda: to.op(f"load {to.real}, ptr {places[part.going]}"), body)
        fetch()

    def _turns(self, loops: list[Any], number: int, tables: Any, known: "WrittenOut") -> None:
        """All turns of these loops; the first loop has this number."""
        to, slots = self.to, known.slots
        for k, turn in turn_order(loops, tables):
            loop, row = loops[k], tables[k][turn]
            values = known.constant(number + k, turn) + [known.read(x, row) for x in loop.inputs]
            values += [slots[i] for place in loop.reads for i in slot_numbers(place, row)]
            results = iter(to.jaxpr(self.jaxprs[number + k], values))
            for place in loop.writes:
                slots.update((i, next(results)) for i in slot_numbers(place, row))
            for place in loop.adds:
                for i in slot_numbers(place, row):
                    slots[i] = to.arithmetic("fadd", slots[i], next(results))
            for x in loop.outputs:
                self.write_lane(x.array, str(number_in(x, row)), next(results))

    def _loop(self, k: int, arrays: tuple[str, str, str]) -> None:
        """All turns of loop k."""
        with self.to.each(arrays[2]) as number:
            self._one_turn(k, number, arrays)

    def _one_turn(self, k: int, number: str, arrays: tuple[str, str, str]) -> None:
        """One turn of loop k, with the lanes that do it."""
        to, loop, before = self.to, self.program.loops[k], self.mask
        constants, table, _ = arrays
        self._take_row(k, number, table)
        if loop.when is not None:
            self._choose(self.read_slot(self.slots_of(loop.when)[0]), f"do{k}", f"done{k}")
        elif loop.scratch and not loop.outputs:
            self.mask = ""  # the other lanes may get any value
        self._turn(k, number, constants)
        self.mask = before
        if loop.when is not None:
            to.into(f"done{k}")

    def _take_row(self, k: int, number: str, table: str) -> None:
        """Load a row of the table of loop k into `columns`."""
        self.columns = self._wide(self._entries(number, table, self.program.loops[k].columns))

    def _entries(self, row: str, table: str, columns: int) -> list[str]:
        """The entries of one row of a table."""
        first = self.to.op(f"mul i64 {row}, {columns}")
        return [self.constant("i32", table, self.to.op(f"add i64 {first}, {j}")) for j in range(columns)]

    def _wide(self, entries: list[str]) -> list[str]:
        """Entries as numbers of slots and turns."""
        return [self.to.op(f"sext i32 {entry} to i64") for entry in entries]

    def _given(self, k: int, number: str, constants: str) -> list[Any]:
        """Constants and inputs of loop k in a turn, after `_take_row`."""
        to, loop = self.to, self.program.loops[k]
        to.begin_block()
        count = loop.constants.num_leaves
        first = to.op(f"mul i64 {number}, {count}")
        values: list[Any] = [
            to.broadcast(self.constant(to.scalar, constants, to.op(f"add i64 {first}, {j}"))) for j in range(count)
        ]
        values += [self.pool(constants)] if loop.pool else []
        values += [self.read_lane(x.array, self.column_of(x)) for x in loop.inputs]
        return values

    def _turn(self, k: int, number: str, constants: str) -> None:
        """One turn of loop k, after `_take_row`."""
        self.to.mask = self.mask if self.to.width > 1 else ""
        self.to.rooms_used = {}
        self.step(k, self._given(k, number, constants))

    def step(self, k: int, given: list[Any]) -> None:
        """The step of loop k: first all reads, then all writes."""
        loop = self.program.loops[k]
        reads = [self.read_slot(number) for slots in loop.reads for number in self.slots_of(slots)]
        results = iter(self.to.jaxpr(self.jaxprs[k], [*given, *reads]))
        for slots in loop.writes:
            for number in self.slots_of(slots):
                self.put(number, next(results))
        for slots in loop.adds:
            for number in self.slots_of(slots):
                self.add(number, next(results))
        self.write_lanes(loop.outputs, list(results))

    def put(self, number: str, value: str) -> None:
        """A new value for a slot, in the lanes that take part."""
        self.write_slot(number, self._chosen(value, self.read_slot(number)) if self.mask else value)

    def add(self, number: str, value: str) -> None:
        """Add to a slot, in the lanes that take part."""
        old = self.read_slot(number)
        self.write_slot(number, self._chosen(self.to.arithmetic("fadd", old, value), old))

    def write_lanes(self, places: tuple[Lane, ...], values: list[str]) -> None:
        """Outputs of one turn."""
        for x, value in zip(places, values, strict=True):
            self.write_lane(x.array, self.column_of(x), value)

    def _chosen(self, new: str, old: str) -> str:
        """The new value in the lanes that take part."""
        if not self.mask:
            return new
        return self.to.op(f"select {self.to.truth} {self.mask}, {self.to.real} {new}, {self.to.real} {old}")

    def slots_of(self, slots: Slots) -> list[str]:
        """The numbers of these slots in the turn."""
        if slots.column is None:
            return [str(slots.offset + i) for i in range(slots.count)]
        base = self.columns[slots.column]
        return [self.to.op(f"add i64 {base}, {slots.offset + i}") for i in range(slots.count)]

    def column_of(self, x: Lane) -> str:
        """The number of a lane array's column in the turn."""
        if x.column is None:
            return str(x.offset)
        return self.to.op(f"add i64 {self.columns[x.column]}, {x.offset}")
