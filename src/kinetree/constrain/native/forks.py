"""Where branches leave a tree: what sweeps along it pass on at forks, and gather from branches.

Sweeps carry what a row passes to the next one in registers. A row with several children, a fork, also keeps it in slots
for the branches that come later; on the way back these branches add up there what they leave.
"""

from collections.abc import Callable

import jax
import numpy as np

from kinetree.lanes import Loop

from .memory import FORK, NOTHING
from .parts import Part, Strand, table
from .plan import Plan


def no_columns(rows: Callable[[Plan], np.ndarray]) -> Callable[[Plan], np.ndarray]:
    """The table of turns that name no slots, one for each of some rows."""
    return lambda plan: np.zeros((len(rows(plan)), 0), np.int32)


def at_roots(plan: Plan) -> np.ndarray:
    """The first rows of all trees."""
    return plan.roots


def _late(plan: Plan) -> np.ndarray:
    """Rows that do not come right after their parents."""
    return np.flatnonzero((plan.parent >= 0) & ~plan.first_branch)


def at_forks(field: str) -> Strand:
    """Keep what is carried for the branches that come later."""
    loop = Loop(lambda _, __, ___, own: ((own,), (), (), own), 1, NOTHING, writes=(FORK.at(0, field),))
    return Strand(Part(loop, lambda plan: table(plan.fork(plan.forks))), lambda plan: plan.forks)


def at_branches(field: str) -> Strand:
    """Go on with what the fork has kept."""
    loop = Loop(lambda _, __, reads, ___: ((), (), (), reads[0]), 1, NOTHING, reads=(FORK.at(0, field),))
    return Strand(Part(loop, lambda plan: table(plan.fork(plan.parent[_late(plan)]))), _late)


def forks_inward(field: str) -> tuple[Strand, list[Strand]]:
    """What forks gather from their later branches, added to what is carried; and how branches leave it there.

    The branch that is visited first, the last one, writes, and the others add; after that nothing is carried.
    """
    slots = (FORK.at(0, field),)

    def none(own: object) -> object:
        return jax.tree.map(lambda _: 0.0, own)

    def gather(_: tuple, __: tuple, reads: tuple, own: object) -> tuple:
        return (), (), (), jax.tree.map(lambda a, b: a + b, own, reads[0])

    first = Loop(lambda _, __, ___, own: ((own,), (), (), none(own)), 1, NOTHING, writes=slots, scratch=True)
    more = Loop(lambda _, __, ___, own: ((), (own,), (), none(own)), 1, NOTHING, adds=slots, scratch=True)
    end = Loop(lambda _, __, ___, own: ((), (), (), none(own)), 0, NOTHING)

    def leaving(loop: Loop, last: bool) -> Strand:
        def rows(plan: Plan) -> np.ndarray:
            late = _late(plan)
            return late[plan.last_branch[late] == last]

        return Strand(Part(loop, lambda plan: table(plan.fork(plan.parent[rows(plan)]))), rows)

    gathered = Loop(gather, 1, NOTHING, reads=slots)
    return (
        Strand(Part(gathered, lambda plan: table(plan.fork(plan.forks))), lambda plan: plan.forks),
        [leaving(first, True), leaving(more, False), Strand(Part(end, no_columns(at_roots)), at_roots)],
    )
