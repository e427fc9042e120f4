"""`kinetree.explain`: the choices of `auto` for dynamics, constraints and steps, and the reasons."""

from dataclasses import dataclass, replace

from kinetree import dynamics
from kinetree._types import DType
from kinetree.constrain.choose import Way, way_of
from kinetree.constrain.closed import way_of_closed
from kinetree.constrain.native import Goal
from kinetree.dynamics.schedules.choose import Choice
from kinetree.model import Model
from kinetree.model.required import require_model

from .advance import step_of
from .native import way_of_rollout, way_of_step


@dataclass(frozen=True, repr=False)
class Explanation(dynamics.DynamicsExplanation):
    """The choices for dynamics; then how constraints are solved, and how steps and rollouts are made."""

    constrained_dynamics: Way
    constrained_inverse_dynamics: Way
    contacts: Way
    advance: Way
    rollout: Way


def explain(model: Model, batch: int = 1, *, arrays: str = "numpy", dtype: DType = float) -> Explanation:
    """What runs for a model, and why: the choice for every function that has several ways.

    The articulated-body algorithm is always the fastest (benchmarks/NOTES.md): methods that form the mass matrix, or
    that divide and conquer, cost more even for the smallest robots. Models whose mimic joints do not hang together are
    solved by their mass matrix. Constraints and steps run in native code if it supports all features of the model, else
    by XLA.

    Arguments:
        model: the mechanism.
        batch: states in one call.
        arrays: "numpy"; "jax" for JAX arrays outside of `jit`; "traced" inside `jit`, `vmap` and `grad`.
        dtype: their type.

    Returns:
        An `Explanation`; print it, or read the field with the name of a function, such as `.inverse_dynamics`,
        `.mass_matrix`, `.constrained_dynamics` or `.advance`.
    """
    require_model(model)
    found, name = dynamics.explain(model, batch, arrays=arrays, dtype=dtype), step_of(model, None)
    rollout = way_of_rollout(model, name, dtype, arrays == "traced")
    free = model.uncoupled
    if model.loops is not None and way_of_closed(model, dtype).plan is not None:
        lanes = Choice("lanes", "lanes", "native", "", "rigid loops are solved with the tree, a lane to a state")
        found = replace(found, forward_dynamics=lanes)
    return Explanation(
        **vars(found),
        constrained_dynamics=way_of(model, dtype),
        constrained_inverse_dynamics=way_of(free, dtype, Goal.FORCES),
        contacts=way_of(free, dtype, Goal.CONTACTS),
        advance=way_of_step(model, name, dtype),
        rollout=rollout,
    )
