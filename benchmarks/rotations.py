"""Quaternions or matrices: composing, turning vectors, a scan of poses along a chain, and inverse dynamics.

`Axes` is a matrix that answers to what the algorithms ask of a quaternion, so the same passes run with either. Times
are the median of one run and how far the calls spread; errors are against dense matrices in 80-bit floats.
Run: python -m benchmarks.rotations
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import kinetree as kt  # noqa: E402
from benchmarks.frames import TURN, error, times  # noqa: E402
from kinetree.dynamics.arranged import arranged, by_position  # noqa: E402
from kinetree.dynamics.lane_rows import (  # noqa: E402
    GRAVITY,
    OWN,
    PARENT,
    SCREW,
    ZERO3,
    LaneAlgorithm,
    Part,
    Q,
    Screw,
    V,
    base_gravity,
    base_turn,
    row_constants,
    row_turns,
    screw_constants,
)
from kinetree.dynamics.rnea import MOTION, WRENCH, LoadedRow, MovingRow, base_rates, body_force  # noqa: E402
from kinetree.lanes import Lane, Loop, Memory  # noqa: E402
from kinetree.model import Placement, place, relative_motion  # noqa: E402
from kinetree.spatial import Force, Quaternion, Rates, Rotation, Vec3  # noqa: E402
from kinetree.tree import inward, layout, outward, restore  # noqa: E402


class Axes(NamedTuple):
    """Orientation of a frame in its parent, as the parent's coordinates of its three axes: nine numbers."""

    x: Vec3
    y: Vec3
    z: Vec3

    @staticmethod
    def identity_like(s: Any) -> "Axes":
        """No rotation."""
        return Axes(*Rotation.identity_like(s).rows)

    @staticmethod
    def of(q: Quaternion) -> "Axes":
        """The same orientation."""
        return Axes(*q.rotation().rows)

    def conjugate(self) -> "Axes":
        """The inverse rotation."""
        return Axes(*map(Vec3, self.x, self.y, self.z))

    def turn(self, v: Vec3) -> Vec3:
        """A vector from child to parent coordinates. 9m 6a."""
        return self.x * v.x + self.y * v.y + self.z * v.z

    def __mul__(self, o: "Axes") -> "Axes":  # type: ignore[override]
        """The orientation of o's frame in the frame that self lives in. 27m 18a."""
        return Axes(*map(self.turn, o))

    def times_about_z(self, cos: Any, sin: Any) -> "Axes":
        """The frame turned on about its own z. 12m 6a."""
        return Axes(self.x * cos + self.y * sin, self.y * cos - self.x * sin, self.z)

    def renormalized(self) -> "Axes":
        """As it is: what makes a matrix orthogonal again costs more than composing it."""
        return self


def placed(row: Any, q: Any) -> Placement:
    """Where a row's screw stands at q, held as its constants are."""
    if isinstance(row.orientation, Quaternion):
        return place(row.orientation, row.position, row.axis, q)
    turned = row.orientation.times_about_z(jnp.cos(row.turn * q), jnp.sin(row.turn * q))
    return Placement(turned, row.position + turned.z * (row.slide * q))


KINDS = {"quaternion": lambda q: q, "matrix": Axes.of}


@partial(jax.jit, static_argnums=0)
def by_paths(kind: str, laid: Any, model: kt.Model, q: Any, qd: Any, qdd: Any) -> Any:
    """Inverse dynamics of one state under `paths`."""
    at = arranged(laid, model, q[None])
    rows = at.rows._replace(orientation=KINDS[kind](at.rows.orientation))
    X = placed(rows, by_position(laid, q[None]))
    moving = MovingRow(X, rows.axis, by_position(laid, qd[None]), by_position(laid, qdd[None]))
    own = body_force(rows.inertia, outward(MOTION, laid, moving, base_rates(at.gravity)))

    def nothing(e: LoadedRow) -> LoadedRow:
        zero = jnp.zeros_like(e.own.linear.x)
        here = Placement(type(X.orientation).identity_like(zero), Vec3.zero_like(zero))
        return LoadedRow(here, Force.zero_like(zero))

    received = inward(replace(WRENCH, identity=nothing), laid, LoadedRow(X, own), Force.zero_like(at.gravity.x))
    return restore(laid, rows.axis.dot(own + received))[:, 0]


@lru_cache
def by_lanes(kind: str) -> LaneAlgorithm:
    """Inverse dynamics as the lane program of dynamics/rnea_lanes.py, for screws, with rotations of one kind."""
    of = KINDS[kind]
    rotation = jax.tree.map(lambda _: 0.0, of(Quaternion.identity_like(0.0)))
    memory = Memory(rates=Rates(ZERO3, ZERO3, ZERO3), force=Force(ZERO3, ZERO3), placed=Placement(rotation, ZERO3))

    def constants(model: kt.Model, rows: np.ndarray) -> Any:
        of_rows = row_constants(model, rows)
        return of_rows._replace(orientation=jax.tree.map(np.asarray, of(of_rows.orientation)))

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        return (base_rates(gravity), Force.zero_like(gravity.x)), (), ()

    def outward(row: Any, given: tuple, reads: tuple) -> tuple:
        q, qd, qdd = given
        X = placed(row, q)
        rates = relative_motion(X, row.axis, qd, qdd).act(reads[0])
        return (rates, body_force(row.inertia, rates), X), (), ()

    def inward(joint: Screw, given: tuple, reads: tuple) -> tuple:
        force, X = reads
        return (), (X.force_to_parent(force),), (joint.axis.dot(force) + joint.armature * given[0],)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    treedef = jax.tree.structure(constants(kt.auto_tree(1), np.zeros(1, int)))
    ways = tuple(Lane(k, column) for k, column in enumerate((Q, V, V)))
    parts = [
        Part(Loop(base, 4, GRAVITY, writes=at(OWN, "rates", "force")), base_turn(memory), base_gravity),
        Part(
            Loop(outward, 4, treedef, at(PARENT, "rates"), at(OWN, "rates", "force", "placed"), (), ways),
            row_turns(memory),
            constants,
        ),
        Part(
            Loop(inward, 4, SCREW, at(OWN, "force", "placed"), (), at(PARENT, "force"), ways[2:], (Lane(0, V),)),
            row_turns(memory, inward=True),
            screw_constants,
        ),
    ]
    return LaneAlgorithm(f"rnea_by_{kind}", parts, memory, 3, 1, lambda s: (s.tree.n,))


@partial(jax.jit, static_argnums=0)
def composed(kind: str, a: Quaternion, b: Quaternion) -> Any:
    """Many products, side by side."""
    return (a * b).renormalized()


@partial(jax.jit, static_argnums=0)
def turned(kind: str, a: Quaternion, v: Vec3) -> Any:
    """Many vectors turned, side by side."""
    return a.turn(v)


@partial(jax.jit, static_argnums=0)
def along_chain(kind: str, laid: Any, own: Any) -> Any:
    """Orientation of every row in the world: a scan along a chain."""
    start = type(own).identity_like(jnp.zeros(1))
    one = replace(TURN, identity=lambda e: type(e).identity_like(jax.tree.leaves(e)[0]))
    return outward(one, laid, jax.tree.map(lambda x: x[laid.row_at, None], own), start)


def orientation_error(found: Any, laid: Any, description: Any, q: Any) -> float:
    """Largest error of an entry of the rotation matrices, against the oracle's."""
    from tests.reference import dense

    axes = found if isinstance(found, Axes) else Axes.of(found)
    E = np.stack([np.stack([np.asarray(c)[laid.position_of, 0] for c in axis], -1) for axis in axes], -2)
    return float(np.abs(E - dense.poses(description, q)[0]).max())


def main(n: int = 1_000_000, chain: int = 100_000, states: int = 4096) -> None:
    """Print times and errors."""
    from tests.reference import generate

    table = Table(title="rotations as quaternions and as matrices, float64")
    for column in ("what", *KINDS, *(f"error, {k}" for k in KINDS)):
        table.add_column(column)
    rng = np.random.default_rng(0)
    quaternions = Quaternion.from_array(jnp.asarray(rng.standard_normal((2, n, 4)))).normalized()
    a, b = (Quaternion(*(c[k] for c in quaternions)) for k in range(2))
    v = Vec3.from_array(jnp.asarray(rng.standard_normal((n, 3))))

    def row(what: str, calls: dict, check: Any = None) -> None:
        errors = [f"{check(call()):.1e}" for call in calls.values()] if check else ["", ""]
        table.add_row(what, *times(list(calls.values())), *errors)

    own = {k: (jax.jit(of)(a), jax.jit(of)(b)) for k, of in KINDS.items()}
    row(f"compose, {n:,} pairs", {k: partial(composed, k, *own[k]) for k in KINDS})
    row(f"turn, {n:,} vectors", {k: partial(turned, k, own[k][0], v) for k in KINDS})

    for rows in (chain, n):
        model, exact = kt.auto_tree(rows, 1, 0.3), generate.auto_tree(rows, 1, 0.3) if rows <= 100_000 else None
        laid = layout(model.tree, "paths")
        state = rng.standard_normal((3, rows))
        joints = {
            k: jax.jit(lambda q, of=of, m=model: placed(m.rows._replace(orientation=of(m.rows.orientation)), q))(
                jnp.asarray(state[0])
            ).orientation
            for k, of in KINDS.items()
        }
        check = exact and partial(orientation_error, laid=laid, description=exact, q=state[0])
        row(f"scan a chain of {rows:,}", {k: partial(along_chain, k, laid, joints[k]) for k in KINDS}, check)
        check = exact and partial(error, exact, list(state))
        given = [jnp.asarray(x) for x in state]
        row(
            f"inverse dynamics, chain of {rows:,}, paths",
            {k: partial(by_paths, k, laid, model, *given) for k in KINDS},
            check,
        )
        batch = [x[None] for x in state]
        check = exact and (lambda found, exact=exact, state=state: error(exact, list(state), found[0][0]))
        row(
            f"inverse dynamics, chain of {rows:,}, lanes",
            {k: partial(by_lanes(k), model, *batch) for k in KINDS},
            check,
        )
    for links, branching in ((7, 1.0), (30, 2.0)):
        model, state = kt.auto_tree(links, branching, 0.3), rng.standard_normal((3, states, links))
        row(
            f"inverse dynamics, {states} states of {links} rows, lanes",
            {k: partial(by_lanes(k), model, *state) for k in KINDS},
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
