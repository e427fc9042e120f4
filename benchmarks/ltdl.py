"""What the sparsity of a robot's tree saves: LᵀDL and its solve against a dense Cholesky of the same H.

Featherstone gives about a factor of 4 for a typical humanoid or quadruped. Times are
processor time of all threads, which neighbours on a busy machine disturb less. Run: python benchmarks/ltdl.py
"""

from time import process_time

import jax

jax.config.update("jax_enable_x64", True)

import jax.scipy.linalg as linalg  # noqa: E402
import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import kinetree as kt  # noqa: E402
from kinetree import theory  # noqa: E402
from kinetree.cli.bench import best_time  # noqa: E402
from kinetree.dynamics.matrices.ltdl_lanes import FACTORIZE, SOLVE  # noqa: E402

SECONDS = 0.3


def limbs(base: list[int], *branches: tuple[int, int]) -> list[int]:
    """Parents of a base and of limbs, each (row it hangs from, length)."""
    parent = list(base)
    for root, length in branches:
        start = len(parent)
        parent += [root, *range(start, start + length - 1)]
    return parent


FREE = list(range(-1, 5))  # the six rows of a floating base
SHAPES = {
    "quadruped, 4 legs of 3": limbs(FREE, *[(5, 3)] * 4),
    "humanoid, legs of 6, waist of 3, arms of 7, neck of 2": limbs(
        [*FREE, 5, 6, 7], (8, 7), (8, 7), (8, 2), (5, 6), (5, 6)
    ),
    "chain of 30": limbs([-1], (0, 29)),
}


def model_of(parent: list[int]) -> kt.Model:
    """Rods on hinges in turn about x, y, z: the shape is what matters."""
    n = len(parent)
    x_tree = np.stack([np.eye(6)] * n)
    x_tree[:, 3:, :3] = -np.array([[0, 0, 0], [0, 0, -0.3], [0, 0.3, 0]])
    body = np.array([1, 0.15, 0.02, 0.01, 0.02, 0.05, 0.05, 0, 0, 0])
    return kt.Model.from_arrays(parent, ["Rx", "Ry", "Rz"] * (n // 3) + ["Rz"] * (n % 3), x_tree, np.tile(body, (n, 1)))


@jax.jit
def cholesky_solve(H: jax.Array, b: jax.Array) -> jax.Array:
    """The dense way, batched by XLA, LAPACK's potrf and trsm below it."""
    return linalg.cho_solve((jax.numpy.linalg.cholesky(H), True), b[..., None])[..., 0]


def main() -> None:
    """Print counts and times."""
    table = Table(title="H⁻¹ b: microseconds a state, and how many times LᵀDL is better")
    for column in (
        "tree",
        "n",
        "states",
        "LᵀDL",
        "Cholesky + solve (XLA)",
        "factor only (NumPy)",
        "times, XLA",
        "times, operations",
    ):
        table.add_column(column)
    for name, parent in SHAPES.items():
        model = model_of(parent)
        tree, n = model.tree, model.nv
        sparse = theory.ltdl(tree).plus(theory.ltdl_solve(tree)).total
        full = theory.ldlt(n).plus(theory.ldlt_solve(n)).total
        for states in (1, 1024, 16384):
            rng = np.random.default_rng(0)
            q, b = rng.uniform(-1, 1, (2, states, n))
            packed = kt.mass_matrix(model, q, packed=True, schedule="lanes")
            H, values = packed.dense(), packed.values
            H_jax, b_jax = jax.numpy.asarray(H), jax.numpy.asarray(b)
            ours = best_time(lambda v=values, b=b, t=tree: SOLVE(t, FACTORIZE(t, v), b), SECONDS, process_time)
            xla = best_time(lambda H=H_jax, b=b_jax: cholesky_solve(H, b), SECONDS, process_time)
            numpy = best_time(lambda H=H: np.linalg.cholesky(H), SECONDS, process_time)
            each = [f"{1e6 * t / states:.3g}" for t in (ours, xla, numpy)]
            table.add_row(name, str(n), str(states), *each, f"{xla / ours:.2g}", f"{full / sparse:.2g}")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
