"""Shapes, tendons, actuators, sensors and loops that can not be meant are refused in words that name the field."""

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.model.fields import BOUNDS, FLAG, NUMBER, PLACE, TURN, WHOLE, numbers

ARM = kt.auto_tree(3)
HINGE, OTHER, _ = ARM.joint_names


def shape(**given):
    return kt.with_shapes(ARM, [kt.Shape(**{"kind": "sphere", "size": 0.1, "body": 0} | given)])


def tendon(**given):
    return kt.with_tendons(ARM, [kt.Tendon(**{"name": "t", "joints": {HINGE: 1.0}} | given)])


def strung(*path):
    return kt.with_tendons(ARM, [kt.Tendon("t", path=path)])


def motor(**given):
    return ARM.replace(actuators=[kt.Actuator(**{"joint": HINGE} | given)])


def sensor(**given):
    return kt.with_sensors(ARM, [kt.Sensor(**{"kind": "gyro", "name": "s", "mount": kt.Mount(0)} | given)])


def loop(**given):
    return ARM.replace(loops=[kt.Loop(**{"body1": 0, "body2": 2} | given)])


def tree(**given):
    return kt.Model.from_arrays(**{"parent": [-1], "joints": "Rz", "x_tree": np.eye(6), "inertia": np.eye(6)} | given)


@pytest.mark.parametrize(
    ("make", "given", "says"),
    [
        (shape, {"size": "a"}, "shape 0: size must be 0 to 4 finite numbers, not 'a'"),
        (shape, {"size": [[1], [1, 2]]}, "size must be"),
        (shape, {"position": (0, 0, np.nan)}, "position must be 3 finite numbers"),
        (shape, {"orientation": (0, 0, 0, 0)}, r"orientation must be a quaternion \(w, x, y, z\)"),
        (shape, {"friction": (1, 2, 3, 4)}, "friction must be 1 to 3 finite numbers"),
        (shape, {"friction": -0.5}, "friction must not be negative"),
        (shape, {"condim": 3.0}, "condim must be 1, 3, 4 or 6"),
        (shape, {"contype": 1.5}, "contype must be a whole number"),
        (shape, {"margin": None}, "margin must be a finite number, not None"),
        (shape, {"name": 3}, "name must be a word"),
        (shape, {"kind": 3}, "shape must be a word"),
        (shape, {"body": 1.5}, "a body is a name or a number, or None for the base, not 1.5"),
        (shape, {"kind": "mesh", "size": (), "vertices": np.zeros(3)}, r"vertices must be None or points, \(k, 3\)"),
        (shape, {"kind": "mesh", "size": (), "vertices": np.zeros((4, 3))}, "must not lie in a plane"),
        (shape, {"kind": "hfield", "size": (1,) * 4, "heights": [[0, 1], [1]]}, "heights must be None or heights"),
        (tendon, {"name": None}, "name must be a word"),
        (tendon, {"joints": 3}, "joints must be factors by names of joints"),
        (tendon, {"joints": {HINGE: "a"}}, "joints must be factors"),
        (tendon, {"range": (1, 0)}, "range must be None or a lower and an upper bound"),
        (tendon, {"stiffness": "a"}, "tendon 't': stiffness must be a finite number, not 'a'"),
        (tendon, {"limit_solimp": 3}, "limit_solimp must be 5 finite numbers"),
        (tendon, {"joints": {}, "path": "abc"}, "path must be a list"),
        (motor, {"joint": 3}, "joint must be None or a word"),
        (motor, {"gear": (1,) * 7}, "gear must be 1 to 6 finite numbers"),
        (motor, {"ctrl_range": (1, -1)}, "ctrl_range must be None or a lower and an upper bound"),
        (motor, {"ctrl_range": 3}, "ctrl_range must be None or a lower and an upper bound"),
        (motor, {"time_constant": None}, "time_constant must be a finite number"),
        (motor, {"act_early": "no"}, "act_early must be True or False"),
        (motor, {"muscle": 3}, r"muscle must be None or a kinetree\.Muscle"),
        (motor, {"muscle": kt.Muscle(1, 1.0)}, "length_range must be 2 finite numbers"),
        (motor, {"joint": None, "crank": ("a", "b", 1.0)}, r"crank must be None or a kinetree\.Crank"),
        (sensor, {"name": 3}, "name must be a word"),
        (sensor, {"mount": 1.5}, "a body is a name or a number"),
        (sensor, {"mount": kt.Mount(0, (1, 2))}, "mount on 0: position must be 3 finite numbers"),
        (sensor, {"kind": "touch"}, "a touch sensor has a zone"),
        (sensor, {"kind": "touch", "zone": ("sphre", (0.1,))}, "zone must be None or a shape"),
        (sensor, {"kind": "touch", "zone": ("box", (0.1,))}, "zone must be None or a shape"),
        (sensor, {"kind": "contact", "num": 0}, "num must be a number of contacts"),
        (sensor, {"cutoff": "a"}, "cutoff must be a finite number"),
        (sensor, {"sides": 3}, "sides must be two sides"),
        (sensor, {"joint": 1.5}, "joint must be a name or a number"),
        (loop, {"body1": 1.5}, "a body is a name or a number"),
        (loop, {"kind": 3}, "kind must be a word"),
        (loop, {"stabilisation": "a"}, "stabilisation must be a time in seconds"),
        (loop, {"placement1": "abc"}, "a placement is a position"),
        (loop, {"placement1": [[1], [1, 2]]}, "a placement is a position"),
        (tree, {"names": [1]}, "names must be 1 different strings"),
        (tree, {"names": 3}, "names must be 1 different strings"),
        (tree, {"joint_names": "a"}, "joint_names must be 1 different strings"),
        (tree, {"allow_unphysical": "no"}, "allow_unphysical must be True or False"),
    ],
)
def test_fields_that_can_not_be_meant(make, given, says):
    make()
    with pytest.raises((ValueError, TypeError), match=says):
        make(**given)


@pytest.mark.parametrize(
    "make", [ARM.replace, kt.with_tendons, kt.with_shapes, kt.with_sensors], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(("given", "says"), [(3, "a list of kinetree.*, not a int"), ([3], "kinetree.*, not a int")])
def test_lists_of_other_things(make, given, says):
    calls = [lambda: make(ARM, given)]
    if make == ARM.replace:
        calls = [lambda: make(loops=given), lambda: make(actuators=given)]
    for call in calls:
        with pytest.raises(TypeError, match=says):
            call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kt.with_tendons(ARM, kt.Tendon("t", {HINGE: 1.0})), r"takes a list of kinetree\.Tendon, not a Tendon"),
        (lambda: strung("body_0", kt.Wrap("sphere", "a", "body_1"), "body_2"), "radius must be a finite number"),
        (lambda: strung("body_0", kt.Pulley("a"), "body_2"), "divisor must be a finite number"),
        (lambda: strung(0, 1.5), "a body is a name or a number"),
        (lambda: kt.with_shapes(ARM, [kt.Shape("sphere", 1, 0)], exclude=[(0,)]), "exclude must be pairs of bodies"),
        (lambda: kt.with_ground(ARM, frction=1), "unknown fact of a floor 'frction': did you mean 'friction'"),
        (lambda: kt.with_ground(ARM, friction="a"), "shape ground: friction must be"),
        (lambda: kt.place_bodies(ARM, 3), "poses must be a dictionary"),
        (lambda: ARM.couple(3), "follows must be a dictionary"),
        (lambda: ARM.couple({HINGE: OTHER}), r"must follow \(name of a joint, ratio, offset\)"),
        (lambda: ARM.couple({HINGE: (OTHER, "a", 0)}), r"must follow \(name of a joint, ratio, offset\)"),
        (lambda: ARM.replace(world=3), r"world must be a kinetree\.World"),
        (lambda: ARM.replace(world=kt.World(iterations="a")), "iterations must be a whole number"),
        (lambda: ARM.replace(limits=3), r"limits must be kinetree\.Limits"),
        (lambda: kt.load("<robot/>", floating_base="no"), "floating_base must be True or False, not 'no'"),
        (lambda: kt.mass_matrix(ARM, np.zeros(3), packed="no"), "packed must be True or False"),
        (lambda: kt.shard_tree("a", None), r"model must be a kinetree\.Model"),
        (lambda: kt.shard_tree(ARM, 3), r"mesh must be a jax\.sharding\.Mesh"),
        (lambda: kt.explain(ARM, arrays=np.zeros(2)), "kind of arrays must be a word"),
    ],
)
def test_other_parts_that_can_not_be_meant(call, says):
    with pytest.raises((ValueError, TypeError), match=says):
        call()


@pytest.mark.parametrize("bad", [[[1], [1, 2]], ["a", "b"], np.zeros(2, complex), np.zeros(2, np.longdouble)])
def test_arrays_of_models_with_mimic_joints_are_checked_as_others(bad):
    coupled = ARM.couple({OTHER: (HINGE, 1.0, 0.0)})
    for call in (kt.mass_matrix, kt.gravity_force, kt.center_of_mass):
        with pytest.raises((ValueError, TypeError), match=r"^q (must|has)"):
            call(coupled, bad)


def test_ranges_may_be_arrays_and_numbers_may_be_traced():
    bounds = np.array([-2.0, 2.0])
    np.testing.assert_array_equal(motor(ctrl_range=bounds).actuators.ctrl_range, [bounds])
    np.testing.assert_array_equal(tendon(range=bounds).world.tendons.pull.range, [bounds])
    slope = jax.grad(lambda gain: motor(gain=(gain, 0.0, 0.0), gear=gain).actuators.gain.sum())(2.0)
    assert slope == 1


def test_forms():
    for form, good, bad in [
        (NUMBER, [1, 0.5, np.float32(1), np.array(2), [3]], ["1", None, np.nan, 1j, [1, 2]]),
        (PLACE, [(0, 0, 1), np.zeros(3)], [0, (0, 0), np.zeros((1, 3)), [0, 0, np.inf]]),
        (TURN, [(1, 0, 0, 0)], [(0, 0, 0, 0), (1, 0, 0)]),
        (BOUNDS, [None, (-np.inf, 1), np.zeros(2)], [(1, 0), (np.nan, 1), 3]),
        (WHOLE, [1, np.int8(3)], [1.0, True, "1"]),
        (FLAG, [True, np.bool_(False)], [1, "no", None, np.zeros(2)]),
        (numbers(1, 2), [1, [1], (1, 2)], [(), (1, 2, 3), {1, 2}]),
    ]:
        assert all(form.fits(x) for x in good), form.words
        assert not any(form.fits(x) for x in bad), form.words
