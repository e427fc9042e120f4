"""Lengths of strings, and how each grows with the coordinates of its joints: one loop for each kind of string."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.lanes import Loop, Slots
from kinetree.model import Model
from kinetree.spatial import Quaternion, Vec3

from ..equality_groups import follow
from ..joint_groups import sliding_axes, turn_from_rest
from .kinematics import at_q
from .memory import NOTHING, NUMBER, ROW, ZERO3
from .parts import Known, Part, copy, fill, table
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

    def step(coefficient: Any, _: tuple, reads: tuple) -> tuple:
        return (coefficient,), (coefficient * reads[0][0],), ()

    loop = Loop(step, 3, NUMBER, reads=(at_q(2, 1),), writes=(number(0),), adds=(STRING.at(1, "length"),))

    def turns(plan: Plan) -> np.ndarray:
        own = plan.strings
        places = [own.entry(t, own.rows[t].index(r)) for t, r in own.fixed]
        tendons, rows = np.array(own.fixed, np.int64).reshape(-1, 2).T
        return table(places, own.string(tendons), plan.q + plan.structure.q_of_row[rows])

    return Part(loop, turns, lambda model, plan, known: model.world.tendons.coefficients)  # type: ignore[union-attr]


def follower_entries() -> Part:
    """Entries of joints that follow others: how they move beyond them."""

    def step(ratio: Any, _: tuple, __: tuple) -> tuple:
        return (jnp.ones_like(ratio), -ratio), (), ()

    loop = Loop(step, 1, NUMBER, writes=(number(0), Slots(0, 1, NUMBER)))
    return Part(
        loop,
        lambda plan: table(plan.strings.entry(plan.strings.mimics.strings)),
        lambda model, plan, known: plan.coupling.ratio_v[plan.strings.mimics.members],
    )


def follower_lengths() -> Part:
    """Joints that follow others, or are held: the length is how far the first is from where it should be."""

    def step(known: tuple, _: tuple, reads: tuple) -> tuple:
        c, (ref1, ref2), on = known
        (q1,), (q2,) = reads
        value, slope = follow(c, (q2 - ref2) * on, on)
        return (q1 - ref1 - c[0] - value, (jnp.ones_like(slope), -slope)), (), ()

    example = ((0.0,) * 5, (0.0, 0.0), 0.0)
    both = Slots(1, 0, jax.tree.structure((0.0, 0.0)))
    loop = Loop(
        step, 4, jax.tree.structure(example), reads=(at_q(2, 1), at_q(3, 1)), writes=(STRING.at(0, "length"), both)
    )

    def turns(plan: Plan) -> np.ndarray:
        s = plan.strings
        rows = np.array([s.rows[k] for k in s.follows.strings], np.int64)
        q = plan.q + plan.structure.q_of_row[rows]
        return table(s.string(s.follows.strings), s.entry(s.follows.strings), q[:, 0], q[:, 1])

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        e = there(plan.strings.joints)
        on = (np.array(e.rows2) >= 0).astype(float)
        return split(e.coefficients), (e.reference1, e.reference2), on

    return Part(loop, turns, constants)


def ball_angles() -> Part:
    """Balls: the length is less the angle from rest."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        axis, angle = turn_from_rest(Quaternion(*reads[0]))
        return (-angle, axis), (), ()

    three = Slots(1, 0, jax.tree.structure((0.0,) * 3))
    loop = Loop(step, 3, NOTHING, reads=(at_q(2, 4),), writes=(STRING.at(0, "length"), three))

    def turns(plan: Plan) -> np.ndarray:
        s, joined = plan.strings, plan.structure.quaternion_joints
        start = joined[np.searchsorted(joined[:, 0], s.balls.members), 1]
        return table(s.string(s.balls.strings), s.entry(s.balls.strings), plan.q + start)

    return Part(loop, turns)


def slide_entries() -> Part:
    """Entries of ways along the parent's axes, of free joints that rub; they have no length."""

    def step(axis: Vec3, _: tuple, reads: tuple) -> tuple:
        return (tuple(Quaternion(*reads[0]).normalized().to_child(axis)),), (), ()

    three = Slots(0, 0, jax.tree.structure((0.0,) * 3))
    loop = Loop(step, 2, jax.tree.structure(ZERO3), reads=(at_q(1, 4),), writes=(three,))

    def turns(plan: Plan) -> np.ndarray:
        own = plan.strings.slides
        return table(plan.strings.entry(own.strings), plan.q + sliding_axes(plan.structure, own.members)[2])

    def axes(model: Model, plan: Plan, known: Known) -> Vec3:
        return sliding_axes(plan.structure, plan.strings.slides.members)[1]

    return Part(loop, turns, axes)


def tied_tendons() -> list[Part]:
    """Tendons that follow others: as joints do, with lengths from where the model is at rest."""

    def step(known: tuple, _: tuple, reads: tuple) -> tuple:
        c, (start1, start2) = known
        one, two = reads
        value, slope = follow(c, two - start2, 1.0)
        return (one - start1 - c[0] - value, -slope), (), ()

    own = (STRING.at(0, "length"), STRING.at(0, "slope"))
    both = (STRING.at(1, "length"), STRING.at(2, "length"))
    loop = Loop(step, 3, jax.tree.structure(((0.0,) * 5, (0.0, 0.0))), reads=both, writes=own)

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

    def entry(second: Any, _: tuple, reads: tuple) -> tuple:
        own, slope = reads
        return (jnp.where(second != 0, slope, jnp.ones_like(slope)) * own,), (), ()

    copied = Loop(entry, 3, NUMBER, reads=(number(1), STRING.at(2, "slope")), writes=(number(0),))

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
    return [Part(loop, turns, constants), Part(copied, copies, second)]


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

    return copy(turns, reads=(number(1),), writes=(number(0),))


def string_rates() -> Part:
    """Velocities of strings, and their accelerations in the first guess."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        c, qd, x = reads
        return (), (c * qd, c * x), ()

    reads = (number(1), ROW.at(2, "qd"), ROW.at(2, "x"))
    loop = Loop(step, 3, NOTHING, reads=reads, adds=(STRING.at(0, "velocity"), STRING.at(0, "a")))
    return Part(loop, lambda plan: plan.strings.entries(plan.row))
