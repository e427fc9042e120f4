"""Loops of a program as separate functions, compiled by themselves.

LLVM takes far more than twice the time for a function that is twice as long. And a loop does not depend on the robot,
so its function serves all programs that have the loop. The function does all turns of one block:

    void name.W(ptr inputs[], ptr results[], ptr slots, ptr constants, ptr table, i64 turns, ...)

After these come the lists that it makes and follows, if any (turns, count, and for W > 1 what the lanes did). Last
comes the mask of the lanes that take part, if the loop is in a repeat and W > 1.
"""

from collections.abc import Iterator
from typing import Any

from ..llvm.trigonometry import lane_module
from ..program.program import Body, Loop, Program, Repeat
from .block import BlockWriter
from .order import TurnList

KNOWN = "ptr noalias readonly"
PARAMETERS = f"{KNOWN} %ins, {KNOWN} %outs, ptr noalias %slots, {KNOWN} %constants, {KNOWN} %table, i64 %turns"


def masked(body: Body, inside: bool = False) -> Iterator[bool]:
    """For each loop: True if some lanes may have finished when it runs."""
    for part in body:
        if isinstance(part, Repeat):
            yield from masked(part.body, inside or not part.uniform)
        else:
            yield inside


class LoopFunction(BlockWriter):
    """The function of one loop, on `width` lanes at a time."""

    def __init__(self, loop: Loop, jaxpr: Any, width: int, dtype: Any, name: str, in_repeat: bool):
        ins, outs = (1 + max((x.array for x in places), default=-1) for places in (loop.inputs, loop.outputs))
        super().__init__(Program("loop", (loop,), ins, outs), [jaxpr], width, dtype)
        to, self.mask = self.to, "%mask" if in_repeat and width > 1 else ""
        names = enumerate(list_names(loop))
        self.lists = {name: TurnList(f"%turns{k}", f"%count{k}", f"%seen{k}" if width > 1 else "") for k, name in names}
        more = "".join(f", ptr {x}" for one in self.lists.values() for x in one.places)
        more += f", {to.truth} %mask" if self.mask else ""
        to.begin(f"void @{_symbol(name, width)}({PARAMETERS}{more})")
        self.inputs = [to.load("ptr", "%ins", k, "ptr") for k in range(ins)]
        self.outputs = [to.load("ptr", "%outs", k, "ptr") for k in range(outs)]
        self.slots = "%slots"
        self._loop(0, ("%constants", "%table", "%turns"))
        to.end()


def list_names(loop: Loop) -> list[str]:
    """The lists of turns that a loop makes and follows."""
    return ([loop.lists[0]] if loop.lists is not None else []) + ([loop.follows] if loop.follows else [])


def _symbol(name: str, width: int) -> str:
    return f'"{name}.{width}"'


def loop_text(loop: Loop, jaxpr: Any, widths: tuple[int, ...], dtype: Any, name: str, in_repeat: bool) -> str:
    """The module of one loop: its function for each of the widths."""
    text = "\n".join(LoopFunction(loop, jaxpr, width, dtype, name, in_repeat).text() for width in widths)
    return lane_module(text)


def call_apart(caller: Any, name: str, loop: Loop, arrays: tuple[str, str, str]) -> None:
    """Call the function of a loop with the addresses of a `LaneFunction` and its block."""
    to, symbol = caller.to, _symbol(name, caller.to.width)
    constants, table, turns = arrays
    given = [("ptr", x) for x in ("%places", to.at("%places", caller.program.n_inputs, "ptr"), caller.slots)]
    given += [("ptr", constants), ("ptr", table), ("i64", turns)]
    given += [("ptr", x) for one in list_names(loop) for x in caller.lists[one].places if one in caller.lists]
    given += [(to.truth, caller.mask)] if caller.mask else []
    to.declare(f"void @{symbol}({', '.join(kind for kind, _ in given)})")
    to.do(f"call void @{symbol}({', '.join(f'{kind} {x}' for kind, x in given)})")
