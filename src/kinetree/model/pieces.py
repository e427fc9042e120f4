"""A tree that is too large for one model: smaller models that hang from one another, each made when needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .errors import ModelError
from .model import Model


@dataclass(frozen=True)
class Pieces:
    """A tree in pieces, for `kinetree.shard_tree`.

    Arguments:
        make: the model of piece k. It is called more than once for a piece, and must give the same each time.
        parent: for each piece, the piece that it hangs from, with parent[k] < k, or −1 for the base.
        tail: for each piece, the body from which others hang; the last one if not given.

    Coordinates, velocities and forces of the whole are those of the pieces, one after the other.

        # a chain of ten million bodies in 16 pieces
        pieces = kt.chain_pieces(10_000_000, 16, skew=0.3)
    """

    make: Callable[[int], Model]
    parent: Sequence[int]
    tail: Sequence[int] | None = None

    def __post_init__(self) -> None:
        parent = np.asarray(self.parent)
        if parent.ndim != 1 or not len(parent) or ((parent < -1) | (parent >= np.arange(len(parent)))).any():
            raise ModelError("parent must give each piece an earlier piece, or −1 for the base")
        if self.tail is not None and len(self.tail) != len(parent):
            raise ModelError(f"tail must name a body of each of the {len(parent)} pieces")
