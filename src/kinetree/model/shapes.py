"""Shapes on the bodies of a model, given in code: `with_shapes`, `with_ground`."""

import dataclasses
from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

import numpy as np

from kinetree._types import Number, Vector
from kinetree._unknown import unknown
from kinetree.collide import KINDS, MAX_CELLS, HeightField, Hull, radius_of_size
from kinetree.spatial import Vec3

from .attached import body_number
from .crowd import crowd_of
from .errors import ModelError
from .fields import NUMBER, POSE, TEXT, WHOLE, Form, all_of, numbers, optional, require_fields, table
from .model import Model
from .required import require_model
from .world import (
    BASE,
    FRICTION,
    Carriers,
    Pair,
    Scene,
    SceneLayout,
    Shape,
    Shapes,
    Surfaces,
    World,
    candidate_pairs,
    is_crowd,
    no_pair_surfaces,
    with_cells,
)

SHAPE = POSE | {
    "size": numbers(*range(5)),
    "name": TEXT,
    "vertices": optional(table("points, (k, 3) finite numbers", 2, 3)),
    "heights": optional(table("heights, (rows, columns) finite numbers", 2)),
    "friction": numbers(1, 2, 3),
    "solref": numbers(2),
    "solimp": numbers(5),
    **dict.fromkeys(("solmix", "margin", "gap"), NUMBER),
    "condim": Form("1, 3, 4 or 6", lambda value: WHOLE.fits(value) and value in (1, 3, 4, 6)),
    **dict.fromkeys(("contype", "conaffinity", "priority"), WHOLE),
}
FLOOR = tuple(name for name in SHAPE if name not in ("size", "vertices", "heights"))  # what `with_ground` takes


class Floor(TypedDict, total=False):
    """The fields of a `Shape` that `with_ground` takes."""

    name: str
    body: None
    position: Vector
    orientation: Vector
    friction: Number | Vector
    solref: Vector
    solimp: Vector
    solmix: Number
    margin: Number
    gap: Number
    condim: int
    contype: int
    conaffinity: int
    priority: int


SIZES = {"plane": 0, "sphere": 1, "capsule": 2, "ellipsoid": 3, "cylinder": 2, "box": 3, "mesh": 0, "hfield": 4}


def with_shapes(model: Model, shapes: Iterable[Shape], *, exclude: Iterable[tuple[int | str, int | str]] = ()) -> Model:
    """The model with these shapes in its world, in place of any it had.

    Shapes of bodies that are fixed to one another do not touch, nor do those of a body and its parent; the base is
    no parent in this.

    Arguments:
        model: the mechanism.
        shapes: see `Shape`.
        exclude: pairs of bodies, by name or number (None is the base), whose shapes never touch.
    """
    require_model(model)
    shapes = [_checked(shape, i) for i, shape in enumerate(all_of("with_shapes takes", shapes, Shape))]
    numbers = [body_number(model, s.body) for s in shapes]
    out = {frozenset(body_number(model, body) for body in pair) for pair in _pairs_of(exclude)}
    every = range(len(shapes)) if out else ()
    skip = [(i, j) for j in every for i in range(j) if frozenset((numbers[i], numbers[j])) in out]

    def column(name: str) -> tuple[Any, ...]:
        return tuple(getattr(s, name) for s in shapes)

    kinds, condim, priority = column("kind"), column("condim"), column("priority")
    on, bits = carriers(model, numbers), (column("contype"), column("conaffinity"))
    crowd = None
    if is_crowd(on, *bits):
        thick = [(radius_of(s), float(np.min(np.asarray(s.size), initial=np.inf))) for s in shapes]
        crowd = crowd_of(kinds, condim, priority, on, bits, thick, skip)
    pairs, unknown = candidate_pairs(kinds, numbers, on, *bits, condim, priority, skip, crowd is not None)
    if unknown:
        raise ModelError(f"{unknown} pairs of shapes are of kinds that can not be collided yet")
    stacked = stack_shapes(shapes)
    reach = 2 * max((float(s.margin + s.gap) for s in shapes), default=0.0)
    pairs, wide = with_cells(pairs, kinds, column("hull"), [radius_of(s) + reach for s in shapes])
    if wide:
        raise ModelError(f"{wide} shapes are over more than {MAX_CELLS} triangles of a height field: make it coarser")
    layout = SceneLayout(kinds, tuple(numbers), condim, priority, tuple(pairs), column("name"), crowd)
    scene = Scene(*stacked, no_pair_surfaces(), layout)
    return dataclasses.replace(model, world=(model.world or World()).replace(scene=scene, inverse_weights=None))


def carriers(model: Model, bodies: Iterable[int]) -> Carriers:
    """The carriers of the shapes on these bodies: the last row of a joint carries all that is fixed to it."""
    structure = model.structure
    own = np.array([BASE if b == BASE else structure.row_of_body[b] for b in bodies], np.int64)
    last = structure.v_start[1:][np.diff(structure.v_start) > 0] - 1  # of every joint that moves
    first = structure.v_start[:-1][np.diff(structure.v_start) > 0]
    above = np.full(structure.tree.n + 1, BASE)
    above[last] = structure.tree.parent[first]
    return Carriers(own, above[own], own == BASE)


def with_ground(model: Model, **surface: Unpack[Floor]) -> Model:
    """The model on a floor at z = 0, which all its shapes may touch, whatever their contype and conaffinity say.

    Arguments:
        model: the mechanism, with shapes (from its file, or by `with_shapes`).
        surface: of the floor: friction, solref, solimp, ..., as in `Shape`.
    """
    require_model(model)
    for name in surface:
        if name not in FLOOR:
            raise TypeError(f"with_ground: {unknown('fact of a floor', name, FLOOR)}")
    world = model.world or World()
    floor = _checked(Shape("plane", **{"name": "ground", **surface}), 0)
    shapes, surfaces = stack_shapes([floor])
    if world.scene is None:
        layout = SceneLayout(("plane",), (BASE,), (floor.condim,), (floor.priority,), (), (floor.name,))
        return dataclasses.replace(
            model, world=world.replace(scene=Scene(shapes, surfaces, no_pair_surfaces(), layout))
        )
    old = world.scene
    known = old.layout
    n = len(known.kinds)
    pairs = []
    for i, (kind, body) in enumerate(zip(known.kinds, known.bodies, strict=True)):
        if kind == "plane" or body == BASE or model.structure.row_of_body[body] < 0:
            continue
        higher = known.priority[i] - floor.priority
        dim = known.condim[i] if higher > 0 else floor.condim if higher < 0 else max(known.condim[i], floor.condim)
        pairs.append(Pair(n, i, 1, dim))
    layout = known._replace(
        kinds=(*known.kinds, "plane"),
        bodies=(*known.bodies, BASE),
        condim=(*known.condim, floor.condim),
        priority=(*known.priority, floor.priority),
        pairs=(*known.pairs, *pairs),
        names=(*known.names, floor.name),
    )

    def joined(a: Any, b: Any) -> Any:  # A floor has no hull.
        return type(a)(*(x if isinstance(x, dict) else np.concatenate([x, y]) for x, y in zip(a, b, strict=True)))

    scene = Scene(joined(old.shapes, shapes), joined(old.surfaces, surfaces), old.pairs, layout)
    return dataclasses.replace(model, world=world.replace(scene=scene))


def _pairs_of(exclude: Any) -> list[tuple[Any, Any]]:
    """Pairs of bodies, after a check of their form."""
    try:
        return [(one, other) for one, other in exclude]
    except (TypeError, ValueError):
        raise TypeError(f"exclude must be pairs of bodies, not {exclude!r}") from None


def _checked(shape: Shape, number: int) -> Shape:
    """A shape with its fields checked, and its hull."""
    label = f"shape {shape.name or number}"
    if not (isinstance(shape.kind, str) and shape.kind in SIZES):
        raise ModelError(f"{label}: {unknown('shape', shape.kind, SIZES)}")
    require_fields(label, shape, SHAPE)
    if np.min(shape.friction) < 0:
        raise ModelError(f"{label}: friction must not be negative, not {shape.friction!r}")
    size = np.atleast_1d(np.asarray(shape.size, float)) if SIZES[shape.kind] else np.zeros(0)
    if len(size) < SIZES[shape.kind] or not (size[: SIZES[shape.kind]] > 0).all():
        raise ModelError(f"{label}: a {shape.kind} has {SIZES[shape.kind]} positive sizes, not {shape.size!r}")
    hull = shape.hull
    if shape.kind == "mesh" and hull is None:
        if shape.vertices is None:
            raise ModelError(f"{label}: a mesh has vertices")
        try:
            hull = Hull.from_points(shape.vertices)
        except RuntimeError:  # Qhull's, whose message is a page
            raise ModelError(f"{label}: the vertices of a mesh must not lie in a plane") from None
    if shape.kind == "hfield" and hull is None:
        heights = None if shape.heights is None else np.asarray(shape.heights, float)
        if heights is None or min(heights.shape) < 2 or not ((heights >= 0) & (heights <= 1)).all():
            raise ModelError(f"{label}: a height field has heights (rows, columns) between 0 and 1, at least 2 by 2")
        hull = HeightField.make(size, heights)
    assert shape.kind in KINDS
    return dataclasses.replace(shape, size=tuple(size), hull=hull)


def radius_of(shape: Shape) -> float:
    """The radius of a ball about a shape's origin that holds it; 0 of a plane."""
    if shape.hull is not None:
        return float(shape.hull.radius)
    return float(radius_of_size(shape.kind, Vec3(*_three_sizes(shape))))


def _three_sizes(shape: Shape) -> np.ndarray:
    """The sizes of a shape, filled up with zeros."""
    return np.concatenate([np.atleast_1d(np.asarray(shape.size, float)), np.zeros(3)])[:3]


def stack_shapes(shapes: Iterable[Shape]) -> tuple[Shapes, Surfaces]:
    """Numbers of shapes as arrays."""
    shapes = list(shapes)
    sizes = [_three_sizes(s) for s in shapes]
    friction = [(*np.atleast_1d(np.asarray(s.friction, float)), *FRICTION[np.size(s.friction) :]) for s in shapes]

    def column(name: str, *shape: int) -> np.ndarray:
        return np.array([getattr(s, name) for s in shapes], float).reshape(len(shapes), *shape)

    orientation = column("orientation", 4)
    return (
        Shapes(
            column("position", 3),
            orientation / np.linalg.norm(orientation, axis=-1, keepdims=True),
            np.array(sizes).reshape(-1, 3),
            {k: s.hull for k, s in enumerate(shapes) if s.hull is not None},
        ),
        Surfaces(
            np.array(friction).reshape(-1, 3),
            column("solref", 2),
            column("solimp", 5),
            column("margin"),
            column("gap"),
            column("solmix"),
        ),
    )
