"""The operator of a recursion over a tree: the functions that it has, and their laws."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

State = Any  # a pytree of arrays: what flows along the tree; states add up, leaf by leaf, where branches meet
Element = Any  # a pytree of arrays: a stretch of tree, acting on the state that enters it
Row = Any  # a pytree of arrays: the inputs of the recursion for one row


@dataclass(frozen=True)
class TreeRecursion:
    """What recursions in both directions have. All but `step` are for schedules that take stretches of the tree."""

    step: Callable[[Row, State], State]
    element: Callable[..., Element] | None = None
    combine: Callable[[Element, Element], Element] | None = None
    act: Callable[[Element, State], State] | None = None
    identity: Callable[[Element], Element] | None = None
    extend: Callable[..., Element] | None = None
    finds: Callable[[Row, State], tuple[State, Any]] | None = None
    name: str = "operator"

    @property
    def composes(self) -> bool:
        """True if stretches of tree can be taken at once."""
        return None not in (self.element, self.combine, self.act, self.identity)

    def visit(self, row: Row, state: State) -> tuple[State, Any]:
        """The state after a row, and the results of the row."""
        return self.finds(row, state) if self.finds else (self.step(row, state), None)


@dataclass(frozen=True)
class OutwardRecursion(TreeRecursion):
    """A recursion from the base to the leaves: `state[i] = step(row[i], state[parent[i]])`.

    `step` is enough to walk row by row and level by level. To take stretches of the tree at once a schedule also needs
    `element`, `combine` and `act`, with the laws
        act(element(row), s) == step(row, s)
        act(combine(e1, e2), s) == act(e2, act(e1, s))            e1 is the inner one
        combine(identity(e), e) == e
    and to take differences of prefixes (the Euler tour) an `inverse`, with combine(e, inverse(e)) == identity(e).
    `extend` may be given if it is cheaper to append a row than to combine: extend(e, row) == combine(e, element(row)).
    `finds(row, state)` may be given if a row has results beside its state: (step(row, state), results).
    """

    inverse: Callable[[Element], Element] | None = None

    def append(self, e: Element, row: Row) -> Element:
        """A stretch, and one row more at its outer end."""
        return self.extend(e, row) if self.extend else self.combine(e, self.element(row))  # type: ignore[misc]


@dataclass(frozen=True)
class InwardRecursion(TreeRecursion):
    """A recursion from the leaves to the base: `out[i] = step(row[i], sum of out[c] over the children c of i)`.

    With `element(row, branches)` for a row into which some branches have already flowed, the laws are
        act(element(row, b), s) == step(row, b + s)
        act(combine(e1, e2), s) == act(e1, act(e2, s))            e1 is the inner one
    `extend` may be given if it is cheaper to put a row before a stretch than to combine, or if a row has no element:
    extend(row, b, e) == combine(element(row, b), e). `ballast(rows, branches)`, from the rows of a lane, is for
    operators that would be singular at the outer end of a cut: it is a state that is lent to the lane inside the cut
    and taken back from the lane outside, by `lend`, with act(lend(e, s), t) == s + act(e, t). `finds` as for
    `OutwardRecursion`.
    """

    ballast: Callable[[Row, State], State] | None = None
    lend: Callable[[Element, State], Element] | None = None

    def prepend(self, row: Row, branches: State, e: Element) -> Element:
        """A stretch, and one row more at its inner end."""
        return self.extend(row, branches, e) if self.extend else self.combine(self.element(row, branches), e)  # type: ignore[misc]


class MissingProperty(ValueError):
    """An operator lacks a function that the schedule needs."""


def require(ok: bool, operator: TreeRecursion, schedule: str, what: str) -> None:
    """Refuse, with the reason."""
    if not ok:
        raise MissingProperty(f"schedule {schedule!r} needs {what}, which {operator.name!r} does not state")
