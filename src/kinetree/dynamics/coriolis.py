"""The Coriolis matrix: C qd are the velocity-product forces, and Ḣ − 2 C is skew.

A body with inertia I and velocity v has the matrix B(I, v) of closed_form/terms.py, with B v = v ×* I v and B + Bᵀ =
v×* I − I v× = İ (Echeandia & Wensing 2021, eq. 13). Let Ṡ = v × S, with v the velocity of the body that carries the
axis, and let I, B be the composites of all that row i carries. Then
    C_ji = S_j · (I Ṡ_i + B S_i)        C_ij = Bᵀ S_i · S_j + I S_i · Ṡ_j        for j on the way from the base to i
This is their algorithm as a lane program: velocities outward, composites inward, then pairs of rows. Everything is in
world axes. If joints have positions of their own, the origin is at the first such joint. If each joint has one
coordinate, C is the matrix made of Christoffel symbols.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree.lanes import NOTHING, Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Model, Structure, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.spatial import Force, Inertia, Mat3, Motion, Sym3, Vec3

from .closed_form.links import base_part, placed_at, world_axis
from .closed_form.shape import Skeleton
from .closed_form.terms import VelocityProduct
from .directly import directly
from .recursion import Row
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_parts import unrelated, zero_parts
from .schedules.lane_rows import (
    ACCURATE,
    OWN,
    PARENT,
    PLACEMENT,
    ZERO3,
    Q,
    RowPart,
    Turns,
    V,
    joints_with,
    placing_parts,
    row_turns,
    some_are_not_zero,
)
from .schedules.lane_visits import row_count

LAST, PLACE = 4, 5  # more columns of a row table: slots of the joint's last row, place of the diagonal
ABOVE, ROW, ENTRY, MIRROR = range(4)  # columns of a pair table
INERTIA = Inertia(0.0, ZERO3, Sym3(*6 * (0.0,)))
MOTION, FORCE = Motion(ZERO3, ZERO3), Force(ZERO3, ZERO3)
PRODUCT = VelocityProduct(Mat3(*9 * (0.0,)), ZERO3)


def coriolis_terms(S: Motion, rate: Motion, I: Inertia, B: VelocityProduct) -> tuple[Force, Vec3, Force]:
    """The terms of a row for pairs with the rows that carry it: I Ṡ + B S, the angular part of Bᵀ S, and I S."""
    return I @ rate + B.twice(S) * 0.5, B.transposed_twice(S) * 0.5, I @ S


def _row_table(memory: Memory, inward: bool) -> Any:
    def turns(structure: Structure) -> Turns:
        table, rows = row_turns(memory, inward)(structure)
        last = memory.base(Skeleton(structure, None).last_of_row[rows])
        more = np.stack([last, rows * (structure.tree.n + 1)], -1)
        return np.concatenate([table, more], 1), rows

    return turns


@once
def coriolis_lanes(quaternions: bool) -> LaneAlgorithm:
    """q and qd to C, (nv, nv)."""
    fields: dict[str, Any] = {"pose": PLACEMENT, "v": MOTION, "S": MOTION, "rate": MOTION, "I": INERTIA, "B": PRODUCT}
    fields |= {"force": FORCE, "back": ZERO3, "momentum": FORCE}
    fields |= {"placed": PLACEMENT} if quaternions else {}
    memory = Memory(**fields)
    at = memory.of

    def begins(gravity: Vec3) -> dict[str, Any]:
        rest, nothing = Motion.zero_like(gravity.x), Inertia.zero_like(gravity.x)
        return {"v": rest, "I": nothing, "B": VelocityProduct.of(nothing, rest)}

    def outward(link: Row, given: tuple, reads: tuple) -> tuple:
        (pose, v), qd = reads[:2], given[0]
        pose = (reads[2] if quaternions else placed_at(link, given[1])) @ pose
        S = world_axis(pose, link.axis)
        v = v + S * qd
        I: Inertia = pose.transform.inertia_to_parent(link.inertia)
        return (pose, v, S, I, VelocityProduct.of(I, v)), (), ()

    def inward(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, I, B, v = reads
        rate = v.cross(S)
        force, back, momentum = coriolis_terms(S, rate, I, B)
        return (rate, force, back, momentum), (I, B), (S.dot(force),)

    def pair(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, rate, force, back, momentum = reads
        return (), (), (S.dot(force), back.dot(S.angular) + rate.dot(momentum))

    def pair_turns(structure: Structure) -> np.ndarray:
        (i, j), n = Skeleton(structure, None).pairs, structure.tree.n
        return np.stack([memory.base(i), memory.base(j), i * n + j, j * n + i], -1)

    link = ("axis", "inertia", *(() if quaternions else ("frame",)))
    inputs = (Lane(1, V), *(() if quaternions else (Lane(0, Q),)))

    reads = at(PARENT, "pose", "v") + (at(OWN, "placed") if quaternions else ())
    carried = at(OWN, "S", "I", "B") + at(LAST, "v")
    left = at(OWN, "rate", "force", "back", "momentum")
    parts = [
        *(placing_parts(memory) if quaternions else []),
        base_part(memory, quaternions, begins),
        RowPart(
            Loop(outward, 6, ACCURATE.parts_structure(link), reads, at(OWN, "pose", "v", "S", "I", "B"), inputs=inputs),
            _row_table(memory, False),
            ACCURATE.parts_constants(link),
        ),
        RowPart(
            Loop(inward, 6, NOTHING, carried, left, at(PARENT, "I", "B"), outputs=(Lane(0, PLACE),)),
            _row_table(memory, True),
        ),
        RowPart(
            Loop(
                pair,
                4,
                NOTHING,
                at(ABOVE, "S", "rate") + at(ROW, "force", "back", "momentum"),
                outputs=(Lane(0, ENTRY), Lane(0, MIRROR)),
            ),
            pair_turns,
        ),
        *zero_parts(unrelated),
    ]
    name = "coriolis" + "_quaternions" * quaternions
    return LaneAlgorithm(name, parts, memory, ("q", "v"), ((row_count, row_count),), gives=("matrix",))


def _has_rotors(model: Model) -> bool:
    """True unless free joints are known to have no rotors along their sliding rows."""
    return some_are_not_zero((model.rows.armature * model.rows.slide)[model.structure.q_of_row < 0])


@coupled("matrix")
def _of_rotors(model: Model, qd: Any) -> Any:
    """armature ω × on the sliding rows of free joints, (batch, nv, nv): C qd is the force of `armature_shift` there."""
    first = joints_with(model.structure, 1)[:, 0]
    C = jnp.zeros((*qd.shape, qd.shape[1]), qd.dtype)
    armature = jnp.asarray(model.rows.armature, qd.dtype)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        C = C.at[:, first + 3 + i, first + 3 + k].set(armature[first + 3 + i] * qd[:, first + j])
        C = C.at[:, first + 3 + i, first + 3 + j].set(-armature[first + 3 + i] * qd[:, first + k])
    return C


def coriolis_program(model: Model) -> LaneAlgorithm:
    """The program for a model. It adds up entries of joints that follow others, and leaves out rotors."""
    return serving(coriolis_lanes(model.structure.has_quaternions), model)


@directly(lambda model: None if _has_rotors(model) else coriolis_program(model))
def coriolis_matrix(model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]) -> Float[Array, "... nv nv"]:
    """A matrix C with C qd the Coriolis and centrifugal forces, and Ḣ − 2 C skew-symmetric.

    Arguments:
        model: the mechanism.
        q, qd: (..., nq), (..., nv).

    Returns:
        C, (..., nv, nv).

    Reference: Echeandia & Wensing 2021, "Numerical methods to compute the Coriolis matrix and Christoffel symbols for
        rigid-body systems".
    """

    def compute(q: Any, qd: Any) -> Any:
        if model.nv == 0:
            return jnp.zeros((q.shape[0], 0, 0), q.dtype)
        instead = "bias_force less gravity_force, which is C qd"
        require_matrices("the Coriolis matrix", q, model.nv, model.nv, copies=4, instead=instead)
        C = coriolis_program(model)(model, q, qd)[0].reshape(-1, model.nv, model.nv)
        return C + _of_rotors(model, qd) if _has_rotors(model) else C

    return evaluate_for(model, compute, q=q, qd=qd)
