"""Spatial tendons in lanes: points, ways around spheres and cylinders, lines, and how each row makes them longer.

The formulas are those of dynamics/tendons/: a line with direction u grows with a row by S · (u at a point of the line).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.dynamics.tendons.wrapping import around, unit
from kinetree.model import Model, Placement
from kinetree.model.tendons import Tendons
from kinetree.spatial import Force, Quaternion, Vec3

from .kinematics import point_rates
from .memory import PLACEMENT, ROW, ZERO3, fixed
from .parts import Known, Part, added, fill, part, table
from .plan import Plan
from .span_plan import LINE, SPOT, WAY, Spans, WrapKind
from .string_lengths import number
from .string_plan import STRING
from .tables import split


def spans_of(plan: Plan) -> Spans:
    """The spans of a plan with spatial tendons."""
    return there(plan.strings.spans)


def _tendons(plan: Plan) -> Tendons:
    return there(plan.world.tendons)


def points() -> Part:
    """Find the points in the world."""

    def step(own, row, base):
        return (row.position + row.orientation.turn(own) - base.position,)

    def turns(plan: Plan) -> np.ndarray:
        routes = spans_of(plan).routes
        return table(*plan.carriers(routes.points), spans_of(plan).spot(np.arange(len(routes.points))))

    known = ZERO3, lambda model, plan, known: Vec3(*split(_tendons(plan).points))
    return part(turns, step, (ROW.at(0, "pose"), ROW.at(1, "pose")), (SPOT.at(2, "position"),), known)


class WrapShape(NamedTuple):
    """A shape that a tendon goes around, on its row; and the factor of its span."""

    at: Placement
    radius: Any
    share: Any


def wraps(kind: WrapKind) -> Part:
    """Ways around spheres or cylinders, and their arcs."""
    cylinder, sided, passes = kind

    def step(known, row, base, a, b, *side):
        center = row.position + row.orientation.turn(known.at.position) - base.position
        turn = row.orientation * known.at.orientation
        way = around(cylinder, a, b, center, turn, known.radius, side[0] if sided else None, passes)
        on = jnp.where(way.on, jnp.ones_like(known.radius), jnp.zeros_like(known.radius))
        return (way.first, way.second, on, jnp.where(way.on, way.length * known.share, 0.0))

    ends = (SPOT.at(2, "position"), SPOT.at(3, "position"), *((SPOT.at(4, "position"),) if sided else ()))
    reads = (ROW.at(0, "pose"), ROW.at(1, "pose"), *ends)
    made = (*WAY.of(5, *WAY.fields), *added(STRING.at(6, "length")))

    def turns(plan: Plan) -> np.ndarray:
        spans, own = spans_of(plan), spans_of(plan).wraps[kind]
        some = [spans.routes.spans[spans.span_of_wrap[k]] for k in own]
        arounds = [spans.routes.arounds[k] for k in own]
        ends = (spans.spot([getattr(s, f) for s in some]) for f in ("first", "second"))
        side = spans.spot([max(a.side, 0) for a in arounds])
        strings = plan.strings.string([s.tendon for s in some])
        return table(*plan.carriers([a.row for a in arounds]), *ends, side, spans.way(own), strings)

    def constants(model: Model, plan: Plan, known: Known) -> WrapShape:
        tendons, own = _tendons(plan), np.array(spans_of(plan).wraps[kind])
        shapes = tendons.shapes
        at = Placement(Quaternion(*split(shapes.orientation[own])), Vec3(*split(shapes.position[own])))
        counts = 1 / tendons.divisors[[spans_of(plan).span_of_wrap[k] for k in own]]
        return WrapShape(at, shapes.radius[own], counts)

    return part(turns, step, reads, made, (WrapShape(PLACEMENT, 0.0, 0.0), constants))


def lines(wrapped: bool) -> Part:
    """Directions and lengths of lines; those of a wrap are there where the tendon touches it, or where it does not."""

    def step(known, start, end, *on):
        share, touching = known
        direction, length = unit(end - start)
        if wrapped:
            share = jnp.where((on[0] != 0) == (touching != 0), share, jnp.zeros_like(share))
        return (end, direction * share, length * share)

    reads = (SPOT.at(0, "position"), SPOT.at(1, "position"), *((WAY.at(4, "on"),) if wrapped else ()))
    made = (*LINE.of(2, "end", "pull"), *added(STRING.at(3, "length")))

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        at, own = spans_of(plan).paths.lines, spans_of(plan).members(wrapped)
        return 1 / _tendons(plan).divisors[at.span[own]], at.touching[own].astype(float)

    def turns(plan: Plan) -> np.ndarray:
        return spans_of(plan).lines(wrapped, plan.strings.string)

    return part(turns, step, reads, made, ((0.0, 0.0), constants), columns=5)


def line_drifts() -> Part:
    """How fast lines of tendons with inertia grow faster where x is zero, as `line_drifts` in tendons.py."""

    def step(share, start, end, base1, base2, v1, drift1, v2, drift2, gravity):
        one = point_rates(start + base1.position, v1, drift1, gravity)
        two = point_rates(end + base2.position, v2, drift2, gravity)
        speed, acceleration = two[0] - one[0], two[1] - one[1]
        direction, length = unit(end - start)
        along, some = direction.dot(speed), length > 0
        across = (speed.dot(speed) - along * along) / jnp.where(some, length, jnp.ones_like(length))
        return (share * (direction.dot(acceleration) + jnp.where(some, across, jnp.zeros_like(across))),)

    spots = (SPOT.at(0, "position"), SPOT.at(1, "position"))
    carriers = (ROW.at(3, "pose"), ROW.at(5, "pose"))
    moves = tuple(ROW.at(column, field) for column in (2, 4) for field in ("v", "drift"))
    reads = (*spots, *carriers, *moves, fixed("gravity"))

    def turns(plan: Plan) -> np.ndarray:
        spans, own = spans_of(plan), spans_of(plan).bending(plan.has)
        ends = [x[own] for x in (spans.paths.lines.first, spans.paths.lines.second)]
        rows = [column for end in ends for column in plan.carriers(np.array(spans.routes.points)[end])]
        return table(*map(spans.spot, ends), *rows, plan.strings.string(spans.paths.lines.tendon[own]))

    def shares(model: Model, plan: Plan, known: Known) -> Any:
        spans = spans_of(plan)
        return 1 / _tendons(plan).divisors[spans.paths.lines.span[spans.bending(plan.has)]]

    return part(turns, step, reads, added(STRING.at(6, "bend")), (0.0, shares))


def entries() -> list[Part]:
    """Find the entries of rows: the change of length of tendons."""

    def step(sign, end, pull, S, base):
        return (sign * S.dot(Force((end + base.position).cross(pull), pull)),)

    def places(plan: Plan) -> np.ndarray:
        s, at = plan.strings, spans_of(plan).paths
        tendon = at.lines.tendon[at.line]
        return np.array(
            [s.entry(t, s.rows[t].index(r)) for t, r in zip(tendon, at.row.tolist(), strict=True)], np.int64
        )

    def turns(plan: Plan) -> np.ndarray:
        at = spans_of(plan).paths
        return table(places(plan), spans_of(plan).line(at.line), *plan.carriers(at.row))

    reads = (*LINE.of(1, "end", "pull"), ROW.at(2, "S"), ROW.at(3, "pose"))
    signs = 0.0, lambda model, plan, known: spans_of(plan).paths.sign
    return [
        fill(lambda plan: table(np.unique(places(plan))), number(0)),
        part(turns, step, reads, added(number(0)), signs),
    ]
