"""RNEA of one huge tree by native walks: the recursion of rnea.py, chunks of paths and rows of levels side by side.

Outward, a chunk's rows are first put together into one element; prefixes of these over the chunks of a path say how
each chunk's inner end moves; then all chunks are walked. Inward the same with wrenches, which are put together on the
way out where no branches will join them. On a GPU that is a few kernels that read every number once or twice, and
memory is what they wait for: where all joints are hinges without rotors, nobody reads which joints they are.
"""

from functools import partial
from typing import Any

import jax

from kinetree.lanes.once import once
from kinetree.lanes.prefix import prefix_walks
from kinetree.lanes.walk import Walk
from kinetree.model import Placement, Rows, place
from kinetree.spatial import Force, Rates, RelativeMotion, Vec3
from kinetree.tree.stages import Stages

from .lane_rows import HINGE, PLACEMENT, ROWS, ZERO3
from .rnea import MOTION, WRENCH, LoadedRow, MovingRow, base_rates, body_force
from .stage_passes import InwardWalks, OutwardWalks, in_array, inward_pass, kept, outward_pass, results_by_row
from .stage_rows import AXIS, CONSTANT, COUNT, FRAME, FRAME_FIELDS, NOTHING, NUMBER

structure = jax.tree.structure
RATES, FORCE = Rates(ZERO3, ZERO3, ZERO3), Force(ZERO3, ZERO3)
STATE = structure((0.0, 0.0, 0.0))  # q, qd, qdd of a row


def moving(frame: tuple, state: tuple, hinges: bool) -> MovingRow:
    """A row's motion from its frame and axis, which all know to be a hinge's or do not, and its coordinate."""
    orientation, position, axis = frame
    axis = HINGE if hinges else axis
    q, qd, qdd = state
    return MovingRow(place(orientation, position, axis, q), axis, qd, qdd)


ELEMENT = structure(RelativeMotion(*PLACEMENT, ZERO3, ZERO3, ZERO3, ZERO3))
MOVED = jax.tree.unflatten(structure((PLACEMENT, FORCE)), range(13))  # fields that the way out leaves for the way in
LOAD = LoadedRow(PLACEMENT, FORCE)  # type: ignore[arg-type]


@once
def outward_walk(sources: int, remembered: bool, gathering: bool, hinges: bool = False) -> Walk:
    """Rates; where `gathering`, also what the chunk's rows will pass inward together."""

    def step(state: Any, row: Rows, given: tuple, exists: Any) -> tuple:
        rates = state[0] if gathering else state
        at = moving((row.orientation, row.position, row.axis), given, hinges)
        rates = MOTION.step(at, rates)
        own = body_force(row.inertia.moments(), rates)
        results = (at.placed, own, *((rates,) if remembered else ()))
        if not gathering:
            return rates, results
        outer = WRENCH.element(LoadedRow(at.placed, own), Force.zero_like(own.linear.x))  # type: ignore[misc]
        return (rates, kept(exists, WRENCH.combine(state[1], outer), state[1])), results  # type: ignore[misc]

    start = structure((RATES, LOAD) if gathering else RATES)
    results = structure((PLACEMENT, FORCE, *((RATES,) if remembered else ())))
    return Walk("rnea_outward", step, start, ROWS, STATE, results, in_array(0, CONSTANT), (COUNT,), sources=sources)


def _no_load(s: Any) -> LoadedRow:
    return LoadedRow(Placement.identity_like(s), Force.zero_like(s))


MOTION_PREFIX = prefix_walks("rnea_outward", MOTION.combine, RelativeMotion.identity_like, ELEMENT)  # type: ignore[arg-type]


@once
def motions(hinges: bool = False) -> OutwardWalks:
    """The way out."""

    def put_together(e: RelativeMotion, frame: tuple, state: tuple, exists: Any) -> tuple:
        return MOTION.append(e, moving(frame, state, hinges)), ()

    reduce = Walk("rnea_reduce_outward", put_together, ELEMENT, FRAME, STATE, NOTHING, FRAME_FIELDS, (COUNT,))
    return OutwardWalks(
        reduce,
        MOTION_PREFIX,
        RelativeMotion.act,
        lambda sources, remembered, scattered: outward_walk(sources, remembered, False, hinges),
        13,
        (outward_walk(0, False, True, hinges), _no_load),
    )


def _loaded(row: tuple) -> tuple[LoadedRow, Force]:
    """The row, and what branches bring to it."""
    placed, own, *joining = row
    return LoadedRow(placed, own), joining[0] if joining else Force.zero_like(own.linear.x)


def _streams(joined: bool, before: Any, fields: tuple) -> tuple[Any, tuple, tuple]:
    """Tree, fields and widths of some constants, the row's load, and what joins it."""
    tree = structure((*before, PLACEMENT, FORCE, *((FORCE,) if joined else ())))
    joining = in_array(2, tuple(range(6))) if joined else ()
    return tree, fields + in_array(1, MOVED) + joining, (COUNT, 13, 6)[: 2 + joined]


@once
def _reduce_inward(joined: bool) -> Walk:
    def step(e: LoadedRow, row: tuple, _: Any, exists: Any) -> tuple:
        return kept(exists, WRENCH.prepend(*_loaded(row), e), e), ()

    tree, fields, widths = _streams(joined, (), ())
    return Walk("rnea_reduce_inward", step, structure(LOAD), tree, NUMBER, NOTHING, fields, widths, reverse=True)


@once
def inward_walk(joined: bool, sources: int, scattered: bool, hinges: bool = False) -> Walk:
    def step(received: Force, given: tuple, qdd: Any, exists: Any) -> tuple:
        axis, armature, *row = given
        if hinges:
            axis, armature = HINGE, 0.0
        load, joining = _loaded(tuple(row))
        received = received + joining
        tau = axis.dot(load.own + received) + armature * qdd
        return kept(exists, WRENCH.step(load, received), received), tau

    tree, fields, widths = _streams(joined, (AXIS, 0.0), in_array(0, (CONSTANT.axis, CONSTANT.armature)))
    force = structure(FORCE)
    return Walk("rnea_inward", step, force, tree, NUMBER, NUMBER, fields, widths, scattered, True, sources)


# the walk comes from the outer end, so "before" is the outer one
WRENCH_PREFIX = prefix_walks(
    "rnea_inward",
    lambda outer, inner: WRENCH.combine(inner, outer),  # type: ignore[misc]
    _no_load,
    structure(LOAD),
)


@once
def wrenches(hinges: bool = False) -> InwardWalks:
    """The way in."""
    return InwardWalks(
        _reduce_inward, WRENCH_PREFIX, lambda e: e.own, partial(inward_walk, hinges=hinges), Force.zero_like
    )


def rnea_over_stages(
    laid: Stages, constants: tuple[Any, ...], gravity: Vec3, states: tuple[Any, Any, Any], qdd: Any, hinges: bool
) -> Any:
    """Generalised forces (n,).

    `constants` are those of each stage's cells, (turns, fields, lanes), in the order of `Rows`; `states` are the
    coordinate, velocity and acceleration of each row, (n,); `qdd` the accelerations that armatures feel. `hinges`
    says that all joints are hinges without rotors.
    """
    moved, together = outward_pass(laid, motions(hinges), base_rates(gravity), [(c,) for c in constants], states)
    streams = list(zip(constants, (m[:, :13] for m in moved), strict=True))
    scattered = len(laid.stages) == 1
    results = inward_pass(laid, wrenches(hinges), streams, qdd, together, scattered)
    return results_by_row(laid, results, scattered)[0]
