"""One chain over several host devices: inverse dynamics in float32, checked on a sample of bodies.

The check is a sequential pass in float64, piece after piece, by the walk that serves single robots. A piece hangs from
a free joint, which gives it the motion that the pieces before it end with; the joint's force is what it passes on.

    python -m benchmarks.huge_chain --bodies 1e8 --devices 8     # about nine minutes on two cores, 20 GB
"""

import argparse
import os
import resource
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

SKEW = 0.3
SAMPLE = 10_000  # bodies that are compared


def state(piece: int, length: int) -> tuple[np.ndarray, ...]:
    """q, qd and qdd of one piece: links bent at random, which move a little."""
    rng = np.random.default_rng(piece)
    return tuple((scale * rng.uniform(-1, 1, length)).astype(np.float32) for scale in (1.0, 1e-3, 1e-3))


def bounds_of(bodies: int, pieces: int) -> np.ndarray:
    """Where the pieces of `kinetree.chain_pieces` begin and end."""
    return np.arange(pieces + 1) * bodies // pieces


def hanging(length: int, first: bool) -> Any:
    """A piece of the chain `auto_tree(n, 1, skew)` that hangs from a free joint. The joint's own body has no mass."""
    import kinetree as kt

    c, s = np.cos(SKEW), np.sin(SKEW)
    turn = np.array([[1, 0, 0], [0, c, s], [0, -s, c]])
    x_tree = np.zeros((length + 1, 6, 6))
    x_tree[:, :3, :3] = x_tree[:, 3:, 3:] = turn
    x_tree[:, 3:, :3] = -turn @ np.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]])  # one metre along x
    x_tree[: 1 + first] = np.eye(6)
    inertia = np.zeros((length + 1, 10))
    inertia[1:] = [1, 0.5, 0, 0, 0.0025, 1.015 / 12 + 0.25, 1.015 / 12 + 0.25, 0, 0, 0]
    joints = ["free"] + ["Rz"] * length
    return kt.Model.from_arrays(np.arange(-1, length), joints, x_tree, inertia)


def sequential(bodies: int, pieces: int) -> Iterator[tuple[int, np.ndarray]]:
    """(First body, tau) of each piece, the last piece first, in float64."""
    import kinetree as kt

    bounds = bounds_of(bodies, pieces)
    lengths = np.diff(bounds)
    model_of = lru_cache(maxsize=4)(hanging)  # all pieces but the first are alike, in at most two lengths
    base = np.array([0, 0, 0, 1.0, 0, 0, 0]), np.zeros(6), np.zeros(6)
    starts = []
    for k, length in enumerate(lengths.tolist()):  # outward
        model = model_of(length, k == 0)
        starts.append(base)
        q, qd, qdd = (np.concatenate(pair) for pair in zip(base, state(k, length), strict=True))
        last = model.n_bodies - 1
        turn = np.asarray(kt.forward_kinematics(model, q, schedule="lanes").rotation[-1])
        velocity = np.asarray(kt.frame_velocity(model, q, qd, last, "local"))
        acceleration = np.asarray(kt.frame_acceleration(model, q, qd, qdd, last, "local"))
        base = np.concatenate([np.zeros(3), quaternion(turn)]), velocity, acceleration
    force = np.zeros(6)  # on the last body of a piece, by the next piece, in coordinates of the next piece's base
    for k in range(pieces - 1, -1, -1):  # inward
        length = int(lengths[k])
        model = model_of(length, k == 0)
        q, qd, qdd = (np.concatenate(pair) for pair in zip(starts[k], state(k, length), strict=True))
        pose: Any = kt.forward_kinematics(model, q, schedule="lanes")
        f_ext = np.zeros((model.n_bodies, 6))
        f_ext[-1] = -to_world(pose.rotation[-1], pose.position[-1], force)
        tau = np.asarray(kt.inverse_dynamics(model, q, qd, qdd, f_ext, schedule="lanes"))
        force = tau[:6]
        yield int(bounds[k]), tau[6:]


def to_world(turn: np.ndarray, place: np.ndarray, force: np.ndarray) -> np.ndarray:
    """A wrench in body coordinates, (moment, force), in world coordinates about the origin."""
    moment, push = turn @ force[:3], turn @ force[3:]
    return np.concatenate([moment + np.cross(place, push), push])


def quaternion(turn: np.ndarray) -> np.ndarray:
    """(w, x, y, z) of a rotation matrix, by its largest component."""
    t = np.trace(turn)
    squares = np.array([t, *np.diag(turn)])
    k = int(np.argmax(squares))
    off = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    q = np.empty(4)
    if k == 0:
        q[0], q[1:] = 1 + t, off
    else:
        q[0], q[1:] = off[k - 1], turn[k - 1] + turn[:, k - 1]
        q[k] = 1 + 2 * turn[k - 1, k - 1] - t
    return q / np.linalg.norm(q)


def peak() -> float:
    """Most memory that this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measured(bodies: int, pieces: int, devices: int, say: Any) -> tuple[np.ndarray, np.ndarray]:
    """A sample of bodies, and their forces by the devices."""
    import jax

    import kinetree as kt

    def noted(what: str, start: float) -> None:
        say(f"{what}: {time.perf_counter() - start:.1f} s, {peak():.1f} GB at the peak")

    start = time.perf_counter()
    tree = kt.shard_tree(kt.chain_pieces(bodies, pieces, SKEW), jax.make_mesh((devices,), ("tree",)), dtype=np.float32)
    noted("built", start)
    start, lengths = time.perf_counter(), np.diff(bounds_of(bodies, pieces))
    given: list[Any] = []
    for which in range(3):
        whole = np.concatenate([state(k, int(length))[which] for k, length in enumerate(lengths)])
        given.append(tree.spread(whole))
        del whole
    noted("states", start)
    for call in ("first call", "second call"):
        start = time.perf_counter()
        tau: Any = jax.block_until_ready(kt.inverse_dynamics(tree, *given))
        noted(call, start)
    sample = np.sort(np.random.default_rng(0).choice(bodies, min(bodies, SAMPLE), replace=False))
    return sample, tree.collect(tau)[sample]


def main() -> None:
    """Print times, memory, and how far the sample is from the sequential pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=float, default=1e7)
    parser.add_argument("--pieces", type=int, default=0, help="as many as make 400 000 bodies each, if not given")
    parser.add_argument("--devices", type=int, default=8)
    given = parser.parse_args()
    bodies = int(given.bodies)
    pieces = given.pieces or given.devices * max(1, round(bodies / given.devices / 400_000))
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={given.devices}"

    def say(text: str) -> None:
        print(text, flush=True)

    say(f"{bodies} bodies in {pieces} pieces over {given.devices} devices")
    sample, ours = measured(bodies, pieces, given.devices, say)
    start, right = time.perf_counter(), np.empty(len(sample))
    for first, tau in sequential(bodies, pieces):
        here = (sample >= first) & (sample < first + len(tau))
        right[here] = tau[sample[here] - first]
    say(f"sequential pass in float64: {time.perf_counter() - start:.1f} s")
    off = np.abs(ours - right)
    norm = np.linalg.norm(ours - right) / np.linalg.norm(right)
    say(f"{len(sample)} bodies: off by {norm:.1e} in the norm, {np.median(off / np.abs(right)):.1e} in the median")


if __name__ == "__main__":
    main()
