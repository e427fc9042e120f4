"""Learning: a task that is known in closed form, advantages against their definition, Adam, policies in files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree import learn
from kinetree.envs import EnvState
from kinetree.learn import ppo
from kinetree.learn.networks import Normaliser, gaussian_log_density

EPISODE = 10


class Follow:
    """Say the number that is seen, times three; episodes of ten steps, ended by the time limit."""

    observation_size, action_size = 2, 1
    time_limit = None
    action_range = np.array([-4.0]), np.array([4.0])

    def replace(self, **_):
        return self

    def reset(self, key):
        own, kept = jax.vmap(jax.random.split, out_axes=1)(key)
        obs = jax.vmap(lambda k: jax.random.uniform(k, (2,), float, -1, 1))(own)
        zero, no = jnp.zeros(key.shape), jnp.zeros(key.shape, bool)
        info = {"key": kept, "steps": jnp.zeros(key.shape, int), "truncated": no, "final_obs": obs}
        return EnvState((), obs, zero, no, {}, info)

    def step(self, state, action):
        fresh = self.reset(state.info["key"])
        steps = state.info["steps"] + 1
        late = steps >= EPISODE
        info = fresh.info | {"steps": jnp.where(late, 0, steps), "truncated": late}
        reward = -jnp.abs(action[:, 0] - 3 * state.obs[:, 0])
        return fresh.replace(reward=reward, done=late, info=info)


def test_a_simple_task_is_learnt():
    settings = learn.Settings(worlds=64, unroll=10, epochs=4, minibatches=4, learning_rate=3e-3, discount=0.5)
    seen = []
    policy, history = learn.train(Follow(), settings, steps=60 * 640, watch=lambda *x: seen.append(x))
    assert len(history) == 60
    assert [s for s, _, _ in seen] == list(640 * np.arange(1, 61))
    assert history[0].episodes == 64  # all of them end with the unroll
    np.testing.assert_allclose(history[0].episode_return, EPISODE * history[0].reward, rtol=1e-5)
    obs = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (100, 2)))
    before, after = (abs(3 * obs[:, 0] - x).mean() for x in (0.0, policy(obs)[:, 0]))
    assert after < 0.2 * before
    stopped = learn.train(Follow(), settings, steps=10_000, stop=lambda report: True)[1]
    assert len(stopped) == 1


class Timed(Follow):
    """The same, where the learner knows the time limit."""

    time_limit = EPISODE


def test_episodes_begin_at_different_ages():
    """Those that did not begin at their start are not counted."""
    settings = learn.Settings(worlds=64, unroll=EPISODE, epochs=1, minibatches=1)
    learner = jax.jit(lambda key: ppo.start(Timed(), settings, key))(jax.random.key(0))
    ages = np.asarray(learner.worlds.info["steps"])
    assert len(set(ages.tolist())) == EPISODE
    np.testing.assert_array_equal(np.isnan(learner.returns), ages > 0)
    after, report = jax.jit(lambda learner: ppo.iterate(Timed(), settings, learner))(learner)
    assert int(report.episodes) == (ages == 0).sum()
    assert np.isfinite(after.returns).all()


def test_a_policy_is_judged_by_whole_episodes():
    score = learn.evaluate(Timed(), lambda obs: 3 * obs[:, :1] + 0.5, worlds=16)
    assert score.length == EPISODE
    np.testing.assert_allclose(score.episode_return, -0.5 * EPISODE, rtol=1e-6)
    with pytest.raises(ValueError, match="without a time limit"):
        learn.evaluate(Follow(), lambda obs: obs)


def test_the_learning_rate_follows_the_divergence():
    """A goal that no update reaches makes it the largest, one that all exceed the least."""
    for goal, wanted in ((1e9, ppo.LARGEST_RATE), (1e-12, ppo.LEAST_RATE)):
        settings = learn.Settings(worlds=8, unroll=10, epochs=10, minibatches=2, divergence=goal)
        history = learn.train(Follow(), settings, steps=80)[1]
        np.testing.assert_allclose(history[-1].rate, wanted, rtol=1e-6)


def test_advantages_are_what_they_are_defined_to_be():
    """By sums over the rest of the episode, at the end of which the value is none, or that of the last observation."""
    rng = np.random.default_rng(0)
    settings = learn.Settings(discount=0.9, trace=0.8)
    reward, done, late = rng.normal(size=(7, 2)), rng.random((7, 2)) < 0.3, rng.random((7, 2)) < 0.5
    late &= done
    obs, final = rng.normal(size=(2, 7, 2, 1))
    weights = [(jnp.asarray([[0.7]]), jnp.asarray([0.1]))]
    steps = ppo.Steps(obs, 0 * obs, 0 * obs, reward, reward, done, late, final)
    steps = ppo.Steps(*map(jnp.asarray, steps))
    plain = Normaliser(jnp.ones(()), jnp.zeros(1), jnp.full(1, 1 - 1e-6))
    found = ppo._judged(settings, ppo.Parameters((), (), weights), plain, steps)
    here, after = 0.7 * obs[..., 0] + 0.1, 0.7 * final[..., 0] + 0.1
    for world in range(2):
        for t in range(7):
            total, weight = 0.0, 1.0
            for s in range(t, 7):
                rest = 0.0 if done[s, world] and not late[s, world] else after[s, world]
                total += weight * (reward[s, world] + 0.9 * rest - here[s, world])
                weight *= 0.9 * 0.8
                if done[s, world]:
                    break
            np.testing.assert_allclose(found.advantage.reshape(7, 2)[t, world], total, rtol=1e-9)
    np.testing.assert_allclose(found.target.reshape(7, 2) - found.advantage.reshape(7, 2), here, rtol=1e-9)


def test_adam_finds_a_minimum():
    x = {"a": jnp.asarray([3.0, -2.0]), "b": jnp.asarray(1.0)}
    adam = learn.adam_start(x)

    def one(carry, _):
        x, adam = carry
        slope = jax.grad(lambda x: ((x["a"] - 1) ** 2).sum() + 10 * (x["b"] + 2) ** 2)(x)
        return learn.adam_step(x, adam, slope, 0.05), None

    (x, _), _ = jax.lax.scan(one, (x, adam), None, 2000)
    np.testing.assert_allclose([*x["a"], x["b"]], [1, 1, -2], atol=1e-3)


def test_observations_are_scaled_by_all_that_was_seen():
    rng = np.random.default_rng(0)
    parts = [rng.normal(2, 3, (5, 40, 4)), rng.normal(-1, 1, (3, 30, 4))]
    found = Normaliser.none(4)
    for part in parts:
        found = found.updated(jnp.asarray(part))
    whole = np.concatenate([p.reshape(-1, 4) for p in parts])
    np.testing.assert_allclose(found.mean, whole.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, whole.var(0), rtol=1e-5)


def test_density_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    x, mean, spread = np.random.default_rng(0).normal(size=(3, 5, 2))
    wanted = stats.norm.logpdf(x, mean, np.exp(spread)).sum(-1)
    np.testing.assert_allclose(gaussian_log_density(x, mean, spread), wanted, rtol=1e-12)


def test_policies_in_files(tmp_path):
    policy, _ = learn.train(Follow(), learn.Settings(worlds=8, unroll=4, minibatches=1), steps=1)
    policy.save(tmp_path / "p.npz")
    obs = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(learn.Policy.load(tmp_path / "p.npz")(obs), policy(obs))
