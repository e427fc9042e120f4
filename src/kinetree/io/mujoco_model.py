"""Facts of a compiled MuJoCo model.

The `armature` and `damping` of actuators act on the joint or tendon that they drive, also where actuators are off.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from kinetree.model import ModelError

from .document import HUGE


def disabled(m: Any, *names: str) -> bool:
    """True if one of these parts of the physics is switched off."""
    bits = import_module("mujoco").mjtDisableBit
    return any(m.opt.disableflags & int(getattr(bits, f"mjDSBL_{name}")) for name in names)


# Flags that are read, or that do not change results of kinetree. All others are reported.
ENABLED = frozenset(["OVERRIDE", "ENERGY", "FWDINV", "MULTICCD"])
DISABLED = frozenset(
    [
        "CONSTRAINT",
        "EQUALITY",
        "FRICTIONLOSS",
        "LIMIT",
        "CONTACT",
        "SPRING",
        "DAMPER",
        "GRAVITY",
        "CLAMPCTRL",
        "WARMSTART",
        "FILTERPARENT",
        "ACTUATION",
        "REFSAFE",
        "SENSOR",
        "MIDPHASE",
        "EULERDAMP",
        "AUTORESET",
        "ISLAND",
        "MULTICCD",
    ]
)


def strange_flags(m: Any) -> list[str]:
    """The flags of a file that kinetree does not know, such as MuJoCo's newest ones."""
    mujoco = import_module("mujoco")
    found = []
    for bits, flags, start, known, how in (
        (mujoco.mjtEnableBit, m.opt.enableflags, "mjENBL_", ENABLED, ""),
        (mujoco.mjtDisableBit, m.opt.disableflags, "mjDSBL_", DISABLED, " (disabled)"),
    ):
        given = [n for n, bit in bits.__members__.items() if n.startswith(start) and flags & int(bit)]
        found += [n.removeprefix(start).lower() + how for n in given if n.removeprefix(start) not in known]
    return found


def several_points(m: Any) -> bool:
    """True if convex shapes may touch in several points."""
    return not disabled(m, "MULTICCD")


def nothing_passive(m: Any) -> bool:
    """True if all passive forces are off: fluids and gravity compensation, too, which have no flag of their own."""
    return disabled(m, "SPRING") and disabled(m, "DAMPER")


def carries_weight(m: Any) -> bool:
    """True if bodies have gravity compensation. MuJoCo needs a positive one; then negative ones count, too."""
    return bool((m.body_gravcomp > 0).any()) and not nothing_passive(m)


def in_our_order(m: Any, values: Any) -> np.ndarray:
    """Numbers of degrees of freedom, (nv, ...), in our order: free joints have the angular part first."""
    found = np.array(values, float)
    for start in m.jnt_dofadr[m.jnt_type == 0]:
        found[start : start + 6] = np.roll(found[start : start + 6], 3, 0)
    return found


def armature(m: Any) -> np.ndarray:
    """(nv,): rotor inertia of each degree of freedom, of joints and of the actuators that drive them."""
    return in_our_order(m, m.dof_armature + _of_actuators(m, "actuator_armature"))


def damping(m: Any) -> np.ndarray:
    """(nv,): linear damping of each degree of freedom, of joints and of the actuators that drive them."""
    if disabled(m, "DAMPER"):
        return np.zeros(m.nv)
    return in_our_order(m, m.dof_damping + _of_actuators(m, "actuator_damping"))


def _of_actuators(m: Any, name: str) -> np.ndarray:
    """(nv,): a number of actuators, as the joints that they drive feel it.

    Every degree of freedom of the joint feels it, times the square of the first gear.
    """
    felt = np.zeros(m.nv)
    for joint, value in _felt(m, name, "mjTRN_JOINT", "mjTRN_JOINTINPARENT"):
        felt[np.flatnonzero(m.dof_jntid == joint)] += value
    return felt


def has_heavy_actuators(m: Any) -> bool:
    """True if an actuator has armature or damping of its own, and drives a joint."""
    names = "actuator_armature", "actuator_damping"
    return any(any(_felt(m, name, "mjTRN_JOINT", "mjTRN_JOINTINPARENT")) for name in names)


def of_tendon_actuators(m: Any, name: str) -> np.ndarray:
    """(ntendon,): a number of actuators, summed over the tendons that they drive."""
    felt = np.zeros(m.ntendon)
    for tendon, value in _felt(m, name, "mjTRN_TENDON"):
        felt[tendon] += value
    return felt


def _felt(m: Any, name: str, *transmissions: str) -> Iterator[tuple[int, float]]:
    """What each actuator drives, and a number of it, times the square of its first gear."""
    kinds = import_module("mujoco").mjtTrn
    numbers = [int(getattr(kinds, t)) for t in transmissions]
    first = m.actuator_outadr  # of its forces, each with its gears
    for a in np.flatnonzero(getattr(m, name)):
        if m.actuator_trntype[a] in numbers:
            yield int(m.actuator_trnid[a, 0]), float(getattr(m, name)[a] * m.actuator_gear[first[a], 0] ** 2)


def check_numbers(m: Any, file: str) -> None:
    """Refuse numbers whose products overflow, as they are refused in URDF, naming what has them."""

    def fail(kind: str, name: str, what: str, value: float) -> NoReturn:
        raise ModelError(
            f"{file}: {kind} {name!r}: {what} {value:g} is too large for a mechanism (the limit is {HUGE:g})"
        )

    if not (np.abs(m.opt.gravity) <= HUGE).all():
        fail("option", "gravity", "acceleration", float(np.abs(m.opt.gravity).max()))
    joint_of_q = np.searchsorted(m.jnt_qposadr, np.arange(m.nq), side="right") - 1
    of_body, of_joint, of_site = np.arange(m.nbody), np.arange(m.njnt), np.arange(m.nsite)
    for kind, element, fields in (
        ("body", of_body, ("body_pos", "body_ipos", "body_mass", "body_inertia")),
        ("joint", of_joint, ("jnt_pos", "jnt_stiffness")),
        ("joint", joint_of_q, ("qpos0", "qpos_spring")),
        ("joint", m.dof_jntid, ("dof_damping", "dof_armature", "dof_frictionloss")),
        ("site", of_site, ("site_pos",)),
    ):
        for field in fields if len(element) else ():
            values = np.abs(getattr(m, field)).reshape(len(element), -1)
            bad = np.argwhere(~(values <= HUGE))
            if len(bad):
                number = int(element[bad[0, 0]])
                name = getattr(m, kind)(number).name or f"{kind}_{number}"
                fail(kind, name, field.partition("_")[2] or field, float(values[tuple(bad[0])]))
