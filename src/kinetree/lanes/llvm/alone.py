"""Steps that search: a lane has loops of its own, and memory that it indexes at run time.

`lax.while_loop` becomes a loop that goes on while one lane of the vector goes on; the others keep their values. A
one-dimensional array filled with one number becomes memory on the stack, a column for each lane. It is changed in
place, so a step may not read an old version of an array after a change. Input arrays (a loop's pool) are the same for
all lanes, and are only read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Literal

ARRAYS = {"dynamic_slice", "dynamic_update_slice", "while"}


class Room(NamedTuple):
    """An array in memory."""

    kind: str  # of a number
    base: str
    space: str = "ptr"  # type of the address
    extra: str = ""  # attributes of every load
    shared: bool = False  # True if all lanes share it
    fixed: bool = False  # True if it may not be changed here


def is_room(aval: Any) -> bool:
    """True if an array is more than one number."""
    return aval.shape not in ((), (1,))


def last_uses(jaxpr: Any) -> dict[Any, int]:
    """For each variable, the number of the last equation that uses it. The results count as one more equation."""
    found = {v: k for k, e in enumerate(jaxpr.eqns) for v in e.invars if not isinstance(v, Literal)}
    found.update({v: len(jaxpr.eqns) for v in jaxpr.outvars if not isinstance(v, Literal)})
    return found


def new_room(to: Any, aval: Any, value: str) -> Room:
    """A new array filled with one number."""
    (count,) = aval.shape
    kind = to.scalar if np.issubdtype(aval.dtype, np.floating) else f"i{to.bits}"
    wide = to.vector(kind)
    align = f"align {to.width * to.bits // 8}"
    base = _free(to, count, wide, align)
    with to.each(count) as k:
        to.do(f"store {wide} {value}, ptr {to.at(base, k, wide)}, {align}")
    return Room(kind, base)


def _free(to: Any, count: int, wide: str, align: str) -> str:
    """Memory on the stack. Turns of other loops may have used it before, but need it no longer."""
    used = to.rooms_used.setdefault((count, wide), 0)
    to.rooms_used[count, wide] += 1
    base = f"%room_{used}_{count}_{'whole' if f'i{to.bits}' in wide else 'real'}"
    line = f"  {base} = alloca [{count} x {wide}], {align}"
    if line not in to.rooms:
        to.rooms.add(line)
        to.lines.insert(to.lines.index("entry:") + 1, line)
    return base


def _place(to: Any, room: Room, index: str) -> str:
    """Address of a number, or a vector of them."""
    if to.width > 1 and not room.shared:
        index = to.op(f"mul {to.integer} {index}, {to.whole(to.width)}")
        lanes = "<" + ", ".join(f"i{to.bits} {k}" for k in range(to.width)) + ">"
        index = to.op(f"add {to.integer} {index}, {lanes}")
    return to.op(f"getelementptr {room.kind}, {room.space} {room.base}, {to.integer} {index}")


def _mask(to: Any) -> str:
    return f"{to.truth} {to.mask or to.splat('i1', '1')}"


def _suffix(to: Any, room: Room) -> str:
    return f"v{to.width}{'f' if room.kind == to.scalar else 'i'}{to.bits}.v{to.width}p0"


def read(to: Any, room: Room, index: str) -> str:
    """The number at each lane's own place."""
    wide = to.vector(room.kind)
    if index in to.trips and not room.shared:  # Lanes are side by side.
        return to.op(f"load {wide}, ptr {to.at(room.base, to.trips[index], wide)}, align {to.width * to.bits // 8}")
    place = _place(to, room, index)
    if to.width == 1:
        return to.op(f"load {wide}, {room.space} {place}{room.extra}")
    name, pointers = f"@llvm.masked.gather.{_suffix(to, room)}", f"<{to.width} x ptr>"
    to.declare(f"{wide} {name}({pointers}, i32, {to.truth}, {wide})")
    given = f"{pointers} {place}, i32 {to.bits // 8}, {_mask(to)}, {wide} zeroinitializer"
    return to.op(f"call {wide} {name}({given})")


def read_row(to: Any, room: Room, index: str, count: int) -> list[str]:
    """Numbers side by side, from each lane's own place on. Lanes share the array."""
    if to.width == 1:
        places = [index, *(to.op(f"add {to.integer} {index}, {k}") for k in range(1, count))]
        return [read(to, room, place) for place in places]
    index = to.op(f"select {_mask(to)}, {to.integer} {index}, {to.integer} zeroinitializer")
    rows = []
    for lane in range(to.width):
        own = to.op(f"extractelement {to.integer} {index}, i32 {lane}")
        place = to.op(f"getelementptr {room.kind}, ptr {room.base}, i{to.bits} {own}")
        rows.append(to.op(f"load <{count} x {room.kind}>, ptr {place}, align {to.bits // 8}"))
    size = count
    while len(rows) > 1:
        both = ", ".join(f"i32 {k}" for k in range(2 * size))
        pairs = zip(rows[::2], rows[1::2], strict=True)
        kind, size = f"<{size} x {room.kind}>", 2 * size
        rows = [to.op(f"shufflevector {kind} {a}, {kind} {b}, <{size} x i32> <{both}>") for a, b in pairs]
    kind = f"<{size} x {room.kind}>"
    columns = [", ".join(f"i32 {k}" for k in range(n, size, count)) for n in range(count)]
    return [to.op(f"shufflevector {kind} {rows[0]}, {kind} poison, <{to.width} x i32> <{c}>") for c in columns]


def write(to: Any, room: Room, index: str, value: str) -> None:
    """Write a number at each lane's own place."""
    if index in to.trips:  # Lanes are side by side.
        wide, align = to.vector(room.kind), to.width * to.bits // 8
        name = f"@llvm.masked.store.{_suffix(to, room).split('.')[0]}.p0"
        to.declare(f"void {name}({wide}, ptr, i32, {to.truth})")
        place = to.at(room.base, to.trips[index], wide)
        to.do(f"call void {name}({wide} {value}, ptr {place}, i32 {align}, {_mask(to)})")
        return
    place, wide = _place(to, room, index), to.vector(room.kind)
    if to.width == 1:
        to.do(f"store {wide} {value}, {room.space} {place}")
        return
    name, pointers = f"@llvm.masked.scatter.{_suffix(to, room)}", f"<{to.width} x ptr>"
    to.declare(f"void {name}({wide}, {pointers}, i32, {to.truth})")
    to.do(f"call void {name}({wide} {value}, {pointers} {place}, i32 {to.bits // 8}, {_mask(to)})")


def on_arrays(to: Any, e: Any, args: list[Any], is_last: Callable[[Any], bool], unknown: type[Exception]) -> list[Any]:
    """The results of an equation with arrays, or of a loop. `is_last(variable)`: the variable is not used later."""
    name = e.primitive.name
    if name == "dynamic_slice" and e.params["slice_sizes"] == (1,):
        return [read(to, *args)]
    if name == "dynamic_slice" and (args[0].shared or to.width == 1):
        return [read_row(to, *args, *e.params["slice_sizes"])]
    if name == "dynamic_update_slice" and not is_room(e.invars[1].aval):
        if args[0].fixed or not is_last(e.invars[0]):
            raise unknown("an array is looked at after it was changed")
        write(to, args[0], args[2], args[1])
        return [args[0]]
    if name == "while":
        consts = e.params["cond_nconsts"] + e.params["body_nconsts"]
        changed = [v for v, a in zip(e.invars[consts:], args[consts:], strict=True) if isinstance(a, Room)]
        if not all(map(is_last, changed)):
            raise unknown("an array is looked at after a loop that changed it")
        return _while(to, e, args, unknown)
    raise unknown(f"{name} makes an array; steps work on scalars")


def _counts(to: Any, start: str, step: Any, k: int, invars: list[Any]) -> bool:
    """True if the k-th value that a loop carries is the number of the turn: it begins at 0 and grows by 1."""
    made = next((e for e in step.eqns if step.outvars[k] in e.outvars), None)
    if to.width == 1 or to.known_whole(start) != 0 or made is None or made.primitive.name != "add":
        return False
    one, other = made.invars
    return one is invars[k] and isinstance(other, Literal) and other.val == 1


def _while(to: Any, e: Any, args: list[Any], unknown: type[Exception]) -> list[Any]:
    """A loop, of the lanes in `mask`."""
    tests, bodies = e.params["cond_nconsts"], e.params["body_nconsts"]
    known = [a._replace(fixed=True) if isinstance(a, Room) else a for a in args[: tests + bodies]]
    start = args[tests + bodies :]
    kinds = [to.kind_of(v.aval) for v in e.invars[tests + bodies :]]
    label, before, wide = to.new_label("while"), to.mask, to.width > 1
    to.go(label)
    to.label(label)
    to.into(f"{label}_look")
    mark = f"  ; {label}"  # stands for the carried values until the results of the body are known
    to.lines.append(mark)
    carried = [a if isinstance(a, Room) else f"%{label}_{k}" for k, a in enumerate(start)]
    step = e.params["body_jaxpr"].jaxpr
    own = [k for k, a in enumerate(start) if _counts(to, a, step, k, step.invars[bodies:])]
    # Lanes that take part have done all turns before, so they agree on the number of the turn.
    to.trips.update((carried[k], f"%{label}_trip") for k in own)
    memory = to.begin_block()
    (goes,) = to.jaxpr(e.params["cond_jaxpr"], known[:tests] + carried)
    if wide:
        goes = to.op(f"and {to.truth} %{label}_mask, {goes}")
    to.branch(to.any(goes), f"{label}_do", f"{label}_after")
    to.label(f"{label}_do")
    to.mask = goes if wide else ""
    made = to.jaxpr(e.params["body_jaxpr"], known[tests:] + carried)
    phis = []
    for k, (a, new, old, kind) in enumerate(zip(start, made, carried, kinds, strict=True)):
        if isinstance(a, Room):
            if new != a:
                raise unknown("an array changes places with another in a loop")
            continue
        if wide and new != old:
            new = to.op(f"select {to.truth} {goes}, {kind} {new}, {kind} {old}")
        phis.append(f"  %{label}_{k} = phi {kind} [ {a}, %{label} ], [ {new}, %{label}_end ]")
    if wide:
        phis.append(
            f"  %{label}_mask = phi {to.truth} [ {before or to.splat('i1', '1')}, %{label} ], [ {goes}, %{label}_end ]"
        )
    if own:
        more = to.op(f"add i64 %{label}_trip, 1")
        phis.append(f"  %{label}_trip = phi i64 [ 0, %{label} ], [ {more}, %{label}_end ]")
    at = to.lines.index(mark)
    to.lines[at : at + 1] = phis
    to.into(f"{label}_end")
    to.go(f"{label}_look")
    to.label(f"{label}_after")
    for k in own:
        del to.trips[carried[k]]  # Lanes ended in different turns.
    to.mask = before
    to.restore(memory)
    return carried
