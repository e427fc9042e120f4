"""The features of a model that decide on its program. Models with the same features share one compiled program."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.model import Model, World
from kinetree.model.world import SOLIMP

from .kinematics import ROOT_ROWS
from .links import MAX_LINKS
from .loop_plan import LoopKind
from .near import is_crowded
from .plan import Plan
from .span_plan import WrapKind


class Linking(NamedTuple):
    """The features of strings, and of frames that are held together, on which programs depend."""

    lengths: tuple[str, ...] = ()  # kinds of strings
    strung: tuple[str, ...] = ()  # kinds of constraints on strings
    pulled: bool = False  # tendons have springs or dampers, or are heavy and bend
    resists: bool = False  # or armature, or dampers that are taken at the end of a step
    brakes: bool = False  # actuators on strings are taken at the end of a step, too
    wraps: tuple[WrapKind, ...] = ()
    wrapped: tuple[bool, ...] = ()  # lines of spans without a wrap, and with one
    bends: bool = False  # some spatial tendons have armature
    frames: tuple[tuple[int, tuple[bool, bool]], ...] = ()  # sizes of equalities, and which bodies move
    loops: tuple[LoopKind, ...] = ()  # kinds of rigid loops
    following: bool = False  # joints follow others, rigidly as loops do

    @property
    def rigid(self) -> bool:
        """True if there are rigid loops."""
        return bool(self.loops or self.following)


class Features(NamedTuple):
    """All facts that a program's loops depend on."""

    quaternions: bool  # some joints have them
    touches: tuple[tuple[tuple[str, str], int], ...] = ()  # kinds of pairs, and which shape of them moves
    dims: tuple[int, ...] = ()  # of contacts with the static world
    coupled: tuple[int, ...] = ()  # and of those between two moving bodies
    single: bool = False  # convex shapes touch in one point only
    elliptic: bool = False
    limits: bool = False
    losses: bool = False
    damped: bool = False
    springs: tuple[int, ...] = ()  # numbers of rows of joints with springs
    linking: Linking = Linking()
    power: int | None = None  # the power of all impedances, if they share an integer
    fluid: bool = False  # bodies move in a fluid
    noslip: bool = False  # friction does not slip
    joined: bool = False  # touching bodies are solved for by a matrix (joined.py)
    loose: bool = False  # all trees are single free bodies without armature, and nothing links them
    crowded: bool = False  # many pairs have a static shape: all are tested for nearness


def any_number(values: Any) -> bool:
    """True if some number is not zero; unknown numbers count as nonzero."""
    return bool(np.any(values)) if isinstance(values, np.ndarray) else True


def features_of(model: Model, plan: Plan) -> Features:
    """The features of a model."""
    passive = model.passive
    linking = Linking(*_of_strings(plan), *_of_spans(plan), plan.frames.kinds, *_of_loops(plan))
    bare = len(plan.roots) * ROOT_ROWS == plan.n and not any_number(model.rows.armature)
    return Features(
        plan.structure.has_quaternions,
        tuple((t.kinds, t.moving) for t in plan.touches),
        tuple(plan.dims),
        tuple(plan.coupled_dims),
        plan.single,
        plan.world.cone == "elliptic",
        bool(len(plan.limits)),
        bool(plan.has.loss),
        passive is not None and any_number(passive.damping),
        _sprung(model),
        linking,
        _shared_power(plan),
        plan.world.fluid is not None,
        plan.world.noslip,
        plan.joined is not None,
        bare and linking == Linking(),
        is_crowded(plan.pairs),
    )


def _sprung(model: Model) -> tuple[int, ...]:
    """The numbers of rows of joints with springs."""
    if model.passive is None:
        return ()
    width = np.where(model.structure.q_of_row >= 0, 1, 0)
    for first, _, is_free in model.structure.quaternion_joints:
        width[first : first + 3 + 3 * is_free] = 3 + 3 * is_free
    return tuple(w for w in (1, 3, 6) if (width == w).any() and any_number(model.passive.stiffness[width == w]))


def _of_spans(plan: Plan) -> tuple[tuple[WrapKind, ...], tuple[bool, ...], bool]:
    spans = plan.strings.spans
    if spans is None:
        return (), (), False
    return tuple(sorted(spans.wraps)), tuple(sorted(set(spans.wrapped))), bool(len(spans.bending(plan.has)))


def _of_loops(plan: Plan) -> tuple[tuple[LoopKind, ...], bool]:
    return tuple(plan.rigid.groups), bool(plan.rigid.following)


def _of_strings(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...], bool, bool, bool]:
    s = plan.strings
    kinds = {"fixed": s.fixed, "follows": s.follows[0], "balls": s.balls[0], "pairs": s.pairs[0], "parts": s.parts[0]}
    kinds |= {"mimics": s.mimics[0], "slides": s.slides[0]}
    for width, name in ((3, "ball actuators"), (6, "free actuators")):
        kinds[name] = [k for k in s.turned[0] if len(s.rows[k]) == width]
    acting = {k: plan.strings.constrained(k) for k in ("limits", "losses", "holds")}
    lengths, strung = (tuple(k for k, x in found.items() if len(x)) for found in (kinds, acting))
    pulled = bool(plan.has.tendon_stiffness or plan.has.tendon_damping or _of_spans(plan)[2])
    return lengths, strung, pulled, bool(len(s.resists[0])), bool(len(s.brakes[0]))


MAX_SHARED_POWER = 8  # larger powers are computed by logarithms


def _shared_power(plan: Plan) -> int | None:
    """The power of all impedances, if it is one integer; 2 is MuJoCo's default."""
    scene, joints = plan.world.scene, plan.world.joints
    solimp = [] if scene is None else [scene.surfaces.solimp, scene.pairs.solimp]
    solimp += [] if joints is None else [joints.limit_solimp, joints.friction_solimp]
    solimp += other_solimp(plan.world)
    if not all(isinstance(x, np.ndarray) for x in solimp):
        return None
    powers = {float(p) for x in solimp for p in np.maximum(x[:, 4], 1)} | ({SOLIMP[4]} if joints is None else set())
    shared = powers.pop() if len(powers) == 1 else 0.0
    return int(shared) if shared in range(1, MAX_SHARED_POWER + 1) else None


def other_solimp(world: World) -> list[Any]:
    """Impedances of tendons and equalities."""
    equal, tendons = world.equalities, world.tendons
    every = () if equal is None else (equal.frames, equal.joints, equal.tendons)
    found = [e.solimp for e in every if e is not None]
    return found + ([] if tendons is None else [tendons.pull.limit_solimp, tendons.pull.friction_solimp])


def with_power(solimp: tuple, power: int | None) -> tuple:
    """Parameters of an impedance, with the power that all share, if any."""
    return solimp if power is None else (*solimp[:4], power)


def not_known(model: Model, plan: Plan) -> str:
    """The reason why native code can not make the constraints of a model; empty if it can."""
    if model.nv == 0:
        return "nothing moves"
    if plan.frames.equal is not None and (plan.frames.rows[0] == plan.frames.rows[1]).any():
        return "an equality holds a body to itself"
    return f"more than {MAX_LINKS} rows couple bodies" if len(plan.links) > MAX_LINKS else ""


def not_served(model: Model, plan: Plan) -> str:
    """The reason why native code can not solve for the motion of a model; empty if it can."""
    if plan.strings.forked and plan.implicit:
        return "branches of a tendon with a damper meet in a joint that it moves"
    return not_known(model, plan)
