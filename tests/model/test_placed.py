"""Bodies placed by hand: MuJoCo's mocap bodies."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.constrain.agreement import compiled, ours

# A paddle that pushes a ball, holds a link by a weld, and carries an arm and a site.
SCENE = """<mujoco><worldbody><geom type="plane" size="2 2 .1"/>
  <body name="paddle" pos="0 0 .5" euler="0 10 20" mocap="true"><geom type="box" size=".3 .3 .05"/>
    <site name="mark" pos=".1 0 .1"/>
    <body name="rod" pos="0 .2 -.2" euler="30 0 0"><joint axis="0 1 0" pos="0 0 .1"/>
      <geom size=".04" pos=".2 0 0"/></body>
  </body>
  <body name="ball" pos="0 0 .64"><freejoint/><geom size=".1"/><site name="top" pos="0 0 .1"/></body>
  <body name="held" pos=".6 0 .5"><freejoint/><geom type="capsule" size=".05 .1"/></body>
  </worldbody>
  <tendon><spatial stiffness="20" springlength=".1"><site site="mark"/><site site="top"/></spatial></tendon>
  <equality><weld body1="held" body2="paddle"/></equality>
  <sensor><framepos name="mark" objtype="site" objname="mark"/></sensor>
  <keyframe><key name="up" mpos="0 .1 .6" mquat="2 0 .2 0"/></keyframe></mujoco>"""


def test_bodies_placed_by_hand_are_mujocos_mocap_bodies():
    m = compiled(SCENE)
    model, data = ours(m), mujoco.MjData(m)
    rng = np.random.default_rng(0)
    state = kt.initial_state(model)
    places = {"paddle": (np.array([0.0, 0.0, 0.5]), np.array(m.body_quat[1]))}
    for _ in range(6):
        position, turn = places["paddle"]
        turn = turn + 0.1 * rng.normal(size=4)
        places = {"paddle": (position + 0.01 * rng.normal(size=3), turn)}
        data.mocap_pos[0], data.mocap_quat[0] = places["paddle"]
        placed = kt.place_bodies(model, places)
        for _ in range(5):
            mujoco.mj_step(m, data)
            state = kt.advance(placed, state)
        np.testing.assert_allclose(state.q, data.qpos, atol=1e-9)
    assert data.ncon > 0
    mujoco.mj_forward(m, data)
    np.testing.assert_allclose(kt.sensors(placed, state)["mark"], data.sensordata, atol=1e-9)
    found = kt.forward_kinematics(placed, state.q).position[model.body_index("paddle")]
    np.testing.assert_allclose(found, data.mocap_pos[0])


def test_keyframes_place_bodies_and_worlds_differ():
    m = compiled(SCENE)
    model = ours(m)
    places = model.keyframe_poses("up")
    np.testing.assert_array_equal(places["paddle"][0], [0, 0.1, 0.6])
    np.testing.assert_allclose(np.linalg.norm(places["paddle"][1]), 1)
    heights = np.array([0.5, 0.52, 0.54])
    positions = jnp.stack([jnp.zeros(3), jnp.zeros(3), jnp.asarray(heights)], -1)
    models = jax.vmap(lambda p: kt.place_bodies(model, {"paddle": p}))(positions)
    one = kt.initial_state(model)
    together = kt.advance(models, kt.initial_state(model, batch=(3,)))
    for k, z in enumerate(heights):
        alone = kt.advance(kt.place_bodies(model, {"paddle": (0, 0, z)}), one)
        np.testing.assert_allclose(together.q[k], alone.q, atol=1e-10)


def test_what_can_not_be_placed_is_refused():
    model = ours(compiled(SCENE))
    for poses, error, words in (
        ({"ball": (0, 0, 0)}, kt.ModelError, "joints"),
        ({"nobody": (0, 0, 0)}, Exception, "nobody"),
        ({"paddle": (0, 0)}, kt.ModelError, "position"),
        ({"paddle": ((0, 0, 0), (0, 0, 0, 0))}, kt.ModelError, "quaternion"),
        ({"paddle": (0, np.nan, 0)}, kt.ModelError, "finite"),
    ):
        with pytest.raises(error, match=words):
            kt.place_bodies(model, poses)
