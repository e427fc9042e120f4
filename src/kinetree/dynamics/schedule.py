"""Which schedule `auto` takes."""

import jax

from kinetree.tree import Tree

SCHEDULES = ("sequential", "levels", "paths", "euler")


def choose_schedule(tree: Tree, batch: int) -> str:
    """The schedule for one tree and a batch of states; benchmarks/NOTES.md has the measurements behind the numbers.

    Lanes (sequential) win as soon as the batch fills them, and for trees so small that a step costs more than a row.
    Otherwise levels win where a level is wide enough to be worth a step, and paths where the tree is deep.
    """
    if tree.n <= 64 or batch >= 64:
        return "sequential"
    wide = 32 if jax.default_backend() == "cpu" else 1024
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
    chosen = choose_schedule(tree, 1)
    return "levels" if chosen == "sequential" else chosen
