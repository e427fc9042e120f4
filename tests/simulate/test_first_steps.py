"""What a first step makes."""

import sys

import jax
import jax.numpy as jnp
import pytest

import kinetree as kt
from kinetree.simulate.native import stepper_for

ARM = """<mujoco><worldbody><body><joint axis="0 1 0" range="-20 20" limited="true"/>
  <geom type="capsule" size=".05 .2"/></body></worldbody></mujoco>"""


def test_steps_of_plain_arrays_make_no_tables_of_derivatives(monkeypatch):
    """They took longer than all other tables of a first step."""

    def refused(*_):
        raise AssertionError("tables of derivatives")

    model = kt.load(ARM)
    monkeypatch.setattr(sys.modules[stepper_for.__module__.replace("choose", "stepper")], "slopes_of", refused)
    state = kt.initial_state(model, batch=5)
    kt.advance(model, state)
    kt.advance(model, jax.tree.map(jnp.asarray, state))
    with pytest.raises(AssertionError, match="tables of derivatives"):
        jax.grad(lambda qd: kt.advance(model, state.replace(qd=qd)).q.sum())(jnp.asarray(state.qd))
