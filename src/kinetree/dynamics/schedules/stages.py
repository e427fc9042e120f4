"""Native walks from passes: one state of one huge tree, chunks of long paths and rows of levels side by side.

Every pass becomes walks over the stages of a tree (tree/stages.py). Chunks of a path are first reduced, each to one
element of the pass's stretch. Prefixes of the elements find what enters each chunk. Then all chunks are walked. Fields
that a pass leaves for later ones are in cells, beside the constants of the rows. A row's own share of an inward pass is
kept there only if the fields that it is made of are not kept anyway.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.joint_terms import (
    FELT,
    JOINT_QUANTITIES,
    LOAD,
    inputs_of_rows,
    joint_acceleration,
    joint_force,
)
from kinetree.dynamics.recursion import AT, Algorithm, Base, Bodies, Inward, Outward, Pass, Row, Stretch, Total
from kinetree.lanes import NOTHING
from kinetree.lanes.kept.once import once
from kinetree.lanes.walks.prefix import Prefix, prefix_walks
from kinetree.lanes.walks.walk import Resident, Walk
from kinetree.model import Model, place
from kinetree.spatial import Vec3
from kinetree.tree import pick
from kinetree.tree.stages import Stages

from .lane_rows import HINGE, PLACEMENT, ROWS
from .stage_passes import InwardWalks, OutwardWalks, SharedPorts, inward_pass, new_state, outward_pass, results_by_row

structure, tree_map = jax.tree.structure, jax.tree.map
COUNT = ROWS.num_leaves  # constants of a row, in the order of `Rows`
CONSTANT = jax.tree.unflatten(ROWS, range(COUNT))
OWN = "own"  # the row's own share, if it is kept
JOINING = "joining"  # the state that branches pass to a row
SHIFT = "shift"  # the acceleration of a joint minus that of its row


def numbered(examples: dict[str, Any]) -> dict[str, Any]:
    """Places of some fields in an array that holds them one after the other."""
    return dict(jax.tree.unflatten(structure(Row(examples)), range(structure(Row(examples)).num_leaves)))


def element_structure(stretch: Stretch | None) -> Any:
    """The treedef of an element of a stretch."""
    assert stretch is not None
    return structure(jax.eval_shape(stretch.identity, jax.ShapeDtypeStruct((), jnp.float32)))


class CellPlan(NamedTuple):
    """Which fields the cells hold after each pass."""

    algorithm: Algorithm
    hinges: bool  # True if all joints are hinges without rotors.
    in_blocks: bool = False  # True for blocks: own shares are kept, as branches are added to them, and totals are not.
    quaternions: bool = False  # True for blocks of trees with quaternion joints, whose cells hold the joints' shifts.

    def kept_names(self) -> set[str]:
        """Fields that later passes read."""
        return {n for p in self.algorithm.passes for n in p.needs}

    def is_lazy(self, p: Pass) -> bool:
        """True if a pass computes the rows' own shares itself, because their fields are kept anyway."""
        return p.own is not None and not self.in_blocks and set(p.own.needs) <= self.kept_names()

    def shares(self, p: Pass) -> list[Pass]:
        """The passes whose own shares are left in the cells as soon as `p` is done."""
        after = [x for x in self.algorithm.shares_after(p) if not self.is_lazy(x)]
        return [x for x in after if not (self.in_blocks and isinstance(x, Total))]

    def totals(self, p: Pass) -> list[Pass]:
        """The sums that are made while `p` goes over the rows."""
        return [x for x in self.algorithm.shares_after(p) if self.in_blocks and isinstance(x, Total)]

    def left(self, i: int) -> dict[str, Any]:
        """The fields that pass i leaves in the cells, as examples."""
        alg, p = self.algorithm, self.algorithm.passes[i]
        names = self.kept_names()
        left: dict[str, Any] = {AT: PLACEMENT} if p.places and AT in names else {}
        left |= {p.state: alg.fields[p.state]} if isinstance(p, Outward) and p.state in names else {}
        left |= {x.state: alg.fields[x.state] for x in self.shares(p)}
        return left | {n: alg.fields[n] for n in p.leaves} | {n: alg.outputs[n] for n in p.outputs}

    def width(self, i: int) -> int:
        """How many numbers pass i leaves in a cell."""
        return structure(Row(self.left(i))).num_leaves

    def places(self, i: int) -> dict[str, tuple[int, Any]]:
        """The places of fields for pass i: the number of the array, and places in it."""
        found: dict[str, tuple[int, Any]] = {
            "frame": (0, (CONSTANT.orientation, CONSTANT.position)),
            "axis": (0, CONSTANT.axis),
            "inertia": (0, CONSTANT.inertia),
            "armature": (0, CONSTANT.armature),
            "mass": (0, CONSTANT.inertia.mass),
            SHIFT: (0, COUNT),
        }
        for k in range(i):
            found |= {n: (1 + k, places) for n, places in numbered(self.left(k)).items()}
        return found

    def streams(self, i: int, names: tuple[str, ...], joining: Any = None) -> tuple[Any, tuple, tuple]:
        """Treedef, fields and widths of the values that a walk of pass i reads of a cell."""
        places = self.places(i)
        widths = (COUNT, *(self.width(k) for k in range(i)))
        if joining is not None:
            places[JOINING] = (len(widths), numbered({JOINING: joining})[JOINING])
            names, widths = (*names, JOINING), (*widths, structure(joining).num_leaves)
        row = Row({n: places[n][1] for n in names})
        fields = tuple((places[n][0], k) for n in names for k in jax.tree.leaves(places[n][1]))
        return structure(row), fields, widths

    def names(self, i: int) -> tuple[str, ...]:
        """The names of the fields that pass i reads of a cell."""
        p = self.algorithm.passes[i]
        placing = ("frame", "axis") if p.places else ()
        names = (*placing, *p.link, *p.needs)
        if p.own is not None:
            names += (*p.own.link, *p.own.needs) if self.is_lazy(p) else (p.state,)
        names += ("armature",) if self.rotor(p) else ()
        names += ("axis", "armature", SHIFT) if self.shifted(p) else ()
        return tuple(dict.fromkeys(names))

    def given(self, i: int) -> tuple[str, ...]:
        """Inputs of the rows that pass i reads."""
        p = self.algorithm.passes[i]
        return (*(("q",) if p.places else ()), *p.given, *((FELT,) if self.rotor(p) else ()))

    def rotor(self, p: Pass) -> bool:
        """True if rotors add to an output of the pass."""
        return "tau" in p.outputs

    def shifted(self, p: Pass) -> bool:
        """True if the pass reads or finds quantities that differ between quaternion joints and their rows."""
        return self.quaternions and any(n in JOINT_QUANTITIES for n in (*p.given, *p.outputs))

    def row(self, i: int, cell: Row, given: tuple) -> Row:
        """A row for pass i."""
        p, alg = self.algorithm.passes[i], self.algorithm
        row = Row({**cell, **dict(zip(self.given(i), given, strict=True))})
        if self.hinges:
            row |= {n: fact for n, fact in (("axis", HINGE), ("armature", 0.0)) if n in row}
        if LOAD in row:
            row["armature"] = row.armature + row.load
        if SHIFT in row:
            of_joint = {n: row[n] for n in JOINT_QUANTITIES if n in row} | ({"qdd": row.felt} if FELT in row else {})
            of_rows = inputs_of_rows(of_joint, row.armature, row.axis.slide, row.shift)
            row |= {n: x for n, x in of_rows.items() if n in row}
        if alg.moments and "inertia" in row:
            row["inertia"] = row.inertia.moments()
        if p.places:
            orientation, position = row.frame
            row[AT] = place(orientation, position, row.axis, row.q)
        elif AT in row and alg.keeps == "transform":
            row[AT] = row.at.transform
        return row

    def share(self, p: Pass, row: Row) -> Any:
        """The own share of a row, computed or read."""
        whole = p.own.of(row) if self.is_lazy(p) else row[p.state]  # type: ignore[union-attr]
        return tree_map(jnp.add, whole, row[JOINING]) if JOINING in row else whole


# -- walks of a pass --------------------------------------------------------------------------------------------------


def _combine(stretch: Stretch) -> Any:
    return stretch.combine_components or stretch.combine


def _prefix(name: str, stretch: Stretch, inward: bool) -> Prefix:
    combine = _combine(stretch)
    # An inward walk comes from the outer end, so "before" is the outer one.
    ordered = (lambda outer, inner: combine(inner, outer)) if inward else combine
    return prefix_walks(name, ordered, stretch.identity, element_structure(stretch))


def _required(algorithm: Algorithm, p: Pass) -> Stretch:
    if p.stretch is None:
        raise ValueError(f"{algorithm.name}: pass {p.state!r} states no stretch, so long paths can not be cut")
    return p.stretch


@once
def outward_walks(plan: CellPlan, i: int) -> OutwardWalks:
    """The walks of an outward pass."""
    alg, p = plan.algorithm, plan.algorithm.passes[i]
    stretch, name = _required(alg, p), f"{alg.name}_{p.state}"
    state, given = alg.fields[p.state], structure((0.0,) * len(plan.given(i)))
    shares, totals = plan.shares(p), plan.totals(p)
    gathered = next((x for x in shares if x.stretch and x.stretch.gathers), None)
    of_shares = tuple(n for x in (*shares, *totals) for n in x.own.link)  # type: ignore[union-attr]
    apart = bool(totals)  # the state is then carried together with the sums so far
    left = plan.left(i)
    moving, fields, widths = plan.streams(i, plan.names(i))
    whole, all_fields, _ = plan.streams(i, tuple(dict.fromkeys(plan.names(i) + of_shares)))

    @once
    def reduce(guarded: bool) -> Walk:
        def put_together(e: Any, cell: Row, inputs: tuple, exists: Any) -> tuple:
            row = plan.row(i, cell, inputs)
            more = stretch.extend(e, row) if stretch.extend else _combine(stretch)(e, stretch.element(row))
            return new_state(exists, more, e) if guarded else more, ()

        name_of = f"{name}_total" if guarded else f"{name}_reduce"
        return Walk(name_of, put_together, element_structure(stretch), moving, given, NOTHING, fields, widths)

    @once
    def walk(sources: int, remembered: bool, scattered: bool, gathering: bool = False) -> Walk:
        def step(carried: Any, cell: Row, inputs: tuple, exists: Any) -> tuple:
            row = plan.row(i, cell, inputs)
            new, found = p.visit(row, carried[0] if gathering or apart else carried)
            after = Row({**row, p.state: new})
            if SHIFT in row and "qdd" in found:
                found["qdd"] = joint_acceleration(found["qdd"], row.shift)
            found |= {x.state: x.own.of(after) for x in shares}  # type: ignore[union-attr]
            results = tuple({**after, **found}[n] for n in left)
            results += (new,) if remembered else ()
            if apart:
                sums = tree_map(jnp.add, carried[1], tuple(x.own.of(after) for x in totals))  # type: ignore[union-attr]
                return (new, new_state(exists, sums, carried[1])), results
            if not gathering:
                return new, results
            inner = gathered.stretch  # type: ignore[union-attr]
            outer = inner.element(after, found[gathered.state])  # type: ignore[union-attr]
            return (new, new_state(exists, _combine(inner)(carried[1], outer), carried[1])), results  # type: ignore[arg-type]

        begin = structure(state) if not gathering else structure((state, _example(gathered.stretch)))  # type: ignore[union-attr,arg-type]
        begin = structure((state, tuple(alg.fields[x.state] for x in totals))) if apart else begin
        results = structure((*left.values(), *((state,) if remembered else ())))
        return Walk(name, step, begin, whole, given, results, all_fields, widths, scattered, sources=sources)

    gathering = (walk(0, False, False, True), gathered.stretch.identity) if gathered and gathered.stretch else None
    prefix = _prefix(name, stretch, False)
    return OutwardWalks(reduce, prefix, stretch.combine, stretch.act, walk, plan.width(i), gathering)


def _example(stretch: Stretch) -> Any:
    tree = element_structure(stretch)
    return jax.tree.unflatten(tree, [0.0] * tree.num_leaves)


@once
def inward_walks(plan: CellPlan, i: int) -> InwardWalks:
    """The walks of an inward pass."""
    alg, p = plan.algorithm, plan.algorithm.passes[i]
    stretch, name = _required(alg, p), f"{alg.name}_{p.state}"
    state, given = alg.fields[p.state], structure((0.0,) * len(plan.given(i)))
    left = plan.left(i)

    @once
    def reduce(joined: bool) -> Walk:
        def step(e: Any, cell: Row, inputs: tuple, exists: Any) -> tuple:
            row = plan.row(i, cell, inputs)
            own = plan.share(p, row)
            more = stretch.extend(row, own, e) if stretch.extend else _combine(stretch)(stretch.element(row, own), e)
            return new_state(exists, more, e), ()

        tree, fields, widths = plan.streams(i, plan.names(i), state if joined else None)
        element = element_structure(stretch)
        return Walk(f"{name}_reduce", step, element, tree, given, NOTHING, fields, widths, reverse=True)

    @once
    def walk(joined: bool, sources: int, scattered: bool) -> Walk:
        def step(received: Any, cell: Row, inputs: tuple, exists: Any) -> tuple:
            row = plan.row(i, cell, inputs)
            joining = row.pop(JOINING, None)
            received = received if joining is None else tree_map(jnp.add, received, joining)
            new, found = p.visit(row, tree_map(jnp.add, plan.share(p, row), received))
            if plan.rotor(p):
                found["tau"] = joint_force(found["tau"], row.armature, row.felt)
            return new_state(exists, new, received), tuple(found[n] for n in left)

        tree, fields, widths = plan.streams(i, plan.names(i), state if joined else None)
        results = structure(tuple(left.values()))
        return Walk(name, step, structure(state), tree, given, results, fields, widths, scattered, True, sources)

    def ballast(arrays: tuple) -> Any:
        if isinstance(arrays[0], Resident):
            return arrays[0].made((plan, i), lambda cells: ballast((cells,)))
        inertia = tree_map(lambda k: arrays[0][:, k], CONSTANT.inertia)
        last, mean = (tree_map(f, inertia) for f in (lambda x: x[-1], lambda x: x.mean(0)))
        return stretch.ballast(Row(inertia=last), Row(inertia=mean))  # type: ignore[misc]

    def received(e: Any) -> Any:
        return stretch.act(e, tree_map(jnp.zeros_like, zero(jax.tree.leaves(e)[0])))

    def zero(like: Any) -> Any:
        return tree_map(lambda _: jnp.zeros_like(like), state)

    return InwardWalks(
        reduce,
        _prefix(name, stretch, True),
        stretch.combine,
        stretch.act,
        stretch.passed or received,
        walk,
        zero,
        ballast if stretch.ballast else None,
        stretch.lend,
    )


def can_walk(algorithm: Algorithm) -> bool:
    """True if native walks can run an algorithm: its passes over rows have stretches, and sums and bodies come last."""
    over_rows = [p for p in algorithm.passes if isinstance(p, Outward | Inward)]
    rest = algorithm.passes[len(over_rows) :]
    first = algorithm.passes[: len(over_rows)] == tuple(over_rows) and algorithm.passes[0].places
    return first and all(p.stretch for p in over_rows) and all(isinstance(p, Total | Bodies | Base) for p in rest)


# -- an algorithm over the stages of a tree ---------------------------------------------------------------------------


def over_stages(
    plan: CellPlan,
    laid: Stages,
    constants: tuple[Any, ...],
    gravity: Any,
    given: dict[str, Any],
    ports: SharedPorts | None = None,
    model: Model | None = None,
) -> dict[str, Any]:
    """The outputs of an algorithm: (n,) for rows, () for a sum, (bodies,) for bodies.

    `constants` are those of each stage's cells, (turns, fields, lanes), in the order of `Rows`. `given` are the inputs
    of the rows, (n,); `felt` are the accelerations that rotors resist. A part of a tree has `ports`. Passes over bodies
    and over the base need the model.
    """
    alg = plan.algorithm
    dtype = constants[0].dtype
    base = alg.base(Vec3(*(jnp.asarray(g, dtype) for g in gravity)))
    streams = [(c,) for c in constants]
    together: list[Any] = [None] * len(laid.stages)
    last = max(i for i, p in enumerate(alg.passes) if isinstance(p, Outward | Inward))
    asked = {n for p in alg.passes if isinstance(p, Total | Bodies) for n in (p.state, *p.needs)}
    by_row: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for i, p in enumerate(alg.passes):
        inputs = tuple(given[n] for n in plan.given(i))
        scattered = i == last and len(laid.stages) == 1
        if isinstance(p, Outward):
            walks = outward_walks(plan, i)
            found, together = outward_pass(laid, walks, base[p.state], streams, inputs, scattered, ports)
        elif isinstance(p, Inward):
            found = inward_pass(laid, inward_walks(plan, i), streams, inputs, together, scattered, ports)
        elif isinstance(p, Total):
            outputs[p.state] = tree_map(jnp.sum, by_row[p.state])
            continue
        elif isinstance(p, Bodies) and model is not None:
            rows = Row({n: by_row[n] for n in p.needs})
            outputs |= p.visit(_of_bodies(model, rows, Row({n: base[n] for n in p.needs})), None)[1]
            continue
        elif isinstance(p, Base) and model is not None:
            whole = {"gravity": Vec3(*jnp.asarray(gravity, dtype)), "mass": jnp.asarray(model.rows.inertia.mass).sum()}
            outputs |= p.visit(Row({n: outputs[n] for n in p.needs} | whole), None)[1]
            continue
        else:
            raise ValueError(f"{alg.name}: native walks have no pass of kind {type(p).__name__}")
        if p.outputs or asked & plan.left(i).keys():
            values = results_by_row(laid, [f if scattered else f[:, : plan.width(i)] for f in found], scattered)
            named = jax.tree.unflatten(structure(Row(plan.left(i))), values)
            by_row |= {n: named[n] for n in asked & named.keys()}
            outputs |= {n: named[n] for n in p.outputs}
        if i < last:
            streams = [(*s, f[:, : plan.width(i)]) for s, f in zip(streams, found, strict=True)]
    return outputs


def _of_bodies(model: Model, rows: Row, base: Row) -> Row:
    """Fields of the rows that carry each body, (bodies,), and its frame there."""
    carrier = model.structure.row_of_body
    dtype = jax.tree.leaves(rows)[0].dtype
    if not np.array_equal(carrier, np.arange(model.structure.tree.n)):  # else each body has one row, in order
        with_base = tree_map(lambda b, x: jnp.concatenate([jnp.reshape(b, 1), x]), base, rows)
        rows = pick(with_base, carrier + 1)
    return Row(rows | {"frame": tree_map(lambda x: jnp.asarray(x, dtype), model.frames)})
