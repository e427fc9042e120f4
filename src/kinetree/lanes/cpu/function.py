"""A lane program as one function for a CPU, on a vector of lanes at a time. The function is

    i1 name(ptr inputs[], ptr outputs[], ptr constants[], ptr tables[], i64 turns[], i64 widths[], i64 lanes, i64 lo,
    i64 hi, ptr scratch)

and runs lanes lo to hi (at least one block), a block of W lanes in vector registers at a time. Lane
arrays are (lanes, width), read and written in place: a block is transposed in registers. What is called their width is
how far lanes are apart, which may be more: then `lanes` is 0. The last block may overlap the one before, so outputs
must not alias inputs. Scratch holds W values for each slot, aligned to 64 bytes; where large results are put together
in it (stream.py), slots come after them. Returns whether all results are finite, as far as they have no gaps.
"""

from collections.abc import Iterator
from typing import Any

from .. import tuning
from ..llvm.text import over_blocks, transposed
from ..program.program import Program, Straight
from .apart import call_apart
from .block import BlockWriter
from .stream import streams

SIGNATURE = (
    "ptr noalias readonly %ins, ptr noalias readonly %outs, ptr noalias readonly %consts, ptr noalias readonly %tabs, "
    "ptr noalias readonly %turns, ptr noalias readonly %widths, i64 %lanes, i64 %lo, i64 %hi, ptr noalias %scratch"
)


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
        to.begin(f"i1 @{name}({SIGNATURE})")
        self.inputs = [to.load("ptr", "%ins", k, "ptr") for k in range(program.n_inputs)]
        self.outputs = [to.load("ptr", "%outs", k, "ptr") for k in range(program.n_outputs)]
        self.widths = [to.load("i64", "%widths", k, "i64") for k in range(program.n_inputs + program.n_outputs)]
        count = range(len(program.loops))
        constants = [to.load("ptr", "%consts", k, "ptr") for k in count]
        tables = [to.load("ptr", "%tabs", k, "ptr") for k in count]
        turns = [to.load("i64", "%turns", k, "i64") for k in count]
        self.near = self._room() if width > 1 else []
        self.lists = self._make_lists(turns)
        self.slots = "%scratch"
        self.staged = "false"  # whether results go to scratch memory at first
        self.streams = width > 1 and streams(program)
        if self.apart:
            to.do(f"%places = alloca [{max(1, program.n_outputs)} x ptr]")
        to.do("%good = alloca i1")
        to.store("i1", "true", "%good")
        if self.streams:
            self._make_room()

        def block(lane: str) -> None:
            self.lane = lane
            self.places = self._block_places()
            for k, place in enumerate(self.places if self.apart else ()):
                to.store("ptr", place, "%places", k, "ptr")
            to.go("before0")
            self.body(constants, tables, turns, "look")
            self._look()

        over_blocks(to, width, "%lo", "%hi", block, self._verdict)

    def _loop(self, k: int, arrays: tuple[str, str, str]) -> None:
        """All turns of loop k, here or in its own function."""
        if k in self.apart:
            call_apart(self, self.apart[k], self.program.loops[k], arrays)
        else:
            super()._loop(k, arrays)

    # -- large results ------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Find out whether results go past the caches; slots come after the room for them."""
        to, count = self.to, self.program.n_outputs
        total = "0"
        for width in self.widths[-count:]:
            total = to.op(f"add i64 {total}, {width}")
        long = to.op(f"icmp sge i64 {total}, {tuning.STREAM_MIN_WIDTH}")
        fits = to.op(f"icmp sle i64 {total}, {tuning.STREAM_MAX_BLOCK // (to.width * self.size)}")
        large = to.op(f"icmp sge i64 {to.op(f'mul i64 {total}, %lanes')}, {tuning.STREAM_MIN_BYTES // self.size}")
        self.staged = to.op(f"and i1 {large}, {to.op(f'and i1 {long}, {fits}')}")
        room = to.op(f"select i1 {self.staged}, i64 {total}, i64 0")
        self.slots = to.at("%scratch", to.op(f"mul i64 {room}, {to.width}"), to.scalar)
        self.ahead = to.op(f"select i1 {self.staged}, i64 0, i64 {self.ahead}")  # Nothing is asked for in advance.

    def _block_places(self) -> list[str]:
        """Where results of the block go at first."""
        to, before = self.to, "0"
        places = []
        for base, width in zip(self.outputs, self.widths[self.program.n_inputs :], strict=True):
            final = to.at(base, to.op(f"mul i64 {self.lane}, {width}"), to.scalar)
            if self.streams:
                near = to.at("%scratch", to.op(f"mul i64 {before}, {to.width}"), to.scalar)
                before = to.op(f"add i64 {before}, {width}")
                places.append(to.op(f"select i1 {self.staged}, ptr {near}, ptr {final}"))
            else:
                places.append(final)
        return places

    def _look(self) -> None:
        """Look at the results of the block, and copy them to their places if they are not there."""
        to, widths = self.to, self.widths[self.program.n_inputs :]
        to.label("look")
        to.branch(to.op("icmp sgt i64 %lanes, 0"), "whole", "blockend")
        to.label("whole")
        good = to.load("i1", "%good")
        counts = [to.op(f"mul i64 {width}, {to.width}") for width in widths]
        for place, count in zip(self.places, counts, strict=True):
            good = to.op(f"and i1 {good}, {to.op(f'call i1 @all_finite(ptr {place}, i64 {count})')}")
        to.store("i1", good, "%good")
        if not self.streams:
            to.go("blockend")
            return
        to.branch(self.staged, "copy", "blockend")
        to.label("copy")
        for place, base, width, count in zip(self.places, self.outputs, widths, counts, strict=True):
            final = to.at(base, to.op(f"mul i64 {self.lane}, {width}"), to.scalar)
            to.do(f"call void @stream(ptr {place}, ptr {final}, i64 {count})")
        to.go("blockend")

    def _verdict(self) -> str:
        """The end of the function: whether all results are finite."""
        if self.streams:
            self.to.do("fence seq_cst")  # Before others are told that the results are there.
        return f"i1 {self.to.load('i1', '%good')}"

    # -- lists of turns -----------------------------------------------------------------------------------------------

    def _make_lists(self, turns: list[str]) -> dict[str, tuple[str, str]]:
        """Room for the numbers of turns on each list, and for how many there are."""
        to, found = self.to, {}
        for loop, most in zip(self.program.loops, turns, strict=True):
            if loop.lists is not None and self.program.straight is None:
                found[loop.lists[0]] = to.op(f"alloca i32, i64 {most}"), to.op("alloca i64")
        return found

    # -- whole rows in registers --------------------------------------------------------------------------------------

    def _room(self) -> list[str]:
        """Memory for the columns of a block, one for each array, where lanes come as whole rows: known, and short."""
        known = self.program.straight
        if known is None or not self._short(known):
            return []
        return [self.to.op(f"alloca [{w} x {self.to.real}], align 64") for w in known.widths]

    def straight(self, known: Straight, constants: list[str]) -> None:
        """As for all targets, between fetching the rows of a block, and returning those of the results."""
        if self.near:
            for array in range(self.program.n_inputs):
                self._fetch(array, known.widths[array])
        super().straight(known, constants)
        if self.near:
            for array in range(self.program.n_outputs):
                self._return(array, known.widths[self.program.n_inputs + array])

    def _tiles(self, base: str, columns: int, apart: str, write: int) -> Iterator[tuple[int, int, list[str]]]:
        """First column and columns of each tile of a block, and where its lanes begin; asks for a later block, too."""
        to = self.to
        later = to.op(f"mul i64 {to.op(f'add i64 {self.lane}, {tuning.PREFETCH_BLOCKS * to.width}')}, {apart}")
        rows = [to.op(f"mul i64 {to.op(f'add i64 {self.lane}, {k}')}, {apart}") for k in range(to.width)]
        for column in range(columns):
            to.prefetch(to.at(base, to.op(f"add i64 {later}, {column * to.width}"), to.scalar), write)
        for first in range(0, columns, to.width):
            places = [to.at(base, to.op(f"add i64 {row}, {first}"), to.scalar) for row in rows]
            yield first, min(to.width, columns - first), places

    def _masked(self, count: int) -> str:
        """Which numbers of a vector there are."""
        return "<" + ", ".join(f"i1 {int(k < count)}" for k in range(self.to.width)) + ">"

    def _fetch(self, array: int, columns: int) -> None:
        to = self.to
        name = f"@llvm.masked.load.v{to.width}f{to.bits}.p0"
        to.declare(f"{to.real} {name}(ptr, i32, {to.truth}, {to.real})")
        for first, count, places in self._tiles(self.inputs[array], columns, self.widths[array], 0):
            mask = f"i32 {self.size}, {to.truth} {self._masked(count)}, {to.real} zeroinitializer"
            rows = [to.op(f"call {to.real} {name}(ptr {place}, {mask})") for place in places]
            for k, value in enumerate(transposed(to, to.real, rows)[:count]):
                to.do(f"store {to.real} {value}, ptr {to.at(self.near[array], first + k, to.real)}")

    def _return(self, array: int, columns: int) -> None:
        to = self.to
        name = f"@llvm.masked.store.v{to.width}f{to.bits}.p0"
        to.declare(f"void {name}({to.real}, ptr, i32, {to.truth})")
        number = self.program.n_inputs + array
        near = self.near[number]
        for first, count, places in self._tiles(self.outputs[array], columns, self.widths[number], 1):
            there = [to.op(f"load {to.real}, ptr {to.at(near, first + k, to.real)}") for k in range(count)]
            rows = transposed(to, to.real, there + [self.to.number(0.0)] * (to.width - count))
            mask = f"i32 {self.size}, {to.truth} {self._masked(count)}"
            for place, row in zip(places, rows, strict=True):
                to.do(f"call void {name}({to.real} {row}, ptr {place}, {mask})")
