"""The tree with constraints in it: A x = (M + JᵀCJ) x = b + Jᵀg, by the laden articulated-body algorithm.

A contact adds a 6 by 6 matrix to its body's inertia and a force to its bias; limits and friction loss add to a joint's
own resistance and force. There are no velocity terms: x is what J acts on. The recursions are those of
dynamics/algorithms/laden.py, over any layout.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from kinetree.dynamics.schedules.whole import Recursions
from kinetree.spatial import Force, Motion, Scalar

from .groups import Load


class Answer(NamedTuple):
    """The rows' motion for the new x, and their shares of two norms."""

    a: Motion
    x: Scalar
    dx: Scalar
    change_squared: Scalar  # the shares of Δxᵀ A Δx
    squared: Scalar  # and of xᵀ A x
    multipliers: Scalar | None = None  # of the whole: the forces λ of rigid loops, (m, batch)


class Reply(NamedTuple):
    """The rows' motion, and their joints' own part of it, under forces alone."""

    a: Motion
    x: Scalar
    squared: Scalar  # the rows' shares of xᵀ A x


@dataclass(frozen=True)
class TreeInverse:
    """A⁻¹ of a tree under a load: by two passes, or by the factors of A, if they are kept for many answers."""

    laid: Recursions
    load: Load
    factors: tuple[Scalar, ...] | None = None

    def kept(self) -> "TreeInverse":
        """With its factors, for many answers."""
        return replace(self, factors=self.laid.factors(self.load.resistance, self.load.body.inertia))

    def solved(self, force: Scalar, bias: Force) -> tuple[Scalar, Motion]:
        """x and the rows' motion under these forces alone."""
        if self.factors is not None:
            return self.laid.pushed(self.factors, force, bias)
        return self.laid.solved(force, self.load.resistance, self.load.body.inertia, bias)

    def _shares(self, x: Scalar, a: Motion) -> Scalar:
        """The shares of xᵀ A x, row by row."""
        return a.dot(self.load.body.inertia @ a) + self.load.resistance * x * x

    def answer(self, old: Scalar) -> Answer:
        """x of every position, under the load; Δx is measured from `old`."""
        return self._answered(old, *self.solved(self.load.force, self.load.body.bias))

    def _answered(self, old: Scalar, x: Scalar, a: Motion) -> Answer:
        dx = x - old
        change = a - self.laid.velocities(old)
        return Answer(a, x, dx, self._shares(dx, change), self._shares(x, a))

    def first(self, old: Scalar, force: Scalar, bias: Force) -> Answer:
        """The answer to the load and these forces."""
        return self._answered(old, *self.solved(self.load.force + force, self.load.body.bias + bias))

    def reply(self, force: Scalar, bias: Force, share: Scalar | float = 0.0) -> Reply:
        """A⁻¹ of these forces and a share of the load."""
        own = self.load.body.bias * share
        x, a = self.solved(force + share * self.load.force, bias + own)
        return Reply(a, x, self._shares(x, a))


def times(laid: Recursions, load: Load, x: Scalar) -> Scalar:
    """A x, by position."""
    return laid.transposed(load.body.inertia @ laid.velocities(x)) + load.resistance * x
