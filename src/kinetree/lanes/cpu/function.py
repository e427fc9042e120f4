"""A lane program as one function for a CPU, on a vector of lanes at a time. The function is

    i1 name(ptr inputs[], ptr outputs[], ptr constants[], ptr tables[], i64 turns[], i64 widths[], i64 reach, i64 lo,
    i64 hi, ptr scratch)

and runs lanes lo to hi (at least one block), W lanes at a time in vector registers. It returns true if all results are
finite. Lane arrays are (lanes, columns), read and written a block at a time (columns.py). `widths` has the distance of
lanes in each array, then the number of columns of each array, which is less if there are gaps. The last block may
overlap the one before, so outputs must not alias inputs. Scratch holds W values for each column of each array, then W
for each slot, aligned to 64 bytes; for one lane at a time it holds slots only. `reach` is the number of bytes of
results that are written from one use of this memory to the next. If no cache holds so many, results go past the caches.
If lanes are sorted (order.py), lo and hi are places in `ptr order`, a list of lane numbers, which comes last.
"""

from collections.abc import Callable
from typing import Any

from .. import tuning
from ..llvm.text import over_blocks
from ..program.program import Program, Repeat, flattened, uneven_repeats
from .apart import call_apart
from .block import BlockWriter
from .order import TurnList, bits_of_lists, is_ordered, lane_bits, leave_hint, new_list
from .rest import SIGNATURE


class LaneFunction(BlockWriter):
    """The function for a CPU, on `width` lanes at a time; loops that are `apart` have functions of their own."""

    def __init__(
        self,
        program: Program,
        jaxprs: list[Any],
        width: int,
        dtype: Any,
        name: str,
        apart: dict[int, str] | None = None,
    ):
        super().__init__(program, jaxprs, width, dtype)
        to, self.apart = self.to, apart or {}
        self.count = program.n_inputs + program.n_outputs  # of arrays
        self.bits = bits_of_lists(program) if width > 1 and is_ordered(program) else None
        to.begin(f"i1 @{name}({SIGNATURE}{', ptr noalias readonly %order' if self.bits else ''})")
        self.arrays = [to.load("ptr", "%ins", k, "ptr") for k in range(program.n_inputs)]
        self.arrays += [to.load("ptr", "%outs", k, "ptr") for k in range(program.n_outputs)]
        self.widths = [to.load("i64", "%widths", k, "i64") for k in range(2 * self.count)]
        count = range(len(program.loops))
        constants = [to.load("ptr", "%consts", k, "ptr") for k in count]
        tables = [to.load("ptr", "%tabs", k, "ptr") for k in count]
        turns = [to.load("i64", "%turns", k, "i64") for k in count]
        self.narrower: dict[int, dict[str, TurnList]] = {}  # lists of a repeat, by its id
        self.lists = self._make_lists(turns)
        self.rows: list[str] = []  # for each array, the address of the block
        self.slots, self.large, self.which = "%scratch", "false", ""
        if self.apart:
            to.do(f"%places = alloca [{max(1, self.count)} x ptr]")
        to.do("%good = alloca i1")
        to.store("i1", "true", "%good")
        columns = self._make_room() if width > 1 else []

        def block(lane: str) -> None:
            if self.bits is None:
                lane = to.larger(lane, "%lo") if width > 1 else lane  # There may be fewer lanes than in a block.
                distances = zip(self.arrays, self.widths[: self.count], strict=True)
                self.rows = [to.at(array, to.op(f"mul i64 {lane}, {apart}"), to.scalar) for array, apart in distances]
            else:
                self.rows, self.which = self.arrays, f"ptr {to.at('%order', lane, 'i64')}"
            places = columns or self.rows
            self.inputs, self.outputs = places[: program.n_inputs], places[program.n_inputs :]
            for k, place in enumerate(places if self.apart else ()):
                to.store("ptr", place, "%places", k, "ptr")
            if width > 1:
                self._fetch()
            to.go("before0")
            self.body(constants, tables, turns, "look")
            self._give()

        over_blocks(to, width, "%lo", "%hi", block, self._verdict)

    def _loop(self, k: int, arrays: tuple[str, str, str]) -> None:
        """All turns of loop k, here or in its own function. Results that are always zero are written once."""
        to, loop = self.to, self.program.loops[k]
        once = to.width > 1 and self.program.simple and loop.clears
        if once:
            to.branch(to.op("icmp eq i64 %start, %lo"), f"first{k}", f"again{k}")
            to.label(f"first{k}")
        if k in self.apart:
            call_apart(self, self.apart[k], loop, arrays)
        else:
            super()._loop(k, arrays)
        if once:
            to.into(f"again{k}")

    # -- columns ------------------------------------------------------------------------------------------------------

    def _make_room(self) -> list[str]:
        """Reserve columns of all arrays, before the slots. Check if the results are too large for a cache."""
        to, columns = self.to, ["%scratch"]
        for count in self.widths[self.count :]:
            columns.append(to.at(columns[-1], count, to.real))
        self.slots = columns.pop()
        present = to.op("sub i64 %hi, %lo")
        self.which = f"i64 {present}"
        whole = to.op(f"icmp sge i64 {present}, {to.width}")
        self.large = to.op(f"and i1 {whole}, {to.op(f'icmp sge i64 %reach, {tuning.STREAM_MIN_BYTES}')}")
        return columns

    def _fetch(self) -> None:
        """Load the columns of the inputs, and those of outputs if some lanes may leave them unchanged."""
        places = self.inputs if self.program.simple else self.inputs + self.outputs
        for k, columns in enumerate(places):
            apart, count = self.widths[k], self.widths[self.count + k]
            given = f"ptr {self.rows[k]}, i64 {apart}, i64 {count}, ptr {columns}"
            self.to.do(f"call void @fetch({given}, {self.which})")

    def _give(self) -> None:
        """Check the results of the block, and write them as rows."""
        to = self.to
        to.label("look")
        good = to.load("i1", "%good")
        for k, place in enumerate(self.outputs, self.program.n_inputs):
            apart, count = self.widths[k], self.widths[self.count + k]
            call = f"call i1 @all_finite(ptr {place}, i64 {count})"
            if to.width > 1:
                given = f"ptr {place}, ptr {self.rows[k]}, i64 {apart}, i64 {count}, i1 {self.large}"
                call = f"call i1 @give({given}, {self.which})"
            good = to.op(f"and i1 {good}, {to.op(call)}")
        to.store("i1", good, "%good")
        if self.bits is not None:
            leave_hint(to, self.which.removeprefix("ptr "), self.lists, self.bits)
        to.go("blockend")

    def _verdict(self) -> str:
        """End the function; it returns true if all results are finite."""
        if self.to.width > 1:
            self.to.do("fence seq_cst")  # before other threads see that the results are complete
        return f"i1 {self.to.load('i1', '%good')}"

    # -- lists of turns -----------------------------------------------------------------------------------------------

    def _make_lists(self, turns: list[str]) -> dict[str, TurnList]:
        """Room for each list, and for what is left of it in repeats."""
        found, bits, room = {}, self.bits or {}, {}
        for loop, most in zip(self.program.loops, turns, strict=True):
            if loop.lists is not None and self.program.straight is None:
                name = loop.lists[0]
                room[name] = most
                found[name] = new_list(self.to, most, bits[name][1] if bits else None)
        for part in uneven_repeats(self.program.body) if self.to.width > 1 else ():
            loops = list(flattened(part.body))
            made = {loop.lists[0] for loop in loops if loop.lists is not None}
            names = sorted({loop.follows for loop in loops} & set(found) - made)
            if names:
                own = {name: new_list(self.to, room[name])._replace(seen=found[name].seen) for name in names}
                self.narrower[id(part)] = own
        return found

    def _repeat(self, part: Repeat, going: Callable[[], str], body: Callable[[], None]) -> None:
        """Repeat the body. Its loops follow lists of the turns that lanes need that go on."""
        to, before, own = self.to, self.lists, self.narrower.get(id(part))
        if own is None:
            super()._repeat(part, going, body)
            return
        last = to.variable("i64", 0)

        def narrowed() -> None:
            lanes = lane_bits(to, self.mask)
            with to.when(to.op(f"icmp ne i64 {lanes}, {to.load('i64', last)}")):
                to.store("i64", lanes, last)
                for name, turns in own.items():
                    turns.take(to, before[name], lanes)
            body()

        self.lists = before | own
        super()._repeat(part, going, narrowed)
        self.lists = before
