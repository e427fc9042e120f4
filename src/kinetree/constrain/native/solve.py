"""The native programs bound to a model: what `kinetree.constrained_dynamics` and its kin run."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from kinetree.lanes import run, xla
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.program.single import Single, single
from kinetree.model import Model
from kinetree.model.arguments import is_known

from .binding import constants_of, tables_of, teams_of
from .contacts import POINT_REPORT
from .features import Features, features_of
from .kinds import FORCE_REPORT
from .plan import Plan
from .programs import Goal, Variant, is_solved, program_of


class Solved(NamedTuple):
    """What the program finds, (batch, ...)."""

    qdd: Any = None
    force: Any = None  # of the constraints, on the joints
    total: Any = None  # all forces: H times x; of given accelerations, tau and the force
    counts: Any = None  # iterations, and whether they converged
    points: Any = None  # (batch, 14 a point)
    pushes: Any = None  # (batch, 6 a point): forces of contacts on their second bodies, in their frames, if asked for

    @property
    def iterations(self) -> Any:
        """Of Newton's method."""
        return self.counts[:, 0]

    @property
    def converged(self) -> Any:
        """Whether the iterations were enough."""
        return self.counts[:, 1] != 0


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Solver:
    """A program with its tables and constants. A pytree, so that constants go through `jit`."""

    constants: tuple[Any, ...]
    variant: Variant = field(metadata={"static": True})
    plan: Plan = field(metadata={"static": True})
    smooth: tuple[Any, ...] = ()  # constants of the program for derivatives, where there is one

    @property
    def differentiable(self) -> bool:
        """Whether derivatives are native, too."""
        return bool(self.smooth)

    def __call__(
        self, q: Any, qd: Any = None, tau: Any = None, f_ext: Any = None, warm: Any = None, by_xla: bool = False
    ) -> Solved:
        """What the variant asks for, from (batch, ...) arrays. `by_xla`: by the XLA body of the same program."""
        native = program_of(self.variant)
        bound = native.program, self.plan.slots, self._widths, tables_of(native, self.plan), self.constants
        inputs = self._inputs(q, qd, tau, f_ext, warm)
        return self._split(
            xla.run(*bound, inputs) if by_xla else run(*bound, inputs, teams=teams_of(native, self.plan))
        )

    def at_solution(self, q: Any, qd: Any = None, tau: Any = None, f_ext: Any = None, solution: Any = None) -> Solved:
        """The same as a function that can be differentiated, where accelerations are known."""
        native, dtype = program_of(self.variant._replace(warm=True), True), q.dtype
        one = _singles.get(self.plan, id(native), lambda: single(native.program, tables_of(native, self.plan)))
        constants = np.zeros((1, 0), dtype), *self.smooth
        inputs = self._inputs(q, qd, tau, f_ext, solution)
        return self._split(run(one.program, one.slots, self._widths, one.tables, constants, inputs))

    def _inputs(self, q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any) -> tuple:
        forces = None if f_ext is None else f_ext.reshape(len(f_ext), -1)
        return tuple(x for x in (q, qd, tau, warm, forces) if x is not None)

    @property
    def _widths(self) -> tuple[int, ...]:
        n, points = self.plan.n, len(self.plan.all_points()[0])
        widths = Solved(n, n, n, 2, POINT_REPORT * points, FORCE_REPORT * points)
        return tuple(getattr(widths, name) for name in self.variant.outputs)

    def _split(self, whole: tuple) -> Solved:
        found = Solved(**dict(zip(self.variant.outputs, whole, strict=True)))
        own = self.plan.coupling
        if own is None or found.qdd is None:
            return found
        return found._replace(
            qdd=found.qdd[:, own.kept_v], force=own.narrow(found.force), total=own.narrow(found.total)
        )


_solvers: OncePerOwner[Solver] = OncePerOwner()
_singles: OncePerOwner[Single] = OncePerOwner()


def solver_of(model: Model, plan: Plan, dtype: Any, h: Any, **asked: Any) -> Solver:
    """The program of a model, with its constants for a type and a time step; made once where numbers are known.

    `asked` are the fields of a `Variant` beside its features.
    """

    def make() -> Solver:
        features = features_of(model.uncoupled, plan)
        if asked.get("goal") is Goal.CONTACTS:
            features = Features(*features[:5])  # no other feature counts
        variant = Variant(features, **asked)
        constants = constants_of(program_of(variant), model, plan, dtype, h)
        traced = any(isinstance(x, Tracer) for x in constants)
        smooth = ()
        if is_solved(variant):
            smooth = constants_of(program_of(variant._replace(warm=True), True), model, plan, dtype, h)
        return Solver(constants, variant, plan.forgetful() if traced else plan, smooth)

    if isinstance(h, Tracer) or not is_known(model):
        return make()
    return _solvers.get(model, (np.dtype(dtype).name, float(h), *sorted(asked.items(), key=str)), make)
