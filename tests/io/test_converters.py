"""Conventions of Pinocchio and MuJoCo, there and back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Mujoco, Pinocchio
from kinetree.model import Joint
from tests.io.mujoco_agreement import relative


def make():
    continuous = Joint("continuous", kt.Revolute([0, 0, 1]).rows)
    joints = ["free", continuous, "spherical", "planar", "Px"]
    eye = np.stack([np.eye(6)] * 5)
    inertia = np.stack([np.diag([0.1, 0.2, 0.25, 1, 1, 1])] * 5)
    return kt.Model.from_arrays(np.arange(5) - 1, joints, eye, inertia, joint_names=list("abcde"))


@pytest.mark.parametrize("convention", [Pinocchio, Mujoco])
@pytest.mark.parametrize("order", [None, list("ecbda")])
def test_there_and_back(convention, order):
    model = make()
    c = convention(model, order)
    q, qd = kt.random_state(model, 0, (2, 3))
    qdd, tau = np.random.default_rng(0).standard_normal((2, *qd.shape))
    np.testing.assert_allclose(c.q_here(c.q_there(q)), q, atol=1e-14)
    np.testing.assert_allclose(c.v_here(q, c.v_there(q, qd)), qd, atol=1e-14)
    np.testing.assert_allclose(c.a_here(q, qd, c.a_there(q, qd, qdd)), qdd, atol=1e-13)
    np.testing.assert_allclose(c.force_here(q, c.force_there(q, tau)), tau, atol=1e-14)
    power = (c.v_there(q, qd) * c.force_there(q, tau)).sum(-1)
    np.testing.assert_allclose(power, (qd * tau).sum(-1), atol=1e-12)


def test_accelerations_are_rates_of_velocities():
    model = make()
    q, qd = (jnp.asarray(x) for x in kt.random_state(model, 1, (3,)))
    qdd = jnp.asarray(np.random.default_rng(0).standard_normal(qd.shape))
    for convention in (Pinocchio(model), Mujoco(model)):

        def velocity(t, convention=convention):
            return convention.v_there(kt.integrate(model, q, qd, jnp.full(3, t)), qd + t * qdd)

        rate = jax.jvp(velocity, (0.0,), (1.0,))[1]
        np.testing.assert_allclose(convention.a_there(q, qd, qdd), rate, atol=1e-12)


def test_the_conventions_by_hand():
    model = make()
    turn = np.array([np.cos(0.3), 0, 0, np.sin(0.3)])  # 0.6 about z
    q = np.concatenate([[1, 2, 3], turn, [0.5], turn, [4, 5, 0.7], [6]])
    qd = np.arange(1.0, 15.0)
    there = Pinocchio(model)
    last = turn[[1, 2, 3, 0]]
    expected = [1, 2, 3, *last, np.cos(0.5), np.sin(0.5), *last, 4, 5, np.cos(0.7), np.sin(0.7), 6]
    np.testing.assert_allclose(there.q_there(q), expected)
    c, s = np.cos(0.7), np.sin(0.7)
    planar = [c * 11 + s * 12, c * 12 - s * 11, 13]
    np.testing.assert_allclose(there.v_there(q, qd), [4, 5, 6, 1, 2, 3, 7, 8, 9, 10, *planar, 14])
    np.testing.assert_allclose(Mujoco(model).q_there(q), q)
    c, s = np.cos(0.6), np.sin(0.6)
    world = [c * 4 - s * 5, s * 4 + c * 5, 6]
    np.testing.assert_allclose(Mujoco(model).v_there(q, qd), [*world, 1, 2, 3, *qd[6:]])


def test_what_is_refused():
    model = make()
    with pytest.raises(ValueError, match="joint_order must name each joint that moves once: a, b, c, d, e"):
        Pinocchio(model, ["a", "b"])
    with pytest.raises(ValueError, match=r"expected an array of shape \(..., 16\)"):
        Pinocchio(model).q_there(np.zeros(3))


def test_pinocchio_agrees_on_a_planar_and_a_floating_joint():
    """Mass matrix, inverse and forward dynamics of a robot with joints that no file of a real robot has."""
    pin = pytest.importorskip("pinocchio")
    from tests.io.pinocchio_agreement import errors

    def link(name):
        inertia = '<inertia ixx="0.3" iyy="0.2" izz="0.4" ixy="0.02" ixz="0.01" iyz="0"/>'
        return f'<link name="{name}"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>{inertia}</inertial></link>'

    def joint(name, parent, child, kind):
        ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="0.1 0.2 0" rpy="0.3 0.2 0.1"/>'
        return f'<joint name="{name}" type="{kind}">{ends}<axis xyz="0 0 1"/><limit effort="1" velocity="1"/></joint>'

    joints = [joint("p", "a", "b", "planar"), joint("c", "b", "c", "continuous"), joint("f", "a", "d", "floating")]
    text = f'<robot name="odd">{"".join(map(link, "abcd"))}{"".join(joints)}</robot>'
    worst = errors(kt.load(text), pin.buildModelFromXML(text))
    assert max(worst.values()) < 1e-9, worst
    assert relative(np.ones(2), np.array([1.0, 2.0])) == 0.5


def test_states_broadcast_and_what_can_not_be_meant_is_told():
    """Some joints need q to turn v: its batch axes met NumPy's errors. Either array may be JAX's."""
    model = kt.Model.from_arrays([-1, 0], ["free", "Rz"], np.eye(6), np.eye(6))
    theirs = Mujoco(model)
    q, qd = kt.random_state(model, 0, (3,))
    wanted = np.stack([theirs.v_there(x, qd[0]) for x in q])
    np.testing.assert_array_equal(theirs.v_there(q, qd[0]), wanted)
    np.testing.assert_allclose(theirs.v_there(jnp.asarray(q), qd[0]), wanted, rtol=1e-14)
    np.testing.assert_array_equal(theirs.a_here(q, qd[0], theirs.a_there(q, qd[0], qd[1])).shape, (3, 7))
    for call, says in (
        (lambda: theirs.v_there(q, qd[:2]), r"batch axes do not broadcast: q \(3,\), v \(2,\)"),
        (lambda: theirs.q_there([[1], [1, 2]]), "q must be an array: rows"),
        (lambda: theirs.v_there(q[0], ["a"] * 7), "v must hold real numbers"),
        (lambda: Mujoco("robot"), r"model must be a kinetree\.Model"),
        (lambda: Mujoco(model, 3), "joint_order must name each joint"),
        (lambda: Mujoco(model, [1, None]), "joint_order must name each joint"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            call()
