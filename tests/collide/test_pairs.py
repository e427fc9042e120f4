"""Contact points of every pair of shapes, against MuJoCo: numbers of points, positions, frames, distances, order."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.collide import COLLIDERS, KINDS, Contact, Geom, Hull
from kinetree.io import Mujoco, from_mujoco_model
from kinetree.io.report import Report
from kinetree.spatial import Mat3, Vec3
from tests.collide.scenes import collide, errors, geoms, native, natively, ours, random_poses, scene
from tests.second import few

CLOSED_FORM = [
    ("plane", "sphere"),
    ("plane", "capsule"),
    ("plane", "ellipsoid"),
    ("plane", "cylinder"),
    ("plane", "box"),
    ("plane", "mesh"),
    ("sphere", "sphere"),
    ("sphere", "capsule"),
    ("sphere", "cylinder"),
    ("sphere", "box"),
    ("capsule", "capsule"),
    ("capsule", "box"),
    ("box", "box"),
]
HULLS = [("sphere", "mesh"), ("capsule", "mesh"), ("box", "mesh"), ("mesh", "mesh")]
SMOOTH = [pair for pair in COLLIDERS if pair not in CLOSED_FORM + HULLS and "hfield" not in pair]
LANES = 1000


def test_every_pair_of_shapes_that_may_move_has_a_collider():
    rank = {kind: i for i, kind in enumerate(KINDS)}
    solid = [kind for kind in KINDS if kind not in ("plane", "hfield")]
    wanted = {(ground, kind) for ground in ("plane", "hfield") for kind in solid} | {
        (a, b) for a in solid for b in solid if rank[a] <= rank[b]
    }
    assert set(COLLIDERS) == wanted


@pytest.mark.parametrize("pair", CLOSED_FORM, ids="-".join)
def test_points_are_mujocos(pair):
    for margin, straight, seed in ((0.0, 0.0, 1), (0.1, 0.7, 2)):
        poses = random_poses(*pair, LANES, margin=margin, straight=straight, seed=seed)
        touching = [len(c) for c in poses.contacts]
        assert np.mean(np.array(touching) > 0) > 0.3
        assert max(touching) <= COLLIDERS[pair].points
        assert errors(poses.contacts, ours(*pair, poses, margin)).max() <= 1e-9


BOTH_BODIES = [("plane", "mesh"), ("capsule", "box")]


@few("pair", [*BOTH_BODIES, ("box", "box"), ("box", "mesh")], BOTH_BODIES, ids=str)  # the last compile the longest
def test_xla_and_native_lanes_find_the_same_points(pair):
    """Ends of an edge may come in the other order: which corner of two is the first is a matter of rounding."""
    poses = random_poses(*pair, 200, seed=3)
    both = [ours(*pair, poses, by_xla=by_xla) for by_xla in (False, True)]
    both = [[sorted(c, key=lambda x: x[0].round(9).tolist()) for c in side] for side in both]
    assert max(map(len, both[0])) > 1
    assert errors(*both).max() <= 1e-11


@pytest.mark.parametrize("pair", [("box", "mesh"), ("mesh", "mesh")], ids="-".join)
def test_faces_that_lie_against_each_other_touch_in_mujocos_points(pair):
    """Up to four points: faces are clipped by faces, and edges by faces."""
    poses = random_poses(*pair, 300, straight=0.6, seed=11)
    mine = ours(*pair, poses)
    several = np.array([len(c) > 1 for c in poses.contacts])
    assert several.sum() > 60
    assert max(map(len, poses.contacts)) == COLLIDERS[pair].points
    found = errors(*([sorted(c, key=lambda x: x[0].round(7).tolist()) for c in s] for s in (poses.contacts, mine)))
    assert np.quantile(found[several], 0.97) <= 1e-8  # of a hull with many faces the choice is not always the same


@pytest.mark.parametrize("pair", [("capsule", "mesh"), ("cylinder", "box"), ("capsule", "cylinder")], ids="-".join)
def test_capsules_and_cylinders_lie_on_faces_as_in_mujoco(pair):
    """As many points as there, in nearly all poses."""
    poses = random_poses(*pair, 300, straight=0.6, seed=11)
    several = np.array([len(c) > 1 for c in poses.contacts])
    assert several.sum() > 20
    found = ours(*pair, poses)
    same = np.array([len(a) == len(b) for a, b in zip(poses.contacts, found, strict=True)])
    assert same.mean() > 0.9
    if pair == ("capsule", "mesh"):  # A depth within 1e-6 m, MuJoCo's tolerance, leaves 3e-4 m along the capsule.
        off = errors(*([c for c, one in zip(x, same & several, strict=True) if one] for x in (poses.contacts, found)))
        assert np.median(off) < 1e-4
    assert same[several].mean() > 0.85  # A capsule along an edge of a hull has one point here, and two there.


DEGENERATE = {
    "same pose": ([0, 0, 0], [1, 0, 0, 0]),
    "same centre": ([0, 0, 0], [0.8, 0, 0.6, 0]),
    "half a turn": ([0, 0, 0], [0, 1, 0, 0]),
    "on the axis": ([0, 0, 0.25], [1, 0, 0, 0]),
    "against the axis": ([0, 0, -0.25], [0, 0, 1, 0]),
    "beside, parallel": ([0.2, 0, 0], [1, 0, 0, 0]),
    "beside, shifted": ([0, 0.2, 0.1], [1, 0, 0, 0]),
    "beside, antiparallel": ([0, 0.2, -0.1], [0, 1, 0, 0]),
    "a quarter turned": ([0.1, 0, 0.1], [np.sqrt(0.5), np.sqrt(0.5), 0, 0]),
    "nearly parallel": ([0.2, 0, 0.05], [1, 2e-5, 0, 0]),
    "just not parallel": ([0.2, 0, 0.05], [1, 2e-4, 0, 0]),
    "faces touch": ([0, 0, 0.45], [1, 0, 0, 0]),
}


def degenerate(pair, n):
    """These poses, over and over: n lanes, so that no other program is compiled."""
    p2, q2 = (np.array(x, float) for x in zip(*DEGENERATE.values(), strict=True))
    q2 /= np.linalg.norm(q2, axis=1, keepdims=True)
    p2, q2 = np.resize(p2, (n, 3)), np.resize(q2, (n, 4))
    return collide(scene(*pair), (np.zeros_like(p2), p2), (np.broadcast_to([1.0, 0, 0, 0], q2.shape), q2))


@pytest.mark.parametrize("pair", CLOSED_FORM, ids="-".join)
def test_degenerate_poses_are_mujocos(pair):
    poses = degenerate(pair, LANES)
    found = errors(poses.contacts, ours(*pair, poses))[: len(DEGENERATE)]
    assert found.max() <= 1e-9, dict(zip(DEGENERATE, found, strict=True))


def compare_deepest(pair, n, margin, straight):
    """Errors of distance and normal where MuJoCo iterates until it has converged; both must see the same contacts."""
    poses = random_poses(*pair, n, margin=margin, straight=straight, seed=4, exact=True)
    mine = ours(*pair, poses, margin, single=True)
    assert [len(c) for c in poses.contacts] == [len(c) for c in mine]
    both = [(a[0], b[0]) for a, b in zip(poses.contacts, mine, strict=True) if a]
    assert len(both) > n // 4
    distance = np.array([abs(a[2] - b[2]) for a, b in both])
    normal = np.array([np.abs(a[1][:3] - b[1][:3]).max() for a, b in both])
    position = np.array([np.abs(a[0] - b[0]).max() for a, b in both])
    return distance, normal, position


@pytest.mark.parametrize("pair", HULLS, ids="-".join)
def test_hulls_touch_as_in_mujoco(pair):
    for margin, straight in ((0.0, 0.0), (0.1, 0.5)):
        distance, normal, position = compare_deepest(pair, 150, margin, straight)
        assert distance.max() <= 1e-9
        assert np.quantile(normal, 0.9) <= 1e-9  # the rest are ties of two directions
        if margin == 0 and pair[0] in ("box", "mesh"):  # what is round, or has a margin, MuJoCo finds within 1e-7
            assert np.quantile(position, 0.7) <= 1e-9  # where faces or edges are parallel, the point is a choice


@few("pair", SMOOTH, SMOOTH[::2], ids="-".join)
def test_smooth_shapes_touch_as_in_mujoco(pair):
    distance, normal, _ = compare_deepest(pair, 100, 0.1, 0.0)
    assert np.quantile(distance, 0.9) <= 1e-8
    assert distance.max() <= 2e-6  # the worst are deep cylinders, which neither side finds exactly
    assert np.quantile(normal, 0.9) <= 1e-3  # where the depth is at its least, it hardly changes with the normal


@few("pair", CLOSED_FORM[:-2], CLOSED_FORM[1:-2:3], ids="-".join)
def test_single_precision_is_close(pair):
    poses = random_poses(*pair, 300, seed=5)
    mine = ours(*pair, poses, dtype=np.float32)
    same = [i for i, c in enumerate(poses.contacts) if len(c) == len(mine[i])]
    assert len(same) > 290
    distances = [abs(a[2] - b[2]) for i in same for a, b in zip(poses.contacts[i], mine[i], strict=True)]
    assert np.quantile(distances, 0.99) <= 1e-5


ONE_POINT = [pair for pair in CLOSED_FORM if COLLIDERS[pair].points == 1]


@few("pair", [*ONE_POINT, ("capsule", "mesh")], ONE_POINT, ids="-".join)  # the last compiles for 20 s
def test_distance_grows_along_the_normal(pair):
    """Moving the second shape changes the distance of the nearest points by the normal, exactly."""
    poses = random_poses(*pair, 100, seed=6)
    first, second = geoms(*pair, poses)

    def total(position):
        point = COLLIDERS[pair].function(first, second._replace(position=position), 0.1)[0]
        normal = jnp.where(point.active, point.frame.array()[:, 0].T, 0.0).T
        return jnp.sum(jnp.where(point.active, point.distance, 0.0)), normal

    gradient, normal = jax.jit(jax.grad(total, has_aux=True))(second.position)
    assert np.abs(normal).max() > 0.5
    np.testing.assert_allclose(gradient.array(), normal, atol=1e-9)


@few("pair", SQUARE := [("plane", "cylinder"), ("capsule", "capsule"), ("capsule", "box"), ("box", "box")], SQUARE[:2])
def test_derivatives_are_finite_in_degenerate_poses(pair):
    lanes = geoms(*pair, degenerate(pair, len(DEGENERATE)))
    rng = np.random.default_rng(9)
    direction = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), lanes)

    @jax.jit
    def derivative(lanes, direction):
        _, found = jax.jvp(lambda a, b: COLLIDERS[pair].function(a, b, 0.0), lanes, direction)
        return found

    for leaf in jax.tree.leaves(derivative(lanes, direction)):
        assert np.isfinite(leaf).all()


def test_one_pair_of_poses_is_a_lane_of_many():
    """Scalars, lanes and mapped lanes give the same points."""
    pair = ("sphere", "capsule")
    poses = random_poses(*pair, 8, seed=7)
    lanes = geoms(*pair, poses)
    function = COLLIDERS[pair].function
    batched = function(*lanes, 0.1)
    mapped = jax.vmap(lambda a, b: function(a, b, 0.1))(*lanes)
    single = function(*jax.tree.map(lambda x: x[3], lanes), 0.1)
    for x, y, z in zip(*map(jax.tree.leaves, (batched, mapped, single)), strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(x[3], z)


def test_hull_of_points_touches_a_plane_as_mujocos_mesh_does():
    """A hull made here finds the corners that MuJoCo's finds: as sets, since the order of corners is another."""
    pair = ("plane", "mesh")
    poses = random_poses(*pair, LANES, seed=8)
    plane, mesh = geoms(*pair, poses)
    model = scene(*pair)
    vertices = np.array(model.mesh_vert[model.mesh_vertadr[model.geom_dataid[1]] :], float)
    hull = Hull.from_points(vertices[: model.mesh_vertnum[model.geom_dataid[1]]])
    p, _, d = natively(plane, mesh._replace(hull=hull), 0.0, native(*pair))
    for i, theirs in enumerate(poses.contacts):
        mine = [j for j in range(len(d)) if d[j, i] < np.inf]
        assert len(mine) == len(theirs)
        for position, _, distance in theirs:
            assert min(np.abs(p[j, i] - position).max() + abs(d[j, i] - distance) for j in mine) <= 1e-9


def test_a_point_that_is_no_contact_says_so():
    zero, one = jnp.zeros(()), jnp.ones(())
    ground = Geom(
        Vec3(zero, zero, zero), Mat3(one, zero, zero, zero, one, zero, zero, zero, one), Vec3(zero, zero, one)
    )
    ball = ground._replace(position=Vec3(zero, zero, one), size=Vec3(0.3 * one, zero, zero))
    (point,) = COLLIDERS["plane", "sphere"].function(ground, ball, 0.5)
    assert isinstance(point, Contact)
    assert not point.active
    assert point.distance == np.inf
    (point,) = COLLIDERS["plane", "sphere"].function(ground, ball, 0.7)
    assert point.active
    np.testing.assert_allclose(point.distance, 0.7)
    np.testing.assert_allclose(point.position.array(), [0, 0, 0.35])


def test_a_cylinder_that_leans_on_another():
    """One point where an end is deepest, two where a line lies across; a rim that touches a side does so radially.

    MuJoCo finds as many wherever its depth is the least one. Version 4.0.1 stops deeper in the first two poses.
    """
    text = (
        '<mujoco><option ccd_tolerance="1e-12"/><worldbody><geom type="cylinder" size=".054 .136"/>'
        '<body><freejoint/><geom type="cylinder" size=".0426 .1656"/></body></worldbody></mujoco>'
    )
    m = mujoco.MjModel.from_xml_string(text)
    d, model = mujoco.MjData(m), from_mujoco_model(m, Report("cylinders", "MJCF"))
    counts, poses, theirs = [1, 1, 2, 2, 2], [], []
    for tilt, x in [(-0.05, 0.14), (-0.03, 0.14), (-0.05, 0), (0.03, 0), (0.01, 0.14)]:
        half = (np.pi / 2 + tilt) / 2
        poses.append([x, 0.003, 0.136 + 0.0426 - 0.005, np.cos(half), 0, np.sin(half), 0])
        d.qpos[:] = poses[-1]
        mujoco.mj_forward(m, d)
        theirs.append((d.ncon, -d.contact.dist.min()))
    around, tilt = 0.3, 0.35
    out = np.array([np.cos(around), np.sin(around), 0])
    poses.append([*(out * 0.19), np.cos(tilt), -out[1] * np.sin(tilt), out[0] * np.sin(tilt), 0])
    found = kt.contacts(model, Mujoco(model).q_here(np.array(poses)))
    assert (np.isfinite(found.depth).sum(-1) == [*counts, 1]).all()
    least = [abs(depth - found.depth[i].max()) < 1e-5 for i, (_, depth) in enumerate(theirs)]
    assert all(least[2:])
    assert all(n == wanted for (n, _), wanted, same in zip(theirs, counts, least, strict=False) if same)
    np.testing.assert_allclose(found.frame[-1][0, 0], out, atol=2e-6)
