"""The world a mechanism touches: shapes, what their surfaces are like, and how soft joints and contacts are.

The constraint model is MuJoCo's, and so are names and defaults of its parameters (`solref`, `solimp`, `condim`, ...;
MuJoCo documentation, "Computation" and "Modeling"). All numbers are leaves of a pytree and may be traced; what decides
how many points of contact there are is static.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree._types import AnyArray, Bool, Float, Int, Number, Vector
from kinetree.collide import COLLIDERS, KINDS, MAX_CELLS, Cell, HeightField, Hull, patch_of

from .crowd import MAX_LISTED, Crowd
from .equalities import Equalities
from .errors import ModelError
from .fields import FLAG, NUMBER, WHOLE
from .fluid import Fluid
from .tendons import Tendons

CONSTRAINTS = frozenset({"contact", "limit", "frictionloss", "equality"})  # what can be switched off

SOLREF = (0.02, 1.0)  # time constant and damping ratio
SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
FRICTION = (1.0, 0.005, 0.0001)  # sliding, torsional, rolling
BASE = -1
MAX_PAIRS = 10**7  # pairs of shapes that may touch, in lists of some hundred bytes each
BOTH = 2  # of a pair: both shapes move, so that their contact couples two bodies


class Pair(NamedTuple):
    """Two shapes that may touch. The first has the lower kind, in the order of `KINDS`."""

    first: int
    second: int
    moving: int  # 0 or 1: which of the two moves; BOTH
    condim: int
    own: int = -1  # which of the surfaces given for pairs; −1: mixed from the two shapes
    cell: Cell = (0, 0, 0)  # of a height field, under the second shape


class SceneLayout(NamedTuple):
    """What is static about a scene: kinds and bodies of shapes, and which of them may touch."""

    kinds: tuple[str, ...]
    bodies: tuple[int, ...]  # −1 is the base
    condim: tuple[int, ...]
    priority: tuple[int, ...]
    pairs: tuple[Pair, ...]
    names: tuple[str, ...]
    crowd: Crowd | None = None  # moving shapes whose pairs are found in each state
    single: bool = False  # convex shapes touch in one point where MuJoCo would look for more (its flag multiccd)


class Shapes(NamedTuple):
    """Where the shapes are in their bodies, and their sizes; first axis over shapes."""

    position: Float[AnyArray, "n 3"]
    orientation: Float[AnyArray, "n 4"]
    size: Float[AnyArray, "n 3"]  # radius, half lengths, half axes, as in MuJoCo
    hulls: dict[int, Any]  # of meshes and height fields, by the number of the shape


class Surfaces(NamedTuple):
    """How surfaces touch; first axis over shapes."""

    friction: Float[AnyArray, "n 3"]  # sliding, torsional, rolling
    solref: Float[AnyArray, "n 2"]
    solimp: Float[AnyArray, "n 5"]
    margin: Float[AnyArray, " n"]  # contacts push from this distance on
    gap: Float[AnyArray, " n"]  # contacts are found this much earlier, and do not push yet
    solmix: Float[AnyArray, " n"]  # weight of the shape's softness where two meet


class PairSurfaces(NamedTuple):
    """How two surfaces touch; first axis over pairs. Solvers have it component by component, too."""

    friction: Any  # (p, 5): two of sliding, torsional, two of rolling
    solref: Any  # (p, 2)
    solref_friction: Any  # (p, 2): of the friction directions of elliptic cones; zero: as solref
    solimp: Any  # (p, 5)
    margin: Any  # (p,)
    gap: Any  # (p,)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scene:
    """Shapes and surfaces."""

    shapes: Shapes
    surfaces: Surfaces
    pairs: PairSurfaces  # of pairs that have surfaces of their own
    layout: SceneLayout = field(metadata={"static": True})


class JointSoftness(NamedTuple):
    """Softness of limits and of friction loss, for each degree of freedom; a ball joint's limit is its first one's."""

    limit_solref: Float[AnyArray, "nv 2"]
    limit_solimp: Float[AnyArray, "nv 5"]
    limit_margin: Float[AnyArray, " nv"]
    ball_limit: Float[AnyArray, " nv"]  # the largest angle of a ball joint; infinite where there is none
    friction_solref: Float[AnyArray, "nv 2"]
    friction_solimp: Float[AnyArray, "nv 5"]

    @staticmethod
    def default(nv: int) -> "JointSoftness":
        """MuJoCo's defaults."""
        solref, solimp = np.tile(SOLREF, (nv, 1)), np.tile(SOLIMP, (nv, 1))
        return JointSoftness(solref, solimp, np.zeros(nv), np.full(nv, np.inf), solref, solimp)


class InverseWeights(NamedTuple):
    """What a unit force moves at the neutral configuration: it sets the scale of the regularisation."""

    dof: Float[AnyArray, " nv"]
    body: Float[AnyArray, "bodies 2"]  # translation and rotation of the centre of mass
    tendon: Any = None  # (n,): of tendons, where there are some


WORLD = {"impratio": NUMBER, "iterations": WHOLE, "noslip": FLAG, "safe_reference": FLAG}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class World:
    """All that constrains a mechanism beside its joints."""

    scene: Scene | None = None
    joints: JointSoftness | None = None  # None: MuJoCo's defaults
    equalities: Equalities | None = None
    tendons: Tendons | None = None
    inverse_weights: InverseWeights | None = None  # None: computed where they are needed
    gravity_compensation: Float[AnyArray, " bodies"] | None = None  # how much of each body's weight is carried
    fluid: Fluid | None = None  # that the bodies move in
    impratio: Number = field(default_factory=lambda: np.array(1.0))  # how much stiffer friction is than the normal
    cone: str = field(default="pyramidal", metadata={"static": True})  # or "elliptic"
    disabled: frozenset[str] = field(default=frozenset(), metadata={"static": True})  # some of CONSTRAINTS
    safe_reference: bool = field(default=True, metadata={"static": True})  # no time constant is below two time steps
    noslip: bool = field(default=False, metadata={"static": True})  # friction is found again without softness
    iterations: int = field(default=100, metadata={"static": True})  # of Newton's method, at the most

    def replace(self, **changes: Any) -> "World":
        """The same world with other parts."""
        return dataclasses.replace(self, **changes)

    def __post_init__(self) -> None:
        if self.cone not in ("pyramidal", "elliptic"):
            raise ModelError(f"a cone is pyramidal or elliptic, not {self.cone!r}")
        if unknown := set(self.disabled) - CONSTRAINTS:
            raise ModelError(
                f"can not disable {', '.join(sorted(unknown))}: choose from {', '.join(sorted(CONSTRAINTS))}"
            )


@dataclass(frozen=True)
class Shape:
    """A shape on a body, for models made in code; defaults are MuJoCo's.

    Arguments:
        kind: one of "plane" "sphere" "capsule" "ellipsoid" "cylinder" "box" "mesh" "hfield".
        size: as in MuJoCo: the radius (sphere), radius and half length (capsule, cylinder), three half axes
            (ellipsoid, box); nothing for planes, which are infinite, and meshes; of a height field, half of its extent
            along x and y, its largest height, and how far it reaches below 0.
        body: name or number of the body; None is the base.
        position, orientation: in the body's frame; the orientation is a quaternion (w, x, y, z).
        vertices: (k, 3), of a mesh, whose hull touches.
        heights: (rows, columns) between 0 and 1, of a height field; rows go along y, columns along x.
        friction: sliding, torsional, rolling; or the first of them.
        condim: 1 no friction, 3 sliding, 4 torsional too, 6 rolling too.
        contype, conaffinity: two shapes may touch if a bit of one's contype is set in the other's conaffinity.
    """

    kind: str
    size: Number | Vector = ()
    body: int | str | None = None
    position: Vector = (0.0, 0.0, 0.0)
    orientation: Vector = (1.0, 0.0, 0.0, 0.0)
    vertices: Float[AnyArray, "corners 3"] | None = None
    heights: Float[AnyArray, "rows columns"] | None = None
    hull: Hull | HeightField | None = None
    friction: Vector = FRICTION
    solref: Vector = SOLREF
    solimp: Vector = SOLIMP
    solmix: Number = 1.0
    margin: Number = 0.0
    gap: Number = 0.0
    condim: int = 3
    contype: int = 1
    conaffinity: int = 1
    priority: int = 0
    name: str = ""


class Carriers(NamedTuple):
    """What carries each shape, as far as it decides which shapes may touch; bodies fixed to one another are one."""

    own: Int[AnyArray, " n"]  # a number for what carries the shape; BASE for the world
    above: Int[AnyArray, " n"]  # of its parent; shapes of parent and child do not touch, unless one is the world
    still: Bool[AnyArray, " n"]  # True where nothing moves it: the world, and what others move by hand


def candidate_pairs(
    kinds: Any,
    bodies: Any,
    on: Carriers,
    contype: Any,
    conaffinity: Any,
    condim: Any,
    priority: Any,
    skip: Any = (),
    crowd: bool = False,
) -> tuple[list[Pair], int]:
    """Pairs of shapes that may touch, one of which moves, by MuJoCo's rules; how many there are of unknown kinds.

    Arguments:
        kinds, bodies, contype, conaffinity, condim, priority: of the shapes.
        on: what carries them.
        skip: pairs of shapes (lower number first) that are left out.
        crowd: True if those of two shapes that move are left out.
    """
    own, above, still, contype, conaffinity = map(np.asarray, (*on, contype, conaffinity))
    i, j = _meeting(contype, conaffinity, still if crowd else np.ones(len(still), bool))
    meets = (own[i] != own[j]) & ~(still[i] & still[j])
    meets &= (own[i] == BASE) | (own[j] == BASE) | ((own[i] != above[j]) & (own[j] != above[i]))
    first, second = i[meets], j[meets]
    skipped = set(skip)
    if skipped:
        kept = [pair not in skipped for pair in zip(first.tolist(), second.tolist(), strict=True)]
        first, second = first[kept], second[kept]
    known = np.array([[collides(a, b) for b in KINDS] for a in KINDS])
    kind, bodies = np.array([KINDS.index(k) for k in kinds], np.int64), np.asarray(bodies, np.int64)
    collide = known[kind[first], kind[second]] if len(first) else np.zeros(0, bool)
    unknown = int((~collide).sum())
    first, second = first[collide], second[collide]
    for by in (bodies, kind):  # the order of a pair: of kind, then of body
        swap = by[first] > by[second]
        first, second = np.where(swap, second, first), np.where(swap, first, second)
    condim, priority = np.asarray(condim, np.int64), np.asarray(priority, np.int64)
    ahead = np.sign(priority[first] - priority[second])
    mixed = np.where(ahead > 0, condim[first], np.maximum(condim[first], condim[second]))
    dims = np.where(ahead < 0, condim[second], mixed)
    moving = np.where(still[first] | still[second], ~still[second], BOTH)
    columns = (x.tolist() for x in (first, second, moving, dims))
    return [Pair(*row) for row in zip(*columns, strict=True)], unknown


def is_crowd(on: Carriers, contype: Any, conaffinity: Any) -> bool:
    """True if there are too many moving shapes to list their pairs."""
    moving = ~np.asarray(on.still)
    _, _, count = _by_bits(np.asarray(contype)[moving], np.asarray(conaffinity)[moving], np.ones(moving.sum(), bool))
    return count > MAX_LISTED


def _by_bits(contype: np.ndarray, conaffinity: np.ndarray, among: np.ndarray) -> tuple[list[np.ndarray], list, int]:
    """Shapes that are alike, which of these groups meet, and how many pairs that is.

    Of a pair one shape at the least is `among` some.
    """
    facts = np.stack([contype, conaffinity, among], -1).reshape(-1, 3).astype(np.int64)
    bits, of = np.unique(facts, axis=0, return_inverse=True)
    members = [np.flatnonzero(of.reshape(-1) == k) for k in range(len(bits))]
    both = [(a, b) for a in range(len(bits)) for b in range(a, len(bits)) if bits[a, 2] | bits[b, 2]]
    both = [(a, b) for a, b in both if (bits[a, 0] & bits[b, 1]) | (bits[b, 0] & bits[a, 1])]
    return members, both, sum(len(members[a]) * len(members[b]) // (1 + (a == b)) for a, b in both)


def _meeting(contype: np.ndarray, conaffinity: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j), i < j, of which a bit of one's contype is set in the other's conaffinity, in order.

    Shapes are first told apart by their bits, so that many which never touch cost nothing.
    """
    members, both, count = _by_bits(contype, conaffinity, among)
    if count > MAX_PAIRS:
        raise ModelError(
            f"{count:,} pairs of shapes may touch, more than {MAX_PAIRS:,}: give those that never do other bits of "
            "contype and conaffinity"
        )
    found = [np.zeros((2, 0), np.int64)]
    for a, b in both:
        one, two = (x.reshape(-1) for x in np.meshgrid(members[a], members[b], indexing="ij"))
        kept = one < two if a == b else one != two
        found.append(np.sort(np.stack([one[kept], two[kept]]), axis=0))
    i, j = np.concatenate(found, 1)
    order = np.lexsort((j, i))
    return i[order], j[order]


def collides(a: str, b: str) -> bool:
    """True if two kinds of shapes have a collider."""
    return tuple(sorted((a, b), key=KINDS.index)) in COLLIDERS


def ordered(a: int, b: int, kinds: Any, bodies: Any, still: Any, condim: int, own: int = -1) -> Pair:
    """A pair with its shapes in order: of kind, then of body."""
    if bodies[a] > bodies[b]:
        a, b = b, a
    if KINDS.index(kinds[a]) > KINDS.index(kinds[b]):
        a, b = b, a
    moving = BOTH if not (still[a] or still[b]) else int(not still[b])
    return Pair(a, b, moving, int(condim), own)


def with_cells(pairs: list[Pair], kinds: Any, hulls: Any, radius: Any) -> tuple[list[Pair], int]:
    """Pairs, one for each cell of a height field that a shape may touch; and how many shapes touch too many cells.

    Arguments:
        pairs: two shapes each.
        kinds: of the shapes.
        hulls: of the shapes; those of height fields are `HeightField`s.
        radius: of balls that hold the shapes.
    """
    found: list[Pair] = []
    lost = 0
    for pair in pairs:
        if kinds[pair.first] != "hfield":
            found.append(pair)
            continue
        cells = patch_of(hulls[pair.first], float(radius[pair.second]))
        if len(cells) > MAX_CELLS:
            lost += 1
        else:
            found += [pair._replace(cell=cell) for cell in cells]
    return found, lost


def no_pair_surfaces() -> PairSurfaces:
    """For scenes where all surfaces are mixed."""
    five, two, one = np.zeros((0, 5)), np.zeros((0, 2)), np.zeros(0)
    return PairSurfaces(five, two, two, five, one, one)
