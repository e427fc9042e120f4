"""Forward kinematics as a lane program: poses of the rows outward, then of the bodies that they carry."""

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.once import once
from kinetree.model import Model, Structure
from kinetree.spatial import Rotation, Transform

from .lane_rows import PLACEMENT, ZERO3, LaneAlgorithm, Part, Turns, placing_parts
from .poses import carried, pose_parts

FRAME = jax.tree.structure(Transform(Rotation(*9 * (0.0,)), ZERO3))
CARRIER, ROTATION, POSITION = range(3)  # columns of the table of bodies: first slot of their row, columns of results


def frame_constants(model: Model, bodies: np.ndarray) -> Transform:
    """Frames of these bodies in those of their rows."""
    return jax.tree.map(lambda x: x[bodies], model.frames)


@once
def kinematics_lanes(quaternions: bool) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints: rotations, body to world, and positions."""
    memory = Memory(pose=PLACEMENT, **({"placed": PLACEMENT} if quaternions else {}))

    def stand(frame: Transform, _: tuple, reads: tuple) -> tuple:
        (pose,) = reads
        E, p = carried(pose, frame)
        return (), (), (*E.T, *p)

    def bodies(structure: Structure) -> Turns:
        body = np.arange(structure.n_bodies)
        table = np.stack([memory.base(structure.row_of_body), 9 * body, 3 * body], -1)
        return table.astype(np.int32), body

    outputs = [Lane(0, ROTATION, k) for k in range(9)] + [Lane(1, POSITION, k) for k in range(3)]
    loop = Loop(stand, 3, FRAME, reads=(memory.at(CARRIER, "pose"),), outputs=tuple(outputs))
    parts = placing_parts(memory) if quaternions else []
    parts += [*pose_parts(memory, quaternions, 0), Part(loop, bodies, frame_constants)]
    name = "kinematics" + "_quaternions" * quaternions
    return LaneAlgorithm(name, parts, memory, 1, 2, lambda s: (9 * s.n_bodies, 3 * s.n_bodies))
