"""Which schedule `auto` takes."""

import jax

from kinetree.lanes import native_enabled
from kinetree.tree import Tree

SCHEDULES = ("sequential", "lanes", "levels", "paths", "euler")
IN_ORDER = ("sequential", "lanes")  # rows one after the other, states side by side: by XLA, or by the native body


def choose_schedule(tree: Tree, batch: int) -> str:
    """The schedule for one tree and a batch of states; benchmarks/NOTES.md has the measurements behind the numbers.

    On a CPU the native lanes are the fastest at every size: a row costs them less than XLA's share of a step over many
    rows. Elsewhere they win as soon as the batch fills them, and for trees so small that a step costs more than a row;
    otherwise levels win where a level is wide enough to be worth a step, and paths where the tree is deep.
    """
    on_cpu = jax.default_backend() == "cpu"
    if (on_cpu and native_enabled()) or tree.n <= 64 or batch >= 64:
        return "lanes"
    wide = 32 if on_cpu else 1024
    return "levels" if tree.n >= wide * tree.height else "paths"


def resolve_schedule(schedule: str, tree: Tree, batch: int) -> str:
    """Check a schedule's name, and settle `auto`."""
    if schedule == "auto":
        return choose_schedule(tree, batch)
    if schedule not in SCHEDULES:
        raise ValueError(f"unknown schedule {schedule!r}: choose from auto, {', '.join(SCHEDULES)}")
    return schedule


def layout_schedule(tree: Tree) -> str:
    """The schedule for passes that have no lane program: walked over the tree, whatever the batch."""
    return "levels" if tree.n >= 32 * tree.height or tree.n <= 64 else "paths"
