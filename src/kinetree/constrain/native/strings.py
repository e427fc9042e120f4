"""Strings in lanes: how joints and strings move each other, and the constraints on strings.

A string is a row over a few joints (string_plan.py, string_lengths.py). All kinds of constraints on strings read the
string's acceleration and add to its stiffness and push; the entries carry pushes to the joints. Stiffness makes the
string a link (links.py).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library, there
from kinetree.model import Model

from ..cones import Response, dry, hold, one_sided
from ..tendons import stretch_outside
from ..weights import inverse_weights
from .joints import BOUND, LOSS, Loss, SoftLimit, softened, softness
from .kinds import Kind, of_one_number
from .memory import LIMIT, ROW, Norms, fixed, total
from .parts import Known, Part, added, copy, fill, part, table
from .plan import Plan
from .string_lengths import number
from .string_plan import STRING

# -- pushes -----------------------------------------------------------------------------------------------------------


def push_joints(to: str, which: str) -> Part:
    """Put the pushes of strings on their joints: of "linked" strings, of "tendons", or of those that "motors" pull.

    A push that is zero is put there, too, for the sake of its slope: most springs begin at rest.
    """

    def turns(plan: Plan) -> np.ndarray:
        return plan.strings.entries(plan.row, _which(plan, which))

    push = STRING.at(0, "push")
    return part(turns, lambda c, f: (c * f,), (number(1), push), added(ROW.at(2, to)))


def _which(plan: Plan, which: str) -> np.ndarray:
    if which == "linked":
        return plan.strings.linked
    return np.arange(plan.strings.n_tendons) if which == "tendons" else np.unique(plan.strings.motors.strings)


def springs_and_dampers() -> list[Part]:
    """Forces of tendons, on the joints: of springs and dampers, and of inertia where lines bend."""

    def step(known, length, velocity, bend):
        stiffness, damping, armature, low, high = known
        stretch = stretch_outside(length, low, high)
        return (-stiffness * stretch - damping * velocity - armature * bend,)

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        pull = there(plan.world.tendons).pull
        return pull.stiffness, pull.damping, pull.armature, pull.slack[:, 0], pull.slack[:, 1]

    def turns(plan: Plan) -> np.ndarray:
        return plan.strings.every(np.arange(plan.strings.n_tendons))

    reads, known = STRING.of(0, "length", "velocity", "bend"), ((0.0,) * 5, constants)
    return [part(turns, step, reads, STRING.of(0, "push"), known), push_joints("b", "tendons")]


# -- constraints ------------------------------------------------------------------------------------------------------


def _joined(*parts: Any) -> Any:
    """One after the other."""

    def joined(*x: Any) -> Any:
        return library(x).concatenate(x)

    return jax.tree.map(joined, *parts)


def _limit_constants(model: Model, plan: Plan, known: Known) -> SoftLimit:
    s, weights = plan.strings, inverse_weights(model)
    (_, members), sign = s.limits
    count = len(s.lower.members) + len(s.upper.members)
    tendons, balls = members[:count], members[count:]
    parts, bounds, margins = [], [], []
    if count:
        pull = there(plan.world.tendons).pull
        parts.append(softness(pull.limit_solref[tendons], pull.limit_solimp[tendons], weights.tendon[tendons]))
        bounds.append(pull.range[tendons, (sign[:count] < 0).astype(int)])
        margins.append(pull.margin[tendons])
    if len(balls):
        soft = plan.soft_joints
        parts.append(softness(soft.limit_solref[balls], soft.limit_solimp[balls], weights.dof[balls]))
        bounds.append(-soft.ball_limit[balls])
        margins.append(soft.limit_margin[balls])
    whole = _joined(*zip(bounds, margins, parts, strict=True))
    return SoftLimit(sign, *whole)


def _loss_constants(model: Model, plan: Plan, known: Known) -> Loss:
    weights, parts = inverse_weights(model), []
    own, rows = np.array(plan.has.tendon_loss, np.int64), plan.strings.slides.members
    if len(own):
        pull = there(plan.world.tendons).pull
        soft = softness(pull.friction_solref[own], pull.friction_solimp[own], weights.tendon[own])
        parts.append(Loss(pull.friction[own], soft))
    if len(rows):
        joints = plan.soft_joints
        soft = softness(joints.friction_solref[rows], joints.friction_solimp[rows], weights.dof[rows])
        parts.append(Loss(there(model.friction)[rows], soft))
    return _joined(*parts)


def _hold_constants(model: Model, plan: Plan, known: Known) -> SoftLimit:
    s, weights = plan.strings, inverse_weights(model)
    parts, bounds = [], []
    if s.joints is not None:
        one, two = np.array(s.joints.rows1, np.int64), np.array(s.joints.rows2, np.int64)
        weight = weights.dof[one] + (two >= 0) * weights.dof[np.maximum(two, 0)]
        parts.append(softness(s.joints.solref, s.joints.solimp, weight))
        bounds.append(np.zeros(len(one)))
    if s.tied is not None:
        one, two = np.array(s.tied.tendons1, np.int64), np.array(s.tied.tendons2, np.int64)
        weight = weights.tendon[one] + (two >= 0) * weights.tendon[np.maximum(two, 0)]
        parts.append(softness(s.tied.solref, s.tied.solimp, weight))
        bounds.append((two < 0) * (there(plan.world.tendons).start[one] + s.tied.coefficients[:, 0]))
    bound, soft = _joined(*zip(bounds, parts, strict=True))
    return SoftLimit(np.ones(len(bound)), bound, np.zeros(len(bound)), soft)


CONSTANTS = {"limits": _limit_constants, "losses": _loss_constants, "holds": _hold_constants}


def soften_strings(kind: str, power: int | None) -> Part:
    """How soft constraints of a kind are, and which of them act."""

    def step(known, length, velocity, least_time):
        if kind == "losses":
            return softened(known.soft, power, jnp.zeros_like(length), velocity, known.most > 0, least_time)
        distance = known.sign * (length - known.bound)
        active = distance < known.margin if kind == "limits" else jnp.ones_like(distance, bool)
        r = jnp.where(active, distance - known.margin, 0.0)
        return softened(known.soft, power, r, known.sign * velocity, active, least_time)

    reads = (STRING.at(0, "length"), STRING.at(0, "velocity"), fixed("least_time"))
    example = LOSS if kind == "losses" else BOUND
    made = (LIMIT.at(1, "D"), LIMIT.at(1, "ref"))
    return part(lambda plan: plan.strings.constrained(kind), step, reads, made, (example, CONSTANTS[kind]))


def on_string(kind: str) -> Kind:
    """Constraints on strings: their constant is the sign of a limit, or the most that a friction loss holds."""

    def numbers(model: Model, plan: Plan, known: Known) -> Any:
        made = CONSTANTS[kind](model, plan, known)
        return made.most if isinstance(made, Loss) else made.sign

    def residual(known: Any, kept: tuple, a: Any) -> tuple:
        return ((known * a if kind == "limits" else a) - kept[1],)

    def response(known: Any, kept: tuple, w: tuple) -> Response:
        if kind == "losses":
            return dry(w[0], kept[0], known)
        return hold(w, (kept[0],)) if kind == "holds" else one_sided(w[0], kept[0])

    def pull(known: Any, kept: tuple, f: tuple) -> tuple:
        return (known * f[0] if kind == "limits" else f[0],)

    return of_one_number(
        (STRING.at(0, "stiff"), STRING.at(0, "push")),
        pull,
        numbers=numbers,
        table=lambda plan: plan.strings.constrained(kind),
        motion=("a", "a_new"),
        residual=residual,
        response=response,
        moves=STRING,
        links=True,
        friction="dry" if kind == "losses" else "",
    )


# -- in a round of Newton's method ------------------------------------------------------------------------------------


def _linked(plan: Plan) -> np.ndarray:
    return plan.strings.every(plan.strings.linked)


def clear_load(finishes: bool) -> Part:
    """Strings without constraints: only their inertia resists; in the last round their dampers, too."""

    def step(known, *last):
        armature, damping = known
        return (0.0, armature + damping * last[0] * last[1] if finishes else armature)

    reads = (fixed("finishing"), fixed("h")) if finishes else ()
    return part(_linked, step, reads, STRING.of(0, "push", "stiff"), ((0.0, 0.0), _resistance))


def _resistance(model: Model, plan: Plan, known: Known) -> tuple:
    """Armature and damping of linked strings: those of their tendons, where they resist; 1 of rigid ones."""
    s = plan.strings
    rigid = np.isin(s.linked, s.mimics.strings).astype(float)
    if not len(s.resists.strings):
        return rigid, 0.0
    pull, at = there(plan.world.tendons).pull, np.searchsorted(s.linked, s.resists.strings)

    def spread_out(values: Any) -> Any:
        if isinstance(values, jax.Array):
            return jnp.zeros(len(s.linked), values.dtype).at[at].set(values[s.resists.members])
        whole = np.zeros(len(s.linked))
        whole[at] = values[s.resists.members]
        return whole

    return spread_out(pull.armature) + rigid, spread_out(pull.damping) if plan.implicit else 0.0


def stiffen_links() -> Part:
    """Set the stiffness of links to that of their strings."""

    def turns(plan: Plan) -> np.ndarray:
        linked = plan.strings.linked
        return table(plan.strings.string(linked), plan.links.stiffness(np.arange(len(linked))))

    return copy(turns, (STRING.at(0, "stiff"),), (number(1),))


def spread_string_forces() -> Part:
    """The entries of strings, times the root of their stiffness, in V."""

    def step(entry, stiff):
        return (entry * jnp.sqrt(jnp.abs(stiff)),)

    def turns(plan: Plan) -> np.ndarray:
        s = plan.strings
        found = [
            (s.entry(string, j), plan.links.v(k, r), k)
            for k, string in enumerate(s.linked)
            for j, r in enumerate(s.rows[string])
        ]
        entry, v, link = np.array(found, np.int64).reshape(-1, 3).T
        return table(entry, v, plan.links.stiffness(link))

    return part(turns, step, (number(0), number(2)), added(number(1)), when=number(2))


def move_strings(inertial: bool) -> list[Part]:
    """Find the accelerations of strings for the new x; their inertia counts in the norm of the step."""
    still = fill(_linked, STRING.at(0, "a_new"), scratch=True)

    def turns(plan: Plan) -> np.ndarray:
        return plan.strings.entries(plan.row, plan.strings.linked)

    reads, made = (number(1), ROW.at(2, "x_new")), added(STRING.at(0, "a_new"))
    parts = [still, part(turns, lambda c, x: (c * x,), reads, made, scratch=True)]
    if not inertial:
        return parts

    def norm(known, a, a_new):
        step = a_new - a
        return (Norms(known[0] * step * step, jnp.zeros_like(step)),)

    own, norms = STRING.of(0, "a", "a_new"), added(total(None, "norms"))
    return [*parts, part(_linked, norm, own, norms, ((0.0, 0.0), _resistance), scratch=True)]


def resist_motion(motion: str, sign: float) -> list[Part]:
    """Add what the stiffness of strings that resist needs for a motion of rows, in `resistance`."""

    def need(entry, stiff, a):
        return (sign * entry * stiff * a,)

    def turns(plan: Plan) -> np.ndarray:
        return plan.strings.entries(plan.row, plan.strings.resisting)

    a, stiff = STRING.of(0, "a_new", "stiff")
    moves = part(turns, lambda entry, x: (entry * x,), (number(1), ROW.at(2, motion)), added(a))
    needs = part(turns, need, (number(1), stiff, a), added(ROW.at(2, "resistance")))
    return [fill(lambda plan: plan.strings.every(plan.strings.resisting), a), moves, needs]


def accelerate_strings(along: Any, always: bool) -> Part:
    """Accelerations of strings at the end of the step, as those of rows."""

    def step(a, a_new, search):
        return (along(search, a, a_new),)

    own, new = STRING.at(0, "a"), STRING.at(0, "a_new")
    when = None if always else fixed("going")
    return part(_linked, step, (own, new, fixed("search")), (own,), when=when)
