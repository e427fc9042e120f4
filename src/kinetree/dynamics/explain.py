"""What `auto` takes, and why: the text behind `kinetree.explain`."""

from dataclasses import dataclass

import jax
import numpy as np

from kinetree.model import Model

from .algorithms.aba import aba_of
from .algorithms.rnea import RNEA
from .closed_form.shape import Shape
from .firmness import is_firm
from .schedules.choose import Choice, call_of, choose_mass_matrix
from .schedules.lane_clusters import clusters_of
from .schedules.run import way_of


@dataclass(frozen=True)
class Explanation:
    """What `auto` does with a model and a batch; prints as text.

    `inverse_dynamics`, `forward_dynamics` and `mass_matrix` are the `Choice` of each: schedule, way, body, program and
    reason.
    `method` is the method of forward dynamics.
    """

    subject: str
    method: str
    inverse_dynamics: Choice
    forward_dynamics: Choice
    mass_matrix: Choice

    def __str__(self) -> str:
        return "\n".join(
            [
                self.subject,
                f"  inverse_dynamics: rnea, {self.inverse_dynamics}",
                f"  forward_dynamics: {self.method}, {self.forward_dynamics}",
                f"  mass_matrix: crba, {self.mass_matrix}",
            ]
        )


def explain(model: Model, batch: int = 1) -> Explanation:
    """What `auto` does for inverse and forward dynamics of a model, called on NumPy arrays, and why.

    The articulated-body algorithm wins everywhere (benchmarks/NOTES.md): the methods that form the mass matrix or take
    bodies apart cost more from the smallest robot on. Models whose mimic joints do not hang together are solved by
    their mass matrix.

    Arguments:
        model: the mechanism.
        batch: states in one call.

    Returns:
        An `Explanation`; print it, or read `.inverse_dynamics` and `.forward_dynamics`.
    """
    if not isinstance(batch, int | np.integer) or batch < 0:
        raise ValueError(f"batch must be a number of states, not {batch!r}")
    tree = model.tree
    subject = (
        f"{model.n_bodies} bodies, {model.nv} degrees of freedom in {tree.height} levels, "
        f"{batch} state{'s' if batch > 1 else ''} on {jax.default_backend()}"
    )
    free = model if model.coupling is None else model.uncoupled
    q, rates = (np.broadcast_to(np.zeros(()), (batch, n)) for n in (free.nq, free.nv))
    inverse = way_of(RNEA, free, {"q": q, "qd": rates, "qdd": rates})
    matrix = choose_mass_matrix(call_of(model, (q,)))
    if model.coupling is None:
        forward = way_of(aba_of(is_firm(model)), model, {"q": q, "qd": rates, "tau": rates})
        return Explanation(subject, "aba", inverse, forward, matrix)
    together = clusters_of(Shape.of(model)) is not None
    reason = "joints that follow one another " + (
        "hang together, and are taken as one" if together else "are far apart: their mass matrix is reduced and solved"
    )
    forward = Choice("lanes", "lanes", inverse.body, "shared", reason)
    return Explanation(subject, "aba" if together else "crba", inverse, forward, matrix)
