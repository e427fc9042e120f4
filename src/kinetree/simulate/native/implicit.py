"""Velocity terms that are taken at the end of a step in lanes: (H + h ∂c/∂u) α = f (simulate/implicit.py, slopes.py).

The matrix is what inverse dynamics becomes when an acceleration α comes with the change h α of the velocities:

    δv = δv_up + h S α,   δa = δa_up + (S + h n) α + δv_up × m,   f = I δa + B δv,

with B = ∂f/∂v of a body: its gyroscopic force, and the drag of a fluid. Of a hinge m = S q̇ and n = v_up × S; of ball
and free joints m is the velocity of the whole joint, at its first row. So each row and all after it act as
f = I δa + B δv + p with two matrices that are not symmetric, and joints are released one after the other as in the
articulated-body algorithm: in O(n), for all trees. f on the right is what the acceleration that constraints left needs.

MuJoCo's `implicit` takes all terms so. Its `implicitfast` takes the drag of a fluid, and all terms of free bodies that
carry nothing else.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.constrain.fluid import drag
from kinetree.constrain.native.fluid import BOX, box_constants, in_box, rows_of_boxes
from kinetree.constrain.native.kinematics import rows_apart
from kinetree.constrain.native.memory import BODY, FORCE, MOTION, ROW, ZERO3, fixed
from kinetree.constrain.native.parts import Part, added, fill, part, table
from kinetree.lanes import Memory, Slots
from kinetree.model import Model
from kinetree.spatial import Force, Inertia, Motion, Vec3

Matrix = tuple[Force, ...]  # six rows
MATRIX = (FORCE,) * 6
SLOPED = Memory(
    m=MOTION,
    n=MOTION,
    B=MATRIX,
    I=MATRIX,
    p=FORCE,
    dv=MOTION,
    da=MOTION,
    by_a=FORCE,  # the joint's answer: α = (u − by_a · δa_up − by_v · δv_up) / d
    by_v=FORCE,
    u=0.0,
    d_inverse=0.0,
    before=0.0,  # α without these terms
)


def _six(f: Any) -> tuple:
    return (*f.angular, *f.linear)


def _times(M: Matrix, a: Motion) -> Force:
    f = [a.dot(row) for row in M]
    return Force(Vec3(*f[:3]), Vec3(*f[3:]))


def _transposed(M: Matrix, a: Motion) -> Force:
    """Mᵀ a."""
    first, *rest = (row * x for row, x in zip(M, _six(a), strict=True))
    return sum(rest, start=first)


def _without(M: Matrix, U: Force, w: Force) -> Matrix:
    """M − U wᵀ."""
    return tuple(row - w * x for row, x in zip(M, _six(U), strict=True))


def _crossed(M: Matrix, m: Motion) -> Matrix:
    """a ↦ M (a × m)."""
    return tuple(Force(m.angular.cross(r.angular) + m.linear.cross(r.linear), m.angular.cross(r.linear)) for r in M)


def _sum(A: Any, B: Any) -> Any:
    return jax.tree.map(lambda a, b: a + b, A, B)


def _turning(v: Vec3) -> tuple[Vec3, Vec3, Vec3]:
    """Rows of v×."""
    zero = jnp.zeros_like(v.x)
    return Vec3(zero, -v.z, v.y), Vec3(v.z, zero, -v.x), Vec3(-v.y, v.x, zero)


def rows_of_inertia(inertia: Inertia) -> Matrix:
    """An inertia as a matrix: [[I, h×], [−h×, m]]."""
    mass, first, second = inertia
    zero = jnp.zeros_like(mass)
    units = Vec3(mass, zero, zero), Vec3(zero, mass, zero), Vec3(zero, zero, mass)
    cross = _turning(first)
    angular = tuple(Force(a, b) for a, b in zip(second.rows, cross, strict=True))
    return (*angular, *(Force(-c, u) for c, u in zip(cross, units, strict=True)))


def gyroscopic(inertia: Inertia, I: Matrix, v: Motion) -> Matrix:
    """∂(v ×* I v)/∂v."""
    momentum = inertia @ v
    n, f = _turning(momentum.angular), _turning(momentum.linear)
    zero = Vec3.zero_like(v.angular.x)
    own = (*(Force(-a, -b) for a, b in zip(n, f, strict=True)), *(Force(-b, zero) for b in f))

    def cross(w: Vec3, rows: Matrix) -> Matrix:
        x, y, z = rows
        return z * w.y - y * w.z, x * w.z - z * w.x, y * w.x - x * w.y

    turned = cross(v.angular, I[:3]), cross(v.linear, I[3:]), cross(v.angular, I[3:])
    moved = (*(a + b for a, b in zip(turned[0], turned[1], strict=True)), *turned[2])
    return tuple(a + b for a, b in zip(own, moved, strict=True))


# -- what there is at the start of a step -----------------------------------------------------------------------------


def _nothing() -> Part:
    """No terms, of rows that have some and those that have none."""
    return fill(lambda plan: table(plan.sloped(plan.sloped_rows)), *SLOPED.of(0, "m", "n", "B"))


def _apart(name: str, count: int) -> tuple[Slots, ...]:
    own = SLOPED.at(2, name)
    return tuple(own._replace(offset=own.offset + k * SLOPED.size) for k in range(count))


def _joints(width: int) -> Part:
    """m and n of hinges and sliders, of balls, or of free joints."""

    def step(v, *rest):
        S, qd = rest[:width], rest[width:]
        whole = [s * x for s, x in zip(S, qd, strict=True)]
        m = sum(whole[1:], start=whole[0])
        n = [v.cross(s) for s in S]
        if width == 6:  # x has ω × v more than the acceleration of a free joint
            omega, linear = Vec3(*qd[:3]), Vec3(*qd[3:])
            zero, one = jnp.zeros_like(omega.x), jnp.ones_like(omega.x)
            units = Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one)
            more = [*(e.cross(linear) for e in units), *(omega.cross(e) for e in units)]
            n = [a - (S[3] * w.x + S[4] * w.y + S[5] * w.z) for a, w in zip(n, more, strict=True)]
        return (m, *n)

    reads = (ROW.at(0, "v"), *rows_apart(1, "S", width), *rows_apart(1, "qd", width))

    def turns(plan: Any) -> np.ndarray:
        joints = plan.structure.quaternion_joints
        first = joints[joints[:, 2] == width // 6, 0] if width > 1 else np.flatnonzero(plan.structure.q_of_row >= 0)
        first = first[np.isin(first, plan.turning_rows)].astype(np.int64)
        return table(plan.up(first), plan.row(first), plan.sloped(first))

    return part(turns, step, reads, (SLOPED.at(2, "m"), *_apart("n", width)))


def _bodies() -> Part:
    """B of bodies."""

    def step(inertia, v):
        return (gyroscopic(inertia, rows_of_inertia(inertia), v),)

    def turns(plan: Any) -> np.ndarray:
        rows = plan.turning_rows[np.isin(plan.turning_rows, plan.massive)]
        return table(plan.row(rows), plan.body(rows), plan.sloped(rows))

    return part(turns, step, (BODY.at(1, "inertia"), ROW.at(0, "v")), SLOPED.of(2, "B"))


def _boxes() -> Part:
    """What a fluid adds to B."""

    def step(box, pose, v):
        at = in_box(box, pose, v)
        one = jnp.ones_like(v.angular.x)
        units = Vec3(one, one, one)
        both = jax.jvp(
            lambda omega, speed: drag(box.density, box.viscosity, box.size, omega, speed),
            (at.omega, at.speed),
            (units, units),
        )[1]  # each direction by itself
        axes = at.to_world.rotation().rows
        moment, force = ([e * -x for e, x in zip(axes, s, strict=True)] for s in both)  # of unit speeds

        def resists(a: Motion) -> tuple:
            linear = a.linear + a.angular.cross(at.centre)
            f = [force[k] * axes[k].dot(linear) for k in range(3)]
            push = f[0] + f[1] + f[2]
            turn = [moment[k] * axes[k].dot(a.angular) for k in range(3)]
            return _six(Force(turn[0] + turn[1] + turn[2] + at.centre.cross(push), push))

        zero = jnp.zeros_like(one)
        columns = []
        for k in range(6):
            e = [one if j == k else zero for j in range(6)]
            columns.append(resists(Motion(Vec3(*e[:3]), Vec3(*e[3:]))))
        rows = [[column[r] for column in columns] for r in range(6)]
        return (tuple(Force(Vec3(*r[:3]), Vec3(*r[3:])) for r in rows),)

    def turns(plan: Any) -> np.ndarray:
        return table(plan.row(rows_of_boxes(plan)), plan.sloped(rows_of_boxes(plan)))

    return part(turns, step, ROW.of(0, "pose", "v"), added(*SLOPED.of(1, "B")), (BOX, box_constants))


def terms(fluid: bool) -> list[Part]:
    """m, n and B of all rows, while velocities are at hand."""
    return [_nothing(), *map(_joints, (1, 3, 6)), _bodies(), *([_boxes()] if fluid else [])]


# -- at the end -------------------------------------------------------------------------------------------------------


def _rows(plan: Any) -> np.ndarray:
    """Rows in the order of a sweep outward."""
    return plan.outward_rows[np.isin(plan.outward_rows, plan.sloped_rows)]


def _swept(plan: Any) -> np.ndarray:
    """Turns of a sweep outward: parents, rows, and terms."""
    return table(plan.sloped_up(_rows(plan)), plan.row(_rows(plan)), plan.sloped(_rows(plan)))


def _weighed() -> list[Part]:
    """J α; I of bodies, and the forces that they need for it."""

    def along(above, S, alpha):
        none = jax.tree.map(lambda _: 0.0, MATRIX)
        return (above + S * alpha, none, Force(ZERO3, ZERO3), alpha)

    def body(inertia, a):
        return (rows_of_inertia(inertia), -(inertia @ a))

    def massive(plan: Any) -> np.ndarray:
        rows = plan.massive[np.isin(plan.massive, plan.sloped_rows)]
        return table(plan.body(rows), plan.sloped(rows))

    return [
        fill(lambda plan: table(plan.sloped_base(np.arange(plan.n_trees))), *SLOPED.of(0, "dv", "da")),
        part(_swept, along, (SLOPED.at(0, "da"), *ROW.of(1, "S", "alpha")), SLOPED.of(2, "da", "I", "p", "before")),
        part(massive, body, (BODY.at(0, "inertia"), SLOPED.at(1, "da")), SLOPED.of(1, "I", "p")),
    ]


def _inward(loaded: bool) -> Part:
    """Joints are released, from the last rows to the first. `loaded`: α was found with the loads of joints."""

    def step(armature, I, B, p, m, n, S, alpha, load, h):
        U = _times(I, S + n * h) + _times(B, S) * h
        across = _sum(_crossed(I, m), B)
        by_a, by_v = _transposed(I, S), _transposed(across, S)
        d_inverse = 1 / (S.dot(U) + armature + load)
        u = (armature + load if loaded else armature) * alpha - S.dot(p)
        scaled = U * d_inverse
        left = _without(I, scaled, by_a), _without(across, scaled, by_v), p + scaled * u
        return (by_a, by_v, u, d_inverse, *left)

    reads = (*SLOPED.of(2, "I", "B", "p", "m", "n"), *ROW.of(1, "S", "alpha", "load"), fixed("h"))
    made = (*SLOPED.of(2, "by_a", "by_v", "u", "d_inverse"), *added(*SLOPED.of(0, "I", "B", "p")))
    armature = 0.0, lambda model, plan, known: model.rows.armature[_rows(plan)[::-1]]
    return part(lambda plan: np.ascontiguousarray(_swept(plan)[::-1]), step, reads, made, armature)


def _outward() -> Part:
    """α of all rows."""

    def step(dv, da, by_a, by_v, u, d_inverse, m, n, S, h):
        alpha = (u - da.dot(by_a) - dv.dot(by_v)) * d_inverse
        return (alpha, dv + S * (h * alpha), da + (S + n * h) * alpha + dv.cross(m))

    own = SLOPED.of(2, "by_a", "by_v", "u", "d_inverse", "m", "n")
    reads = (*SLOPED.of(0, "dv", "da"), *own, ROW.at(1, "S"), fixed("h"))
    return part(_swept, step, reads, (ROW.at(1, "alpha"), *SLOPED.of(2, "dv", "da")))


def taken_at_end(loaded: bool) -> list[Part]:
    """α with all terms, from the one that constraints left."""
    return [*_weighed(), _inward(loaded), _outward()]


def of_rows(model: Model, integrator: str, lone: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows that such terms may change, and those that have all of them."""
    s = model.structure
    every = np.arange(s.tree.n)
    starts = np.asarray(s.v_start, np.int64)
    own = np.concatenate([every[:0], *(np.arange(starts[b], starts[b + 1]) for b in lone)]).astype(np.int64)
    if integrator == "implicit":
        return every, every
    flows = integrator == "implicitfast" and model.world is not None and model.world.fluid is not None
    return every if flows else own, own
