"""The native programs bound to a model, for `kinetree.constrained_dynamics` and related functions."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kinetree._arrays import flattened
from kinetree._varying import custom_jvp
from kinetree.lanes import Program, run, xla
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.linear import run_change
from kinetree.lanes.target import compiled
from kinetree.model import Model
from kinetree.model.arguments import is_known

from .binding import BoundNative, constants_of, tables_of, written_for
from .contacts import POINT_REPORT
from .features import Features, features_of
from .kinds import FORCE_REPORT
from .loop_changes import rows_width
from .plan import Plan
from .programs import ConstraintVariant, Goal, is_differentiable, program_of
from .recalled import searched, width

BUILTIN = "_builtin"  # beside the fields of a solver


class Solved(NamedTuple):
    """The results of the program, (batch, ...)."""

    qdd: Any = None
    force: Any = None  # of the constraints, on the joints
    total: Any = None  # all forces: H times x; of given accelerations, tau and the force
    counts: Any = None  # iterations, and whether they converged
    points: Any = None  # (batch, 14 a point)
    pushes: Any = None  # (batch, 6 a point): forces of contacts on their second bodies, in their frames, if asked for
    left: Any = None  # of the balance of forces, on all rows
    answer: Any = None  # of all rows, to a change
    motions: Any = None  # of points of contact that are searched for
    loops: Any = None  # (batch, 6 for each loop): wrenches of rigid loops on their second bodies, in the world
    multipliers: Any = None  # forces of the rows of rigid loops (loop_changes.py)
    gap: Any = None  # what these rows lack

    @property
    def iterations(self) -> Any:
        """Iterations of Newton's method."""
        return self.counts[:, 0]

    @property
    def converged(self) -> Any:
        """True if the iterations were enough."""
        return self.counts[:, 1] != 0


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Solver:
    """A program with its tables and constants. A pytree, so that constants go through `jit`."""

    constants: tuple[Any, ...]
    variant: ConstraintVariant = field(metadata={"static": True})
    plan: Plan = field(metadata={"static": True})
    smooth: tuple[Any, ...] = ()  # constants of the program for derivatives, where there is one
    answers: tuple[Any, ...] = ()  # of the one that answers changes, where accelerations are asked for
    seen: tuple[Any, ...] = ()  # constants of the program for motions of contacts that need a search
    own: Program | None = field(default=None, metadata={"static": True})  # written out for one model, for GPUs

    @property
    def differentiable(self) -> bool:
        """True if derivatives are native, too."""
        return bool(self.smooth)

    def __call__(
        self, q: Any, qd: Any = None, tau: Any = None, f_ext: Any = None, warm: Any = None, by_xla: bool = False
    ) -> Solved:
        """The outputs of the variant, from (batch, ...) arrays. `by_xla`: by the XLA body of the same program."""
        inputs = _inputs(self.variant, q=q, qd=qd, tau=tau, f_ext=f_ext, warm=warm)
        if not by_xla and (found := self._at_once(inputs)) is not None:
            return self._split(found)
        native = program_of(self.variant)
        plan, widths = self.plan, _widths(self.variant, self.plan)
        bound = native.program, plan.slots, widths, tables_of(native, plan), self.constants
        return self._split(xla.run(*bound, inputs) if by_xla else run(*bound, inputs, written=self.own))

    def _at_once(self, inputs: tuple) -> tuple | None:
        """The outputs on plain NumPy arrays by a builtin, made at the first call; None if there is none."""
        if not all(type(x) is np.ndarray for x in inputs):
            return None
        kept = self.__dict__
        if BUILTIN not in kept:
            native, code = program_of(self.variant), None
            if is_known(self.constants):
                code = compiled(native.program, inputs[0].dtype.name)
            bound = None
            if code is not None:
                own = _widths(self.variant, self.plan)
                widths, shapes = (*(x.shape[1] for x in inputs), *own), tuple((n,) for n in own)
                tables = tables_of(native, self.plan)
                bound = code.bound(self.plan.slots, widths, tables, self.constants, shapes, unchecked=True)
            kept[BUILTIN] = bound
        builtin = kept[BUILTIN]
        found = None if builtin is None else builtin(*inputs)
        return (found,) if isinstance(found, np.ndarray) else found

    def no_forces(self, q: Any) -> Any:
        """Zero forces of the rows of loops; None without loops."""
        return jnp.zeros((len(q), rows_width(self.plan)), q.dtype) if self.plan.rigid else None

    def motions(self, q: Any) -> Any:
        """How points of contact that need a search move, for `at_solution`; None if there are none."""
        return _motions(self, q) if smooth_variant(self.variant).recalls else None

    def at_solution(
        self,
        q: Any,
        qd: Any = None,
        tau: Any = None,
        f_ext: Any = None,
        *,
        motions: Any,
        solution: Any = None,
        multipliers: Any = None,
    ) -> Solved:
        """A function with the derivatives of the answer, for known accelerations and forces of loops.

        It has other values.
        """
        balance = smooth_variant(self.variant)
        native = BoundNative(program_of(balance), self.plan, self.smooth, _widths(balance, self.plan))
        given = {"q": q, "qd": qd, "tau": tau, "f_ext": f_ext, "motions": motions}

        def found(qdd: Any, multipliers: Any, names: tuple[str, ...]) -> Solved:
            inputs = _inputs(balance, **given, warm=qdd, multipliers=multipliers)
            return self._split(native.slopes(*inputs, outputs=tuple(map(balance.outputs.index, names))), names)

        if balance.goal is not Goal.BALANCE:
            return found(solution, multipliers, balance.outputs)
        answer = answering(self.variant.features)
        lacks = tuple(name for name in balance.outputs if name in ("left", "gap"))
        asked = BoundNative(program_of(answer), self.plan, self.answers, _widths(answer, self.plan)).linear
        left = found(solution, multipliers, lacks)
        changes = tuple(getattr(left, name) for name in lacks)
        moved, *freed = run_change(asked, asked, _inputs(answer, q=q, qd=qd, warm=solution), changes)
        coupling = self.plan.coupling
        reached = solution - (moved if coupling is None else moved[:, coupling.kept_v])
        rest = tuple(name for name in balance.outputs if name not in ("qdd", *lacks))
        return found(reached, multipliers + freed[0] if freed else None, rest)._replace(qdd=reached)

    def _split(self, whole: tuple, names: tuple[str, ...] | None = None) -> Solved:
        found = dict(zip(names or self.variant.outputs, whole, strict=True))
        own = self.plan.coupling
        if own is not None:
            narrow = {"qdd": lambda x: x[:, own.kept_v], "force": own.narrow, "total": own.narrow}
            found |= {name: narrow[name](x) for name, x in found.items() if name in narrow}
        return Solved(**found)


def _widths(variant: ConstraintVariant, plan: Plan) -> tuple[int, ...]:
    """The widths of the outputs."""
    n, points = plan.n, len(plan.all_points()[0])
    loops, rows = 6 * sum(map(len, plan.rigid.groups.values())), rows_width(plan)
    widths = Solved(n, n, n, 2, POINT_REPORT * points, FORCE_REPORT * points, n, n, 0, loops, rows, rows)
    return tuple(getattr(widths, name) for name in variant.outputs)


def smooth_variant(variant: ConstraintVariant) -> ConstraintVariant:
    """The program whose derivatives are those of a variant, where accelerations are known."""
    recalls = variant._replace(recalls=searched(variant.features))
    return recalls._replace(goal=Goal.BALANCE, warm=True) if variant.goal is Goal.DYNAMICS else recalls


def moving(features: Features) -> ConstraintVariant:
    """The program for the motions of points of contact that need a search."""
    return ConstraintVariant(Features(*features[:5]), goal=Goal.MOTIONS)


def motions_of(features: Features, plan: Plan, constants: tuple, q: Any) -> Any:
    """The motions of points of contact that need a search, as known numbers."""
    known, q = jax.lax.stop_gradient((constants, q))
    bound = BoundNative(program_of(moving(features)), plan, known, (width(plan),))
    return jax.lax.stop_gradient(bound.values(q)[0])


@custom_jvp
def _motions(solver: Solver, q: Any) -> Any:
    return motions_of(solver.variant.features, solver.plan, solver.seen, q)


@_motions.defjvp
def _refused(*_: Any) -> Any:
    raise NotImplementedError("second derivatives of contacts that need a search are not known")


def answering(features: Features) -> ConstraintVariant:
    """The program for the change of accelerations by a change of the balance of forces."""
    return ConstraintVariant(features, goal=Goal.ANSWER)


def _inputs(variant: ConstraintVariant, **given: Any) -> tuple:
    """The inputs of a program; directions in which it is linear come later."""
    flat = {k: flattened(x) if k == "f_ext" and x is not None else x for k, x in given.items()}
    return tuple(flat[name] for name in variant.inputs if flat.get(name) is not None)


_solvers: OncePerOwner[Solver] = OncePerOwner()


def solver_of(model: Model, plan: Plan, dtype: Any, h: Any, **asked: Any) -> Solver:
    """The program of a model, with its constants for a type and a time step; made once where numbers are known.

    `asked` are the fields of a `ConstraintVariant` beside its features.
    """

    def make() -> Solver:
        features = features_of(model.uncoupled, plan)
        if asked.get("goal") is Goal.CONTACTS:
            features = Features(*features[:5])  # no other feature counts
        variant = ConstraintVariant(features, **asked)
        constants = constants_of(program_of(variant), model, plan, dtype, h)
        traced = any(isinstance(x, Tracer) for x in constants)
        smooth, answers, seen = (), (), ()
        if is_differentiable(features):
            smooth = constants_of(program_of(smooth_variant(variant)), model, plan, dtype, h)
            if variant.goal is Goal.DYNAMICS:
                answers = constants_of(program_of(answering(features)), model, plan, dtype, h)
            if searched(features):
                seen = constants_of(program_of(moving(features)), model, plan, dtype, h)
        nq, nv = map(len, plan.columns)
        given = {"q": nq, "f_ext": 6 * plan.structure.n_bodies}
        sizes = *(given.get(name, nv) for name in variant.inputs), *_widths(variant, plan)
        own = written_for(program_of(variant), model, plan, sizes, constants)
        return Solver(constants, variant, plan.forgetful() if traced else plan, smooth, answers, seen, own)

    if isinstance(h, Tracer) or not is_known(model):
        return make()
    return _solvers.get(model, (np.dtype(dtype).name, float(h), *sorted(asked.items(), key=str)), make)
