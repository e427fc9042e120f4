"""Constrained dynamics against MuJoCo: the minimum is unique, so whoever converges agrees."""

import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.constrain.agreement import compiled, errors, exact, ours, relative, states
from tests.constrain.scenes import scene
from tests.io.mujoco_agreement import model_files

CLOSE = 1e-10  # relative; both go on until nothing improves, and 1e-12 is what is found
QUICK = ("half_cheetah.xml", "humanoid.xml")

# point.xml is left out: its sphere is exactly at distance 0 of the floor, and rounding decides whether it touches.
FILES = {name.split("/")[1]: path for name, path in model_files().items() if "point" not in name}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.robots) for n in FILES])
def test_models_of_gymnasium(name):
    m = compiled(FILES[name])
    model = ours(m)
    found = errors(model, states(m, model, count=12, every=20))
    assert found["qdd"] < CLOSE
    assert found["tau_constraint"] < CLOSE
    assert found["inverse"] < CLOSE


@pytest.mark.parametrize("option", ['cone="pyramidal" impratio="2"', 'cone="elliptic" impratio="3"'])
def test_a_scene_with_everything(option):
    """All condims, limits of hinge, slide and ball, friction loss, pairs, priorities, margins and both cones."""
    m = exact(mujoco.MjModel.from_xml_string(scene(option)))
    model = ours(m)
    reached = states(m, model, count=30, every=10, push=0.3)
    assert reached.contacts.mean() > 3
    found = errors(model, reached, warm_start=np.zeros_like(reached.qdd))
    assert found["qdd"] < CLOSE
    assert found["tau_constraint"] < CLOSE
    assert found["inverse"] < CLOSE
    # the same program from a start that is warm ends at the same minimum, and sooner
    again = kt.constrained_dynamics(model, reached.q, reached.qd, reached.tau, warm_start=reached.qdd)
    assert relative(again.qdd, reached.qdd) < CLOSE
    assert again.iterations.mean() < found["iterations"]


BALL = """<mujoco><worldbody><body><joint type="ball" limited="true" range="0 0.5" frictionloss="0.3" armature="0.02"/>
  <geom size="0.1" pos="0.3 0.1 -0.2" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


def test_a_ball_limit_is_exact_beside_friction_loss_and_armature():
    m = exact(mujoco.MjModel.from_xml_string(BALL))
    model = ours(m)
    data = mujoco.MjData(m)
    rng = np.random.default_rng(3)
    q, qd, tau = (*kt.random_state(model, 3, (40,)), rng.standard_normal((40, 3)))
    wanted = []
    for k in range(40):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q[k], qd[k], tau[k]
        mujoco.mj_forward(m, data)
        wanted.append(data.qacc.copy())
    assert relative(kt.constrained_dynamics(model, q, qd, tau).qdd, np.array(wanted)) < CLOSE


MESHES = """<mujoco><asset><mesh name="m" vertex="0 0 0  0.2 0 0  0 0.2 0  0 0 0.2"/>
  <mesh name="n" vertex="0 0 0 0.1 0 0 0 0.3 0 0.1 0.3 0 0 0 0.2 0.1 0 0.2 0 0.3 0.2 0.1 0.3 0.25"/></asset>
  <worldbody><geom type="plane" size="0 0 1" euler="5 0 0"/>
  <body pos="0 0 0.1"><freejoint/><geom type="mesh" mesh="m"/></body>
  <body pos="1 0 0.1"><freejoint/><geom type="mesh" mesh="n"/></body></worldbody></mujoco>"""


def test_hulls_of_different_meshes_touch_side_by_side():
    m = compiled(MESHES)
    model = ours(m)
    reached = states(m, model, count=20, every=15, push=0.2)
    assert reached.contacts.mean() > 2
    found = kt.constrained_dynamics(model, reached.q, reached.qd, reached.tau)
    assert found.converged.all()
    assert relative(found.qdd, reached.qdd) < CLOSE
    assert relative(found.tau_constraint, reached.tau_constraint) < CLOSE
