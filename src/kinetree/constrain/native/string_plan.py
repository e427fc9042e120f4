"""Strings: lengths that depend on several joints, and their slots in the memory of a world.

Strings are tendons, joints and tendons that follow others, angles of balls, positions of free joints along the axes of
their parents, and the branches of a tendon that resist one by one (tendons.py says why). Each string has a length, and
an entry ∂length for each row that moves it. Strings that constraints or inertia act on are links.
"""

from typing import Any, NamedTuple

import numpy as np

from kinetree.dynamics.tendons.paths import paths
from kinetree.lanes import Memory
from kinetree.model import Structure, World
from kinetree.model.actuators import Wiring
from kinetree.model.equalities import Equalities

from ..joint_groups import Present, sliding_axes
from ..tendons import branches, meet
from .drive_plan import kinds_of
from .links import WIDTH, LinkTouch
from .memory import LIMIT, kept_forces
from .span_plan import Spans
from .tables import SlotBlocks, table

# `bend`: the rate of the velocity where x is zero. `drawn`, `taken`: the actuators' pull before and after bounds.
STRING = Memory(
    length=0.0, velocity=0.0, a=0.0, a_new=0.0, push=0.0, stiff=0.0, slope=0.0, bend=0.0, drawn=0.0, taken=0.0
)


class StringGroup(NamedTuple):
    """Constraints of one kind on strings: the strings, and the number of the joint, tendon or actuator behind each."""

    strings: np.ndarray
    members: np.ndarray


def _acting(found: list[tuple[int, int]]) -> StringGroup:
    return StringGroup(*np.array(found, np.int64).reshape(-1, 2).T)


class Strings:
    """The strings of a model; nothing here depends on numbers that may be traced."""

    def __init__(
        self,
        structure: Structure,
        has: Present,
        world: World,
        equal: Equalities | None,
        wiring: Wiring | None,
        implicit: bool,
        braking: tuple[int, ...],
        mimics: list[tuple[int, int]],
    ):
        """`mimics`: pairs of a row that follows another, and the other.

        `implicit`: a step takes dampers of tendons at its end, where they add to the inertia.
        """
        self._limit = LIMIT.size + (kept_forces(1, False) if world.noslip else 0)
        routes = None if world.tendons is None or not structure.tree.n else world.tendons.routes
        self.joints = None if equal is None else equal.joints
        self.tied = None if equal is None else equal.tendons
        targets = () if wiring is None else wiring.targets
        acts = has.tendon_rows or has.tendon_forces or self.tied is not None or any(t.kind == "tendon" for t in targets)
        self.paths = None if routes is None or not acts else paths(structure, routes)
        self.fixed = () if self.paths is None or routes is None else routes.fixed
        spatial = routes is not None and self.paths is not None and self.paths.spatial
        self.spans = Spans(world.tendons, self.paths) if spatial else None  # type: ignore[arg-type]
        self.rows: list[list[int]] = []
        if self.paths is not None:
            self.rows += [d[u].tolist() for d, u in zip(self.paths.dof, self.paths.used, strict=True)]
        self.n_tendons = len(self.rows)
        self._find_equalities()
        self.balls = _acting([(self._new([b, b + 1, b + 2]), b) for b in has.balls])
        self.lower = _acting([(t, t) for t in has.tendon_lower])
        self.upper = _acting([(t, t) for t in has.tendon_upper])
        slides = np.array(has.sliding_loss, np.int64)
        joints = sliding_axes(structure, slides)[0].tolist()
        self.slides = _acting([(self._new(three), r) for three, r in zip(joints, slides.tolist(), strict=True)])
        rubbed = [(t, t) for t in has.tendon_loss]
        self.losses = _acting([*rubbed, *zip(*(x.tolist() for x in self.slides), strict=True)])
        self._find_motors(structure, wiring)
        pulled = {targets[k].first for k in braking if targets[k].kind == "tendon"}
        dampers = {*has.tendon_damping, *pulled} if implicit else set()
        self._find_branches(structure, {*has.tendon_armature, *dampers})
        self._find_brakes(targets, braking)
        self.mimics = _acting([(self._new([a, b]), a) for a, b in mimics])
        kinds = (self.follows, self.ties, self.balls, self.lower, self.upper, self.losses, self.resists, self.brakes)
        kinds = (*kinds, self.mimics)
        self.linked = np.unique(np.concatenate([k.strings for k in kinds]))

    def _new(self, rows: list[int]) -> int:
        self.rows.append(rows)
        return len(self.rows) - 1

    def _find_equalities(self) -> None:
        """Joints and tendons that follow others, or are held at a number. Pairs are new strings."""
        follows = [] if self.joints is None else list(zip(self.joints.rows1, self.joints.rows2, strict=True))
        self.follows = _acting([(self._new([a, a if b < 0 else b]), e) for e, (a, b) in enumerate(follows)])
        ties = [] if self.tied is None else list(zip(self.tied.tendons1, self.tied.tendons2, strict=True))
        own = [a if b < 0 else self._new([*self.rows[a], *self.rows[b]]) for a, b in ties]
        self.ties = _acting([(s, e) for e, s in enumerate(own)])
        self.pairs = _acting([(s, e) for e, s in enumerate(own) if ties[e][1] >= 0])

    def _find_motors(self, structure: Structure, wiring: Wiring | None) -> None:
        """Strings of actuators: tendons, and the motions of ball and free joints along the actuators' gears."""
        self.motors = self.turned = _acting([])
        if wiring is None:
            return
        found, turned = [], []
        for k, (kind, t) in enumerate(zip(kinds_of(structure, wiring), wiring.targets, strict=True)):
            if kind != "string":
                continue
            if t.kind == "joint":
                found.append((self._new(list(range(*structure.v_start[t.first : t.first + 2].tolist()))), k))
                turned.append(found[-1])
            else:
                found.append((t.first, k))
        self.motors, self.turned = _acting(found), _acting(turned)

    def _find_brakes(self, targets: Any, braking: tuple[int, ...]) -> None:
        """Strings on which actuators brake: those of balls, and the branches of tendons."""
        own = dict(zip(self.turned.members.tolist(), self.turned.strings.tolist(), strict=True))
        found = [(own[k], k) for k in braking if k in own]
        for k in braking:
            if targets[k].kind == "tendon":
                found += [(int(s), k) for s, t in zip(*self.resists, strict=True) if t == targets[k].first]
        self.brakes = _acting(found)

    def _find_branches(self, structure: Structure, resisting: set[int]) -> None:
        """Branches of tendons that resist acceleration. A tendon without branches is its own branch."""
        found: list[tuple[int, int]] = []
        self.forked = False  # True if branches of one tendon meet in a row that also moves it
        if resisting and self.paths is not None:
            numbers, masks = branches(structure.tree, self.paths, np.array(sorted(resisting)))
            for t, mask in zip(numbers.tolist(), masks, strict=True):
                rows = self.paths.dof[t][(mask > 0) & self.paths.used[t]]
                own = rows.tolist()
                found.append((t if own == self.rows[t] else self._new(own), t))
                self.forked |= meet(structure.tree, rows)
        self.resists = _acting(found)
        self.parts = _acting([(s, t) for s, t in found if s != t])

    @property
    def resisting(self) -> np.ndarray:
        """Strings whose inertia resists, or dampers or actuators at the end of a step."""
        return np.union1d(self.resists.strings, self.brakes.strings).astype(np.int64)

    @property
    def key(self) -> tuple:
        """Everything that the tables depend on, apart from the structure and the present features."""
        joints = () if self.joints is None else (self.joints.rows1, self.joints.rows2)
        tied = () if self.tied is None else (self.tied.tendons1, self.tied.tendons2)
        routes = None if self.spans is None else (self.spans.routes, tuple(self.spans.wraps))
        return joints, tied, self.fixed, routes, tuple(map(tuple, self.rows)), tuple(self.linked.tolist())

    def touches(self) -> list[LinkTouch]:
        """The rows of the links of strings."""
        filled = -len(self.linked) % WIDTH
        rigid = set(self.mimics.strings.tolist())
        return [*(LinkTouch((), tuple(self.rows[s]), s in rigid) for s in self.linked), *filled * [LinkTouch(())]]

    # -- slots --------------------------------------------------------------------------------------------------------

    def place(self, at: int) -> int:
        """Place all slots from here on. Returns the end."""
        self.string = SlotBlocks(at, STRING.size, len(self.rows))
        sizes = [len(r) for r in self.rows]
        self._entries = self.string.end + np.cumsum([0, *sizes])
        counts = [len(k.strings) for k in (self.lower, self.upper, self.balls, self.losses, self.follows, self.ties)]
        self.constraint = SlotBlocks(int(self._entries[-1]), self._limit, sum(counts))  # limits, losses, equalities
        return self.constraint.end if self.spans is None else self.spans.place(self.constraint.end)

    def entry(self, string: Any, number: Any = 0) -> Any:
        """Slots of entries, by their order among the rows of a string."""
        return self._entries[np.asarray(string, np.int64)] + np.asarray(number, np.int64)

    # -- tables -------------------------------------------------------------------------------------------------------

    def every(self, which: np.ndarray | None = None) -> np.ndarray:
        """Strings, all or some."""
        return table(self.string(np.arange(len(self.rows)) if which is None else which))

    def entries(self, row: Any, which: np.ndarray | None = None) -> np.ndarray:
        """Strings, entries, rows; of all strings, or some."""
        own = range(len(self.rows)) if which is None else which.tolist()
        found = [(s, self.entry(s, j), r) for s in own for j, r in enumerate(self.rows[s])]
        strings, entries, rows = np.array(found, np.int64).reshape(-1, 3).T
        return table(self.string(strings), entries, row(rows))

    @property
    def limits(self) -> tuple[StringGroup, np.ndarray]:
        """All limits, and their signs: of tendons, then of balls, which are lower ones."""
        kinds = (self.lower, self.upper, self.balls)
        signs = [np.full(len(k.strings), s) for k, s in zip(kinds, (1.0, -1.0, 1.0), strict=True)]
        return StringGroup(*(np.concatenate(x) for x in zip(*kinds, strict=True))), np.concatenate(signs)

    def constrained(self, kind: str) -> np.ndarray:
        """Strings and constraints of one kind: "limits", "losses" or "holds"."""
        strings = {
            "limits": self.limits[0].strings,
            "losses": self.losses.strings,
            "holds": np.concatenate([self.follows.strings, self.ties.strings]),
        }
        first = {"limits": 0, "losses": len(strings["limits"])}
        first["holds"] = first["losses"] + len(strings["losses"])
        own = strings[kind]
        return table(self.string(own), self.constraint(first[kind] + np.arange(len(own))))
