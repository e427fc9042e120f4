"""Runs: records, batches, controllers, failures, what is saved."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.simulate import progress
from tests.simulate.robots import arm, brick, double_pendulum, pendulum

CLOCK = {"dt": 1e-3, "steps": 200}


def test_records_are_every_kth_state_of_the_same_run():
    q, qd = [1.0, 0.5], [0.0, 0.0]
    each = kt.simulate(double_pendulum(), q, qd, **CLOCK)
    some = kt.simulate(double_pendulum(), q, qd, **CLOCK, record=40)
    assert len(each) == 201
    assert len(some) == 6
    np.testing.assert_array_equal(some.time, each.time[::40])
    np.testing.assert_array_equal(some.q, each.q[::40])
    np.testing.assert_array_equal(some.qd, each.qd[::40])
    np.testing.assert_array_equal(each.q[0], q)


def test_a_batch_is_its_states_one_by_one():
    model = double_pendulum()
    q, qd = kt.random_state(model, 0, (2, 3))
    run = kt.simulate(model, q, qd, **CLOCK, integrator="rk4", record=200)
    assert run.batch == (2, 3)
    alone = kt.simulate(model, q[1, 2], qd[1, 2], **CLOCK, integrator="rk4", record=200)
    np.testing.assert_allclose(run.q[:, 1, 2], alone.q, rtol=1e-12, atol=1e-12)


def test_dtype_follows_the_start():
    model = pendulum()
    run = kt.simulate(model, np.float32([1]), np.float32([0]), **CLOCK, integrator="rk4")
    assert run.q.dtype == run.qd.dtype == run.tau.dtype == np.float32
    wide = kt.simulate(model, [1.0], [0.0], **CLOCK, integrator="rk4")
    assert wide.q.dtype == np.float64
    assert 0 < np.abs(run.q - wide.q).max() < 1e-4


def test_controllers_see_time_and_state():
    """tau = cos(t) on a unit rotor without gravity: qd = sin(t)."""
    model = pendulum().replace(gravity=(0, 0, 0))
    run = kt.simulate(model, [0.0], [0.0], lambda t, q, qd: jnp.cos(t)[None], dt=1e-3, steps=1000, integrator="rk4")
    np.testing.assert_allclose(run.qd[:, 0], np.sin(run.time), atol=1e-12)
    np.testing.assert_allclose(run.tau[:, 0], np.cos(run.time), atol=1e-15)


def test_gravity_compensation_holds_still():
    model = arm()
    q = np.full((2, 7), 0.4)
    run = kt.simulate(model, q, np.zeros((2, 7)), kt.controllers.gravity_compensation(model), **CLOCK)
    np.testing.assert_allclose(run.q, np.broadcast_to(q, run.q.shape), atol=1e-12)


def test_pd_with_gravity_compensation_reaches_its_target():
    model = arm().replace(armature=0.1)
    target = np.array([0.3, 0.6, -0.2, 0.9, 0.1, -0.5, 0.2])
    hold = kt.controllers.total(
        kt.controllers.pd(model, target, kp=80.0, kd=20.0), kt.controllers.gravity_compensation(model)
    )
    run = kt.simulate(model, np.zeros(7), np.zeros(7), hold, dt=2e-3, steps=3000, record=100)
    np.testing.assert_allclose(run.q[-1], target, atol=2e-3)


def test_pd_turns_a_quaternion_joint():
    model = brick(joint="spherical")
    target = np.array([0.0, 1.0, 0.0, 0.0])
    run = kt.simulate(
        model, [0.6, 0, 0.8, 0], np.zeros(3), kt.controllers.pd(model, target, 20.0, 15.0), dt=5e-3, steps=2000
    )
    assert np.abs(run.q[-1] @ target) == pytest.approx(1, abs=1e-6)


def test_computed_torque_errors_decay_as_designed():
    """e″ + kd e′ + kp e = 0 with kp = 25, kd = 10: e = (1 + 5t) exp(−5t) e0 from rest."""
    model = arm()

    def reference(t):
        phase = jnp.arange(7, dtype=t.dtype) * 0.3
        return 0.5 * jnp.sin(t + phase), 0.5 * jnp.cos(t + phase), -0.5 * jnp.sin(t + phase)

    follow = kt.controllers.computed_torque(model, reference, kp=25.0, kd=10.0)
    q, qd, _ = (np.asarray(x) for x in reference(jnp.asarray(0.0)))
    run = kt.simulate(model, q + 0.2, qd, follow, dt=1e-3, steps=500, integrator="rk4", record=50)
    wanted = np.stack([np.asarray(reference(jnp.asarray(t))[0]) for t in run.time])
    decay = 0.2 * (1 + 5 * run.time) * np.exp(-5 * run.time)
    np.testing.assert_allclose(run.q - wanted, np.broadcast_to(decay[:, None], run.q.shape), atol=1e-9)


def test_saturated_controllers_stay_within_effort():
    model = arm()
    strong = kt.controllers.saturated(model, kt.controllers.pd(model, np.ones(7), 1e4, 10.0))
    run = kt.simulate(model, np.zeros(7), np.zeros(7), strong, dt=1e-3, steps=10)
    assert (np.abs(run.tau) <= model.limits.effort).all()
    assert (np.abs(run.tau[0]) == model.limits.effort).all()


def test_dry_friction_stops_a_slider():
    """Deceleration friction/mass until rest: from 1 m/s at 2 m/s² it stops after 0.5 s and 0.25 m."""
    slider = brick(joint="Px").replace(friction=4.0)
    run = kt.simulate(slider, [0.0], [1.0], dt=1e-3, steps=1000, integrator="rk4")
    assert abs(run.qd[-1, 0]) < 1e-6
    assert run.q[-1, 0] == pytest.approx(0.25, abs=2e-4)


def test_failures_name_time_joint_and_cause():
    model = pendulum().replace(stiffness=1e9)
    with pytest.raises(kt.SimulationError, match=r"t = 0\.\d+ s: joint 'joint_0' \(body 'body_0'\)") as caught:
        kt.simulate(model, [[0.0], [1.0]], [[0.0], [0.0]], dt=1e-2, steps=1000, integrator="rk4")
    assert "state 1" in str(caught.value)
    assert "shorter dt" in str(caught.value)
    assert caught.value.joint == "joint_0"
    records = caught.value.trajectory
    assert np.isfinite(records.q).all()
    assert records.time[-1] == pytest.approx(caught.value.time)


def test_a_controller_that_fails_is_named_as_the_cause():
    def failing(t, q, qd):
        return jnp.where(t > 0.05, jnp.nan, 0.0) * q

    with pytest.raises(kt.SimulationError, match="controller returned a force that is not finite") as caught:
        kt.simulate(double_pendulum(), [1.0, 0.5], [0.0, 0.0], failing, **CLOCK)
    assert caught.value.time == pytest.approx(0.051)


def test_wrong_arguments_are_told():
    model, state = pendulum(), ([0.0], [0.0])
    for clock, words in (({"dt": 0, "steps": 1}, "dt"), ({"dt": 1e-3, "steps": 10, "record": 3}, "multiple")):
        with pytest.raises(ValueError, match=words):
            kt.simulate(model, *state, **clock)
    with pytest.raises(ValueError, match="unknown integrator 'leapfrog'"):
        kt.simulate(model, *state, **CLOCK, integrator="leapfrog")
    with pytest.raises(ValueError, match=r"tau has shape \(1,\)"):
        kt.simulate(model, *state, lambda t, q, qd: jnp.zeros(3), **CLOCK)
    with pytest.raises(ValueError, match=r"simulate: q\[0\] is nan, and every argument must be finite"):
        kt.simulate(model, [np.nan], [0.0], **CLOCK)


def test_trajectories_save_and_load(tmp_path):
    run = kt.simulate(double_pendulum(), [1.0, 0.5], [0.0, 0.0], **CLOCK, record=50)
    run.save(tmp_path / "run.npz")
    again = kt.Trajectory.load(tmp_path / "run.npz")
    for name in ("time", "q", "qd", "tau"):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    np.savez(tmp_path / "other.npz", x=1)
    with pytest.raises(ValueError, match="has no time, q, qd"):
        kt.Trajectory.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError, match="no file"):
        kt.Trajectory.load(tmp_path / "missing.npz")


def test_progress_bar_reaches_the_end(capsys):
    with progress.ProgressBar(10, True) as bar:
        bar.update(5, 0.005)
        bar.update(10, 0.01)
    assert "100 %" in capsys.readouterr().err


# -- what can not be traced is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad], ids=["jit", "vmap", "grad"])
def test_simulate_under_a_transformation_names_step(transform):
    model = kt.auto_tree(2, 1, 0.3)

    def end(q):
        return kt.simulate(model, q, jnp.zeros(2), dt=1e-3, steps=2).q[-1].sum()

    given = jnp.ones((3, 2)) if transform is jax.vmap else jnp.ones(2)
    with pytest.raises(TypeError, match=r"kt\.step"):
        transform(end)(given)


def test_a_gain_under_grad_names_step():
    model = kt.auto_tree(2, 1, 0.3)

    def end(k):
        return kt.simulate(model, np.ones(2), np.zeros(2), lambda t, q, qd: -k * q, dt=1e-3, steps=2).q.sum()

    with pytest.raises(TypeError, match=r"kt\.step"):
        jax.grad(end)(1.0)


def test_a_numpy_controller_is_told_to_use_jax():
    model = kt.auto_tree(2, 1, 0.3)
    with pytest.raises(TypeError, match=r"controller can not be traced.*jax\.numpy"):
        kt.simulate(model, np.ones(2), np.zeros(2), lambda t, q, qd: -np.sin(q), dt=1e-3, steps=2)


def test_a_controller_with_state_is_told():
    model = kt.auto_tree(2, 1, 0.3)

    class Integral:
        total = 0.0

        def __call__(self, t, q, qd):
            self.total = self.total + 1e-3 * q
            return -self.total

    with pytest.raises(TypeError, match=r"keeps values from one call to the next.*kt\.rollout"):
        kt.simulate(model, np.ones(2), np.zeros(2), Integral(), dt=1e-3, steps=2)


def test_a_dataclass_is_a_controller():
    model = kt.auto_tree(2, 1, 0.3)

    @dataclasses.dataclass
    class Spring:
        k: float

        def __call__(self, t, q, qd):
            return -self.k * q

    assert len(kt.simulate(model, np.ones(2), np.zeros(2), Spring(2.0), dt=1e-3, steps=2)) == 3


def test_a_long_compilation_is_told_before_the_first_step(capsys, monkeypatch):
    monkeypatch.setattr(progress, "BAR_DELAY_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.ProgressBar(10, None) as bar:
        bar._timer.join(10)
        assert bar.bar is not None
        bar.update(5, 0.5)
    told = capsys.readouterr().err
    assert "compiling the first steps" in told or "50 %" in told
    with progress.ProgressBar(10, False) as quiet:
        quiet.update(10, 1.0)
    assert quiet.bar is None


def test_another_number_of_steps_or_records_compiles_nothing():
    """A controller runs in Python while it is traced, and once at the start of a run."""
    seen = []

    def controller(t, q, qd):
        seen.append(t)
        return -q

    first = kt.simulate(pendulum(), [1.0], [0.0], controller, dt=1e-3, steps=4)
    count = len(seen)
    again = kt.simulate(pendulum(), [1.0], [0.0], controller, dt=1e-3, steps=30, record=2)
    assert len(seen) == count + 1
    assert len(again) == 16
    np.testing.assert_array_equal(again.q[1:3], first.q[2::2])
