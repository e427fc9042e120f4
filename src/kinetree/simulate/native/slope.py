"""Derivatives of a step with constraints, as lane programs around a known solution (constrain/native/implicit.py).

The balance is what is left of the equations of the accelerations, at those that were found. Linear programs say how
accelerations move with it. The end goes from accelerations to the next state. The first and the last have no repeats,
and can be run backwards; linear ones have programs for their transposes.
"""

from typing import Any, NamedTuple

import numpy as np

from kinetree._arrays import there
from kinetree.constrain.native import Plan, kinematics, loop_changes
from kinetree.constrain.native.binding import BoundNative, Native, constants_of, starting
from kinetree.constrain.native.implicit import copy_rows, left_over, left_over_of_step, solve_change
from kinetree.constrain.native.linked import linked_parts, resist
from kinetree.constrain.native.loop_changes import rows_width
from kinetree.constrain.native.memory import ROW
from kinetree.constrain.native.newton import take_acceleration
from kinetree.constrain.native.parts import Again, Part, part
from kinetree.constrain.native.programs import (
    between_of,
    coordinates,
    copy_input,
    is_differentiable,
    kinds_of,
    pull_all,
)
from kinetree.constrain.native.programs import program_of as question_of
from kinetree.constrain.native.recalled import searched
from kinetree.constrain.native.solve import answering, motions_of, moving
from kinetree.lanes import Lane
from kinetree.lanes.kept.once import Once
from kinetree.lanes.linear import run_change
from kinetree.model import Model

from .closing_slope import ClosedEnd, ClosingPrograms, closed_moves, closed_values, closing_programs
from .implicit import taken_at_end
from .plan import StepPlan
from .step import (
    StepVariant,
    copy_inputs,
    copy_time,
    counting,
    drive_parts,
    end_of_step,
    forces,
    move_followers,
    output_state,
    shift_accelerations,
)

_programs: Once[Native] = Once()
ENDS = ("q", "qd", "warm_start", "time")


def has_slopes(v: StepVariant) -> bool:
    """True if derivatives of a step with constraints are native."""
    return v.free is None and v.integrator != "RK4" and is_differentiable(v.features)


def has_rounds(v: StepVariant) -> bool:
    """True if rounds of Newton's method come before the one for the acceleration of the integrator."""
    return bool(kinds_of(v.features) or between_of(v.features))


class _Balance(NamedTuple):
    """Names of the inputs and outputs of the balance."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def _names(v: StepVariant) -> _Balance:
    rigid, last = v.features.linking.rigid, v.finishes
    inputs = {"alpha": last, "multipliers": rigid, "slack": rigid and last, "motions": searched(v.features)}
    outputs = {"left": True, "later": last, "gap": rigid, "gap_later": rigid and last, "act": v.stateful}
    added, results = (tuple(name for name, there in x.items() if there) for x in (inputs, outputs))
    return _Balance((*v.inputs, *added), results)


def _balance(v: StepVariant) -> Native:
    """Inputs: those of a step, the acceleration of the integrator, forces of loops, and how contacts move.

    Loops have forces for x, and `slack`, these minus those for the acceleration of the integrator. Contacts that need a
    search are known, with their motions. Outputs: what is left of the equations, and activations.
    """
    f, names = v.features, _names(v)
    inputs, put = names.inputs.index, names.outputs.index
    every = [*kinds_of(f), *(k for k, _ in between_of(f))]
    known = [copy_rows(inputs("alpha"), "alpha")] if v.finishes else []
    recalled = inputs("motions") if "motions" in names.inputs else None
    rigid = f.linking.rigid
    multipliers = [loop_changes.take_rows(inputs("multipliers"), "force")] if rigid else []
    parts: list[Part | Again] = [*copy_inputs(v), *known, *forces(v, recalled), *multipliers, *pull_all(every, f)]
    parts += [*left_over(put("left"), f.linking), *(loop_changes.left_open(f.linking, put("gap")) if rigid else [])]
    if v.finishes:
        parts += [loop_changes.take_rows(inputs("slack"), "force")] if rigid else []
        parts += left_over_of_step(put("later"), f.linking)
        parts += loop_changes.left_open(f.linking, put("gap_later"), ("a_new", "x_new"), "") if rigid else []
    if v.stateful:
        parts += [*v.activated("now", "rate"), output_state(("act",), put("act"))]
    return Native.of("step_balance", parts, len(names.inputs), len(names.outputs))


def _end_inputs(v: StepVariant) -> tuple[str, ...]:
    """Names of the inputs of the end: velocity terms that are taken there depend on controls and activations, too."""
    known = ("ctrl", "act") if v.sloped else ()
    return (*v.carried, *(name for name in known if name in v.inputs), *(("alpha",) if v.finishes else ()))


def _end(v: StepVariant) -> Native:
    """Output: the state after the step, from one with accelerations for its warm start."""
    v, names = v._replace(external=False), _end_inputs(v)
    if v.sloped:
        begin = [*copy_inputs(v), *drive_parts(v)]
    else:
        inputs = [starting(), coordinates(0), copy_input(1, "qd"), copy_input(2, "x"), copy_time(3)]
        shift = [*kinematics.shifts(), shift_accelerations(1.0)] if v.features.quaternions else []
        begin = [*inputs, *move_followers(v), *shift]
    alpha = copy_rows(names.index("alpha"), "alpha") if v.finishes else take_acceleration("x")
    back = [shift_accelerations(-1.0)] if v.features.quaternions else []
    end = [*(taken_at_end(v.finishes) if v.sloped else []), *end_of_step(v), output_state(ENDS)]
    return Native.of("step_end", [counting(), *begin, alpha, *back, *end], len(names), 1)


def _loaded(v: StepVariant, back: bool) -> Native:
    """B⁻¹ (s + L y) of two changes, with B = H + L of an integrator with loads L; or B⁻¹ o, and L B⁻¹ o.

    B has the rows of rigid loops, too; a third change is that of what these lack.
    """
    v, linking = v._replace(external=False), v.features.linking
    first, heavy = len(v.inputs), resist(linking, ("x_new", True, 1.0), ("x_new", False, -1.0))
    strung = (ROW.at(0, "resistance"),) if heavy else ()  # L is of rows, and of strings that resist

    def force(owed, y, load, *more):
        return (sum(more, owed + load * y),)

    def ended(found, load, *more):
        return (found, sum(more, load * found)) if back else (found,)

    of_rows = (*ROW.of(0, "x_new", "load"), *strung)
    start = part(Plan.numbered_rows, force, (Lane(first, 1), *of_rows), (ROW.at(0, "b"),))
    end = part(Plan.numbered_rows, ended, of_rows, tuple(Lane(k, 1) for k in range(1 + back)))
    change = solve_change([], [], linked_parts(linking, True, False), False, True)
    parts = [*copy_inputs(v), *drive_parts(v)]
    change_of_x = [copy_rows(first + 1, "x_new"), *heavy, start]
    parts += [copy_rows(first, "b")] if back else change_of_x
    if linking.rigid:
        parts.append(loop_changes.want_nothing() if back else loop_changes.take_rows(first + 2, "wanted"))
    parts += [*change, *(heavy if back else []), end]
    parts += [loop_changes.give_rows("force", 2, -1.0)] if linking.rigid and back else []
    more = int(linking.rigid)
    inputs, outputs = (1, 2 + more) if back else (2 + more, 1)
    return Native.of(f"step_loaded{'_back' * back}", parts, first + inputs, outputs)


def _made(name: str, v: StepVariant) -> Native:
    if name in ("answer", "motions"):
        return question_of((answering if name == "answer" else moving)(v.features))
    make = {"balance": lambda: _balance(v), "end": lambda: _end(v)}
    make |= {"loaded": lambda: _loaded(v, False), "back": lambda: _loaded(v, True)}
    return _programs.get((name, v), make[name])


class Slopes(NamedTuple):
    """Constants of the programs."""

    balance: tuple[Any, ...]
    end: tuple[Any, ...]
    answer: tuple[Any, ...]
    motions: tuple[Any, ...] = ()  # where contacts are searched for
    loaded: tuple[Any, ...] = ()  # where an integrator has loads
    back: tuple[Any, ...] = ()
    closing: ClosingPrograms | None = None  # where there are rigid loops


def slopes_of(v: StepVariant, model: Model, plan: StepPlan, dtype: Any, h: Any) -> Slopes:
    """For a model."""
    names = ["balance", "end", "answer"] + (["loaded", "back"] if v.finishes else [])
    names += ["motions"] if searched(v.features) else []
    made: dict[str, Any] = {name: constants_of(_made(name, v), model, plan, dtype, h) for name in names}
    if v.features.linking.rigid:
        made["closing"] = closing_programs(v, model, plan, dtype, h)
    return Slopes(**made)


class StepFacts(NamedTuple):
    """What is known of a step beside the state after it."""

    alpha: Any = None  # the acceleration of the integrator, if it is another one
    multipliers: Any = None  # forces of rigid loops
    slack: Any = None  # these minus those for alpha
    closed: ClosedEnd | None = None  # the end of the step that closes loops


def _bound(name: str, v: StepVariant, plan: StepPlan, known: Slopes, *widths: int) -> BoundNative:
    return BoundNative(_made(name, v), plan, getattr(known, name), widths)


def _state_widths(plan: StepPlan) -> tuple[int, ...]:
    nq, nv = map(len, plan.columns)
    return nq, nv, nv, 1


def known_closing(
    v: StepVariant, plan: StepPlan, known: Slopes, given: dict[str, Any], qdd: Any, alpha: Any
) -> ClosedEnd:
    """How the end of a step closes rigid loops, from its inputs and its accelerations."""
    own, widths = given | {"warm_start": qdd, "alpha": alpha}, _state_widths(plan)
    (end,) = _bound("end", v, plan, known, sum(widths)).values(*(own[name] for name in _end_inputs(v)))
    return closed_values(v, plan, there(known.closing), end[:, : widths[0]], end[:, widths[0] : sum(widths[:2])])


def moved_step(
    v: StepVariant, plan: StepPlan, known: Slopes, given: dict[str, Any], qdd: Any, facts: StepFacts
) -> dict:
    """What has the derivatives of the state after a step, by inputs and by the model's numbers; not its values.

    Arguments:
        v, plan, known: the programs.
        given: inputs of the step by their names, but the warm start.
        qdd, facts: accelerations of the step, and what else is known of it.
    """
    n, rows, linking, (inputs, outputs) = plan.n, rows_width(plan), v.features.linking, _names(v)
    own = given | {"warm_start": qdd, "alpha": facts.alpha, "multipliers": facts.multipliers, "slack": facts.slack}
    if searched(v.features):
        own["motions"] = motions_of(v.features, plan, known.motions, given["q"])
    sizes = {"left": n, "later": n, "gap": rows, "gap_later": rows, "act": plan.na}
    balance = _bound("balance", v, plan, known, *(sizes[name] for name in outputs))
    found = dict(zip(outputs, balance.slopes(*(own[name] for name in inputs)), strict=True))
    more = (rows,) if linking.rigid else ()
    answer = _bound("answer", v, plan, known, n, *more).linear
    changes = tuple(found[name] for name in ("left", "gap") if name in found)
    moved, *_ = run_change(answer, answer, (given["q"], given["qd"], qdd), changes)
    if v.finishes:
        fixed = tuple(own[name] for name in v.inputs if name != "f_ext")
        loads = _bound("loaded", v, plan, known, n).linear, _bound("back", v, plan, known, n, n, *more).linear
        later = (found["later"], -moved, *((found["gap_later"],) if linking.rigid else ()))
        own["alpha"] = facts.alpha - moved - run_change(*loads, fixed, later)[0]
    own["warm_start"] = qdd - (moved if plan.coupling is None else moved[:, plan.coupling.kept_v])
    widths = _state_widths(plan)
    (end,) = _bound("end", v, plan, known, sum(widths)).slopes(*(own[name] for name in _end_inputs(v)))
    ends = np.cumsum(widths)
    after = {name: end[:, a:b] for name, a, b in zip(ENDS, (0, *ends), ends, strict=False)}
    if linking.rigid:
        after["q"], after["qd"] = closed_moves(
            v, plan, there(known.closing), there(facts.closed), after["q"], after["qd"]
        )
    return after | ({"act": found["act"]} if v.stateful else {})
