"""A layout together with a state: the recursions over it, J x, Jᵀ f and a laden tree, which constraints need.

They are algorithms, and code that needs them by position does not depend on the way they are computed. `Placed` runs
them by XLA over any layout, for any batch. `Whole` runs them for one state of one huge tree, by native walks or blocks
(run.py): one level after the other would take as many turns as the tree has levels. Its positions are the rows in
order, after the base.
"""

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.algorithms.laden import (
    BIAS,
    FACTOR,
    FACTORS,
    INERTIA,
    LADEN,
    MOVED,
    PUSH,
    PUSHED,
    RESISTANCE,
    inputs_of,
)
from kinetree.dynamics.algorithms.poses import ROW_POSES
from kinetree.dynamics.algorithms.row_motion import FORCES, ON_JOINTS, RATES, ROW_RATES, ROW_VELOCITIES, VELOCITIES
from kinetree.dynamics.recursion import Algorithm, zeros
from kinetree.lanes.target import facts
from kinetree.model import Model, Placement
from kinetree.model.arguments import is_known
from kinetree.spatial import ArticulatedInertia, Force, Motion, Rates, Scalar
from kinetree.tree import Layout

from .arranged import Arranged, OwnMotions, rows_in_order
from .choose import Call
from .layouts import run_passes
from .run import run, way_of
from .staged import Operands, Same, operands_of, used_operands


class Recursions(Layout):
    """Recursions over a tree in a state; all data are by position, (positions, batch), those of the base are zero."""

    transposes = False  # True if JAX can transpose what is linear in them.

    @abstractmethod
    def found(self, algorithm: Algorithm, **given: Scalar) -> dict[str, Any]:
        """Outputs of the rows, from inputs of the rows."""

    def velocities(self, qd: Scalar) -> Motion:
        """Spatial velocity of every position, in its own coordinates; J x for any x."""
        return _of_names(Motion, self.found(ROW_VELOCITIES, qd=qd), VELOCITIES)

    def transposed(self, force: Force) -> Scalar:
        """Jᵀ f: joint forces from forces on the rows."""
        return self.found(ON_JOINTS, **dict(zip(FORCES, jax.tree.leaves(force), strict=True)))["felt_force"]

    def solved(
        self, push: Scalar, resistance: Scalar, inertia: ArticulatedInertia, bias: Force
    ) -> tuple[Scalar, Motion]:
        """x and J x of a laden tree (algorithms/laden.py)."""
        found = self.found(LADEN, **inputs_of(push, resistance, inertia, bias))
        return found["x"], _of_names(Motion, found, MOVED)

    def factors(self, resistance: Scalar, inertia: ArticulatedInertia) -> tuple[Scalar, ...]:
        """U and 1/d of a laden tree."""
        names = dict(zip((RESISTANCE, *INERTIA), (resistance, *jax.tree.leaves(inertia)), strict=True))
        found = self.found(FACTORS, **names)
        return tuple(found[n] for n in FACTOR)

    def pushed(self, factors: tuple[Scalar, ...], push: Scalar, bias: Force) -> tuple[Scalar, Motion]:
        """x and J x for forces, from the factors."""
        names = dict(zip((PUSH, *BIAS, *FACTOR), (push, *jax.tree.leaves(bias), *factors), strict=True))
        found = self.found(PUSHED, **names)
        return found["x"], _of_names(Motion, found, MOVED)


def _of_names(kind: type, found: dict[str, Any], names: tuple[str, ...]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(zeros(kind)), [found[n] for n in names])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Placed(Recursions):
    """A layout with arranged rows."""

    at: Any = None

    transposes = True

    @staticmethod
    def of(laid: Layout, at: Arranged) -> "Placed":
        """From both."""
        return Placed(laid.grids, laid.row_at, laid.position_of, laid.schedule, at)

    def found(self, algorithm: Algorithm, **given: Scalar) -> dict[str, Any]:
        """Outputs of the rows, from inputs of the rows."""
        return run_passes(algorithm, self, None, self.at, given)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Whole(Recursions, OwnMotions):
    """Rows in order, with the model and its configurations q, (batch, nq)."""

    q: Any = None
    traced: Any = None  # the model, if its numbers are not known
    operands: Operands | None = None  # the operands of walks, if the model is known
    known: Same | None = field(default=None, metadata={"static": True})

    @property
    def model(self) -> Model:
        """The model, with known numbers if possible."""
        return self.traced if self.known is None else self.known.model

    def _run(self, algorithm: Algorithm, **inputs: Any) -> dict[str, Any]:
        """Outputs, (batch, rows), from inputs of joints."""
        with use_operands(self.operands):
            return run(algorithm, self.model, {"q": self.q, **inputs}, schedule="paths")

    def found(self, algorithm: Algorithm, **given: Scalar) -> dict[str, Any]:
        """Outputs of the rows, from inputs of the rows."""
        found = self._run(algorithm, **{name: x[1:].T for name, x in given.items()})
        return {name: _after_base(x) for name, x in found.items()}

    def poses(self) -> Placement:
        """Pose of every position in the world."""
        world = self._run(ROW_POSES)["world"]
        parts = [_after_base(world[..., k]) for k in range(world.shape[-1])]
        there: Placement = jax.tree.unflatten(jax.tree.structure(zeros(Placement)), parts)
        turn = there.orientation
        return there._replace(orientation=turn._replace(w=turn.w.at[0].set(1.0)))

    def rates(self, qd: Any, qdd: Any, base: Rates) -> Rates:
        """Rates of every position, from (batch, nv) velocities and accelerations; the base may only accelerate."""
        found = {name: _after_base(x) for name, x in self._run(ROW_RATES, qd=qd, qdd=qdd).items()}
        rates: Rates = _of_names(Rates, found, RATES)
        turned = self.poses().orientation.to_child(base.acceleration)
        return rates._replace(acceleration=rates.acceleration + turned)


def _after_base(x: Any) -> Any:
    """(batch, rows) by position, after a zero for the base."""
    x = jnp.asarray(x)
    return jnp.concatenate([jnp.zeros((1, len(x)), x.dtype), x.T])


def known_model(model: Model) -> Same | None:
    """The model if its numbers are known, else None."""
    return Same(model) if is_known(model) else None


def use_operands(operands: Operands | None) -> AbstractContextManager[None]:
    """A context in which walks take these operands, if there are any."""
    return nullcontext() if operands is None else operands.used()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Huge:
    """A huge model with known numbers, for a traced program."""

    operands: Operands | None
    known: Same = field(metadata={"static": True})


def huge(model: Model, dtype: Any) -> Huge | None:
    """A model with known numbers, and the operands of its walks; else None."""
    known = known_model(model)
    if known is None:
        return None
    call = Call(model, 1, "traced", np.dtype(dtype), device=facts())
    staged = way_of(LADEN, call, "paths").way == "stages"
    return Huge((used_operands(model, dtype) or operands_of(model, dtype)) if staged else None, known)


def whole_layout(model: Model, q: Any, given: Huge | None = None) -> Whole:
    """The layout for configurations (batch, nq); `given` is the model before it was traced."""
    known = known_model(model) if given is None else given.known
    operands = None if given is None else given.operands
    if operands is not None and len(q) == 1:
        operands = operands.placed(q[0])
    traced = model if known is None else None
    return Whole((), *rows_in_order(model.tree), "rows", q=q, traced=traced, operands=operands, known=known)
