"""How kinetree and MuJoCo agree on the MJCF files of folders: `python -m benchmarks.conformance FOLDER --out FILE`.

Every file is loaded by both. MuJoCo goes through states under random controls, with a solver that goes on until
nothing improves, and at each of them accelerations, constraint forces, actuator forces, contacts, sensors, one step and
100 steps are compared; the last only from states where MuJoCo's own motion forgets a change of 1e-12. A line of JSON a
file: what kinetree refused, what it says it does not model, and the largest errors. With
`--load` files are only loaded; with `--step` only one step is compared, which compiles one program. Every file has a
process of its own and a limit of time. `--summary FILE` counts.
"""

import argparse
import json
import multiprocessing as mp
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import kinetree as kt
from kinetree.io import Mujoco, from_mujoco_model
from kinetree.io.load import load_with_report
from kinetree.io.report import Report

CLOSE = 1e-9  # relative, of accelerations and forces
STEP_CLOSE = 1e-10  # of one step
MANY, MANY_CLOSE = 100, 1e-7  # steps, and how close they stay
NUDGE, CHAOTIC = 1e-12, 1e-9  # motions that make more than this of such a change are not compared
FIELD_MARGIN = 1e-13  # m: without one MuJoCo 4.0's EPA stops too early for boxes and meshes over height fields
GRAZING = 1e-13  # m: whether such a contact pushes is a matter of rounding, and its state is left out


def files(folders: list[Path]) -> Iterator[Path]:
    """MJCF files: XML whose root is <mujoco>, and that is not a part of another."""
    for folder in folders:
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.xml")):
            head = path.read_text("utf-8", errors="replace")[:20000]
            if "<mujoco" in head and "<mujocoinclude" not in head:
                yield path


def exact(m: Any) -> Any:
    """MuJoCo's solver, going on until nothing improves."""
    m.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    m.opt.tolerance, m.opt.iterations = 1e-14, max(int(m.opt.iterations), 200)
    m.opt.ls_iterations, m.opt.ls_tolerance = 200, 1e-12
    m.opt.ccd_tolerance, m.opt.ccd_iterations = 1e-12, max(int(m.opt.ccd_iterations), 400)
    m.geom_margin[m.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD] += FIELD_MARGIN
    if m.opt.noslip_iterations:
        m.opt.noslip_iterations, m.opt.noslip_tolerance = 1000, -1.0
    return m


def look(path: Path, states: int, every: int, step_only: bool = False) -> dict[str, Any]:
    """What there is to say about a file."""
    said: dict[str, Any] = {}
    try:
        m = mujoco.MjModel.from_xml_path(str(path))
    except Exception as error:
        return {"mujoco": " ".join(str(error).split())}
    said |= {"nv": m.nv, "nu": m.nu, "ngeom": m.ngeom}
    start = time.perf_counter()
    try:
        model, report = load_with_report(path)
    except Exception as error:
        return said | {"refused": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    said |= {
        "load_s": round(time.perf_counter() - start, 2),
        "ignored": dict(report.ignored),
        "warned": report.warnings,
    }
    scene = None if model.world is None else model.world.scene
    said["pairs"] = 0 if scene is None else len(scene.layout.pairs)
    if not states or not m.nv:
        return said
    said["way"] = _ways(model)
    start = time.perf_counter()
    m = exact(m)
    model = from_mujoco_model(m, Report(path.name, "MJCF"))
    said |= compare(m, model, states, every, step_only)
    return said | {"compare_s": round(time.perf_counter() - start, 2)}


def _ways(model: kt.Model) -> str:
    from kinetree.constrain.choose import way_of

    return str(way_of(model))


def reached(m: Any, states: int, every: int, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """States of MuJoCo under random controls, what it made of them, and where its next step leads."""
    rng = np.random.default_rng(seed)
    d = mujoco.MjData(m)
    if m.nkey:
        mujoco.mj_resetDataKeyframe(m, d, 0)
    low, high = np.where(m.actuator_ctrllimited[:, None] != 0, m.actuator_ctrlrange, (-1.0, 1.0)).T
    found = []
    for step in range(states * every):
        d.ctrl[:] = rng.uniform(low, high)
        keep = step % every == every - 1
        if keep:
            mujoco.mj_forward(m, d)
            names = ("qpos", "qvel", "act", "ctrl", "qacc", "qfrc_constraint", "qfrc_actuator")
            kept = {name: np.array(getattr(d, name)) for name in names}
            kept |= {"sensors": np.array(d.sensordata), "time": np.array(d.time), "far": far_ahead(m, d)}
            c = d.contact
            kept |= {"pos": np.array(c.pos), "normal": np.array(c.frame)[:, :3], "dist": np.array(c.dist)}
            grazing = bool((np.abs(c.dist - c.includemargin) < GRAZING).any()) if d.ncon else False
        mujoco.mj_step(m, d)
        if any(w.number for w in d.warning) or not np.isfinite(d.qpos).all():
            break
        if keep and not grazing:
            kept |= {"next_qpos": np.array(d.qpos), "next_qvel": np.array(d.qvel), "next_act": np.array(d.act)}
            found.append(kept)
    return found


def far_ahead(m: Any, d: Any) -> np.ndarray:
    """qpos and qvel after many steps with the same controls; NaN where a small change grows."""
    ends = []
    for nudge in (0.0, NUDGE):
        e = mujoco.MjData(m)
        for name in ("qpos", "qvel", "act", "ctrl", "qacc_warmstart", "mocap_pos", "mocap_quat"):
            getattr(e, name)[:] = getattr(d, name)
        e.time = d.time
        e.qvel += nudge
        mujoco.mj_step(m, e, MANY)
        ends.append(np.concatenate([e.qpos, e.qvel]))
    return ends[0] if np.abs(ends[1] - ends[0]).max(initial=0.0) < CHAOTIC else np.full(m.nq + m.nv, np.nan)


def relative(found: Any, wanted: np.ndarray) -> float:
    """The largest error of a state over its largest number, or 1. NaN counts as infinite."""
    if not wanted.size:
        return 0.0
    wrong = np.abs(found - wanted).max(-1) / np.maximum(np.abs(wanted).max(-1), 1)
    return float(np.nan_to_num(wrong, nan=np.inf).max())


def compare(m: Any, model: kt.Model, states: int, every: int, step_only: bool = False) -> dict[str, Any]:
    """Largest errors over the states, relative but for contacts (metres)."""
    s = reached(m, states, every)
    if not s:
        return {"mujoco_states": 0}
    at = {name: np.stack([x[name] for x in s]) for name in s[0] if name not in ("pos", "normal", "dist")}
    there = Mujoco(model)
    q = there.q_here(at["qpos"])
    qd = there.v_here(q, at["qvel"])
    act = at["act"] if m.na else None
    state = kt.initial_state(model, q, qd)
    state = state.replace(act=act) if m.na else state
    said: dict[str, Any] = {"mujoco_states": len(s), "contacts": float(np.mean([len(x["dist"]) for x in s]))}
    said["step"] = _step(m, model, state, at)
    if step_only:
        return said
    driven = kt.actuator_force(model, q, qd, at["ctrl"], act) if model.nu else np.zeros_like(qd)
    tau = there.force_here(q, at["qfrc_actuator"])
    found = kt.constrained_dynamics(model, q, qd, tau)
    qdd, forces = there.a_here(q, qd, at["qacc"]), there.force_here(q, at["qfrc_constraint"])
    c = found.contacts
    said |= {
        "unconverged": int((~np.asarray(found.converged)).sum()),
        "iterations": int(np.max(found.iterations)),
        "actuator": relative(driven, tau),
        "qacc": relative(found.qdd, qdd),
        "force": relative(found.tau_constraint, forces),
        "points": 0.0,
        "count_differs": 0,
    }
    for k, x in enumerate(s):
        near = np.isfinite(c.depth[k])
        said["count_differs"] += int(near.sum() != len(x["dist"]))
        if near.any() and len(x["dist"]):
            ours = np.concatenate([c.position[k][near], c.frame[k][near][:, 0], -c.depth[k][near][:, None]], -1)
            theirs = np.concatenate([x["pos"], x["normal"], x["dist"][:, None]], -1)
            apart = np.abs(ours[:, None] - theirs[None]).max(-1)
            said["points"] = max(said["points"], float(apart.min(0).max()))
        elif len(x["dist"]):
            said["points"] = np.inf
    if model.sensors:
        said["sensors"] = _sensors(m, kt.sensors(model, state.replace(time=at["time"]), at["ctrl"]), at["sensors"])
    calm = np.isfinite(at["far"]).all(-1)
    said["calm"] = int(calm.sum())
    if calm.any():
        end = kt.advance(model, state, at["ctrl"] if model.nu else None, substeps=MANY)
        q, qd = np.split(at["far"][calm], [m.nq], axis=-1)
        q = there.q_here(q)
        said["many"] = max(
            relative(np.asarray(end.q)[calm], q), relative(np.asarray(end.qd)[calm], there.v_here(q, qd))
        )
    return said


def _step(m: Any, model: kt.Model, state: kt.State, at: dict[str, np.ndarray]) -> float:
    """The error of one step."""
    there = Mujoco(model)
    after = kt.advance(model, state, at["ctrl"] if model.nu else None)
    q = there.q_here(at["next_qpos"])
    return max(
        relative(np.asarray(after.q), q),
        relative(np.asarray(after.qd), there.v_here(q, at["next_qvel"])),
        relative(np.asarray(after.act), at["next_act"]) if m.na else 0.0,
    )


def _sensors(m: Any, found: dict[str, Any], wanted: np.ndarray) -> dict[str, float]:
    """The largest error of each kind."""
    worst: dict[str, float] = {}
    for i in range(m.nsensor):
        name = m.sensor(i).name or f"sensor_{i}"
        if name not in found:
            continue
        first, count = m.sensor_adr[i], m.sensor_dim[i]
        kind = mujoco.mjtSensor(int(m.sensor_type[i])).name.removeprefix("mjSENS_").lower()
        theirs, ours = wanted[:, first : first + count], np.asarray(found[name])
        wrong = relative(ours, theirs)
        if kind in ("framequat", "ballquat"):
            wrong = max(min(relative(a, b), relative(-a, b)) for a, b in zip(ours, theirs, strict=True))
        worst[kind] = max(worst.get(kind, 0.0), wrong)
    return worst


def _child(path: Path, states: int, every: int, step_only: bool, pipe: Any) -> None:
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        pipe.send(look(path, states, every, step_only))
    except Exception as error:
        pipe.send({"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"})


def in_process(path: Path, states: int, every: int, limit: float, step_only: bool = False) -> dict[str, Any]:
    """`look` in a process that may die, or take too long."""
    context = mp.get_context("forkserver")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(path, states, every, step_only, there))
    child.start()
    there.close()
    try:
        if not here.poll(limit):
            return {"failed": f"took more than {limit:g} s"}
        return here.recv()
    except EOFError:
        return {"failed": "the process died"}
    finally:
        child.kill()
        child.join()


def summary(lines: list[dict[str, Any]]) -> None:
    """Counts, and the files that are not as they should be."""
    counts: Counter[str] = Counter()
    ignored: Counter[str] = Counter()
    for x in lines:
        status = verdict(x)
        counts[status.partition(":")[0]] += 1
        ignored.update(set(x.get("ignored", ())))
        if status not in ("agrees", "MuJoCo can not compile it"):
            print(f"{x['file']}: {status}")
    print(dict(counts))
    for what, n in ignored.most_common():
        print(f"{n:5d} files: {what}")


def verdict(x: dict[str, Any]) -> str:
    """In words: agrees, or what is wrong."""
    if "mujoco" in x:
        return "MuJoCo can not compile it"
    for key in ("refused", "failed"):
        if key in x:
            return f"{key}: {x[key]}"
    if x.get("ignored"):
        return f"not modelled: {x['ignored']}" + (f" step {x['step']:.1e}" if "step" in x else "")
    if "step" not in x:
        return "loads"
    bad = {k: x[k] for k in ("actuator", "qacc", "force", "points") if not x.get(k, 0.0) <= CLOSE}
    bad |= {"step": x["step"]} if not x["step"] <= STEP_CLOSE else {}
    bad |= {"many": x["many"]} if not x.get("many", 0.0) <= MANY_CLOSE else {}
    bad |= {f"sensor {k}": v for k, v in x.get("sensors", {}).items() if not v <= CLOSE}
    bad |= {k: x[k] for k in ("unconverged", "count_differs") if x.get(k)}
    return f"differs: { ({k: float(f'{v:.1e}') for k, v in bad.items()}) }" if bad else "agrees"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--load", action="store_true", help="load only")
    parser.add_argument("--step", action="store_true", help="compare one step only")
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--every", type=int, default=15, help="steps between states")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a file")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path, help="a file that --out wrote: count, and run nothing")
    options = parser.parse_args()
    if options.summary:
        last = {x["file"]: x for x in map(json.loads, options.summary.read_text().splitlines())}
        summary(list(last.values()))
        return
    mp.get_context("forkserver").set_forkserver_preload(["kinetree", "mujoco"])
    lines = []
    for path in files(options.folders):
        found = in_process(path, 0 if options.load else options.states, options.every, options.limit, options.step)
        lines.append({"file": "/".join(path.parts[-3:]), **found})
        if options.out:
            with options.out.open("a") as out:
                out.write(json.dumps(lines[-1]) + "\n")
    summary(lines)


if __name__ == "__main__":
    main()
