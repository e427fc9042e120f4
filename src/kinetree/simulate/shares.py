"""Runs shared by several processes: each has a range of the worlds, and its own checkpoint for that range.

The files of a run lie side by side, named by their worlds. A process that continues a run takes, for each of its
worlds, the file with the most steps, from any process. So a run may go on with another number of processes, also if
some were killed earlier than others. Worlds are independent, so this does not change the result.
"""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.model.required import is_whole

from .checkpoint import Checkpoint, Progress

Share = str | tuple[int, int]


class Worlds(NamedTuple):
    """Worlds first to last − 1 of a run, and how far they have come: None if they have not begun."""

    first: int
    last: int
    progress: Progress | None = None


def worlds_of(share: Share, count: int) -> Worlds:
    """The worlds of one share: (number, shares), or "process" for this process among those of `jax.distributed`."""
    if share == "process":
        share = jax.process_index(), jax.process_count()
    pair = isinstance(share, tuple | list) and len(share) == 2 and all(map(is_whole, share))
    if not (pair and 0 <= share[0] < share[1]):  # type: ignore[operator]
        raise ValueError(f'share must be "process" or (number, shares), with 0 <= number < shares, not {share!r}')
    number, shares = map(int, share)
    if shares > count:
        raise ValueError(f"{count} worlds can not be shared by {shares} processes")
    return Worlds(number * count // shares, (number + 1) * count // shares)


def file_of(path: str | os.PathLike[str], worlds: Worlds) -> Path:
    """The checkpoint of a range of worlds."""
    target = Path(path)
    return target.with_name(f"{target.name}.{worlds.first}-{worlds.last}")


def _files(path: str | os.PathLike[str]) -> Iterator[tuple[Path, Worlds]]:
    target = Path(path)
    named = re.compile(re.escape(target.name) + r"\.(\d+)-(\d+)")
    for file in sorted(target.parent.glob(f"{target.name}.*-*")):
        if found := named.fullmatch(file.name):
            yield file, Worlds(int(found[1]), int(found[2]))


def standing(path: str | os.PathLike[str], identity: Any, mine: Worlds) -> list[Worlds]:
    """How far the worlds of a share have come: ranges in order, each as far as its worlds have come together."""
    found = []
    for file, held in _files(path):
        if held.first < mine.last and held.last > mine.first:
            progress = Checkpoint(file, identity, 0.0, owner=False).read()
            if progress is not None:
                found.append(held._replace(progress=progress))
    best = np.full(mine.last - mine.first, -1)
    steps = np.array([w.progress.steps if w.progress else 0 for w in found])
    for k in np.argsort(steps, kind="stable"):  # those that came furthest are written last
        best[max(0, found[k].first - mine.first) : max(0, found[k].last - mine.first)] = k
    bounds = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist(), len(best)]
    pieces = [
        _cut(found[best[a]] if best[a] >= 0 else None, mine.first + a, mine.first + b) for a, b in pairwise(bounds)
    ]
    return _joined(pieces)


def _cut(held: Worlds | None, first: int, last: int) -> Worlds:
    if held is None or held.progress is None:
        return Worlds(first, last)
    inside = slice(first - held.first, last - held.first)
    p = held.progress
    records = {name: [x[:, inside] for x in parts] for name, parts in p.records.items()}
    return Worlds(first, last, Progress(p.steps, jax.tree.map(lambda x: x[inside], p.state), records))


def _joined(pieces: list[Worlds]) -> list[Worlds]:
    """Neighbours that have come equally far, as one."""
    done: list[Worlds] = []
    for piece in pieces:
        before, now = (done[-1].progress if done else None), piece.progress
        if not done or before is None or now is None or before.steps != now.steps:
            done.append(piece)
            continue
        state = jax.tree.map(lambda *x: np.concatenate(x), before.state, now.state)
        whole = {
            n: [np.concatenate([np.concatenate(before.records[n]), np.concatenate(now.records[n])], 1)]
            for n in now.records
        }
        done[-1] = Worlds(done[-1].first, piece.last, Progress(now.steps, state, whole))
    return done


def tidy(path: str | os.PathLike[str], mine: Worlds) -> None:
    """Remove the files of ranges within `mine`, which has a file of its own."""
    for file, held in _files(path):
        if mine.first <= held.first and held.last <= mine.last and held[:2] != mine[:2]:
            file.unlink(missing_ok=True)
