"""Names that do not exist: the message suggests the nearest, wherever a name is taken."""

import numpy as np
import pytest

import kinetree as kt
from kinetree._unknown import MAX_SEARCHED, did_you_mean, unknown
from kinetree.cli.looks import plot
from kinetree.view import plots

ARM = kt.auto_tree(3, skew=0.3)
ZERO = np.zeros(3)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: kt.forward_dynamics(ARM, ZERO, ZERO, ZERO, method="abba"), "aba"),
        (lambda: kt.forward_dynamics(ARM, ZERO, ZERO, ZERO, method="aba", schedule="lane"), "lanes"),
        (lambda: kt.inverse_dynamics(ARM, ZERO, ZERO, ZERO, schedule="Paths"), "paths"),
        (lambda: kt.mass_matrix(ARM, ZERO, method="colums"), "columns"),
        (lambda: kt.factorize(ARM, np.eye(3), schedule="level"), "levels"),
        (lambda: kt.jacobian(ARM, ZERO, "body_2", frame="locale"), "local"),
        (lambda: kt.jacobian(ARM, ZERO, "bdy_2"), "body_2"),
        (lambda: kt.frame_velocity(ARM, ZERO, ZERO, "body2"), "body_2"),
        (lambda: ARM.v_index("Joint_1"), "joint_1"),
        (lambda: kt.step(ARM, ZERO, ZERO, 1e-3, integrator="rk-4"), "rk4"),
        (lambda: kt.forward_dynamic, "forward_dynamics"),
        (lambda: ARM.replace(actuators=[kt.Actuator.motor("jiont_1")]), "joint_1"),
        (lambda: kt.with_shapes(ARM, [kt.Shape("sphre", 0.1, "body_1")]), "sphere"),
        (lambda: kt.with_sensors(ARM, [kt.Sensor("gyr", "body_1")]), "gyro"),
        (lambda: plots.compare({"a": None}, what="tua"), "tau"),
        (lambda: plot("enrgy", None, None, None, False, False), "energy"),
        (lambda: kt.Model.from_arrays([-1], ["spheric"], np.eye(6), np.eye(6)), "spherical"),
    ],
)
def test_the_nearest_name_is_suggested(call, meant):
    with pytest.raises((ValueError, KeyError, AttributeError), match=f"did you mean '{meant}'"):
        call()


def test_far_names_are_listed_where_they_are_few():
    assert unknown("colour", "zzz", ["red", "blue"]) == "unknown colour 'zzz': choose from red, blue"
    assert unknown("colour", "rad", ["red", "blue"]) == (
        "unknown colour 'rad': did you mean 'red'? Choose from red, blue"
    )
    assert did_you_mean("zzz", ["red", "blue"]) == ": there are 'red', 'blue'"
    assert did_you_mean("zzz", (f"link{i}" for i in range(99))) == ""
    assert did_you_mean("zzz", []) == ""


def test_names_without_number_are_not_all_compared():
    taken = 0

    def names():
        nonlocal taken
        for i in range(10 * MAX_SEARCHED):
            taken += 1
            yield f"{i}"

    did_you_mean("x", names())
    assert taken == MAX_SEARCHED


def test_a_tab_shows_what_a_user_may_use():
    shown = set(dir(kt))
    assert set(kt.__all__) <= shown
    assert not shown & {"Any", "TYPE_CHECKING", "did_you_mean", "sys"}
    assert all(getattr(kt, name) is not None for name in shown)
