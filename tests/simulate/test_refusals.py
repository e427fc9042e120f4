"""Wrong arguments of steps, rollouts and sensors are refused in words of our own."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt

ARM = kt.auto_tree(2)
START = kt.initial_state(ARM)


@pytest.mark.parametrize("state", [START.q, (START.q, START.qd), None], ids=["positions", "a pair", "nothing"])
@pytest.mark.parametrize("call", [kt.advance, kt.sensors, kt.contact_forces, lambda m, s: kt.rollout(m, s, steps=1)])
def test_what_is_no_state(call, state):
    with pytest.raises(TypeError, match=r"state must be a kinetree\.State, such as kinetree\.initial_state makes"):
        call(ARM, state)


@pytest.mark.parametrize("dt", ["1", 0, -1e-3, np.nan, np.inf, np.ones(2), 1j, jnp.ones(2), jnp.float32(-1), [[1], 2]])
def test_steps_of_no_length(dt):
    with pytest.raises(ValueError, match="dt must be a positive number of seconds"):
        kt.advance(ARM, START, dt=dt)
    with pytest.raises(ValueError, match="dt must be a positive number of seconds"):
        kt.rollout(ARM, START, steps=1, dt=dt)
    with pytest.raises(ValueError, match="dt must be a positive number of seconds"):
        kt.simulate(ARM, START.q, START.qd, dt=dt, steps=1)


def test_controls_of_a_model_without_actuators():
    after = kt.advance(ARM, START)  # which makes the direct way known
    np.testing.assert_array_equal(kt.advance(ARM, START, np.zeros(0)).q, after.q)
    for given in (np.zeros(3), np.zeros((2, 1))):
        with pytest.raises(ValueError, match=r"ctrl must have shape .* no actuators: add some"):
            kt.advance(ARM, START, given)


@pytest.mark.parametrize("batch", [-1, (2, -1), (2.5,), ("2",)])
def test_batches_of_no_size(batch):
    with pytest.raises(ValueError, match="batch must be sizes of leading axes"):
        kt.initial_state(ARM, batch=batch)


def test_sizes_of_a_batch_may_be_numpy_integers():
    assert kt.initial_state(ARM, batch=np.int64(3)).q.shape == (3, 2)


def test_small_integers_of_numpy_do_not_overflow():
    many = np.uint8(20)
    assert kt.random_state(ARM, 0, (many, many))[0].shape == (20, 20, 2)
    start = np.zeros((20, 2))
    run = kt.simulate(ARM, start, start, dt=1e-3, steps=np.uint8(240), record=np.uint8(120))
    assert run.q.shape == (3, 20, 2)
    part = kt.simulate(ARM, start, start, dt=1e-3, steps=1, share=(np.uint8(19), np.uint8(20)))
    assert part.q.shape == (2, 1, 2)


@pytest.mark.parametrize("found", [3.0, (1, 2, 3), None])
def test_a_policy_that_returns_no_pair(found):
    with pytest.raises(TypeError, match=r"a policy must return a pair \(carry, ctrl\)"):
        kt.rollout(ARM, START, lambda carry, state, key: found, steps=2)


@pytest.mark.parametrize("other", [lambda c: (c, c), lambda c: jnp.zeros(3)], ids=["structure", "shape"])
def test_a_policy_whose_memory_changes_its_form(other):
    with pytest.raises(TypeError, match=r"returned shapes .*\(2,\)"):
        kt.rollout(ARM, START, lambda carry, state, key: (other(carry), None), steps=2, carry=jnp.zeros(2))


def test_a_policy_of_chance_without_a_key():
    with pytest.raises(TypeError) as caught:
        kt.rollout(ARM, START, lambda carry, state, key: (carry, jax.random.normal(key, (0,))), steps=2)
    assert any("key=jax.random.key(0)" in note for note in caught.value.__notes__)


def test_rooms_that_are_imported_when_they_are_asked_for():
    assert kt.envs.make
    assert kt.learn.__name__ == "kinetree.learn"


BALL = """<mujoco><worldbody><geom type="plane" size="5 5 1"/>
  <body name="b" pos="0 0 0.1"><freejoint/><geom size="0.1"/>
  <site name="s"/></body></worldbody><sensor><accelerometer name="a" site="s"/></sensor></mujoco>"""


def test_no_states_at_all():
    """A batch of none is a batch."""
    model = kt.load(BALL)
    none = kt.initial_state(model, batch=(0,))
    assert kt.advance(model, none).q.shape == (0, 7)
    assert kt.constrained_dynamics(model, none.q, none.qd, none.qd).qdd.shape == (0, 6)
    assert kt.sensors(model, none)["a"].shape == (0, 3)
    assert kt.contact_forces(model, none).shape == (0, model.n_bodies, 6)


PULLED = """<mujoco><worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody>
  <tendon><fixed name="t"><joint joint="j" coef="2"/></fixed></tendon>
  <actuator><motor joint="j"/></actuator></mujoco>"""


def test_no_states_of_tendons_actuators_and_forces():
    """The numbers of an empty batch say nothing about the other axes."""
    model, none = kt.load(PULLED), np.zeros((0, 1))
    forces = np.zeros((0, model.n_bodies, 6))
    assert kt.actuator_force(model, none, none, none).shape == (0, 1)
    assert kt.tendon_length(model, none).shape == (0, 1)
    assert kt.tendon_jacobian(model, none).shape == (0, 1, 1)
    assert kt.forward_dynamics(model, none, none, none, forces).shape == (0, 1)
    assert kt.advance(model, kt.initial_state(model, none, none), none, forces).q.shape == (0, 1)


def test_a_state_of_lists():
    after = kt.advance(kt.load(PULLED), kt.initial_state(kt.load(PULLED)).replace(q=[0.3], qd=[0]))
    np.testing.assert_allclose(after.q, 0.3, atol=0.01)


def test_no_bodies_at_all():
    """A tree of none is a tree."""
    nothing = kt.Model.from_arrays([], [], np.zeros((0, 6, 6)), np.zeros((0, 6, 6)))
    q = np.zeros((2, 0))
    assert kt.constrained_dynamics(nothing, q, q).qdd.shape == (2, 0)
    assert kt.constrained_inverse_dynamics(nothing, q, q, q).shape == (2, 0)


def test_numpy_states_where_something_else_is_traced():
    """A tracer is no NumPy array, and nobody asks for one."""
    after = jax.jit(lambda dt: kt.advance(ARM, START, dt=dt).q)(1e-3)
    np.testing.assert_allclose(after, kt.advance(ARM, START, dt=1e-3).q, rtol=0, atol=1e-12)
    moving = np.ones((3, 2))

    def pull(gravity):
        return kt.inverse_dynamics(ARM.replace(gravity=gravity), *moving).sum()

    g = jnp.asarray([0.0, 0.0, -9.81])
    slope = jax.grad(pull)(g)
    np.testing.assert_allclose(slope @ g, pull(np.asarray(g)) - pull(np.zeros(3)), rtol=1e-10)


@pytest.mark.parametrize(
    ("q", "said"), [([[1, 2], [3]], "q must be an array of shape"), (np.zeros((3, 2)), "batch axes do not broadcast")]
)
def test_states_of_a_step_that_do_not_fit(q, said):
    with pytest.raises(ValueError, match=said):
        kt.step(ARM, q, np.zeros((2, 2)), 1e-3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mass": np.ones(3)}, r"mass must be a number or of shape \(2,\), not of shape \(3,\)"),
        ({"mass": jnp.ones((2, 2))}, r"mass must be a number or of shape \(2,\), not of shape \(2, 2\)"),
        ({"mass": -1.0}, "mass must be finite and not negative"),
        ({"damping": np.nan}, "damping must be finite"),
        ({"gravity": np.ones(2)}, "gravity must be a number, not of shape"),
        ({"friction": "high"}, "friction must be a real number"),
        ({"gain": [[1, 2], [3]]}, "gain must be a real number"),
        ({"size": 1 + 1j}, "size must be a real number"),
    ],
)
def test_factors_that_can_not_be_meant(given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        kt.scaled(ARM, **given)


@pytest.mark.parametrize("q", ["closed", np.zeros(3), None, np.zeros(2, complex)])
def test_a_model_without_loops_takes_no_other_arrays(q):
    with pytest.raises((ValueError, TypeError), match="q must"):
        kt.close_loops(ARM, q)
    np.testing.assert_array_equal(kt.close_loops(ARM, [1, 2]), [1.0, 2.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda model, q: kt.inverse_dynamics(model, q, q, q),
        lambda model, q: kt.mass_matrix(model, q),
        lambda model, q: kt.kinetic_energy(model, q, q),
        lambda model, q: kt.factorize(model, np.eye(2)),
        lambda model, q: kt.constrained_dynamics(model, q, q),
        lambda model, q: kt.contacts(model, q),
        lambda model, q: kt.step(model, q, q, 1e-3),
        lambda model, q: kt.advance(model, START),
        lambda model, q: kt.rollout(model, START, steps=1),
        lambda model, q: kt.simulate(model, q, q, dt=1e-3, steps=1),
        lambda model, q: kt.sensors(model, START),
        lambda model, q: kt.initial_state(model),
        lambda model, q: kt.explain(model),
    ],
)
def test_the_path_of_a_file_is_no_model(call):
    with pytest.raises(TypeError, match=r"model must be a kinetree\.Model, such as kinetree\.load makes, not a str"):
        call("robot.urdf", np.zeros(2))


@pytest.mark.parametrize("dt", [None, "1", np.nan, np.inf, np.ones(2), 1j])
def test_single_steps_of_no_length(dt):
    with pytest.raises(ValueError, match="dt must be a number of seconds"):
        kt.step(ARM, np.zeros(2), np.zeros(2), dt)


@pytest.mark.parametrize("body", [1.5, np.zeros(2), None])
def test_a_body_is_a_number_or_a_name(body):
    with pytest.raises(TypeError, match="body must be a number or a name"):
        kt.jacobian(ARM, np.zeros(2), body)


def test_other_arguments_of_the_wrong_kind():
    with pytest.raises(TypeError, match=r"with_tendons takes kinetree\.Tendon, not a str"):
        kt.with_tendons(ARM, ["string"])
    with pytest.raises(TypeError, match=r"with_shapes takes kinetree\.Shape, not a str"):
        kt.with_shapes(ARM, ["sphere"])
    with pytest.raises(kt.ModelError, match="gravity must be an array of real numbers: not of type complex128"):
        ARM.replace(gravity=np.zeros(3, complex))
    for dates in (np.zeros(2, "m8[s]"), np.zeros(2, complex), np.array(["1", "2"])):
        with pytest.raises(kt.ModelError, match="damping must be 2 real numbers, or one for all"):
            ARM.replace(damping=dates)
    with pytest.raises(kt.ModelError, match=r"timestep must be an array of real numbers: not of type datetime64"):
        ARM.replace(timestep=np.datetime64("2020"))
    for name, size in {"damping": 2, "gravity": 3, "rest": 2}.items():
        for numbers in (jnp.zeros(size, complex), jax.random.split(jax.random.key(0), size)):
            with pytest.raises(TypeError, match=f"{name} must hold real numbers"):
                ARM.replace(**{name: numbers})
    with pytest.raises(ValueError, match="batch must be a number of states"):
        kt.explain(ARM, -1)
    with pytest.raises(ValueError, match="batch must be sizes of leading axes"):
        kt.random_state(ARM, 0, (1.5,))
    for key in (-1, 1.5, None, "seed"):
        with pytest.raises(TypeError, match="key must be a JAX random key or a seed"):
            kt.random_state(ARM, key)


@pytest.mark.parametrize(("bad", "says"), [(np.nan, r"q\[3\] is nan"), (0.0, "quaternion of length zero, of joint")])
def test_states_without_an_answer(bad, says):
    """They became NaN without a word, where forward dynamics refuses them; under `jit` they are NaN."""
    model = kt.load(BALL)
    state = kt.initial_state(model, batch=(3,))
    q = state.q.copy()
    q[1, 3:] = bad
    broken = state.replace(q=q)
    kt.advance(model, state)  # leaves a builtin, which must not serve the next call
    for name, call in (
        ("forward_dynamics", lambda: kt.forward_dynamics(model, q, state.qd, state.qd)),
        ("constrained_dynamics", lambda: kt.constrained_dynamics(model, q, state.qd)),
        ("advance", lambda: kt.advance(model, broken)),
    ):
        with pytest.raises(ValueError, match=f"{name}, state 1: .*{says}"):
            call()
    after = jax.jit(lambda s: kt.advance(model, s).qd)(jax.tree.map(jnp.asarray, broken))
    np.testing.assert_array_equal(np.isfinite(after).all(-1), [True, False, True])


NO_ZERO = np.zeros(2)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"steps": 2.0}, "steps must be a multiple of record"),
        ({"steps": None}, "steps must be a multiple of record"),
        ({"steps": np.zeros(2)}, "steps must be a multiple of record"),
        ({"record": "all"}, "steps must be a multiple of record"),
        ({"controller": NO_ZERO}, r"controller must be a function of \(t, q, qd\), not a ndarray"),
        ({"controller": lambda t, q, qd: None}, r"controller must return forces, an array of shape \(1,\), not None"),
        ({"checkpoint_seconds": "1"}, "checkpoint_seconds must be a number of seconds"),
        ({"ctrl": np.array([np.nan])}, r"simulate: ctrl\[0\] is nan, and every argument must be finite"),
        ({"devices": {"cpu": 1}}, "devices must be JAX devices"),
        ({"checkpoint": 3}, "checkpoint must be the path of a file, not a int"),
        ({"progress": NO_ZERO}, "progress must be True or False"),
    ],
)
def test_runs_that_can_not_be_meant(given, says):
    model = kt.load(PULLED)
    with pytest.raises((ValueError, TypeError), match=says):
        kt.simulate(model, np.zeros(1), np.zeros(1), **{"dt": 1e-3, "steps": 2} | given)


@pytest.mark.parametrize(("bad", "says"), [(np.nan, r"q\[3\] is nan"), (0.0, "quaternion of length zero, of joint")])
def test_runs_from_states_that_are_none(bad, says):
    model = kt.load(BALL)
    q = np.tile(kt.neutral(model), (3, 1))
    q[1, 3:] = bad
    with pytest.raises(ValueError, match=f"simulate, state 1: .*{says}"):
        kt.simulate(model, q, np.zeros((3, 6)), dt=1e-3, steps=1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"done": "late"}, "done must be a function of a state, not a str"),
        ({"done": lambda s: None}, r"done must return an array of booleans of shape \(\), not None"),
        ({"done": lambda s: NO_ZERO}, r"done must return an array of booleans of shape \(\), not shape \(2,\)"),
        ({"f_ext": lambda s: None}, r"f_ext must return forces, an array of shape \(\.\.\., 2, 6\), not None"),
        ({"key": 0}, r"key must be one JAX random key, such as jax\.random\.key\(0\), not a int"),
        ({"key": jax.random.split(jax.random.key(0))}, "key must be one JAX random key"),
        ({"reset": NO_ZERO}, r"reset must be a kinetree\.State"),
        ({"done": lambda s: s.q[..., 0] > 1, "reset": "start"}, r"reset must be a kinetree\.State"),
    ],
)
def test_ends_of_rollouts_that_can_not_be_meant(given, says):
    with pytest.raises(TypeError, match=says):
        kt.rollout(ARM, START, steps=1, **given)


KEY = jax.random.key(0)


class Unreadable:
    """As a tensor on a device that NumPy can not reach."""

    def __array__(self, *_args, **_kwargs):
        raise RuntimeError("gone")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kt.inverse_dynamics(ARM, KEY, NO_ZERO, NO_ZERO), r"q must hold real numbers, not key<fry>"),
        (lambda: kt.bias_force(ARM, NO_ZERO, [[1], [2, 3]]), "qd must be an array of shape"),
        (lambda: kt.gravity_force(ARM, np.zeros(2, "M8[s]")), "q must hold real numbers"),
        (lambda: kt.scaled(ARM, friction=KEY), "friction must be a real number or an array of them, not of type key"),
        (lambda: kt.random_state(ARM, jnp.zeros(2)), "key must be a JAX random key or a seed"),
        (lambda: kt.explain(ARM, dtype="wide"), "dtype must be a type of real numbers, such as float, not 'wide'"),
        (lambda: kt.initial_state(ARM, keyframe=1.5), "a keyframe is a name or a number, not a float"),
        (lambda: ARM.replace(loops="weld"), r"loops must be kinetree\.Loop, not a str"),
        (lambda: kt.auto_tree("three"), "n must be a whole number, at least 1"),
        (lambda: kt.auto_tree(10**30), "n must be a whole number, at least 1"),
        (lambda: kt.auto_tree(3, np.inf), "branching must be a finite number"),
        (lambda: kt.auto_tree(3, 1, None), "skew must be a finite number"),
        (lambda: kt.chain_pieces(3, 1, "a"), "skew must be a finite number"),
        (lambda: kt.chain_pieces(3, 4), "has 1 to 3 pieces, not 4"),
        (lambda: kt.step(ARM, NO_ZERO, NO_ZERO, jnp.ones(2)), "dt must be a number of seconds"),
        (lambda: kt.step(ARM, NO_ZERO, NO_ZERO, 1e-3, "pd"), "controller must be a function"),
        (lambda: kt.step(ARM, NO_ZERO, NO_ZERO, 1e-3, t="now"), "t must be a number of seconds, not 'now'"),
        (lambda: kt.rollout(ARM, START, steps=1, record=1), "record must be a word, not of type int"),
        (lambda: kt.rollout(ARM, START, [[1], [2, 3]], steps=2), "policy must be an array: rows of this list differ"),
        (lambda: kt.integrate(ARM, NO_ZERO, np.array(["a", "b"]), 0.1), "qd must hold real numbers"),
        (lambda: kt.Trajectory.load(3), "path must be the path of a file, not a int"),
        (lambda: kt.gravity_force(ARM, Unreadable()), "q must be an array .*NumPy can not read this Unreadable: gone"),
    ],
)
def test_more_that_is_refused_in_words(call, says):
    with pytest.raises((ValueError, TypeError), match=says):
        call()


@pytest.mark.parametrize(
    ("tau", "says"),
    [
        (3.0, r"tau must have shape \(\.\.\., 1\), not \(\)"),
        ("much", "tau must hold real numbers"),
        (np.zeros((2, 1)), r"batch axes do not broadcast: .*tau \(2,\)"),
    ],
)
def test_forces_beside_controls_are_checked(tau, says):
    """One number was spread over all joints, and shapes met NumPy's errors."""
    model = kt.load(PULLED)
    with pytest.raises((ValueError, TypeError), match=says):
        kt.constrained_dynamics(model, np.zeros((3, 1)), np.zeros(1), tau, ctrl=np.zeros(1))


def test_no_states_of_rigid_loops():
    closed, none = kt.auto_tree(3).replace(loops=[kt.Loop(0, 2, kind="planar")]), np.zeros((0, 3))
    found = kt.constrained_dynamics(closed, none, none)
    assert (found.qdd.shape, found.loop_forces.shape) == ((0, 3), (0, 1, 6))


STRUNG = PULLED.replace(
    'coef="2"/></fixed>', 'coef="2"/></fixed><fixed name="u" stiffness="3"><joint joint="j" coef="1"/></fixed>'
)


def test_no_states_of_tendons_that_pull_and_of_calls_that_are_kept():
    model, none = kt.load(STRUNG), np.zeros((0, 1))
    pulled = kt.load("""<mujoco><worldbody><site name="a" pos="1 0 0"/><body><joint/><geom size="0.1"/><site name="b"/>
      </body></worldbody><tendon><spatial name="t"><site site="a"/><site site="b"/></spatial></tendon>
      <actuator><motor tendon="t"/></actuator></mujoco>""")
    assert kt.actuator_force(pulled, none, none, none).shape == (0, 1)
    assert kt.constrained_inverse_dynamics(model, none, none, none).shape == (0, 1)
    start, forces = kt.initial_state(model), np.zeros((model.n_bodies, 6))
    kt.advance(model, start, np.zeros(1), forces)  # which makes the direct way known
    assert kt.advance(model, start, np.zeros(1), forces[None][:0]).q.shape == (0, 1)


def test_positions_and_velocities_have_one_type_and_one_batch():
    """Where nothing has to be closed, too."""
    q, qd = kt.close_loops(ARM, np.zeros((3, 2)), np.zeros(2, np.float32))
    assert q.shape == qd.shape == (3, 2)
    assert q.dtype == qd.dtype == np.float64


def test_an_implicit_step_of_what_can_not_move():
    still = kt.Model.from_arrays([-1], ["fixed"], np.eye(6), np.eye(6))
    assert kt.step(still, np.zeros(0), np.zeros(0), 0.1, integrator="variational")[0].shape == (0,)


HELD = kt.load(PULLED).replace(limits=kt.Limits(*np.full((4, 1), 9.0)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda c: c.pd("robot", NO_ZERO, 1, 1), r"model must be a kinetree\.Model"),
        (lambda c: c.pd(HELD, np.zeros(3), 1, 1), r"target must have shape \(\.\.\., 1\), not \(3,\)"),
        (lambda c: c.pd(HELD, [[1], [2, 3]], 1, 1), "target must be an array"),
        (lambda c: c.pd(HELD, np.zeros(1), "stiff", 1), "kp must hold real numbers"),
        (lambda c: c.pd(HELD, np.zeros(1), 1, np.ones(3)), r"kd must be a number or have shape \(1,\), not \(3,\)"),
        (lambda c: c.computed_torque(HELD, 3, 1, 1), "reference must be a function of t"),
        (
            lambda c: c.computed_torque(HELD, lambda t: None, 1, 1),
            r"reference must return \(q, qd, qdd\), not a NoneType",
        ),
        (lambda c: c.total(3), r"controller must be a function of \(t, q, qd\)"),
        (lambda c: c.total(lambda t, q, qd: None), "controller must return forces, .*, not None"),
        (lambda c: c.saturated(HELD, 3), r"controller must be a function of \(t, q, qd\)"),
        (lambda c: c.saturated(HELD, lambda t, q, qd: None), "controller must return forces, .*, not None"),
    ],
)
def test_controllers_that_can_not_be_meant(make, says):
    with pytest.raises((ValueError, TypeError), match=says):
        kt.step(HELD, np.zeros(1), np.zeros(1), 1e-3, make(kt.controllers))


def test_an_error_of_a_run_goes_from_one_process_to_another():
    """A pool of processes waits for ever for an error that it can not read."""
    with pytest.raises(kt.SimulationError) as caught:
        kt.simulate(ARM, START.q, START.qd, lambda t, q, qd: q + jnp.nan, dt=1e-3, steps=2)
    found = pickle.loads(pickle.dumps(caught.value))
    assert (str(found), found.time, found.joint) == (str(caught.value), 0.0, caught.value.joint)
    np.testing.assert_array_equal(found.trajectory.q, [START.q])


def test_records_of_a_run_are_runs():
    run = kt.Trajectory(np.arange(3.0), *np.arange(18.0).reshape(3, 3, 2))
    assert [float(one.time[0]) for one in run] == [0, 1, 2]
    np.testing.assert_array_equal(run[-1].q, run.q[2:])
    with pytest.raises(IndexError):
        run[3]


def test_worlds_can_be_compared():
    assert kt.load(BALL).world != kt.load(BALL).world
    assert len({kt.load(BALL).world}) == 1
