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
    most, hints = tuning.ORDERED_LANES, tuning.LANE_HINTS
    return f"""
@hints = internal global [{hints} x i64] zeroinitializer
@gaps = internal constant [{len(GAPS)} x i64] [{", ".join(f"i64 {gap}" for gap in GAPS)}]

define internal void @sort(ptr noalias %values, i64 %count) noinline {{
entry:
  br label %pass
pass:
  %p = phi i64 [ 0, %entry ], [ %p_next, %passed ]
  %gap_at = getelementptr i64, ptr @gaps, i64 %p
  %gap = load i64, ptr %gap_at
  br label %each
each:
  %i = phi i64 [ %gap, %pass ], [ %i_next, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %take, label %passed
take:
  %from = getelementptr i64, ptr %values, i64 %i
  %value = load i64, ptr %from
  br label %look
look:
  %j = phi i64 [ %i, %take ], [ %k, %shift ]
  %k = sub i64 %j, %gap
  %inside = icmp sge i64 %k, 0
  br i1 %inside, label %compare, label %put
compare:
  %below = getelementptr i64, ptr %values, i64 %k
  %other = load i64, ptr %below
  %after = icmp ugt i64 %other, %value
  br i1 %after, label %shift, label %put
shift:
  %to = getelementptr i64, ptr %values, i64 %j
  store i64 %other, ptr %to
  br label %look
put:
  %place = getelementptr i64, ptr %values, i64 %j
  store i64 %value, ptr %place
  %i_next = add i64 %i, 1
  br label %each
passed:
  %p_next = add i64 %p, 1
  %again = icmp slt i64 %p_next, {len(GAPS)}
  br i1 %again, label %pass, label %done
done:
  ret void
}}

define i1 @lanes({parameters}) {{
entry:
  %order = alloca [{most} x i64]
  %n = sub i64 %hi, %lo
  %rounded = add i64 %n, {most - 1}
  %parts = sdiv i64 %rounded, {most}
  br label %part
part:
  %p = phi i64 [ 0, %entry ], [ %p_next, %sorted ]
  %good = phi i1 [ true, %entry ], [ %still, %sorted ]
  %begun = mul i64 %n, %p
  %before = sdiv i64 %begun, %parts
  %first = add i64 %lo, %before
  %p_next = add i64 %p, 1
  %ended = mul i64 %n, %p_next
  %end = sdiv i64 %ended, %parts
  %count = sub i64 %end, %before
  br label %read
read:
  %i = phi i64 [ 0, %part ], [ %i_next, %read ]
  %lane = add i64 %first, %i
  %number = and i64 %lane, {hints - 1}
  %hint_at = getelementptr i64, ptr @hints, i64 %number
  %hint = load atomic i64, ptr %hint_at monotonic, align 8
  %high = and i64 %hint, {-most}
  %entry_of = or i64 %high, %i
  %entry_at = getelementptr i64, ptr %order, i64 %i
  store i64 %entry_of, ptr %entry_at
  %i_next = add i64 %i, 1
  %unread = icmp slt i64 %i_next, %count
  br i1 %unread, label %read, label %all_read
all_read:
  call void @sort(ptr %order, i64 %count)
  br label %name
name:
  %j = phi i64 [ 0, %all_read ], [ %j_next, %name ]
  %sorted_at = getelementptr i64, ptr %order, i64 %j
  %sorted_entry = load i64, ptr %sorted_at
  %index = and i64 %sorted_entry, {most - 1}
  %name_of = add i64 %first, %index
  store i64 %name_of, ptr %sorted_at
  %j_next = add i64 %j, 1
  %unnamed = icmp slt i64 %j_next, %count
  br i1 %unnamed, label %name, label %last
last:
  %room = add i64 %count, {width - 1}
  %whole = and i64 %room, {-width}
  br label %fill
fill:
  %k = phi i64 [ %count, %last ], [ %k_next, %repeat ]
  %missing = icmp slt i64 %k, %whole
  br i1 %missing, label %repeat, label %sorted
repeat:
  %repeated_at = getelementptr i64, ptr %order, i64 %k
  store i64 %name_of, ptr %repeated_at
  %k_next = add i64 %k, 1
  br label %fill
sorted:
  %now = call i1 @blocks({given}, i64 0, i64 %k, ptr %scratch, ptr %order)
  %still = and i1 %good, %now
  %left = icmp slt i64 %p_next, %parts
  br i1 %left, label %part, label %done
done:
  ret i1 %still
}}
"""


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


class TurnList(NamedTuple):
    """The addresses of a list of turns: its numbers, its length, and which of its turns each lane did."""

    numbers: str
    count: str
    seen: str  # the bits of a turn, times 2^SCALE_BITS, and at `SEEN` those of each lane; none for single lanes

    @property
    def places(self) -> tuple[str, ...]:
        """All addresses."""
        return (self.numbers, self.count, *((self.seen,) if self.seen else ()))

    def clear(self, to: Emitter) -> None:
        """Make the list empty."""
        to.store("i64", 0, self.count)
        if self.seen:
            to.store(f"<{to.width} x i64>", "zeroinitializer", self.seen, SEEN, extra=", align 64")

    def add(self, to: Emitter, number: str, acts: str) -> None:
        """Append a turn if one of the lanes does it, and note which lanes do."""
        last = to.load("i64", self.count)
        to.do(f"store i32 {to.op(f'trunc i64 {number} to i32')}, ptr {to.at(self.numbers, last, 'i32')}")
        to.store("i64", to.op(f"add i64 {last}, {to.op(f'zext i1 {to.any(acts)} to i64')}"), self.count)
        if self.seen:
            kind = f"<{to.width} x i64>"
            scaled = to.op(f"mul i64 {number}, {to.load('i64', self.seen)}")
            place = to.op(f"lshr i64 {scaled}, {SCALE_BITS}")
            bit = to.broadcast(to.op(f"shl i64 1, {place}"), "i64")
            before = to.load(kind, self.seen, SEEN, extra=", align 64")
            after = to.op(f"or {kind} {before}, {bit}")
            chosen = to.op(f"select {to.truth} {acts}, {kind} {after}, {kind} {before}")
            to.store(kind, chosen, self.seen, SEEN, extra=", align 64")


def new_list(to: Emitter, turns: str, bits: int | None) -> TurnList:
    """A list of at most `turns` turns. With `bits`, lanes note which turns they did."""
    numbers, count, seen = to.op(f"alloca i32, i64 {turns}"), to.op("alloca i64"), ""
    if bits is not None:
        seen = to.op(f"alloca [{SEEN + 8 * to.width} x i8], align 64")
        to.declare("i64 @llvm.smax.i64(i64, i64)")
        most = to.op(f"call i64 @llvm.smax.i64(i64 {turns}, i64 {bits})")
        to.store("i64", to.op(f"udiv i64 {bits << SCALE_BITS}, {most}"), seen)
        to.store(f"<{to.width} x i64>", "zeroinitializer", seen, SEEN, extra=", align 64")
    return TurnList(numbers, count, seen)
