"""Forward dynamics with rigid loops, by the native program of constraints, in which loops are the only constraints."""

from typing import Any

from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model
from kinetree.model.arguments import is_known
from kinetree.model.copies import with_same_rows

from .choose import Way, native_for, way_of
from .moving import natively
from .native import Solver

_bare: OncePerOwner[Model] = OncePerOwner()


def _without_world(model: Model) -> Model:
    """The mechanism alone, with its loops, springs and dampers, as in forward dynamics."""

    def make() -> Model:
        return with_same_rows(model, world=None, friction=None, limits=None, actuators=None, sensors=(), stepping=None)

    return _bare.get(model, "bare", make) if is_known(model) else make()


def way_of_closed(model: Model, dtype: Any = float) -> Way:
    """How forward dynamics of a model with loops is computed, if no method is given."""
    return way_of(_without_world(model), dtype)


def natively_closed(model: Model, reference: Any, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv); None if native code does not serve."""
    _, solver = native_for(_without_world(model), q.dtype, external=f_ext is not None)
    if solver is None:
        return None
    given = q, qd, tau, f_ext
    return (_solved(solver, *given) if is_known(given) else natively(_solved, reference, _moved, solver, *given))[0]


def _solved(solver: Solver, *given: Any) -> tuple:
    found = solver(*given)
    return found.qdd, found.multipliers


def _moved(solver: Solver, motions: Any, reached: tuple, *given: Any) -> tuple:
    """The same where accelerations and the forces of loops are known."""
    return solver.at_solution(*given, motions=motions, solution=reached[0], multipliers=reached[1]).qdd, None
