"""Real robots agree with Pinocchio: the files of example-robot-data, on fixed and on floating bases."""

import warnings

import pytest

import kinetree as kt

pin = pytest.importorskip("pinocchio")
from tests.io.pinocchio_agreement import errors, pinocchio_model, robot_files  # noqa: E402

FILES = robot_files()
BOUND = 1e-9
TEN = (  # arms, hands, legs, a humanoid, a quadrotor; continuous and prismatic joints, mimic joints, odd inertias
    "allegro_hand_description/urdf/allegro_left_hand.urdf",
    "anymal_b_simple_description/robots/anymal.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "iris_description/robots/iris.urdf",
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",
    "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "solo_description/robots/solo12.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "ur_description/urdf/ur5_robot.urdf",
)
# Their fingers and eyelids turn links without inertia: H is singular, and no force has an acceleration.
MASSLESS = ("romeo_description/urdf/romeo.urdf", "romeo_description/urdf/romeo_laas_small.urdf")
both_bases = pytest.mark.parametrize("floating_base", [False, True], ids=["fixed", "floating"])


def load_quietly(path, floating_base):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kt.load(path, floating_base=floating_base)


def assert_agrees(model, theirs, massless=False):
    assert model.nv == theirs.nv
    assert model.total_mass == pytest.approx(pin.computeTotalMass(theirs), rel=1e-12)
    worst = errors(model.without_passive, theirs, massless)
    assert ("forward_dynamics" in worst) == (model.nv > 0 and not massless)
    assert max(worst.values()) < BOUND, worst


@pytest.mark.parametrize("method", ["auto", "crba", "jsiia", "cg"])
@pytest.mark.parametrize("name", [n for n in MASSLESS if n in FILES])
def test_a_robot_with_massless_ends_has_no_forward_dynamics_and_says_so(name, method):
    model = load_quietly(FILES[name], True)
    for each in (model, model.uncoupled) if method in ("auto", "crba") else (model.uncoupled,):
        q, qd = kt.random_state(each, 1)
        with pytest.raises(ValueError, match=r"not positive definite|did not reach"):
            kt.forward_dynamics(each, q, qd, qd, method=method)


@pytest.mark.parametrize(("number", "name"), [(k, n) for k, n in enumerate(TEN) if n in FILES])
def test_ten_robots_agree(number, name):
    """On a fixed and on a floating base in turn; the marker `robots` has each on both."""
    floating_base = number % 2 == 1
    model = load_quietly(FILES[name], floating_base)
    assert_agrees(model, pinocchio_model(FILES[name], floating_base, mimic=True))


@pytest.mark.robots
@both_bases
@pytest.mark.parametrize("name", FILES)
def test_every_robot_agrees(name, floating_base):
    path = FILES[name]
    try:
        free = pinocchio_model(path, floating_base, mimic=False)
    except ValueError as error:
        with pytest.raises(kt.ModelError):
            kt.load(path)
        pytest.skip(f"Pinocchio does not load it: {error}")
    model = load_quietly(path, floating_base)
    assert_agrees(model.uncoupled, free, massless=name in MASSLESS)
    if model.coupling is not None:
        try:
            coupled = pinocchio_model(path, floating_base, mimic=True)
        except (ValueError, RuntimeError):
            return  # Pinocchio does not couple every robot that we do
        assert_agrees(model, coupled)


def test_a_robot_of_sixty_degrees_of_freedom_in_single_precision():
    """FK in float32 is within 1e-5 of float64, over the robot's reach."""
    import jax.numpy as jnp
    import numpy as np

    model = kt.auto_tree(60, branching=1.5, skew=0.3)
    q, _ = kt.random_state(model, 0, (20,))
    exact, single = kt.forward_kinematics(model, q), kt.forward_kinematics(model, jnp.asarray(q, jnp.float32))
    reach = np.abs(exact.position).max()
    assert single.position.dtype == jnp.float32
    assert np.abs(np.asarray(single.position) - exact.position).max() / reach < 1e-5
    assert np.abs(np.asarray(single.rotation) - exact.rotation).max() < 1e-5
