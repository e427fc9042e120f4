"""`kinetree.explain`: what `auto` takes for dynamics, constraints and steps, and why."""

from dataclasses import dataclass, replace
from typing import Any

from kinetree import dynamics
from kinetree.constrain.choose import Way, way_of
from kinetree.constrain.closed import way_of_closed
from kinetree.constrain.native import Goal
from kinetree.dynamics.schedules.choose import Choice
from kinetree.model import Model
from kinetree.model.required import require_model

from .advance import step_of
from .native import way_of_rollout, way_of_step


@dataclass(frozen=True)
class Explanation(dynamics.DynamicsExplanation):
    """What dynamics explains; then how constraints are solved, and how steps and rollouts are made."""

    constrained_dynamics: Way
    constrained_inverse_dynamics: Way
    contacts: Way
    advance: Way
    rollout: Way


def explain(model: Model, batch: int = 1, *, arrays: str = "numpy", dtype: Any = float) -> Explanation:
    """What runs for a model, and why: the choice of every function that can go several ways.

    The articulated-body algorithm wins everywhere (benchmarks/NOTES.md): the methods that form the mass matrix or take
    bodies apart cost more from the smallest robot on. Models whose mimic joints do not hang together are solved by
    their mass matrix. Constraints and steps run in native code where it knows all that the model has, else by XLA.

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
