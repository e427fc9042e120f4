"""Derivatives of a step with constraints, as lane programs around a known solution (constrain/native/implicit.py).

The balance is what is left of the equations of the accelerations, at those that were found. Linear programs say how
accelerations move with it. The end goes from accelerations to the next state. The first and the last have no repeats,
and can be run backwards; linear ones have programs for their transposes.
"""

from typing import Any, NamedTuple

import numpy as np

from kinetree.constrain.native import Plan, kinematics
from kinetree.constrain.native.binding import Native, constants_of, starting, tables_of
from kinetree.constrain.native.implicit import copy_rows, left_over, left_over_of_step, solve_change
from kinetree.constrain.native.linked import linked_parts
from kinetree.constrain.native.memory import NOTHING, ROW
from kinetree.constrain.native.newton import take_acceleration
from kinetree.constrain.native.parts import Again, Part
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
from kinetree.lanes import Lane, Loop, run_slope
from kinetree.lanes.kept.once import Once, OncePerOwner
from kinetree.lanes.linear import BoundProgram, run_change
from kinetree.lanes.program.single import Single, single
from kinetree.model import Model

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

_singles: OncePerOwner[Single] = OncePerOwner()
_programs: Once[Native] = Once()
ENDS = ("q", "qd", "warm_start", "time")


def has_slopes(v: StepVariant) -> bool:
    """True if derivatives of a step with constraints are native."""
    loops = v.features.linking.rigid  # their projection is by XLA
    return v.free is None and v.integrator != "RK4" and not (v.sloped or loops) and is_differentiable(v.features)


def _balance(v: StepVariant) -> Native:
    """Inputs: those of a step, the acceleration of the integrator, and how contacts move which are searched for.

    Outputs: what is left of the equations, and activations.
    """
    f, recalls = v.features, searched(v.features)
    every = [*kinds_of(f), *(k for k, _ in between_of(f))]
    known = [copy_rows(len(v.inputs), "alpha")] if v.finishes else []
    told = len(v.inputs) + v.finishes if recalls else None
    parts: list[Part | Again] = [*copy_inputs(v), *known, *forces(v, told), *pull_all(every, f), *left_over(0)]
    parts += left_over_of_step(1) if v.finishes else []
    count = 1 + v.finishes
    if v.stateful:
        parts += [*v.activated("now", "rate"), output_state(("act",), count)]
    return Native.of("step_balance", parts, len(v.inputs) + v.finishes + recalls, count + v.stateful)


def _end(v: StepVariant) -> Native:
    """Inputs: q, qd, accelerations, time, and the acceleration of the integrator. Output: the state."""
    turned = v.features.quaternions
    begin = [
        starting(),
        coordinates(0),
        copy_input(1, "qd"),
        copy_input(2, "x"),
        copy_time(3),
        *move_followers(v),
    ]
    shift = [*kinematics.shifts(), shift_accelerations(1.0)] if turned else []
    alpha = copy_rows(4, "alpha") if v.finishes else take_acceleration("x")
    back = [shift_accelerations(-1.0)] if turned else []
    return Native.of(
        "step_end", [counting(), *begin, *shift, alpha, *back, *end_of_step(v), output_state(ENDS)], 4 + v.finishes, 1
    )


def _loaded(v: StepVariant, back: bool) -> Native:
    """B⁻¹ (s + L y) of two changes, with B = H + L of an integrator with loads L; or B⁻¹ o, and L B⁻¹ o."""
    v = v._replace(external=False)
    first, inputs = len(v.inputs), 1 if back else 2

    def force(_: tuple, given: tuple, load: tuple) -> tuple:
        return (given[0] if back else given[0] + load[0] * given[1],), (), ()

    def ended(_: tuple, __: tuple, reads: tuple) -> tuple:
        found, load = reads
        return (), (), (found, load * found) if back else (found,)

    given, load = tuple(Lane(first + k, 1) for k in range(inputs)), ROW.at(0, "load")
    start = Loop(force, 2, NOTHING, reads=(load,), writes=(ROW.at(0, "b"),), inputs=given)
    end = Loop(
        ended, 2, NOTHING, reads=(ROW.at(0, "x_new"), load), outputs=tuple(Lane(k, 1) for k in range(3 - inputs))
    )
    change = solve_change([], [], linked_parts(v.features.linking, True, False), False, True)
    ends = Part(start, Plan.numbered_rows), Part(end, Plan.numbered_rows)
    parts = [*copy_inputs(v), *drive_parts(v), ends[0], *change, ends[1]]
    return Native.of(f"step_loaded{'_back' * back}", parts, first + inputs, 3 - inputs)


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


def slopes_of(v: StepVariant, model: Model, plan: StepPlan, dtype: Any, h: Any) -> Slopes:
    """For a model."""
    names = ["balance", "end", "answer"] + (["loaded", "back"] if v.finishes else [])
    names += ["motions"] if searched(v.features) else []
    return Slopes(**{name: constants_of(_made(name, v), model, plan, dtype, h) for name in names})


def _linear(v: StepVariant, known: Slopes) -> list[tuple[Native, tuple]]:
    """The linear programs, with their constants."""
    return [(_made(name, v), getattr(known, name)) for name in ("answer", "loaded", "back") if getattr(known, name)]


def _singly(native: Native, plan: StepPlan, widths: tuple[int, ...], constants: tuple, inputs: tuple) -> tuple:
    """What has the derivatives of a program without repeats."""
    one = _singles.get(plan, id(native), lambda: single(native.program, tables_of(native, plan)))
    return run_slope(one.program, one.slots, widths, one.tables, one.constants(constants, inputs[0].dtype), inputs)


def moved_step(v: StepVariant, plan: StepPlan, known: Slopes, given: dict[str, Any], qdd: Any, alpha: Any) -> dict:
    """What has the derivatives of the state after a step, by inputs and by the model's numbers; not its values.

    Arguments:
        v, plan, known: the programs.
        given: inputs of the step by their names, but the warm start.
        qdd, alpha: accelerations of the step, and of its integrator.
    """
    n, nv = plan.n, qdd.shape[1]
    inputs = given | {"warm_start": qdd}
    ordered = tuple(inputs[name] for name in v.inputs)
    last = (alpha,) if v.finishes else ()
    last += (motions_of(v.features, plan, known.motions, given["q"]),) if searched(v.features) else ()
    widths = (n,) * (1 + v.finishes) + ((plan.na,) if v.stateful else ())
    found = _singly(_made("balance", v), plan, widths, known.balance, (*ordered, *last))
    answer, *loads = (
        BoundProgram(native.program, plan.slots, (n,) * native.program.n_outputs, tables_of(native, plan), constants)
        for native, constants in _linear(v, known)
    )
    (moved,) = run_change(answer, answer, (given["q"], given["qd"], qdd), found[:1])
    more = ()
    if v.finishes:
        fixed = tuple(inputs[name] for name in v.inputs if name != "f_ext")
        more = (alpha - moved - run_change(loads[0], loads[1], fixed, (found[1], -moved))[0],)
    reached = qdd - (moved if plan.coupling is None else moved[:, plan.coupling.kept_v])
    nq = given["q"].shape[1]
    (end,) = _singly(
        _made("end", v), plan, (nq + 2 * nv + 1,), known.end, (given["q"], given["qd"], reached, given["time"], *more)
    )
    ends = np.cumsum([nq, nv, nv, 1])
    after = {name: end[:, a:b] for name, a, b in zip(ENDS, (0, *ends), ends, strict=False)}
    return after | ({"act": found[-1]} if v.stateful else {})
