"""Derivatives of variational steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.simulate.robots import double_pendulum


def test_steps_have_reverse_mode():
    """By the implicit function theorem; `while_loop` alone has none."""
    model = double_pendulum()
    q, qd = kt.random_state(model, 1)
    weights = jnp.asarray(np.random.default_rng(2).standard_normal(4))

    def after(x):
        def controller(t, q, qd):
            return -x[-1] * qd

        return weights @ jnp.concatenate(kt.step(model, q, x[:2], 0.05, controller, integrator="variational"))

    x = jnp.append(jnp.asarray(qd), 0.3)
    value = jax.jit(jax.value_and_grad(after))
    slope = value(x)[1]
    for k in range(3):
        step = 1e-5 * jnp.eye(3)[k]
        assert float(slope[k]) == pytest.approx(float(value(x + step)[0] - value(x - step)[0]) / 2e-5, rel=1e-6)
