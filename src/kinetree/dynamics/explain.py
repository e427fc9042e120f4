"""What `auto` chooses, and why: the text behind `kinetree.explain`."""

from dataclasses import dataclass, fields, replace

import jax
import numpy as np

from kinetree._arrays import as_dtype
from kinetree._types import DType
from kinetree._unknown import require_word
from kinetree.lanes.target import facts
from kinetree.model import Model

from .algorithms.aba import aba_of
from .algorithms.kinematics import KINEMATICS
from .algorithms.rnea import RNEA
from .closed_form.matrices import forward_way
from .coupled import coupled_way
from .firmness import is_firm
from .schedules.choose import Call, Choice, choose, choose_derivatives, choose_mass_matrix
from .schedules.run import way_of

ARRAYS = ("numpy", "jax", "traced")


@dataclass(frozen=True, repr=False)
class DynamicsExplanation:
    """The choices of `auto` for a model and a batch; prints as text.

    `subject` names the call, `method` the method of forward dynamics. All others have the name of a public function,
    and are its `Choice`: schedule, way, body, program and reason.
    """

    subject: str
    method: str
    inverse_dynamics: Choice
    forward_dynamics: Choice
    mass_matrix: Choice
    forward_kinematics: Choice
    jacobian: Choice
    inverse_dynamics_derivatives: Choice
    forward_dynamics_derivatives: Choice

    def __repr__(self) -> str:
        algorithms = {"inverse_dynamics": "rnea, ", "forward_dynamics": f"{self.method}, ", "mass_matrix": "crba, "}
        named = [f.name for f in fields(self) if f.name not in ("subject", "method")]
        return "\n".join([self.subject, *(f"  {n}: {algorithms.get(n, '')}{getattr(self, n)}" for n in named)])


def explain(model: Model, batch: int = 1, *, arrays: str = "numpy", dtype: DType = float) -> DynamicsExplanation:
    """The choices of `auto` for a model, and why. See `kinetree.explain` for the arguments."""
    if not isinstance(batch, int | np.integer) or batch < 0:
        raise ValueError(f"batch must be a number of states, not {batch!r}")
    require_word("kind of arrays", arrays, ARRAYS)
    tree = model.tree
    subject = (
        f"{model.n_bodies} bodies, {model.nv} degrees of freedom in {tree.height} levels, "
        f"{batch} state{'s' if batch > 1 else ''} on {jax.default_backend()}"
    )
    call = Call(model, int(batch), arrays, as_dtype(dtype), device=facts())
    method, forward = _forward(call)
    return DynamicsExplanation(
        subject,
        method,
        way_of(RNEA, call),
        forward,
        choose_mass_matrix(call),
        way_of(KINEMATICS, call),
        choose(call, walks=False),
        choose_derivatives(call),
        forward_way(call),
    )


def _forward(call: Call) -> tuple[str, Choice]:
    """The method of forward dynamics, and its way."""
    if call.model.loops is not None:
        method, choice = _forward(call._replace(model=call.model.without_loops))
        return method, replace(choice, reason=f"{choice.reason}; forces of rigid loops are added")
    if call.model.coupling is None:
        return "aba", way_of(aba_of(is_firm(call.model)), call)
    choice = coupled_way(call)
    return "aba" if "taken as one" in choice.reason else "crba", choice
