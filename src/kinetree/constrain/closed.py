"""Forward dynamics with rigid loops, by the native program of constraints, in which loops are the only constraints."""

from functools import partial
from typing import Any

import jax

from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model
from kinetree.model.arguments import is_known
from kinetree.model.copies import with_same_rows

from .choose import Way, native_for, way_of
from .moving import jvp_of_moving
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
    return solver(*given).qdd if is_known(given) else _natively(reference, solver, *given)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _natively(reference: Any, solver: Solver, *given: Any) -> Any:
    return solver(*given).qdd


@partial(_natively.defjvp, symbolic_zeros=True)
def _derivative(reference: Any, primals: Any, tangents: Any) -> Any:
    return jvp_of_moving(reference, primals[1:], tangents[1:])
