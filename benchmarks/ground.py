"""Steps of robots on the ground, as mujoco_warp's testspeed makes them: `python -m benchmarks.ground`.

All worlds start from keyframe 0 (or where the file puts its bodies). Controls are noise around the middle of their
ranges that follows an Ornstein-Uhlenbeck process, 0.01 of the range at a rate of 0.1 s; `--harsh` draws them anew in
every step, uniform in their ranges. Contact between moving bodies is off unless `--all-pairs`. A few states are
compared with XLA's reference, and on a CPU the time of MuJoCo is printed beside.
"""

import argparse
import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt
from kinetree.simulate.native import way_of_step

from .real import Writer

NOISE, RATE = 0.01, 0.1  # of the range; seconds
CHECKED = 8  # states that are compared


def robot_file(name: str) -> Path:
    """A path, or the file of a robot: mujoco_warp's humanoid if its wheel is there, else one of gymnasium's."""
    if Path(name).exists():
        return Path(name)
    try:
        import mujoco_warp

        found = sorted(Path(mujoco_warp.__file__).parent.rglob(f"{name}.xml"))
    except ImportError:
        found = []
    if found:
        return next((p for p in found if "benchmark" in str(p)), found[0])
    import gymnasium

    return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml"


def without_pairs_of_moving_bodies(model: kt.Model) -> kt.Model:
    """The model without contact between moving bodies."""
    world = model.world
    if world is None or world.scene is None:
        return model
    layout = world.scene.layout
    kept = tuple(p for p in layout.pairs if p.moving in (0, 1))
    scene = dataclasses.replace(world.scene, layout=layout._replace(pairs=kept))
    return model.replace(world=world.replace(scene=scene))


def middle_and_radius(model: kt.Model) -> tuple[Any, Any]:
    """Of the ranges of controls; 0 and 1 where there are none."""
    if model.actuators is None:
        return np.zeros(0), np.zeros(0)
    lower, upper = np.asarray(model.actuators.ctrl_range).T
    bounded = np.isfinite(lower) & np.isfinite(upper)
    low, high = np.where(bounded, lower, -1.0), np.where(bounded, upper, 1.0)
    return (low + high) / 2, (high - low) / 2


def run_of(model: kt.Model, steps: int, harsh: bool) -> Any:
    """A compiled function of a state, controls and a key: the state some steps later, and the controls."""
    middle, radius = middle_and_radius(model)
    keep = float(np.exp(-float(model.timestep) / RATE))

    def one(carry: tuple, key: Any) -> tuple:
        state, ctrl = carry
        if harsh:
            ctrl = jnp.asarray(middle, ctrl.dtype) + radius.astype(ctrl.dtype) * jax.random.uniform(
                key, ctrl.shape, ctrl.dtype, -1.0, 1.0
            )
        else:
            noise = jax.random.normal(key, ctrl.shape, ctrl.dtype)
            spread = (NOISE * np.sqrt(1 - keep * keep) * radius).astype(ctrl.dtype)
            ctrl = keep * ctrl + ((1 - keep) * middle).astype(ctrl.dtype) + spread * noise
        return (kt.advance(model, state, ctrl), ctrl), None

    def run(state: kt.State, ctrl: Any, key: Any) -> tuple:
        return jax.lax.scan(one, (state, ctrl), jax.random.split(key, steps))[0]

    return jax.jit(run)


def start(model: kt.Model, worlds: int, dtype: Any) -> tuple[kt.State, Any]:
    """All worlds in keyframe 0, and controls in the middle of their ranges."""
    try:
        state = model.keyframe(0)
    except IndexError:
        state = kt.initial_state(model)
    wide = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x, dtype), (worlds, *np.shape(x))), state)
    return wide, jnp.broadcast_to(jnp.asarray(middle_and_radius(model)[0], dtype), (worlds, model.nu))


def check(model: kt.Model, state: kt.State, ctrl: Any) -> None:
    """Print iterations, contacts, and how far a step in float64 is from XLA's reference."""
    some = jax.tree.map(lambda x: np.asarray(x[:CHECKED], np.float64), state)
    some = some.replace(warm_start=np.zeros_like(some.qd))
    own = np.asarray(ctrl[:CHECKED], np.float64)
    found = kt.constrained_dynamics(model, some.q, some.qd, ctrl=own, act=some.act)
    native = kt.advance(model, some, own)
    os.environ["KINETREE_NATIVE"] = "0"
    reference = kt.advance(model.replace(gravity=model.gravity), some, own)  # a copy, which has no native program yet
    del os.environ["KINETREE_NATIVE"]
    error = max(float(np.abs(getattr(native, n) - getattr(reference, n)).max()) for n in ("q", "qd"))
    counts = f"{found.iterations.mean():.2f} iterations from rest, {found.contacts.active.sum(-1).mean():.1f} contacts"
    print(f"  {CHECKED} states: {counts}, a step is {error:.1e} from XLA's reference", flush=True)


def mujoco_speed(path: Path, steps: int, all_pairs: bool) -> float:
    """Steps a second of MuJoCo on one core."""
    import mujoco

    m = mujoco.MjModel.from_xml_path(str(path))
    if not all_pairs:  # no contact between moving bodies
        moving = m.body_weldid[m.geom_bodyid] != 0
        touches = (m.geom_contype | m.geom_conaffinity) != 0
        m.geom_contype[:], m.geom_conaffinity[:] = moving & touches, ~moving & touches
    d = mujoco.MjData(m)
    if m.nkey:
        mujoco.mj_resetDataKeyframe(m, d, 0)
    begin = time.perf_counter()
    mujoco.mj_step(m, d, nstep=steps)
    return steps / (time.perf_counter() - begin)


def main() -> None:
    """Run, and print one line for each number of worlds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="humanoid", help="name or path of an MJCF file")
    parser.add_argument("--worlds", type=int, nargs="+", default=[8192, 65536])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--harsh", action="store_true", help="controls uniform in their ranges, new in every step")
    parser.add_argument("--all-pairs", action="store_true", help="with contact between moving bodies")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--out", type=Path, help="file of JSON lines to add to")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.dtype == "float64")
    path = robot_file(options.robot)
    model = kt.load(path)
    model = model if options.all_pairs else without_pairs_of_moving_bodies(model)
    integrator = model.stepping.integrator if model.stepping is not None else "Euler"
    print(f"{path.name}: {integrator}, {way_of_step(model, integrator)}, on {jax.devices()[0].device_kind}", flush=True)
    theirs = None
    if jax.default_backend() == "cpu":
        theirs = mujoco_speed(path, 1000, options.all_pairs)
        print(f"  MuJoCo, one core: {theirs / 1e6:.4f} M steps/s", flush=True)
    write = Writer(options.out, "ground")
    for worlds in options.worlds:
        state, ctrl = start(model, worlds, np.dtype(options.dtype))
        run, key = run_of(model, options.steps, options.harsh), jax.random.key(0)
        begin = time.perf_counter()
        jax.block_until_ready(run(state, ctrl, key))
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        after, last = jax.block_until_ready(run(state, ctrl, key))
        seconds = time.perf_counter() - begin
        finite = bool(np.isfinite(np.asarray(after.q)).all())
        speed = worlds * options.steps / seconds
        write(
            robot=path.stem,
            worlds=worlds,
            dtype=options.dtype,
            pairs="all pairs" if options.all_pairs else "floor only",
            controls="harsh" if options.harsh else "noisy",
            steps_per_second=speed,
            first_run_s=first,
            mujoco=theirs,
        )
        print(f"  {worlds} worlds: {speed / 1e6:.2f} M steps/s, first run {first:.1f} s, finite: {finite}", flush=True)
        if not options.no_check:
            check(model, after, last)


if __name__ == "__main__":
    main()
