"""Integrators in lanes: the same formulas for every kind of joint (moves.py).

Euler and implicitfast: u′ = u + h α, q′ = q ⊕ h u′, with α from Newton's last round, which takes dampers (and the
slopes of actuators) at the end of the step. RK4: four stages of moves from the start. semi_implicit is ours: the same
as Euler with dampers at the end, in body velocities, free joints along a screw. (mujoco_steps.py, integrators.py.)
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.constrain.native.actuators import ACTIVATION
from kinetree.constrain.native.kinematics import at_q, rows_apart
from kinetree.constrain.native.memory import NUMBER, fixed
from kinetree.constrain.native.parts import Part, added, fill, once, part, table
from kinetree.lanes import Memory, Slots

from .moves import Moves

STAGE = Memory(start=0.0, growth=0.0, alpha=0.0, growth_sum=0.0, alpha_sum=0.0)
STAGES = 4


def _stages(column: int, field: str, count: int) -> tuple[Slots, ...]:
    own = STAGE.at(column, field)
    return tuple(own._replace(offset=own.offset + k * STAGE.size) for k in range(count))


def _turns(moves: Moves) -> Any:
    """Rows, coordinates, blocks of stages, and coordinates at the start of the step."""

    def turns(plan: Any) -> np.ndarray:
        rows, q = moves.joints(plan)
        return table(plan.row(rows), plan.q + q, plan.stage(rows), plan.start_q + q)

    return turns


def _loop(moves: Moves, compute: Any, reads: tuple, writes: tuple, shared: tuple[str, ...]) -> Part:
    """`compute(*groups, *shared) -> groups`: a group is what a joint has of a field, one number for each row."""

    def step(*seen):
        rest = list(seen)
        groups = [tuple(rest.pop(0) for _ in g) if g[0].tree == NUMBER else rest.pop(0) for g in reads]
        made: list[Any] = []
        for g, values in zip(writes, compute(*groups, *rest), strict=True):
            made += values if g[0].tree == NUMBER else [tuple(values)]
        return tuple(made)

    seen, made = (tuple(s for group in groups for s in group) for groups in (reads, writes))
    return part(_turns(moves), step, (*seen, *map(fixed, shared)), made, columns=4)


def _plus(a: tuple, b: tuple, scale: Any) -> tuple:
    return tuple(x + scale * y for x, y in zip(a, b, strict=True))


def _times(scale: Any, a: tuple) -> tuple:
    return tuple(scale * x for x in a)


def euler(m: Moves) -> Part:
    """MuJoCo's semi-implicit step."""

    def compute(q: tuple, v: tuple, a: tuple, h: Any) -> tuple:
        u = _plus(m.to_world(q, v), m.to_world(q, a), h)
        new = m.moved(q, _times(h, u))
        return new, m.to_body(new, u)

    q, v = (at_q(1, m.nq),), rows_apart(0, "qd", m.nv)
    return _loop(m, compute, (q, v, rows_apart(0, "alpha", m.nv)), (q, v), ("h",))


def semi_implicit(m: Moves) -> Part:
    """Our semi-implicit step."""

    def compute(q: tuple, v: tuple, a: tuple, *rest: Any) -> tuple:
        *shift, h = rest
        if shift:  # of a free joint: x has ω × v more than its acceleration
            a = (*a[:3], *(x - s for x, s in zip(a[3:], shift[0][3:], strict=True)))
        new = _plus(v, a, h)
        return m.screwed(q, _times(h, new)), new

    q, v = (at_q(1, m.nq),), rows_apart(0, "qd", m.nv)
    shift = (rows_apart(0, "shift", m.nv),) if m.nv == 6 else ()
    return _loop(m, compute, (q, v, rows_apart(0, "alpha", m.nv), *shift), (q, v), ("h",))


# -- Runge and Kutta --------------------------------------------------------------------------------------------------


def start_stages(m: Moves) -> Part:
    """The start of a step, from which its stages move."""

    def compute(q: tuple, v: tuple) -> tuple:
        none = tuple(jnp.zeros_like(x) for x in v)
        return q, m.to_world(q, v), none, none, none, none

    q, v = (at_q(1, m.nq),), rows_apart(0, "qd", m.nv)
    fields = ("start", "growth", "alpha", "growth_sum", "alpha_sum")
    return _loop(m, compute, (q, v), ((at_q(3, m.nq),), *(_stages(2, f, m.nv) for f in fields)), ())


def set_stage(m: Moves) -> Part:
    """The state of a stage."""

    def compute(q: tuple, start: tuple, growth: tuple, alpha: tuple, h: Any, share: Any) -> tuple:
        there = m.moved(q, _times(share * h, growth))
        return there, m.to_body(there, _plus(start, alpha, share * h))

    reads = ((at_q(3, m.nq),), *(_stages(2, f, m.nv) for f in ("start", "growth", "alpha")))
    return _loop(m, compute, reads, ((at_q(1, m.nq),), rows_apart(0, "qd", m.nv)), ("h", "share"))


def end_stage(m: Moves) -> Part:
    """The term that a stage adds to the step."""

    def compute(q: tuple, x: tuple, *rest: Any) -> tuple:
        start, growth, alpha, growth_sum, alpha_sum, h, share, weight = rest
        move, u = _times(share * h, growth), _plus(start, alpha, share * h)
        growth, alpha = m.rate(move, u), m.to_world(q, x)
        return growth, alpha, _plus(growth_sum, growth, weight), _plus(alpha_sum, alpha, weight)

    fields = ("start", "growth", "alpha", "growth_sum", "alpha_sum")
    stages = tuple(_stages(2, f, m.nv) for f in fields)
    reads = ((at_q(1, m.nq),), rows_apart(0, "alpha", m.nv), *stages)
    return _loop(m, compute, reads, stages[1:], ("h", "share", "weight"))


def end_stages(m: Moves) -> Part:
    """The end of the step."""

    def compute(q: tuple, start: tuple, growth: tuple, alpha: tuple, h: Any) -> tuple:
        there = m.moved(q, _times(h, growth))
        return there, m.to_body(there, _plus(start, alpha, h))

    reads = ((at_q(3, m.nq),), *(_stages(2, f, m.nv) for f in ("start", "growth_sum", "alpha_sum")))
    return _loop(m, compute, reads, ((at_q(1, m.nq),), rows_apart(0, "qd", m.nv)), ("h",))


def first_stage() -> Part:
    """Four stages are to be done."""
    return fill(once, fixed("stages"), values=(float(STAGES),))


def share_and_weight() -> Part:
    """Share and weight of the stage that comes next: drive.py has them as tables."""

    def step(left):
        first, last = left == STAGES, left == 1
        half, none, one = (jnp.full_like(left, x) for x in (0.5, 0.0, 1.0))
        outer = jnp.where(first | last, jnp.full_like(left, 1 / 6), jnp.full_like(left, 1 / 3))
        return (jnp.where(first, none, jnp.where(last, one, half)), outer)

    return part(once, step, (fixed("stages"),), (fixed("share"), fixed("weight")))


def stage_done() -> Part:
    """One stage less."""
    return part(once, lambda: (-1.0,), (), added(fixed("stages")))


def _on_activations(step: Any, reads: tuple[str, ...], writes: tuple[str, ...], shared: tuple[str, ...]) -> Part:
    seen, made = (*ACTIVATION.of(0, *reads), *map(fixed, shared)), ACTIVATION.of(0, *writes)
    return part(lambda plan: table(plan.activation(np.arange(plan.na))), step, seen, made)


def start_activations() -> Part:
    """At the start of a step with stages."""
    return _on_activations(
        lambda now: (now, jnp.zeros_like(now), jnp.zeros_like(now)), ("now",), ("start", "rate", "mean"), ()
    )


def set_activations() -> Part:
    """At a stage."""
    return _on_activations(
        lambda start, rate, h, share: (start + share * h * rate,), ("start", "rate"), ("now",), ("h", "share")
    )


def end_activations() -> Part:
    """What a stage adds to the mean rate."""
    return _on_activations(lambda mean, rate, weight: (mean + weight * rate,), ("mean", "rate"), ("mean",), ("weight",))
