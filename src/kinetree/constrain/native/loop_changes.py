"""Rigid loops in derivatives: the forces of their rows are known numbers, and G x − γ is a residual beside the balance.

All rows together are an array of three numbers for each block (loop_plan.py), with zeros where a block has fewer rows.
"""

import numpy as np

from kinetree.lanes import Lane

from .features import Linking
from .links import WIDTH
from .loop_plan import LoopKind
from .loops import HEAD, blocks_slots, both_bodies, followed
from .memory import ROW
from .parts import Part, fill, part, table
from .plan import Plan
from .string_lengths import number


def _every_block(plan: Plan) -> np.ndarray:
    blocks = plan.rigid.blocks()[0]
    return table(blocks, WIDTH * np.arange(len(blocks)))


def rows_width(plan: Plan) -> int:
    """The width of an array of all rows."""
    return WIDTH * len(plan.rigid.blocks()[0])


def rows_slots(plan: Plan, field: str) -> np.ndarray:
    """Slots of a field of all rows."""
    blocks = plan.rigid.blocks()[0]
    return (blocks[:, None] + HEAD.at(0, field).offset + np.arange(WIDTH)).reshape(-1)


def take_rows(array: int, field: str) -> Part:
    """Put an input of all rows into their slots."""
    return part(_every_block, lambda *x: (x,), [Lane(array, 1, k) for k in range(WIDTH)], (HEAD.at(0, field),))


def give_rows(field: str, array: int, sign: float = 1.0) -> Part:
    """Output a field of all rows."""
    outputs = [Lane(array, 1, k) for k in range(WIDTH)]
    return part(_every_block, lambda rows: tuple(sign * x for x in rows), (HEAD.at(0, field),), outputs)


def left_open(f: Linking, array: int, motion: tuple[str, str] = ("a", "x"), asks: str = "wanted") -> list[Part]:
    """Output G x − γ of all rows, as in `find_gaps`."""
    return [*find_gaps(f, motion, asks), give_rows("gap", array)]


def find_gaps(f: Linking, motion: tuple[str, str], asks: str) -> list[Part]:
    """G x − γ of all rows, in `gap`. `motion`: the fields with J x of bodies, and x; `asks`: that with γ, or empty."""
    return [
        *(_gaps_of_frames(kind, motion[0], asks) for kind in f.loops),
        *([_gaps_of_joints(motion[1], asks)] if f.following else []),
    ]


def _gaps_of_frames(kind: LoopKind, motion: str, asks: str) -> Part:
    ends = [k for k in (0, 1) if kind[1][k]]
    pushes, gaps = blocks_slots(kind, 2, "pushes"), blocks_slots(kind, 2, "gap")
    asked = blocks_slots(kind, 2, asks) if asks else ()

    def step(*reads):
        blocks, rest = reads[: len(pushes)], reads[len(pushes) :]
        moved, wanted = rest[: len(ends)], rest[len(ends) :]
        found = [[sum(a.dot(row[k]) for k, a in zip(ends, moved, strict=True)) for row in block] for block in blocks]
        if asks:
            found = [[x - y for x, y in zip(*both, strict=True)] for both in zip(found, wanted, strict=True)]
        return tuple(map(tuple, found))

    reads = (*pushes, *(ROW.at(k, motion) for k in ends), *asked)

    def turns(plan: Plan) -> np.ndarray:
        return table(*both_bodies(plan, kind, plan.row, plan.base(0)), plan.rigid.first(kind)[0])

    return part(turns, step, reads, gaps)


def _gaps_of_joints(motion: str, asks: str) -> Part:
    def step(one, two, slope, *wanted):
        gap = one - slope * two
        return (gap - wanted[0] if asks else gap,)

    fields = ("gap", "slope", *((asks,) if asks else ()))
    reads = (ROW.at(0, motion), ROW.at(1, motion), *(number(3 + k) for k in range(len(fields) - 1)))

    def turns(plan: Plan) -> np.ndarray:
        return table(*map(plan.row, followed(plan)), *map(plan.rigid.follower, fields))

    return part(turns, step, reads, (number(2),))


def want_nothing() -> Part:
    """Set γ to zero."""
    return fill(_every_block, HEAD.at(0, "wanted"), columns=2)
