"""Lengths of strings, and how each grows with the coordinates of its joints: one loop for each kind of string."""

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.lanes import Slots
from kinetree.model import Model
from kinetree.spatial import Quaternion, Vec3

from ..equality_groups import follow
from ..joint_groups import sliding_axes, turn_from_rest
from .kinematics import at_q
from .memory import NUMBER, ROW, ZERO3
from .parts import Known, Part, added, copy, fill, part, table
from .plan import Plan
from .string_plan import STRING
from .tables import split


def number(column: int) -> Slots:
    """One slot."""
    return Slots(column, 0, NUMBER)


def clear_lengths() -> Part:
    """Set length and motion to zero."""
    return fill(lambda plan: plan.strings.every(), *STRING.of(0, "length", "velocity", "a", "bend"))


def fixed_tendons() -> Part:
    """Entries of fixed tendons, which are constants, and their terms of lengths."""

    def step(coefficient, q):
        return (coefficient, coefficient * q)

    def turns(plan: Plan) -> np.ndarray:
        own = plan.strings
        places = [own.entry(t, own.rows[t].index(r)) for t, r in own.fixed]
        tendons, rows = np.array(own.fixed, np.int64).reshape(-1, 2).T
        return table(places, own.string(tendons), plan.q + plan.structure.q_of_row[rows])

    coefficients = 0.0, lambda model, plan, known: plan.world.tendons.coefficients
    return part(turns, step, (number(2),), (number(0), *added(STRING.at(1, "length"))), coefficients)


def follower_entries() -> Part:
    """Entries of joints that follow others: how they move beyond them."""

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.strings.entry(plan.strings.mimics.strings))

    ratios = 0.0, lambda model, plan, known: plan.coupling.ratio_v[plan.strings.mimics.members]
    return part(turns, lambda x: (jnp.ones_like(x), -x), (), (number(0), Slots(0, 1, NUMBER)), ratios)


def follower_lengths() -> Part:
    """Joints that follow others, or are held: the length is how far the first is from where it should be."""

    def step(known, q1, q2):
        c, (ref1, ref2), on = known
        value, slope = follow(c, (q2 - ref2) * on, on)
        return (q1 - ref1 - c[0] - value, (jnp.ones_like(slope), -slope))

    both = Slots(1, 0, jax.tree.structure((0.0, 0.0)))

    def turns(plan: Plan) -> np.ndarray:
        s = plan.strings
        rows = np.array([s.rows[k] for k in s.follows.strings], np.int64)
        q = plan.q + plan.structure.q_of_row[rows]
        return table(s.string(s.follows.strings), s.entry(s.follows.strings), q[:, 0], q[:, 1])

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        e = there(plan.strings.joints)
        on = (np.array(e.rows2) >= 0).astype(float)
        return split(e.coefficients), (e.reference1, e.reference2), on

    known = ((0.0,) * 5, (0.0, 0.0), 0.0), constants
    return part(turns, step, (number(2), number(3)), (STRING.at(0, "length"), both), known)


def ball_angles() -> Part:
    """Balls: the length is less the angle from rest."""

    def step(q):
        axis, angle = turn_from_rest(Quaternion(*q))
        return (-angle, axis)

    three = Slots(1, 0, jax.tree.structure((0.0,) * 3))

    def turns(plan: Plan) -> np.ndarray:
        s, joined = plan.strings, plan.structure.quaternion_joints
        start = joined[np.searchsorted(joined[:, 0], s.balls.members), 1]
        return table(s.string(s.balls.strings), s.entry(s.balls.strings), plan.q + start)

    return part(turns, step, (at_q(2, 4),), (STRING.at(0, "length"), three))


def slide_entries() -> Part:
    """Entries of ways along the parent's axes, of free joints that rub; they have no length."""

    def step(axis, q):
        return (tuple(Quaternion(*q).normalized().to_child(axis)),)

    three = Slots(0, 0, jax.tree.structure((0.0,) * 3))

    def turns(plan: Plan) -> np.ndarray:
        own = plan.strings.slides
        return table(plan.strings.entry(own.strings), plan.q + sliding_axes(plan.structure, own.members)[2])

    def axes(model: Model, plan: Plan, known: Known) -> Vec3:
        return sliding_axes(plan.structure, plan.strings.slides.members)[1]

    return part(turns, step, (at_q(1, 4),), (three,), (ZERO3, axes))


def tied_tendons() -> list[Part]:
    """Tendons that follow others: as joints do, with lengths from where the model is at rest."""

    def step(known, one, two):
        c, (start1, start2) = known
        value, slope = follow(c, two - start2, 1.0)
        return (one - start1 - c[0] - value, -slope)

    def ends(plan: Plan) -> np.ndarray:
        e = there(plan.strings.tied)
        return np.array([e.tendons1, e.tendons2], np.int64)[:, plan.strings.pairs.members]

    def turns(plan: Plan) -> np.ndarray:
        return table(*(plan.strings.string(x) for x in (plan.strings.pairs.strings, *ends(plan))))

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        e, tendons = plan.strings.tied, plan.world.tendons
        assert e is not None
        assert tendons is not None
        one, two = ends(plan)
        return split(e.coefficients[plan.strings.pairs.members]), (tendons.start[one], tendons.start[two])

    def entry(second, own, slope):
        return (jnp.where(second != 0, slope, jnp.ones_like(slope)) * own,)

    def sources(plan: Plan) -> np.ndarray:
        s = plan.strings
        found = []
        for string, one, two in zip(s.pairs.strings, *ends(plan), strict=True):
            n = len(s.rows[one])
            found += [(s.entry(string, j), s.entry(one, j), string, 0) for j in range(n)]
            found += [(s.entry(string, n + j), s.entry(two, j), string, 1) for j in range(len(s.rows[two]))]
        return np.array(found, np.int64).reshape(-1, 4)

    def copies(plan: Plan) -> np.ndarray:
        to, of, string, _ = sources(plan).T
        return table(to, of, plan.strings.string(string))

    second = lambda model, plan, known: sources(plan)[:, 3].astype(float)  # noqa: E731
    both, known = (STRING.at(1, "length"), STRING.at(2, "length")), (((0.0,) * 5, (0.0, 0.0)), constants)
    return [
        part(turns, step, both, STRING.of(0, "length", "slope"), known),
        part(copies, entry, (number(1), STRING.at(2, "slope")), (number(0),), (0.0, second)),
    ]


def branch_entries() -> Part:
    """Branches of tendons have some of their entries."""

    def turns(plan: Plan) -> np.ndarray:
        s = plan.strings
        found = [
            (s.entry(part, j), s.entry(t, s.rows[t].index(r)))
            for part, t in zip(*s.parts, strict=True)
            for j, r in enumerate(s.rows[part])
        ]
        return table(*np.array(found, np.int64).reshape(-1, 2).T)

    return copy(turns, (number(1),), (number(0),))


def string_rates() -> Part:
    """Velocities of strings, and their accelerations in the first guess."""
    reads, made = (number(1), *ROW.of(2, "qd", "x")), added(*STRING.of(0, "velocity", "a"))
    return part(lambda plan: plan.strings.entries(plan.row), lambda c, qd, x: (c * qd, c * x), reads, made)
