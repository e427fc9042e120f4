"""Inverse weights that are computed here, against those of MuJoCo's compiler."""

import mujoco
import numpy as np
import pytest

from kinetree.constrain.weights import inverse_weights
from tests.constrain.agreement import compiled, ours
from tests.constrain.scenes import scene
from tests.io.mujoco_agreement import model_files

SLIDER = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body><joint type="slide" axis="0 0 1"/>
  <geom size="0.1"/></body></worldbody></mujoco>"""
TENDONS = """<mujoco><default><geom type="capsule" size=".02" fromto="0 0 0 .3 0 .1"/></default><worldbody>
<body pos="0 0 1"><joint name="a" axis="0 1 0"/><geom/><site name="s" pos=".1 0 .05"/>
  <body pos=".3 0 0"><joint name="b" axis="0 .2 1" ref="40"/><geom/><site name="t" pos=".1 .05 0"/></body></body>
<body pos="0 1 1"><joint name="c" type="ball"/><geom/><site name="u" pos="0 .1 .1"/></body></worldbody><tendon>
<fixed name="f" armature=".05" range="-.1 .1"><joint joint="a" coef="1"/><joint joint="b" coef="-2"/></fixed>
<spatial name="g" armature="2"><site site="s"/><site site="t"/></spatial>
<spatial name="h" armature="1" damping=".1"><site site="t"/><site site="u"/></spatial>
<spatial name="i" stiffness="3"><site site="s"/><site site="u"/></spatial></tendon></mujoco>"""
SOURCES = {name.split("/")[1]: path for name, path in model_files().items() if "ant" in name or "walker" in name}


@pytest.mark.parametrize(
    "source", [*SOURCES.values(), scene(), SLIDER, TENDONS], ids=[*SOURCES, "scene", "slider", "tendons"]
)
def test_inverse_weights_are_those_of_the_compiler(source):
    model = ours(compiled(source) if source in SOURCES.values() else mujoco.MjModel.from_xml_string(source))
    wanted = model.world.inverse_weights
    found = inverse_weights(model.replace(world=model.world.replace(inverse_weights=None)))
    bodies = (model.structure.row_of_body >= 0) & (model.inertia.mass > 0)
    np.testing.assert_allclose(found.dof, wanted.dof, rtol=1e-9)
    np.testing.assert_allclose(found.body[bodies], wanted.body[bodies], rtol=1e-9, atol=1e-12)
    if wanted.tendon is not None:
        np.testing.assert_allclose(found.tendon, wanted.tendon, rtol=1e-9)
