"""Tables of tendons: the straight lines that they are made of, and the degrees of freedom that each of them moves.

The length of a line between points on two rows depends on the rows that carry one of the two points. Rows that carry
both move the line as a whole. These rows and their signs are static.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kinetree.model import Structure
from kinetree.model.tendons import NO_WRAP, Routes


class Lines(NamedTuple):
    """Straight lines between points. If the tendon touches a wrap, the wrap's lines replace the direct line."""

    tendon: np.ndarray
    span: np.ndarray
    first: np.ndarray  # points: those of the routes, then two for each wrap
    second: np.ndarray
    wrap: np.ndarray  # NO_WRAP: always there
    touching: np.ndarray  # True: the line exists if the wrap is touched; False: if it is not


class Paths(NamedTuple):
    """All tables of the tendons of a mechanism; those of indices are of 32 bits, the same to JAX in both modes."""

    lines: Lines
    line: np.ndarray  # (entries,): each entry of a Jacobian belongs to a line,
    row: np.ndarray  # to a row,
    sign: np.ndarray  # and has a sign
    dof: np.ndarray  # (n, width): the rows that each tendon moves; `used` is False where there is none
    used: np.ndarray
    sources: np.ndarray  # (n, width, most): the entries, coefficients first, that add up to each of these
    parts: np.ndarray  # (n, most): the coefficients, lines and arcs that add up to each length

    @property
    def spatial(self) -> bool:
        """True if some tendon goes through points."""
        return bool(len(self.lines.first))


def ancestors(parent: np.ndarray, row: int) -> list[int]:
    """The row and all rows that carry it."""
    found = []
    while row >= 0:
        found.append(row)
        row = int(parent[row])
    return found


def sums(groups: list[list[int]], none: int) -> np.ndarray:
    """(groups, most): members of each group, padded with `none`. Sums by gathering, as scatters are slow on a CPU."""
    most = max(1, max(map(len, groups), default=1))
    table = np.full((len(groups), most), none, np.int32)
    for row, members in zip(table, groups, strict=True):
        row[: len(members)] = members
    return table


@lru_cache(maxsize=256)
def paths(structure: Structure, routes: Routes) -> Paths:
    """Tables of one mechanism."""
    lines = _lines(routes)
    rows = np.array([*routes.points, *(a.row for a in routes.arounds for _ in range(2))], np.int32)
    parent = np.asarray(structure.tree.parent)
    entries: list[tuple[int, int, float]] = []
    for k, (one, two) in enumerate(zip(rows[lines.first], rows[lines.second], strict=True)):
        before, after = set(ancestors(parent, int(one))), set(ancestors(parent, int(two)))
        entries += [(k, r, 1.0) for r in sorted(after - before)] + [(k, r, -1.0) for r in sorted(before - after)]
    line, row = (np.array([e[k] for e in entries], np.int32) for k in (0, 1))
    count = len(routes.fixed)
    owner = [t for t, _ in routes.fixed] + [int(lines.tendon[k]) for k in line]
    moved = [r for _, r in routes.fixed] + row.tolist()
    places: list[dict[int, list[int]]] = [{} for _ in routes.names]
    for e, (t, r) in enumerate(zip(owner, moved, strict=True)):
        places[t].setdefault(r, []).append(e)
    width = max(1, max(map(len, places), default=1))
    dof, used = np.zeros((len(places), width), np.int32), np.zeros((len(places), width), bool)
    flat: list[list[int]] = []
    for t, own in enumerate(places):
        dof[t, : len(own)], used[t, : len(own)] = sorted(own), True
        flat += [own[r] for r in sorted(own)] + [[] for _ in range(width - len(own))]
    summands: list[list[int]] = [[] for _ in routes.names]
    for e, (t, _) in enumerate(routes.fixed):
        summands[t].append(e)
    for k, t in enumerate(lines.tendon):
        summands[t].append(count + k)
    for s, span in enumerate(routes.spans):
        if span.wrap != NO_WRAP:
            summands[span.tendon].append(count + len(lines.tendon) + s)
    return Paths(
        lines,
        line,
        row,
        np.array([e[2] for e in entries]),
        dof,
        used,
        sums(flat, len(owner)).reshape(len(places), width, -1),
        sums(summands, count + len(lines.tendon) + len(routes.spans)),
    )


def _lines(routes: Routes) -> Lines:
    found: list[tuple[int, int, int, int, int, bool]] = []
    for s, (tendon, first, second, wrap) in enumerate(routes.spans):
        found.append((tendon, s, first, second, wrap, False))
        if wrap != NO_WRAP:
            touch = len(routes.points) + 2 * wrap
            found += [(tendon, s, first, touch, wrap, True), (tendon, s, touch + 1, second, wrap, True)]
    columns = np.array(found, np.int32).reshape(-1, 6)
    tendon, span, first, second, wrap, touching = columns.T
    return Lines(tendon, span, first, second, wrap, touching.astype(bool))
