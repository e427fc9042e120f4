"""Forces on bodies as inputs of an algorithm: any algorithm, with six more numbers for each row, in world coordinates.

The first outward pass also carries the poses of the rows, which costs little, as stretches of rows have placements
anyway. Then the force on a row, in its own coordinates, is subtracted from the row's own share.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from kinetree.dynamics.recursion import (
    APPLIED,
    Algorithm,
    Found,
    Pass,
    Row,
    Share,
    State,
    Stretch,
    less_force,
    seen_as,
    zeros,
)
from kinetree.lanes.kept.once import once
from kinetree.model import Placement
from kinetree.spatial import Force, Vec3

from .poses import to_row


class Posed(NamedTuple):
    """The state that flows outward, and the pose of the row in the world."""

    own: Any
    pose: Placement


@once
def with_world_forces(algorithm: Algorithm) -> Algorithm:
    """The algorithm with forces on the rows, about the world origin, as six more inputs (`APPLIED`)."""
    first, (state, *part) = algorithm.passes[0], algorithm.applied

    def plain(row: Row) -> Row:
        """A row in the form that the passes of the algorithm expect."""
        return Row({**row, first.state: row[first.state].own}) if first.state in row else row

    def begun(row: Row, parent: Posed) -> tuple[Posed, Found]:
        own, found = first.visit(row, parent.own)
        return Posed(own, row.at @ parent.pose), found

    def later(p: Pass) -> Pass:
        if p.state != state:
            return seen_as(p, plain)
        assert p.own is not None
        of, link, needs = p.own

        def less(row: Row) -> State:
            f = [row[name] for name in APPLIED]
            force = to_row(row[first.state].pose, Force(Vec3(*f[:3]), Vec3(*f[3:])))
            return less_force(of(plain(row)), tuple(part), force)

        own = Share(less, link, tuple(dict.fromkeys((*needs, first.state))))
        return seen_as(p, plain, own=own, given=(*p.given, *APPLIED))

    def begin(gravity: Vec3) -> Posed:
        return Posed(algorithm.base(gravity)[first.state], Placement.identity_like(gravity.x))

    one = replace(first, visit=begun, stretch=_posed(first.stretch), given=(*first.given, *APPLIED))
    return replace(
        algorithm,
        name=f"{algorithm.name}_applied",
        inputs=(*algorithm.inputs, *APPLIED),
        passes=(one, *(later(p) for p in algorithm.passes[1:])),
        fields=algorithm.fields | {first.state: Posed(algorithm.fields[first.state], zeros(Placement))},
        begins=algorithm.begins | {first.state: begin},
        applied=(),
        again=None,
    )


def _posed(stretch: Stretch | None) -> Stretch | None:
    """The stretch of the first outward pass; its elements know their placements."""
    if stretch is None or stretch.placed is None:
        return None
    act, placed = stretch.act, stretch.placed
    return replace(stretch, act=lambda e, s: Posed(act(e, s.own), placed(e) @ s.pose), inverse=None)
