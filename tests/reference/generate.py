"""Trees and states to test with: Featherstone's autoTree, and random trees of any shape and joints."""

from dataclasses import dataclass

import numpy as np

from .dense import Description, inertia_matrix, plux, rotation_of_quaternion, rotx

__all__ = ["KINDS", "SHAPES", "State", "auto_tree", "random_state", "random_tree", "tree_shape"]

KINDS = (
    "Rx", "Ry", "Rz", "Px", "Py", "Pz", "revolute", "prismatic", "helical",
    "spherical", "translation", "planar", "free", "fixed",
)  # fmt: skip
SHAPES = ("random", "chain", "star", "binary", "forest", "caterpillar")


@dataclass(frozen=True)
class State:
    """q (nq,), qd, qdd, tau (nv,), f_ext (n, 6): float64, so that kinetree and the oracle get the very same numbers."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray


def auto_tree(n, branching=1.0, skew=0.0, taper=1.0, dtype=np.longdouble):
    """Featherstone's autoTree: n bodies on Rz joints, all computed in `dtype`.

    Body k (from 0) is a rod along x: length taper^k, mass taper^3k, centre of mass halfway, rotational inertia about it
    mass length^2 diag(0.0025, 1.015/12, 1.015/12). It hangs from the tip of body floor((k - 1 + ceil(bf)) / bf) - 1,
    its frame turned by `skew` about x; body 0 sits unturned at the origin. Gravity is (0, 0, -9.81).
    """
    dtype = np.dtype(dtype).type
    k = np.arange(n)
    parent = np.floor((k - 1 + np.ceil(branching)) / branching).astype(np.int64) - 1
    length = dtype(taper) ** k.astype(dtype)
    mass = length**3
    along = np.zeros((n, 3), dtype)
    along[1:, 0] = length[parent[1:]]
    turn = np.full(n, dtype(skew))
    turn[:1] = 0
    shape = np.array([dtype("0.0025"), dtype("1.015") / 12, dtype("1.015") / 12])
    rotational = (mass * length**2)[:, None, None] * np.diag(shape)
    com = np.zeros((n, 3), dtype)
    com[:, 0] = length / 2
    gravity = np.array([dtype(0), dtype(0), dtype(-9.81)])
    return Description(parent, ("Rz",) * n, plux(rotx(turn), along), inertia_matrix(mass, com, rotational), gravity)


def tree_shape(rng, n, shape="random"):
    """Parent array (n,) of a tree of that shape, -1 for the base."""
    i = np.arange(n)
    match shape:
        case "chain":
            return i - 1
        case "star":  # all on body 0
            return np.where(i > 0, 0, -1)
        case "binary":
            return (i + 1) // 2 - 1
        case "caterpillar":  # a spine of even bodies, each with one odd leg
            return np.where(i % 2 == 0, i - 2, i - 1).clip(-1)
        case "random":  # one tree, every earlier body equally likely
            return np.where(i > 0, rng.integers(0, i.clip(1)), -1)
        case "forest":  # as random, with a third of the bodies on the base
            return np.where(rng.random(n) < 1 / 3, -1, tree_shape(rng, n, "random"))
    raise ValueError(f"unknown shape {shape!r}")


def random_tree(rng, n, joints=KINDS, shape="random", order="cycle", dtype=np.longdouble, spread=0.4):
    """A random physical tree, its frames and inertias made in `dtype`.

    joints: a kind, or kinds to cycle through (order="cycle") or to draw from (order="random"); a bare "revolute",
    "prismatic" or "helical" gets a random axis, and helical a random pitch. spread: size of the offsets between bodies.
    """
    joints = (joints,) if isinstance(joints, str) else tuple(joints)
    picks = np.arange(n) % len(joints) if order == "cycle" else rng.integers(0, len(joints), n)
    kinds = tuple(_with_axis(rng, joints[pick]) for pick in picks)
    offsets = (spread * rng.standard_normal((n, 3))).astype(dtype)
    x_tree = plux(_random_rotations(rng, n, dtype), offsets)
    return Description(
        tree_shape(rng, n, shape), kinds, x_tree, _random_inertias(rng, n, dtype), rng.uniform(-10, 10, 3).astype(dtype)
    )


def _with_axis(rng, kind):
    """A kind with its random parameters, if it takes any and has none."""
    if kind not in ("revolute", "prismatic", "helical"):
        return kind
    axis = rng.standard_normal(3)
    axis = tuple((axis / np.linalg.norm(axis)).tolist())
    return (kind, axis, float(rng.uniform(-0.5, 0.5))) if kind == "helical" else (kind, axis)


def _random_rotations(rng, n, dtype):
    return rotation_of_quaternion(rng.standard_normal((n, 4)).astype(dtype))


def _random_inertias(rng, n, dtype):
    """Inertias of real bodies: made from positive second moments of mass, so that the triangle inequality holds."""
    mass = rng.uniform(0.5, 2, n).astype(dtype)
    com = (0.15 * rng.standard_normal((n, 3))).astype(dtype)
    second = mass[:, None] * rng.uniform(0.005, 0.05, (n, 3)).astype(dtype)
    principal = second.sum(1, keepdims=True) - second
    axes = _random_rotations(rng, n, dtype)
    rotational = np.swapaxes(axes, 1, 2) @ (principal[:, :, None] * axes)
    return inertia_matrix(mass, com, (rotational + np.swapaxes(rotational, 1, 2)) / 2)


def random_state(rng, desc):
    """A random `State` of a description; angles and positions in [-pi, pi], unit quaternions, the rest normal."""
    q = rng.uniform(-np.pi, np.pi, desc.nq)
    for body, kind in enumerate(desc.joints):
        if kind in ("spherical", "free"):
            quaternion = rng.standard_normal(4)
            q[desc.q_slice(body)][-4:] = quaternion / np.linalg.norm(quaternion)
    qd, qdd, tau = rng.standard_normal((3, desc.nv))
    return State(q, qd, qdd, tau, rng.standard_normal((desc.n_bodies, 6)))
