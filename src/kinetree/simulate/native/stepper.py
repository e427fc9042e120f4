"""The program of a step bound to a model: its tables and constants, and which form of it runs."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kinetree._arrays import flattened
from kinetree.constrain.native.binding import BoundNative, constants_of, tables_of, written_for
from kinetree.constrain.native.loop_changes import rows_width
from kinetree.constrain.traced import not_bound
from kinetree.dynamics.schedules.choose import may_write_out
from kinetree.lanes import Program, run, written_out, xla
from kinetree.lanes.target import compiled
from kinetree.model import Model, State

from .free import free_slots
from .plan import StepPlan
from .slope import Slopes, StepFacts, has_rounds, has_slopes, known_closing, moved_step, slopes_of
from .step import StepVariant, output_state, program_of, variant_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Stepper:
    """A program with its tables and constants: what `advance` calls. A pytree, so that constants go through `jit`."""

    constants: tuple[Any, ...]
    variant: StepVariant = field(metadata={"static": True})
    plan: StepPlan = field(metadata={"static": True})
    smooth: tuple[Any, ...] | Slopes = ()  # constants of the programs for derivatives, where there are some
    own: Program | None = field(
        default=None, metadata={"static": True}
    )  # written out for one model; if uneven, for GPUs
    asked: bool = field(default=False, metadata={"static": True})  # the user wants such a program at any cost

    @cached_property
    def widths(self) -> dict[str, int]:
        """The widths of inputs, and of the parts of the output."""
        return widths_of(self.plan)

    @cached_property
    def width(self) -> int:
        """The width of the output."""
        return sum(self.widths[name] for name in self.variant.outputs)

    @cached_property
    def columns(self) -> dict[str, slice | int]:
        """The places of the parts of a state in the output."""
        names = self.variant.outputs
        ends = np.cumsum([self.widths[name] for name in names]).tolist()
        found: dict[str, Any] = {name: slice(e - self.widths[name], e) for name, e in zip(names, ends, strict=True)}
        return found | {"time": found["time"].start}

    def split(self, whole: Any, before: State) -> State:
        """The state after the steps, from the output (..., width); missing parts are those of the state before."""
        return before.after({name: whole[..., at] for name, at in self.columns.items()})

    @cached_property
    def slots(self) -> int:
        """How many slots a lane has."""
        free = self.variant.free
        return self.plan.slots + (0 if free is None else free_slots(free, self.plan))

    def program(self, work: int) -> Program:
        """The program that runs; `work` counts the steps of all lanes together."""
        own = self.own
        chosen = own is not None and own.even and (self.asked or may_write_out(own, self.plan.n, work))
        return own if own is not None and chosen else program_of(self.variant).program

    def constants_for(self, count: Any, dtype: Any) -> tuple:
        """The constants, with the number of steps of a call among them."""
        library = np if isinstance(count, int | np.integer) else jnp
        return library.full((1, 1), count, dtype), *self.constants[1:]

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        """The tables of all loops."""
        return tables_of(program_of(self.variant), self.plan)

    def inputs(self, state: State, ctrl: Any, f_ext: Any) -> tuple:
        """The inputs of the program, (batch, ...)."""
        given = {"f_ext": None if f_ext is None else flattened(f_ext), "ctrl": ctrl}
        given |= {"time": state.time.reshape(-1, 1), "act": state.act}
        given |= {"q": state.q, "qd": state.qd, "warm_start": state.warm_start}
        return tuple(given[name] for name in self.variant.inputs)

    def __call__(self, state: State, ctrl: Any, f_ext: Any, count: Any, by_xla: bool = False) -> State:
        """The state after some steps; arrays are (batch, ...)."""
        native = program_of(self.variant)
        inputs, constants = self.inputs(state, ctrl, f_ext), self.constants_for(count, state.q.dtype)
        program = self.program(len(state.q) * count) if isinstance(count, int) else native.program
        bound = program, self.slots, (self.width,), self.tables, constants
        written = self.own if self.own is not None and not self.own.even else None
        (whole,) = xla.run(*bound, inputs) if by_xla else run(*bound, inputs, written=written)
        return self.split(whole, state)

    @property
    def differentiable(self) -> bool:
        """True if derivatives of a step are native, too."""
        return bool(self.smooth)

    def may_have_slopes(self, model: Model) -> bool:
        """True if it was made without the programs of derivatives, and they can be made for a traced model."""
        return not self.smooth and has_slopes(self.variant) and not not_bound(model)

    def with_slopes(self, model: Model, h: Any) -> "Stepper":
        """It, with the constants of derivatives."""
        plan = self.plan.with_numbers_of(model)
        return replace(self, smooth=slopes_of(self.variant, model, plan, self.constants[0].dtype, h))

    def with_facts(self, state: State, ctrl: Any, f_ext: Any) -> tuple[State, StepFacts]:
        """The state after one step, and what else its derivatives need."""
        v, plan = self.variant, self.plan
        rigid = v.free is None and v.features.linking.rigid
        names = ("alpha",) * v.finishes + ("multipliers",) * rigid + ("before",) * (rigid and v.finishes)
        if v.free is not None or not names:
            return self(state, ctrl, f_ext, 1), StepFacts()
        native = program_of(v)
        last = output_state((*v.outputs, *names)).table(plan)  # the same program puts out more
        inputs, constants = self.inputs(state, ctrl, f_ext), self.constants_for(1, state.q.dtype)
        sizes = {"alpha": plan.n, "multipliers": rows_width(plan), "before": rows_width(plan)}
        ends = self.width + np.cumsum([0, *(sizes[name] for name in names)])
        (whole,) = run(native.program, self.slots, (int(ends[-1]),), (*self.tables[:-1], last), constants, inputs)
        more = {name: whole[:, a:b] for name, a, b in zip(names, ends, ends[1:], strict=False)}
        after, alpha = self.split(whole, state), more.get("alpha")
        if not rigid:
            return after, StepFacts(alpha)
        multipliers = more["multipliers"]
        before = more["before"] if v.finishes and has_rounds(v) else multipliers
        assert isinstance(self.smooth, Slopes)
        given = dict(zip(v.inputs, inputs, strict=True))
        closed = known_closing(v, plan, self.smooth, given, after.warm_start, alpha)
        return after, StepFacts(alpha, before, before - multipliers, closed)

    def at_solution(self, state: State, ctrl: Any, f_ext: Any, solution: Any, facts: StepFacts) -> State:
        """What has the derivatives of the state after one step, where accelerations are known; not its values."""
        if isinstance(self.smooth, Slopes):
            names = dict(zip(self.variant.inputs, self.inputs(state, ctrl, f_ext), strict=True))
            found = moved_step(self.variant, self.plan, self.smooth, names, solution, facts)
            return state.after(found | {"time": found["time"][:, 0]})
        constants = np.ones((1, 1), state.q.dtype), *self.smooth[1:]
        bound = BoundNative(program_of(self.variant, True), self.plan, constants, (self.width,))
        return self.split(bound.slopes(*self.inputs(state, ctrl, f_ext))[0], state)

    def direct(self, dtype: np.dtype, count: int, lanes: int) -> Any:
        """A builtin on NumPy arrays in the order of the inputs, for `count` steps; None if there is none.

        It returns the output, or None for arrays that are not plain, or where a number is not finite. `lanes` is about
        how many there will be.
        """
        code = compiled(self.program(lanes * count), dtype.name)
        if code is None:
            return None
        widths = *(self.widths[name] for name in self.variant.inputs), self.width
        return code.bound(self.slots, widths, self.tables, self.constants_for(count, dtype), ((self.width,),))


def widths_of(plan: StepPlan) -> dict[str, int]:
    """The widths of all that programs of steps read or write."""
    nq, nv = map(len, plan.columns)
    own = {"q": nq, "qd": nv, "warm_start": nv, "time": 1, "act": plan.na}
    return own | {"ctrl": plan.nu, "f_ext": 6 * plan.structure.n_bodies}


def sizes_of(variant: StepVariant, plan: StepPlan) -> tuple[int, ...]:
    """The widths of the inputs of a program, and of its output."""
    widths = widths_of(plan)
    return *(widths[name] for name in variant.inputs), sum(widths[name] for name in variant.outputs)


def stepper_of(
    model: Model, plan: StepPlan, integrator: str, dtype: Any, h: Any, external: bool, slopes: bool = True
) -> Stepper:
    """The program of a model, with its constants for a type and a time step; with those of derivatives, if any."""
    variant = variant_of(model, plan, integrator, external)
    native = program_of(variant)
    constants = constants_of(native, model, plan, dtype, h)
    smooth: tuple[Any, ...] | Slopes = ()
    if not slopes:
        pass
    elif variant.free is not None:
        smooth = constants_of(program_of(variant, True), model, plan, dtype, h)
    elif has_slopes(variant):
        smooth = slopes_of(variant, model, plan, dtype, h)
    sizes, known = sizes_of(variant, plan), (None, *constants[1:])
    traced = any(isinstance(x, Tracer) for x in constants)
    if native.program.even:
        own = None if traced else written_out(native.program, tables_of(native, plan), sizes, known)
    else:
        own = written_for(native, model, plan, sizes, known)
    return Stepper(constants, variant, plan.forgetful() if traced else plan, smooth, own, model.specialized)
