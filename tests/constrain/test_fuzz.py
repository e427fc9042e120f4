"""Random scenes in harsh random states: all is finite, and no point of contact is lost."""

import numpy as np
import pytest

from benchmarks.fuzz import Tally, fuzz, scene, try_scene


@pytest.mark.thorough
def test_random_scenes_in_harsh_states():
    tally = fuzz(total=10_000, each=2_500, seed=7)
    assert tally.states == 10_000
    assert tally.contacts > 10_000
    assert tally.wrong == 0
    assert tally.unconverged < 10


@pytest.mark.thorough
def test_a_lost_contact_is_seen(monkeypatch, capsys):
    """The check can fail: MuJoCo's points are moved a little."""
    from benchmarks import fuzz as module

    real = module.depths

    def moved(*given):
        distance, unsure = real(*given)
        return distance + 1e-6, unsure

    monkeypatch.setattr(module, "depths", moved)
    tally = Tally()
    rng = np.random.default_rng(7)
    try_scene(scene(rng), rng, 200, tally)
    assert tally.deeper > 0
    assert "points differ" in capsys.readouterr().out
