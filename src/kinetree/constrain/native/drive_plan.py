"""What actuators act on, in the terms of lanes."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.model import Actuators, Structure
from kinetree.model.actuators import MUSCLE, Wiring


def kinds_of(structure: Structure, wiring: Wiring) -> list[str]:
    """What each actuator acts on: a "row", a "string", "frames", a "body"; or "rows", which lanes do not support."""
    found = []
    for t in wiring.targets:
        if t.kind != "joint":
            found.append({"tendon": "string", "site": "frames", "crank": "frames"}.get(t.kind, t.kind))
            continue
        joint = structure.joints[structure.joint_code[t.first]]
        one = int(structure.v_start[t.first + 1] - structure.v_start[t.first]) == 1
        found.append("string" if joint.quaternion else "row" if one else "rows")
    return found


class DriveGroup(NamedTuple):
    """Actuators that one loop serves."""

    on: str  # one of the results of `kinds_of`
    stateful: bool  # True if they have activations
    muscle: bool  # True if they are muscles


def drives_of(structure: Structure, wiring: Wiring) -> list[DriveGroup]:
    """The loop that serves each actuator."""
    muscles = wiring.muscles or ((False, False),) * len(wiring.targets)
    every = zip(kinds_of(structure, wiring), wiring.activations, wiring.dynamics, muscles, strict=True)
    return [DriveGroup(on, column >= 0, any(own) or kind == MUSCLE) for on, column, kind, own in every]


def may_brake(actuators: Actuators | None) -> tuple[int, ...]:
    """Actuators whose forces may depend on velocity; unknown numbers count as nonzero."""
    if actuators is None:
        return ()
    both = (actuators.gain, actuators.bias)
    if not all(isinstance(x, np.ndarray) for x in both):
        return tuple(range(len(actuators.wiring.targets)))
    brakes = np.any([x[:, 2] != 0 for x in both], 0)
    if actuators.wiring.muscles:
        brakes = brakes | np.array(actuators.wiring.muscles, bool)[:, 0]
    return tuple(np.flatnonzero(brakes).tolist())


def is_ranged(bounds: Any) -> bool:
    """True if some bound is finite; unknown bounds count as finite."""
    return not isinstance(bounds, np.ndarray) or bool(np.isfinite(bounds).any())


def is_shared(plan: Any, wiring: Wiring) -> bool:
    """True if a tendon limits the sum of its actuators."""
    pulled = sorted({t.first for t in wiring.targets if t.kind == "tendon"})
    return bool(pulled) and plan.world.tendons is not None and is_ranged(plan.world.tendons.pull.force_range[pulled])


def not_driven(plan: Any, actuators: Actuators | None, implicit: bool) -> str:
    """The reason why lanes can not serve these actuators; empty if they can."""
    if actuators is None:
        return ""
    kinds, structure = kinds_of(plan.structure, actuators.wiring), plan.structure
    if "rows" in kinds:
        return "an actuator moves a joint with several degrees of freedom"
    ranged = is_ranged(actuators.joint_range)
    if ranged and {"frames", "body"} & set(kinds):
        return "a joint bounds the sum of its actuators, and one acts on a site or makes a body stick"
    for t in actuators.wiring.targets:
        if t.kind in ("site", "crank"):
            one, two = (structure.row_of_body[b] if b >= 0 else -1 for b in (t.first, t.second))
            if one == two:
                return "an actuator acts on a site, with a reference on the same body"
    braking = [k for k in may_brake(actuators) if kinds[k] != "row"] if implicit else []
    if any(kinds[k] in ("frames", "body") for k in braking):
        return "implicitfast takes the damping of an actuator on a site or a body at the end of the step"
    if ranged and any(actuators.wiring.targets[k].kind == "joint" for k in braking):
        return "a joint bounds the sum of actuators whose damping is taken at the end of the step"
    return ""
