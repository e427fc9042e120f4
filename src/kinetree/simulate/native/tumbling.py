"""The gyroscopic forces of lone free bodies, taken at the end of a step in lanes: MuJoCo's implicitfast.

With α of a free body under all forces, its matrix A = [[I, mc×], [−mc×, m]] with rotors and loads, and the slope K of
the gyroscopic force by ω, the step takes α′ = (A + h (K 0))⁻¹ A α (simulate/implicit.py). The linear part of A is
diagonal, so it is eliminated first; three equations for the angular part are left.
"""

from typing import Any

import jax
import numpy as np

from kinetree.constrain.native.kinematics import rows_apart
from kinetree.constrain.native.memory import INERTIA, fixed
from kinetree.constrain.native.parts import Part, table
from kinetree.lanes import Loop
from kinetree.model import Model
from kinetree.spatial import Mat3, Vec3

from .moves import FREE
from .plan import StepPlan


def _cross(v: Vec3) -> Mat3:
    zero = v.x * 0
    return Mat3(zero, -v.z, v.y, v.z, zero, -v.x, -v.y, v.x, zero)


def _plus(a: Mat3, b: Mat3, scale: Any = 1.0) -> Mat3:
    return Mat3(*(x + scale * y for x, y in zip(a, b, strict=True)))


def _product(a: Mat3, b: Mat3) -> Mat3:
    columns = [a @ column for column in b.T.rows]
    return Mat3(*columns[0], *columns[1], *columns[2]).T


def _solved(S: Mat3, f: Vec3) -> Vec3:
    """S⁻¹ f, by Cramer's rule."""
    a, b, c = S.T.rows
    whole = 1 / a.dot(b.cross(c))
    return Vec3(f.dot(b.cross(c)) * whole, a.dot(f.cross(c)) * whole, a.dot(b.cross(f)) * whole)


def tumbled(inertia: Any, rotors: tuple, qd: tuple, load: tuple, alpha: tuple, h: Any) -> tuple[Vec3, Vec3]:
    """α′ of a body, angular and linear."""
    mass, first, second = inertia
    omega, turning, mc = Vec3(*qd[:3]), _cross(Vec3(*qd[:3])), _cross(first)
    loads = [r + l for r, l in zip(rotors, load, strict=True)]
    I = Mat3(*(x for row in second.rows for x in row))
    D = Vec3(*(mass + x for x in loads[3:]))
    a, l = Vec3(*alpha[:3]), Vec3(*alpha[3:])
    own = I @ a + Vec3(*(x * y for x, y in zip(loads[:3], a, strict=True)))
    f_angular, f_linear = own + mc @ l, Vec3(*(x * y for x, y in zip(D, l, strict=True))) - mc @ a
    angular = _plus(_product(turning, I), _cross(I @ omega), -1.0)
    linear = _plus(_cross(omega.cross(first)), _product(turning, mc))  # less than zero
    below = Mat3(*(-x - h * y for x, y in zip(mc, linear, strict=True)))
    heavy = Mat3(*(x / d for row, d in zip(below.rows, D, strict=True) for x in row))  # D⁻¹ L
    zero = mass * 0
    diagonal = Mat3(loads[0], zero, zero, zero, loads[1], zero, zero, zero, loads[2])
    S = _plus(_plus(_plus(I, diagonal), angular, h), _product(mc, heavy), -1.0)
    moved = Vec3(*(x / d for x, d in zip(f_linear, D, strict=True)))
    a = _solved(S, f_angular - mc @ moved)
    return a, moved - heavy @ a


def tumbling() -> Part:
    """α of all lone free bodies."""

    def step(known: tuple, _: tuple, reads: tuple) -> tuple:
        qd, load, alpha, h = reads[:6], reads[6:12], reads[12:18], reads[18]
        inertia, rotors = known
        a, l = tumbled(inertia, rotors, qd, load, alpha, h)
        return (*a, *l), (), ()

    fields = [rows_apart(0, name, FREE.nv) for name in ("qd", "load", "alpha")]
    reads = (*(s for field in fields for s in field), fixed("h"))
    loop = Loop(step, 1, jax.tree.structure((INERTIA, (0.0,) * 6)), reads=reads, writes=fields[2])

    def first_rows(plan: StepPlan) -> np.ndarray:
        return plan.structure.v_start[np.array(plan.lone, np.int64)].astype(np.int64)

    def numbers(model: Model, plan: Any, known: Any) -> tuple:
        inertia = jax.tree.map(lambda x: x[np.array(plan.lone, np.int64)], model.inertia)
        rows = first_rows(plan)[:, None] + np.arange(FREE.nv)
        return inertia, tuple(model.rows.armature[rows].T)

    return Part(loop, lambda plan: table(plan.row(first_rows(plan))), numbers)  # type: ignore[arg-type]
