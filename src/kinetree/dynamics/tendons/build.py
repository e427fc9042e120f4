"""`kinetree.with_tendons`: tendons of a model, given in code."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.model import Model, ModelError, World
from kinetree.model.attached import body_number, in_rows
from kinetree.model.fields import BOUNDS, NUMBER, PLACE, POSE, TEXT, Form, all_of, numbers, optional, require_fields
from kinetree.model.required import require_model
from kinetree.model.tendons import (
    BASE,
    NO_SIDE,
    NO_WRAP,
    Around,
    Pull,
    Pulley,
    Routes,
    Span,
    Tendon,
    Tendons,
    Via,
    Wrap,
    WrapShapes,
)

from .lengths import tendon_length

UNBOUNDED = (-np.inf, np.inf)
TENDON = {
    "name": TEXT,
    "joints": Form(
        "factors by names of joints", lambda x: isinstance(x, Mapping) and all(map(NUMBER.fits, x.values()))
    ),
    "path": Form(
        "a list of bodies, Via, Wrap and Pulley", lambda x: isinstance(x, Sequence) and not isinstance(x, str)
    ),
    **dict.fromkeys(("stiffness", "damping", "armature", "margin", "friction"), NUMBER),
    "spring_length": optional(numbers(1, 2)),
    "range": BOUNDS,
    "force_range": BOUNDS,
    **dict.fromkeys(("limit_solref", "friction_solref"), numbers(2)),
    **dict.fromkeys(("limit_solimp", "friction_solimp"), numbers(5)),
}
VIA, WRAP, PULLEY = {"position": PLACE}, POSE | {"radius": NUMBER}, {"divisor": NUMBER}


def with_tendons(model: Model, tendons: Iterable[Tendon]) -> Model:
    """The model with these tendons in its world, in place of any it had.

    They act in `constrained_dynamics`, its inverse, and in steps; actuators may pull on them.

    Arguments:
        model: the mechanism.
        tendons: see `Tendon`.

    Example: `kt.with_tendons(model, [kt.Tendon("string", path=["hand", "cup"], range=(0, 0.3))])`
    """
    require_model(model)
    given = all_of("with_tendons takes", tendons, Tendon)
    for tendon in given:
        require_fields(f"tendon {tendon.name!r}", tendon, TENDON)
    names = tuple(t.name for t in given)
    if len(set(names)) != len(names):
        raise ModelError(f"tendons must have different names, not {', '.join(names)}")
    made = assembled(model, [_route(model, t) for t in given], _pulls(given), np.zeros(len(given)), names)
    model = with_these(model, made)
    at_rest = model.structure.neutral if model.passive is None else model.passive.rest
    xp = library(made, model.rows)
    rest = tendon_length(model.uncoupled, xp.asarray(at_rest))
    start = tendon_length(model.uncoupled, xp.asarray(model.structure.neutral))
    slack = [(rest[k], rest[k]) if t.spring_length is None else _pair(t.spring_length) for k, t in enumerate(given)]
    pull = made.pull._replace(slack=_array(slack, 2))
    return with_these(model, dataclasses.replace(made, pull=pull, start=start))


def with_these(model: Model, tendons: Tendons | None) -> Model:
    """The model with compiled tendons."""
    world = (model.world or World()).replace(tendons=tendons, inverse_weights=None)
    return dataclasses.replace(model, world=world)


class Route:
    """The path of one tendon: coefficients on rows, or points and spans between them."""

    def __init__(self) -> None:
        self.fixed: list[tuple[int, Any]] = []  # row and coefficient
        self.points: list[tuple[int, Any]] = []  # body and position
        self.spans: list[tuple[int, int, int, Any]] = []  # two points, wrap or NO_WRAP, divisor
        self.wraps: list[tuple[bool, int, int, Any, Any, Any]] = []  # cylinder, body, side, position, turn, radius

    def through(self, path: Iterable[Any], fail: Any) -> "Route":
        """Fill in a path of `Via`, `Wrap` and `Pulley`, bodies given as numbers."""
        divisor: Any = 1.0
        last: int | None = None
        wrap = NO_WRAP
        lone = False  # True while the last point has no neighbour
        for thing in path:
            if isinstance(thing, Pulley):
                if wrap != NO_WRAP or lone:
                    fail("a pulley comes before a point, and not after a lone one")
                divisor, last = thing.divisor, None
            elif isinstance(thing, Wrap):
                if last is None or wrap != NO_WRAP:
                    fail("what it goes around stands between two points")
                if thing.kind not in ("sphere", "cylinder"):
                    fail(f"it goes around a sphere or a cylinder, not {thing.kind!r}")
                side = NO_SIDE
                if isinstance(thing.side, Via):
                    side = len(self.points)
                    self.points.append((int(thing.side.body), thing.side.position))  # type: ignore[arg-type]
                wrap = len(self.wraps)
                cylinder = thing.kind == "cylinder"
                self.wraps.append((cylinder, int(thing.body), side, thing.position, thing.orientation, thing.radius))  # type: ignore[arg-type]
            else:
                self.points.append((int(thing.body), thing.position))
                here = len(self.points) - 1
                if last is not None:
                    self.spans.append((last, here, wrap, divisor))
                lone, last, wrap = last is None, here, NO_WRAP
        if wrap != NO_WRAP or last is None or lone:
            fail("a path ends at a point that has a neighbour")
        return self


def assembled(model: Model, routes: list[Route], pull: Pull, start: Any, names: tuple[str, ...]) -> Tendons:
    """All tendons as arrays, from their routes on bodies."""
    fixed, coefficients, points, spans, divisors, arounds, wraps = [], [], [], [], [], [], []
    for t, route in enumerate(routes):
        shift, first = len(points), len(wraps)
        fixed += [(t, row) for row, _ in route.fixed]
        coefficients += [c for _, c in route.fixed]
        points += route.points
        for one, two, wrap, divisor in route.spans:
            spans.append(Span(t, shift + one, shift + two, NO_WRAP if wrap == NO_WRAP else first + wrap))
            divisors.append(divisor)
        for wrap in route.wraps:
            wraps.append(wrap)
            arounds.append(Around(wrap[0], _row(model, wrap[1]), NO_SIDE if wrap[2] == NO_SIDE else shift + wrap[2]))
    bodies = [b for b, _ in points]
    place, _ = in_rows(model, bodies, _array([p for _, p in points], 3), np.tile([1.0, 0, 0, 0], (len(points), 1)))
    center, turn = in_rows(model, [w[1] for w in wraps], _array([w[3] for w in wraps], 3), _turns(wraps))
    return Tendons(
        _array([[c] for c in coefficients], 1)[:, 0],
        place,
        _array([[d] for d in divisors], 1)[:, 0],
        WrapShapes(center, turn, _array([[w[5]] for w in wraps], 1)[:, 0]),
        pull,
        start,
        Routes(
            names,
            tuple(fixed),
            tuple(_row(model, b) for b in bodies),
            tuple(spans),
            tuple(arounds),
            (*bodies, *(w[1] for w in wraps)),
        ),
    )


def _turns(wraps: list[Any]) -> Any:
    turn = _array([w[4] for w in wraps], 4)
    return turn / ((turn * turn).sum(-1, keepdims=True) ** 0.5)


def _row(model: Model, body: int) -> int:
    return BASE if body < 0 else int(model.structure.row_of_body[body])


def _route(model: Model, tendon: Tendon) -> Route:
    def fail(what: str) -> NoReturn:
        raise ModelError(f"tendon {tendon.name!r}: {what}")

    route = Route()
    if bool(tendon.joints) == bool(tendon.path):
        fail("give either joints or a path")
    structure = model.structure
    for name, coefficient in tendon.joints.items():
        if name not in structure.joint_numbers:
            fail(f"no joint is called {name!r}")
        joint = structure.joint_numbers[name]
        rows = range(int(structure.v_start[joint]), int(structure.v_start[joint + 1]))
        if len(rows) != 1 or structure.q_of_row[rows[0]] < 0:
            fail(f"joint {name!r} must have exactly one coordinate")
        route.fixed.append((rows[0], coefficient))
    if not tendon.path:
        return route
    wraps = any(isinstance(thing, Wrap) for thing in tendon.path)
    if wraps and not (isinstance(tendon.armature, int | float) and tendon.armature == 0):
        fail("a tendon that goes around something has no armature")
    return route.through([_numbered(model, thing, f"tendon {tendon.name!r}") for thing in tendon.path], fail)


def _numbered(model: Model, thing: Any, label: str) -> Any:
    """A part of a path, with names of bodies replaced by numbers."""
    if isinstance(thing, Pulley):
        require_fields(f"{label}, pulley", thing, PULLEY)
        return thing
    if isinstance(thing, Wrap):
        require_fields(f"{label}, {thing.kind}", thing, WRAP)
        side = None if thing.side is None else _numbered(model, thing.side, label)
        return dataclasses.replace(thing, body=body_number(model, thing.body), side=side)
    thing = thing if isinstance(thing, Via) else Via(thing)
    require_fields(f"{label}, point on {thing.body!r}", thing, VIA)
    return dataclasses.replace(thing, body=body_number(model, thing.body))


def _pair(given: Any) -> tuple[Any, Any]:
    return (given, given) if np.ndim(given) == 0 else tuple(given)


def _pulls(given: Sequence[Tendon]) -> Pull:
    """Numbers of tendons; the rest lengths of springs are found later."""

    def each(name: str) -> Any:
        return _array([[getattr(t, name)] for t in given], 1)[:, 0]

    def several(name: str, width: int, none: Any = None) -> Any:
        return _array([none if getattr(t, name) is None else getattr(t, name) for t in given], width)

    return Pull(
        each("stiffness"),
        np.zeros((len(given), 2)),
        each("damping"),
        each("armature"),
        several("range", 2, UNBOUNDED),
        each("margin"),
        several("limit_solref", 2),
        several("limit_solimp", 5),
        each("friction"),
        several("friction_solref", 2),
        several("friction_solimp", 5),
        several("force_range", 2, UNBOUNDED),
    )


def _array(rows: list[Any], width: int) -> Any:
    """(n, width): a NumPy array, or a JAX array if some number is one."""
    if any(isinstance(x, jax.Array) for row in rows for x in (row if isinstance(row, list | tuple) else [row])):
        return jnp.stack([jnp.stack([jnp.asarray(x, float) for x in row]) for row in rows])
    array = np.array([np.asarray(row, float) for row in rows], float).reshape(-1, width)
    if np.isnan(array).any():
        raise ModelError("the numbers of a tendon can not be NaN")
    return array
