"""The layout of one model in the memory of a world: first slots of rows, bodies, contacts and limits."""

from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np

from kinetree._arrays import there
from kinetree.collide import collider
from kinetree.model import Actuators, Model, Structure, World
from kinetree.model.actuators import Wiring
from kinetree.model.coupling import Coupling
from kinetree.model.world import BOTH, JointSoftness, Pair
from kinetree.tree.mirror import mirrored

from ..joint_groups import Present, present
from ..problem import equalities_of, has_contacts
from ..traced import forgotten
from .frame_plan import Frames
from .joined_plan import Joined, prefers_gradients
from .links import Links
from .loop_plan import RigidLoops
from .memory import (
    ACTS,
    ARTICULATED_BLOCK,
    BODY,
    GLOBAL,
    LIMIT,
    REPLY,
    ROW,
    SIDES,
    TOTAL,
    coupled_memory,
    kept_forces,
    point_memory,
)
from .near import placed_at
from .pair_plan import PairFacts, PairLoop, loops_of_pairs
from .string_plan import Strings
from .tables import SlotBlocks, table


class Plan:
    """Gives the tables of a model all their slots. It does not depend on numbers that may be traced."""

    actuators: Actuators | None = None  # only in plans for steps
    braking: tuple[int, ...] = ()  # actuators whose velocity terms a step takes at its end

    def __init__(self, model: Model, has: Present | None = None, implicit: bool = False):
        """`implicit`: for steps that take all dampers at their end."""
        self.implicit = implicit
        self.coupling: Coupling | None = model.coupling  # joints that follow others
        model = model.uncoupled
        self.structure: Structure = model.structure
        self.world: World = model.world or World()
        self.has = present(model) if has is None else has
        scene = self.world.scene
        self.pairs: tuple[Pair, ...] = scene.layout.pairs if scene is not None and has_contacts(model) else ()
        self.nq = int(self.structure.q_start[-1])
        self.n = self.structure.tree.n
        self.parent = np.asarray(self.structure.tree.parent, np.int64)
        equal, known = equalities_of(model), (self.structure, self.has, self.world)
        self.strings = Strings(*known, equal, self._wiring, implicit, self.braking, self.followers)
        self.frames = Frames(model, equal)
        self.rigid = RigidLoops(model)
        self._trees()
        self._blocks()

    def with_numbers_of(self, model: Model) -> Self:
        """The plan with the numbers of another model, which has the same features."""
        kept, own = copy(self), model.uncoupled
        kept.world, kept.actuators = own.world or World(), self.actuators and own.actuators
        return kept

    def forgetful(self) -> Self:
        """The plan without traced numbers, for programs that live longer than the trace."""
        kept = copy(self)
        kept.world, kept.actuators = forgotten((self.world, self.actuators))
        return kept

    @property
    def _wiring(self) -> Wiring | None:
        return None if self.actuators is None else self.actuators.wiring

    @cached_property
    def key(self) -> tuple:
        """All that the tables depend on."""
        world = self.world
        layout = None if world.scene is None else world.scene.layout
        facts = world.cone, world.disabled, world.iterations, world.safe_reference, world.noslip
        own = self.structure, self.has, layout, facts, self.implicit, self.coupling
        return *own, self.strings.key, self.frames.key, self.rigid.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Plan) and type(other) is type(self) and self.key == other.key)

    @cached_property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Entries of q, and rows, that are inputs and outputs: those that do not follow others."""
        if self.coupling is None:
            return np.arange(self.nq), np.arange(self.n)
        return self.coupling.kept_q.astype(np.int64), self.coupling.kept_v.astype(np.int64)

    @property
    def followers(self) -> list[tuple[int, int]]:
        """Pairs of a row that follows another, and the other."""
        if self.coupling is None:
            return []
        rows = np.setdiff1d(np.arange(self.n), self.coupling.kept_v)
        return [(int(i), int(self.coupling.kept_v[self.coupling.source_v[i]])) for i in rows]

    def _trees(self) -> None:
        """Find the tree of each row, and the rows on the path to each tree's reference point."""
        tree, roots = np.zeros(self.n, np.int64), 0
        for i, p in enumerate(self.parent.tolist()):
            tree[i] = tree[p] if p >= 0 else roots
            roots += p < 0
        self.tree_of_row, self.n_trees = tree, roots
        self.massive = np.array(self.has.bodies, np.int64)
        first_rows = self.structure.quaternion_joints[:, 0]
        resting = self.structure.q_of_row < 0
        resting[first_rows] = False
        self.resting = np.flatnonzero(resting)
        way: list[int] = []
        marks = []
        for t in range(roots):
            path = [int([*self.massive[tree[self.massive] == t], *np.flatnonzero(tree == t)[-1:]][0])]
            while self.parent[path[-1]] >= 0:
                path.append(int(self.parent[path[-1]]))
            path = path[::-1]
            while resting[path[-1]]:  # rows at rest have the place of the row before them
                path.pop()
            way += path
            marks.append(path[-1])
        self.way, self.marks = np.array(way, np.int64), np.array(marks, np.int64)
        first = first_rows[self.structure.quaternion_joints[:, 2] == 1].astype(np.int64)
        self.roots = first[(self.parent[first] < 0) & np.isin(first, marks)]  # of free joints

    def _blocks(self) -> None:
        """First slots of all blocks."""
        self.q = GLOBAL.size + SIDES * TOTAL.size
        self.base = SlotBlocks(self.q + self.nq, ROW.size, self.n_trees)  # the bases of trees
        self.row = SlotBlocks(self.base.end, ROW.size, self.n)
        self._body = SlotBlocks(self.row.end, BODY.size, len(self.massive))
        at = self._share_articulated(self._body.end)
        self.acts = SlotBlocks(at, ACTS.size, sum(map(self.n_points, self.pairs)))  # the stiffness of points of contact
        limit = LIMIT.size + (kept_forces(1, False) if self.world.noslip else 0)
        self.limit = SlotBlocks(self.acts.end, limit, len(self.limits) + len(self.has.loss))  # then friction losses
        self.reply = SlotBlocks(
            self.limit.end + REPLY.size * self.n_trees, REPLY.size, self.n
        )  # −1, −2, … are the bases
        at = self.reply.end if self.coupled_dims else self.limit.end
        strung, tied = self.strings.touches(), self.frames.touches()
        self.links = Links(self.parent, [*strung, *tied, *self.rigid.touches()], self.strings.place(at))
        at = self.rigid.place(self.frames.place(self.links.end, len(strung)), len(strung) + len(tied))
        self.joined = self._join()
        at = at if self.joined is None else self.joined.place_flags(at)
        at = self.more_blocks(at)
        self.points_of_pair, self._points, self.hot, at = self._place_points(at)
        self.shape_slots, self.slots = placed_at(self.pairs, at)
        if self.joined is not None:
            self.slots = self.joined.place_matrix(self.slots)

    def _join(self) -> Joined | None:
        """The matrix of several trees whose bodies touch, where there is one."""
        numbers = [k for k, p in enumerate(self.pairs) if p.moving == BOTH]
        if not numbers or len(self.links) or prefers_gradients(np.bincount(self.tree_of_row), self.coupled_dims):
            return None
        couples = zip(*(self.rows_of_pair(numbers, k).tolist() for k in (0, 1)), strict=True)
        joined = Joined(self.parent, self.tree_of_row, (self.articulated, self.merges), list(couples), self.roots)
        return joined if joined.served else None

    def more_blocks(self, at: int) -> int:
        """SlotBlocks of a larger plan, from here on. Returns their end."""
        return at

    # -- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def outward_rows(self) -> np.ndarray:
        """All rows, level by level, so that neighbouring turns rarely wait for each other's results."""
        return np.argsort(self.structure.tree.depth, kind="stable")

    def number_of_row(self, slot: Any) -> Any:
        """The rows that have these first slots."""
        return (np.asarray(slot, np.int64) - self.row.first) // ROW.size

    @cached_property
    def partner(self) -> np.ndarray:
        """The partner of each row in a similar branch, or the row itself."""
        seen: list[list[Any]] = [[] for _ in range(self.n)]
        has = self.has
        kinds = (self.resting, has.lower, has.upper, has.loss, has.balls, has.bodies, has.sliding_loss)
        for name, rows in enumerate(kinds):
            for row in rows:
                seen[row].append(name)
        static = [k for k, p in enumerate(self.pairs) if p.moving != BOTH]
        for k, row in zip(static, self.rows_of_pair(static) if static else (), strict=True):
            seen[row].append((self.kinds(self.pairs[k]), self.pairs[k].condim))
        return mirrored(self.parent, [tuple(sorted(map(str, own))) for own in seen])

    @property
    def mirror(self) -> np.ndarray:
        """Blocks that are partners: two first slots and a size, for rows and for parts of the sums."""
        first, size = np.flatnonzero(self.partner >= np.arange(self.n)), TOTAL.size
        rows = self.row(first), self.row(self.partner[first]), np.full(len(first), ROW.size)
        parts = GLOBAL.size + np.array([(0, 0, 0), (size, 2 * size, 0)])
        return np.concatenate([np.stack(rows, 1), parts + np.array([0, 0, size - GLOBAL.size])])

    def side(self, rows: Any) -> Any:
        """The side of each row: 1 and 2 for two similar branches, 0 for the trunk."""
        rows = np.asarray(rows, np.int64)
        return np.where(rows >= 0, np.sign(self.partner[rows] - rows) % SIDES, 0)

    @cached_property
    def limbs(self) -> np.ndarray:
        """First rows of similar branches on the trunk; the last one comes first."""
        rows = self.outward_rows[::-1]
        above = self.parent[rows]
        return rows[(self.side(rows) > 0) & (self.side(above) == 0) & (above >= 0)]

    def total(self, rows: Any) -> Any:
        """First slots of the part of the sums to which rows, or constraints on several rows, add."""
        sides = self.side(rows)
        if np.ndim(sides) == 2:
            one = (sides == sides[:, :1]).all(1) if sides.shape[1] else np.zeros(len(sides), bool)
            sides = np.where(one, sides[:, :1].sum(1), 0)
        return GLOBAL.size + sides * TOTAL.size

    def totals(self) -> np.ndarray:
        """All parts of the sums, in one turn. They come after the slots that all loops share."""
        return table(*(GLOBAL.size + side * TOTAL.size + np.zeros(1, np.int64) for side in range(SIDES)))

    def every_row(self) -> np.ndarray:
        """A turn for every row."""
        return table(self.row(np.arange(self.n)))

    def numbered_rows(self) -> np.ndarray:
        """A turn for every row, with its number."""
        return table(self.row(np.arange(self.n)), np.arange(self.n))

    def every_base(self) -> np.ndarray:
        """A turn for the base of every tree."""
        return table(self.base(np.arange(self.n_trees)))

    def without_bodies(self) -> np.ndarray:
        """Bases, and rows that carry no body."""
        return np.concatenate([self.every_base(), table(self.row(np.setdiff1d(np.arange(self.n), self.massive)))])

    def up(self, i: Any) -> Any:
        """First slots of the parents of rows."""
        i = np.asarray(i, np.int64)
        parent = self.parent[i]
        return np.where(parent >= 0, self.row(parent), self.base(self.tree_of_row[i]))

    def carriers(self, rows: Any) -> list[np.ndarray]:
        """First slots of rows and of the bases of their trees; of row −1 both are the first base."""
        rows = np.asarray(rows, np.int64)
        base = self.base(self.tree_of_row[np.maximum(rows, 0)])
        return [np.where(rows >= 0, self.row(rows), base), base]

    def body(self, row: Any) -> Any:
        """First slots of the bodies that rows carry."""
        return self._body(np.searchsorted(self.massive, np.asarray(row, np.int64)))

    def _share_articulated(self, at: int) -> int:
        """Place the blocks for what each row holds of the rows beyond it.

        A row without a body and with one child uses its child's block: it holds only what the child passes on.
        """
        children = np.bincount(self.parent[self.parent >= 0], minlength=self.n)
        massive = np.zeros(self.n, bool)
        massive[self.massive] = True
        self.articulated = np.zeros(self.n, np.int64)
        self.merges = np.zeros(self.n)
        own = massive | (children != 1)
        for i in range(self.n - 1, -1, -1):
            if own[i]:
                self.articulated[i], at = at, at + ARTICULATED_BLOCK.size
            if self.parent[i] >= 0:
                if own[self.parent[i]]:
                    self.merges[i] = 1.0
                else:
                    self.articulated[self.parent[i]] = self.articulated[i]
        self.empty_articulated = np.flatnonzero(own & ~massive)
        return at

    @property
    def passes_to(self) -> np.ndarray:
        """First slots of the blocks into which rows put the state for their parents."""
        return np.where(self.merges > 0, self.articulated[np.maximum(self.parent, 0)], self.articulated)

    # -- constraints --------------------------------------------------------------------------------------------------

    @cached_property
    def limits(self) -> np.ndarray:
        """(k, 2): rows and signs of all limits: 1 for a lower limit, −1 for an upper limit."""
        both = [(r, 1) for r in self.has.lower] + [(r, -1) for r in self.has.upper]
        return np.array(both, np.int64).reshape(-1, 2)

    @cached_property
    def soft_joints(self) -> JointSoftness:
        """How soft limits and friction losses of joints are."""
        return self.world.joints or JointSoftness.default(self.n)

    @property
    def loss(self) -> Any:
        """First slots of friction losses."""
        return self.limit(len(self.limits) + np.arange(len(self.has.loss)))

    def kinds(self, pair: Pair) -> tuple[str, str]:
        """Kinds of the two shapes of a pair."""
        kinds = there(self.world.scene).layout.kinds
        return kinds[pair.first], kinds[pair.second]

    @property
    def single(self) -> bool:
        """True if convex shapes get one point of contact, even where they could have several."""
        return self.world.scene is not None and self.world.scene.layout.single

    def n_points(self, pair: Pair) -> int:
        """The most points of contact of a pair."""
        return collider(self.kinds(pair), self.single).points

    def _place_points(self, at: int) -> tuple[list[np.ndarray], np.ndarray, int, int]:
        """Numbers of the points of pairs; first slots; where the cold points, of two moving bodies, begin and end."""
        counts = np.zeros(len(self.pairs), np.int64)
        for loop in self.touches:
            counts[np.array(loop.pairs)] = self.n_points(self.pairs[loop.pairs[0]])
        pair = np.repeat(np.arange(len(counts)), counts)
        first, hot = np.zeros(len(pair), np.int64), at
        for cold, memory in ((False, point_memory), (True, coupled_memory)):
            size = np.zeros(int(self.pair_facts.condim.max(initial=0)) + 1, np.int64)
            for dim in self.coupled_dims if cold else self.dims:
                size[dim] = memory(dim).size + (kept_forces(dim, True) if self.world.noslip else 0)
            own = np.flatnonzero((self.pair_facts.moving[pair] == BOTH) == cold)
            sizes = size[self.pair_facts.condim[pair[own]]]
            first[own], at = at + np.cumsum(sizes) - sizes, at + int(sizes.sum())
            hot = hot if cold else at
        return np.split(np.arange(len(pair)), np.cumsum(counts)[:-1]) if len(counts) else [], first, hot, at

    def point(self, number: Any) -> Any:
        """First slots of points of contact."""
        return self._points[np.asarray(number, np.int64)]

    @cached_property
    def pair_facts(self) -> PairFacts:
        """The pairs, as arrays."""
        return PairFacts.of(self.pairs)

    @cached_property
    def touches(self) -> list[PairLoop]:
        """The pairs, grouped by the loop that collides them."""
        return loops_of_pairs(self.pairs, self.kinds)

    def members(self, kinds: tuple[str, str], moving: int) -> tuple[int, ...]:
        """The pairs of these kinds."""
        return next((t.pairs for t in self.touches if t.kinds == kinds and t.moving == moving), ())

    @cached_property
    def dims(self) -> list[int]:
        """The different `condim` of contacts with the static world."""
        return sorted({p.condim for p in self.pairs if p.moving != BOTH})

    @cached_property
    def coupled_dims(self) -> list[int]:
        """The different `condim` of contacts between two moving bodies."""
        return sorted({p.condim for p in self.pairs if p.moving == BOTH})

    def reply_up(self, row: Any) -> Any:
        """First slots of the replies of the parents of rows."""
        row = np.asarray(row, np.int64)
        parent = self.parent[row]
        return self.reply(np.where(parent >= 0, parent, self.tree_of_row[row] - self.n_trees))

    def points_of(self, dim: int, coupled: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of all points of one `condim`, and their pairs."""
        facts = self.pair_facts
        own = np.flatnonzero((facts.condim == dim) & ((facts.moving == BOTH) == coupled))
        numbers = [self.points_of_pair[k] for k in own]
        return np.concatenate(numbers), np.repeat(own, [len(x) for x in numbers])

    def rows_of_pair(self, numbers: Any, which: int = 0) -> np.ndarray:
        """The rows that carry the first (0) or second (1) shapes of pairs; the moving shape's row if only one moves."""
        first, second, moving, _ = (x[np.asarray(numbers, np.int64)] for x in self.pair_facts)
        shape = np.where(np.where(moving == BOTH, which, moving) == 0, first, second)
        bodies = np.array(there(self.world.scene).layout.bodies, np.int64)
        return self.structure.row_of_body[bodies[shape]].astype(np.int64)

    def all_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of all points in the order of `Contacts`, and their pairs."""
        if not self.pairs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        numbers = self.points_of_pair
        return np.concatenate(numbers), np.repeat(np.arange(len(self.pairs)), [len(x) for x in numbers])
