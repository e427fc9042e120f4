"""How points of contact that are searched for move with their shapes: against differences, natively, in both modes."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.constrain.agreement import compiled, ours

SCENE = """<mujoco><worldbody><geom type="box" size=".2 .25 .3"/>
<body><freejoint/><geom {shape}/></body></worldbody></mujoco>"""
FACE, EDGE, CORNER = (0.05, -0.04, 0.3), (0.2, 0.03, 0.3), (0.2, 0.25, 0.3)  # where on the box
BOX, ELLIPSOID = 'type="box" size=".2 .25 .3"', 'type="ellipsoid" size=".2 .3 .15"'


@pytest.mark.parametrize(
    ("shape", "at", "step"),
    [
        pytest.param(BOX, FACE, 1e-6, marks=pytest.mark.thorough),
        (BOX, EDGE, 1e-6),
        pytest.param(ELLIPSOID, FACE, 1e-4, marks=pytest.mark.thorough),
        (ELLIPSOID, CORNER, 1e-4),
    ],
)
def test_against_differences(shape, at, step, monkeypatch):
    """A turned box or ellipsoid, pushed into a box at a face, an edge or a corner."""

    def refuse(*_):
        raise AssertionError("contacts by XLA")

    monkeypatch.setattr(sys.modules["kinetree.constrain.touch"], "_by_xla", refuse)
    model = ours(compiled(SCENE.format(shape=shape)))
    rng = np.random.default_rng(3)
    turn = rng.standard_normal(4)
    way = np.array(at) * (np.abs(at) > 0.1)
    way = way / np.linalg.norm(way)
    low, high = 0.0, 1.0  # how far the other shape is out, by halves until they overlap by a millimetre

    def placed(far):
        return np.concatenate([np.array(at) + far * way, turn / np.linalg.norm(turn)])

    for _ in range(30):
        middle = (low + high) / 2
        deep = np.where((found := kt.contacts(model, placed(middle))).active, found.depth, -1).max() > 1e-3
        low, high = (middle, high) if deep else (low, middle)
    q = jnp.asarray(placed(low))
    active = np.asarray(kt.contacts(model, q).active)
    assert active.sum() == 1

    def point(x):
        found = kt.contacts(model, kt.integrate(model, q, x, 1.0))
        whole = found.position, found.frame.reshape(*found.frame.shape[:-2], 9), found.depth[..., None]
        return jnp.concatenate(whole, -1)[np.flatnonzero(active)[0]]

    slopes = jax.jit(jax.jacfwd(point))(jnp.zeros(6))
    np.testing.assert_allclose(jax.jit(jax.jacrev(point))(jnp.zeros(6)), slopes, atol=1e-12)
    value = jax.jit(point)
    for k, unit in enumerate(np.eye(6)):
        wanted = (value(step * unit) - value(-step * unit)) / (2 * step)
        np.testing.assert_allclose(slopes[:, k], wanted, rtol=1e-6, atol=1e-6 if step < 1e-5 else 2e-4)


def depth(model, q):
    return kt.contacts(model, q).depth.sum()


def force(model, q):
    return kt.constrained_inverse_dynamics(model, q, jnp.zeros(6), jnp.zeros(6)).sum()


@pytest.mark.parametrize("function", [depth, pytest.param(force, marks=pytest.mark.thorough)])
def test_second_derivatives_are_refused(function):
    """How a point moves is a known number in first derivatives, so second ones would lack a part."""
    slope = jax.grad(partial(function, ours(compiled(SCENE.format(shape=ELLIPSOID)))))
    q = jnp.array([0.05, -0.04, 0.4, 1, 0, 0, 0])
    assert np.isfinite(slope(q)).all()
    for outer in (jax.jacfwd, jax.jacrev):
        with pytest.raises(NotImplementedError, match="second derivatives"):
            outer(slope)(q)


ASSET = """<asset><mesh name="m" vertex=".2 .25 .3 -.2 .25 .3 .2 -.25 .3 -.2 -.25 .3
  .25 .3 -.3 -.25 .3 -.3 .25 -.3 -.3 -.25 -.3 -.3"/></asset>"""
MESH, CYLINDER = 'type="mesh" mesh="m"', 'type="cylinder" size=".2 .3"'


@pytest.mark.parametrize(
    ("below", "above"),
    [
        (MESH, MESH),
        pytest.param(BOX, BOX, marks=pytest.mark.thorough),
        pytest.param(BOX, MESH, marks=pytest.mark.thorough),
        pytest.param(BOX, CYLINDER, marks=pytest.mark.thorough),
    ],
)
def test_points_that_sides_cut_out(below, above):
    """Two faces that are not quite parallel, one turned over the side of the other: each point slides as it should."""
    scene = SCENE.replace("<worldbody>", ASSET + "<worldbody>").replace(BOX, below)
    model = ours(compiled(scene.format(shape=above)))
    q = jnp.array([0.12, -0.07, 0.585, np.cos(0.2), 0.008, 0.004, np.sin(0.2)])  # 0.4 rad about z, 1 degree off
    active = np.flatnonzero(np.asarray(kt.contacts(model, q).active))
    assert len(active) > 2

    def points(x):
        found = kt.contacts(model, kt.integrate(model, q, x, 1.0))
        whole = found.position, found.frame[..., 0, :], found.depth[..., None]
        return jnp.concatenate(whole, -1)[active]

    slopes, value, step = jax.jit(jax.jacfwd(points))(jnp.zeros(6)), jax.jit(points), 1e-6
    for k, unit in enumerate(np.eye(6)):
        wanted = (value(step * unit) - value(-step * unit)) / (2 * step)
        np.testing.assert_allclose(slopes[..., k], wanted, atol=1e-8)
