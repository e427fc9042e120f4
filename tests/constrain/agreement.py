"""How far constrained dynamics and MuJoCo's are apart: states reached by MuJoCo under random controls."""

from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

import kinetree as kt
from kinetree.io import Mujoco, Report, from_mujoco_model

NEWTON = mujoco.mjtSolver.mjSOL_NEWTON


class States(NamedTuple):
    """States of MuJoCo in our convention, with the forces that act, and what MuJoCo made of them."""

    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    qdd: np.ndarray
    tau_constraint: np.ndarray
    contacts: np.ndarray  # how many there were


def exact(m: Any) -> Any:
    """The model with a solver that goes on until nothing improves, and without what kinetree does not model yet."""
    m.opt.solver, m.opt.tolerance, m.opt.iterations = NEWTON, 0, 100
    m.opt.ls_iterations, m.opt.ls_tolerance, m.opt.noslip_iterations = 100, 1e-12, 0
    m.opt.density = m.opt.viscosity = 0
    return m


def ours(m: Any) -> kt.Model:
    """Our model of a compiled one."""
    return from_mujoco_model(m, Report("model", "MJCF"))


def compiled(source: str | Path) -> Any:
    """A model of a path or of XML."""
    read = mujoco.MjModel.from_xml_path if isinstance(source, Path) else mujoco.MjModel.from_xml_string
    return exact(read(str(source)))


def states(m: Any, model: kt.Model, count: int = 20, every: int = 15, push: float = 0.0, seed: int = 1) -> States:
    """States every few steps of a run under random controls, and random pushes on the joints."""
    rng = np.random.default_rng(seed)
    d = mujoco.MjData(m)
    found = []
    for step in range(count * every):
        low, high = np.where(m.actuator_ctrllimited[:, None] != 0, m.actuator_ctrlrange, (-1.0, 1.0)).T
        d.ctrl[:] = rng.uniform(low, high)
        d.qfrc_applied[:] = push * rng.standard_normal(m.nv)
        mujoco.mj_forward(m, d)
        if step % every == every - 1:
            tau = d.qfrc_applied + d.qfrc_actuator
            found.append((d.qpos, d.qvel, tau, d.qacc, d.qfrc_constraint, d.ncon))
            found[-1] = tuple(np.array(x) for x in found[-1])
        mujoco.mj_step(m, d)
    qpos, qvel, tau, qacc, force, contacts = map(np.stack, zip(*found, strict=True))
    convention = Mujoco(model)
    q = convention.q_here(qpos)
    qd = convention.v_here(q, qvel)
    return States(
        q,
        qd,
        convention.force_here(q, tau),
        convention.a_here(q, qd, qacc),
        convention.force_here(q, force),
        contacts,
    )


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error of a state over its largest number, or 1."""
    return float((np.abs(found - wanted).max(-1) / np.maximum(np.abs(wanted).max(-1), 1)).max())


def errors(model: kt.Model, s: States, warm_start: np.ndarray | None = None) -> dict[str, float]:
    """Of accelerations, of constraint forces, and of the way back."""
    found = kt.constrained_dynamics(model, s.q, s.qd, s.tau, warm_start=warm_start)
    assert found.converged.all()
    back = kt.constrained_inverse_dynamics(model, s.q, s.qd, found.qdd)
    scale = np.maximum(np.abs(found.tau_constraint).max(-1, keepdims=True), 1)
    return {
        "qdd": relative(found.qdd, s.qdd),
        "tau_constraint": relative(found.tau_constraint, s.tau_constraint),
        "inverse": float((np.abs(back - s.tau) / scale).max()),
        "iterations": float(found.iterations.mean()),
        "contacts": float(found.contacts.active.sum(-1).mean()),
    }


def solved_as_there(model, reached, close):
    """Constrained dynamics at states of MuJoCo: its accelerations, its forces, as many contacts (also in the gap)."""
    found = kt.constrained_dynamics(model, reached.q, reached.qd, reached.tau)
    assert found.converged.all()
    assert relative(found.qdd, reached.qdd) < close
    assert relative(found.tau_constraint, reached.tau_constraint) < close
    assert np.isfinite(found.contacts.depth).sum(-1).tolist() == reached.contacts.tolist()
    return found
