"""The Coriolis matrix."""

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt
from kinetree.dynamics.mass_matrix import mass_matrix
from tests.dynamics.mixed import mixed_model, rate, state


def test_times_velocity_is_the_velocity_part_of_the_bias():
    model = mixed_model()
    q, qd, _ = state(model)
    expected = kt.bias_force(model, q, qd) - kt.gravity_force(model, q)
    C = kt.coriolis_matrix(model, q, qd)
    np.testing.assert_allclose(np.einsum("bij,bj->bi", C, qd), expected, atol=1e-10)


def test_the_rate_of_the_mass_matrix_less_twice_it_is_skew():
    model = mixed_model()
    q, qd, _ = state(model)
    changing = rate(model, lambda q, _: mass_matrix(model, q), q, qd)
    rest = np.asarray(changing - 2 * kt.coriolis_matrix(model, q, qd))
    assert np.abs(rest).max() > 1
    np.testing.assert_allclose(rest, -np.swapaxes(rest, 1, 2), atol=1e-10)


def test_it_is_made_of_christoffel_symbols():
    model = kt.auto_tree(5, branching=1.5, skew=0.4)
    q, qd = (jnp.asarray(x) for x in kt.random_state(model, 2))
    d = jax.jacfwd(lambda q: mass_matrix(model, q))(q)  # d[i, j, k] = ∂H_ij/∂q_k
    symbols = 0.5 * (d + jnp.swapaxes(d, 1, 2) - jnp.transpose(d, (2, 1, 0)))
    np.testing.assert_allclose(kt.coriolis_matrix(model, q, qd), symbols @ qd, atol=1e-12)


LINK = """<link name="{}"><inertial><origin xyz="0.1 0.02 0.3"/><mass value="1.3"/>
<inertia ixx="0.1" iyy="0.2" izz="0.15" ixy="0.01" ixz="0" iyz="0"/></inertial></link>"""
HINGE = """<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{2}"/><origin xyz="0.1 0.2 0.3"/>
<axis xyz="{3}"/>{4}</joint>"""
MIMIC = '<mimic joint="j" multiplier="-0.7" offset="0.2"/>'
FINGERS = "".join(
    [
        '<robot name="fingers">',
        *map(LINK.format, "abcd"),
        HINGE.format("i", "a", "b", "0 0 1", ""),
        HINGE.format("j", "b", "c", "0 1 0", ""),
        HINGE.format("k", "b", "d", "1 1 0", MIMIC),
        "</robot>",
    ]
)


def test_rotors_of_a_free_base_where_joints_follow_others():
    model = kt.load(FINGERS.encode(), floating_base=True)
    model = model.replace(armature=[0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.2, 0.3, 0.4])
    q, qd = kt.random_state(model, 0, (4,))
    expected = kt.bias_force(model, q, qd) - kt.gravity_force(model, q)
    for C in (kt.coriolis_matrix(model, q, qd), jax.jit(kt.coriolis_matrix)(model, jnp.asarray(q), jnp.asarray(qd))):
        np.testing.assert_allclose(np.einsum("bij,bj->bi", C, qd), expected, atol=1e-12)
