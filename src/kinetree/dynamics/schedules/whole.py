"""One state of one huge tree as a layout: its recursions are algorithms, run by native walks or blocks (run.py).

Positions are the rows in order, the base before them. Whoever asks for poses, velocities, J x or Jᵀ f by position need
not know which way they come; a level after the other would take as many turns as the tree has levels.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics.algorithms.laden import LADEN, MOVED, inputs_of
from kinetree.dynamics.algorithms.poses import ROW_POSES
from kinetree.dynamics.algorithms.row_motion import FORCES, ON_JOINTS, RATES, ROW_RATES, ROW_VELOCITIES, VELOCITIES
from kinetree.dynamics.recursion import Algorithm, zeros
from kinetree.model import Model, Placement
from kinetree.model.arguments import is_known
from kinetree.spatial import ArticulatedInertia, Force, Motion, Rates, Scalar

from .arranged import Recursions, rows_in_order
from .run import run


class Same:
    """A model whose numbers are known, as a static part of what is traced: the same one, not one that is equal."""

    def __init__(self, model: Model):
        self.model = model

    def __hash__(self) -> int:
        return id(self.model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.model is self.model


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Whole(Recursions):
    """Rows in order, with the model and its configurations q, (batch, nq)."""

    q: Any = None
    traced: Any = None  # the model, where its numbers are not known
    known: Same | None = field(default=None, metadata={"static": True})

    @property
    def model(self) -> Model:
        """The tree, whose numbers are known if they can be."""
        return self.traced if self.known is None else self.known.model

    def _found(self, algorithm: Algorithm, **given: Scalar) -> dict[str, Any]:
        """Outputs, (batch, rows), from inputs by position."""
        inputs = {name: x[1:].T for name, x in given.items()}
        return run(algorithm, self.model, {"q": self.q, **inputs}, schedule="paths")

    def _by_position(self, example: Any, parts: list[Any]) -> Any:
        """Components of all positions; those of the base are zero."""
        leaves = [jnp.concatenate([jnp.zeros((1, len(x)), x.dtype), x.T]) for x in map(jnp.asarray, parts)]
        return jax.tree.unflatten(jax.tree.structure(example), leaves)

    def poses(self) -> Placement:
        """Pose of every position in the world."""
        world = self._found(ROW_POSES)["world"]
        there: Placement = self._by_position(zeros(Placement), [world[..., k] for k in range(world.shape[-1])])
        turn = there.orientation
        return there._replace(orientation=turn._replace(w=turn.w.at[0].set(1.0)))

    def velocities(self, qd: Scalar) -> Motion:
        """Spatial velocity of every position, in its own coordinates; J x for any x."""
        found = self._found(ROW_VELOCITIES, qd=qd)
        return self._by_position(zeros(Motion), [found[n] for n in VELOCITIES])

    def rates(self, qd: Any, qdd: Any, base: Rates) -> Rates:
        """Rates of every position, from (batch, nv) velocities and accelerations, where the base only accelerates."""
        found = run(ROW_RATES, self.model, {"q": self.q, "qd": qd, "qdd": qdd}, schedule="paths")
        rates: Rates = self._by_position(zeros(Rates), [found[n] for n in RATES])
        turned = self.poses().orientation.to_child(base.acceleration)
        return rates._replace(acceleration=rates.acceleration + turned)

    def transposed(self, force: Force) -> Scalar:
        """Jᵀ f: forces on the joints that forces on the rows make."""
        found = self._found(ON_JOINTS, **dict(zip(FORCES, jax.tree.leaves(force), strict=True)))
        return self._by_position(0.0, [found["felt_force"]])

    def solved(
        self, push: Scalar, resistance: Scalar, inertia: ArticulatedInertia, bias: Force
    ) -> tuple[Scalar, Motion]:
        """x and J x of a laden tree (algorithms/laden.py)."""
        found = self._found(LADEN, **inputs_of(push, resistance, inertia, bias))
        return self._by_position((0.0, zeros(Motion)), [found[n] for n in ("x", *MOVED)])


def same(model: Model) -> Same | None:
    """A model whose numbers are known, else None."""
    return Same(model) if is_known(model) else None


def whole_layout(model: Model, q: Any, known: Same | None = None) -> Whole:
    """The layout of configurations (batch, nq); `known` is the model before it was traced."""
    known = known or same(model)
    return Whole((), *rows_in_order(model.tree), "rows", q=q, traced=model if known is None else None, known=known)
