"""Similar branches of a tree: the two legs of a humanoid, two legs of a dog, two robots of a pile."""

from collections.abc import Hashable, Sequence

import numpy as np


def mirrored(parent: np.ndarray, labels: Sequence[Hashable]) -> np.ndarray:
    """The partner of every node; the node itself if it has none.

    Branches with the same shape and labels that hang from one node, or from none, are partners, two by two. Parents
    come before their children.
    """
    n = len(parent)
    children: list[list[int]] = [[] for _ in range(n + 1)]  # those of the base come last
    for i, p in enumerate(parent.tolist()):
        children[p].append(i)
    kinds: dict[Hashable, int] = {}
    kind = [0] * n
    for i in range(n - 1, -1, -1):
        shape = labels[i], tuple(sorted(kind[c] for c in children[i]))
        kind[i] = kinds.setdefault(shape, len(kinds))
    partner = np.arange(n)
    stack = [(-1, -1)]
    while stack:
        a, b = stack.pop()
        if a != b:
            partner[a], partner[b] = b, a
            ours, theirs = (sorted(children[x], key=lambda c: (kind[c], c)) for x in (a, b))
            stack += zip(ours, theirs, strict=True)
            continue
        alone: dict[int, int] = {}
        for c in children[a]:
            other = alone.pop(kind[c], None)
            if other is None:
                alone[kind[c]] = c
            else:
                stack.append((other, c))
        stack += ((c, c) for c in alone.values())
    return partner
