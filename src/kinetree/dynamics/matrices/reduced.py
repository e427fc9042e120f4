"""Forward dynamics of mechanisms with mimic joints, as one lane program: (Gᵀ H G) qdd = tau − Gᵀ C.

The passes of RNEA and CRBA find C and H of the free mechanism in one run, and leave them in slots. They are added up to
the reduced C and H. The reduced H is factorized and solved in place, as that of a tree (ltdl_lanes.py): Gᵀ H G is as
sparse as the mass matrix of another tree, the elimination tree of its entries. There a coupled joint is where the
branches that it moves meet.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from kinetree.dynamics.recursion import Algorithm, Share
from kinetree.lanes import NOTHING, NUMBER, Lane, Loop, Program, slot
from kinetree.lanes.kept.once import once
from kinetree.model import Model
from kinetree.spatial import Inertia

from ..algorithms.crba import CRBA
from ..algorithms.rnea import RNEA
from ..closed_form.shape import Skeleton
from ..elements.articulated import firm
from ..schedules.lane_algorithm import LaneAlgorithm, Shapes
from ..schedules.lane_coupling import GATHER, CoupledLanes, coupling_of, emit
from ..schedules.lane_rows import Traits, kind_of
from ..schedules.lanes import Variant, lane_program
from .ltdl_lanes import ELIMINATE, L_SOLVE, LT_SOLVE, Places

TAU, H = range(2)  # outputs of the free program
TAU_IN = 2

COMPOSE, CARRY = CRBA.passes
JOINT_SPACE = Algorithm(  # C and H in one run; a row is placed once for both.
    name="joint_space",
    inputs=("q", "qd", "tau"),
    passes=(
        *RNEA.passes,
        replace(COMPOSE, own=Share(lambda row: Inertia.from_moments(row.inertia), link=("inertia",))),
        CARRY,
    ),
    fields=RNEA.fields | CRBA.fields,
    outputs=RNEA.outputs | CRBA.outputs,
    begins=RNEA.begins,
    moments=True,
    applied=("force",),
    matrix="H",
    gives=RNEA.gives | CRBA.gives,
    resting=("qdd",),
)


def _divide(count: Any, _: tuple, reads: tuple) -> tuple:
    """x / D, or NaN if D is only rounding error of the diagonal entry that it comes from."""
    x, D, diagonal = reads
    return (x / firm(D, count * diagonal),), (), ()


CLEAR = Loop(lambda zero, _, __: ((zero,), (), ()), 1, NUMBER, writes=(slot(0),))
LOAD = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(slot(0),), inputs=(Lane(TAU_IN, 1),))
COPY = Loop(lambda _, __, x: (x, (), ()), 2, NOTHING, reads=(slot(0),), writes=(slot(1),))
DIVIDE = Loop(_divide, 3, NUMBER, reads=(slot(0), slot(1), slot(2)), writes=(slot(0),))
LOOPS = (CLEAR, LOAD, GATHER, COPY, ELIMINATE.loop, LT_SOLVE.loop, DIVIDE, L_SOLVE.loop, emit(0))
CLEARED, GATHERED, DIVIDED = (LOOPS.index(x) for x in (CLEAR, GATHER, DIVIDE))


class ReducedLanes(CoupledLanes):
    """A program from q, qd, tau and, if used, forces on bodies to qdd."""

    def __init__(self, free: LaneAlgorithm):
        super().__init__(free)
        self.gives, self.slots = ("force",), self._end
        loops = (*(w.loop for w in self.loops), *LOOPS)
        self.program = Program(f"{free.program.name}_reduced", loops, free.program.n_inputs, 1)

    def forms(self, shape: Skeleton) -> Shapes:
        """The shape of accelerations."""
        return ((shape.size,),)

    def _end(self, shape: Skeleton) -> int:
        """The first slot after the free program, its results, and the reduced equation with its diagonal."""
        return self.regions(shape)[-1] + Places(shape.tree).one + 1 + shape.size

    def tables(self, shape: Skeleton, *about: int) -> list[Any]:
        """Tables of all loops."""
        regions, places = self.regions(shape), Places(shape.tree)
        first, rows = regions[-1], np.arange(shape.size)
        diagonal = first + shape.tree.ancestor_start[:-1]
        vector, kept_diagonal = first + places.vector + rows, first + places.one + 1 + rows
        cleared = first + np.append(np.arange(shape.tree.n_ancestor_pairs), places.one)
        target, _ = gathered(shape)
        source = np.concatenate(
            [regions[TAU] + np.arange(shape.rows), regions[H] + np.arange(len(target) - shape.rows)]
        )
        tables = [
            cleared[:, None],
            np.stack([vector, rows], -1),
            np.stack([source, first + target], -1),
            np.stack([diagonal, kept_diagonal], -1),
            first + ELIMINATE.table(places),
            first + LT_SOLVE.table(places),
            np.stack([vector, diagonal, kept_diagonal], -1),
            first + L_SOLVE.table(places),
            np.stack([vector, rows], -1),
        ]
        return [*self.widened_turns(shape), *tables]

    def values(self, model: Model, *about: int) -> tuple[Any, ...]:
        """Constants of the free program, then those of the loops here."""
        shape = Skeleton.of(model)
        own: list[Any] = [()] * len(LOOPS)
        own[CLEARED] = np.append(np.zeros(shape.tree.n_ancestor_pairs), 1.0)
        own[GATHERED] = gathered(shape)[1]
        own[DIVIDED] = np.full(shape.size, float(shape.size))
        return (*self.widened_values(model), *own)


def gathered(shape: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    """The places in the reduced equation where the free C, and H on the ancestor pairs, are added; and the factors."""
    ratio = coupling_of(shape).ratio_v
    i, j = shape.structure.tree.ancestor_pairs
    a, b = shape.v_column(i), shape.v_column(j)
    twice = 1.0 + ((i != j) & (a == b))  # both halves of H count if one coordinate moves both joints
    force = shape.tree.n_ancestor_pairs + shape.v_column(np.arange(shape.rows))
    return np.concatenate([force, shape.packed(a, b)]), np.concatenate([-ratio, ratio[i] * ratio[j] * twice])


@once
def reduced_program(kind: Traits, external: bool) -> ReducedLanes:
    """The program for mechanisms of a kind, with or without forces on bodies."""
    return ReducedLanes(lane_program(JOINT_SPACE, Variant(kind, external, packed=True)))


def reduced_lanes(model: Model, external: bool = False) -> ReducedLanes:
    """The program for a coupled mechanism."""
    return reduced_program(kind_of(model).rows, external)
