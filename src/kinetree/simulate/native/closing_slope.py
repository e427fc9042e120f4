"""Derivatives of the end of a step that closes rigid loops (closing.py).

A motion m that closes loops solves H m = Gᵀ λ with G m = −error; the change of velocities solves the same with another
right side. What is left of these equations is a program that runs backwards, and a linear program answers its change.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.constrain.native import kinematics, loop_changes
from kinetree.constrain.native.binding import BoundNative, Native, constants_of, starting
from kinetree.constrain.native.features import Features
from kinetree.constrain.native.implicit import copy_rows, left_over_of_motion, output_rows
from kinetree.constrain.native.linked import length_parts, linked_parts, loop_parts
from kinetree.constrain.native.loop_changes import rows_width
from kinetree.constrain.native.memory import ROW
from kinetree.constrain.native.newton import at_rest, cleared, inward, outward, unloaded
from kinetree.constrain.native.parts import Again, Part, fill
from kinetree.constrain.native.plan import Plan
from kinetree.constrain.native.programs import coordinates, copy_input, following, pull_all
from kinetree.constrain.native.programs import outward as placed
from kinetree.lanes.kept.once import Once
from kinetree.lanes.linear import run_change
from kinetree.model import Model

from .closing import bare_linking, move_q
from .plan import StepPlan
from .step import StepVariant, output_state

_programs: Once[Native] = Once()


def _bare(f: Features) -> Features:
    return f._replace(linking=bare_linking(f))


def _placed(f: Features) -> list[Part]:
    """Poses, screws, rows of loops and inertias."""
    turned = kinematics.shifts() if f.quaternions else []
    begin = [*turned, *kinematics.placing(f.quaternions), *kinematics.bases(), *placed(f.quaternions)]
    follows = [following()] if "mimics" in f.linking.lengths else []
    return [*follows, *begin, *loop_parts(f.linking), *kinematics.bodies(), *length_parts(f.linking)]


def _lacking(v: StepVariant) -> Native:
    """Inputs: q, qd, a motion m and forces λ. Outputs: H m − Gᵀ λ, G m, and the wanted G m of both kinds."""
    f = _bare(v.features)
    parts = [
        starting(),
        coordinates(0),
        copy_input(1, "qd"),
        copy_rows(2, "x"),
        *_placed(f),
        loop_changes.give_rows("motion", 2),
        loop_changes.give_rows("change", 3),
        loop_changes.take_rows(3, "force"),
        *pull_all([], f),
        *loop_changes.left_open(f.linking, 1, asks=""),
        *left_over_of_motion(0),
    ]
    return Native.of("closing_lacking", parts, 4, 4)


def _answer(v: StepVariant) -> Native:
    """Inputs: q, forces, and the wanted G m. Outputs: m, and −λ. It is linear in the last two, and symmetric."""
    f = _bare(v.features)
    linked = linked_parts(f.linking, False, True, "motion")
    parts: list[Part | Again] = [
        starting(),
        fill(Plan.every_row, *ROW.of(0, "qd", "x")),
        coordinates(0),
        *_placed(f),
        copy_rows(1, "b"),
        loop_changes.take_rows(2, "motion"),
        *unloaded(False),
        *linked.before,
        *linked.after,
        cleared(),
        at_rest(),
        *inward(False),
        *linked.swept,
        *outward(False),
        output_rows("x_new", 0),
        loop_changes.give_rows("closing", 1, -1.0),
    ]
    return Native.of("closing_answer", parts, 3, 2)


def _moved(v: StepVariant) -> Native:
    """Inputs: q and a motion. Output: q after it."""
    follows = [following()] if "mimics" in v.features.linking.lengths else []
    rest = fill(Plan.every_row, *ROW.of(0, "qd", "x")) if follows else None
    begin = [starting(), *([rest] if rest else []), coordinates(0), *follows, copy_rows(1, "x_new")]
    return Native.of("closing_moved", [*begin, *map(move_q, v.moves), output_state(("q",))], 2, 1)


class ClosingPrograms(NamedTuple):
    """Constants of the programs."""

    lacking: tuple[Any, ...]
    answer: tuple[Any, ...]
    moved: tuple[Any, ...]


class ClosedEnd(NamedTuple):
    """What is known: q and qd, (batch, ...), before; both motions with forces of loops; the change of velocities."""

    q: Any
    qd: Any
    first: tuple[Any, Any]
    between: Any  # q after the first motion
    then: tuple[Any, Any]  # (2 batch, ...): the second motion, and the change of velocities


def _native(name: str, v: StepVariant) -> Native:
    make = {"lacking": _lacking, "answer": _answer, "moved": _moved}
    return _programs.get((name, v.features, v.joints), lambda: make[name](v))


def closing_programs(v: StepVariant, model: Model, plan: StepPlan, dtype: Any, h: Any) -> ClosingPrograms:
    """For a model."""
    return ClosingPrograms(*(constants_of(_native(name, v), model, plan, dtype, h) for name in ClosingPrograms._fields))


class _Closing(NamedTuple):
    """The programs of a step."""

    v: StepVariant
    plan: StepPlan
    known: ClosingPrograms

    def bound(self, name: str) -> BoundNative:
        n, rows, nq = self.plan.n, rows_width(self.plan), len(self.plan.columns[0])
        widths = {"lacking": (n, rows, rows, rows), "answer": (n, rows), "moved": (nq,)}
        return BoundNative(_native(name, self.v), self.plan, getattr(self.known, name), widths[name])

    def values(self, name: str, *inputs: Any) -> tuple:
        return self.bound(name).values(*inputs)

    def slopes(self, name: str, *inputs: Any) -> tuple:
        return self.bound(name).slopes(*inputs)

    def change(self, q: Any, left: Any, gap: Any) -> Any:
        answer = self.bound("answer").linear
        return run_change(answer, answer, (q,), (left, gap))[0]


def _twice(x: Any) -> Any:
    return jnp.concatenate([x, x])


def _asked(motion: Any, change: Any) -> Any:
    """The wanted G m of the second motion, and of the change of velocities, from rows that stand twice."""
    half = len(motion) // 2
    return jnp.concatenate([motion[:half], change[half:]])


def closed_values(v: StepVariant, plan: StepPlan, known: ClosingPrograms, q: Any, qd: Any) -> ClosedEnd:
    """The end of a step, from q and qd before it."""
    own, n = _Closing(v, plan, known), plan.n
    still, none = jnp.zeros((len(q), n), q.dtype), jnp.zeros((len(q), rows_width(plan)), q.dtype)
    motion = own.values("lacking", q, qd, still, none)[2]
    m, force = own.values("answer", q, still, motion)
    (between,) = own.values("moved", q, m)
    _, _, motion, change = own.values("lacking", *map(_twice, (between, qd, still, none)))
    moves, forces = own.values("answer", _twice(between), _twice(still), _asked(motion, change))
    return ClosedEnd(q, qd, (m, -force), between, (moves, -forces))


def closed_moves(v: StepVariant, plan: StepPlan, known: ClosingPrograms, at: ClosedEnd, q: Any, qd: Any) -> tuple:
    """What has the derivatives of q and qd at the end of a step; `q` and `qd` have those before it, and no values."""
    own, half = _Closing(v, plan, known), len(at.q)
    q, qd = at.q + q, at.qd + qd
    left, reached, motion, _ = own.slopes("lacking", q, qd, *at.first)
    m = at.first[0] - own.change(at.q, left, reached - motion)
    between = at.between + own.slopes("moved", q, m)[0]
    left, reached, motion, change = own.slopes("lacking", _twice(between), _twice(qd), *at.then)
    moves = at.then[0] - own.change(_twice(at.between), left, reached - _asked(motion, change))
    by = moves[half:] if plan.coupling is None else moves[half:, plan.coupling.kept_v]
    return own.slopes("moved", between, moves[:half])[0], qd + by
