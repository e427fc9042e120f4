"""Joint types: their sizes, their rows, and what is refused."""

import numpy as np
import pytest

from kinetree.model import Fixed, Free, Helical, Joint, ModelError, Planar, Prismatic, Revolute, Spherical, Translation
from kinetree.model.joints import NAMED, resolve

SIZES = [
    (Revolute((1, 0, 0)), 1, 1), (Prismatic((0, 1, 0)), 1, 1), (Helical((0, 0, 1), 0.2), 1, 1), (Fixed(), 0, 0),
    (Spherical(), 4, 3), (Translation(), 3, 3), (Planar(), 3, 3), (Free(), 7, 6),
]  # fmt: skip


@pytest.mark.parametrize(("joint", "nq", "nv"), SIZES, ids=lambda x: getattr(x, "kind", None))
def test_sizes(joint, nq, nv):
    assert (joint.nq, joint.nv) == (nq, nv)
    assert joint.quaternion == (nq > nv)
    for turn, slide, axis in joint.rows:
        assert np.linalg.norm(axis) == pytest.approx(1, abs=1e-15)
        assert (turn, slide) != (0, 0)


def test_names():
    assert set(NAMED) == {"Rx", "Ry", "Rz", "Px", "Py", "Pz", "fixed", "spherical", "translation", "planar", "free"}
    assert NAMED["Ry"] == Revolute((0, 1, 0))
    assert NAMED["Pz"] == Prismatic((0, 0, 1))
    assert NAMED["free"] == Free()


def test_joints_are_values():
    assert Revolute((0, 0, 2)) == Revolute(np.array([0.0, 0.0, 1.0]))
    assert hash(Revolute((0, 0, 2))) == hash(Revolute((0, 0, 1)))
    assert Helical((0, 0, 1), 0.1) != Helical((0, 0, 1), 0.2)
    assert Helical((0, 0, 1), 0.5).rows[0][:2] == (1.0, 0.5)
    assert Revolute((1, 2, 2)).rows[0][2] == pytest.approx((1 / 3, 2 / 3, 2 / 3))


@pytest.mark.parametrize("axis", [(0, 0, 0), (1, 0), (1, 0, 0, 0), (np.nan, 0, 1), (np.inf, 0, 1), 3.0])
@pytest.mark.parametrize("maker", [Revolute, Prismatic, lambda axis: Helical(axis, 0.1)])
def test_bad_axes_are_refused(maker, axis):
    with pytest.raises(ModelError, match="axis"):
        maker(axis)


def test_bad_pitches_are_refused():
    with pytest.raises(ModelError, match="pitch"):
        Helical((0, 0, 1), np.nan)


def test_resolve():
    distinct, code = resolve(["Rx", Spherical(), "Rx", "Rz", Spherical()], 5)
    assert distinct == [Revolute((1, 0, 0)), Spherical(), Revolute((0, 0, 1))]
    assert code.tolist() == [0, 1, 0, 2, 1]
    for one in ("free", Free()):  # one for all
        for n in (0, 1, 3):
            distinct, code = resolve(one, n)
            assert (distinct, code.tolist()) == ([Free()], [0] * n)
    distinct, code = resolve(np.array(["Rx", "Ry"]), 2)
    assert code.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("joints", "message"),
    [
        (["Rx", "Rw", "Rz"], "'Rw' at body 1: choose from Rx"),
        (["Rx", "Rz"], "3 joints, but 2"),
        (["Rx", 7, "Rx"], "word at body 1, not of type int"),
        ([["Rx"], "Rx", "Rx"], "a joint is a name"),
        (None, "one for each body"),
        ("Revolute", "'Revolute'"),
    ],
)
def test_what_is_no_joint_is_refused(joints, message):
    with pytest.raises(ModelError, match=message):
        resolve(joints, 3)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (((1.0, 0.0, (0.0, 0.0, 0.0)),), {}, "axis can not be zero"),
        (((1.0, 0.0, (np.nan, 0.0, 1.0)),), {}, "axis is three finite numbers"),
        (((1.0, 0.0, (np.inf, 0.0, 1.0)),), {}, "axis is three finite numbers"),
        (((1.0, 0.0, (1.0, 0.0)),), {}, "axis is three finite numbers"),
        (((1.0, 0.0, "z"),), {}, "axis is three finite numbers"),
        (((0.0, 0.0, (0.0, 0.0, 1.0)),), {}, "not both zero"),
        (((np.nan, 1.0, (0.0, 0.0, 1.0)),), {}, "must be finite"),
        (((1.0, 0.0),), {}, "rows are"),
        (3, {}, "rows are"),
        (((1.0, 0.0, (0.0, 0.0, 1.0)),), {"quaternion": True}, "with a quaternion"),
        (Spherical().rows, {"quaternion": True, "position": True}, "with a quaternion"),
        (Translation().rows, {"position": True}, "no position without a quaternion"),
    ],
)
def test_rows_that_are_no_joint_are_refused(rows, options, message):
    with pytest.raises(ModelError, match=message):
        Joint("own", rows, **options)


@pytest.mark.parametrize("scale", [1e-9, 3.0, 1e200])
def test_axes_of_any_length_are_made_unit_vectors(scale):
    axis = tuple(scale * x for x in (2.0, 3.0, 6.0))
    joint = Joint("own", ((1, 0, axis),))
    np.testing.assert_allclose(joint.rows[0][2], (2 / 7, 3 / 7, 6 / 7), rtol=1e-15)
    assert Joint("own", joint.rows) == joint  # a unit vector keeps its digits
