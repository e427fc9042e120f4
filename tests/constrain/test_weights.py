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
SOURCES = {name.split("/")[1]: path for name, path in model_files().items() if "ant" in name or "walker" in name}


@pytest.mark.parametrize("source", [*SOURCES.values(), scene(), SLIDER], ids=[*SOURCES, "scene", "slider"])
def test_inverse_weights_are_those_of_the_compiler(source):
    model = ours(compiled(source) if source in SOURCES.values() else mujoco.MjModel.from_xml_string(source))
    wanted = model.world.inverse_weights
    found = inverse_weights(model.replace(world=model.world.replace(inverse_weights=None)))
    bodies = (model.structure.row_of_body >= 0) & (model.inertia.mass > 0)
    np.testing.assert_allclose(found.dof, wanted.dof, rtol=1e-9)
    np.testing.assert_allclose(found.body[bodies], wanted.body[bodies], rtol=1e-9, atol=1e-12)
