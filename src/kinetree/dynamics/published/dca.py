"""The divide-and-conquer algorithm in its two-handle form (Featherstone 1999; Critchley, Anderson and Binani 2007, eq.
12 – 42).

Chains are assembled pair by pair in log2 n levels, and disassembled in as many. A tree is split at its branches: heavy
paths are the chains. An assembled branch is an articulated inertia for its parent, and is disassembled when the
parent's acceleration is known. Every body needs an inertia, as Φ is its inverse.

Relative error in float64 against 80-bit, 2-norm, chains of skew 0.3 and taper 1, random states (qd of size 1):
    n        16       64       256      1024     4096     16384
    error    1.7e-13  3.3e-11  3.4e-12  4.3e-12  6.8e-12  7.9e-12      (aba: 4e-16 to 2.6e-13)
That is one to four digits worse than the articulated-body algorithm, without pivoting, and still usable at the largest
n tried. On spatial_v2's chain of 100 with taper 0.95, cond(H) = 1e14, the error is 4e-8 of the largest entry (aba:
3e-10). If forces on bodies and joints cancel there, it is 1 to 3 % (aba: 0.1 %). No other method has errors above
eps·cond(H).

The efficient algorithm, DCAe, does the same with larger parts (the same paper, eq. 44 – 71): chains are cut into
chunks, each chunk is solved by O(n) recursions (chunk_recursion.py), and the chunks are joined as in DCA. Terminal
chunks need no second handle, so they get more bodies. Its errors on the same chains, with 16 chunks and balance 2:
    error    1.7e-13  1.8e-13  8.4e-15  1.4e-14  8.6e-14  2.7e-13
With long chunks it is as accurate as the articulated-body algorithm.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, Structure
from kinetree.model.coordinates import velocity_product_shift
from kinetree.tree import Layout, layout

from ..joint_terms import joint_acceleration
from ..matrices.dense import times, transpose
from ..schedules import tuning
from .chunk_recursion import Recursive, equations, forward, scan, solution, terminal_equations
from .jointed_bodies import JointedBodies, by_dof, joint_tree, jointed_bodies, require_inertias
from .two_handle import JointMotion, Junction, Subsystem, join, junction, separate


class Chunks(NamedTuple):
    """Bodies of some chunks, (steps, chunks), −1 where a chunk is shorter; the body beyond each, −1 for none."""

    body: np.ndarray
    beyond: np.ndarray


class PathRound(NamedTuple):
    """Paths of one rank. Subsystems are kept under the number of their first body."""

    inner: Chunks
    last: Chunks  # terminal: one to a path
    left: np.ndarray  # (tiles, width): pairs to be joined, tile after tile; the number of bodies where there is none
    right: np.ndarray
    head: np.ndarray  # (paths,): first body
    parent: np.ndarray  # (paths,): the body it hangs from, −1 for the base
    hangs: np.ndarray  # those paths that hang from a body


def cut_path(length: int, chunks: int, balance: float) -> np.ndarray:
    """Starts of the chunks of a path; the last one is `balance` times as long as the others."""
    chunks = min(chunks, length)
    share = np.append(np.arange(chunks), chunks - 1 + balance) / (chunks - 1 + balance)
    starts = np.round(share[:-1] * length).astype(np.int64)
    return np.minimum(np.maximum(starts, np.arange(chunks)), length - chunks + np.arange(chunks))


def _chunks(found: list[np.ndarray], beyond: list[int]) -> Chunks:
    steps = max((len(x) for x in found), default=1)
    body = np.full((steps, len(found)), -1, np.int64)
    for k, x in enumerate(found):
        body[: len(x), k] = x
    return Chunks(body, np.array(beyond, np.int64))


def _tiles(pairs: list[np.ndarray], empty: int) -> np.ndarray:
    """Levels of pairs, (2, count) each, as (2, tiles, width)."""
    width = min(tuning.DCA_TILE_JOINTS, max((p.shape[1] for p in pairs), default=1))
    filled = []
    for p in pairs:
        wide = np.full((2, -(-p.shape[1] // width) * width), empty, np.int64)
        wide[:, : p.shape[1]] = p
        filled.append(wide.reshape(2, -1, width))
    return np.concatenate(filled, 1) if filled else np.zeros((2, 0, width), np.int64)


@lru_cache(maxsize=64)
def plan(structure: Structure, chunks: int | None, balance: float) -> tuple[PathRound, ...]:
    """Rounds, outermost paths first; `chunks` to a path, None for one to a body."""
    tree = joint_tree(structure).tree
    rounds = []
    for rank in range(int(tree.path_rank.max()), -1, -1):
        paths = np.flatnonzero(tree.path_rank == rank)
        inner, last, beyond, levels = [], [], [], {}
        for p in paths:
            bodies = tree.path_list[tree.path_start[p] : tree.path_start[p + 1]]
            starts = cut_path(len(bodies), chunks or len(bodies), balance)
            parts = np.split(bodies, starts[1:])
            inner += parts[:-1]
            last.append(parts[-1])
            beyond += [int(part[0]) for part in parts[1:]]
            firsts, level = bodies[starts], 0
            while (reach := 1 << level) < len(firsts):
                at = np.arange(0, len(firsts) - reach, 2 * reach)
                levels.setdefault(level, []).append(np.stack([firsts[at], firsts[at + reach]]))
                level += 1
        left, right = _tiles([np.concatenate(levels[k], 1) for k in sorted(levels)], tree.n)
        head = tree.path_list[tree.path_start[paths]]
        rounds.append(
            PathRound(
                _chunks(inner, beyond),
                _chunks(last, [-1] * len(last)),
                left,
                right,
                head,
                tree.parent[head].astype(np.int64),
                np.flatnonzero(tree.parent[head] >= 0),
            )
        )
    return jax.tree.map(lambda x: x.astype(np.int32), tuple(rounds))


class RoundFactors(NamedTuple):
    """The values that a round keeps for the disassembly."""

    inner: Recursive
    last: Recursive
    system: Subsystem  # of the chunks, by body
    joined: Any
    heads: Junction
    head_b1: Any


def _take(bodies: JointedBodies, chunks: Chunks) -> tuple[JointedBodies, Any]:
    index = jnp.maximum(chunks.body, 0)
    taken = JointedBodies(*(x[index] for x in bodies[:-1]), gravity=bodies.gravity)
    return taken, jnp.asarray(chunks.body >= 0)


def _joint(bodies: JointedBodies, index: Any) -> JointMotion:
    return JointMotion(bodies.P[index], bodies.tau[index], bodies.armature[index])


def _assemble(bodies: JointedBodies, turn: PathRound) -> RoundFactors:
    """Chunk equations, then pairs, level by level (eq. 37 – 42), then the joints of the heads."""
    n, batch = bodies.I.shape[:2]
    dtype = bodies.I.dtype
    six, one = jnp.zeros((n + 1, batch, 6, 6), dtype), jnp.zeros((n + 1, batch, 6), dtype)
    system = Subsystem(
        six + jnp.eye(6, dtype=dtype), six, six, six, one, one
    )  # padding that is not a pair can be joined without harm
    taken, valid = _take(bodies, turn.inner)
    X_next = bodies.X[jnp.maximum(turn.inner.beyond, 0)]
    inner = forward(taken, valid, transpose(X_next))
    if turn.inner.body.shape[1]:
        found = equations(taken, valid, X_next, bodies.c[jnp.maximum(turn.inner.beyond, 0)], inner)
        system = Subsystem(*(s.at[turn.inner.body[0]].set(x) for s, x in zip(system, found, strict=True)))
    taken, valid = _take(bodies, turn.last)
    last = forward(taken, valid, jnp.zeros_like(taken.I[0]))
    phi11, b1 = terminal_equations(last)
    first = turn.last.body[0]
    system = system._replace(phi11=system.phi11.at[first].set(phi11), b1=system.b1.at[first].set(b1))

    def pair(whole: Subsystem, sides: Any) -> tuple[Subsystem, Any]:
        left, right = sides

        def side(index: Any) -> Subsystem:
            return Subsystem(*(x.at[index].get(mode="promise_in_bounds") for x in whole))

        made, kept = join(side(left), side(right), _joint(bodies, jnp.minimum(right, n - 1)))
        return Subsystem(*(x.at[left].set(m) for x, m in zip(whole, made, strict=True))), kept

    whole, joined = scan(pair, system, (jnp.asarray(turn.left), jnp.asarray(turn.right)))
    heads = junction(whole.phi11[turn.head], _joint(bodies, turn.head))
    return RoundFactors(inner, last, system, joined, heads, whole.b1[turn.head])


def _absorb(bodies: JointedBodies, turn: PathRound, solved: RoundFactors) -> JointedBodies:
    """Add branches, as articulated inertias, to the bodies that they hang from."""
    hangs = turn.hangs
    head, parent = turn.head[hangs], turn.parent[hangs]
    at = Junction(*(x[hangs] for x in solved.heads))
    X, W = bodies.X[head], at.W
    force = times(W, solved.head_b1[hangs] - bodies.c[head]) + times(at.K, at.D_tau)
    I = -(transpose(X) @ W @ X)
    return bodies._replace(
        I=bodies.I.at[parent].add(0.5 * (I + transpose(I))), p=bodies.p.at[parent].add(times(transpose(X), force))
    )


def _take_apart(bodies: JointedBodies, turn: PathRound, solved: RoundFactors, a: Any, u: Any) -> tuple[Any, Any]:
    """Forces at all handles, from the whole assembly to chunks (eq. 23, 26), then inside; `a` has the base last."""
    n, batch = bodies.I.shape[:2]
    reached = times(bodies.X[turn.head], a[turn.parent]) + bodies.c[turn.head]
    difference = solved.head_b1 - reached
    f = jnp.zeros((n + 1, batch, 6), bodies.I.dtype)
    f1, f2 = f.at[turn.head].set(solved.heads.force(difference)), f
    u = u.at[turn.head].set(solved.heads.rate(difference))

    def pair(forces: Any, kept: Any) -> tuple[Any, Any]:
        f1, f2 = forces
        left, right, joined = kept
        outer = f2.at[left].get(mode="promise_in_bounds")
        rate, force = separate(joined, f1.at[left].get(mode="promise_in_bounds"), outer)
        return (f1.at[right].set(force), f2.at[right].set(outer).at[left].set(-force)), rate

    turns = (jnp.asarray(turn.left), jnp.asarray(turn.right), solved.joined)
    (f1, f2), rates = scan(pair, (f1, f2), turns, reverse=True)
    u = u.at[turn.right].set(rates, mode="drop")
    s = solved.system
    first_a = times(s.phi11, f1) + times(s.phi12, f2) + s.b1
    for chunks, every in ((turn.inner, solved.inner), (turn.last, solved.last)):
        taken, valid = _take(bodies, chunks)
        rates, moved = solution(taken, valid, every, first_a[chunks.body[0]], f2[chunks.body[0]])
        a, u = _put(a, chunks.body, moved), _put(u, chunks.body[1:], rates[1:])
    return a, u


def _put(whole: Any, index: Any, part: Any) -> Any:
    """`whole` with `part` written into it; entries with the index −1 are left out."""
    return whole.at[jnp.where(index >= 0, index, whole.shape[0])].set(part, mode="drop")


@jax.jit
def _divide_and_conquer(laid: Layout, model: Model, rounds: tuple, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    bodies = jointed_bodies(laid, model, q, qd, tau, f_ext)
    kept = []
    for turn in rounds:
        kept.append((bodies, _assemble(bodies, turn)))
        bodies = _absorb(bodies, turn, kept[-1][1])
    n, batch = bodies.I.shape[:2]
    a = jnp.zeros((n + 1, batch, 6), q.dtype).at[n].set(bodies.gravity)
    u = jnp.zeros_like(bodies.tau)
    for turn, (bodies, solved) in zip(reversed(rounds), reversed(kept), strict=True):
        a, u = _take_apart(bodies, turn, solved, a, u)
    return joint_acceleration(by_dof(model.structure, u), velocity_product_shift(model.structure, qd.T).T)


def divide_and_conquer(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, chunks: int | None, balance: float) -> Any:
    """Accelerations, (batch, nv); `chunks` to a path, None for chunks of one body."""
    laid = layout(model.tree, "paths")
    return _divide_and_conquer(laid, model, plan(model.structure, chunks, balance), q, qd, tau, f_ext)


def forward_dynamics_dca(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv)."""
    require_inertias(model, "dca")
    return divide_and_conquer(model, q, qd, tau, f_ext, None, 1.0)


def forward_dynamics_dcae(
    model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, chunks: int = 16, balance: float = 2.0
) -> Any:
    """Accelerations, (batch, nv); up to `chunks` to a path, the terminal one `balance` times (1 to 4) as long as the
    others.
    """
    if chunks < 1:
        raise ValueError(f"dcae needs at least one chunk, not {chunks}")
    if not 1 <= balance <= 4:
        raise ValueError(f"balance is between 1 and 4, not {balance}")
    require_inertias(model, "dcae")
    return divide_and_conquer(model, q, qd, tau, f_ext, int(chunks), float(balance))
