"""The terms of joints beyond the plain screws of passes: rotors, springs, dampers, the shift of quaternion joints.

The equation of motion of the joints is that of their rows with two changes (model/coordinates.py). The acceleration of
a quaternion joint is that of its rows plus `shift`. A rotor resists acceleration with its inertia, the armature: it
adds to d = Sᵀ U in forward dynamics, to the diagonal of H, and to the force of inverse dynamics. Along the sliding rows
of a free joint it feels the acceleration of the joint's origin, which has the shift twice (`armature_shift`). A load,
an input of some algorithms, is a rotor that differs from state to state: implicit integrators use it. Springs and
dampers (model/physics.py) act on the joint in addition to its force.
"""

from typing import Any

from kinetree.spatial import Scalar

LOAD = "load"  # The input that adds to the armature.
FELT = "felt"  # The acceleration that a rotor resists.
JOINT_QUANTITIES = ("qdd", "tau")  # Inputs and outputs in which a joint and its rows differ.


def row_acceleration(qdd: Scalar, shift: Scalar) -> Scalar:
    """The acceleration of a row, from that of its joint."""
    return qdd - shift


def joint_acceleration(qdd: Scalar, shift: Scalar) -> Scalar:
    """The acceleration of a joint, from that of its row."""
    return qdd + shift


def felt_acceleration(qdd: Scalar, slide: Scalar, shift: Scalar) -> Scalar:
    """The acceleration that a rotor resists, from that of its joint."""
    return qdd + slide * shift


def row_force(tau: Scalar, armature: Scalar, slide: Scalar, shift: Scalar) -> Scalar:
    """The force on a row whose rotor feels the row's acceleration, from the force on its joint."""
    return tau - armature * ((1 + slide) * shift)


def joint_force(tau: Scalar, armature: Scalar, felt: Scalar) -> Scalar:
    """The force on a joint whose rotor feels this acceleration, from the force on its row without rotor."""
    return tau + armature * felt


def inputs_of_rows(inputs: dict[str, Any], armature: Scalar, slide: Scalar, shift: Scalar) -> dict[str, Any]:
    """Inputs of an algorithm for rows, from those for joints. With accelerations come those that rotors feel."""
    given = dict(inputs)
    if "qdd" in inputs:
        given[FELT] = felt_acceleration(inputs["qdd"], slide, shift)
        given["qdd"] = row_acceleration(inputs["qdd"], shift)
    if "tau" in inputs:
        given["tau"] = row_force(inputs["tau"], armature, slide, shift)
    return given


def passive_force(row: Any) -> Scalar:
    """The force of the joint's damper and spring, if the row has them: −damping · qd − stiffness · stretch."""
    damper = -(row.damping * row.qd) if "damping" in row else 0.0
    return damper - row.stiffness * row.stretch if "stiffness" in row else damper
