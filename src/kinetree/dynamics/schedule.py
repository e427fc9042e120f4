"""Which schedule `auto` takes."""

import jax

from kinetree._unknown import unknown
from kinetree.lanes import native_enabled
from kinetree.tree import Tree

SCHEDULES = ("sequential", "lanes", "levels", "paths", "euler")
IN_ORDER = ("sequential", "lanes")  # rows one after the other, states side by side: by XLA, or by the native body
FEW_ROWS = 1000  # of which a GPU walks a few states about as fast in order as by paths
FEWER_ROWS = 200  # of which it walks a single state as fast in order as by native walks
HUGE = 20_000  # rows from which the cores of a CPU share a tree, where there is a way to do so (rnea_blocks.py)


def choose_schedule(tree: Tree, batch: int) -> str:
    """The schedule for one tree and a batch of states; benchmarks/NOTES.md has the measurements behind the numbers.

    On a CPU the native lanes are the fastest at every size: a row costs them less than XLA's share of a step over many
    rows. Elsewhere they win while the rows are few or the batch fills them; a large tree is walked by paths, which are
    levels where the tree is bushy.
    """
    native_cpu = native_enabled() and jax.default_backend() == "cpu"
    few = FEWER_ROWS if batch == 1 and native_enabled() else FEW_ROWS
    return "lanes" if native_cpu or tree.n <= few or batch >= tree.n else "paths"


def resolve_schedule(schedule: str, tree: Tree, batch: int) -> str:
    """Check a schedule's name, and settle `auto`."""
    if schedule == "auto":
        return choose_schedule(tree, batch)
    if schedule not in SCHEDULES:
        raise ValueError(unknown("schedule", schedule, ("auto", *SCHEDULES)))
    return schedule
