"""A program folded along a symmetry of its mechanism: two threads share a lane, one for each of two similar sides.

The slots of one side are paired with those of the other; all other slots belong to the trunk. Both threads run one
text, with the names of the first side: "left hip" is the right one for the second thread. A *folded* turn is done by
each thread for its own side. All other turns are done by both threads, which exchange the values that only one of them
has; so both know the trunk. All sums keep their order, so the bits are those of the program.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .program import Loop, Slots, numbers_of

OWN = 2  # the side of slots of which each thread has its own
ALONE = 2  # the kind of turns that are written one by one


@dataclass(frozen=True, eq=False)
class Fold:
    """For each loop the turns that remain, with the names of the first side."""

    tables: tuple[np.ndarray, ...]
    turns: tuple[np.ndarray, ...]  # (turns, 2): the turns of the program that the first and the second thread do
    sides: tuple[np.ndarray, ...]  # (turns, places): the side of each read, write, add and condition

    def asks(self, loop: Loop, k: int, turn: int) -> bool:
        """True if threads must exchange the condition of a turn of loop k."""
        return loop.when is not None and self.sides[k][turn, -1] != OWN

    def alone(self, loop: Loop, k: int, turn: int) -> bool:
        """True if a turn is written alone: threads exchange its condition, or it changes both sides of a pair."""
        changed = numbers_of((*loop.writes, *loop.adds), self.tables[k][turn : turn + 1])[0]
        return self.asks(loop, k, turn) or len(set(changed.tolist())) < len(changed)

    def kind(self, loop: Loop, k: int, turn: int) -> int:
        """The kind of a turn. Turns of one kind can share one text."""
        first, second = self.turns[k][turn]
        return ALONE if self.alone(loop, k, turn) else int(first != second)

    def share(self, loops: Sequence[Loop], tables: Sequence[np.ndarray], lines: Sequence[int]) -> float:
        """The length of its text relative to the program. It is above 1 if turns of a run must be written alone."""
        own, whole = (sum(n * len(t) for n, t in zip(lines, x, strict=True)) for x in (self.tables, tables))
        alone = [k for k, loop in enumerate(loops) for t in range(len(self.tables[k])) if self._parted(loop, k, t)]
        return (own + whole * (len(alone) > 0)) / max(whole, 1)

    def _parted(self, loop: Loop, k: int, turn: int) -> bool:
        return loop.when is not None and self.alone(loop, k, turn)


def places_of(loop: Loop) -> tuple[Slots, ...]:
    """All slots that turns of a loop name, in the order of `Fold.sides`."""
    return *loop.reads, *loop.writes, *loop.adds, *(() if loop.when is None else (loop.when,))


class Symmetry:
    """Pairs of slots. It begins with some blocks, and finds the others from pairs of turns."""

    def __init__(self, loops: Sequence[Loop], tables: Sequence[np.ndarray], slots: int, blocks: np.ndarray):
        """`blocks` (k, 3): first slots of two partner blocks (or the same slot twice), and their size."""
        self.loops, self.tables = loops, tables
        self.partner, self.side, self.known = np.arange(slots), np.full(slots, OWN), np.zeros(slots, bool)
        for a, b, size in blocks.tolist():
            self._pair(a + np.arange(size), b + np.arange(size))
        for loop in loops:
            for place in places_of(loop):
                if place.column is None:
                    self.known[place.offset : place.offset + place.count] = True
        while sum(self._learn(k) for k in range(len(loops))):  # visit all loops until none finds a new pair
            pass

    def _pair(self, first: np.ndarray, second: np.ndarray) -> bool:
        """Pair slots of the first side with those of the second; slots of the trunk with themselves."""
        new = ~(self.known[first] | self.known[second])
        if not new.any() or (self.partner[first] != second)[~new].any():
            return False
        first, second = first[new], second[new]
        self.partner[first], self.partner[second] = second, first
        self.known[first] = self.known[second] = True
        if (first != second).any():
            self.side[first], self.side[second] = 0, 1
        return True

    def _learn(self, k: int) -> bool:
        """Pair the slots of turns whose other slots are known. Returns true if it found new pairs."""
        places = [p for p in places_of(self.loops[k]) if p.column is not None]
        numbers = [numbers_of((p,), self.tables[k]) for p in places]
        known = np.array([self.known[x].all(1) for x in numbers], bool).reshape(len(places), len(self.tables[k])).T
        keys: list[tuple] = []
        images: list[tuple] = []
        for t in range(len(self.tables[k])):
            seen = [j for j in range(len(places)) if known[t, j]]
            keys.append(tuple((j, *numbers[j][t]) for j in seen))
            images.append(tuple((j, *self.partner[numbers[j][t]]) for j in seen))
        learned = False
        for t, other in _matches(keys, images):
            missing = [j for j in range(len(places)) if not known[t, j]]
            sides = {int(s) for j, *_ in keys[t] for s in self.side[numbers[j][t]]} - {OWN}
            if not missing or sides not in ({0}, set()) or (t == other) != (not sides):
                continue
            for j in missing:
                learned |= self._pair(numbers[j][t], numbers[j][other])
        return learned

    def fold(self) -> Fold | None:
        """The folded program; None if the sides do not fit into tables."""
        made = [self._fold_loop(k) for k in range(len(self.loops))]
        found = [x for x in made if x is not None]
        return Fold(*map(tuple, zip(*found, strict=True))) if len(found) == len(made) else None

    def _fold_loop(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        loop, table = self.loops[k], self.tables[k]
        places = places_of(loop)
        numbers, changed = numbers_of(places, table), numbers_of((*loop.writes, *loop.adds), table)
        keys, images = ([tuple(x) for x in y.tolist()] for y in (numbers, self.partner[numbers]))
        pairs = np.stack([np.arange(len(table))] * 2, 1)
        for t, other in _matches(keys, images):
            own = self.side[numbers[t]]
            if t != other and set(own) <= {0, OWN} and 0 in own and (self.side[changed[t]] == 0).all():
                pairs[t, 1], pairs[other, 0] = other, -1
        pairs = _ordered(numbers, changed, pairs)
        kept, sides, names = table[pairs[:, 0]].copy(), np.full((len(pairs), len(places)), OWN), {}
        for j, place in enumerate(places):
            own = numbers_of((place,), kept)
            side = self.side[own]
            name = np.where(side == 1, self.partner[own], own)
            if len(own) and ((side != side[:, :1]).any() or (name != name[:, :1] + np.arange(place.count)).any()):
                return None
            if place.column is None and (side != OWN).any():
                return None  # without a column, the table can not say which side it is
            if place.column is not None and len(own):
                base = names.setdefault(place.column, name[:, 0] - place.offset)
                if (base != name[:, 0] - place.offset).any():
                    return None
            sides[:, j] = np.where(pairs[:, 0] == pairs[:, 1], side[:, 0] if len(own) else OWN, OWN)
        for column, base in names.items():
            kept[:, column] = base
        if {x.column for x in (*loop.inputs, *loop.outputs)} & set(names):
            return None
        return kept, pairs, sides


def _ordered(seen: np.ndarray, changed: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Pairs of turns in an order that keeps all dependencies; single turns if there is no such order."""
    pair_of = np.arange(len(pairs))
    for t, (first, second) in enumerate(pairs.tolist()):
        if first == t:
            pair_of[second] = t
    needs: dict[int, set[int]] = {t: set() for t in pair_of.tolist()}
    changer: dict[int, int] = {}
    readers: dict[int, set[int]] = defaultdict(set)
    for t, own in enumerate(pair_of.tolist()):
        for i in seen[t].tolist():
            needs[own] |= {changer[i]} if i in changer else set()
            readers[i].add(own)
        for i in changed[t].tolist():
            needs[own] |= readers[i]
            changer[i], readers[i] = own, set()
        needs[own].discard(own)
    order: dict[int, None] = {}
    while len(order) < len(needs):
        ready = [t for t, before in needs.items() if t not in order and before <= order.keys()]
        if not ready:
            return np.stack([np.arange(len(pairs))] * 2, 1)
        order |= dict.fromkeys(ready)
    return pairs[list(order)]


def _matches(keys: list[tuple], images: list[tuple]) -> Iterator[tuple[int, int]]:
    """Turns, and the turns that name the partners of their slots; several of one kind are matched in order."""
    places: dict[tuple, list[int]] = defaultdict(list)
    rank: list[int] = []
    for t, key in enumerate(keys):
        rank.append(len(places[key]))
        places[key].append(t)
    for t, (key, image) in enumerate(zip(keys, images, strict=True)):
        if not key:
            continue
        if key == image:
            yield t, t
        elif len(places.get(image, ())) == len(places[key]):
            yield t, places[image][rank[t]]


def folded(loops: Sequence[Loop], tables: Sequence[np.ndarray], slots: int, blocks: np.ndarray) -> Fold | None:
    """A program folded along a symmetry of some blocks; None if there is no symmetry."""
    if not len(blocks) or (blocks[:, 0] == blocks[:, 1]).all():
        return None
    return Symmetry(loops, tables, slots, blocks).fold()
