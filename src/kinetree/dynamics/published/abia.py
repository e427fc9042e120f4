"""The hybrid articulated-body inertia algorithm of Yang, Wu and Pan 2017 (§II-B): the recursion for articulated
inertias is the one step that they hold not to be parallel, so it is walked row by row, and all else is linear
recursions, solved by scans.

    sequentially   IA = I + Σ Xᵀ (IA − U Uᵀ/d) X over the children
    scan inward    pA = p + Σ Xᵀ (Pᵀ pA + (IA − U Uᵀ/d) c + U τ/d) over the children: affine, as IA is known   (eq. 5,
    right factor) scan outward   a  = P (X a_parent + c) + S u/d
    (eq. 5, left factor)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Axis, Model, Rows
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Rotation, Scalar, Sym3, Transform
from kinetree.tree import Inward, Layout, arrange, inward, layout, restore

from ..aba import unshifted
from ..algorithms.aba import product
from ..articulated_rows import accelerations, articulated_rows
from ..elements.articulated import Articulated, Scale, pivot, scale_passed
from ..elements.articulated_element import pull_back, unit_forces
from ..schedules.arranged import arranged
from ..schedules.lane_algorithm import LaneAlgorithm
from ..schedules.lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    ROWS,
    SCREW,
    ZERO3,
    Part,
    Q,
    Screw,
    V,
    base_gravity,
    base_turn,
    placing_parts,
    row_turns,
    screw_constants,
    screw_place,
)  # fmt: skip

ENTRIES = 23  # of a symmetric 6 by 6 matrix, and the scale of what went into it


@once
def inertia_lanes(quaternions: bool) -> LaneAlgorithm:
    """Articulated inertias of all rows, row by row: output k has entry k of every row."""
    six = Sym3(*6 * (0.0,))
    fields: dict[str, Any] = {
        "X": Transform(Rotation(*9 * (0.0,)), ZERO3),
        "inertia": ArticulatedInertia(six, Mat3(*9 * (0.0,)), six),
        "scale": Scale(0.0, 0.0),
    }
    memory = Memory(**fields, **({"placed": PLACEMENT} if quaternions else {}))
    X, inertia, scale = (memory.at(OWN, name) for name in ("X", "inertia", "scale"))

    def base(gravity: Any, _: tuple, __: tuple) -> tuple:
        return (ArticulatedInertia.zero_like(gravity.x), Scale.zero_like(gravity.x)), (), ()

    def place_row(row: Rows, given: tuple, reads: tuple) -> tuple:
        placed = reads[0] if quaternions else screw_place(row, *given)
        return (placed.transform, row.inertia.articulated(), Scale.zero_like(row.inertia.mass)), (), ()

    def step(row: Screw, _: tuple, reads: tuple) -> tuple:
        X, I, scale = reads
        whole = Articulated(I, Force.zero_like(X.r.x), scale)
        joint = pivot(row.axis, row.armature, jnp.zeros_like(X.r.x), whole)
        left = X.articulated_to_parent(I.without(joint.U, joint.d_inverse))
        passed = scale_passed(row.axis, row.mass, whole, joint)
        assert passed is not None  # as `whole` has a scale
        return (), (left, passed.to_parent(X.r)), tuple(jax.tree.leaves((I, scale)))

    place_loop = Loop(
        place_row,
        4,
        ROWS,
        reads=(memory.at(OWN, "placed"),) if quaternions else (),
        writes=(X, inertia, scale),
        inputs=() if quaternions else (Lane(0, Q),),
    )
    adds = (memory.at(PARENT, "inertia"), memory.at(PARENT, "scale"))
    outputs = tuple(Lane(k, V) for k in range(ENTRIES))
    step_loop = Loop(step, 4, SCREW, reads=(X, inertia, scale), adds=adds, outputs=outputs)
    parts = placing_parts(memory, 0) if quaternions else []
    parts.append(Part(Loop(base, 4, GRAVITY, writes=(inertia, scale)), base_turn(memory), base_gravity))
    parts.append(Part(place_loop, row_turns(memory)))
    parts.append(Part(step_loop, row_turns(memory, inward=True), screw_constants))
    return LaneAlgorithm("abia", parts, memory, 1, ENTRIES, lambda s: (s.tree.n,) * ENTRIES)


class BiasRow(NamedTuple):
    """What the bias recursion knows of a row: `known` is all it passes on that does not depend on its children."""

    X: Transform
    axis: Axis
    U: Force
    d_inverse: Scalar
    known: Force  # in the parent's coordinates


class BiasElement(NamedTuple):
    """f ↦ Aᵀ f + η: the six forces are what unit forces at the outer end are at the inner one."""

    A: tuple[Force, ...]
    eta: Force


def _pass_on(row: BiasRow, f: Force) -> Force:
    return pull_back(row.X, row.axis, row.U, row.d_inverse, f)


def _sum(A: tuple[Force, ...], f: Force) -> Force:
    total = Force.zero_like(f.linear.x)
    for unit, x in zip(A, (*f.angular, *f.linear), strict=True):
        total = total + unit * x
    return total


BIAS = Inward(
    step=lambda row, f: row.known + _pass_on(row, f),
    element=lambda row, f: BiasElement(
        tuple(_pass_on(row, unit) for unit in unit_forces(row.d_inverse)), row.known + _pass_on(row, f)
    ),
    combine=lambda inner, outer: BiasElement(
        tuple(_sum(inner.A, f) for f in outer.A), inner.eta + _sum(inner.A, outer.eta)
    ),
    act=lambda e, f: e.eta + _sum(e.A, f),
    identity=lambda e: BiasElement(unit_forces(e.eta.linear.x), Force.zero_like(e.eta.linear.x)),
    extend=lambda row, f, e: BiasElement(
        tuple(_pass_on(row, unit) for unit in e.A), row.known + _pass_on(row, f + e.eta)
    ),
    name="articulated bias",
)


@jax.jit
def _scans(laid: Layout, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, entries: tuple) -> Any:
    at = arranged(laid, model, q)
    rows = articulated_rows(laid, model, at, qd, tau, f_ext)
    kind = jax.tree.structure((rows.own.inertia, rows.own.scale))
    IA, scale = jax.tree.unflatten(kind, [arrange(laid, x.T) for x in entries])
    own, c = rows.own.bias, product(rows)
    U, d_inverse, _ = pivot(rows.axis, rows.armature, rows.tau, Articulated(IA, own, scale))
    known = own + (IA @ c) + U * ((rows.tau - rows.axis.dot(own) - c.dot(U)) * d_inverse)
    bias_rows = BiasRow(rows.at, rows.axis, U, d_inverse, rows.at.force_to_parent(known))
    pA = own + inward(BIAS, laid, bias_rows, Force.zero_like(at.gravity.x))
    _, qdd = accelerations(laid, at, rows, Articulated(IA, pA, scale))
    return unshifted(model, restore(laid, qdd).T, qd)


def forward_dynamics_abia(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv)."""
    entries = inertia_lanes(model.structure.has_quaternions)(model, q)
    laid = layout(model.tree, "paths")
    entries = tuple(jnp.asarray(x) for x in entries)
    return _scans(laid, model, q, qd, tau, f_ext, entries)
