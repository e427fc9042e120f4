"""Lane arrays as columns: a block of lanes is transposed on its way in, and its results on their way out.

Arrays are (lanes, columns), one row to a lane. A program needs the same number of all lanes of a block in one vector
register. So the rows of a block are read in the order of memory, transposed in registers, tile by tile, and kept as
columns in scratch memory, which fits a core's cache. Results are gathered there, too. When the block is done, they are
checked (are all finite?) and written as rows, each cache line once. Results that are too large for all caches go past
the caches, which would first read each line that is written. Such stores need whole, aligned vectors, but rows begin
anywhere. So some tiles are put side by side in a strip first, and stored from there.

A batch may have fewer lanes than a block. Then the block repeats the last of them, whose row is written several times.
"""

from collections.abc import Callable

import numpy as np

from .. import tuning
from ..llvm.emit import Emitter
from ..llvm.kernel import with_helpers
from ..llvm.text import transposed

CACHE_LINE = 64  # bytes
STRIP = 64  # columns that are put side by side, of all rows of a block: 4.6 kB, or less


def columns_text(dtype: np.dtype, width: int, ordered: bool = False) -> str:
    """Definitions of `fetch` and `give`, for blocks of `width` lanes; the module has `all_finite`.

    If `ordered`, both have one more argument, the numbers of the lanes; rows then count from the first of all lanes.
    """
    return with_helpers(_fetch(dtype, width, ordered), _give(dtype, width, ordered))


def finite_text(dtype: np.dtype, width: int) -> str:
    """Definition of `all_finite`."""
    return with_helpers(_all_finite(dtype, width))


class Tiles(Emitter):
    """Text that goes over the rows of a block, `%rows` and `%apart`, and over its columns, `%columns` and `%count`.

    Rows follow each other. Only `%present` of them exist, and the last of these stands for the missing ones. Or
    `%order` has the numbers of the rows.
    """

    def __init__(self, width: int, dtype: np.dtype, ordered: bool = False):
        super().__init__(width, dtype)
        self.ordered = ordered
        self._starts: list[str] = []

    def begin_rows(self, signature: str) -> None:
        """Begin a function on rows, and compute the address of each row."""
        which = "ptr noalias readonly %order" if self.ordered else "i64 %present"
        self.begin(signature.replace(")", f", {which})"))
        if self.ordered:
            self._starts = [self.row(str(k)) for k in range(self.width)]
            return
        self._starts = ["%rows"]
        for lane in range(1, self.width):
            there = self.op(f"icmp sgt i64 %present, {lane}")
            step = self.op(f"select i1 {there}, i64 %apart, i64 0")
            self._starts.append(self.at(self._starts[-1], step, self.scalar))

    def row(self, number: str) -> str:
        """The address of a row of the block."""
        number = self.load("i64", "%order", number, "i64") if self.ordered else number
        return self.at("%rows", self.op(f"mul i64 {number}, %apart"), self.scalar)

    @property
    def aligned(self) -> str:
        """The alignment of a number."""
        return f"align {self.dtype.itemsize}"

    def in_rows(self, column: str) -> list[str]:
        """The addresses of this column in all rows."""
        return [self.at(start, column, self.scalar) for start in self._starts]

    def column(self, number: str) -> str:
        """The address of a column in scratch memory."""
        return self.at("%columns", number, self.real)

    def over(self, visit: Callable[[str], None], step: int) -> None:
        """`visit(first)` for tiles of `step` columns; the last may overlap the one before. Then go to `done`."""
        last = self.op(f"sub i64 %count, {step}")
        with self.each("%count", step=step) as first:
            visit(self.smaller(first, last))
        self.go("done")

    def either(
        self, tile: Callable[[str], None], column: Callable[[str], None], part: Callable[[], None] | None = None
    ) -> None:
        """Tiles if there are enough columns for one, else `part` of a tile, or single columns; then `done`."""
        with self.when(self.op(f"icmp slt i64 %count, {self.width}")):
            if part is None:
                self.over(column, 1)
            else:
                self.require(self.op("icmp sgt i64 %count, 0"), otherwise="done")
                part()
        self.over(tile, self.width)

    def short_row(self) -> str:
        """Which numbers of a vector belong to a row that is shorter."""
        places = ", ".join(f"i64 {k}" for k in range(self.width))
        return self.op(f"icmp slt {self.vector('i64')} <{places}>, {self.broadcast('%count', 'i64')}")

    def load_short(self, place: str, there: str) -> str:
        """A row that is shorter than a vector."""
        name = f"{self.real} @llvm.masked.load.v{self.width}f{self.bits}.p0"
        self.declare(f"{name}(ptr, i32, {self.truth}, {self.real})")
        size = self.dtype.itemsize
        return self.op(f"call {name}(ptr {place}, i32 {size}, {self.truth} {there}, {self.real} zeroinitializer)")

    def store_short(self, value: str, place: str, there: str) -> None:
        """Store a row that is shorter than a vector."""
        name = f"void @llvm.masked.store.v{self.width}f{self.bits}.p0"
        self.declare(f"{name}({self.real}, ptr, i32, {self.truth})")
        self.do(f"call {name}({self.real} {value}, ptr {place}, i32 {self.dtype.itemsize}, {self.truth} {there})")

    def start_check(self) -> None:
        """Start a check of results."""
        self.do(f"%seen = alloca {self.real}")
        self.do(f"store {self.real} zeroinitializer, ptr %seen")

    def check(self, values: list[str]) -> None:
        """Check 1, 2, 4, ... vectors: 0 · x is NaN if x is not finite. Very large numbers may count as infinite."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self.op(f"fadd {self.real} {a}, {b}") for a, b in pairs]
        nothing = self.op(f"fmul {self.real} {values[0]}, zeroinitializer")
        before = self.op(f"load {self.real}, ptr %seen")
        self.do(f"store {self.real} {self.op(f'fadd {self.real} {before}, {nothing}')}, ptr %seen")

    def all_finite(self) -> str:
        """True if all checked numbers are finite."""
        seen = self.op(f"load {self.real}, ptr %seen")
        return self.op(f"xor i1 {self.any(self.op(f'fcmp une {self.real} {seen}, zeroinitializer'))}, true")


def _fetch(dtype: np.dtype, width: int, ordered: bool) -> Emitter:
    """`fetch(rows, apart, count, columns, which rows)`: a block as columns. It prefetches a later block if it can."""
    to = Tiles(width, dtype, ordered)
    to.begin_rows("internal void @fetch(ptr noalias %rows, i64 %apart, i64 %count, ptr noalias %columns) noinline")
    later = to.op(f"mul i64 %apart, {tuning.PREFETCH_BLOCKS * width}")

    def tile(first: str) -> None:
        ahead = to.op(f"add i64 {later}, {to.op(f'mul i64 {first}, {width}')}")
        for line in () if ordered else range(0, width * width, CACHE_LINE // dtype.itemsize):
            to.prefetch(to.at("%rows", to.op(f"add i64 {ahead}, {line}"), to.scalar))
        rows = [to.op(f"load {to.real}, ptr {place}, {to.aligned}") for place in to.in_rows(first)]
        for k, value in enumerate(transposed(to, to.real, rows)):
            to.do(f"store {to.real} {value}, ptr {to.column(to.op(f'add i64 {first}, {k}'))}")

    def column(number: str) -> None:
        value = "poison"
        for lane, place in enumerate(to.in_rows(number)):
            one = to.op(f"load {to.scalar}, ptr {place}, {to.aligned}")
            value = to.op(f"insertelement {to.real} {value}, {to.scalar} {one}, i32 {lane}")
        to.do(f"store {to.real} {value}, ptr {to.column(number)}")

    def part() -> None:
        there = to.short_row()
        rows = [to.load_short(place, there) for place in to.in_rows("0")]
        for k, value in enumerate(transposed(to, to.real, rows)[:-1]):
            to.do(f"store {to.real} {value}, ptr {to.column(str(k))}")
            to.require(to.op(f"icmp sgt i64 %count, {k + 1}"), otherwise="done")
        to.go("done")

    to.either(tile, column, part if width * dtype.itemsize >= tuning.MASKED_LOAD_MIN_BYTES else None)
    to.label("done")
    to.end()
    return to


def _give(dtype: np.dtype, width: int, ordered: bool) -> Emitter:
    """`give(columns, rows, apart, count, large, which rows)`: a block as rows; true if all numbers are finite.

    `large`: no cache will hold all results, and all rows are present.
    """
    to = Tiles(width, dtype, ordered)
    given = "ptr noalias %columns, ptr noalias %rows, i64 %apart, i64 %count, i1 %large"
    to.begin_rows(f"internal i1 @give({given}) noinline")
    to.start_check()

    def taken(first: str, count: int) -> list[str]:
        values = [to.op(f"load {to.real}, ptr {to.column(to.op(f'add i64 {first}, {k}'))}") for k in range(count)]
        to.check(values)
        return values

    def tile(first: str) -> None:
        for row, place in zip(transposed(to, to.real, taken(first, width)), to.in_rows(first), strict=True):
            to.do(f"store {to.real} {row}, ptr {place}, {to.aligned}")

    def column(number: str) -> None:
        (value,) = taken(number, 1)
        for lane, place in enumerate(to.in_rows(number)):
            one = to.op(f"extractelement {to.real} {value}, i32 {lane}")
            to.do(f"store {to.scalar} {one}, ptr {place}, {to.aligned}")

    def part() -> None:
        there, last = to.short_row(), to.op("sub i64 %count, 1")
        columns = [to.column(to.smaller(last, k)) for k in range(width)]
        values = [to.op(f"load {to.real}, ptr {place}") for place in columns]
        to.check(values)
        for row, place in zip(transposed(to, to.real, values), to.in_rows("0"), strict=True):
            to.store_short(row, place, there)
        to.go("done")

    to.do(f"%strip = alloca [{width * (STRIP + width)} x {to.scalar}], align {CACHE_LINE}")
    to.branch(to.op(f"and i1 %large, {to.op(f'icmp sge i64 %count, {width}')}"), "past", "cached")
    to.label("cached")
    to.either(tile, column, part if width * dtype.itemsize >= tuning.MASKED_STORE_MIN_BYTES else None)
    to.label("past")
    _strips(to, lambda first: transposed(to, to.real, taken(first, width)))
    to.into("done")
    to.end(f"i1 {to.all_finite()}")
    return to


def _strips(to: Tiles, tile: Callable[[str], list[str]]) -> None:
    """All columns, past the caches. `tile(first)` are the rows of a tile. Rows of the strip begin with a spare vector.

    The rest of a row after its last whole line goes before the next strip. So all stores from a strip are whole
    vectors. Single numbers are stored only before the first vector of a row, and after the last.
    """
    width, size, room = to.width, to.dtype.itemsize, STRIP + to.width
    with to.each("%count", step=STRIP) as start:
        left = to.op(f"sub i64 %count, {start}")
        length = to.smaller(left, STRIP)
        last, end = to.op(f"sub i64 {length}, {width}"), to.op(f"add i64 {length}, {1 - width}")
        with to.each(length, step=width) as k:
            at = to.smaller(k, last)
            place = to.at("%strip", to.op(f"add i64 {at}, {width}"), to.scalar)
            for row, value in enumerate(tile(to.op(f"add i64 {start}, {at}"))):
                to.do(f"store {to.real} {value}, ptr {to.at(place, row * room, to.scalar)}, {to.aligned}")
        with to.each(width) as number:
            source = to.at("%strip", to.op(f"add i64 {to.op(f'mul i64 {number}, {room}')}, {width}"), to.scalar)
            target = to.at(to.row(number), start, to.scalar)
            address = to.op(f"lshr i64 {to.op(f'ptrtoint ptr {target} to i64')}, {size.bit_length() - 1}")
            before = to.op(f"sub i64 0, {to.op(f'and i64 {address}, {width - 1}')}")
            first = to.op(f"icmp eq i64 {start}, 0")
            head = to.op(f"select i1 {first}, i64 {to.op(f'and i64 {before}, {width - 1}')}, i64 0")
            begin = to.op(f"select i1 {first}, i64 {head}, i64 {before}")
            whole = to.op(f"and i64 {to.op(f'sub i64 {length}, {begin}')}, {-width}")
            is_last = to.op(f"icmp sle i64 {left}, {STRIP}")
            rest = to.op(f"select i1 {is_last}, i64 {length}, i64 0")
            after = to.op(f"add i64 {begin}, {whole}")
            for kind, how, numbers in (
                (to.scalar, to.aligned, (head, 0, 1)),
                (to.real, f"align {width * size}, !nontemporal !7", (end, begin, width)),
                (to.scalar, to.aligned, (rest, after, 1)),
            ):
                with to.each(*numbers) as k:
                    value = to.op(f"load {kind}, ptr {to.at(source, k, to.scalar)}, {to.aligned}")
                    to.do(f"store {kind} {value}, ptr {to.at(target, k, to.scalar)}, {how}")
            kept = to.op(f"load {to.real}, ptr {to.at(source, STRIP - width, to.scalar)}, {to.aligned}")
            to.do(f"store {to.real} {kept}, ptr {to.at(source, -width, to.scalar)}, {to.aligned}")


def _all_finite(dtype: np.dtype, width: int) -> Emitter:
    """`all_finite(values, count)`: of the results of one lane."""
    to = Tiles(width, dtype)
    to.begin("internal i1 @all_finite(ptr %values, i64 %count) noinline")
    to.start_check()

    def vectors(first: str, count: int) -> None:
        start = to.at("%values", first, to.scalar)
        to.check([to.op(f"load {to.real}, ptr {to.at(start, k, to.real)}, {to.aligned}") for k in range(count)])

    def number(place: str) -> None:
        one = to.op(f"load {to.scalar}, ptr {to.at('%values', place, to.scalar)}, {to.aligned}")
        to.check([to.op(f"insertelement {to.real} zeroinitializer, {to.scalar} {one}, i32 0")])

    with to.when(to.op(f"icmp sge i64 %count, {tuning.CHECKED_VECTORS * width}")):
        to.over(lambda first: vectors(first, tuning.CHECKED_VECTORS), tuning.CHECKED_VECTORS * width)
    to.either(lambda first: vectors(first, 1), number)
    to.label("done")
    to.end(f"i1 {to.all_finite()}")
    return to
