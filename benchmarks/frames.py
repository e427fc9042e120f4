"""Two ways to scan inverse dynamics: second-order motions in row frames, or sums in frames turned to the world.

In row frames (algorithms/rnea.py) one outward scan carries pose, velocity and acceleration, one inward scan wrenches.
In frames with the world's axes and their origins at the joints, one scan multiplies rotations, all the rest are plain
sums: ω, α and a outward, each from the one before, force and moment inward. Times are the median of one run and how
far the calls spread; errors (norm over norm) are against dense matrices in 80-bit floats.
Run: python -m benchmarks.frames
"""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import kinetree as kt  # noqa: E402
from kinetree.dynamics.algorithms.rnea import RNEA, base_rates, body_force  # noqa: E402
from kinetree.dynamics.schedules.arranged import arranged, by_position  # noqa: E402
from kinetree.dynamics.schedules.layouts import run_passes  # noqa: E402
from kinetree.model import Placement, Rows  # noqa: E402
from kinetree.spatial import Force, Quaternion, Rates, Vec3  # noqa: E402
from kinetree.tree import InwardRecursion, Layout, OutwardRecursion, inward, layout, outward, restore  # noqa: E402

TURN = OutwardRecursion(
    step=lambda own, parent: (parent * own).renormalized(),
    element=lambda own: own,
    combine=lambda inner, outer: (inner * outer).renormalized(),
    act=lambda own, parent: (parent * own).renormalized(),
    identity=lambda own: Quaternion.identity_like(own.w),
    name="rotation",
)
SUM_OUT = OutwardRecursion(
    step=Vec3.__add__,
    element=lambda own: own,
    combine=Vec3.__add__,
    act=Vec3.__add__,
    identity=lambda own: Vec3.zero_like(own.x),
    name="sum of ancestors",
)
SUM_IN = InwardRecursion(
    step=Vec3.__add__,
    element=Vec3.__add__,
    combine=Vec3.__add__,
    act=Vec3.__add__,
    identity=lambda own: Vec3.zero_like(own.x),
    name="sum of descendants",
)


def rnea_in_world_axes(laid: Layout, rows: Rows, placed: Placement, qd: Any, qdd: Any, gravity: Vec3) -> Any:
    """What `rnea` gives, with every vector in the axes of the world; a parent's sum is one's own less one's share."""
    base = base_rates(gravity)
    R = outward(TURN, laid, placed.orientation, Quaternion.identity_like(gravity.x))
    r = R.turn(placed.orientation.conjugate().turn(placed.position))  # from the parent's origin to the row's
    z = R.rotation().rows[2]
    turning, sliding = z * (rows.turn * qd), z * (rows.slide * qd)

    omega = outward(SUM_OUT, laid, turning, base.omega)
    above = omega - turning
    share = z * (rows.turn * qdd) + above.cross(turning)
    alpha = outward(SUM_OUT, laid, share, base.alpha)
    coriolis = above.cross(sliding)
    share = (alpha - share).cross(r) + above.cross(above.cross(r)) + coriolis + coriolis + z * (rows.slide * qdd)
    a = outward(SUM_OUT, laid, share, base.acceleration)

    into = R.conjugate().turn
    own = body_force(rows.inertia.moments(), Rates(into(omega), into(alpha), into(a)))
    own = Force(R.turn(own.angular), R.turn(own.linear))
    nothing = Vec3.zero_like(gravity.x)
    f = own.linear + inward(SUM_IN, laid, own.linear, nothing)
    n = own.angular + inward(SUM_IN, laid, own.angular + r.cross(f), nothing)
    return rows.turn * z.dot(n) + rows.slide * z.dot(f)


WAYS = ("row frames", "world axes")


@partial(jax.jit, static_argnums=0)
def inverse_dynamics(way: str, laid: Layout, model: kt.Model, q: Any, qd: Any, qdd: Any) -> Any:
    """Forces of one state, for joints with one degree of freedom."""
    at = arranged(laid, model, q[None])
    qd, qdd = by_position(laid, qd[None]), by_position(laid, qdd[None])
    if way == "row frames":
        tau = run_passes(RNEA, laid, model, at, {"qd": qd, "qdd": qdd})["tau"]
    else:
        tau = rnea_in_world_axes(laid, at.rows, at.placed, qd, qdd, at.gravity)
    return restore(laid, tau)[:, 0]


def times(calls: Sequence[Callable[[], Any]], rounds: int = 15) -> list[str]:
    """Median and spread of each, in milliseconds; called in turn, so that a busy machine disturbs them alike."""
    for call in calls:
        jax.block_until_ready(call())
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, mine in zip(calls, taken, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            mine.append(1e3 * (time.perf_counter() - start))
    return [f"{statistics.median(t):.1f} ms ({min(t):.1f} to {max(t):.1f})" for t in taken]


def error(description: Any, state: list, found: Any) -> float:
    """Relative error against the oracle, which only a checkout of the sources has."""
    from tests.reference import dense

    truth = dense.rnea(description, *state)
    return float(np.linalg.norm(np.asarray(found) - truth) / np.linalg.norm(truth))


def main() -> None:
    """Print times and errors."""
    from tests.reference import generate

    table = Table(title="inverse dynamics by paths: one state, skew 0.3")
    for column in ("rows", "branching", "frames", "float64", "error", "float32", "error"):
        table.add_column(column)
    for n, branching in ((100_000, 1.0), (100_000, 2.0), (1_000_000, 1.0)):
        model = kt.auto_tree(n, branching, 0.3)
        laid = layout(model.tree, "paths")
        state = [x.astype(np.float32).astype(float) for x in np.random.default_rng(0).standard_normal((3, n))]
        columns = []
        for dtype in (jnp.float64, jnp.float32):
            given = [jnp.asarray(x, dtype) for x in state]
            calls = [partial(inverse_dynamics, way, laid, model, *given) for way in WAYS]
            columns.append(times(calls))
            known = n <= 100_000  # the oracle is a Python loop
            exact = generate.auto_tree(n, branching, 0.3) if known else None
            columns.append([f"{error(exact, state, call()):.1e}" if known else "" for call in calls])
        for way, *cells in zip(WAYS, *columns, strict=True):
            table.add_row(f"{n:,}", f"{branching:g}", way, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
