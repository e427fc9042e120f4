"""The oracle itself: against numbers of spatial_v2, and against what must hold for every joint and tree."""

import numpy as np
import pytest

from tests.reference import dense, generate, spatial_v2

L = np.longdouble
EXTENDED = np.finfo(L).eps < 1e-18  # an 80-bit or wider longdouble
TREES = spatial_v2.cases("autotree", "mixed")


def error(actual, expected):
    """Largest error over the largest magnitude; absolute where the expected numbers are all tiny."""
    actual, expected = np.asarray(actual, L), np.asarray(expected, L)
    assert actual.shape == expected.shape
    return float(np.abs(actual - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-3))


def tight(tolerance):
    """A tolerance meant for 80 bits, widened where longdouble is just a double."""
    return tolerance if EXTENDED else max(tolerance, 1e-9)


def derivative(function, step=1e-4):
    """Derivative at 0 of a function of time, fourth order."""
    h = L(step)
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


# ------------------------------------------------------------------------------------------------ spatial_v2


@pytest.mark.parametrize("name", TREES)
def test_inverse_dynamics_of_spatial_v2(name):
    case = spatial_v2.load(name)
    desc = case.description(L)
    for k in range(case.n_states):
        q, qd, qdd, f_ext = case.q[k], case.qd[k], case.qdd[k], case.f_ext[k]
        assert error(case.ID[k], dense.rnea(desc, q, qd, qdd)) < 1e-12
        assert error(case.ID_fext[k], dense.rnea(desc, q, qd, qdd, f_ext)) < 1e-12
        assert error(case.C[k], dense.rnea(desc, q, qd, 0 * qdd)) < 1e-12
        assert error(case.C_fext[k], dense.rnea(desc, q, qd, 0 * qdd, f_ext)) < 1e-12
        assert error(case.H[k], dense.crba(desc, q)) < 1e-12


@pytest.mark.parametrize("name", TREES)
def test_forward_dynamics_of_spatial_v2(name):
    case = spatial_v2.load(name)
    desc = case.description(L)
    for k in range(case.n_states):
        rounding = case.condH[k] * 2e-16
        qdd = dense.aba(desc, case.q[k], case.qd[k], case.tau[k])
        assert error(case.FDab[k], qdd) < 1e-12 + rounding
        assert error(case.FDcrb[k], qdd) < 1e-12 + rounding
        assert error(case.FDab_rt[k], dense.aba(desc, case.q[k], case.qd[k], case.ID[k])) < 1e-12 + rounding
        qdd_fext = dense.aba(desc, case.q[k], case.qd[k], case.ID_fext[k], case.f_ext[k])
        assert error(case.FDab_fext[k], qdd_fext) < 1e-12 + rounding
        assert error(case.FDcrb_fext[k], qdd_fext) < 1e-12 + rounding
        if EXTENDED:  # against another 80-bit articulated-body algorithm
            extended = case.condH[k] * np.finfo(L).eps
            assert error(case.qdd_ld[k], qdd) < 1e-15 + extended
            assert error(case.qdd_ld_fext[k], qdd_fext) < 1e-15 + extended


@pytest.mark.parametrize("name", TREES)
def test_energy_and_momentum_of_spatial_v2(name):
    case = spatial_v2.load(name)
    desc = case.description(L)
    for k in range(case.n_states):
        kinetic, potential = dense.energy(desc, case.q[k], case.qd[k])
        h = dense.momentum(desc, case.q[k], case.qd[k])
        assert error(case.KE[k], kinetic) < 1e-12
        assert error(case.PE[k], potential) < 1e-12
        assert error(case.cm[k], dense.center_of_mass(desc, case.q[k])) < 1e-12
        assert error(case.mass[k], desc.inertia[:, 5, 5].sum()) < 1e-12
        assert error(case.htot[k], h) < 1e-12
        assert error(case.vcm[k], h[3:] / case.mass[k]) < 1e-12


@pytest.mark.parametrize("name", spatial_v2.cases("floatbase"))
def test_floating_base_of_spatial_v2(name):
    case = spatial_v2.load(name)
    desc, chain = case.description(L), case.chain.description(L)
    for k in range(case.n_states):
        q, qd, tau = case.q_free[k], case.qd_free[k], np.concatenate([np.zeros(6), case.tau[k]])
        assert error(case.FDfb_xd[k, 4:7], dense.q_derivative(desc, q, qd)[:3]) < 1e-12
        assert error(case.FDfb_xd[k, :4], dense.q_derivative(desc, q, qd)[3:7]) < 1e-12
        expected = np.concatenate([case.to_free(k, case.FDfb_xd[k, 7:]), case.FDfb_qdd[k]])
        assert error(dense.aba(desc, q, qd, tau), expected) < 1e-12
        expected = np.concatenate([case.to_free(k, case.FDfb_xd_fext[k, 7:]), case.FDfb_qdd_fext[k]])
        assert error(dense.aba(desc, q, qd, tau, case.f_ext[k]), expected) < 1e-12
        qdd = np.concatenate([case.to_free(k, case.IDfb_xd[k, 7:]), case.qdd[k]])
        assert error(dense.rnea(desc, q, qd, qdd), np.concatenate([np.zeros(6), case.IDfb_tau[k]])) < 1e-12
        q, qd = np.concatenate([case.q6[k], case.q[k]]), np.concatenate([case.qd6[k], case.qd[k]])
        assert error(case.FDab_chain[k], dense.aba(chain, q, qd, tau)) < 1e-12


@pytest.mark.parametrize("name", spatial_v2.cases("hybrid"))
def test_hybrid_dynamics_of_spatial_v2(name):
    case = spatial_v2.load(name)
    desc = case.description(L)
    given = case.fd == 1
    np.testing.assert_array_equal(case.tau_out[given], case.tau[given])
    np.testing.assert_array_equal(case.qdd_out[~given], case.qdd[~given])
    assert error(dense.rnea(desc, case.q, case.qd, case.qdd_out), case.tau_out) < 1e-12
    H = dense.crba(desc, case.q)
    assert error(case.H, H) < 1e-12
    assert error(case.LTDL_L.T @ np.diag(case.LTDL_D) @ case.LTDL_L, H) < 1e-12
    assert error(case.LTL_L.T @ case.LTL_L, H) < 1e-12


def test_all_cases_load():
    assert len(spatial_v2.cases()) == 30
    for name in spatial_v2.cases():
        case = spatial_v2.load(name)
        assert case.name == name
        assert len(case.joints) == len(case.parent) == len(case.x_tree) == len(case.inertia)


@pytest.mark.parametrize("name", spatial_v2.cases("autotree"))
def test_auto_tree_is_that_of_spatial_v2(name):
    case = spatial_v2.load(name)
    for dtype in (np.float64, L):
        desc = generate.auto_tree(len(case.parent), case.bf, case.skew, case.taper, dtype)
        assert desc.dtype == dtype
        np.testing.assert_array_equal(desc.parent, case.parent)
        assert desc.joints == case.joints
        assert error(desc.x_tree, case.x_tree) < 1e-15
        assert error(desc.inertia, case.inertia) < 1e-15
        assert error(desc.gravity, case.gravity) < 1e-15


# ------------------------------------------------------------------------------------------------ every joint and shape


def sample(seed, n=None, **options):
    """A random tree and state."""
    rng = np.random.default_rng(seed)
    desc = generate.random_tree(rng, n or len(generate.KINDS), **options)
    return desc, generate.random_state(rng, desc)


JOINTS = [*((kind,) for kind in generate.KINDS), generate.KINDS]
every_joint = pytest.mark.parametrize("joints", JOINTS, ids=lambda joints: joints[0] if len(joints) == 1 else "all")


@every_joint
@pytest.mark.parametrize("shape", generate.SHAPES)
def test_forward_undoes_inverse(joints, shape):
    desc, s = sample(1, 14 if len(joints) > 1 else 5, joints=joints, shape=shape)
    tau = dense.rnea(desc, s.q, s.qd, s.qdd, s.f_ext)
    qdd = dense.aba(desc, s.q, s.qd, tau, s.f_ext)
    assert tau.dtype == qdd.dtype == L
    assert error(qdd, s.qdd) < tight(1e-14)


@every_joint
def test_mass_matrix_is_the_derivative_of_inverse_dynamics(joints):
    desc, s = sample(2, joints=joints)
    H, bias = dense.crba(desc, s.q), dense.rnea(desc, s.q, s.qd, 0 * s.qdd)
    columns = [dense.rnea(desc, s.q, s.qd, unit) - bias for unit in np.eye(desc.nv)]
    assert error(H, np.array(columns).reshape(H.shape).T) < tight(1e-15)
    assert error(dense.energy(desc, s.q, s.qd)[0], s.qd @ H @ s.qd / 2) < tight(1e-15)
    assert error(dense.solve_spd(H, s.tau - bias), dense.aba(desc, s.q, s.qd, s.tau)) < tight(1e-13)


@every_joint
def test_velocities_are_derivatives_of_poses(joints):
    desc, s = sample(3, joints=joints)
    v = dense.kinematics(desc, s.q, s.qd).v
    E, _ = dense.poses(desc, s.q)

    def moved(pick):
        return derivative(lambda t: dense.poses(desc, dense.integrate_first_order(desc, s.q, s.qd, t))[pick])

    assert error(moved(0), -dense.skew(v[:, :3]) @ E) < tight(1e-12)
    assert error((E @ moved(1)[..., None])[..., 0], v[:, 3:]) < tight(1e-12)


@every_joint
def test_accelerations_are_derivatives_of_velocities(joints):
    desc, s = sample(4, joints=joints)
    desc = desc.with_gravity(np.zeros(3))

    def velocity(t):
        return dense.kinematics(desc, dense.integrate_first_order(desc, s.q, s.qd, t), s.qd + t * s.qdd).v

    a = dense.accelerations(desc, dense.kinematics(desc, s.q, s.qd), s.qdd)
    assert error(derivative(velocity), a) < tight(1e-11)


@every_joint
def test_power_is_the_derivative_of_energy(joints):
    desc, s = sample(5, joints=joints)
    tau = dense.rnea(desc, s.q, s.qd, s.qdd, s.f_ext)

    def total(t):
        return sum(dense.energy(desc, dense.integrate_first_order(desc, s.q, s.qd, t), s.qd + t * s.qdd))

    f_body = dense.force_to_body(*dense.poses(desc, s.q), s.f_ext.astype(L))
    power = tau @ s.qd + (f_body * dense.kinematics(desc, s.q, s.qd).v).sum()
    assert error(derivative(total), power) < tight(1e-10)


@pytest.mark.parametrize("shape", ["random", "chain", "binary"])
def test_momentum_of_a_free_tree_changes_by_gravity_and_external_forces(shape):
    desc, s = sample(6, joints=("free", *generate.KINDS[:12]), shape=shape)
    tau = s.tau.copy()
    tau[:6] = 0
    qdd = dense.aba(desc, s.q, s.qd, tau, s.f_ext)

    def h(t):
        return dense.momentum(desc, dense.integrate_first_order(desc, s.q, s.qd, t), s.qd + t * qdd)

    weight = desc.inertia[:, 5, 5].sum() * desc.gravity
    wrench = np.concatenate([np.cross(dense.center_of_mass(desc, s.q), weight), weight]) + s.f_ext.sum(0)
    assert error(derivative(h), wrench) < tight(1e-10)


# ------------------------------------------------------------------------------------------------ equivalent joints


def as_chains(desc, parts):
    """The same tree with every joint found in `parts` replaced by a chain of simpler ones through massless bodies."""
    parent, joints, x_tree, inertia, last = [], [], [], [], []
    for i, kind in enumerate(desc.joints):
        pieces = parts.get(kind, (kind,))
        for j, piece in enumerate(pieces):
            outer = j == len(pieces) - 1
            parent.append(len(parent) - 1 if j else (last[desc.parent[i]] if desc.parent[i] >= 0 else -1))
            joints.append(piece)
            x_tree.append(np.eye(6, dtype=L) if j else desc.x_tree[i])
            inertia.append(desc.inertia[i] if outer else np.zeros((6, 6), L))
        last.append(len(parent) - 1)
    return dense.Description(parent, joints, np.array(x_tree), np.array(inertia), desc.gravity), np.array(last)


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [("planar", ("Px", "Py", "Rz")), ("translation", ("Px", "Py", "Pz"))],
    ids=["planar", "translation"],
)
@pytest.mark.parametrize("shape", ["chain", "forest"])
def test_joint_is_its_chain(kind, pieces, shape):
    desc, s = sample(7, 8, joints=(kind, "Rx", "spherical"), shape=shape)
    chain, last = as_chains(desc, {kind: pieces})
    f_ext = np.zeros((chain.n_bodies, 6))
    f_ext[last] = s.f_ext
    assert error(dense.rnea(chain, s.q, s.qd, s.qdd, f_ext), dense.rnea(desc, s.q, s.qd, s.qdd, s.f_ext)) < tight(1e-16)
    assert error(dense.aba(chain, s.q, s.qd, s.tau, f_ext), dense.aba(desc, s.q, s.qd, s.tau, s.f_ext)) < tight(1e-14)
    assert error(dense.crba(chain, s.q), dense.crba(desc, s.q)) < tight(1e-16)


def test_named_joints_are_screws():
    q, eye = L("0.7"), np.eye(3, dtype=L)
    for i, turn in enumerate((dense.rotx, dense.roty, dense.rotz)):
        name = "xyz"[i]
        assert error(dense.joint("R" + name, q)[0], dense.plux(turn(q), 0 * eye[i])) < tight(1e-18)
        assert error(dense.joint("P" + name, q)[0], dense.plux(eye, q * eye[i])) < tight(1e-18)
        for kind, plain in (("revolute", "R"), ("prismatic", "P")):
            for general, named in zip(dense.joint((kind, eye[i]), q), dense.joint(plain + name, q), strict=True):
                assert error(general, named) < tight(1e-18)
        X, S = dense.joint(("helical", eye[i], 0.25), q)
        assert error(X, dense.plux(turn(q), q / 4 * eye[i])) < tight(1e-18)
        assert error(S[:, 0], np.concatenate([eye[i], eye[i] / 4])) == 0


def test_quaternion_turns_as_its_axis_and_angle():
    axis, angle = np.array([1, -2, 2], L) / 3, L("1.1")
    quaternion = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * axis])
    expected = dense.rotation_about(axis, angle)
    assert error(dense.rotation_of_quaternion(quaternion), expected) < tight(1e-18)
    assert error(dense.rotation_of_quaternion(-3 * quaternion), expected) < tight(1e-18)


@pytest.mark.skipif(not EXTENDED, reason="longdouble is a double here")
def test_nothing_is_rounded_to_double():
    desc, s = sample(8, 28)
    eye = np.eye(3, dtype=L)
    for X in (desc.x_tree, dense.kinematics(desc, s.q).X):
        E = X[:, :3, :3]
        assert error(E @ np.swapaxes(E, 1, 2), np.broadcast_to(eye, E.shape)) < 1e-18
    k = dense.kinematics(desc, s.q, s.qd)
    results = [
        *(k.X, k.S, k.v, k.c, *dense.poses(desc, s.q), *dense.energy(desc, s.q, s.qd), dense.crba(desc, s.q)),
        *(dense.momentum(desc, s.q, s.qd), dense.center_of_mass(desc, s.q), dense.q_derivative(desc, s.q, s.qd)),
    ]
    assert all(result.dtype == L for result in results)
    lengths = generate.auto_tree(50, 1, 0.3, 0.95).x_tree[1:, 4, 2] / np.cos(L(0.3))
    assert error(lengths[1:], lengths[:-1] * L(0.95)) < 1e-18


@pytest.mark.parametrize("shape", generate.SHAPES)
def test_random_trees_are_physical(shape):
    desc, s = sample(9, 40, shape=shape, order="random")
    assert np.all(desc.parent < np.arange(40))
    assert ((desc.parent == -1).sum() > 1) == (shape == "forest")
    mass, com = desc.inertia[:, 5, 5], dense._first_moment(desc.inertia)[1]
    com = com / mass[:, None]
    rotational = desc.inertia[:, :3, :3] + mass[:, None, None] * (dense.skew(com) @ dense.skew(com))
    moments = np.linalg.eigvalsh(rotational.astype(float))
    assert np.all(moments > 0)
    assert np.all(moments[:, 0] + moments[:, 1] > moments[:, 2])
    assert s.q.shape == (desc.nq,)
    assert s.qd.shape == s.qdd.shape == s.tau.shape == (desc.nv,)
    for body, kind in enumerate(desc.joints):
        if kind in ("spherical", "free"):
            assert abs(np.linalg.norm(s.q[desc.q_slice(body)][-4:]) - 1) < 1e-15


def test_wrong_descriptions_are_refused():
    desc, s = sample(10, 4)
    with pytest.raises(ValueError, match="parent"):
        dense.Description([0, 0, 1, 2], desc.joints, desc.x_tree, desc.inertia, desc.gravity)
    with pytest.raises(ValueError, match="unknown joint"):
        dense.joint("Rw", 0.0)
    with pytest.raises(ValueError, match="expected"):
        dense.rnea(desc, s.q[:-1], s.qd, s.qdd)
