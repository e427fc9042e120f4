"""Quaternions or matrices: composing, turning vectors, a scan of poses along a chain, and inverse dynamics.

`Axes` is a matrix that answers to what the algorithms ask of a quaternion, so the same passes run with either. Times
are the median of one run and how far the calls spread; errors are against dense matrices in 80-bit floats.
Run: python -m benchmarks.rotations
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import kinetree as kt  # noqa: E402
from benchmarks.frames import TURN, error, times  # noqa: E402
from kinetree.dynamics.algorithms.rnea import RNEA, WRENCH, ForceStretch, base_rates, body_force, pass_on  # noqa: E402
from kinetree.dynamics.recursion import Inward, Row  # noqa: E402
from kinetree.dynamics.schedules.arranged import arranged, by_position  # noqa: E402
from kinetree.dynamics.schedules.lane_algorithm import LaneAlgorithm  # noqa: E402
from kinetree.dynamics.schedules.lane_rows import Traits  # noqa: E402
from kinetree.dynamics.schedules.lanes import Variant, lane_program  # noqa: E402
from kinetree.dynamics.schedules.operators import inward_operator, outward_operator  # noqa: E402
from kinetree.model import Placement, place  # noqa: E402
from kinetree.spatial import Force, Quaternion, Rotation, Vec3  # noqa: E402
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

    to_parent = turn

    def to_child(self, v: Vec3) -> Vec3:
        """A vector from parent to child coordinates. 9m 6a."""
        return self.conjugate().turn(v)

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
    moving = Row(at=X, axis=rows.axis, qd=by_position(laid, qd[None]), qdd=by_position(laid, qdd[None]))
    rates = outward(outward_operator(RNEA.passes[0]), laid, moving, base_rates(at.gravity))
    own = body_force(rows.inertia.moments(), rates)

    def nothing(zero: Any) -> ForceStretch:
        here = Placement(type(X.orientation).identity_like(zero), Vec3.zero_like(zero))
        return ForceStretch(here, Force.zero_like(zero))

    wrenches = inward_operator(Inward("force", pass_on, stretch=replace(WRENCH, identity=nothing)))
    received = inward(wrenches, laid, Row(at=X, own=own), Force.zero_like(at.gravity.x))
    return restore(laid, rows.axis.dot(own + received))[:, 0]


def by_lanes(kind: str) -> LaneAlgorithm:
    """The lane program that turns with rotations of one kind."""
    return lane_program(RNEA, Variant(Traits(quaternions=False, deep=kind == "quaternion", hinges=False)))


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
