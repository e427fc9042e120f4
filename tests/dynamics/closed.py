"""Mechanisms with loops, here and in Pinocchio, whose `constraintDynamics` is an oracle that nobody here wrote.

Pinocchio's sparse factors need bodies in depth-first order: all descendants of a body follow it at once. In any other
order its accelerations do not even satisfy its own equation of motion.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import kinetree as kt
from kinetree.io import Pinocchio

pin = pytest.importorskip("pinocchio")

ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
CONTACTS = {"connect": pin.ContactType.CONTACT_3D, "weld": pin.ContactType.CONTACT_6D}
KINDS = {
    "revolute": (kt.Revolute, pin.JointModelRevoluteUnaligned),
    "prismatic": (kt.Prismatic, pin.JointModelPrismaticUnaligned),
}
WHOLE = {"spherical": pin.JointModelSpherical, "free": pin.JointModelFreeFlyer}


class Closed(NamedTuple):
    """A tree and its loops, twice."""

    model: kt.Model
    theirs: Any
    joints: list[int]  # Pinocchio's numbers of our bodies
    loops: list[kt.Loop]

    @property
    def closed(self) -> kt.Model:
        """With its loops."""
        return self.model.replace(loops=self.loops)

    def place(self, q: np.ndarray, body: int) -> Any:
        """Where a body is, by Pinocchio."""
        if body < 0:
            return pin.SE3.Identity()
        data = self.theirs.createData()
        pin.forwardKinematics(self.theirs, data, self.convention.q_there(q))
        return data.oMi[self.joints[body]]

    @property
    def convention(self) -> Pinocchio:
        return Pinocchio(self.model, list(self.theirs.names)[1:])

    def joined(self, q: np.ndarray, pairs: Any) -> "Closed":
        """With loops (body, body, kind) that are closed at q, at random places."""
        loops = []
        for one, two, kind in pairs:
            first = pin.SE3.Random()
            second = self.place(q, two).inverse() * self.place(q, one) * first
            loops.append(kt.Loop(one, two, first, second, kind))
        return self._replace(loops=loops)

    def accelerations(self, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Pinocchio's, with Baumgarte's gains at zero."""
        models, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for loop in self.loops:
            one, two = (0 if b < 0 else self.joints[b] for b in (loop.body1, loop.body2))
            there = pin.RigidConstraintModel(
                CONTACTS[loop.kind], self.theirs, one, loop.placement1, two, loop.placement2, pin.LOCAL
            )
            models.append(there)
            data.append(there.createData())
        whole, c = self.theirs.createData(), self.convention
        pin.initConstraintDynamics(self.theirs, whole, models, data)
        state = c.q_there(q), c.v_there(q, qd), c.force_there(q, tau)
        settings = pin.ProximalSettings(1e-14, 1e-14, 1e-10, 100)
        a = pin.constraintDynamics(self.theirs, whole, *state, models, data, settings)
        return c.a_here(q, qd, a)


def grown(seed: int, n: int, floating: bool = False, branching: float = 0.35) -> Closed:
    """A random tree of n bodies with hinges, sliders and balls."""
    rng = np.random.default_rng(seed)
    pin.seed(seed)
    bodies = []
    for i in range(n):
        parent = i - 1
        while parent > 0 and rng.random() < branching:
            parent = bodies[parent][0]
        axis = rng.standard_normal(3)
        kind = ("revolute", "prismatic", "spherical")[rng.integers(3)] if i or not floating else "free"
        bodies.append((parent, kind, axis / np.linalg.norm(axis), pin.SE3.Random(), _inertia(rng)))
    return both(bodies)


def _inertia(rng: np.random.Generator) -> Any:
    sides = rng.uniform(0.1, 0.5, 3)
    return pin.Inertia.FromBox(rng.uniform(0.5, 2.0), *sides).se3Action(pin.SE3(pin.SE3.Random().rotation, sides))


def both(bodies: list) -> Closed:
    """From (parent, kind, axis, placement of the joint, inertia) of each body."""
    theirs, joints, ours = pin.Model(), [], []
    for i, (parent, kind, axis, place, inertia) in enumerate(bodies):
        made = KINDS[kind][1](np.asarray(axis, float)) if kind in KINDS else WHOLE[kind]()
        joints.append(theirs.addJoint(0 if parent < 0 else joints[parent], made, place, f"joint_{i}"))
        theirs.appendBodyToJoint(joints[-1], inertia, pin.SE3.Identity())
        ours.append(KINDS[kind][0](axis) if kind in KINDS else kind)
    swap = np.ix_(ANGULAR_FIRST, ANGULAR_FIRST)
    X = np.stack([b[3].inverse().action[swap] for b in bodies])
    inertias = np.stack([b[4].matrix()[swap] for b in bodies])
    return Closed(kt.Model.from_arrays([b[0] for b in bodies], ours, X, inertias), theirs, joints, [])


def _rod(length: float, mass: float) -> Any:
    """Along x, from the origin."""
    return pin.Inertia.FromBox(mass, length, 0.05, 0.05).se3Action(pin.SE3(np.eye(3), np.array([length / 2, 0, 0])))


def _at(x: float, y: float = 0.0, z: float = 0.0) -> Any:
    return pin.SE3(np.eye(3), np.array([x, y, z]))


def four_bar(kind: str = "connect") -> Closed:
    """Crank 0.3 m, coupler 0.8 m, rocker 0.6 m, on a base of 0.7 m, in the plane of x and z."""
    y = (0.0, 1.0, 0.0)
    bodies = [
        (-1, "revolute", y, _at(0), _rod(0.3, 1.0)),
        (0, "revolute", y, _at(0.3), _rod(0.8, 2.0)),
        (-1, "revolute", y, _at(0.7), _rod(0.6, 1.5)),
    ]
    return both(bodies)._replace(loops=[kt.Loop(1, 2, _at(0.8), _at(0.6), kind)])


FOUR_BAR_GUESS = np.array([-0.7, 0.24, -1.15])


def stewart_platform() -> tuple[Closed, np.ndarray]:
    """Six legs, each a ball on the base and a slider, under a plate that floats; and a closed configuration."""
    bodies: list = [(-1, "free", (0, 0, 1), _at(0), pin.Inertia.FromBox(10.0, 1.0, 1.0, 0.1))]
    q, loops = [np.array([0.05, -0.03, 1.0, 1.0, 0, 0, 0])], []
    for k in range(6):
        foot = pin.SE3(pin.utils.rotate("z", k * np.pi / 3), np.zeros(3)) * _at(1.0)
        plate = pin.SE3(pin.utils.rotate("z", (k // 2) * 2 * np.pi / 3 + (-0.4, 0.4)[k % 2]), np.zeros(3)) * _at(0.5)
        bodies.append((-1, "spherical", None, foot, pin.Inertia.FromBox(1.0, 0.05, 0.05, 0.5)))
        bodies.append((2 * k + 1, "prismatic", (0, 0, 1), _at(0, 0, 0.3), pin.Inertia.FromBox(0.7, 0.04, 0.04, 0.5)))
        target = foot.actInv(np.array([0.05, -0.03, 1.0]) + plate.translation)
        turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0, 1]), target)
        q.append(np.array([turn.w, turn.x, turn.y, turn.z, np.linalg.norm(target) - 0.3]))
        loops.append(kt.Loop(2 * k + 2, 0, _at(0), plate, "connect"))
    return both(bodies)._replace(loops=loops), np.concatenate(q)


def leg() -> Closed:
    """A leg in the manner of Cassie's, on a floating pelvis: shin and tarsus with a long rod from hip to heel."""
    y = (0.0, 1.0, 0.0)
    bodies = [
        (-1, "free", None, _at(0, 0, 1), pin.Inertia.FromBox(8.0, 0.3, 0.3, 0.2)),
        (0, "revolute", (1.0, 0, 0), _at(0.02, 0.13, 0), _rod(0.1, 1.0)),
        (1, "revolute", y, _at(0.1), _rod(0.5, 3.0)),
        (2, "revolute", y, _at(0.5), _rod(0.43, 0.6)),
        (3, "revolute", y, _at(0.43), _rod(0.41, 0.8)),
        (4, "revolute", y, _at(0.41), _rod(0.15, 0.2)),
        (1, "spherical", None, _at(0.1, 0.03, 0), _rod(0.6, 0.2)),  # the rod
    ]
    return both(bodies)._replace(loops=[kt.Loop(6, 4, _at(0.6), _at(-0.1, 0.03, 0.01), "connect")])
