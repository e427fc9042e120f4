"""Arithmetic on a million bodies, piece by piece, so that the numbers of a piece stay in a core's cache.

Operations on whole arrays go to memory and back, and each result gets new pages from the system. That takes five times
as long.
"""

from collections.abc import Callable

import numpy as np

PIECE = 8192  # bodies; some 40 arrays of this length fit the cache of a core


def in_pieces(function: Callable[[slice], tuple[np.ndarray, ...]], n: int) -> tuple[np.ndarray, ...]:
    """Arrays over all n bodies, or rows, from a function that computes those of a slice of them.

    `function` returns arrays whose last axis is that of the slice. An empty slice must be good for it, too.
    """
    found = function(slice(0, min(n, PIECE)))
    if n <= PIECE:
        return tuple(map(np.asarray, found))
    whole = tuple(np.empty((*x.shape[:-1], n), x.dtype) for x in found)
    for start in range(0, n, PIECE):
        piece = slice(start, min(start + PIECE, n))
        for target, part in zip(whole, found if start == 0 else function(piece), strict=True):
            target[..., piece] = part
    return whole
