"""The rest of a batch: lanes that do not fill a block go as a block, or one by one, whichever is quicker.

A block costs as much with one lane as with all. A turn of a block takes a little longer than one of a single lane. But
a block also gathers its results as columns and transposes them, and a single lane writes its row at once. So a block
of few lanes loses if results have many numbers for few turns, such as matrices that are mostly zeros.
"""

from .. import tuning
from ..llvm.text import Text
from ..program.program import Program
from .order import is_ordered

SIGNATURE = (
    "ptr noalias readonly %ins, ptr noalias readonly %outs, ptr noalias readonly %consts, ptr noalias readonly %tabs, "
    "ptr noalias readonly %turns, ptr noalias readonly %widths, i64 %reach, i64 %lo, i64 %hi, ptr noalias %scratch"
)
GIVEN = "ptr %ins, ptr %outs, ptr %consts, ptr %tabs, ptr %turns, ptr %widths, i64 %reach"  # what all parts share


def some_lanes_text(program: Program, width: int) -> str:
    """Definition of `some_lanes`, which runs any number of lanes; the module has `lanes` and `lane`."""
    to = Text("a")
    to.begin(f"internal i1 @some_lanes({SIGNATURE})")
    good = to.variable("i1", "true")
    count = to.op("sub i64 %hi, %lo")
    rest = to.op(f"and i64 {count}, {width - 1}")
    if is_ordered(program):  # a full block takes similar lanes, so the last of them are no rest
        rest = to.op(f"select i1 {to.op(f'icmp eq i64 {count}, 1')}, i64 1, i64 0")
    single = to.variable("i64", rest)
    with to.when(to.op(f"icmp sgt i64 {rest}, 1")):
        to.store("i64", to.op(f"select i1 {_block_is_quicker(to, program, width, rest)}, i64 0, i64 {rest}"), single)
    middle = to.op(f"sub i64 %hi, {to.load('i64', single)}")
    for name, lo, hi in (("lanes", "%lo", middle), ("lane", middle, "%hi")):
        with to.when(to.op(f"icmp slt i64 {lo}, {hi}")):
            now = to.op(f"call i1 @{name}({GIVEN}, i64 {lo}, i64 {hi}, ptr %scratch)")
            to.store("i1", to.op(f"and i1 {to.load('i1', good)}, {now}"), good)
    to.end(f"i1 {to.load('i1', good)}")
    return str(to)


def _block_is_quicker(to: Text, program: Program, width: int, lanes: str) -> str:
    """Whether a block takes less time than a number of single lanes. Time is counted in numbers of a result."""
    arrays, turns, numbers = program.n_inputs + program.n_outputs, "0", "0"
    for k, loop in enumerate(program.loops):
        if not loop.clears:
            turns = to.op(f"add i64 {turns}, {to.load('i64', '%turns', k, 'i64')}")
    for k in range(program.n_outputs):
        numbers = to.op(f"add i64 {numbers}, {to.load('i64', '%widths', arrays + program.n_inputs + k, 'i64')}")

    def time(turn: int, number: int) -> str:
        return to.op(f"add i64 {to.op(f'mul i64 {turns}, {turn}')}, {to.op(f'mul i64 {numbers}, {number}')}")

    one, block = time(tuning.LANE_TURN, 1), time(tuning.BLOCK_TURN, tuning.BLOCK_NUMBER * width // 8)
    return to.op(f"icmp sgt i64 {to.op(f'mul i64 {one}, {lanes}')}, {block}")
