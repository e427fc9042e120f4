"""The articulated-body algorithm under every schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.aba import ABA
from kinetree.dynamics.elements.articulated import Articulated, pivot
from kinetree.dynamics.elements.articulated_element import _symmetric, ballast_of, combine_elements, no_rows
from kinetree.dynamics.recursion import Row
from kinetree.model import Axis
from kinetree.spatial import Force, Inertia, Motion, Rotation, Sym3, Transform, Vec3
from tests.reference import dense, generate
from tests.second import second

from .forward import check_mechanism, distance, error, long_chain, long_chain_error, mechanism


@pytest.mark.parametrize("shape", generate.SHAPES)
def test_mixed_trees_in_lanes(shape):
    check_mechanism(14, shape, method="aba", schedule="lanes")


@pytest.mark.parametrize("kind", [k for k in generate.KINDS if k != "fixed"])
def test_every_joint_in_lanes(kind):
    check_mechanism(3, "chain", (kind,), method="aba", schedule="lanes")


@pytest.mark.parametrize(("shape", "schedule"), [second("random", "levels"), second("random", "sequential")])
def test_mixed_trees_in_xla(shape, schedule):
    check_mechanism(14, shape, method="aba", schedule=schedule)


def test_long_mixed_chain_by_paths():
    """Lanes end within joints of several degrees of freedom, on rows without inertia."""
    check_mechanism(150, "chain", method="aba", schedule="paths")


@pytest.mark.usefixtures("full_compilation")
def test_long_chain_by_paths():
    """Against the algorithm in plain 6 by 6 float64 matrices, row by row, as spatial_v2 has it, and against our lanes.

    The first is off by 2e-11 or more in every state, lanes and paths by 4e-13 or less.
    """
    n, seeds = 16384, range(2)
    by_paths = np.array([long_chain_error(n, k, method="aba", schedule="paths") for k in seeds])
    in_lanes = np.array([long_chain_error(n, k, method="aba", schedule="lanes") for k in seeds])
    rounded = generate.auto_tree(n, 1, 0.3, dtype=float)
    plain = [distance(dense.aba(rounded, s.q, s.qd, s.tau), exact) for _, s, exact in (long_chain(n, k) for k in seeds)]
    assert by_paths.max() < 1e-12
    assert (by_paths < 0.1 * np.array(plain)).all()
    assert by_paths.mean() <= in_lanes.mean()


def test_massless_leaf_has_no_answer():
    model = kt.Model.from_arrays([-1], "Rz", np.eye(6)[None], np.zeros((1, 6, 6)), allow_massless_leaves=True)
    for schedule in ("lanes", "levels"):
        with pytest.raises(ValueError, match="not positive definite"):
            kt.forward_dynamics(model, np.zeros(1), np.zeros(1), np.ones(1), schedule=schedule)


def test_euler_is_refused():
    _, model, s = mechanism(14, "random")
    with pytest.raises(ValueError, match="needs sums that commute, which 'body' does not state"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau, method="aba", schedule="euler")


def random_rows(rng, n):
    """Rows of real bodies with components of shape (n,)."""
    quaternion = rng.standard_normal((n, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    E = Rotation.from_array(dense.rotation_of_quaternion(quaternion))
    I = Inertia.from_matrix(generate._random_inertias(rng, n, float)).articulated()

    def six(kind):
        return kind.from_array(rng.standard_normal((n, 6)))

    return Row(
        at=Transform(E, Vec3.from_array(rng.standard_normal((n, 3)))),
        axis=Axis(np.ones(n), rng.standard_normal(n)),
        armature=np.zeros(n),
        own=Articulated(jax.tree.map(jnp.asarray, I), six(Force), None),  # no scale, which obeys no law
        v=six(Motion),
        qd=rng.standard_normal(n),
        tau=rng.standard_normal(n),
    )


def close(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


def test_laws_of_articulated_elements():
    rng = np.random.default_rng(0)
    one, two, three, load = (random_rows(rng, 4) for _ in range(4))
    nothing = Articulated.zero_like(one.tau)
    visit, op = ABA.passes[1].visit, ABA.passes[1].stretch

    def step(row, received):
        return visit(row, row.own + received)[0]

    state = step(load, nothing)
    a, b, c = (op.element(row, row.own) for row in (one, two, three))
    close(op.act(a, state), step(one, state))
    close(op.passed(a), step(one, nothing))
    close(op.act(op.element(one, one.own + state), nothing), step(one, state))
    close(op.act(op.combine(a, b), state), op.act(a, op.act(b, state)))
    close(op.combine(op.combine(a, b), c), op.combine(a, op.combine(b, c)))
    close(op.extend(one, one.own + state, b), op.combine(op.element(one, one.own + state), b))
    close(op.combine_components(a, b), op.combine(a, b))
    close(op.combine(op.identity(one.tau), a), a)
    close(op.combine(a, op.identity(one.tau)), a)
    close(op.act(op.lend(a, state), state), state + op.act(a, state))


def test_laws_of_accelerations():
    rng = np.random.default_rng(0)

    def jointed():
        row = random_rows(rng, 4)
        return Row({**row, "joint": pivot(row.axis, row.armature, row.tau, row.own)})

    one, two = jointed(), jointed()
    visit, op, state = ABA.passes[2].visit, ABA.passes[2].stretch, random_rows(rng, 4).v
    a, b = op.element(one), op.element(two)
    close(op.act(a, state), visit(one, state)[0])
    close(op.act(op.combine(a, b), state), op.act(b, op.act(a, state)))
    close(op.extend(a, two), op.combine(a, b))
    close(op.combine(op.identity(one.tau), a), a)


def test_ballast_is_only_lent_where_needed():
    """A thin rod does not resist turning about itself: it lends the mean of its lane; a full body lends nothing."""
    rng = np.random.default_rng(0)
    lane = jax.tree.map(lambda x: jnp.asarray(x)[:, None], random_rows(rng, 5))

    def lent_by(rows):
        return ballast_of(*(jax.tree.map(choose, rows) for choose in (lambda x: x[-1], lambda x: x.mean(0))))

    assert all(not x.any() for x in jax.tree.leaves(lent_by(lane.own.inertia)))
    thin = lane.own.inertia._replace(A=Sym3(*(c.at[-1].set(0.0) for c in lane.own.inertia.A)))
    lent = lent_by(thin)
    assert float(lent.inertia.C.xx[0]) == pytest.approx(float(lane.own.inertia.C.xx.mean()))


def test_stretches_that_can_not_be_joined_without_pivoting():
    """C1 and J2 are positive definite, yet the first leading minor of 1 + C1 J2 is zero."""
    C1, J2 = np.eye(6), np.eye(6)
    C1[:2, :2], J2[:2, :2] = [[1, -2], [-2, 5]], [[1, 1], [1, 2]]
    assert np.linalg.eigvalsh(C1).min() > 0
    assert np.linalg.eigvalsh(J2).min() > 0
    assert (np.eye(6) + C1 @ J2)[0, 0] == 0
    e = no_rows(jnp.zeros(()))
    eta = Force.from_array(jnp.arange(1.0, 7.0))
    inner = e._replace(C=_symmetric(jnp.asarray(C1)))
    outer = e._replace(passed=Articulated(_symmetric(jnp.asarray(J2)), eta, None))
    both = combine_elements(inner, outer)
    assert error(both.passed.inertia.array(), np.linalg.inv(np.linalg.inv(J2) + C1)) < 1e-14
    assert error(both.C.array(), np.linalg.inv(np.linalg.inv(C1) + J2)) < 1e-14
    assert error(both.passed.bias.array(), np.linalg.solve(np.eye(6) + J2 @ C1, np.arange(1, 7))) < 1e-14
