"""Dense solves beside NumPy's and SciPy's, with their derivatives; and no call of LAPACK through XLA on a CPU."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import kinetree as kt
from kinetree.dynamics.matrices import dense
from kinetree.dynamics.schedules import tuning
from tests.second import few

SOURCES = Path(kt.__file__).parent
EPS = np.finfo(np.float64).eps


def positive(rng, *shape):
    """Symmetric positive definite matrices whose condition number is about 100."""
    Q = np.linalg.qr(rng.standard_normal(shape))[0]
    H = (Q * np.geomspace(0.1, 10, shape[-1])) @ np.swapaxes(Q, -1, -2)
    return 0.5 * (H + np.swapaxes(H, -1, -2))


def relative(x, reference):
    return np.abs(np.asarray(x) - reference).max() / np.abs(reference).max()


@few("n", [1, 7, 65, 128, 129, 300], [7, 128, 129])
def test_solve_positive_agrees_with_scipy(n):
    rng = np.random.default_rng(n)
    A, b = positive(rng, 3, n, n), rng.standard_normal((3, n))
    wanted = np.stack([scipy.linalg.solve(a, x, assume_a="pos") for a, x in zip(A, b, strict=True)])
    bound = 100 * n * EPS  # the condition number, and n roundings to an entry
    assert relative(dense.solve_positive(jnp.asarray(A), jnp.asarray(b)), wanted) < bound
    assert relative(dense.solve_positive(A, b), wanted) < bound


def test_solve_positive_takes_float32_and_keeps_it():
    rng = np.random.default_rng(0)
    A, b = positive(rng, 2, 5, 5).astype(np.float32), rng.standard_normal((2, 5)).astype(np.float32)
    wanted = np.linalg.solve(A.astype(float), b[..., None].astype(float))[..., 0]
    for x in (dense.solve_positive(A, b), dense.solve_positive(jnp.asarray(A), jnp.asarray(b))):
        assert x.dtype == np.float32
        assert relative(x, wanted) < 100 * 5 * np.finfo(np.float32).eps


@pytest.mark.parametrize("n", [3, 130])
def test_a_matrix_that_is_not_positive_gives_nan_in_its_own_state_only(n):
    A = np.stack([np.eye(n), np.diag(np.where(np.arange(n) == n // 2, -1.0, 1.0))])
    x = np.asarray(dense.solve_positive(jnp.asarray(A), jnp.ones((2, n))))
    assert np.isfinite(x[0]).all()
    assert np.isnan(x[1]).any()
    if n <= tuning.DENSE_LANES_MAX_ROWS:
        assert np.isnan(dense.solve_positive(A, np.ones((2, n)))[1]).any()


@pytest.mark.parametrize("n", [5, 130])
def test_derivatives_of_solve_positive(n):
    rng = np.random.default_rng(1)
    A, b = positive(rng, 1, n, n), rng.standard_normal((1, n))
    dA, db, w = positive(rng, 1, n, n), rng.standard_normal((1, n)), rng.standard_normal((1, n))
    x = np.linalg.solve(A[0], b[0])
    dx = np.linalg.solve(A[0], db[0] - dA[0] @ x)
    _, tangent = jax.jvp(dense.solve_positive, (A, b), (dA, db))
    assert relative(tangent[0], dx) < 1e-10
    of_A, of_b = jax.grad(lambda A, b: (dense.solve_positive(A, b) * w).sum(), (0, 1))(jnp.asarray(A), jnp.asarray(b))
    assert relative((of_A * dA).sum() + (of_b * db).sum(), (w[0] * dx).sum()) < 1e-10


def test_solve_positive_under_vmap_and_jit():
    rng = np.random.default_rng(2)
    A, b = positive(rng, 4, 3, 6, 6), rng.standard_normal((4, 3, 6))
    x = jax.jit(jax.vmap(dense.solve_positive))(A, b)
    assert relative(x, np.linalg.solve(A, b[..., None])[..., 0]) < 1e-12
    many = jax.vmap(dense.solve_positive, (None, 0))(jnp.asarray(A[0]), b)
    assert relative(many, np.linalg.solve(A[0], b[..., None])[..., 0]) < 1e-12


@few("n", [1, 64, 100, 300], [1, 100])
def test_cholesky_agrees_with_numpy(n):
    A = positive(np.random.default_rng(n), 2, n, n)
    assert relative(jax.jit(dense.cholesky)(A), np.linalg.cholesky(A)) < 100 * n * EPS


def test_pivots_multiply_to_the_determinant():
    A = positive(np.random.default_rng(4), 3, 9, 9)
    assert relative(np.prod(dense.pivots(jnp.asarray(A)), -1), np.linalg.det(A)) < 1e-12


def test_general_solve_pivots():
    rng = np.random.default_rng(3)
    A, B = rng.standard_normal((50, 6, 6)), rng.standard_normal((50, 6, 4))
    A[:10] = np.eye(6)[[1, 2, 3, 4, 5, 0]]  # every leading minor vanishes
    x = jax.jit(dense.solve_general)(A, B)
    wanted = np.linalg.solve(A, B)
    bound = 100 * EPS * np.linalg.cond(A).max()
    assert relative(x, wanted) < bound
    w = rng.standard_normal(B.shape)
    of_A, of_B = jax.grad(lambda A, B: (dense.solve_general(A, B) * w).sum(), (0, 1))(jnp.asarray(A), jnp.asarray(B))
    back = np.linalg.solve(np.swapaxes(A, -1, -2), w)
    assert relative(of_B, back) < bound
    assert relative(of_A, -back @ np.swapaxes(wanted, -1, -2)) < 100 * bound


def test_solve_of_positive_stacks():
    rng = np.random.default_rng(4)
    A, B = positive(rng, 5, 2, 6, 6), rng.standard_normal((5, 2, 6, 3))
    assert relative(dense.solve_spd(jnp.asarray(A), jnp.asarray(B)), np.linalg.solve(A, B)) < 1e-12


def test_orthonormal_basis_completes_columns():
    rng = np.random.default_rng(5)
    P = rng.standard_normal((4, 6, 3))
    P[1, :, 2] = P[2, :, 1:] = P[3] = 0
    Q = np.asarray(dense.orthonormal_basis(jnp.asarray(P)))
    assert np.abs(np.swapaxes(Q, -1, -2) @ Q - np.eye(6)).max() < 1e-14
    for k, used in enumerate((3, 2, 1, 0)):
        assert np.abs(Q[k][:, used:].T @ P[k]).max(initial=0) < 1e-14
    slope = jax.grad(lambda P: dense.orthonormal_basis(P)[..., 5].sum())(jnp.asarray(P))
    assert np.isfinite(slope).all()


def test_only_this_file_names_the_linear_algebra_of_jax():
    """Batched LAPACK calls of jaxlib wait for each other for ever on two cores."""
    named = re.compile(r"\b(?:jnp|jax\.numpy|jax\.scipy|jsp|lax)\.linalg\b|import linalg\b")
    found = [p.name for p in SOURCES.rglob("*.py") if named.search(p.read_text())]
    assert found == ["dense.py"]


@pytest.mark.cpu
@pytest.mark.parametrize("n", [7, tuning.DENSE_LANES_MAX_ROWS + 1])
def test_compiled_text_calls_no_lapack_on_a_cpu(n):
    """Other devices' branches name it; none of that may be left in what a CPU runs, nor in derivatives."""
    A, b = jnp.asarray(positive(np.random.default_rng(0), 3, n, n)), jnp.ones((3, n))

    def text(function):
        return jax.jit(function).lower(A, b).compile().as_text().lower()

    assert "lapack" in text(lambda A, b: jnp.linalg.cholesky(A))  # how it would look
    stacks = [lambda A, b, f=f: f(A, b[..., None]) for f in (dense.solve_spd, dense.solve_general)] if n < 10 else []
    for function in (dense.solve_positive, lambda A, b: dense.cholesky(A), *stacks):
        assert "lapack" not in text(function)
        assert "lapack" not in text(jax.grad(lambda A, b, f=function: f(A, b).sum()))


SIDE_BY_SIDE = """
    import sys, threading
    import numpy as np
    import kinetree as kt
    model = kt.load(sys.argv[1])
    q, qd = kt.random_state(model, 0, batch=(512,))
    results = [[], []]
    def work(mine):
        for _ in range(6):
            mine.append(kt.forward_dynamics_derivatives(model, q, qd, qd)[2])
    work(results[0][:0])  # compile once
    threads = [threading.Thread(target=work, args=(mine,)) for mine in results]
    for t in threads: t.start()
    for t in threads: t.join()
    H = kt.mass_matrix(model, q)
    assert all(np.abs(H @ x - np.eye(model.nv)).max() < 1e-9 for mine in results for x in mine)
    print("returned")
"""


def test_derivatives_of_a_coupled_robot_return_on_two_threads():
    """jaxlib's batched solves did not, in most runs by the second call; here after twelve, on two threads."""
    pin = pytest.importorskip("pinocchio")  # brings the file
    path = Path(pin.__file__).parents[4] / "share/example-robot-data/robots/panda_description/urdf/panda.urdf"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SIDE_BY_SIDE), str(path)],
        capture_output=True, text=True, timeout=300,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )  # fmt: skip
    assert "returned" in done.stdout, done.stderr
