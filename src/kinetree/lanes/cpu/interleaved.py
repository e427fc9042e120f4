"""The order of one turn's loads, operations and stores.

A turn of a sweep has a hundred values, a processor 16 registers. So each result is computed in its turn, with what it
needs and nobody has computed yet, and stored at once. What a turn reads is loaded where it is needed, a second time if
need be: a load costs less than to keep a value on the stack. A slot that will be needed is loaded before a store that
might change it. LLVM keeps this order, because it does not know which slots are different.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax.extend.core import Literal

from .. import tuning
from ..llvm.emit import Emitter, Evaluation, Late
from ..program.program import Slots


class Place(NamedTuple):
    """One slot that a turn names."""

    column: int | None
    offset: int
    block: int
    apart: bool = False

    def may_be(self, other: "Place") -> bool:
        """True if a turn can mean the same slot by both."""
        if self.apart or other.apart:
            return False
        if self.column == other.column or (self.block and other.block):
            return self.offset == other.offset and (self.block == other.block or self.column == other.column)
        return True


def places(groups: tuple[Slots, ...]) -> list[Place]:
    """All slots that are named, one by one."""
    return [Place(s.column, s.offset + i, s.block, s.apart) for s in groups for i in range(s.count)]


def interleaved(
    to: Emitter,
    closed: Any,
    given: tuple[list[Any], list[Any]],
    reads: Sequence[tuple[Place, Callable[[], str]]],
    results: Sequence[tuple[Place | None, Callable[[str], None]]],
) -> None:
    """Emit a step. Its arguments are the first of what is `given`, `reads` (slots, and how to load them), and the rest.

    `results` are slots and how to store there; those without a slot go elsewhere.
    """
    jaxpr = closed.jaxpr
    work = Evaluation(to, closed, [*given[0], *(Late(load) for _, load in reads), *given[1]])
    makers = {v: k for k, e in enumerate(jaxpr.eqns) for v in e.outvars}
    slots = list(zip(jaxpr.invars[len(given[0]) :], (place for place, _ in reads), strict=False))
    left = work.uses.copy()  # uses of each variable that are still to come
    often = sorted((v for v, _ in slots if work.uses[v] >= tuning.KEPT_MIN_USES), key=lambda v: -work.uses[v])
    for v in often[: tuning.KEPT_SLOTS if to.width * to.dtype.itemsize == 64 else 0]:
        work.known[v].kept = True

    def make(v: Any) -> None:
        """Emit what a variable needs, the operands first."""
        waiting = [v]
        while waiting:
            number = None if isinstance(waiting[-1], Literal) else makers.get(waiting[-1])
            operands = [] if number is None else jaxpr.eqns[number].invars
            missing = [x for x in operands if not isinstance(x, Literal) and x not in work.known]
            if missing:
                waiting += missing[::-1]
                continue
            v = waiting.pop()
            if number is not None and v not in work.known:
                work.do(number)
                left.subtract(x for x in operands if not isinstance(x, Literal))

    for v, (place, store) in zip(jaxpr.outvars, results, strict=True):
        make(v)
        value = work.computed(v)
        if not isinstance(v, Literal):
            left[v] -= 1
        for x, slot in slots:
            if place is not None and left[x] > 0 and slot.may_be(place):
                work.settle(x)
        store(value)
