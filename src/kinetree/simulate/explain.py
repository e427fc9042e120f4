"""`kinetree.explain`: what `auto` takes for dynamics, constraints and steps, and why."""

from dataclasses import dataclass

from kinetree import dynamics
from kinetree.constrain.choose import Way, way_of
from kinetree.model import Model
from kinetree.model.required import require_model

from .advance import step_of
from .native import StepWay, way_of_step


@dataclass(frozen=True)
class Explanation(dynamics.Explanation):
    """As of dynamics, with what solves for constraints, and what makes steps."""

    constrained_dynamics: Way
    advance: StepWay

    def __str__(self) -> str:
        own = [f"  constrained_dynamics: {self.constrained_dynamics}", f"  advance: {self.advance}"]
        return "\n".join([super().__str__(), *own])


def explain(model: Model, batch: int = 1) -> Explanation:
    """What runs for a model, called on NumPy arrays, and why: inverse and forward dynamics, constraints, steps.

    The articulated-body algorithm wins everywhere (benchmarks/NOTES.md): the methods that form the mass matrix or take
    bodies apart cost more from the smallest robot on. Models with mimic joints are solved by their mass matrix.
    Constraints and steps run in native code where it knows all that the model has, else by XLA.

    Arguments:
        model: the mechanism.
        batch: states in one call.

    Returns:
        An `Explanation`; print it, or read `.inverse_dynamics`, `.forward_dynamics`, `.constrained_dynamics` and
        `.advance`.
    """
    require_model(model)
    found = dynamics.explain(model, batch)
    step = way_of_step(model, step_of(model, None))
    return Explanation(**vars(found), constrained_dynamics=way_of(model), advance=step)
