"""The factors of the mass matrix of one huge tree by native walks: the recursions of crba.py over its stages.

Outward, where each row stands in its tree's root row; inward, composite inertias, and with them each row's momentum and
axis in the frame of the root row.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.lanes.once import once
from kinetree.lanes.prefix import prefix_walks
from kinetree.lanes.walk import Walk
from kinetree.model import Placement, place
from kinetree.spatial import Inertia, Rotation, Sym3, Transform
from kinetree.tree.stages import Stages

from .composite import COMPOSITE, FACTORS, Factors, HeavyRow, row_factors
from .lane_rows import PLACEMENT, ZERO3
from .poses import POSE, identity_pose
from .stage_passes import InwardWalks, OutwardWalks, in_array, inward_pass, kept, outward_pass, results_by_row
from .stage_rows import AXIS, CONSTANT, COUNT, FRAME, FRAME_FIELDS, NOTHING, NUMBER

structure = jax.tree.structure
INERTIA = Inertia(0.0, ZERO3, Sym3(*6 * (0.0,)))

# -- outward: poses ---------------------------------------------------------------------------------------------------

STATE = structure((0.0, 0.0))  # q, and 1 for the root row of a tree


def _placed(frame: tuple, state: tuple) -> tuple[Placement, Placement]:
    """A row in its parent; and the same with root rows at the origin."""
    orientation, position, axis = frame
    q, root = state
    here = place(orientation, position, axis, q)
    return here, jax.tree.map(lambda a, b: jnp.where(root > 0, a, b), identity_pose(q), here)


def _stretch(e: Placement, frame: tuple, state: tuple, exists: Any) -> tuple:
    return POSE.append(e, _placed(frame, state)[1]), ()


@once
def _poses(sources: int, remembered: bool, scattered: bool) -> Walk:
    def step(pose: Placement, frame: tuple, state: tuple, exists: Any) -> tuple:
        here, in_tree = _placed(frame, state)
        pose = POSE.step(in_tree, pose)
        return pose, (here, pose, *((pose,) if remembered else ()))

    results = structure((PLACEMENT,) * (3 if remembered else 2))
    return Walk(
        "crba_poses", step, structure(PLACEMENT), FRAME, STATE, results, FRAME_FIELDS, (COUNT,), sources=sources
    )


POSES = OutwardWalks(
    Walk("crba_reduce_poses", _stretch, structure(PLACEMENT), FRAME, STATE, NOTHING, FRAME_FIELDS, (COUNT,)),
    prefix_walks("crba_poses", POSE.combine, identity_pose, structure(PLACEMENT)),  # type: ignore[arg-type]
    POSE.act,  # type: ignore[arg-type]
    _poses,
    14,
)

# -- inward: composite inertias ---------------------------------------------------------------------------------------

STOOD = jax.tree.unflatten(structure((PLACEMENT, PLACEMENT)), range(14))  # fields that the first pass leaves
HEAVY = structure(HeavyRow(Transform(Rotation(*9 * (0.0,)), ZERO3), INERTIA))


def _streams(joined: bool) -> tuple[Any, tuple, tuple]:
    tree = structure((AXIS, INERTIA, 0.0, PLACEMENT, PLACEMENT, *((INERTIA,) if joined else ())))
    fields = in_array(0, (CONSTANT.axis, CONSTANT.inertia, CONSTANT.armature)) + in_array(1, STOOD)
    return tree, fields + (in_array(2, tuple(range(10))) if joined else ()), (COUNT, 14, 10)[: 2 + joined]


def _heavy(given: tuple) -> tuple[HeavyRow, Inertia]:
    """The row, and what branches bring to it."""
    _, inertia, _, placed, _, *joining = given
    return HeavyRow(placed.transform, inertia), joining[0] if joining else Inertia.zero_like(inertia.mass)


@once
def _reduce_inertias(joined: bool) -> Walk:
    def step(e: HeavyRow, given: tuple, _: Any, exists: Any) -> tuple:
        return kept(exists, COMPOSITE.prepend(*_heavy(given), e), e), ()

    tree, fields, widths = _streams(joined)
    return Walk("crba_reduce_inertias", step, HEAVY, tree, NUMBER, NOTHING, fields, widths, reverse=True)


@once
def _inertias(joined: bool, sources: int, scattered: bool) -> Walk:
    def step(received: Inertia, given: tuple, _: Any, exists: Any) -> tuple:
        axis, inertia, armature, _, pose, *_ = given
        row, joining = _heavy(given)
        received = received + joining
        results = row_factors(axis, armature, inertia + received, pose.transform)
        return kept(exists, COMPOSITE.step(row, received), received), results

    tree, fields, widths = _streams(joined)
    return Walk(
        "crba_inertias",
        step,
        structure(INERTIA),
        tree,
        NUMBER,
        structure(FACTORS),
        fields,
        widths,
        scattered,
        True,
        sources,
    )


INERTIAS = InwardWalks(
    _reduce_inertias,
    prefix_walks(
        "crba_inertias",
        lambda outer, inner: COMPOSITE.combine(inner, outer),  # type: ignore[misc]
        lambda s: HeavyRow(Transform.identity_like(s), Inertia.zero_like(s)),
        HEAVY,
    ),
    lambda e: e.inertia,
    _inertias,
    Inertia.zero_like,
)


def factors_over_stages(laid: Stages, constants: tuple[Any, ...], roots: Any, q: Any) -> Factors:
    """By row, leaves (n,); `roots` are 1 for the root rows of trees, `q` the coordinates of the rows, (n,)."""
    start = identity_pose(jnp.zeros((), q.dtype))
    stood, together = outward_pass(laid, POSES, start, [(c,) for c in constants], (q, roots))
    streams = list(zip(constants, (s[:, :14] for s in stood), strict=True))
    scattered = len(laid.stages) == 1
    results = inward_pass(laid, INERTIAS, streams, q, together, scattered)
    return jax.tree.unflatten(structure(FACTORS), results_by_row(laid, results, scattered))
