"""The order of lanes: lanes that did similar turns in their last run share a block.

A block does all turns that one of its lanes needs, as often as its slowest lane needs. The lists of a program
(`Loop.lists`) say which turns a lane did. So each lane leaves a signature of these turns, stored by lane number, and
the next call sorts its lanes by signature. This helps because the contacts of a world change little from step to step.

A signature is a hint: it may come from other worlds, or partly from an older call. Any order gives the same results, as
no lane depends on the lanes beside it. A program without lists, or one that is written out, does not sort its lanes.
"""

from typing import NamedTuple

from .. import tuning
from ..llvm.emit import Emitter
from ..llvm.text import Text
from ..program.program import Program, Slots

INDEX_BITS = tuning.ORDERED_LANES.bit_length() - 1
SCALE_BITS = 20  # binary places of the scale: bits of a signature for each turn
SEEN = 64  # bytes; the offset of the bits of the lanes, after that scale


def is_ordered(program: Program) -> bool:
    """True if a program sorts its lanes."""
    return program.straight is None and not program.woven and any(loop.lists for loop in program.loops)


def bits_of_lists(program: Program) -> dict[str, tuple[int, int]]:
    """For each list its first bit in the signature, and its number of bits. Costly turns get most, and the highest."""
    cost = {loop.lists[0]: 0 for loop in program.loops if loop.lists is not None}
    for loop in program.loops:
        if loop.follows in cost:
            cost[loop.follows] += sum(x.count if isinstance(x, Slots) else 1 for x in loop.places)
    names, end, found = sorted(cost, key=lambda name: (-cost[name], name)), 64, {}
    for k, name in enumerate(names):
        left = end - INDEX_BITS
        bits = left if k == len(names) - 1 else left // 2
        end -= bits
        found[name] = end, bits
    return found


GAPS = (301, 132, 57, 23, 10, 4, 1)  # of Shell's sort (Ciura 2001)


def order_text(parameters: str, given: str, width: int) -> str:
    """`lanes(parameters)`: calls `blocks(given, 0, count, scratch, order)` on sorted lanes lo to hi.

    Where the last block has too few lanes, the last one of them fills it up: it asks for no turns of its own.

    Lanes are sorted in parts of equal size, each of at most `tuning.ORDERED_LANES`. Signatures are read once, so an
    order has every lane once even if other threads write meanwhile.
    """
    hints = f"@hints = internal global [{tuning.LANE_HINTS} x i64] zeroinitializer"
    gaps = f"@gaps = internal constant [{len(GAPS)} x i64] [{', '.join(f'i64 {gap}' for gap in GAPS)}]"
    return "\n".join([hints, gaps, str(_sort()), str(_lanes(parameters, given, width))])


def _sort() -> Text:
    """`sort(values, count)`."""
    to = Text("o")
    to.begin("internal void @sort(ptr noalias %values, i64 %count) noinline")
    hole = to.variable("i64")
    with to.each(len(GAPS)) as p:
        gap = to.load("i64", "@gaps", p, "i64")
        with to.each("%count", gap) as i:
            value = to.load("i64", "%values", i, "i64")
            to.store("i64", i, hole)
            to.into("look")
            here = to.load("i64", hole)
            there = to.op(f"sub i64 {here}, {gap}")
            with to.when(to.op(f"icmp sge i64 {there}, 0")):
                other = to.load("i64", "%values", there, "i64")
                with to.when(to.op(f"icmp ugt i64 {other}, {value}")):
                    to.store("i64", other, "%values", here, "i64")
                    to.store("i64", there, hole)
                    to.go("look")
            to.store("i64", value, "%values", here, "i64")
    to.end()
    return to


def _lanes(parameters: str, given: str, width: int) -> Text:
    to, most = Text("o"), tuning.ORDERED_LANES
    to.begin(f"i1 @lanes({parameters})")
    to.do(f"%order = alloca [{most} x i64]")
    good, n = to.variable("i1", "true"), to.op("sub i64 %hi, %lo")
    parts = to.op(f"sdiv i64 {to.op(f'add i64 {n}, {most - 1}')}, {most}")
    with to.each(parts) as p:
        cuts = p, to.op(f"add i64 {p}, 1")
        before, end = (to.op(f"sdiv i64 {to.op(f'mul i64 {n}, {k}')}, {parts}") for k in cuts)
        first, count = to.op(f"add i64 %lo, {before}"), to.op(f"sub i64 {end}, {before}")
        with to.each(count) as i:
            number = to.op(f"and i64 {to.op(f'add i64 {first}, {i}')}, {tuning.LANE_HINTS - 1}")
            hint = to.op(f"load atomic i64, ptr {to.at('@hints', number, 'i64')} monotonic, align 8")
            to.store("i64", to.op(f"or i64 {to.op(f'and i64 {hint}, {-most}')}, {i}"), "%order", i, "i64")
        to.do(f"call void @sort(ptr %order, i64 {count})")
        with to.each(count) as i:
            index = to.op(f"and i64 {to.load('i64', '%order', i, 'i64')}, {most - 1}")
            to.store("i64", to.op(f"add i64 {first}, {index}"), "%order", i, "i64")
        last = to.load("i64", "%order", to.op(f"sub i64 {count}, 1"), "i64")
        whole = to.op(f"and i64 {to.op(f'add i64 {count}, {width - 1}')}, {-width}")
        with to.each(whole, count) as i:
            to.store("i64", last, "%order", i, "i64")
        now = to.op(f"call i1 @blocks({given}, i64 0, i64 {whole}, ptr %scratch, ptr %order)")
        to.store("i1", to.op(f"and i1 {to.load('i1', good)}, {now}"), good)
    to.end(f"i1 {to.load('i1', good)}")
    return to


def leave_hint(to: Emitter, order: str, lists: dict[str, "TurnList"], bits: dict[str, tuple[int, int]]) -> None:
    """Keep the signatures of a block's lanes, whose numbers are in `order`."""
    kind, whole = f"<{to.width} x i64>", "zeroinitializer"
    for name, (first, _) in bits.items():
        own = to.load(kind, lists[name].seen, SEEN, extra=", align 64")
        shift = to.broadcast(str(first), "i64")
        whole = to.op(f"or {kind} {whole}, {to.op(f'shl {kind} {own}, {shift}')}")
    for lane in range(to.width):
        number = to.op(f"and i64 {to.load('i64', order, lane, 'i64')}, {tuning.LANE_HINTS - 1}")
        one = to.op(f"extractelement {kind} {whole}, i32 {lane}")
        to.do(f"store atomic i64 {one}, ptr {to.at('@hints', number, 'i64')} monotonic, align 8")


LANES_BIT = 32  # of a turn on a list: from this bit on stand the lanes that do it, below it its number


class TurnList(NamedTuple):
    """The addresses of a list of turns, of its length, and of which turns each lane did."""

    turns: str
    count: str
    seen: str  # the bits of a turn, times 2^SCALE_BITS, and at `SEEN` those of each lane; none for single lanes

    @property
    def places(self) -> tuple[str, ...]:
        """All addresses."""
        return (self.turns, self.count, *((self.seen,) if self.seen else ()))

    def number(self, to: Emitter, place: str) -> str:
        """The number of the turn at a place of the list."""
        return to.op(f"and i64 {to.load('i64', self.turns, place, 'i64')}, {(1 << LANES_BIT) - 1}")

    def clear(self, to: Emitter) -> None:
        """Make the list empty."""
        to.store("i64", 0, self.count)
        if self.seen:
            to.store(f"<{to.width} x i64>", "zeroinitializer", self.seen, SEEN, extra=", align 64")

    def add(self, to: Emitter, number: str, acts: str) -> None:
        """Append a turn if one of the lanes does it, and note which lanes do."""
        lanes = to.op(f"shl i64 {lane_bits(to, acts)}, {LANES_BIT}")
        some = self._append(to, to.op(f"or i64 {number}, {lanes}"), lanes)
        if self.seen:
            with to.when(some):
                kind = f"<{to.width} x i64>"
                scaled = to.op(f"mul i64 {number}, {to.load('i64', self.seen)}")
                place = to.op(f"lshr i64 {scaled}, {SCALE_BITS}")
                bit = to.broadcast(to.op(f"shl i64 1, {place}"), "i64")
                before = to.load(kind, self.seen, SEEN, extra=", align 64")
                after = to.op(f"or {kind} {before}, {bit}")
                chosen = to.op(f"select {to.truth} {acts}, {kind} {after}, {kind} {before}")
                to.store(kind, chosen, self.seen, SEEN, extra=", align 64")

    def take(self, to: Emitter, other: "TurnList", lanes: str) -> None:
        """Make it a list of those turns of another one that some of these lanes do."""
        to.store("i64", 0, self.count)
        mask = to.op(f"shl i64 {lanes}, {LANES_BIT}")
        with to.each(to.load("i64", other.count)) as place:
            turn = to.load("i64", other.turns, place, "i64")
            self._append(to, turn, to.op(f"and i64 {turn}, {mask}"))

    def _append(self, to: Emitter, turn: str, lanes: str) -> str:
        """Append a turn if there are lanes that do it; returns if there are."""
        last, some = to.load("i64", self.count), to.op(f"icmp ne i64 {lanes}, 0")
        to.store("i64", turn, self.turns, last, "i64")
        to.store("i64", to.op(f"add i64 {last}, {to.op(f'zext i1 {some} to i64')}"), self.count)
        return some


def lane_bits(to: Emitter, truth: str) -> str:
    """The lanes for which something is true, as the bits of a number."""
    bits = truth if to.width == 1 else to.op(f"bitcast {to.truth} {truth} to i{to.width}")
    return to.op(f"zext i{to.width} {bits} to i64")


def new_list(to: Emitter, turns: str, bits: int | None = None) -> TurnList:
    """A list of at most `turns` turns. With `bits`, lanes note which turns they did."""
    places, count, seen = to.op(f"alloca i64, i64 {turns}"), to.op("alloca i64"), ""
    if bits is not None:
        seen = to.op(f"alloca [{SEEN + 8 * to.width} x i8], align 64")
        most = to.larger(turns, bits)
        to.store("i64", to.op(f"udiv i64 {bits << SCALE_BITS}, {most}"), seen)
        to.store(f"<{to.width} x i64>", "zeroinitializer", seen, SEEN, extra=", align 64")
    return TurnList(places, count, seen)
