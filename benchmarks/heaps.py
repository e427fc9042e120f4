"""Steps with contact on one core beside MuJoCo C, worlds in batches: `python -m benchmarks.heaps [names or files]`.

Worlds differ: noise in the first velocities, controls uniform in a part of their ranges, and some steps before the
clock starts. Ours and MuJoCo's steps start from the same states and go in turns of milliseconds; medians of processor
time are printed, the ratio, and the largest difference of positions after one step to MuJoCo with tight tolerances.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np

import kinetree as kt
from kinetree.io import Mujoco

from .ground import middle_and_radius, robot_file, without_pairs_of_moving_bodies

WORLDS, BEFORE, STEPS, THEIRS = 128, 150, 8, 32  # worlds, steps before, steps of a turn, worlds of MuJoCo's
PUSH, SPEED = 0.3, 0.1  # of the ranges of controls; m/s and rad/s
EXACT = {"tolerance": 1e-15, "iterations": 300, "ls_tolerance": 1e-10, "ls_iterations": 300}
FLOOR = "_floor"  # ending of names of robots without contact between moving bodies
TIMES = "_x"  # before the number of robots, the ending of names of several of them, one above the other


def heap(shapes: list[str], count: int = 9) -> str:
    """Free bodies of some shapes, by turns, three in a layer above a floor."""
    noise = 0.01 * np.random.default_rng(0).standard_normal((count, 2))
    text = ""
    for k, (x, y) in enumerate(noise):
        place = f"{0.15 * (k % 3 - 1) + x} {y} {0.12 + 0.2 * (k // 3)}"
        text += f'<body pos="{place}"><freejoint/><geom mass="1" {shapes[k % len(shapes)]}/></body>'
    floor = '<geom type="plane" size="0 0 1"/>'
    return f'<mujoco><option timestep="0.004"/><worldbody>{floor}{text}</worldbody></mujoco>'


BALL, BOX = 'size="0.1"', 'type="box" size="0.08 0.08 0.08"'
CAPSULE = 'type="capsule" size="0.06 0.08"'
FINGER = '<joint name="{0}" type="slide" axis="{1} 0 0" damping="2" range="-0.02 0.08" limited="true"/>'
PAD = '<body pos="{2} 0 -0.1">' + FINGER + '<geom type="box" size="0.01 0.03 0.08" mass="0.1"/></body>'
GRIPPER = f"""<mujoco><worldbody><geom type="plane" size="0 0 1"/>
  <body pos="0 0 0.3"><joint name="z" type="slide" axis="0 0 1" damping="5"/>
    <geom type="box" size="0.1 0.02 0.02" mass="0.5" contype="0" conaffinity="0"/>
    {PAD.format("l", 1, -0.09)}{PAD.format("r", -1, 0.09)}</body>
  <body pos="0 0 0.16"><freejoint/><geom type="box" size="0.05 0.03 0.04" mass="0.2"/></body></worldbody>
  <actuator><position joint="z" kp="100"/><motor joint="l" ctrlrange="2 6" ctrllimited="true" gear="3"/>
    <motor joint="r" ctrlrange="2 6" ctrllimited="true" gear="3"/></actuator></mujoco>"""
SCENES = {
    "balls": heap([BALL]),
    "boxes": heap([BOX]),
    "mixed": heap([BALL, CAPSULE, BOX], 6),
    "gripper": GRIPPER,
}
ROBOTS = ("humanoid", "humanoid_floor", "ant", "half_cheetah", "walker2d", "hopper")


def pile(name: str, count: int) -> str:
    """Several robots of a kind."""
    path = str(robot_file(name))
    whole = mujoco.MjSpec.from_file(path)
    for k in range(1, count):
        place = whole.worldbody.add_frame(pos=[0.15 * (k % 2), 0.1 * (k % 3), 0.5 * k])
        place.attach_body(mujoco.MjSpec.from_file(path).worldbody.first_body(), f"{k}_", "")
    whole.compile()
    return whole.to_xml()


def loaded(name: str) -> tuple[kt.Model, Any]:
    """A scene, a robot, several of a kind, or a file, ours and MuJoCo's."""
    robot, _, count = name.rpartition(TIMES)
    if name in SCENES or count.isdigit():
        text = SCENES[name] if name in SCENES else pile(robot, int(count))
        return kt.load(text), mujoco.MjModel.from_xml_string(text)
    path = robot_file(name.removesuffix(FLOOR))
    model, m = kt.load(path), mujoco.MjModel.from_xml_path(str(path))
    if name.endswith(FLOOR):
        model = without_pairs_of_moving_bodies(model)
        moving = m.body_weldid[m.geom_bodyid] != 0
        touches = (m.geom_contype | m.geom_conaffinity) != 0
        m.geom_contype[:], m.geom_conaffinity[:] = moving & touches, ~moving & touches
    return model, m


def started(model: kt.Model) -> tuple[kt.State, Any]:
    """States of all worlds after the first steps, and controls."""
    rng = np.random.default_rng(0)
    try:
        one = model.keyframe(0)
    except IndexError:
        one = kt.initial_state(model)
    state = jax.tree.map(lambda x: np.array(np.broadcast_to(np.asarray(x, float), (WORLDS, *np.shape(x)))), one)
    state = state.replace(qd=state.qd + SPEED * rng.standard_normal(state.qd.shape))
    middle, radius = middle_and_radius(model)

    def drawn() -> Any:
        return middle + PUSH * radius * rng.uniform(-1, 1, (WORLDS, model.nu)) if model.nu else None

    for _ in range(BEFORE):
        state = kt.advance(model, state, drawn())
    return state, drawn()


class Theirs:
    """MuJoCo's steps from some of our states."""

    def __init__(self, model: kt.Model, m: Any, state: kt.State, ctrl: Any):
        to, every = Mujoco(model), slice(None, None, WORLDS // THEIRS)
        self.to, self.m, self.data = to, m, mujoco.MjData(m)
        q, qd, x = state.q[every], state.qd[every], state.warm_start[every]
        given = [to.q_there(q), to.v_there(q, qd), to.a_there(q, qd, x), state.act[every]]
        self.given = [*map(np.asarray, given), np.zeros((THEIRS, 0)) if ctrl is None else ctrl[every]]

    def steps(self, world: int, count: int) -> float:
        """Seconds of processor time of steps of one world."""
        mujoco.mj_resetData(self.m, self.data)
        d = self.data
        for place, x in zip((d.qpos, d.qvel, d.qacc_warmstart, d.act, d.ctrl), self.given, strict=True):
            place[:] = x[world]
        begin = time.process_time()
        mujoco.mj_step(self.m, d, nstep=count)
        return time.process_time() - begin

    def error(self, after: kt.State) -> float:
        """The largest difference of positions after one step."""
        old = {name: getattr(self.m.opt, name) for name in EXACT}
        for name, value in EXACT.items():
            setattr(self.m.opt, name, value)
        worst, there = 0.0, np.asarray(self.to.q_there(after.q[:: WORLDS // THEIRS]))
        for world in range(THEIRS):
            self.steps(world, 1)
            worst = max(worst, float(np.abs(there[world] - self.data.qpos).max()))
        for name, value in old.items():
            setattr(self.m.opt, name, value)
        return worst


def in_turns(rounds: int, *functions: Callable[[], float]) -> list[float]:
    """Medians of what functions return, called in turns."""
    every = [[f() for f in functions] for _ in range(rounds + 1)][1:]
    return np.median(every, 0).tolist()


def main() -> None:
    """Run, and print a line for each scene."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", default=[*SCENES, *ROBOTS], help=f"{', '.join([*SCENES, *ROBOTS])}, humanoid_x3, files"
    )
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    kt.set_threads(1)
    for name in options.names:
        model, m = loaded(name)
        state, ctrl = started(model)
        theirs = Theirs(model, m, state, ctrl)

        def ours(model: kt.Model = model, state: kt.State = state, ctrl: Any = ctrl) -> float:
            begin = time.process_time()
            for _ in range(STEPS):
                state = kt.advance(model, state, ctrl)
            return (time.process_time() - begin) / (STEPS * WORLDS) * 1e6

        def mujocos(theirs: Theirs = theirs) -> float:
            return sum(theirs.steps(k, STEPS) for k in range(THEIRS)) / (STEPS * THEIRS) * 1e6

        own, other = in_turns(options.rounds, ours, mujocos)
        error = theirs.error(kt.advance(model, state, ctrl))
        label = Path(name).name
        print(f"{label:20} {own:8.2f} µs, MuJoCo {other:8.2f}, {other / own:6.2f} times; {error:.0e} apart", flush=True)


if __name__ == "__main__":
    main()
