"""Robots that nobody has: random URDFs of each kind of joint and shape, for `python -m benchmarks.robots --random`.

What is fast for the robots at hand may have a cliff beside them: one body, hundreds, chains of joints that follow
others, sliders, planar joints, free bodies in the middle of a tree, bodies that hardly anything moves.
"""

import tempfile
from pathlib import Path

import numpy as np

HINGES = ("revolute", "continuous")
KINDS: dict[str, tuple[int, tuple[str, ...], float]] = {  # bodies that move, their joints, share of fixed ones beside
    "one hinge": (1, ("continuous",), 0.0),
    "one slider": (1, ("prismatic",), 0.0),
    "one free body": (1, ("floating",), 0.0),
    "one planar body": (1, ("planar",), 0.0),
    "three hinges": (3, HINGES, 0.0),
    "hinges, many fixed": (8, HINGES, 4.0),
    "hinges and sliders": (12, ("revolute", "prismatic"), 0.5),
    "sliders": (9, ("prismatic",), 0.0),
    "every joint": (14, (*HINGES, "prismatic", "planar", "floating"), 0.5),
    "followers": (10, HINGES, 0.2),
    "sliders that follow": (6, ("prismatic", "revolute"), 0.0),
    "tree of 60": (60, HINGES, 0.3),
    "tree of 200": (200, ("revolute", "prismatic"), 0.0),
    "chain of 120": (120, HINGES, 0.0),
}
FOLLOWING = {"followers", "sliders that follow"}  # Two of three joints follow an earlier one, in chains.


def urdf(kind: str, seed: int) -> str:
    """The text of a random robot of a kind."""
    rng = np.random.default_rng(seed)
    count, joints, fixed = KINDS[kind]
    links, text, single = 1, [_link(0, rng)], []
    for number in range(count + int(fixed * count)):
        moving = number % int(1 + fixed) == 0 if fixed >= 1 else rng.random() < 1 / (1 + fixed) or not single
        sort = str(rng.choice(joints)) if moving else "fixed"
        parent = links - 1 if "chain" in kind else int(rng.integers(max(0, links - 4), links))
        follows = kind in FOLLOWING and single and rng.random() < 0.67
        mimic = (
            f'<mimic joint="{single[-1]}" multiplier="{rng.uniform(0.3, 1.2):.3f}" offset="0.1"/>' if follows else ""
        )
        single += [f"joint{links}"] if sort in (*HINGES, "prismatic") else []
        x, y, z, roll, pitch, yaw = rng.uniform(-0.4, 0.4, 6)
        axis = rng.standard_normal(3) if rng.random() < 0.5 else np.eye(3)[rng.integers(3)]
        a, b, c = axis / np.linalg.norm(axis)
        text.append(
            f'<joint name="joint{links}" type="{sort}"><parent link="link{parent}"/><child link="link{links}"/>'
            f'<origin xyz="{x:.4f} {y:.4f} {z:.4f}" rpy="{roll:.4f} {pitch:.4f} {yaw:.4f}"/>'
            f'<axis xyz="{a:.6f} {b:.6f} {c:.6f}"/>{mimic}<limit lower="-3" upper="3" effort="9" velocity="9"/></joint>'
        )
        text.append(_link(links, rng))
        links += 1
    return "\n".join(['<?xml version="1.0"?>', '<robot name="random">', *text, "</robot>"])


def _link(number: int, rng: np.random.Generator) -> str:
    x, y, z = rng.uniform(-0.1, 0.1, 3)
    a, b, c = rng.uniform(0.01, 0.02, 3)
    return (
        f'<link name="link{number}"><inertial><origin xyz="{x:.4f} {y:.4f} {z:.4f}"/>'
        f'<mass value="{rng.uniform(0.5, 2):.3f}"/>'
        f'<inertia ixx="{a:.5f}" ixy="0.001" ixz="0" iyy="{b:.5f}" iyz="0" izz="{c:.5f}"/></inertial></link>'
    )


def random_files(seeds: int) -> dict[str, Path]:
    """Files of so many robots of each kind, by name."""
    folder = Path(tempfile.mkdtemp(prefix="kinetree-robots-"))
    found = {}
    for kind in KINDS:
        for seed in range(seeds):
            name = f"{kind}, {seed}"
            found[name] = folder / f"{name.replace(' ', '_')}.urdf"
            found[name].write_text(urdf(kind, seed))
    return found
