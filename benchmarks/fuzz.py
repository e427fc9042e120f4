"""Random scenes in random states, however harsh: `python -m benchmarks.fuzz --states 100000`.

Scenes are random trees of all joints, with all shapes that native programs collide, limits, friction losses, both
cones and odd softness; masses span six orders of magnitude. States overlap deeply, rest, or fly. In every state
accelerations and forces must be finite, the step after it too, and the points of contact must be MuJoCo's, in number
and depth. States that did not converge are counted: they must say so. The last line counts all; the exit status is 1
if anything is wrong.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

import kinetree as kt
from kinetree.io import Mujoco, from_mujoco_model
from kinetree.io.report import Report

TINY_MARGIN = 1e-13  # m, of height fields: without one MuJoCo 4.0's EPA stops too early for boxes
ROUNDING = 1e-9  # m: a point so near to the end of its reach is there or not by rounding
CLOSE = 1e-7  # m, of depths; states are up to 100 m from the origin
SHAPES = {
    "sphere": lambda r: f"{r.uniform(0.02, 0.2):.4f}",
    "capsule": lambda r: f"{r.uniform(0.02, 0.1):.4f} {r.uniform(0.02, 0.3):.4f}",
    "box": lambda r: " ".join(f"{x:.4f}" for x in r.uniform(0.02, 0.2, 3)),
    "cylinder": lambda r: f"{r.uniform(0.02, 0.1):.4f} {r.uniform(0.02, 0.2):.4f}",
    "ellipsoid": lambda r: " ".join(f"{x:.4f}" for x in r.uniform(0.02, 0.2, 3)),
}
# What may touch what, as bits: all touch the floor; with --heaps all touch each other, too, and else only these.
ROUND = ("sphere", "capsule")
HEAP_SHAPES = 3  # kinds of shapes in a heap: every pair of kinds is code to compile
FIELD_SIZE = "4 4 .5 1"


def numbers(values: Any) -> str:
    """For an attribute."""
    return " ".join(f"{x:.5g}" for x in np.atleast_1d(values))


def body(rng: np.random.Generator, depth: int, most: int, kinds: list[str], heap: bool) -> str:
    """A body with its joint, its shape, and what it carries."""
    joints = ["hinge", "slide", "ball", "hinge"] if depth else ["free", "hinge", "slide", "ball"]
    kind = joints[rng.integers(len(joints))]
    limits = f'range="{numbers(np.sort(rng.uniform(-2, 2, 2)))}" limited="true"' if rng.random() < 0.5 else ""
    joint = "<freejoint/>"
    if kind != "free":
        extra = limits if kind in ("hinge", "slide") else ""
        loss = f'frictionloss="{10 ** rng.uniform(-3, 2):.3g}"' if rng.random() < 0.3 else ""
        joint = (
            f'<joint type="{kind}" axis="{numbers(rng.normal(size=3))}" pos="{numbers(rng.normal(size=3) * 0.1)}" '
            f'damping="{rng.choice([0, 0.1, 10])}" armature="{rng.choice([0.001, 0.1])}" {extra} {loss}/>'
        )
    shape = kinds[rng.integers(len(kinds))]
    bits = (3, 3) if heap or shape in ROUND else (1, 1)
    geom = (
        f'<geom type="{shape}" size="{SHAPES[shape](rng)}" pos="{numbers(rng.normal(size=3) * 0.05)}" '
        f'euler="{numbers(rng.uniform(-180, 180, 3))}" mass="{10 ** rng.uniform(-3, 3):.4g}" '
        f'condim="{rng.choice([1, 3, 4, 6])}" friction="{numbers(10 ** rng.uniform(-3, 0.5, 3))}" '
        f'margin="{rng.choice([0, 0, 0.02])}" gap="{rng.choice([0, 0, 0.01])}" contype="{bits[0] & 2}" '
        f'conaffinity="{bits[1]}" solref="{rng.uniform(0.003, 0.1):.4g} {rng.uniform(0.3, 2):.3g}" '
        f'solimp="{numbers([rng.uniform(0.1, 0.9), rng.uniform(0.9, 0.999), 10 ** rng.uniform(-4, -1), 0.5, 2])}"/>'
    )
    children = "".join(
        body(rng, depth + 1, most, kinds, heap) for _ in range(rng.integers(0, 3) if depth < most else 0)
    )
    place = f'pos="{numbers(rng.normal(size=3) * 0.3)}" euler="{numbers(rng.uniform(-180, 180, 3))}"'
    return f"<body {place}>{joint}{geom}{children}</body>"


def scene(rng: np.random.Generator, heap: bool = False) -> str:
    """MJCF of a random scene on a floor; of a heap, whose floor may be a height field."""
    kinds = [str(k) for k in rng.choice(list(SHAPES), HEAP_SHAPES, replace=False)] if heap else list(SHAPES)
    deep = (0, 2) if heap else (0, 5)
    bodies = "".join(body(rng, 0, int(rng.integers(*deep)), kinds, heap) for _ in range(rng.integers(1, 4) + heap))
    floor, asset = 'type="plane" size="0 0 1"', ""
    if heap and rng.random() < 0.5:
        floor = f'type="hfield" hfield="land" pos="0 0 -.25" margin="{TINY_MARGIN}"'
        heights = numbers(rng.uniform(0, 1, 36))
        asset = f'<asset><hfield name="land" nrow="6" ncol="6" size="{FIELD_SIZE}" elevation="{heights}"/></asset>'
    cone = rng.choice(["pyramidal", "elliptic"])
    return (
        f'<mujoco><option cone="{cone}" timestep="{rng.choice([0.001, 0.005])}" impratio="{rng.choice([1, 10])}"/>'
        f'<size memory="50M"/>{asset}<worldbody><geom {floor} contype="1" conaffinity="1"/>'
        f"{bodies}</worldbody></mujoco>"
    )


def states(m: Any, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """qpos and qvel: at rest, in flight, far out, deep in the floor."""
    spread = 10 ** rng.uniform(-2, 2, (count, 1))
    qpos = rng.normal(size=(count, m.nq)) * np.minimum(spread, 3)
    for j in range(m.njnt):
        at, kind = int(m.jnt_qposadr[j]), int(m.jnt_type[j])
        if kind in (0, 1):
            quaternion = slice(at + 3, at + 7) if kind == 0 else slice(at, at + 4)
            turn = rng.normal(size=(count, 4))
            qpos[:, quaternion] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
        if kind == 0:
            qpos[:, at : at + 3] = rng.normal(size=(count, 3)) * np.array([1, 1, 0.3]) * spread.clip(0.1, 100)
    qvel = rng.normal(size=(count, m.nv)) * np.where(
        rng.random((count, 1)) < 0.2, 0, 10 ** rng.uniform(-3, 2, (count, 1))
    )
    return qpos, qvel


@dataclass
class Tally:
    """What happened."""

    scenes: int = 0
    states: int = 0
    contacts: int = 0
    lost: int = 0  # states with other points of contact than MuJoCo's
    deeper: int = 0  # states with as many points, of other depths
    not_finite: int = 0
    unconverged: int = 0  # and said so
    xla: int = 0  # scenes that native programs do not serve; nothing is done with them
    worst_iterations: int = 0

    @property
    def wrong(self) -> int:
        """Nothing may be."""
        return self.lost + self.deeper + self.not_finite


def depths(m: Any, d: Any, qpos: np.ndarray) -> tuple[np.ndarray, bool]:
    """MuJoCo's distances in a state, in order, and whether some point is there by rounding."""
    d.qpos[:] = qpos
    mujoco.mj_kinematics(m, d)
    mujoco.mj_comPos(m, d)
    mujoco.mj_collision(m, d)
    reach = d.contact.includemargin if d.ncon else np.zeros(0)
    return np.sort(d.contact.dist), bool((np.abs(d.contact.dist - reach) < ROUNDING).any())


def try_scene(text: str, rng: np.random.Generator, count: int, tally: Tally) -> None:
    """All checks of some states of a scene."""
    from kinetree.constrain.choose import way_of

    m = mujoco.MjModel.from_xml_string(text)
    m.opt.ccd_tolerance, m.opt.ccd_iterations = 1e-10, 200
    model = from_mujoco_model(m, Report("fuzz", "MJCF"))
    if way_of(model).plan is None:
        tally.xla += 1
        return
    tally.scenes += 1
    qpos, qvel = states(m, rng, count)
    there = Mujoco(model)
    q = there.q_here(qpos)
    qd = there.v_here(q, qvel)
    found = kt.constrained_dynamics(model, q, qd)
    after = kt.advance(model, kt.initial_state(model, q, qd))
    whole = [np.isfinite(np.asarray(x)).all(-1) for x in (found.qdd, found.tau_constraint, after.q, after.qd)]
    bad = ~np.logical_and.reduce(whole)
    tally.not_finite += int(bad.sum())
    tally.states += count
    tally.unconverged += int((~np.asarray(found.converged)).sum())
    tally.worst_iterations = max(tally.worst_iterations, int(np.max(found.iterations)))
    d = mujoco.MjData(m)
    for k in range(count):
        theirs, unsure = depths(m, d, qpos[k])
        mine = np.sort(-found.contacts.depth[k][np.isfinite(found.contacts.depth[k])])
        tally.contacts += len(theirs)
        same = len(mine) == len(theirs) and (not len(mine) or np.abs(mine - theirs).max() < CLOSE)
        if not same and not unsure:
            tally.lost += len(mine) != len(theirs)
            tally.deeper += len(mine) == len(theirs)
            if tally.lost + tally.deeper <= 3:
                print(f"points differ: {mine} and {theirs} of MuJoCo, at {qpos[k].tolist()} of\n{text}")
    if bad.any():
        k = int(np.argmax(bad))
        print(f"not finite at {qpos[k].tolist()}, {qvel[k].tolist()} of\n{text}")


def fuzz(total: int, each: int, seed: int, seconds: float = np.inf, heaps: bool = False) -> Tally:
    """Random scenes until `total` states were tried, `each` a scene, or the time is over."""
    tally, start, number = Tally(), time.perf_counter(), seed
    while tally.states < total and time.perf_counter() - start < seconds:
        rng = np.random.default_rng(number)
        number += 1
        try_scene(scene(rng, heaps), rng, min(each, total - tally.states), tally)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=2_000, help="states of a scene")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--heaps", action="store_true", help="few kinds of shapes that all touch each other")
    options = parser.parse_args()
    tally = fuzz(options.states, options.each, options.seed, options.seconds, options.heaps)
    print(tally)
    sys.exit(int(tally.wrong > 0))


if __name__ == "__main__":
    main()
