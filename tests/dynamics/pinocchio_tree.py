"""Pinocchio's model of a reference description, its poses and Jacobians in our order: an oracle nobody here wrote."""

from typing import Any

import numpy as np
import pytest

pin = pytest.importorskip("pinocchio")

KINDS = ("revolute", "free", "prismatic", "spherical", "fixed", "helical")  # what both have
WAYS = {"world": pin.WORLD, "local": pin.LOCAL, "aligned": pin.LOCAL_WORLD_ALIGNED}
SWAP = [3, 4, 5, 0, 1, 2]  # linear first, angular first


def _placement(X: np.ndarray) -> Any:
    E = np.asarray(X[:3, :3], float)
    r = np.asarray(-X[:3, :3].T @ X[3:, :3], float)  # as a cross product
    return pin.SE3(E.T, np.array([r[2, 1], r[0, 2], r[1, 0]]))


def _joint(spelled: Any) -> Any:
    match spelled:
        case ("revolute", axis):
            return pin.JointModelRevoluteUnaligned(np.array(axis))
        case ("prismatic", axis):
            return pin.JointModelPrismaticUnaligned(np.array(axis))
        case ("helical", axis, pitch):
            return pin.JointModelHelicalUnaligned(np.array(axis), pitch)
        case "spherical":
            return pin.JointModelSpherical()
        case "free":
            return pin.JointModelFreeFlyer()
    raise ValueError(f"no such joint in both: {spelled}")


class PinocchioTree:
    """A description as Pinocchio sees it, with a frame for each body."""

    def __init__(self, description: Any):
        self.description = description
        self.model = pin.Model()
        stands: list[tuple[int, Any]] = []  # joint that carries each body, and the body's placement on it
        self.frames = []
        for i, (parent, spelled) in enumerate(zip(description.parent, description.joints, strict=True)):
            joint, on_joint = stands[parent] if parent >= 0 else (0, pin.SE3.Identity())
            placement = on_joint * _placement(description.x_tree[i])
            if spelled != "fixed":
                joint = self.model.addJoint(joint, _joint(spelled), placement, f"joint_{i}")
                placement = pin.SE3.Identity()
            stands.append((joint, placement))
            self.frames.append(self.model.addFrame(pin.Frame(f"frame_{i}", joint, placement, pin.FrameType.OP_FRAME)))
        self.data = self.model.createData()

    def q_there(self, q: np.ndarray) -> np.ndarray:
        """Quaternions with their scalar last."""
        q = q.copy()
        for i, spelled in enumerate(self.description.joints):
            if spelled in ("spherical", "free"):
                part = q[self.description.q_slice(i)]
                part[-4:] = np.roll(part[-4:], -1)
        return q

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (n, 3, 3) and positions (n, 3)."""
        pin.framesForwardKinematics(self.model, self.data, self.q_there(q))
        placed = [self.data.oMf[f] for f in self.frames]
        return np.stack([p.rotation for p in placed]), np.stack([p.translation for p in placed])

    def jacobian(self, q: np.ndarray, body: int, way: str) -> np.ndarray:
        """(6, nv)."""
        J = pin.computeFrameJacobian(self.model, self.data, self.q_there(q), self.frames[body], WAYS[way])[SWAP]
        for i, spelled in enumerate(self.description.joints):
            if spelled == "free":
                part = self.description.v_slice(i)
                J[:, part] = J[:, part][:, SWAP]
        return J
