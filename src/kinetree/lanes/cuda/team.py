"""A lane program as a CUDA kernel, a lane to a team of threads, with slots in shared memory.

A program with repeats reads its slots again and again, and the slots of many lanes fit no cache. So here the slots of a
lane are in shared memory while a multiprocessor works on it, and a team of threads divides its turns
(program/teams.py). The threads synchronise after each round. In each slot the teams of a warp lie side by side.
"""

from typing import Any

import numpy as np

from .. import tuning
from ..llvm.emit import trace
from ..program.program import Loop, Program, Slots
from ..program.teams import Teams, sums_of
from .ptx import GLOBAL, Assembly, CudaWriter, assembled, global_thread, gpu_module, threads_of_grid
from .tile import SHARED, WARP, tile_memory

ALL = -1  # the mask of all threads of a warp
RESERVED_BYTES = 1024  # bytes of shared memory that the system takes in each block
MAX_BLOCKS_PER_MULTIPROCESSOR = 32  # of a multiprocessor
TEAM_SIZES = (2, 4, 8, 16, 32)
LOOKS = 8  # rounds whose conditions are tested together


def team_size(teams: Teams, itemsize: int) -> int:
    """Threads of a team, such that the lanes that fit on a multiprocessor keep it busy; 0 if no lane fits.

    A round has a latency, and its instructions take time in each warp. The size depends only on the program and the
    mechanism, so that results do not depend on the number of lanes.
    """

    def time(size: int) -> float:
        """Cycles of a lane."""
        rounds, lanes = teams.length(size), resident_lanes(teams.hot, itemsize, size, 1)
        return rounds * max(tuning.GPU_ROUND_CYCLES / lanes, tuning.GPU_ROUND_ISSUE_CYCLES * size / WARP)

    fitting = [s for s in TEAM_SIZES if team_bytes(teams.hot, itemsize, s) <= tuning.GPU_SHARED_BYTES]
    return min(fitting, key=time, default=0)


def resident_lanes(slots: int, itemsize: int, size: int, multiprocessors: int) -> int:
    """How many lanes the device works on at the same time."""
    blocks = tuning.GPU_SHARED_BYTES // (team_bytes(slots, itemsize, size) + RESERVED_BYTES)
    return multiprocessors * min(MAX_BLOCKS_PER_MULTIPROCESSOR, max(1, blocks)) * (WARP // size)


def team_bytes(slots: int, itemsize: int, size: int) -> int:
    """Shared memory of a block, which is one warp."""
    return slots * itemsize * (WARP // size)


def _skips(loop: Loop) -> bool:
    """True if rounds can be skipped: no turn changes the condition of another one."""
    return loop.when is not None and loop.when.column is not None and (loop.rare or bool(loop.follows))


class TeamKernel(CudaWriter):
    """The kernel for teams of `size` threads.

    All teams of a warp take the same branch if one of them needs it, so they can synchronise without a mask. There are
    as many teams as the device works on at the same time, and each takes one lane after the other.
    """

    def __init__(self, program: Program, jaxprs: list[Any], dtype: Any, size: int):
        super().__init__(program, jaxprs, dtype)
        to, self.team, self.side_by_side = self.to, size, True
        self.begin()
        whole, thread = global_thread(to)
        shift = size.bit_length() - 1
        place = to.op(f"lshr i64 {whole}, {shift}")  # number of the team among all that work at the same time
        self.member = to.op(f"and i64 {thread}, {size - 1}")
        own = to.op(f"lshr i64 {thread}, {shift}")  # number of the team in its warp
        self.memory = to.op(f"getelementptr {to.scalar}, {SHARED} @tile, i64 {own}")
        self.first = to.op(f"trunc i64 {to.op(f'shl i64 {own}, {shift}')} to i32")  # first member, in the warp
        row = to.op(f"mul i64 {place}, %room")
        self.attic = to.op(f"getelementptr {to.scalar}, {GLOBAL} %scratch, i64 {row}")
        self.sums: dict[Slots, list[str]] = {}
        teams = to.op(f"lshr i64 {threads_of_grid(to)}, {shift}")
        to.into("nextlane")
        self.lane = "%lane"
        to.lines.append(f"  %lane = phi i64 [ {place}, %entry ], [ %lane_next, %laneend ]")
        self.mask = to.op("icmp slt i64 %lane, %lanes")
        to.branch(self.any(self.mask), "before0", "done")
        self.loops("laneend")
        to.lines.append(f"  %lane_next = add i64 %lane, {teams}")
        to.go("nextlane")
        to.label("done")
        self.end()

    def _cell(self, number: str, cold: bool) -> str:
        if cold:
            return f"{GLOBAL} {self.to.op(f'getelementptr {self.to.scalar}, {GLOBAL} {self.attic}, i64 {number}')}"
        row = f"[{WARP // self.team} x {self.to.scalar}]"
        return f"{SHARED} {self.to.op(f'getelementptr {row}, {SHARED} {self.memory}, i64 {number}, i64 0')}"

    def read_slot(self, number: str, cold: bool = False) -> str:
        """From shared memory, or from the device's."""
        return self.to.op(f"load {self.to.scalar}, {self._cell(number, cold)}")

    def write_slot(self, number: str, value: str, cold: bool = False) -> None:
        """To shared memory, or to the device's."""
        self.to.do(f"store {self.to.scalar} {value}, {self._cell(number, cold)}")

    def meet(self) -> None:
        """Synchronise the threads of the warp; writes of the others are then visible."""
        self.to.declare("void @llvm.nvvm.bar.warp.sync(i32)")
        self.to.do(f"call void @llvm.nvvm.bar.warp.sync(i32 {ALL})")

    def any(self, truths: str) -> str:
        """True if the condition holds for a thread of the warp. This also synchronises: earlier reads are done."""
        self.to.declare("i1 @llvm.nvvm.vote.any.sync(i32, i1)")
        return self.to.op(f"call i1 @llvm.nvvm.vote.any.sync(i32 {ALL}, i1 {truths})")

    def add(self, slots: Slots, values: list[str]) -> None:
        """Add to slots, or to the sums of this member."""
        if slots not in self.sums:
            super().add(slots, values)
            return
        pairs = zip(self.sums[slots], values, strict=True)
        self.sums[slots] = [self.to.op(f"fadd {self.to.real} {a}, {b}") for a, b in pairs]

    def _round(self, k: int, number: str, table: str) -> list[str]:
        """The number of this member's turn in a round of loop k, and the row of the table for it."""
        place = self.to.op(f"add i64 {self.to.op(f'mul i64 {number}, {self.team}')}, {self.member}")
        return self._entries(place, table, 1 + self.program.loops[k].columns)

    def _loop(self, k: int, arrays: tuple[str, str, str]) -> None:
        """All rounds of loop k. A member without a turn in a round waits for the others.

        The row for the next round is loaded before this round is done. If no turn changes the condition of another one,
        rounds without work for the warp are skipped, `LOOKS` at a time.
        """
        to, loop, label, active = self.to, self.program.loops[k], f"loop{k}", self.mask
        constants, table, rounds = arrays
        sums = sums_of(loop)
        total = range(sum(s.count for s in sums))
        to.go(label)
        to.label(label)
        to.branch(to.op(f"icmp sgt i64 {rounds}, 0"), f"{label}_first", f"{label}_after")
        to.label(f"{label}_first")
        first = self._round(k, "0", table)
        last = to.op(f"sub i64 {rounds}, 1")
        skips = _skips(loop)
        head = f"{label}_head" if skips else f"{label}_round"
        to.into(head)

        def carried(name: str, kind: str, start: str, stays: str = "_skip") -> str:
            value = f"%{label}_{name}"
            ways = f"[ {start}, %{label}_first ], [ {value}_next, %{label}_met ]"
            ways += f", [ {value}{stays}, %{label}_skip ]" if skips else ""
            to.lines.append(f"  {value} = phi {kind} {ways}")
            return value

        number = carried("number", "i64", "0")
        entries = [carried(f"entry{j}", "i32", x) for j, x in enumerate(first)]
        own = [carried(f"sum{j}", to.real, to.number(0.0), stays="") for j in total]
        if skips:
            self._skip(k, number, last, table)
        end = to.op(f"icmp eq i64 {number}, {last}")
        to.lines.append(f"  {number}_next = add i64 {number}, 1")
        following = self._round(k, to.op(f"select i1 {end}, i64 {last}, i64 {number}_next"), table)
        turn, *self.columns = self._wide(entries)
        mine = to.op(f"and i1 {active}, {to.op(f'icmp sge i64 {turn}, 0')}")
        names = iter(own)
        self.sums = {s: [next(names) for _ in range(s.count)] for s in sums}
        idle = (self._one_by_one if loop.rare else self._all_at_once)(k, turn, mine, constants)
        to.label(f"{label}_met")
        for j, value in enumerate(x for s in sums for x in self.sums[s]):
            ways = ", ".join(f"[ {own[j]}, %{way} ]" for way in idle)
            to.lines.append(f"  {own[j]}_next = phi {to.real} {ways}, [ {value}, %{label}_done ]")
        self.sums = {}
        self.meet()
        for j, entry in enumerate(following):
            to.lines.append(f"  %{label}_entry{j}_next = add i32 {entry}, 0")
        to.branch(end, f"{label}_after", head)
        to.label(f"{label}_after")
        if total:
            self._join(label, sums, skips)

    def _skip(self, k: int, number: str, last: str, table: str) -> None:
        """Before some rounds: skip them if no member of the warp has work; else go to the first."""
        to, loop, label = self.to, self.program.loops[k], f"loop{k}"
        assert loop.when is not None
        assert loop.when.column is not None
        begins = to.op(f"icmp eq i64 {to.op(f'and i64 {number}, {LOOKS - 1}')}, 0")
        enough = to.op(f"icmp sle i64 {to.op(f'add i64 {number}, {LOOKS - 1}')}, {last}")
        to.branch(to.op(f"and i1 {begins}, {enough}"), f"{label}_look", f"{label}_round")
        to.label(f"{label}_look")
        asked: list[tuple[str, str]] = []
        for j in range(LOOKS):
            there = to.op(f"mul i64 {to.op(f'add i64 {number}, {j}')}, {self.team}")
            place = to.op(f"add i64 {there}, {self.member}")
            turn = to.op(f"mul i64 {place}, {1 + loop.columns}")
            condition = to.op(f"add i64 {turn}, {1 + loop.when.column}")
            asked.append((self.constant("i32", table, turn), self.constant("i32", table, condition)))
        some = "false"
        for turn, condition in asked:
            slot = to.op(f"add i64 {to.op(f'sext i32 {condition} to i64')}, {loop.when.offset}")
            acts = to.op(f"fcmp une {to.real} {self.read_slot(slot, loop.when.cold)}, {to.number(0.0)}")
            acts = to.op(f"and i1 {acts}, {to.op(f'icmp sge i32 {turn}, 0')}")
            some = to.op(f"or i1 {some}, {acts}")
        to.branch(self.any(to.op(f"and i1 {some}, {self.mask}")), f"{label}_round", f"{label}_skip")
        to.label(f"{label}_skip")
        to.lines.append(f"  {number}_skip = add i64 {number}, {LOOKS}")
        past = to.op(f"icmp sgt i64 {number}_skip, {last}")
        there = to.op(f"select i1 {past}, i64 {last}, i64 {number}_skip")
        for j, entry in enumerate(self._round(k, there, table)):
            to.lines.append(f"  %{label}_entry{j}_skip = add i32 {entry}, 0")
        to.branch(past, f"{label}_after", f"{label}_head")
        to.label(f"{label}_round")

    def _acts(self, k: int) -> str:
        """True if the condition of loop k holds in this turn."""
        when = self.program.loops[k].when
        assert when is not None
        return self.to.op(f"fcmp une {self.to.real} {self.read_slot(self._slots(when)[0])}, {self.to.number(0.0)}")

    def _done(self, k: int, turn: str, constants: str, then: str) -> None:
        """A turn of a member that takes part."""
        active, self.mask = self.mask, ""  # only members that take part get here
        self._turn(k, turn, constants)
        self.mask = active
        self.to.into(f"loop{k}_done")
        self.to.go(then)

    def _all_at_once(self, k: int, turn: str, mine: str, constants: str) -> list[str]:
        """The turns of a round. Returns the labels from which members without a turn come."""
        to, label = self.to, f"loop{k}"
        to.branch(mine, f"{label}_mine", f"{label}_met")
        to.label(f"{label}_mine")
        idle = [f"{label}_round"]
        if self.program.loops[k].when is not None:
            to.branch(self._acts(k), f"{label}_do", f"{label}_met")
            to.label(f"{label}_do")
            idle.append(f"{label}_mine")
        self._done(k, turn, constants, f"{label}_met")
        return idle

    def _one_by_one(self, k: int, turn: str, mine: str, constants: str) -> list[str]:
        """A round of a rare loop: in every team, the members that have a turn do it one after the other."""
        to, label = self.to, f"loop{k}"
        to.branch(mine, f"{label}_mine", f"{label}_asked")
        to.label(f"{label}_mine")
        acts = self._acts(k)
        to.into(f"{label}_asked")
        to.lines.append(f"  %{label}_acts = phi i1 [ false, %{label}_round ], [ {acts}, %{label}_mine ]")
        to.declare("i32 @llvm.nvvm.vote.ballot.sync(i32, i1)")
        members = (1 << self.team) - 1 if self.team < WARP else ALL
        warp = to.op(f"call i32 @llvm.nvvm.vote.ballot.sync(i32 {ALL}, i1 %{label}_acts)")
        team = to.op(f"and i32 {to.op(f'lshr i32 {warp}, {self.first}')}, {members}")
        to.into(f"{label}_serve")
        to.lines.append(
            f"  %{label}_left = phi i32 [ {team}, %{label}_asked ], [ %{label}_left_next, %{label}_served ]"
        )
        to.branch(self.any(to.op(f"icmp ne i32 %{label}_left, 0")), f"{label}_turn", f"{label}_met")
        to.label(f"{label}_turn")
        lowest = to.op(f"and i32 %{label}_left, {to.op(f'sub i32 0, %{label}_left')}")
        own = to.op(f"shl i32 1, {to.op(f'trunc i64 {self.member} to i32')}")
        to.branch(to.op(f"icmp eq i32 {lowest}, {own}"), f"{label}_do", f"{label}_served")
        to.label(f"{label}_do")
        self._done(k, turn, constants, f"{label}_served")
        to.label(f"{label}_served")
        self.meet()
        to.lines.append(f"  %{label}_left_next = xor i32 %{label}_left, {lowest}")
        to.go(f"{label}_serve")
        return []

    def _join(self, label: str, sums: tuple[Slots, ...], skips: bool) -> None:
        """Add the sums of all members to their slots."""
        to = self.to
        numbers = [number for s in sums for number in self._slots(s.whole)]
        values = []
        for j in range(len(numbers)):
            ways = f"[ {to.number(0.0)}, %{label} ], [ %{label}_sum{j}_next, %{label}_met ]"
            ways += f", [ %{label}_sum{j}, %{label}_skip ]" if skips else ""
            to.lines.append(f"  %{label}_whole{j} = phi {to.real} {ways}")
            values.append(f"%{label}_whole{j}")
        step = 1
        while step < self.team:
            values = [to.op(f"fadd {to.real} {x}, {self._of_partner(x, step)}") for x in values]
            step *= 2
        writes = to.op(f"and i1 {self.mask}, {to.op(f'icmp eq i64 {self.member}, 0')}")
        to.branch(writes, f"{label}_join", f"{label}_joined")
        to.label(f"{label}_join")
        for number, value in zip(numbers, values, strict=True):
            self.write_slot(number, to.op(f"fadd {to.real} {self.read_slot(number)}, {value}"))
        to.into(f"{label}_joined")
        self.meet()

    def _of_partner(self, value: str, step: int) -> str:
        """The value of the member whose number differs in one bit."""
        return self.shuffled("bfly", str(ALL), value, f"i32 {step}, i32 {WARP - 1}")


def team_text(program: Program, dtype: Any, size: int) -> str:
    """The whole LLVM module of the kernel."""
    kernel = TeamKernel(program, [trace(loop, dtype) for loop in program.loops], dtype, size)
    return gpu_module(tile_memory(kernel.to.scalar), kernel.text())


def team_ptx(program: Program, dtype: Any, size: int, chip: int = 90) -> Assembly:
    """PTX of a program for chips of this compute capability and newer."""
    made_from, name = (program, size), f"{program.name}_team"
    return assembled(name, made_from, np.dtype(dtype), chip, lambda: team_text(program, dtype, size), passes=0)
