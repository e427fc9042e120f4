"""A lane program as one LLVM function for a CPU: blocks of lanes, one block in vector registers at a time.

    void name(ptr inputs[], ptr outputs[], ptr constants[], ptr tables[], i64 turns[], i64 widths[], i64 lo, i64 hi, ptr scratch)

runs lanes lo to hi (hi − lo at least one block). Lane arrays are (lanes, width), read and written in place: a block of W lanes
is transposed in registers. The last block may overlap the one before, so outputs must not alias inputs. Scratch holds W values
for each slot, aligned to 64 bytes.
"""

from typing import Any

from .emit import Emitter
from .program import Lane, Program, Slots
from .trigonometry import definition

SIGNATURE = (
    "ptr noalias readonly %ins, ptr noalias readonly %outs, ptr noalias readonly %consts, ptr noalias readonly %tabs, "
    "ptr noalias readonly %turns, ptr noalias readonly %widths, i64 %lo, i64 %hi, ptr noalias %scratch"
)
PREFETCH_BLOCKS = 2  # without it a batch larger than the cache runs at a third of the speed


class LaneFunction:
    """Writes the function; `text()` is the whole module's worth of definitions and declarations."""

    def __init__(self, program: Program, jaxprs: list[Any], width: int, dtype: Any, name: str):
        self.program, self.jaxprs, self.name = program, jaxprs, name
        self.to = Emitter(width, dtype)
        self.size = self.to.dtype.itemsize
        self._write()

    def text(self) -> str:
        """Declarations and definitions."""
        helper = Emitter(self.to.width, self.to.dtype)
        definition(helper)
        declarations = sorted(self.to.declarations | helper.declarations)
        return "\n".join([*declarations, str(helper), str(self.to)])

    def _write(self) -> None:
        to, program = self.to, self.program
        to.lines.append(f"define void @{self.name}({SIGNATURE}) {{")
        to.label("entry")
        self.inputs = [to.load("ptr", "%ins", k, "ptr") for k in range(program.n_inputs)]
        self.outputs = [to.load("ptr", "%outs", k, "ptr") for k in range(program.n_outputs)]
        self.widths = [to.load("i64", "%widths", k, "i64") for k in range(program.n_inputs + program.n_outputs)]
        count = range(len(program.loops))
        constants = [to.load("ptr", "%consts", k, "ptr") for k in count]
        tables = [to.load("ptr", "%tabs", k, "ptr") for k in count]
        turns = [to.load("i64", "%turns", k, "i64") for k in count]
        last = to.op(f"sub i64 %hi, {to.width}")
        to.go("block")
        to.label("block")
        to.lines.append("  %next = phi i64 [ %lo, %entry ], [ %after, %blockend ]")
        before = to.op(f"icmp slt i64 %next, {last}")
        self.lane = to.op(f"select i1 {before}, i64 %next, i64 {last}")
        to.go("before0")
        for k in count:
            self._loop(k, constants[k], tables[k], turns[k], f"before{k + 1}" if k + 1 < len(count) else "blockend")
        to.label("blockend")
        to.lines.append(f"  %after = add i64 %next, {to.width}")
        to.branch(to.op("icmp slt i64 %after, %hi"), "block", "done")
        to.label("done")
        to.do("ret void")
        to.lines.append("}")

    def _loop(self, k: int, constants: str, table: str, turns: str, after: str) -> None:
        to, loop = self.to, self.program.loops[k]
        to.label(f"before{k}")
        to.branch(to.op(f"icmp sgt i64 {turns}, 0"), f"turn{k}", after)
        to.label(f"turn{k}")
        to.lines.append(f"  %t{k} = phi i64 [ 0, %before{k} ], [ %u{k}, %turn{k} ]")
        to.begin_block()
        row = to.at(table, to.op(f"mul i64 %t{k}, {loop.columns}"), "i32")
        self.columns = [to.op(f"sext i32 {to.load('i32', row, j, 'i32')} to i64") for j in range(loop.columns)]
        count = loop.constants.num_leaves
        first = to.at(constants, to.op(f"mul i64 %t{k}, {count}"), to.scalar)
        aligned = f", align {self.size}"
        values = [to.broadcast(to.load(to.scalar, first, j, to.scalar, aligned)) for j in range(count)]
        values += [self._input(x) for x in loop.inputs]
        values += [v for slots in loop.reads for v in self._read(slots)]
        results = iter(to.jaxpr(self.jaxprs[k], values))
        for slots in loop.writes:
            self._write_slots(slots, [next(results) for _ in range(slots.count)])
        for slots in loop.adds:
            held = self._read(slots)
            self._write_slots(slots, [to.arithmetic("fadd", v, next(results)) for v in held])
        for x in loop.outputs:
            self._output(x, next(results))
        to.lines.append(f"  %u{k} = add i64 %t{k}, 1")
        to.branch(to.op(f"icmp slt i64 %u{k}, {turns}"), f"turn{k}", after)

    # -- slots ---------------------------------------------------------------------------------------------------------

    def _slot(self, slots: Slots, i: int) -> str:
        number = self.to.op(f"add i64 {self.columns[slots.column]}, {slots.offset + i}")
        return self.to.at("%scratch", self.to.op(f"mul i64 {number}, {self.to.width}"), self.to.scalar)

    def _read(self, slots: Slots) -> list[str]:
        aligned = f", align {self.size * self.to.width}"
        return [self.to.op(f"load {self.to.real}, ptr {self._slot(slots, i)}{aligned}") for i in range(slots.count)]

    def _write_slots(self, slots: Slots, values: list[str]) -> None:
        for i, value in enumerate(values):
            self.to.do(f"store {self.to.real} {value}, ptr {self._slot(slots, i)}, align {self.size * self.to.width}")

    # -- lane arrays -----------------------------------------------------------------------------------------------------

    def _place(self, base: str, width: str, x: Lane, write: int) -> str:
        """Address of this scalar in the first lane of the block; asks for a block further on at the same time."""
        to = self.to
        column = to.op(f"add i64 {self.columns[x.column]}, {x.offset}")
        if to.width > 1:
            # a block of W lanes is `width` vectors in a row: turn by turn, fetch one of those of a later block
            ahead = to.op(f"mul i64 {to.op(f'add i64 {self.lane}, {PREFETCH_BLOCKS * to.width}')}, {width}")
            ahead = to.op(f"add i64 {ahead}, {to.op(f'mul i64 {column}, {to.width}')}")
            to.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            to.do(f"call void @llvm.prefetch.p0(ptr {to.at(base, ahead, to.scalar)}, i32 {write}, i32 3, i32 1)")
        return to.at(base, to.op(f"add i64 {to.op(f'mul i64 {self.lane}, {width}')}, {column}"), to.scalar)

    def _input(self, x: Lane) -> str:
        to, width = self.to, self.widths[x.array]
        place = self._place(self.inputs[x.array], width, x, 0)
        value = "poison"
        for lane in range(to.width):
            one = to.op(f"load {to.scalar}, ptr {place}, align {self.size}")
            if to.width == 1:
                return one
            value = to.op(f"insertelement {to.real} {value}, {to.scalar} {one}, i32 {lane}")
            place = to.at(place, width, to.scalar)
        return value

    def _output(self, x: Lane, value: str) -> None:
        to, width = self.to, self.widths[self.program.n_inputs + x.array]
        place = self._place(self.outputs[x.array], width, x, 1)
        for lane in range(to.width):
            one = value if to.width == 1 else to.op(f"extractelement {to.real} {value}, i32 {lane}")
            to.do(f"store {to.scalar} {one}, ptr {place}, align {self.size}")
            if to.width > 1:
                place = to.at(place, width, to.scalar)
