"""LᵀDL in place, and its solves, as lane programs: a lane has one packed H, and walks triples and pairs of its tree.

Featherstone's loops (slide "Sparse Factorization"), k from the last row to the first, i and j over its ancestors:
    a = H_ki / H_kk;   H_ij −= H_kj a  for all j from i up;   H_ki = a
There is one turn for each triple (k, i, j). The turn j = i divides by H_kk; the others divide by a slot that holds 1.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.lanes import NOTHING, NUMBER, Lane, Loop, Program, run, slot
from kinetree.lanes.program import xla
from kinetree.tree import Tree

Table = np.ndarray
MATRIX_IN, VECTOR_IN = 0, 1


class Places(NamedTuple):
    """Slots of a lane: the packed matrix, then a vector, then the number 1."""

    tree: Tree

    @property
    def vector(self) -> int:
        """First slot of the vector."""
        return self.tree.n_ancestor_pairs

    @property
    def one(self) -> int:
        """Slot of the number 1."""
        return self.vector + self.tree.n


class TableLoop(NamedTuple):
    """A loop and its table for a given tree."""

    loop: Loop
    table: Callable[[Places], Table]


def _strict_pairs(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place in the packed order, row and ancestor, of the pairs off the diagonal."""
    i, j = tree.ancestor_pairs
    place = np.flatnonzero(i != j)
    return place, i[place], j[place]


def elimination_turns(tree: Tree, one: int) -> Table:
    """(H_ki, H_kk or one, H_kj, H_ij) for all k descending, i and j ≥ i among its ancestors, j outward to the root.

    Slots are those of packed H, which comes first; `one` is the slot of the number 1.
    """
    start, depth = tree.ancestor_start, tree.depth.astype(np.int64)
    pair, k, i = _strict_pairs(tree)
    order = np.lexsort([pair, -k])
    pair, k, i = pair[order], k[order], i[order]
    count = depth[i] + 1  # j is i or one of its ancestors
    up = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)  # generations from i to j
    pair, k, i = (np.repeat(x, count) for x in (pair, k, i))
    return np.stack([pair, np.where(up == 0, start[k], one), pair + up, start[i] + up], -1)


def _eliminate(_: tuple, __: tuple, reads: tuple) -> tuple:
    h, pivot, other = reads
    a = h / pivot
    return (a,), (-(other * a),), ()


def _subtract_product(_: tuple, __: tuple, reads: tuple) -> tuple:
    return (), (-(reads[0] * reads[1]),), ()


def _lt_pairs(p: Places) -> Table:
    """(L_kj, x_k, x_j), k descending."""
    place, k, j = (x[::-1] for x in _strict_pairs(p.tree))
    return np.stack([place, p.vector + k, p.vector + j], -1)


def _l_pairs(p: Places) -> Table:
    """(L_ij, x_j, x_i), i ascending."""
    place, i, j = _strict_pairs(p.tree)
    return np.stack([place, p.vector + j, p.vector + i], -1)


def _diagonal(p: Places) -> Table:
    rows = np.arange(p.tree.n)
    return np.stack([p.vector + rows, p.tree.ancestor_start[:-1]], -1)


def _consecutive(slots: int, count: int) -> Table:
    return np.stack([slots + np.arange(count), np.arange(count)], -1)


def _load(array: int, table: Callable[[Places], Table]) -> TableLoop:
    copy = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(slot(0),), inputs=(Lane(array, 1),))
    return TableLoop(copy, table)


def _store(table: Callable[[Places], Table]) -> TableLoop:
    return TableLoop(Loop(lambda _, __, x: ((), (), x), 2, NOTHING, reads=(slot(0),), outputs=(Lane(0, 1),)), table)


def _matrix(p: Places) -> Table:
    return _consecutive(0, p.tree.n_ancestor_pairs)


def _vector(p: Places) -> Table:
    return _consecutive(p.vector, p.tree.n)


ONE = TableLoop(Loop(lambda c, _, __: ((c,), (), ()), 1, NUMBER, writes=(slot(0),)), lambda p: np.array([[p.one]]))


def eliminate() -> Loop:
    """The loop over the turns of the elimination."""
    return Loop(_eliminate, 4, NOTHING, reads=(slot(0), slot(1), slot(2)), writes=(slot(0),), adds=(slot(3),))


ELIMINATE = TableLoop(eliminate(), lambda p: elimination_turns(p.tree, p.one))
_PRODUCT = Loop(_subtract_product, 3, NOTHING, reads=(slot(0), slot(1)), adds=(slot(2),))
LT_SOLVE, L_SOLVE = TableLoop(_PRODUCT, _lt_pairs), TableLoop(_PRODUCT, _l_pairs)
D_SOLVE = TableLoop(
    Loop(lambda _, __, x: ((x[0] / x[1],), (), ()), 2, NOTHING, reads=(slot(0), slot(1)), writes=(slot(0),)), _diagonal
)
LOAD_MATRIX, LOAD_VECTOR = _load(MATRIX_IN, _matrix), _load(VECTOR_IN, _vector)


class PackedProgram:
    """A lane program over packed matrices, (batch, pairs), and vectors, (batch, n)."""

    def __init__(
        self,
        name: str,
        *walks: TableLoop,
        inputs: int,
        output: Callable[[Places], Table] | None = None,
        width: Callable[[Places], int] | None = None,
    ):
        """`output` lists the slots of the result. Without it the walks write an output of this `width`."""
        self.walks = walks if output is None else (*walks, _store(output))
        self.width = width
        self.program = Program(name, tuple(w.loop for w in self.walks), inputs, 1)

    @lru_cache(maxsize=64)  # noqa: B019 - programs live as long as the process
    def tables(self, tree: Tree) -> tuple[Table, ...]:
        """Tables of all loops for one tree."""
        return tuple(w.table(Places(tree)).astype(np.int32) for w in self.walks)

    @lru_cache(maxsize=64)  # noqa: B019
    def constants(self, tree: Tree, dtype: Any) -> tuple[np.ndarray, ...]:
        """The only constant there is: 1, for the loop that has one."""
        counts = (w.loop.constants.num_leaves for w in self.walks)
        return tuple(np.ones((len(t), k), dtype) for t, k in zip(self.tables(tree), counts, strict=True))

    def __call__(self, tree: Tree, *inputs: Any, schedule: str = "lanes") -> Any:
        """The output, (batch, width), by the native body ("lanes") or by XLA's ("sequential")."""
        tables, constants = self.tables(tree), self.constants(tree, np.dtype(inputs[0].dtype))
        body = xla.run if schedule == "sequential" else run
        width = len(tables[-1]) if self.width is None else self.width(Places(tree))
        return body(self.program, Places(tree).one + 1, (width,), tables, constants, inputs)[0]


def _inversion(p: Places) -> Table:
    """(L_ik, V_kj, V_ij), i ascending, j from the root, k between them: V = −(L⁻¹ − 1) replaces L.

    V_ij = L_ij − Σ_k L_ik V_kj. The needed factors L_ik are nearer to i than j, so they are not yet replaced.
    """
    start, depth = p.tree.ancestor_start, p.tree.depth.astype(np.int64)
    pair, i, j = _strict_pairs(p.tree)
    order = np.lexsort([-pair, i])  # from the root
    pair, i, j = pair[order], i[order], j[order]
    between = depth[i] - depth[j] - 1
    up = np.arange(between.sum()) - np.repeat(np.cumsum(between) - between, between) + 1  # generations from i to k
    pair, i, j = (np.repeat(x, between) for x in (pair, i, j))
    k = p.tree.ancestor_pairs[1][start[i] + up].astype(np.int64)
    return np.stack([start[i] + up, start[k] + depth[k] - depth[j], pair], -1)


def _inverse_entries(p: Places) -> Table:
    """(V_ij, D_j, place in the dense matrix) off the diagonal."""
    place, i, j = _strict_pairs(p.tree)
    return np.stack([place, p.tree.ancestor_start[j], i * np.int64(p.tree.n) + j], -1)


def _inverse_diagonal(p: Places) -> Table:
    rows = np.arange(p.tree.n)
    return np.stack([p.tree.ancestor_start[:-1], rows * (p.tree.n + 1)], -1)


def _inverse_zeros(p: Places) -> Table:
    i, j = p.tree.ancestor_pairs
    empty = np.ones((p.tree.n, p.tree.n), bool)
    empty[i, j] = False
    return np.flatnonzero(empty)[:, None]


# W with H⁻¹ = W Wᵀ, (batch, n²): W = L⁻¹ D^(−1/2), zero above the diagonal.
INVERSE_FACTOR = PackedProgram(
    "ltdl_inverse",
    LOAD_MATRIX,
    ONE,
    ELIMINATE,
    TableLoop(_PRODUCT, _inversion),
    TableLoop(
        Loop(
            lambda _, __, x: ((), (), (-x[0] / jnp.sqrt(x[1]),)),
            3,
            NOTHING,
            reads=(slot(0), slot(1)),
            outputs=(Lane(0, 2),),
        ),
        _inverse_entries,
    ),
    TableLoop(
        Loop(lambda _, __, x: ((), (), (1.0 / jnp.sqrt(x[0]),)), 2, NOTHING, reads=(slot(0),), outputs=(Lane(0, 1),)),
        _inverse_diagonal,
    ),
    TableLoop(Loop(lambda _, __, ___: ((), (), (0.0,)), 1, NOTHING, outputs=(Lane(0, 0),)), _inverse_zeros),
    inputs=1,
    width=lambda p: p.tree.n**2,
)
FACTORIZE = PackedProgram("ltdl", LOAD_MATRIX, ONE, ELIMINATE, inputs=1, output=_matrix)
SOLVE = PackedProgram("ltdl_solve", LOAD_MATRIX, LOAD_VECTOR, LT_SOLVE, D_SOLVE, L_SOLVE, inputs=2, output=_vector)
SOLVE_LT = PackedProgram("ltdl_solve_lt", LOAD_MATRIX, LOAD_VECTOR, LT_SOLVE, inputs=2, output=_vector)
SOLVE_L = PackedProgram("ltdl_solve_l", LOAD_MATRIX, LOAD_VECTOR, L_SOLVE, inputs=2, output=_vector)


def triples(tree: Tree) -> int:
    """Multiplications of the elimination: Σ d (d + 1) / 2 over the rows, d their depths."""
    d = tree.depth.astype(np.int64)
    return int((d * (d + 1) // 2).sum())
