"""Random scenes whose numbers must be MuJoCo's: `python -m benchmarks.fuzz_numbers --scenes 1000`.

Trees of all joints with springs, dampers, limits, dry friction, actuators of every law, both cones and both forms of
softness, under Euler, implicitfast and RK4. MuJoCo goes through states under random controls, and conformance.py
compares accelerations, forces, contacts, one step and 100 steps. With `--coupled` there are equalities and tendons,
too; with `--all` whatever a file may say (fuzz_scenes.py). Curved shapes are known to 1e-12 of their depth in MuJoCo,
so their normals to 1e-6. Scenes that differ are printed, as MJCF. The last line counts; the exit status is 1 if
anything differs.
"""

import argparse
import sys
import time
from typing import Any

import mujoco
import numpy as np

from kinetree.io import from_mujoco_model
from kinetree.io.report import Report

from .conformance import compare, exact, verdict
from .fuzz import numbers
from .fuzz_scenes import everything

Random = np.random.Generator


def softness(rng: Random, name: str = "") -> str:
    """solref in one of its two forms, and solimp."""
    ref = [rng.uniform(0.01, 0.1), rng.uniform(0.5, 1.5)]
    if rng.random() < 0.3:
        ref = [-(10 ** rng.uniform(2, 3.5)), -(10 ** rng.uniform(0.5, 2))]
    imp = [
        rng.uniform(0.3, 0.9),
        rng.uniform(0.9, 0.99),
        10 ** rng.uniform(-3, -1),
        rng.uniform(0.2, 0.8),
        rng.choice([1, 2, 3]),
    ]
    return f'solref{name}="{numbers(ref)}" solimp{name}="{numbers(imp)}"'


def maybe(rng: Random, chance: float, text: str) -> str:
    """The text, or nothing."""
    return text if rng.random() < chance else ""


def body(rng: Random, names: list[str], depth: int, most: int) -> str:
    """A body with its joint, its shape, and what it carries; the names of hinges and sliders are added to the list."""
    kinds = ["hinge", "slide", "hinge", "ball"] if depth else ["free", "hinge", "slide", "ball"]
    kind = kinds[rng.integers(len(kinds))]
    joint = "<freejoint/>"
    if kind != "free":
        name = f"j{len(names)}"
        scalar = kind in ("hinge", "slide")
        if scalar:
            names.append(name)
        spread = 60 if kind == "hinge" else 0.5
        low, high = np.sort(rng.uniform(-spread, spread, 2))
        joint = (
            f'<joint name="{name if scalar else f"ball{rng.integers(1 << 30)}"}" type="{kind}" '
            f'axis="{numbers(rng.normal(size=3))}" pos="{numbers(rng.normal(size=3) * 0.05)}" '
            f'damping="{rng.choice([0, 0.1, 1])}" armature="{rng.choice([0.01, 0.1])}" '
            + maybe(
                rng, 0.3 * scalar, f'stiffness="{rng.uniform(1, 20):.3g}" springref="{rng.uniform(-0.3, 0.3):.3g}" '
            )
            + maybe(rng, 0.4 * scalar, f'limited="true" range="{low:.3g} {high:.3g}" margin="{rng.choice([0, 0.05])}" ')
            + maybe(rng, 0.3, f'frictionloss="{rng.uniform(0.01, 1):.3g}" ')
            + maybe(rng, 0.3 * scalar, f'actuatorfrcrange="-{rng.uniform(1, 5):.3g} {rng.uniform(1, 5):.3g}" ')
            + f"{softness(rng, 'limit')} {softness(rng, 'friction')}/>"
        )
    shape = rng.choice(["sphere", "capsule"])
    size = [rng.uniform(0.05, 0.15)] + ([rng.uniform(0.05, 0.2)] if shape == "capsule" else [])
    geom = (
        f'<geom type="{shape}" size="{numbers(size)}" pos="{numbers(rng.normal(size=3) * 0.05)}" '
        f'euler="{numbers(rng.uniform(-180, 180, 3))}" mass="{rng.uniform(0.2, 3):.3g}" '
        f'friction="{numbers(rng.uniform([0.2, 0.005, 0.0005], [1.2, 0.05, 0.01]))}" '
        f'condim="{rng.choice([1, 3, 4, 6])}" margin="{rng.choice([0, 0, 0.01])}" '
        f'gap="{rng.choice([0, 0, 0.005])}" priority="{rng.choice([0, 0, 1])}" solmix="{rng.uniform(0.2, 2):.3g}" '
        f"{softness(rng)}/>"
    )
    children = "".join(body(rng, names, depth + 1, most) for _ in range(rng.integers(0, 3) if depth < most else 0))
    place = f'pos="{numbers(rng.normal(size=3) * 0.25 + [0, 0, 0.4 * (depth == 0)])}"'
    turn = f'euler="{numbers(rng.uniform(-180, 180, 3))}"'
    carried = maybe(rng, 0.2, f'gravcomp="{rng.uniform(0, 1):.3g}"')
    return f"<body {place} {turn} {carried}>{joint}{geom}{children}</body>"


def actuator(rng: Random, joint: str) -> str:
    """One of every law."""
    ranges = maybe(rng, 0.4, f'forcelimited="true" forcerange="-{rng.uniform(0.5, 5):.3g} {rng.uniform(0.5, 5):.3g}"')
    ranges += maybe(rng, 0.4, f' ctrllimited="true" ctrlrange="-{rng.uniform(0.2, 1):.3g} {rng.uniform(0.2, 1):.3g}"')
    common = f'joint="{joint}" gear="{rng.uniform(0.5, 3):.3g}" {ranges}'
    filtered = f'timeconst="{rng.uniform(0.01, 0.1):.3g}"'
    laws = [
        f"<motor {common}/>",
        f'<position {common} kp="{rng.uniform(1, 20):.3g}" kv="{rng.uniform(0, 1):.3g}" {maybe(rng, 0.5, filtered)}/>',
        f'<velocity {common} kv="{rng.uniform(0.1, 2):.3g}"/>',
        f'<intvelocity {common} kp="{rng.uniform(1, 9):.3g}" actrange="-1 1"/>',
        f'<cylinder {common} {filtered} area="{rng.uniform(0.5, 2):.3g}" bias="0.1 -0.2 -0.3"/>',
        f'<general {common} dyntype="filter" dynprm="{rng.uniform(0.01, 0.1):.3g}" '
        f'gaintype="affine" gainprm="1 0.3 -0.2" biastype="affine" biasprm="0.1 -0.5 -0.1" '
        f'actearly="{rng.choice(["true", "false"])}"/>',
        f'<general {common} gaintype="affine" gainprm="2 0.3 -0.4"/>',
    ]
    return str(laws[rng.integers(len(laws))])


def coupling(rng: Random, names: list[str]) -> str:
    """Tendons with springs, dampers and limits, and joints that follow others."""
    if len(names) < 2:
        return ""
    one, two = rng.choice(names, 2, replace=False)
    low, high = np.sort(rng.uniform(-0.5, 0.5, 2))
    tendon = (
        f'<fixed name="t" stiffness="{rng.choice([0, 5])}" damping="{rng.choice([0, 0.5])}" '
        f'frictionloss="{rng.choice([0, 0.2])}" '
        + maybe(rng, 0.5, f'limited="true" range="{low:.3g} {high:.3g}" ')
        + f'{softness(rng, "limit")}><joint joint="{one}" coef="{rng.uniform(-2, 2):.3g}"/>'
        f'<joint joint="{two}" coef="1"/></fixed>'
    )
    equal = f'<joint joint1="{one}" joint2="{two}" polycoef="{numbers(rng.normal(size=5) * 0.5)}" {softness(rng)}/>'
    return f"<tendon>{tendon}</tendon>" + maybe(rng, 0.5, f"<equality>{equal}</equality>")


def scene(rng: Random, coupled: bool = False) -> str:
    """MJCF of a random scene on a floor."""
    names: list[str] = []
    bodies = "".join(body(rng, names, 0, int(rng.integers(0, 4))) for _ in range(rng.integers(1, 3)))
    motors = "".join(actuator(rng, name) for name in names if rng.random() < 0.7)
    option = (
        f'cone="{rng.choice(["pyramidal", "elliptic"])}" timestep="{rng.choice([0.001, 0.002, 0.004])}" '
        f'impratio="{rng.choice([1, 1, 5])}" integrator="{rng.choice(["Euler", "implicitfast", "RK4"])}"'
    )
    return (
        f'<mujoco><option {option}/><worldbody><geom type="plane" size="0 0 1" {softness(rng)}/>{bodies}</worldbody>'
        f"<actuator>{motors}</actuator>{coupling(rng, names) if coupled else ''}</mujoco>"
    )


def look(text: str, states: int) -> dict[str, Any]:
    """What conformance.py says of a scene."""
    m = exact(mujoco.MjModel.from_xml_string(text))
    report = Report("fuzz", "MJCF")
    model = from_mujoco_model(m, report)
    return {"ignored": dict(report.ignored)} | compare(m, model, states, every=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=100)
    parser.add_argument("--states", type=int, default=20, help="of a scene")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--coupled", action="store_true")
    parser.add_argument("--all", action="store_true", help="scenes over all features")
    options = parser.parse_args()
    mujoco.set_mju_user_warning(lambda _: None)
    start, tried, tally, wrong = time.perf_counter(), 0, 0, 0
    for seed in range(options.seed, options.seed + options.scenes):
        if time.perf_counter() - start > options.seconds:
            break
        rng = np.random.default_rng(seed)
        text = everything(rng) if options.all else scene(rng, options.coupled)
        found = look(text, options.states)
        tried, tally = tried + 1, tally + found["mujoco_states"]
        said = verdict(found) if found["mujoco_states"] else "agrees"
        if said != "agrees":
            wrong += 1
            print(f"seed {seed}: {said}\n{text}", flush=True)
        if tried % 10 == 0:
            print(f"{tried} scenes, {tally} states, {wrong} differ, {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{tried} scenes, {tally} states, {wrong} scenes differ")
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
