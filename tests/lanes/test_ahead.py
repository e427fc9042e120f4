"""Sines that are computed ahead of the turns that need them: which steps are split, and that nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes.cpu.ahead import TURNS, split


def parts(step, known):
    closed = jax.make_jaxpr(step)(*[0.5] * 3)
    return closed, split(closed, known)


def evaluated(step, given):
    found = dict(zip(step.jaxpr.invars, given, strict=True))

    def value(v):
        return v.val if hasattr(v, "val") else found[v]

    for e in step.jaxpr.eqns:
        found[e.outvars[0]] = e.primitive.bind(*map(value, e.invars), **e.params)
    return [value(v) for v in step.jaxpr.outvars]


def test_a_split_step_computes_the_same():
    closed, found = parts(lambda a, q, x: (x + jnp.sin(a * q), -jnp.cos(a * q) * x), 2)
    ahead, rest = found
    given = [1.0, 0.3, 2.0]
    sines = evaluated(ahead, given[:2])
    assert [e.primitive.name for e in ahead.jaxpr.eqns] == ["mul", "sin", "mul", "cos"]
    assert not {"sin", "cos"} & {e.primitive.name for e in rest.jaxpr.eqns}
    assert evaluated(rest, given + sines) == jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *given)


@pytest.mark.parametrize(
    "step",
    [
        lambda a, q, x: a * q + x,  # no sine
        lambda a, q, x: jnp.sin(a * x),  # of a slot
        lambda a, q, x: jnp.sin(a + q),  # A sum may be fused otherwise, where it stands alone.
    ],
)
def test_what_is_not_split(step):
    assert parts(step, 2)[1] is None


@pytest.mark.parametrize("rows", [1, TURNS - 1, TURNS, TURNS + 1, 2 * TURNS + 5])
def test_turns_in_several_parts(rows):
    """Batches of chains, with an angle too large for the short reduction, against one state at a time in XLA."""
    model = kt.auto_tree(rows, 1.0, 0.3)
    q, qd, qdd = np.random.default_rng(rows).standard_normal((3, 9, rows))
    q[3, rows // 2] += 2e6 * np.pi
    tau = kt.inverse_dynamics(model, q, qd, qdd)
    expected = kt.inverse_dynamics(model, jnp.asarray(q), qd, qdd, schedule="sequential")
    np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
