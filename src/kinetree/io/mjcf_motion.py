"""The motion part of an MJCF model: its actuators, time step, integrator and keyframes.

Actuators that are not modelled (DC motors, PID controllers, plugins, delays) do nothing,
but keep their places in controls and activations: a policy's controls fit, number by number.
Those and the ones that are switched off still have a length, if a sensor asks for it.
"""

from importlib import import_module
from typing import Any

import numpy as np

from kinetree.model import Actuators, Keyframes, Model, Stepping
from kinetree.model.actuators import MUSCLE as MUSCLE_DYNAMICS
from kinetree.model.actuators import NONE, ActuatorTarget, Muscles, Wiring
from kinetree.model.copies import with_same_rows

from .converters import Mujoco
from .mujoco_model import carries_weight, disabled, has_heavy_actuators
from .report import Report

JOINT, JOINT_IN_PARENT, CRANK, TENDON, SITE, BODY = range(6)  # MuJoCo's numbers of transmissions; likewise below
FIXED, AFFINE, MUSCLE = range(3)  # gains; biases are none, affine, muscle
GAINS, BIASES, DYNAMICS = (FIXED, AFFINE, MUSCLE), (0, AFFINE, MUSCLE), (0, 1, 2, 3, MUSCLE_DYNAMICS)
INTEGRATORS = ("Euler", "RK4", "implicit", "implicitfast", "discrete")
TRANSMISSIONS = ("joint", "joint", "slider-crank", "tendon", "site", "body", "SO3")


class _Table:
    """MuJoCo's actuators. Each may have several controls and several forces."""

    def __init__(self, m: Any):
        self.count = int(m.nactuator)
        self.control, self.controls = np.array(m.actuator_ctrladr), np.array(m.actuator_ctrlnum)
        self.out, self.delay = np.array(m.actuator_outadr), np.array(m.actuator_delay)
        self.known = np.isin(m.actuator_trntype, (JOINT, JOINT_IN_PARENT, CRANK, TENDON, SITE, BODY))


def with_motion(model: Model, m: Any, ours: dict[int, int], report: Report) -> Model:
    """The model with the motion part of the compiled MuJoCo model `m`; `ours` are our numbers of its bodies."""
    parts: dict[str, Any] = {"stepping": _stepping(model, m, ours, report)}
    if m.nu or (m.jnt_actgravcomp.any() and carries_weight(m)):
        parts["actuators"] = _actuators(model, m, _Table(m), ours, report)
    return with_same_rows(model, **parts)


def _seen(m: Any) -> set[int]:
    """The actuators whose length or velocity a sensor measures."""
    kinds = import_module("mujoco").mjtSensor
    wanted = [int(kinds.mjSENS_ACTUATORPOS), int(kinds.mjSENS_ACTUATORVEL)]
    return {int(i) for i in m.sensor_objid[np.isin(m.sensor_type, wanted)]}


def _why_not(m: Any, table: _Table, i: int) -> str | None:
    """The feature of an actuator that is not modelled, or None."""
    if m.actuator_plugin[i] >= 0:
        return "plugin"
    if not table.known[i]:
        return f"on a {TRANSMISSIONS[min(int(m.actuator_trntype[i]), 6)]}"
    if m.actuator_gaintype[i] not in GAINS or m.actuator_biastype[i] not in BIASES:
        return "gain or bias"
    if m.actuator_dyntype[i] not in DYNAMICS or table.controls[i] != 1 or m.actuator_actnum[i] > 1:
        return "activation dynamics"
    return "delay" if table.delay[i] else None


def _actuators(model: Model, m: Any, table: _Table, ours: dict[int, int], report: Report) -> Actuators:
    why = [_why_not(m, table, i) for i in range(table.count)]
    for reason in filter(None, why):
        report.ignored[f"actuators ({reason})"] += 1
    off = disabled(m, "ACTUATION")
    group = [0 <= g <= 30 and bool(m.opt.disableactuator & (1 << int(g))) for g in m.actuator_group]
    modelled = np.array([not off and reason is None for reason in why], bool)
    acts = modelled & ~np.array(group, bool)
    force_range = _range(m.actuator_forcerange, modelled & np.array(m.actuator_forcelimited, bool))
    pushing = (force_range[:, 0] > 0) | (force_range[:, 1] < 0)  # also where a group is switched off
    seen = _seen(m)
    kept = [i for i in range(table.count) if acts[i] or pushing[i] or (table.known[i] and i in seen)]
    names: list[str] = []
    for i in range(table.count):
        name, count = m.actuator(i).name or f"actuator_{i}", int(table.controls[i])
        names += [name] if count == 1 else [f"{name}/{k}" for k in range(count)]
    dynamics = tuple(int(m.actuator_dyntype[i]) if acts[i] else NONE for i in kept)
    gains, biases = (np.where(acts, kind, FIXED)[kept] for kind in (m.actuator_gaintype, m.actuator_biastype))
    affine_gain, affine_bias = gains == AFFINE, biases == AFFINE
    joints, sites = joint_bodies(model), site_bodies(model, m)
    muscles = tuple((bool(a), bool(b)) for a, b in zip(gains == MUSCLE, biases == MUSCLE, strict=True))
    muscles = muscles if np.any(muscles) else ()
    carries = (m.jnt_actgravcomp != 0)[m.dof_jntid] if m.nv else np.zeros(0, bool)
    wiring = Wiring(
        names=tuple(names),
        na=int(m.na),
        targets=tuple(_target(m, i, joints, sites, ours) for i in kept),
        controls=tuple(int(table.control[i]) for i in kept),
        activations=tuple(int(m.actuator_actadr[i]) if d != NONE else -1 for i, d in zip(kept, dynamics, strict=True)),
        dynamics=dynamics,
        early=tuple(bool(m.actuator_actearly[i]) for i in kept),
        in_parent=tuple(bool(m.actuator_trntype[i] == JOINT_IN_PARENT) for i in kept),
        servos=tuple(
            bool(gain == FIXED and bias == AFFINE and law < 2)
            for gain, bias, law in zip(gains, biases, dynamics, strict=True)
        ),
        muscles=muscles,
        carries=tuple(np.flatnonzero(carries & carries_weight(m)).tolist()),
    )
    gain = np.array(m.actuator_gainprm[kept, :3])
    gain[:, 1:] *= affine_gain[:, None]
    gain *= acts[kept][:, None]
    clamped = np.zeros(m.nu, bool) if disabled(m, "CLAMPCTRL") else np.array(m.actuator_ctrllimited, bool)
    joint_range = np.tile([-np.inf, np.inf], (m.nv, 1))
    if off or not m.nu:  # then no actuator carries the weight that joints leave to actuators
        joint_range[carries] = 0
    else:  # a joint's range limits the sum of its forces
        ranged = np.flatnonzero(m.jnt_actfrclimited)
        joint_range[m.jnt_dofadr[ranged]] = m.jnt_actfrcrange[ranged]
    return Actuators(
        gear=np.array(m.actuator_gear[table.out[kept]]),
        gain=gain,
        bias=np.array(m.actuator_biasprm[kept, :3]) * affine_bias[:, None],
        time_constant=np.array(m.actuator_dynprm[kept, 0]),
        ctrl_range=_range(m.actuator_ctrlrange, clamped),
        force_range=force_range[kept],
        act_range=_range(m.actuator_actrange[kept], np.array(m.actuator_actlimited[kept], bool)),
        joint_range=joint_range,
        wiring=wiring,
        rod=np.array(m.actuator_cranklength[table.out[kept]]) if np.any(m.actuator_trntype[kept] == CRANK) else None,
        muscles=_muscles(m, kept, table.out[kept]) if muscles or MUSCLE_DYNAMICS in dynamics else None,
    )


def _muscles(m: Any, kept: list[int], out: np.ndarray) -> Muscles:
    return Muscles(
        np.array(m.actuator_gainprm[kept, :9]),
        np.array(m.actuator_biasprm[kept, :9]),
        np.array(m.actuator_lengthrange[out]),
        np.array(m.actuator_acc0[out]),
        np.array(m.actuator_dynprm[kept, :3]),
    )


def _target(m: Any, i: int, joints: dict[int, int], sites: np.ndarray, ours: dict[int, int]) -> ActuatorTarget:
    """What an actuator drives."""
    kind, (first, second) = m.actuator_trntype[i], m.actuator_trnid[i].tolist()
    if kind == TENDON:
        return ActuatorTarget("tendon", first)
    if kind in (JOINT, JOINT_IN_PARENT):
        return ActuatorTarget("joint", joints[first])
    if kind == BODY:
        return ActuatorTarget("body", ours[first])
    return ActuatorTarget(
        "crank" if kind == CRANK else "site", int(sites[first]), int(sites[second]) if second >= 0 else -1
    )


def site_bodies(model: Model, m: Any) -> np.ndarray:
    """Our body for each site: the last bodies, in MuJoCo's order."""
    return np.arange(model.n_bodies - m.nsite, model.n_bodies)


def _range(given: Any, limited: np.ndarray) -> np.ndarray:
    return np.where(limited[:, None], np.array(given).reshape(-1, 2), [-np.inf, np.inf])


def joint_bodies(model: Model) -> dict[int, int]:
    """For each MuJoCo joint, the kinetree body that it moves: joints that move have MuJoCo's order."""
    moving = np.flatnonzero(np.diff(model.structure.v_start))
    return {j: int(body) for j, body in enumerate(moving)}


def _stepping(model: Model, m: Any, ours: dict[int, int], report: Report) -> Stepping:
    integrator = INTEGRATORS[int(m.opt.integrator)]
    if integrator == "discrete":
        report.warn(f"integrator {integrator!r} is not modelled: advance takes 'implicitfast'")
        integrator = "implicitfast"
    convention = Mujoco(model)
    q = np.array(m.key_qpos).reshape(m.nkey, m.nq)
    qd = convention.v_here(q, np.array(m.key_qvel).reshape(m.nkey, m.nv)) if m.nkey else np.zeros((0, m.nv))
    names = [m.key(k).name or f"key_{k}" for k in range(m.nkey)]
    act, ctrl = np.array(m.key_act).reshape(m.nkey, m.na), np.array(m.key_ctrl).reshape(m.nkey, m.nu)
    return Stepping(
        timestep=np.array(m.opt.timestep),
        integrator=integrator,
        implicit_damping=not disabled(m, "EULERDAMP"),
        heavy_actuators=has_heavy_actuators(m),
        keyframes=Keyframes(names, m.qpos0, q, qd, act, m.key_time, ctrl, *_placed(model, m, ours)),
    )


def _placed(model: Model, m: Any, ours: dict[int, int]) -> tuple[list[str], np.ndarray]:
    """Names of mocap bodies, and their poses in keyframes, (keyframes, bodies, 7)."""
    bodies = sorted(np.flatnonzero(m.body_mocapid >= 0).tolist(), key=lambda b: m.body_mocapid[b])
    position, orientation = m.key_mpos.reshape(m.nkey, m.nmocap, 3), m.key_mquat.reshape(m.nkey, m.nmocap, 4)
    return [model.names[ours[b]] for b in bodies], np.concatenate([position, orientation], -1)
