"""What `auto` takes, and why: the text behind `kinetree.explain`."""

from dataclasses import dataclass

import jax

from kinetree.model import Model

from .forward_dynamics import choose_method
from .schedule import choose_schedule


@dataclass(frozen=True)
class Choice:
    """One function's method and schedule, and the reason."""

    method: str
    schedule: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What `auto` would do with a model and a batch; prints as text."""

    subject: str
    inverse_dynamics: Choice
    forward_dynamics: Choice

    def __str__(self) -> str:
        lines = [self.subject]
        for name in ("inverse_dynamics", "forward_dynamics"):
            choice = getattr(self, name)
            lines.append(f"  {name}: {choice.method}, {choice.schedule}: {choice.reason}")
        return "\n".join(lines)


def schedule_reason(schedule: str, model: Model, batch: int) -> str:
    """Why a schedule suits a model and a batch."""
    tree = model.tree
    if schedule == "lanes":
        if batch >= 64:
            return f"{batch} states fill the lanes, and every lane walks the rows in order"
        return f"{tree.n} rows in one compiled loop cost less than passes over the whole tree"
    if schedule == "levels":
        return f"{tree.height} levels of {tree.n / tree.height:.0f} rows on average are wide enough for a step each"
    return f"{tree.n} rows in {tree.height} levels are too deep to walk: long paths are cut up and scanned"


def explain(model: Model, batch: int = 1) -> Explanation:
    """What `auto` would do for inverse and forward dynamics of a model, and why.

    Arguments:
        model: the mechanism.
        batch: states in one call.

    Returns:
        An `Explanation`; print it, or read `.inverse_dynamics` and `.forward_dynamics`: method, schedule, reason.
    """
    tree, device = model.tree, jax.default_backend()
    subject = (
        f"{model.n_bodies} bodies, {model.nv} degrees of freedom in {tree.height} levels, "
        f"{batch} state{'s' if batch > 1 else ''} on {device}"
    )
    inverse = choose_schedule(tree, batch)
    if model.coupling is not None:
        forward = Choice(
            "crba", "sequential", "mimic joints: the mass matrix of the free model is reduced and solved densely"
        )
    else:
        method, schedule = choose_method(model, batch)
        forward = Choice(method, schedule, schedule_reason(schedule, model, batch))
    return Explanation(subject, Choice("rnea", inverse, schedule_reason(inverse, model, batch)), forward)
