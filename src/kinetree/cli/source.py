"""The arguments MODEL and TRAJECTORY of a command line."""

import math
import sys
from pathlib import Path

import numpy as np

import kinetree as kt
from kinetree.io import Report
from kinetree.io import load_with_report as load_file


def load_with_report(word: str, floating_base: bool, ground: bool = False) -> tuple[kt.Model, Report]:
    """A robot file, or a generated tree: chain:N, tree:N."""
    kind, colon, size = word.partition(":")
    if kind not in ("chain", "tree") or not colon or Path(word).exists():
        return load_file(Path(word), floating_base=floating_base, ground=ground)
    if not size.isdecimal() or int(size) == 0:
        raise ValueError(f"{word}: write {kind}:N for a generated {kind} of N bodies, with N at least 1")
    if floating_base or ground:
        raise ValueError(f"{word}: {'--floating-base' if floating_base else '--ground'} is for robot files")
    model = kt.auto_tree(int(size), branching=1 if kind == "chain" else 2, skew=np.pi / 2)
    return model, Report("", "generated", word)


def load(word: str, floating_base: bool, simulated: bool = False, ground: bool = False) -> kt.Model:
    """The model. Warnings about its file go to stderr, one line each.

    Arguments:
        word: the argument of the command line.
        floating_base, ground: as in `kinetree.load`.
        simulated: also warn about parts that are not modelled, as they change the motion. `kinetree info` always warns.
    """
    model, report = load_with_report(word, floating_base, ground)
    lost = [report.not_modelled] if simulated and report.not_modelled else []
    for warning in (*report.warnings, *lost):
        print(f"warning: {warning}", file=sys.stderr)
    return model


def load_run(path: Path, model: kt.Model | None = None) -> kt.Trajectory:
    """A trajectory, checked against the model if one is given."""
    run = kt.Trajectory.load(path)
    if not len(run):
        raise ValueError(f"{path} holds no states")
    if model is not None:
        require_same_robot(path, model, run.q, run.qd)
    return run


def require_same_robot(path: Path, model: kt.Model, q: np.ndarray, qd: np.ndarray) -> None:
    """Refuse states of a trajectory that are not of the model."""
    there = tuple(np.shape(x)[-1] if np.ndim(x) else 0 for x in (q, qd))
    if there != (model.nq, model.nv):
        raise ValueError(
            f"{path} has {there[0]} coordinates and {there[1]} velocities, the model has {model.nq} and {model.nv}: "
            "they are different robots, or one was made with --floating-base and the other without"
        )


def require_positive(option: str, value: float) -> None:
    """Refuse a number of the command line that must be positive."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"--{option} must be positive and finite, not {value:g}")
