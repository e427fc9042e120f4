"""Multiplications and additions of each operation, counted from its jaxpr and compared with what its docstring says.

Counted is what a compiler would leave: nothing computed twice, nothing that is not used. Negations are free, doubling
by `x + x` is an addition, a product with a constant is a multiplication. Docstrings say "12m 6a".
"""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Literal

from kinetree.dynamics.algorithms.rnea import body_force
from kinetree.model.coordinates import chained_acceleration
from kinetree.model.rows import Axis, Placement, place, relative_motion
from kinetree.spatial import (
    ArticulatedInertia,
    Force,
    Inertia,
    Mat3,
    Moments,
    Motion,
    Quaternion,
    Rates,
    RelativeMotion,
    Rotation,
    Sym3,
    Transform,
    Vec3,
    cross_matrix_times,
)

KIND = {"mul": "m", "add": "a", "sub": "a"}


def equations(jaxpr):
    """Every equation, those of nested calls in place, between pairs that tie the inner variables to the outer ones."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("jit", "pjit", "closed_call"):
            inner = eqn.params["jaxpr"].jaxpr
            yield inner.invars, eqn.invars
            yield from equations(inner)
            yield eqn.outvars, inner.outvars
        else:
            yield eqn


def count(function, *arguments):
    """(multiplications, additions) of a function of scalars, by value numbering and then liveness."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    values = {}  # what is computed, or a literal, or an input -> its number
    number = {}  # variable -> number of its value

    def of(atom):
        if isinstance(atom, Literal):
            return values.setdefault(("literal", float(atom.val)), len(values))
        return number[atom]

    for variable in (*jaxpr.invars, *jaxpr.constvars):
        number[variable] = values.setdefault(("input", len(values)), len(values))
    for eqn in equations(jaxpr):
        if isinstance(eqn, tuple):
            number.update(zip(eqn[0], map(of, eqn[1]), strict=True))
            continue
        name, operands = eqn.primitive.name, [of(atom) for atom in eqn.invars]
        if name in ("add", "mul"):
            operands.sort()
        key = (name, *operands, str(eqn.params))
        (out,) = eqn.outvars
        number[out] = values.setdefault(key, len(values))
    alive = set(map(of, jaxpr.outvars))
    total = {"m": 0, "a": 0}
    for key, value in reversed(values.items()):
        if value in alive and key[0] not in ("literal", "input"):
            alive.update(key[1:-1])
            if key[0] in KIND:
                total[KIND[key[0]]] += 1
    return total["m"], total["a"]


def stated(function):
    """All counts in a docstring, in order."""
    found = re.findall(r"\b(?=\d+[ma]\b)(?:(\d+)m)?(?: ?(\d+)a)?", function.__doc__ or "")
    return [(int(m or 0), int(a or 0)) for m, a in found]


PARTS = {
    Motion: (Vec3, Vec3),
    Force: (Vec3, Vec3),
    Transform: (Rotation, Vec3),
    Placement: (Quaternion, Vec3),
    Rates: (Vec3, Vec3, Vec3),
    Inertia: (float, Vec3, Sym3),
    Moments: (float, Vec3, Sym3),
    ArticulatedInertia: (Sym3, Mat3, Sym3),
    RelativeMotion: (Quaternion, Vec3, Vec3, Vec3, Vec3, Vec3),
}  # the others are made of numbers


def example(kind):
    """Any value of a type, as JAX scalars."""
    if kind is float:
        return jnp.asarray(0.5)
    return kind(*map(example, PARTS.get(kind, (float,) * len(kind._fields))))


OPERATIONS = [
    (Vec3.__add__, (Vec3, Vec3)),
    (Vec3.__sub__, (Vec3, Vec3)),
    (Vec3.__mul__, (Vec3, float)),
    (Vec3.dot, (Vec3, Vec3)),
    (Vec3.dot_plus, (Vec3, Vec3, float)),
    (Vec3.cross, (Vec3, Vec3)),
    (Vec3.outer, (Vec3, Vec3)),
    (Mat3.__add__, (Mat3, Mat3)),
    (Mat3.__sub__, (Mat3, Mat3)),
    (Mat3.__mul__, (Mat3, float)),
    (Mat3.__matmul__, (Mat3, Vec3), (Mat3, Mat3)),
    (Mat3.times_plus, (Mat3, Vec3, Vec3)),
    (Mat3.t_mul, (Mat3, Vec3)),
    (Mat3.symmetric_part_twice, (Mat3,)),
    (Sym3.__add__, (Sym3, Sym3)),
    (Sym3.__sub__, (Sym3, Sym3)),
    (Sym3.__mul__, (Sym3, float)),
    (Sym3.__matmul__, (Sym3, Vec3), (Sym3, Mat3)),
    (Sym3.turned_back, (Sym3, Mat3)),
    (cross_matrix_times, (Vec3, Mat3)),
    (Rotation.to_child, (Rotation, Vec3)),
    (Rotation.to_parent, (Rotation, Vec3)),
    (Rotation.turned, (Rotation, float, float)),
    (Rotation.after, (Rotation, Rotation)),
    (Quaternion.__mul__, (Quaternion, Quaternion)),
    (Quaternion.times_about_z, (Quaternion, float, float)),
    (Quaternion.norm_squared, (Quaternion,)),
    (Quaternion.renormalized, (Quaternion,)),
    (Quaternion.rotation, (Quaternion,)),
    (Quaternion.turn, (Quaternion, Vec3)),
    (Quaternion.to_child, (Quaternion, Vec3)),
    (Quaternion.to_parent, (Quaternion, Vec3)),
    (Motion.__add__, (Motion, Motion)),
    (Motion.__sub__, (Motion, Motion)),
    (Motion.__mul__, (Motion, float)),
    (Motion.dot, (Motion, Force)),
    (Motion.cross, (Motion, Motion)),
    (Motion.cross_force, (Motion, Force)),
    (Force.__add__, (Force, Force)),
    (Force.__sub__, (Force, Force)),
    (Force.__mul__, (Force, float)),
    (Inertia.__add__, (Inertia, Inertia)),
    (Inertia.__matmul__, (Inertia, Motion)),
    (Inertia.shifted, (Inertia, Vec3)),
    (Inertia.moments, (Inertia,)),
    (Inertia.from_moments, (Moments,)),
    (ArticulatedInertia.__add__, (ArticulatedInertia, ArticulatedInertia)),
    (ArticulatedInertia.__matmul__, (ArticulatedInertia, Motion)),
    (ArticulatedInertia.without, (ArticulatedInertia, Force, float)),
    (ArticulatedInertia.solve, (ArticulatedInertia, Force)),
    (Transform.__matmul__, (Transform, Motion), (Transform, Transform)),
    (Transform.screwed, (Transform, float, float, float)),
    (Transform.inverse, (Transform,)),
    (Transform.force_to_parent, (Transform, Force)),
    (Transform.force_to_child, (Transform, Force)),
    (Transform.motion_to_parent, (Transform, Motion)),
    (Transform.inertia_to_parent, (Transform, Inertia)),
    (Transform.articulated_to_parent, (Transform, ArticulatedInertia)),
    (Rates.gradient.fget, (Rates,)),
    (Rates.acceleration_at, (Rates, Vec3)),
    (RelativeMotion.act, (RelativeMotion, Rates)),
    (RelativeMotion.then, (RelativeMotion, RelativeMotion)),
    (Axis.times, (Axis, float)),
    (Axis.dot, (Axis, Force)),
    (place, (Quaternion, Vec3, Axis, float)),
    (Placement.__matmul__, (Placement, Motion), (Placement, Placement)),
    (Placement.screwed, (Placement, float, float, float)),
    (Placement.inverse, (Placement,)),
    (Placement.force_to_parent, (Placement, Force)),
    (relative_motion, (Placement, Axis, float, float)),
    (chained_acceleration, (Vec3, Vec3)),
    (body_force, (Moments, Rates)),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o[0].__qualname__)
def test_docstring_tells_the_cost(operation):
    function, *calls = operation
    assert [count(function, *map(example, kinds)) for kinds in calls] == stated(function)


@pytest.mark.parametrize("kind", [Vec3, Mat3, Sym3, Rotation, Quaternion, Motion, Force, Inertia, ArticulatedInertia,
                                  Transform, Rates, RelativeMotion], ids=lambda k: k.__name__)  # fmt: skip
def test_every_stated_cost_is_counted(kind):
    counted = {function for function, *_ in OPERATIONS}
    own = {name: f for name, f in vars(kind).items() if callable(getattr(f, "__func__", f))}
    missing = [n for n, f in own.items() if stated(f) and getattr(f, "__func__", f) not in counted]
    assert not missing


def test_the_counter_counts():
    def function(x, y):
        z = x * y
        unused = z * z  # noqa: F841
        return jnp.where(x > y, (x * y) * 2 + (y * x), -z), jax.jit(lambda t: t * t - y)(z)

    assert count(function, example(float), example(float)) == (3, 2)
    assert stated(Mat3.__matmul__) == [(9, 6), (27, 18)]
    assert stated(Vec3.outer) == [(9, 0)]
