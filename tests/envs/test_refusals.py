"""Wrong settings, actions, seeds and numbers of worlds are refused in words; adapters say which package is missing."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from kinetree import envs, learn

REACHER = envs.make("reacher")
STATE = REACHER.reset(jax.random.key(0))
SMALL = learn.Settings(worlds=8, unroll=4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: envs.make(np.zeros(2)), "environment must be a word"),
        (lambda: envs.make("reacher", time_limit=0), "Reacher: time_limit must be None or a whole number, at least 1"),
        (lambda: envs.make("reacher", noise="a"), "noise must be finite numbers"),
        (lambda: envs.make("reacher", auto_reset="no"), "auto_reset must be True or False"),
        (lambda: envs.make("reacher", randomise=3), "randomise must be None or a function or a model"),
        (lambda: envs.make("reacher", model=3), r"model must be a kinetree\.Model"),
        (lambda: REACHER.step(None, np.zeros(2)), "state must be an EnvState"),
        (lambda: REACHER.step(STATE, np.zeros(3)), r"action must have shape \(\.\.\., 2\), not \(3,\)"),
        (lambda: REACHER.step(STATE, "left"), "action must hold real numbers"),
        (lambda: envs.TorchEnv(REACHER, -1, np.from_dlpack), "num_envs must be a whole number, at least 1, not -1"),
        (lambda: envs.TorchEnv("reacher", 2, np.from_dlpack), "env must be an environment"),
        (lambda: learn.train("reacher", steps=1), "env must be an environment"),
        (lambda: learn.train(REACHER, learn.Settings(epochs=0), steps=1), "Settings: epochs must be a whole number"),
        (lambda: learn.train(REACHER, learn.Settings(hidden=3), steps=1), "hidden must be the sizes of layers"),
        (lambda: learn.train(REACHER, SMALL._replace(minibatches=33), steps=1), "33 minibatches are more than"),
        (lambda: learn.train(REACHER, SMALL, steps="a"), "steps must be a whole number, at least 0"),
        (lambda: learn.train(REACHER, SMALL, steps=1, seed="a"), "seed must be a whole number, at least 0"),
        (lambda: learn.evaluate(REACHER, None, worlds=0), "worlds must be a whole number, at least 1"),
    ],
)
def test_what_can_not_be_meant(call, says):
    with pytest.raises((ValueError, TypeError), match=says):
        call()


def test_worlds_of_a_vector_take_a_seed_each():
    pytest.importorskip("gymnasium")
    vector, one = envs.to_gymnasium(REACHER, 2), envs.to_gymnasium(REACHER)
    obs, _ = vector.reset(seed=[3, 4])
    for k, seed in enumerate((3, 4)):
        np.testing.assert_array_equal(obs[k], one.reset(seed=seed)[0])
    with pytest.raises(ValueError, match="seed must be a whole number, or a list of 2 of them"):
        vector.reset(seed=[3])


def test_a_wrong_action_leaves_a_world_as_it_was():
    """It was kept as a state of another shape, in which no further step was possible."""
    pytest.importorskip("gymnasium")
    one = envs.to_gymnasium(REACHER)
    one.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must have shape \(2,\), not \(1, 2\)"):
        one.step(np.zeros((1, 2)))
    assert one.step(np.zeros(2))[0].shape == (REACHER.observation_size,)
    for mode in ("Next", None):
        with pytest.raises(ValueError, match="autoreset_mode"):
            envs.to_gymnasium(REACHER, 2, mode)


def test_policies_are_files_of_their_own(tmp_path):
    policy = learn.train(REACHER, SMALL, steps=0)[0]
    policy.save(tmp_path / "policy")
    for x, y in zip(jax.tree.leaves(learn.Policy.load(tmp_path / "policy")), jax.tree.leaves(policy), strict=True):
        np.testing.assert_array_equal(x, y)
    np.savez(tmp_path / "other.npz", q=np.zeros(3))
    with pytest.raises(ValueError, match=r"other\.npz is not a policy: its arrays are q"):
        learn.Policy.load(tmp_path / "other.npz")


def test_packages_that_are_missing_are_named():
    code = """
import sys
sys.modules |= dict.fromkeys(("gymnasium", "stable_baselines3", "torch"))
from types import SimpleNamespace
from kinetree import envs
task = SimpleNamespace(reset=None, step=None)
for make in (envs.to_gymnasium, lambda e: envs.to_stable_baselines(e, 2), lambda e: envs.TorchEnv(e, 2)):
    try:
        make(task)
    except ModuleNotFoundError as error:
        assert "pip install" in str(error), error
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
