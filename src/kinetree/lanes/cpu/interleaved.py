"""The order of one turn's loads, operations and stores.

A turn of a sweep has a hundred values, a processor has 16 registers. So the results are computed one after the other,
each with those values that it needs and that do not exist yet, and each is stored at once. A slot is loaded where its
value is needed, twice if necessary: a load costs less than to keep the value on the stack. If a store might change a
slot that is still needed, the slot is loaded before it. LLVM keeps this order, because it does not know which slots are
different.
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
        """True if both can be the same slot in some turn."""
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
    """Emit a step. Its arguments are `given[0]`, then the `reads` (slots, and how to load them), then `given[1]`.

    `results` are slots and how to store there. Results without a slot go elsewhere.
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
        """Emit the equations that a variable needs, the operands first."""
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
