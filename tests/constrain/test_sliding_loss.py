"""Friction loss of free joints: along the world's axes, as MuJoCo's velocities are; with XLA and lanes."""

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.native import Plan
from tests.constrain.agreement import compiled, ours, relative, states
from tests.constrain.test_native_links import steps_agree

CLOSE = 1e-10  # relative, of MuJoCo
SCENE = """<mujoco><option timestep="0.004" gravity="0 0 -1"/><worldbody>
  <geom type="plane" size="5 5 .1" pos="0 0 -0.4"/>
  <body pos="0 0 0.1"><joint type="free" frictionloss="0.7" armature="0.1"/><geom type="box" size=".1 .2 .05"/>
    <body pos="0.1 0 0"><joint name="b" type="ball" frictionloss="0.05" damping="0.05"/>
      <geom type="capsule" size=".03 .1" mass="1"/></body></body>
  <body pos="1 0 0"><joint type="free" frictionloss="0.3" damping="0.2"/><geom size="0.1" pos="0.02 0.03 0"/></body>
  </worldbody><actuator><motor joint="b" gear="1 0.2 0.1"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def scene():
    m = compiled(SCENE)
    return m, ours(m)


def test_forces_are_mujocos(scene):
    m, model = scene
    assert "friction loss" not in str(kt.explain(model))
    s = states(m, model, count=12, every=15, push=2.0, seed=2)
    found = kt.constrained_dynamics(model, s.q, s.qd, s.tau)
    assert found.converged.all()
    assert relative(found.qdd, s.qdd) < CLOSE
    assert relative(found.tau_constraint, s.tau_constraint) < CLOSE
    back = kt.constrained_inverse_dynamics(model, s.q, s.qd, s.qdd)
    assert relative(back, s.tau) < 1e-8


@pytest.mark.thorough
def test_xla_finds_the_same(scene, monkeypatch):
    m, model = scene
    s = states(m, model, count=4, every=15, push=2.0, seed=2)
    monkeypatch.setenv("KINETREE_NATIVE", "0")
    found = kt.constrained_dynamics(model, s.q, s.qd, s.tau)
    assert relative(found.qdd, s.qdd) < CLOSE
    assert relative(found.tau_constraint, s.tau_constraint) < CLOSE


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_steps_are_mujocos(integrator):
    steps_agree(compiled(SCENE), integrator)


def test_rows_that_rub_along_other_axes_are_strings(scene):
    has = Plan(scene[1]).has
    assert len(has.sliding_loss) == 6
    assert len(has.loss) == 9
    assert not set(has.sliding_loss) & set(has.loss)


@pytest.mark.thorough
def test_slopes_know_how_the_axes_turn(scene):
    """The derivative by a turn of the body, against differences."""
    _, model = scene
    q, qd = kt.neutral(model), np.zeros(model.nv)
    qd[3:6] = 0.5, -0.3, 0.2
    way = np.zeros(model.nv)
    way[:3] = 0.3, 0.7, -0.4

    def found(t):
        return kt.constrained_dynamics(model, kt.integrate(model, q, way, t), qd, np.zeros(model.nv)).qdd[:6]

    slope = jax.jacfwd(found)(0.2)
    np.testing.assert_allclose(slope, (found(0.2 + 1e-6) - found(0.2 - 1e-6)) / 2e-6, rtol=1e-6, atol=1e-7)
