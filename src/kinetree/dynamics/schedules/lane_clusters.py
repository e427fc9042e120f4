"""The articulated-body algorithm in lanes, for mechanisms whose joints follow others (algorithms/aba_clusters.py).

Rows that share a coordinate must hang together from one row, and carry no other cluster, as in the fingers of most
hands. On the way in the order is: rows that carry no cluster, rows of clusters, the clusters themselves, all other
rows. On the way out it is reversed. The coordinate of a cluster has its own slots, after those of the rows.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import NOTHING, NUMBER, Lane, Loop, Memory, Slots
from kinetree.lanes.kept.once import once
from kinetree.model import Model

from ..algorithms.aba_clusters import Pending, cluster_body, member_acceleration, member_body
from ..closed_form.shape import Skeleton
from ..recursion import AT, Algorithm, Inward, Pass, Row, zeros
from .lane_algorithm import LaneAlgorithm, Shapes
from .lane_coupling import CoupledLanes, coupling_of
from .lane_rows import OWN, PARENT, STRETCH, RowPart, Traits, Turns, V, kind_of, row_turns
from .lane_visits import Visits
from .lanes import Variant, Writer

PENDING = jax.tree.structure(zeros(Pending))
BODY, WAITS, ADDS, CLUSTER = range(4, 8)  # columns for members: places of the body and of the coordinate y


class Followers(NamedTuple):
    """Which row follows which."""

    members: np.ndarray  # rows that share a coordinate
    number: np.ndarray  # the cluster of each
    inside: np.ndarray  # True for members whose parent is a member, too
    parent: np.ndarray  # of each cluster: the row that it hangs from
    leader: np.ndarray  # of each cluster: the row that has the coordinate
    carries: np.ndarray  # (rows,): True if a cluster hangs from the row, or from one that it carries

    @property
    def others(self) -> np.ndarray:
        """(rows,): True for rows that neither belong to a cluster nor carry one."""
        found = ~self.carries
        found[self.members] = False
        return found


@lru_cache(maxsize=64)
def clusters_of(shape: Skeleton) -> Followers | None:
    """The clusters of a mechanism, or None if rows that share a coordinate do not hang together."""
    coupling, tree = coupling_of(shape), shape.structure.tree
    source = coupling.source_v
    shared = np.bincount(source, minlength=coupling.nv) > 1
    members = np.flatnonzero(shared[source])
    above = tree.parent[members]
    inside = (above >= 0) & (source[above] == source[members])
    number = np.cumsum(shared)[source[members]] - 1
    parent = np.full(np.count_nonzero(shared), -1)
    parent[number[~inside]] = above[~inside]
    before = np.concatenate([[0], np.cumsum(np.bincount(parent[parent >= 0], minlength=tree.n)[tree.preorder])])
    first = tree.preorder_index
    carries = before[first + tree.subtree_size] > before[first]
    if carries[members].any() or (parent[number] != above)[~inside].any():
        return None
    return Followers(members, number, inside, parent, coupling.kept_v[shared], carries)


class ClusterWriter(Writer):
    """Writes the parts of the program, whose turns are those of a `Skeleton`."""

    def __init__(self, algorithm: Algorithm, variant: Variant):
        super().__init__(algorithm, variant)
        fields = algorithm.fields
        self.body = jax.tree.structure(fields["body"])
        self.waiting = Memory(pending=zeros(Pending), body=fields["body"], joint=fields["joint"], rate=0.0)

    def parts(self) -> list[RowPart]:
        """All loops, in order."""
        return [part if part.of_coupling else _of_structure(part) for part in super().parts()]

    def over_rows(self, p: Pass) -> list[RowPart]:
        """The loops of a pass, in the order that clusters need."""
        parts = super().over_rows(p)
        if p.places:
            return parts
        rows, roots = (parts[0], parts[1:]) if isinstance(p, Inward) else (parts[-1], parts[:-1])
        others, carrying = (_of_some(rows, choose) for choose in (lambda c: c.others, lambda c: c.carries))
        if isinstance(p, Inward):
            return [*self.nothing_waits(), others, self.members_in(p), self.clusters_in(), carrying, *roots]
        return [*roots, carrying, self.clusters_out(), self.members_out(p), others]

    # -- slots --------------------------------------------------------------------------------------------------------

    def waits_at(self, shape: Skeleton, members: Any) -> Any:
        """For each member, the slot of its cluster's coordinate."""
        return self.memory.size * (shape.rows + 1) + PENDING.num_leaves * members

    def cluster_at(self, shape: Skeleton, clusters: Any) -> Any:
        """The first slot of each cluster."""
        return self.waits_at(shape, len(_known(shape).members)) + self.waiting.size * clusters

    def slots(self, shape: Skeleton) -> int:
        """How many slots a lane has."""
        return int(self.cluster_at(shape, len(_known(shape).parent)))

    def member_turns(self, inward: bool) -> Callable[[Skeleton], Turns]:
        """Turns over the members."""

        def turns(shape: Skeleton) -> Turns:
            found = _known(shape)
            member = np.arange(len(found.members))
            place = np.full(shape.rows, -1)
            place[found.members] = member
            above = shape.structure.tree.parent[found.members]
            cluster = self.cluster_at(shape, found.number)
            body = np.where(found.inside, self.memory.base(above), cluster) + np.where(
                found.inside, self.fields.at(0, "body")[0].offset, self.waiting.at(0, "body").offset
            )
            adds = np.where(found.inside, self.waits_at(shape, place[above]), cluster)  # `pending` comes first
            table, rows = row_turns(self.memory, choose=lambda _: found.members)(shape.structure)
            table = np.column_stack([table, body, self.waits_at(shape, member), adds, cluster])
            return (table[::-1], rows[::-1]) if inward else (table, rows)

        return turns

    def cluster_turns(self, shape: Skeleton) -> Turns:
        """Turns over the clusters."""
        found = _known(shape)
        own = self.cluster_at(shape, np.arange(len(found.parent)))
        return np.stack([self.memory.base(found.parent), own, found.leader, 0 * own], -1), found.leader

    # -- loops --------------------------------------------------------------------------------------------------------

    def nothing_waits(self) -> list[RowPart]:
        """Write zeros to all slots that turns add to."""
        waits, body = Slots(0, 0, PENDING), Slots(1, 0, self.body)

        def zero(slots: Slots) -> Any:
            return jax.tree.unflatten(slots.tree, slots.count * [0.0])

        def turns(shape: Skeleton) -> np.ndarray:
            return self.waits_at(shape, np.arange(len(_known(shape).members)))[:, None]

        def cluster_turns(shape: Skeleton) -> np.ndarray:
            first = self.cluster_at(shape, np.arange(len(_known(shape).parent)))
            return np.stack([first, first + self.waiting.at(0, "body").offset], -1)

        member = Loop(lambda _, __, ___: ((zero(waits),), (), ()), 1, NOTHING, writes=(waits,))
        both = (waits, body)
        cluster = Loop(lambda _, __, ___: (tuple(map(zero, both)), (), ()), 2, NOTHING, writes=both)
        return [RowPart(member, turns, of_coupling=True), RowPart(cluster, cluster_turns, of_coupling=True)]

    def members_in(self, p: Pass) -> RowPart:
        """Bodies of the members, added to their parents or to their cluster."""
        resting = replace(self.algorithm, resting=(*self.algorithm.resting, "tau"))
        visits = Visits(resting, self.variant.kind, replace(p, visit=member_body), shifts=False)
        own = ("body", AT, "v", *((STRETCH,) if visits.sprung else ()))

        def step(known: tuple, inputs: tuple, reads: tuple) -> tuple:
            row, whole, pending = self.member(known, visits, inputs, own, reads)
            new, _ = visits(Row({**row, **visits.at_rest(pending)}), (whole, pending))
            return (), new, ()

        loop = Loop(
            step,
            8,
            self.member_structure(visits),
            reads=(*self.fields.at(OWN, *own), Slots(WAITS, 0, PENDING)),
            adds=(Slots(BODY, 0, self.body), Slots(ADDS, 0, PENDING)),
            inputs=self.member_inputs(visits),
        )
        return RowPart(loop, self.member_turns(inward=True), self.member_constants(visits), of_coupling=True)

    def members_out(self, p: Pass) -> RowPart:
        """Accelerations of the members."""
        visits = Visits(self.algorithm, self.variant.kind, replace(p, visit=member_acceleration, outputs=()), False)
        own = ("a", AT, "v")

        def step(known: tuple, inputs: tuple, reads: tuple) -> tuple:
            row, parent, row["rate"] = self.member(known, visits, inputs, own, reads)
            return (visits(row, parent)[0],), (), ()

        loop = Loop(
            step,
            8,
            self.member_structure(visits),
            reads=(*self.fields.at(PARENT, "a"), *self.fields.at(OWN, AT, "v"), self.waiting.at(CLUSTER, "rate")),
            writes=self.fields.at(OWN, "a"),
            inputs=self.member_inputs(visits),
        )
        return RowPart(loop, self.member_turns(inward=False), self.member_constants(visits), of_coupling=True)

    def clusters_in(self) -> RowPart:
        """The effect of clusters on the rows that carry them."""

        def step(_: tuple, tau: tuple, reads: tuple) -> tuple:
            passed, joint = cluster_body(*tau, *reads)
            return (joint,), self.fields.spread(("body",), {"body": passed}), ()

        at = self.waiting.at
        loop = Loop(
            step,
            4,
            NOTHING,
            reads=(at(OWN, "body"), at(OWN, "pending")),
            writes=(at(OWN, "joint"),),
            adds=self.fields.at(PARENT, "body"),
            inputs=(Lane(self.algorithm.inputs.index("tau"), V),),
        )
        return RowPart(loop, self.cluster_turns, of_coupling=True)

    def clusters_out(self) -> RowPart:
        """The acceleration of the coordinate of each cluster."""

        def step(_: tuple, __: tuple, reads: tuple) -> tuple:
            a, joint = reads
            rate = joint.rate(a)
            return (rate,), (), (rate,)

        reads = (*self.fields.at(PARENT, "a"), self.waiting.at(OWN, "joint"))
        loop = Loop(step, 4, NOTHING, reads=reads, writes=(self.waiting.at(OWN, "rate"),), outputs=(Lane(0, V),))
        return RowPart(loop, self.cluster_turns, of_coupling=True)

    # -- members ------------------------------------------------------------------------------------------------------

    def member(self, known: tuple, visits: Visits, inputs: tuple, own: tuple[str, ...], reads: tuple) -> tuple:
        """A member as a row, its state, and the values of its cluster."""
        link, ratio = known
        slots = list(reads)
        found = self.fields.taken(own, slots)
        row = Row({**self.links.known(link), **dict(zip(visits.given, inputs, strict=True)), **found, "ratio": ratio})
        return row, row.pop(own[0]), *slots

    def member_inputs(self, visits: Visits) -> tuple[Lane, ...]:
        """Where a member's inputs are."""
        return tuple(Lane(self.algorithm.inputs.index(n), V) for n in visits.given)

    def member_structure(self, visits: Visits) -> Any:
        """The treedef of a member's constants."""
        return jax.tree_util.treedef_tuple((self.links.parts_structure(_link(visits)), NUMBER))

    def member_constants(self, visits: Visits) -> Callable[[Model, np.ndarray], tuple]:
        """Constants of its link, and its ratio."""
        of_link = self.links.parts_constants(_link(visits))
        return lambda model, rows: (of_link(model, rows), coupling_of(model).ratio_v[rows])


def _link(visits: Visits) -> tuple[str, ...]:
    return tuple(dict.fromkeys(visits.link))


def _known(shape: Skeleton) -> Followers:
    found = clusters_of(shape)
    assert found is not None
    return found


def _of_structure(part: RowPart) -> RowPart:
    return part._replace(turns=lambda shape: part.turns(shape.structure))


def _of_some(part: RowPart, choose: Callable[[Followers], np.ndarray]) -> RowPart:
    """The turns of some rows."""

    def turns(shape: Skeleton) -> Turns:
        table, rows = part.turns(shape.structure)
        chosen = choose(_known(shape))[rows]
        return table[chosen], rows[chosen]

    return part._replace(turns=turns, of_coupling=True)


class ClusterLanes(CoupledLanes):
    """q, qd, tau and perhaps forces on bodies to qdd."""

    def __init__(self, free: LaneAlgorithm):
        super().__init__(free)
        assert free.slots is not None
        self.slots = free.slots

    def forms(self, shape: Skeleton) -> Shapes:
        """The shape of accelerations."""
        return ((shape.size,),)

    def tables(self, shape: Skeleton, *about: int) -> list[Any]:
        """Tables of all loops; results go to the columns of the remaining coordinates."""
        source, turns = coupling_of(shape).source_v, self.widened_turns(shape)
        for plan, (table, _) in zip(self.loops, turns, strict=True):
            if plan.loop.outputs:
                table[:, V] = source[table[:, V]]
        return turns


@once
def cluster_program(algorithm: Algorithm, kind: Traits, external: bool) -> ClusterLanes:
    """The program for mechanisms of a kind, with or without forces on bodies."""
    writer = ClusterWriter(algorithm, Variant(kind, external))
    marks = [k for k, on in (*kind._asdict().items(), ("external", external)) if on]
    free = LaneAlgorithm(
        "_".join([algorithm.name, "clusters", *marks]),
        writer.parts(),
        writer.memory,
        ("q", "v", "v", *(("f_ext",) * external)),
        ((lambda shape: shape.rows,),),
        shape=Skeleton.of,
        slots=writer.slots,
    )
    return ClusterLanes(free)


def cluster_lanes(algorithm: Algorithm, model: Model, external: bool = False) -> ClusterLanes | None:
    """The program of the articulated-body algorithm for a coupled mechanism; None if there is none."""
    if clusters_of(Skeleton.of(model)) is None:
        return None
    return cluster_program(algorithm, kind_of(model), external)
