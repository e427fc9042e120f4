"""Random scenes whose numbers must be MuJoCo's: accelerations, forces, contacts, one step and 100."""

import mujoco
import numpy as np
import pytest

from benchmarks.conformance import verdict
from benchmarks.fuzz_numbers import look, scene
from benchmarks.fuzz_scenes import everything
from kinetree.io import Report, from_mujoco_model


@pytest.mark.parametrize("seed", [3, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(4, 24))])
def test_the_numbers_of_a_random_scene(seed):
    found = look(scene(np.random.default_rng(seed)), 10)
    assert found["mujoco_states"] > 0
    assert verdict(found) == "agrees"


def test_a_difference_is_seen():
    found = {"ignored": {}, "actuator": 0.0, "qacc": 2e-9, "force": 0.0, "points": 0.0, "step": 0.0}
    assert verdict(found | {"unconverged": 0, "count_differs": 0}) == "differs: {'qacc': 2e-09}"


def test_scenes_over_all_features_compile_and_load():
    for seed in range(12):
        m = mujoco.MjModel.from_xml_string(everything(np.random.default_rng(seed)))
        model = from_mujoco_model(m, Report("fuzz", "MJCF"))
        assert (model.nq, model.nu, model.na) == (m.nq, m.nu, m.na)
