"""How far kinetree and Pinocchio are apart on a robot: relative errors of every quantity both have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.mass_matrix import mass_matrix
from kinetree.io import Pinocchio

from .mujoco_agreement import relative

pin = pytest.importorskip("pinocchio")

WAYS = {"world": pin.WORLD, "local": pin.LOCAL, "aligned": pin.LOCAL_WORLD_ALIGNED}
SWAP = [3, 4, 5, 0, 1, 2]  # linear first, angular first


def robot_files() -> dict[str, Path]:
    """Every URDF of the package example-robot-data, by name."""
    folder = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.urdf"))}


def pinocchio_model(path: Path, floating_base: bool, mimic: bool) -> Any:
    """Pinocchio's model of a file."""
    root = (pin.JointModelFreeFlyer(),) if floating_base else ()
    return pin.buildModelFromUrdf(str(path), *root, mimic)


def joint_order(theirs: Any) -> list[str]:
    """Names of Pinocchio's joints that have coordinates of their own."""
    return [n for n, nv in zip(list(theirs.names), list(theirs.nvs), strict=True) if n != "universe" and nv]


def singular(H: np.ndarray) -> bool:
    """Whether forward dynamics has no answer."""
    values = np.linalg.eigvalsh(H)
    return bool(values[0] < 1e-14 * values[-1])


def errors(model: kt.Model, theirs: Any, massless: bool = False, states: int = 5, seed: int = 1) -> dict[str, float]:
    """Relative errors, each over all states, of a model without passive forces.

    `massless` says that the robot has links without inertia at the end of a joint. Then H is singular in every state,
    and there is no forward dynamics to compare; in all other robots there is, in every state.
    """
    convention = Pinocchio(model, joint_order(theirs))
    q, qd = kt.random_state(model, seed, (states,))
    qdd, tau = np.random.default_rng(seed).standard_normal((2, states, model.nv))
    columns = [convention.v_there(q, np.broadcast_to(e, qd.shape)) for e in np.eye(model.nv)]
    T = np.stack(columns, -1) if columns else np.zeros((states, 0, 0))  # v = T qd
    p, v, a = convention.q_there(q), convention.v_there(q, qd), convention.a_there(q, qd, qdd)
    force = convention.force_there(q, tau)
    data = theirs.createData()
    found: dict[str, list] = {}

    def keep(**results: Any) -> None:
        for name, value in results.items():
            found.setdefault(name, []).append(np.array(value))

    links = [n for n in model.names if theirs.existBodyName(n)]
    assert len(links) == model.n_bodies
    frames = [theirs.getFrameId(n, pin.BODY) for n in links]
    chosen = sorted({0, len(links) // 2, len(links) - 1})
    for k in range(states):
        H = np.array(pin.crba(theirs, data, p[k]))
        H = np.triu(H) + np.triu(H, 1).T
        bias = pin.nonLinearEffects(theirs, data, p[k], v[k])
        keep(mass_matrix=T[k].T @ H @ T[k], inverse_dynamics=T[k].T @ pin.rnea(theirs, data, p[k], v[k], a[k]))
        assert not theirs.nv or singular(H) == massless
        if theirs.nv and not massless:
            keep(forward_dynamics=convention.a_here(q[k], qd[k], np.linalg.solve(H, force[k] - bias)))
        pin.forwardKinematics(theirs, data, p[k], v[k], a[k])
        pin.updateFramePlacements(theirs, data)
        keep(rotations=[data.oMf[f].rotation for f in frames], positions=[data.oMf[f].translation for f in frames])
        for way, reference in WAYS.items():
            jacobians = [
                pin.computeFrameJacobian(theirs, data, p[k], frames[i], reference)[SWAP] @ T[k] for i in chosen
            ]
            keep(**{f"jacobian {way}": jacobians})
        if theirs.nv:
            keep(center_of_mass=pin.centerOfMass(theirs, data, p[k]))
            momentum = pin.computeCentroidalMomentum(theirs, data, p[k], v[k]).vector
            keep(centroidal_momentum=momentum[SWAP], com_jacobian=pin.jacobianCenterOfMass(theirs, data, p[k]) @ T[k])
    ours: dict[str, Any] = {
        "mass_matrix": mass_matrix(model, q),
        "inverse_dynamics": kt.inverse_dynamics(model, q, qd, qdd),
        "rotations": kt.forward_kinematics(model, q).rotation,
        "positions": kt.forward_kinematics(model, q).position,
    }
    if "forward_dynamics" in found:
        ours["forward_dynamics"] = kt.forward_dynamics(model, q, qd, tau)
    for way in WAYS:
        ours[f"jacobian {way}"] = np.stack([kt.jacobian(model, q, links[i], way) for i in chosen], 1)
    if theirs.nv:
        ours["center_of_mass"] = kt.center_of_mass(model, q)
        ours["centroidal_momentum"] = kt.centroidal_momentum(model, q, qd)
        ours["com_jacobian"] = kt.com_jacobian(model, q)
    return {name: relative(ours[name], np.stack(value)) for name, value in found.items()}
