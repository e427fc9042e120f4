"""Rows, placements and merged inertias: chained by hand they must give the oracle's poses, velocities and energies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.model import Helical, Model, Prismatic, Revolute
from kinetree.model.compile import _axis_frame
from kinetree.model.coordinates import placements, velocity_product_shift
from kinetree.model.orientation import quaternion_from_rotation
from kinetree.spatial import Quaternion, Vec3
from tests.reference import dense, generate

from .mechanisms import model_of, sample

BODY = np.array([1.0, 0, 0, 0, 0.1, 0.1, 0.1, 0, 0, 0])


def stack(components):
    """Components (k, n) as an array (n, k)."""
    return np.stack([np.asarray(c, float) for c in components], -1)


def row_transforms(model, q):
    """Plücker matrix of every row from its parent, (nv, 6, 6), at one q."""
    rows = jax.tree.map(lambda x: jnp.asarray(x)[:, None], model.rows)
    orientation, position = placements(model.structure, rows, jnp.asarray(q)[:, None])
    E = dense.rotation_of_quaternion(stack(orientation)[:, 0])
    return dense.plux(E, stack(position)[:, 0])


def frame_transforms(model):
    """Plücker matrix from its row's frame to every body's."""
    E = stack(model.frames.E).reshape(-1, 3, 3)
    return dense.plux(E, stack(model.frames.r))


def world_poses(model, q):
    """Plücker matrices from the base to every body, by way of the rows."""
    from_base = [np.eye(6)]  # one place on: the base is row −1
    for p, X in zip(model.tree.parent, row_transforms(model, q), strict=True):
        from_base.append(X @ from_base[p + 1])
    return frame_transforms(model) @ np.array(from_base)[model.structure.row_of_body + 1]


def row_motions(model, q, qd, qdd=None):
    """Velocities and spatial accelerations of the base and the rows, (1 + nv, 6); the base rests, without gravity."""
    X = row_transforms(model, q)
    S = np.zeros((model.nv, 6))
    S[:, 2], S[:, 5] = model.rows.turn, model.rows.slide
    v, a = [np.zeros(6)], [np.zeros(6)]
    if qdd is None:
        qdd = np.zeros(model.nv)
    else:
        qdd = qdd - np.asarray(velocity_product_shift(model.structure, jnp.asarray(qd)[:, None]))[:, 0]
    for i, p in enumerate(model.tree.parent):
        v.append(X[i] @ v[p + 1] + S[i] * qd[i])
        a.append(X[i] @ a[p + 1] + S[i] * qdd[i] + dense.cross_motion(v[-1], S[i] * qd[i]))
    return np.array(v), np.array(a)


ALL = [*((kind,) for kind in generate.KINDS), generate.KINDS]
every_joint = pytest.mark.parametrize("joints", ALL, ids=lambda joints: joints[0] if len(joints) == 1 else "all")


@every_joint
@pytest.mark.parametrize("shape", ["random", "chain", "forest"])
def test_poses(joints, shape):
    desc, model, s = sample(1, 5 if len(joints) == 1 else 28, joints=joints, shape=shape)
    E, position = dense.poses(desc, s.q)
    X = world_poses(model, s.q)
    assert X.shape == (desc.n_bodies, 6, 6)
    np.testing.assert_allclose(X, dense.plux(E, position).astype(float), atol=2e-13)


@every_joint
def test_velocities_and_accelerations(joints):
    desc, model, s = sample(2, 5 if len(joints) == 1 else 28, joints=joints)
    desc = desc.with_gravity(np.zeros(3))
    k = dense.kinematics(desc, s.q, s.qd)
    v, a = row_motions(model, s.q, s.qd, s.qdd)
    F, row = frame_transforms(model), model.structure.row_of_body + 1
    np.testing.assert_allclose((F @ v[row][..., None])[..., 0], k.v.astype(float), atol=1e-12 * (1 + np.abs(v).max()))
    expected = dense.accelerations(desc, k, s.qdd).astype(float)
    np.testing.assert_allclose((F @ a[row][..., None])[..., 0], expected, atol=1e-12 * (1 + np.abs(expected).max()))


@every_joint
def test_kinetic_energy_of_the_rows(joints):
    desc, model, s = sample(3, 5 if len(joints) == 1 else 28, joints=joints)
    v = row_motions(model, s.q, s.qd)[0][1:]
    I = np.asarray(model.rows.inertia.articulated().array())
    kinetic = float(dense.energy(desc, s.q, s.qd)[0])
    np.testing.assert_allclose(np.einsum("ni,nij,nj", v, I, v) / 2, kinetic, rtol=1e-12)


def test_only_the_last_row_of_a_joint_has_inertia():
    _, model, _ = sample(4)
    start = model.structure.v_start
    inner = np.setdiff1d(np.arange(model.nv), start[1:] - 1)
    assert len(inner)
    assert np.all(model.rows.inertia.mass[inner] == 0)


def test_layout_is_the_oracles():
    desc, model, _ = sample(5, 40, order="random")
    assert (model.nq, model.nv) == (desc.nq, desc.nv)
    np.testing.assert_array_equal(model.structure.q_start, desc.q_start)
    np.testing.assert_array_equal(model.structure.v_start, desc.v_start)
    moving = np.diff(desc.v_start) > 0
    np.testing.assert_array_equal(model.structure.row_of_body[moving], desc.v_start[1:][moving] - 1)


def test_quaternions_of_rotations():
    rng = np.random.default_rng(6)
    given = np.concatenate(
        [rng.standard_normal((300, 4)), np.eye(4), [[1e-9, 1, 0, 0], [1, 1e-9, 0, 0], [0, 1, -1, 1]]]
    )
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    found = quaternion_from_rotation(dense.rotation_of_quaternion(given))
    np.testing.assert_allclose(found * np.sign((found * given).sum(1, keepdims=True)), given, atol=1e-15)


def test_axis_frames():
    rng = np.random.default_rng(7)
    near = np.concatenate([s * np.eye(3)[k] + 10.0**-e * rng.standard_normal((1, 3))
                           for k in range(3) for s in (-1, 1) for e in range(1, 20)])  # fmt: skip
    axes = np.concatenate([np.eye(3), -np.eye(3), rng.standard_normal((100, 3)), near])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    q = Quaternion.from_array(_axis_frame(axes))
    np.testing.assert_allclose(q.norm_squared(), 1, atol=1e-15)
    np.testing.assert_allclose(stack(q.turn(Vec3(0.0, 0.0, 1.0))), axes, atol=1e-15)


@pytest.mark.parametrize("off", [1e-5, 1e-7, 1e-10])
@pytest.mark.parametrize("axis", [*np.eye(3), *-np.eye(3)], ids=["x", "y", "z", "-x", "-y", "-z"])
def test_axes_almost_along_a_coordinate_axis_are_kept(axis, off):
    axis = axis + off * np.array([0.3, -0.5, 0.4])
    desc = dense.Description([-1], [("helical", tuple(axis), 0.7)], np.eye(6)[None], np.eye(6)[None], np.zeros(3))
    E, position = dense.poses(desc, [1.3])
    X = world_poses(model_of(desc), np.array([1.3]))
    np.testing.assert_allclose(X[0], dense.plux(E, position)[0], atol=1e-15)


# ---------------------------------------------------------------------------------------------------- fixed joints


def test_fixed_bodies_become_frames():
    step = dense.plux(dense.rotx(np.array(0.3)), np.array([0.1, 0.2, 0.3]))
    model = Model.from_arrays([-1, 0, 1, 2, 3], ["fixed", "Rz", "fixed", "fixed", "Px"], step, BODY)
    assert (model.n_bodies, model.nv, model.nq) == (5, 2, 2)
    np.testing.assert_array_equal(model.structure.row_of_body, [-1, 0, 0, 0, 1])
    np.testing.assert_array_equal(model.tree.parent, [-1, 0])
    np.testing.assert_allclose(model.rows.inertia.mass, [3, 1])  # bodies 1, 2 and 3; body 4
    np.testing.assert_allclose(model.total_mass, 4)  # body 0 is part of the base
    np.testing.assert_allclose(frame_transforms(model)[[0, 1, 2, 3]], [step, np.eye(6), step, step @ step], atol=1e-15)


@pytest.mark.parametrize("length", [1, 2, 3, 64, 5000])
def test_long_chains_of_fixed_bodies(length):
    n = length + 2
    joints = ["Ry", *["fixed"] * length, "Rz"]
    angle, reach = 0.7 / length, 1.0 / length
    step = dense.plux(dense.rotx(np.array(angle)), np.array([reach, 0, 0]))
    model = Model.from_arrays(np.arange(n) - 1, joints, step, BODY)
    assert model.nv == 2
    np.testing.assert_allclose(model.rows.inertia.mass, [length + 1, 1])
    X = world_poses(model, np.zeros(2))
    expected = dense.plux(dense.rotx(angle * np.arange(1, n + 1)), np.outer(reach * np.arange(1, n + 1), [1, 0, 0]))
    np.testing.assert_allclose(X, expected, atol=1e-14 * (1 + np.sqrt(length)))


def test_all_bodies_fixed():
    desc, model, s = sample(8, 5, joints="fixed", shape="chain")
    assert (model.nq, model.nv, len(s.q)) == (0, 0, 0)
    E, position = dense.poses(desc, s.q)
    np.testing.assert_array_equal(model.structure.row_of_body, -1)
    np.testing.assert_allclose(frame_transforms(model), dense.plux(E, position).astype(float), atol=1e-14)


def test_one_degree_of_freedom_joints_take_any_axis():
    axis = np.array([1.0, 2.0, -2.0])
    model = Model.from_arrays([-1, 0, 1], [Revolute(axis), Prismatic(5 * axis), Helical(axis, 0.1)], np.eye(6), BODY)
    X = world_poses(model, np.array([0.4, 0.5, 0.6]))[2]
    E = dense.rotation_about(axis / 3, np.array(1.0))
    np.testing.assert_allclose(X, dense.plux(E, (0.5 + 0.06) * axis / 3), atol=1e-15)
