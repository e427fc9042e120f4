"""How far kinetree and MuJoCo are apart on a model: relative errors of what both compute without constraints."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import kinetree as kt
from kinetree.dynamics.mass_matrix import mass_matrix
from kinetree.io import Mujoco


def relative(ours: Any, theirs: Any, floor: float = 0.0) -> float:
    """Largest difference over the largest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), floor, 1e-300))


def model_files() -> dict[str, Path]:
    """MJCF files of the packages gymnasium and dm_control, where they are installed."""
    found = {}
    for package, folder in (("gymnasium", "envs/mujoco/assets"), ("dm_control", "suite")):
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            base = Path(spec.submodule_search_locations[0]) / folder
            found |= {f"{package}/{path.name}": path for path in sorted(base.glob("*.xml"))}
    return found


def unconstrained(path: Path) -> Any:
    """MuJoCo's model, without what kinetree does not model."""
    theirs = mujoco.MjModel.from_xml_path(str(path))
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_ACTUATION
    theirs.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    theirs.opt.density = theirs.opt.viscosity = 0
    for name in ("tendon_stiffness", "tendon_damping", "tendon_armature"):
        if hasattr(theirs, name):  # the last one since 3.2.7
            getattr(theirs, name)[:] = 0
    theirs.body_gravcomp[:] = 0
    return theirs


def full_inertia(theirs: Any, data: Any) -> np.ndarray:
    """The mass matrix (nv, nv), after mj_forward."""
    M = np.zeros((theirs.nv, theirs.nv))
    try:
        mujoco.mj_fullM(theirs, data, M)
    except TypeError:  # before version 4
        mujoco.mj_fullM(theirs, M, data.qM)
    return M


def errors(model: kt.Model, theirs: Any, states: int = 5, seed: int = 1) -> dict[str, float]:
    """Relative errors, each over all states; the energy of what never moves is not counted."""
    convention = Mujoco(model)
    q, qd = kt.random_state(model, seed, (states,))
    tau = np.random.default_rng(seed).standard_normal((states, model.nv))
    columns = [convention.v_there(q, np.broadcast_to(e, qd.shape)) for e in np.eye(model.nv)]
    T = np.stack(columns, -1) if columns else np.zeros((states, 0, 0))
    p, v, force = convention.q_there(q), convention.v_there(q, qd), convention.force_there(q, tau)
    data = mujoco.MjData(theirs)
    found: dict[str, list] = {}
    bodies = [model.body_index(theirs.body(i).name) for i in range(1, theirs.nbody) if theirs.body(i).name]
    named = [i for i in range(1, theirs.nbody) if theirs.body(i).name]
    still = [i for i in range(1, theirs.nbody) if theirs.body_weldid[i] == 0]
    for k in range(states):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = p[k], v[k], force[k]
        mujoco.mj_forward(theirs, data)
        M = full_inertia(theirs, data)
        at_rest = sum(theirs.body_mass[i] * theirs.opt.gravity @ data.xipos[i] for i in still)
        drift = convention._drift(q[k], qd[k])  # of velocities that turn with the body: a part of the bias
        results = {
            "mass_matrix": T[k].T @ M @ T[k],
            "bias_force": T[k].T @ (data.qfrc_bias + M @ drift),
            "passive_force": T[k].T @ data.qfrc_passive,
            "forward_dynamics": convention.a_here(q[k], qd[k], data.qacc_smooth),
            "potential_energy": data.energy[0] + at_rest,
            "kinetic_energy": data.energy[1],
            "positions": data.xpos[named].copy(),
            "rotations": data.xmat[named].reshape(-1, 3, 3).copy(),
        }
        for name, value in results.items():
            found.setdefault(name, []).append(value)
    pose = kt.forward_kinematics(model, q)
    ours = {
        "mass_matrix": mass_matrix(model, q),
        "bias_force": kt.bias_force(model, q, qd),
        "passive_force": kt.passive_force(model, q, qd),
        "forward_dynamics": kt.forward_dynamics(model, q, qd, tau),
        "potential_energy": kt.potential_energy(model, q),
        "kinetic_energy": kt.kinetic_energy(model, q, qd),
        "positions": pose.position[:, bodies],
        "rotations": pose.rotation[:, bodies],
    }
    weight = model.total_mass * np.linalg.norm(model.gravity)  # where gravity does no work, energies are measured by it
    floors = {"potential_energy": weight, "bias_force": weight}
    return {name: relative(ours[name], np.stack(value), floors.get(name, 0.0)) for name, value in found.items()}
