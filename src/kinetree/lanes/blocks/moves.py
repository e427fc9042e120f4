"""Moves of data between blocks, as LLVM text: gather, scatter, add, fold, wait."""

from itertools import product
from typing import NamedTuple

from .. import tuning
from ..llvm.emit import Emitter
from ..llvm.text import Text, transposed


class FieldGroup(NamedTuple):
    """Fields of a cell that are moved together, and how many fields the cell has."""

    count: int
    of: int

    def named(self, move: str) -> str:
        """The name of a move of these fields."""
        return f"{move}{self.count}of{self.of}"


class BlockMoves(NamedTuple):
    """The moves that are needed: groups of fields to take and put, and sizes of cells to add and fold."""

    taken: tuple[FieldGroup, ...]
    put: tuple[FieldGroup, ...]
    cells: tuple[int, ...]
    folded: tuple[int, ...] = ()


def moves(emitter: Emitter, wanted: BlockMoves) -> dict[str, str]:
    """Texts by name."""
    lists: dict[str, str] = {}
    for g in wanted.taken:
        lists |= {g.named("take"): _take(emitter, g), g.named("take_along"): _take_along(emitter, g)}
    for g in wanted.put:
        lists |= {g.named("put"): _put(emitter, g), g.named("put_along"): _put_along(emitter, g)}
    for n in wanted.cells:
        lists |= {f"add{n}": _add(emitter, n), f"fetch{n}": _fetch(emitter, n)}
    lists |= {f"fold{n}": _fold(emitter, n) for n in wanted.folded}
    return lists | {"copy": _vectors(emitter, 1), "sum": _vectors(emitter, 2), "wait": _wait(), "signal": _signal()}


def _open(name: str, operands: int) -> tuple[Text, list[str]]:
    to = Text(name[0])
    to.begin(f"void @{name}(ptr %operands, i64 %count)")
    return to, [to.load("ptr", "%operands", 8 * k) for k in range(operands)]


def _closed(to: Text) -> str:
    """End the function; return its text with its declarations."""
    to.end()
    return "\n".join([*sorted(to.declarations), str(to)])


def _take(emitter: Emitter, group: FieldGroup) -> str:
    """Operands: places, (count, lanes); the first field to fill, (count, fields, lanes); the source arrays.

    Place −1 means none; its value is zero.
    """
    to, (rows, target, *sources) = _open(group.named("take"), 2 + group.count)
    width, real, scalar = emitter.width, emitter.real, emitter.scalar
    indices, truth = (emitter.vector(kind) for kind in ("i32", "i1"))
    with to.each("%count") as i:
        first = to.op(f"mul i64 {i}, {width}")
        where = to.load(indices, rows, first, "i32", ", align 4")
        present = to.op(f"icmp sge {indices} {where}, zeroinitializer")
        some = to.op(f"select {truth} {present}, {indices} {where}, {indices} zeroinitializer")
        places = [to.op(f"sext i32 {to.op(f'extractelement {indices} {some}, i32 {k}')} to i64") for k in range(width)]
        for a, source in enumerate(sources):
            value = "poison"
            for lane, where in enumerate(places):
                number = to.load(scalar, source, where, scalar)
                value = to.op(f"insertelement {real} {value}, {scalar} {number}, i32 {lane}")
            value = to.op(f"select {truth} {present}, {real} {value}, {real} zeroinitializer")
            cell = to.op(f"add i64 {to.op(f'mul i64 {first}, {group.of}')}, {a * width}")
            to.store(real, value, target, cell, scalar, f", align {emitter.dtype.itemsize}")
    return _closed(to)


def _take_along(emitter: Emitter, group: FieldGroup) -> str:
    """`take`, for lanes that go along consecutive rows. The count is in blocks of as many lines as there are lanes.

    The first operand is the rows of the first line.
    """
    to, (rows, target, *sources) = _open(group.named("take_along"), 2 + group.count)
    width, real, scalar, align = emitter.width, emitter.real, emitter.scalar, f", align {emitter.dtype.itemsize}"
    first = [to.op(f"sext i32 {to.load('i32', rows, k, 'i32')} to i64") for k in range(width)]
    with to.each("%count") as i:
        line = to.op(f"mul i64 {i}, {width}")
        places = [to.op(f"add i64 {f}, {line}") for f in first]
        for source, place in product(sources, places):  # lanes are too short for the hardware prefetcher
            to.prefetch(to.at(source, to.op(f"add i64 {place}, {tuning.PREFETCH_VECTORS * width}"), scalar))
        for a, source in enumerate(sources):
            lines = transposed(to, real, [to.load(real, source, p, scalar, align) for p in places])
            for k, value in enumerate(lines):
                at = to.op(f"add i64 {line}, {k}")
                cell = to.op(f"add i64 {to.op(f'mul i64 {at}, {group.of * width}')}, {a * width}")
                to.store(real, value, target, cell, scalar, align)
    return _closed(to)


def _put_along(emitter: Emitter, group: FieldGroup) -> str:
    """`put`, for lanes that go along consecutive rows, as in `take_along`."""
    to, (rows, source, *targets) = _open(group.named("put_along"), 2 + group.count)
    width, real, scalar, align = emitter.width, emitter.real, emitter.scalar, f", align {emitter.dtype.itemsize}"
    first = [to.op(f"sext i32 {to.load('i32', rows, k, 'i32')} to i64") for k in range(width)]
    with to.each("%count") as i:
        line = to.op(f"mul i64 {i}, {width}")
        lines = [to.op(f"mul i64 {to.op(f'add i64 {line}, {k}')}, {group.of * width}") for k in range(width)]
        for a, target in enumerate(targets):
            cells = [to.op(f"add i64 {at}, {a * width}") for at in lines]
            lanes = transposed(to, real, [to.load(real, source, c, scalar, align) for c in cells])
            for f, value in zip(first, lanes, strict=True):
                to.store(real, value, target, to.op(f"add i64 {f}, {line}"), scalar, align)
    return _closed(to)


def _put(emitter: Emitter, group: FieldGroup) -> str:
    """Operands: places, (count, lanes), −1 for none; the first field of values, (count, fields, lanes); the arrays."""
    to, (rows, source, *targets) = _open(group.named("put"), 2 + group.count)
    width, real, scalar, size = emitter.width, emitter.real, emitter.scalar, emitter.dtype.itemsize
    indices, truth, pointers = (emitter.vector(kind) for kind in ("i32", "i1", "ptr"))
    scatter = f"void @llvm.masked.scatter.v{width}f{emitter.bits}.v{width}p0"
    to.declare(f"{scatter}({real}, {pointers}, i32, {truth})")
    with to.each("%count") as i:
        first = to.op(f"mul i64 {i}, {width}")
        where = to.load(indices, rows, first, "i32", ", align 4")
        wide = to.op(f"sext {indices} {where} to {emitter.vector('i64')}")
        present = to.op(f"icmp sge {indices} {where}, zeroinitializer")
        for a, target in enumerate(targets):
            cell = to.op(f"add i64 {to.op(f'mul i64 {first}, {group.of}')}, {a * width}")
            value = to.load(real, source, cell, scalar, f", align {size}")
            cells = to.op(f"getelementptr {scalar}, ptr {target}, {emitter.vector('i64')} {wide}")
            to.do(f"call {scatter}({real} {value}, {pointers} {cells}, i32 {size}, {truth} {present})")
    return _closed(to)


def _add(emitter: Emitter, numbers: int) -> str:
    """Operands: a base and (count,) byte offsets of source cells; a base and offsets of the cells they are added to."""
    to, (base, offsets, target, target_offsets) = _open(f"add{numbers}", 4)
    scalar = emitter.scalar
    with to.each("%count") as i:
        source = to.at(base, to.load("i64", offsets, i, "i64"))
        cell = to.at(target, to.load("i64", target_offsets, i, "i64"))
        for k in range(numbers):
            place = to.at(cell, k * emitter.width, scalar)
            sum_ = to.op(
                f"fadd {scalar} {to.load(scalar, place)}, {to.load(scalar, source, k * emitter.width, scalar)}"
            )
            to.store(scalar, sum_, place)
    return _closed(to)


def _fetch(emitter: Emitter, numbers: int) -> str:
    """Operands: a base and (count,) byte offsets of cells; the place where they go side by side, one cell to a lane."""
    to, (base, offsets, target) = _open(f"fetch{numbers}", 3)
    scalar = emitter.scalar
    with to.each("%count") as i:
        source = to.at(base, to.load("i64", offsets, i, "i64"))
        for k in range(numbers):
            value = to.load(scalar, source, k * emitter.width, scalar)
            to.store(scalar, value, target, to.op(f"add i64 {i}, {k * emitter.width}"), scalar)
    return _closed(to)


def _fold(emitter: Emitter, numbers: int) -> str:
    """Operands: cells, (count, numbers, lanes); the place of the sums over cells and lanes, repeated in each lane."""
    to, (cells, target) = _open(f"fold{numbers}", 2)
    real, scalar, align, width = emitter.real, emitter.scalar, f", align {emitter.dtype.itemsize}", emitter.width
    for k in range(numbers):
        to.store(real, "zeroinitializer", target, k * width, scalar, align)
    with to.each("%count") as i:
        first = to.op(f"mul i64 {i}, {numbers * width}")
        for k in range(numbers):
            value = to.load(real, cells, to.op(f"add i64 {first}, {k * width}"), scalar, align)
            total = to.op(f"fadd {real} {to.load(real, target, k * width, scalar, align)}, {value}")
            to.store(real, total, target, k * width, scalar, align)
    for k in range(numbers):
        whole = to.load(real, target, k * width, scalar, align)
        lanes = [to.op(f"extractelement {real} {whole}, i32 {lane}") for lane in range(width)]
        total = lanes[0]
        for lane in lanes[1:]:
            total = to.op(f"fadd {scalar} {total}, {lane}")
        for lane in range(width):
            to.store(scalar, total, target, k * width + lane, scalar)
    return _closed(to)


def _vectors(emitter: Emitter, sources: int) -> str:
    """Operands: one array of vectors, or two; the array that receives the copy of one, or the sum of two."""
    to, (*given, target) = _open(("copy", "sum")[sources - 1], sources + 1)
    real, scalar, align = emitter.real, emitter.scalar, f", align {emitter.dtype.itemsize}"
    with to.each("%count") as i:
        at = to.op(f"mul i64 {i}, {emitter.width}")
        values = [to.load(real, x, at, scalar, align) for x in given]
        total = values[0] if sources == 1 else to.op(f"fadd {real} {values[0]}, {values[1]}")
        to.store(real, total, target, at, scalar, align)
    return _closed(to)


def _wait() -> str:
    """Wait for a flag. Operands: the flag; the value to wait for. A thread with an earlier task will set it."""
    to, (flag, wanted) = _open("wait", 2)
    to.declare("i32 @sched_yield()")
    value, looks = to.load("i64", wanted), to.variable("i64", 0)
    to.into("look")
    seen = to.op(f"load atomic i64, ptr {flag} acquire, align 8")
    with to.when(to.op(f"icmp ne i64 {seen}, {value}")):
        more = to.op(f"add i64 {to.load('i64', looks)}, 1")
        to.store("i64", more, looks)
        with to.when(to.op(f"icmp sge i64 {more}, {tuning.BLOCK_LOOKS}")):
            to.op("call i32 @sched_yield()")  # The other thread may have no core: let it run.
        to.go("look")
    return _closed(to)


def _signal() -> str:
    """Set a flag. Operands: the flag; its new value."""
    to, (flag, value) = _open("signal", 2)
    to.do(f"store atomic i64 {to.load('i64', value)}, ptr {flag} release, align 8")
    return _closed(to)
