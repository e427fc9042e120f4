"""What benchmarks/frames.py and benchmarks/rotations.py time against each other gives the same forces."""

import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from benchmarks import frames, rotations
from kinetree.tree import layout
from tests.dynamics.trees import worst

MODEL = kt.auto_tree(150, 1.0, 0.3)
STATE = np.random.default_rng(0).standard_normal((3, 150))
FORCES = kt.inverse_dynamics(MODEL, *STATE)


@pytest.mark.parametrize("way", frames.WAYS)
def test_frames(way):
    found = frames.inverse_dynamics(way, layout(MODEL.tree, "paths"), MODEL, *map(jnp.asarray, STATE))
    assert worst(found, FORCES) < 1e-13


@pytest.mark.parametrize("kind", rotations.KINDS)
def test_rotations(kind):
    found = rotations.by_paths(kind, layout(MODEL.tree, "paths"), MODEL, *map(jnp.asarray, STATE))
    assert worst(found, FORCES) < 1e-13
    assert worst(rotations.by_lanes(kind)(MODEL, *STATE[:, None])[0][0], FORCES) < 1e-13
