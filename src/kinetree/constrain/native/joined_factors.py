"""The matrix of several trees whose bodies touch (joined.py): its factors, and solutions by them, in blocks of six."""

from typing import Any

import numpy as np

from kinetree._arrays import there
from kinetree.lanes import Loop, Slots

from .joined_plan import BLOCKS, CELL, SOLUTION, WIDTH, WORKS, Joined
from .memory import NOTHING, NUMBER
from .parts import Part, added, part
from .plan import Plan


def joined_of(plan: Plan) -> Joined:
    """The matrix of a plan that has one."""
    return there(plan.joined)


def _entry(column: int, r: int, c: int) -> Slots:
    """A number of a block."""
    return CELL.at(column, "k")._replace(offset=WIDTH * r + c, tree=NUMBER)


LOWER = [(r, c) for r in range(WIDTH) for c in range(r + 1)]  # entries of a block on the diagonal that are in use
LOW = len(LOWER)


def lower_slots(column: int) -> tuple[Slots, ...]:
    """The entries of a block on the diagonal that are in use."""
    return tuple(_entry(column, r, c) for r, c in LOWER)


def lower(rows: list[tuple]) -> tuple:
    """The same of a matrix, given row by row."""
    return tuple(rows[r][c] for r, c in LOWER)


def _filled(k: tuple) -> tuple:
    """A block, row by row, from its entries below the diagonal and on it."""
    own = dict(zip(LOWER, k, strict=True))
    return tuple(own.get((r, c)) for r in range(WIDTH) for c in range(WIDTH))


def _less(x: Any, a: Any, b: Any) -> Any:
    """x − aᵀ b."""
    for one, two in zip(a, b, strict=True):
        x = x - one * two
    return x


def _factors(k: tuple) -> tuple[list[list[Any]], list[Any]]:
    """L below its diagonal of ones, row by row, and the inverse of D, of a symmetric block: L D Lᵀ."""
    L, inverse = [list(k[WIDTH * r : WIDTH * r + r]) for r in range(WIDTH)], []
    for j in range(WIDTH):
        scaled = [a * b for a, b in zip(L[j], inverse, strict=True)]
        inverse.append(1 / _less(k[(WIDTH + 1) * j], L[j], scaled))
        for i in range(j + 1, WIDTH):
            L[i][j] = _less(L[i][j], L[i][:j], scaled)
        L[j] = scaled
    return L, inverse


def _forward(L: list[list[Any]], x: tuple) -> list[Any]:
    """L⁻¹ x."""
    y: list[Any] = []
    for i in range(WIDTH):
        y.append(_less(x[i], L[i], y))
    return y


def _solved(L: list[list[Any]], inverse: Any, x: tuple) -> tuple:
    """The block's inverse times a vector."""
    y = _forward(L, x)
    for i in reversed(range(WIDTH)):
        y[i] = _less(y[i] * inverse[i], [L[r][i] for r in range(i + 1, WIDTH)], y[i + 1 :])
    return tuple(y)


def _factor_slots(column: int) -> tuple[Slots, Slots]:
    return SOLUTION.at(column, "low"), SOLUTION.at(column, "inverse")


def _unpacked(low: tuple) -> list[list[Any]]:
    return [list(low[r * (r - 1) // 2 : r * (r + 1) // 2]) for r in range(WIDTH)]


def dot(a: Any, b: Any) -> Any:
    """aᵀ b."""
    return sum((x * y for x, y in zip(a[1:], b[1:], strict=True)), start=a[0] * b[0])


def factored() -> list[Part]:
    """Factors of the matrix."""
    order = [(r, c) for c in range(WIDTH) for r in range(WIDTH)]  # column by column: each needs one solution

    def halves(L: list[list[Any]], block: tuple) -> list[list[Any]]:
        """L⁻¹ times each row of a block."""
        return [_forward(L, block[WIDTH * r : WIDTH * (r + 1)]) for r in range(WIDTH)]

    def less(target: Any, of: Any, one: Any, two: Any, inverse: Any) -> tuple:
        """Entries of a block less those of the product of two blocks, by their halves."""
        scaled = [[a * b for a, b in zip(y, inverse, strict=True)] for y in two]
        return tuple(t - dot(one[r], scaled[c]) for t, (r, c) in zip(target, of, strict=True))

    def eliminate(pivot, one, two, *target):
        L, inverse = _factors(pivot)
        return less(target, order, halves(L, one), halves(L, two), inverse)

    def eliminate_here(_: tuple, __: tuple, reads: tuple) -> tuple:
        pivot, one, target = _filled(reads[:LOW]), reads[LOW], reads[LOW + 1 :]
        L, inverse = _factors(pivot)
        half = halves(L, one)
        return less(target, LOWER, half, half, inverse), (), ()

    def factor(*reads):
        L, inverse = _factors(reads[0])
        return (tuple(x for row in L for x in row), tuple(inverse))

    target = tuple(_entry(3, r, c) for r, c in order)
    reads = (*(CELL.at(k, "k")._replace(apart=True) for k in range(3)), *target)
    here = lower_slots(3)
    own = (*(s._replace(apart=True) for s in lower_slots(0)), reads[1], *here)
    special = Loop(eliminate_here, 5, NOTHING, reads=own, writes=here)
    options = {"scratch": True, "follows": WORKS, "special": (4, special), "columns": 5}
    return [
        part(lambda plan: joined_of(plan).eliminations("cells"), eliminate, reads, target, **options),
        part(lambda plan: joined_of(plan).diagonal(), factor, (CELL.at(0, "k"),), _factor_slots(1), scratch=True),
    ]


def substituted() -> list[Part]:
    """The solution, forward and back."""

    def substitute(back: bool) -> Part:
        def step(block, t, low, inverse):
            answer = _solved(_unpacked(low), inverse, t)
            across = [block[c::WIDTH] if back else block[WIDTH * c : WIDTH * (c + 1)] for c in range(WIDTH)]
            return (tuple(-dot(row, answer) for row in across),)

        def turns(plan: Plan) -> np.ndarray:
            return joined_of(plan).below()[::-1].copy() if back else joined_of(plan).below()

        known, asks = (2, 1) if back else (1, 2)
        reads = (CELL.at(0, "k"), SOLUTION.at(known, "t"), *_factor_slots(known))
        options = {"scratch": True, "follows": BLOCKS, "backward": back, "columns": 4}
        return part(turns, step, reads, added(SOLUTION.at(asks, "t")), **options)

    def answer(t, low, inverse):
        return (_solved(_unpacked(low), inverse, t),)

    own = SOLUTION.at(1, "t")
    done = part(lambda plan: joined_of(plan).diagonal(), answer, (own, *_factor_slots(1)), (own,), scratch=True)
    return [substitute(False), substitute(True), done]
