"""Every check on what comes in: one ModelError, which is a ValueError, that names the body."""

import re

import numpy as np
import pytest

from kinetree.model import Model, ModelError
from kinetree.spatial import Rotation, Transform, Vec3
from tests.reference import dense

from .mechanisms import model_of, sample

BODY = np.array([1.0, 0.1, 0, 0, 0.1, 0.2, 0.2, 0, 0, 0])
NAMES = ["foot", "knee", "hip"]


def build(parent=(-1, 0, 1), joints="Rz", x_tree=None, inertia=None, **options):
    """A chain of three bodies, but for what is given."""
    n = np.size(parent)
    x_tree = np.tile(np.eye(6), (n, 1, 1)) if x_tree is None else x_tree
    return Model.from_arrays(parent, joints, x_tree, np.tile(BODY, (n, 1)) if inertia is None else inertia, **options)


def changed(base, index, value):
    """A copy for three bodies with one entry changed."""
    a = np.tile(base, (3, *[1] * np.ndim(base))).astype(float)
    a[index] = value
    return a


def refused(message, **given):
    with pytest.raises(ModelError, match=message):
        build(**given)


def test_the_plain_chain_is_accepted():
    assert build().n_bodies == 3
    assert build(names=NAMES).names == tuple(NAMES)
    assert issubclass(ModelError, ValueError)


@pytest.mark.parametrize("seed", range(10))
def test_random_physical_trees_are_accepted(seed):
    desc, model, _ = sample(seed, 30, order="random", shape="forest")
    numbers = np.asarray(model.inertia.array())  # and as ten numbers
    again = Model.from_arrays(desc.parent, [model.structure.joints[k] for k in model.structure.joint_code],
                              np.asarray(desc.x_tree, float), numbers)  # fmt: skip
    np.testing.assert_allclose(again.rows.inertia.array(), model.rows.inertia.array(), atol=1e-15)


# ---------------------------------------------------------------------------------------------------- parents


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ([-1, 2, 1], "body 1: .*cycle"),
        ([0, 0, 1], "body 0: .*cycle"),
        ([1, 2, 0], "body 0: .*cycle"),
        ([-1, 2, 0], "body 1: parent 2 comes after it"),
        ([2, -1, 1], "body 0: parent 2 comes after it"),
        ([-1, 0, 3], "body 2: parent 3 is outside"),
        ([-1, -2, 1], "body 1: parent -2 is outside"),
        ([-1.0, 0.0, 1.0], "integers"),
        ([[-1, 0, 1]], "integers"),
        ([[-1], [0, 1]], "integers"),
        (["base", "a", "b"], "integers"),
        ([False, False, True], "integers"),
    ],
)
def test_parents(parent, message):
    with pytest.raises(ModelError, match=message):
        Model.from_arrays(parent, "Rz", np.eye(6), BODY)


# ---------------------------------------------------------------------------------------------------- transforms

TURN = dense.plux(dense.rotx(np.array(0.4)), np.array([1.0, 2.0, 3.0]))
IDENTITY = np.eye(6)


@pytest.mark.parametrize(
    ("x_tree", "message"),
    [
        (np.eye(6)[:5], r"\(3, 6, 6\), not \(5, 6\)"),
        (np.zeros((2, 6, 6)), r"\(3, 6, 6\), not \(2, 6, 6\)"),
        (np.zeros((1, 3, 6, 6)), r"\(3, 6, 6\)"),
        (np.eye(4), r"\(3, 6, 6\)"),
        ("nonsense", "x_tree .*numbers"),
        ([np.eye(6), np.eye(5), np.eye(6)], "x_tree .*numbers"),
        (changed(TURN, (1, 0, 0), np.nan), "body 1: x_tree has a NaN"),
        (changed(TURN, (2, 0, 0), np.inf), "body 2: x_tree has a NaN or an infinity"),
        (changed(TURN, (2, 4, 0), -np.inf), "body 2: x_tree has a NaN or an infinity"),
        (changed(TURN, (1, 0, 5), 0.1), "body 1: .*Plücker"),
        (changed(TURN, (1, 4, 1), 9.0), "body 1: .*Plücker"),
        (changed(TURN, (2, 3, 3), 0.9), "body 2: .*Plücker"),
        (np.stack([TURN, TURN.T, TURN.T]), r"body 1 \(and 1 more\): .*Plücker"),
        (np.stack([TURN, 1.01 * TURN, TURN]), "body 1: .*orthonormal"),
        (np.stack([TURN, TURN, np.diag([1, 1, -1, 1, 1, -1])]), "body 2: .*reflection"),
    ],
)
def test_plucker_matrices(x_tree, message):
    refused(message, x_tree=x_tree)


def transform(E, r):
    return Transform(Rotation(*np.moveaxis(np.asarray(E, float).reshape(-1, 9), -1, 0)), Vec3(*r))


@pytest.mark.parametrize(
    ("x_tree", "message"),
    [
        (transform(np.tile(np.eye(3), (2, 1, 1)), (0, 0, 0)), r"shape \(3,\)"),
        (transform(np.tile(np.eye(3), (3, 1, 1)), (np.zeros(2), 0, 0)), r"shape \(3,\)"),
        (transform(np.tile(np.eye(3), (3, 1, 1)), ([0, np.nan, 0], 0, 0)), "body 1: x_tree has a NaN"),
        (transform(np.stack([np.eye(3), -np.eye(3), np.eye(3)]), (0, 0, 0)), "body 1: .*reflection"),
        (transform(np.stack([np.eye(3), np.ones((3, 3)), np.eye(3)]), (0, 0, 0)), "body 1: .*orthonormal"),
    ],
)
def test_transforms(x_tree, message):
    refused(message, x_tree=x_tree)


def test_transforms_and_plucker_matrices_say_the_same():
    E, r = dense.unplux(TURN)
    many, one = transform(np.tile(E, (3, 1, 1)), r), transform(E, r)
    expected = build(x_tree=np.tile(TURN, (3, 1, 1))).rows
    for x_tree in (TURN, many, one):
        rows = build(x_tree=x_tree).rows
        np.testing.assert_allclose(rows.orientation, expected.orientation, atol=1e-15)
        np.testing.assert_allclose(rows.position, expected.position, atol=1e-15)


# ---------------------------------------------------------------------------------------------------- inertias

MATRIX = dense.inertia_matrix(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.3, 0.4, 0.5]))


def rigid(*principal, mass=1.0, com=(0.3, -0.2, 0.5), angle=0.7):
    """6x6 inertia with these principal moments about the centre of mass, turned."""
    E = dense.rotx(np.array(angle)) @ dense.rotz(np.array(0.3))
    return dense.inertia_matrix(mass, np.array(com), E.T @ np.diag(principal) @ E)


@pytest.mark.parametrize(
    ("inertia", "message"),
    [
        (np.zeros((2, 10)), r"\(3, 6, 6\) or \(3, 10\), not \(2, 10\)"),
        (np.zeros((3, 6)), r"\(3, 6, 6\) or \(3, 10\)"),
        (np.zeros((3, 6, 5)), r"\(3, 6, 6\) or \(3, 10\)"),
        (1.0, r"\(3, 6, 6\) or \(3, 10\)"),
        ("heavy", "inertia .*numbers"),
        (changed(BODY, (1, 4), np.nan), "body 1: inertia has a NaN"),
        (changed(MATRIX, (2, 1, 1), np.inf), "body 2: inertia has a NaN or an infinity"),
        (changed(BODY, (2, 0), -1.0), "body 2: negative mass"),
        (changed(MATRIX, (1, 0, 1), 0.3), "body 1: .*not symmetric"),
        (changed(MATRIX, (1, 3, 3), 2.5), "body 1: .*not a rigid-body inertia"),
        (changed(BODY, (0, 6), 0.4), "body 0: .*triangle"),
        (np.stack([rigid(1, 2, 2), rigid(1, 1, 2.1), rigid(1, 2, 3)]), "body 1: .*triangle"),
        (np.stack([rigid(1, 2, 2), rigid(1, 2, 2), rigid(-0.1, 2, 2)]), "body 2: .*triangle"),
        (np.stack([rigid(1, 2, 2), rigid(1, 5, 2), rigid(9, 2, 2)]), r"body 1 \(and 1 more\): .*triangle"),
        (changed(BODY, (1, 4), 0.0), None),  # a rod
        (changed(BODY, (1, slice(None)), [0, 0, 0, 0, 1, 1, 1, 0, 0, 0]), None),  # a flywheel without mass
        (changed(BODY, (1, slice(None)), 0), None),  # nothing, within a chain
        (changed(BODY, (1, 0), 0.0), "body 1"),  # a first moment without mass
        (np.stack([rigid(1, 1, 2), rigid(0, 1, 1), rigid(2, 3, 4)]), None),  # a plate, a rod
        (np.stack([rigid(1, 1, 1), rigid(0, 0, 0), rigid(2, 3, 4)]), None),  # a point
    ],
)
def test_inertias(inertia, message):
    if message is None:
        assert build(inertia=inertia).n_bodies == 3
    else:
        refused(message, inertia=inertia)


@pytest.mark.parametrize(
    "second",
    [
        np.diag([-1.0, -1.0, 0.0]),  # an entry of the diagonal gives it away
        np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 0]]),  # a minor
        np.array([[1, -0.6, -0.6], [-0.6, 1, -0.6], [-0.6, -0.6, 1]]),  # nothing but the determinant
    ],
)
@pytest.mark.parametrize("axis", range(3))
def test_second_moments_of_mass_are_semidefinite(second, axis):
    second = np.roll(second, axis, (0, 1))
    com = np.array([0.3, -0.2, 0.5])
    refused("body 0.*triangle", inertia=dense.inertia_matrix(2.0, com, np.trace(second) * np.eye(3) - second))
    sound = second @ second
    build(inertia=dense.inertia_matrix(2.0, com, np.trace(sound) * np.eye(3) - sound))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_physics_has_no_units(scale):
    build(inertia=scale * np.stack([rigid(1, 1, 2), rigid(0, 1, 1), rigid(2, 3, 4)]))
    refused("body 1: .*triangle", inertia=scale * np.stack([rigid(1, 1, 2), rigid(0, 1, 1.01), rigid(2, 3, 4)]))


NOTHING = np.zeros(10)
POINT = np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
POINT_AT_X = np.array([1.0, 1, 0, 0, 0, 1, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("joint", "inertia", "good"),
    [
        ("Rz", NOTHING, False),
        ("Px", NOTHING, False),
        ("Rx", POINT, False),
        ("Px", POINT, True),
        ("Rx", POINT_AT_X, False),
        ("Ry", POINT_AT_X, True),
        ("spherical", POINT_AT_X, False),
        ("spherical", BODY, True),
        ("free", POINT, False),
        ("free", POINT_AT_X, False),
        ("free", BODY, True),
        ("translation", POINT, True),
        ("translation", NOTHING, False),
        ("planar", POINT_AT_X, False),  # its mass at one point still: turning and sliding are one
        ("planar", BODY, True),
        ("spherical", dense.inertia_matrix(1.0, np.array([0.3, 0.5, -0.2]), np.zeros((3, 3))), False),
    ],
)
def test_leaves_need_inertia(joint, inertia, good):
    inertia = np.asarray(inertia)
    both = np.stack([BODY if inertia.ndim == 1 else MATRIX, inertia])
    given = {"parent": [-1, 0], "joints": ["Rx", joint], "inertia": both, "x_tree": TURN}
    if good:
        build(**given)
    else:
        refused("body 1 is a leaf without inertia", **given)
        assert build(**given, allow_massless_leaves=True).n_bodies == 2


def test_the_refused_leaves_are_those_with_a_singular_mass_matrix():
    rng = np.random.default_rng(0)
    for kind in ("spherical", "free", "planar", "translation", "Rx"):
        half = rng.standard_normal((3, 3))
        for rank in range(4):  # second moments of mass of this rank: a point, a rod, a plate, a body
            second = half[:, :rank] @ half[:, :rank].T
            inertia = dense.inertia_matrix(1.0, np.zeros(3), np.trace(second) * np.eye(3) - second)
            desc = dense.Description([-1], [kind], np.eye(6)[None], inertia[None], np.zeros(3))
            q = np.zeros(desc.nq)
            q[-4:] += np.array([1, 0, 0, 0])[-desc.nq :] if desc.nq > 3 else 0
            singular = np.linalg.eigvalsh(dense.crba(desc, q)).min() < 1e-10
            if singular:
                with pytest.raises(ModelError, match="leaf"):
                    model_of(desc)
            else:
                model_of(desc)


def test_a_fixed_load_counts_for_the_leaf_that_carries_it():
    build(joints=["Rx", "Rx", "fixed"], inertia=np.stack([BODY, NOTHING, BODY]))
    refused("body 1 is a leaf", joints=["Rx", "Rx", "fixed"], inertia=np.stack([BODY, NOTHING, NOTHING]))


# ---------------------------------------------------------------------------------------------------- the rest


def test_messages_use_names():
    bad = changed(BODY, (1, 0), -1.0)
    refused("body 'knee': negative mass", inertia=bad, names=NAMES)
    refused("body 'hip': .*NaN", x_tree=changed(IDENTITY, (2, 0, 0), np.nan), names=NAMES)
    refused("body 'hip' is a leaf", inertia=changed(BODY, (2, slice(None)), 0.0), names=NAMES)
    with pytest.raises(ModelError, match="body 'knee': negative mass"):
        build(names=NAMES).replace(inertia=bad)


@pytest.mark.parametrize("what", ["names", "joint_names"])
@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "a"]])
def test_names_must_differ(what, names):
    refused(re.escape(what) + " must be 3 different", **{what: names})


@pytest.mark.parametrize("gravity", [9.81, (0, 0), (0, 0, np.nan), "down", [[0, 0, -9.81]]])
def test_gravity(gravity):
    refused("gravity", gravity=gravity)
    with pytest.raises(ModelError, match="gravity"):
        build().replace(gravity=gravity)
