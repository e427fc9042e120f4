"""The choice of a way: functions from the facts of a call to a `Choice`, with its reason.

Every public function runs exactly what `choose` returns, and `explain` prints it. The measurements behind the
thresholds are in benchmarks/NOTES.md, under the names given here. `recorded` lists the ways that calls really took.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax.core import Tracer

from kinetree._unknown import require_word
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.target import Facts, facts
from kinetree.model import Model
from kinetree.model.arguments import is_known
from kinetree.tree import Tree

from . import tuning
from .lane_rows import Traits, kind_of
from .staged import staged

SCHEDULES = ("sequential", "lanes", "levels", "paths", "euler")  # names that a user may choose
IN_ORDER = ("sequential", "lanes")  # rows one after the other, states side by side: by XLA, or by native code


class Call(NamedTuple):
    """The facts of a call that decide its way."""

    model: Model
    batch: int
    arrays: str  # "numpy"; "jax" for JAX arrays with values; "traced" inside `jit` and the like.
    dtype: np.dtype
    external: bool = False  # True if forces act on bodies.
    device: Facts = Facts("")

    @property
    def rows(self) -> int:
        """Degrees of freedom of the free model."""
        return self.model.tree.n

    @property
    def kind(self) -> Traits:
        """The kind of mechanism."""
        return kind_of(self.model)

    @property
    def known(self) -> bool:
        """True if the model's numbers are known, and plain."""
        return is_known(self.model)

    @property
    def native_cpu(self) -> bool:
        """True if native code computes NumPy arrays without a copy."""
        return self.device.native and self.device.serves_numpy


def call_of(model: Model, arrays: Sequence[Any], f_ext: Any = None) -> Call:
    """The facts of a call on (batch, ·) arrays."""
    plain, traced = (any(isinstance(x, kind) for x in arrays) for kind in (jax.Array, Tracer))
    kind = "traced" if traced else "jax" if plain else "numpy"
    first = arrays[0]
    return Call(model, first.shape[0], kind, np.dtype(first.dtype), f_ext is not None, facts())


@dataclass(frozen=True)
class Choice:
    """The way of a call, and why."""

    schedule: str  # One of SCHEDULES.
    way: str  # "lanes", "stages" (native walks), "blocks", "layout" (XLA), "euler tour"
    body: str  # "native" or "xla"
    program: str  # Of lanes: "shared", "woven", "written out" for the model, "written out for the structure".
    reason: str
    again: bool = False  # True if the last pass computes placements again, because a GPU's threads have little memory.

    def __str__(self) -> str:
        program = f", {self.program} program" if self.program else ""
        return f"{self.schedule} ({self.way}, {self.body}{program}): {self.reason}"


def check_schedule(schedule: str) -> None:
    """Refuse an unknown name."""
    require_word("schedule", schedule, ("auto", *SCHEDULES))


def choose(call: Call, asked: str = "auto", blocks: Callable[[Call], bool] | None = None, walks: bool = True) -> Choice:
    """The way of a call.

    Arguments:
        call: its facts.
        asked: the schedule that the user gave. blocks: a function: True if the algorithm can run in blocks. It is
        called only if blocks would be the best way. walks: True if native walks can run the algorithm.
    """
    check_schedule(asked)
    if asked in ("auto", "paths") and blocks and _fills_blocks(call) and blocks(call):
        return Choice("paths", "blocks", "native", "", f"{call.rows} rows in blocks that fit a core's cache")
    schedule, reason = (asked, "asked for") if asked != "auto" else _auto(call)
    if schedule == "sequential":
        return Choice(schedule, "lanes", "xla", "shared", reason)
    if schedule == "lanes":
        again = call.device.weaves and call.arrays != "numpy" and call.rows > tuning.WRITTEN_OUT_MAX_ROWS
        return Choice(schedule, "lanes", call.device.body, lane_program_kind(call), reason, again)
    if schedule == "euler":
        return Choice(schedule, "euler tour", "xla", "", reason)
    one_by_one = call.batch == 1 or call.rows >= tuning.STAGES_MIN_ROWS_OF_BATCH
    if schedule == "paths" and walks and one_by_one and staged(call.model.tree) is not None:
        return Choice(schedule, "stages", "native", "", reason)
    return Choice(schedule, "layout", "xla", "", reason)


def _auto(call: Call) -> tuple[str, str]:
    """On a CPU native lanes are the fastest at every size: a row costs less there than in a step of XLA over many rows.
    On other devices they are the fastest if rows are few or the batch fills the lanes. Other large trees are walked by
    paths, which are the same as levels if the tree is bushy.
    """
    tree = call.model.tree
    single = call.batch == 1 and call.device.native
    few = tuning.GPU_IN_ORDER_MAX_ROWS_SINGLE if single else tuning.GPU_IN_ORDER_MAX_ROWS
    if call.batch >= tuning.MANY_STATES or call.batch >= tree.n:
        full = f"{call.batch} states fill the lanes, and every lane walks the rows in order"
        if call.native_cpu or tree.n <= few or call.batch >= tree.n:
            return "lanes", full
    if call.native_cpu or tree.n <= few:
        return "lanes", f"{tree.n} rows in one compiled loop cost less than passes over the whole tree"
    return "paths", f"{tree.n} rows in {tree.height} levels: long paths are cut up and scanned, the rest goes by levels"


def _fills_blocks(call: Call) -> bool:
    large = call.rows >= tuning.BLOCKS_MIN_ROWS and call.batch > 0 and call.native_cpu
    return large and call.known  # `known` comes last, because it checks all arrays of the model


def choose_mass_matrix(call: Call, asked: str = "auto", packed: bool = False) -> Choice:
    """The way of the mass matrix: its pairs are walked in lanes, or factors of all rows are multiplied."""
    check_schedule(asked)
    tree = call.model.tree
    schedule, reason = (asked, "asked for") if asked != "auto" else _auto_mass_matrix(call, packed)
    if schedule in IN_ORDER:
        sparse = call.batch == 1 and tuning.ZERO_FILL_RATIO * tree.n_ancestor_pairs < tree.n**2
        body = "native" if schedule == "lanes" and call.device.native else "xla"
        return Choice(schedule, "lanes", body, "pairs" if packed or sparse else "entries", reason)
    if schedule == "paths" and not packed and call.batch == 1 and staged(tree) is not None:
        return Choice(schedule, "stages", "native", "", reason)
    return Choice(schedule, "layout", "xla", "", reason)


def _auto_mass_matrix(call: Call, packed: bool) -> tuple[str, str]:
    tree = call.model.tree
    pairs, sharing = tree.n_ancestor_pairs, min(call.batch, tuning.PAIRS_SHARING_STATES)
    large = tree.n**2 * call.dtype.itemsize >= tuning.LARGE_PAGES_MIN_BYTES
    if call.native_cpu and not packed and call.arrays != "numpy" and large and call.batch == 1 and staged(tree):
        return "paths", f"XLA would fill {tree.n}² entries page by page"
    if tree.n <= tuning.PAIRS_MAX_ROWS or (call.native_cpu and pairs <= tuning.PAIRS_MAX_COUNT * sharing):
        return "lanes", f"{pairs} pairs of rows are walked in one compiled loop"
    return "paths", f"{pairs} pairs of rows are products of factors"


def walks_all_entries(tree: Tree) -> bool:
    """True if for one state's dense mass matrix it is best to walk all entries, with zeros, in one direct call."""
    pairs, entries = tree.n_ancestor_pairs, tree.n**2 // tuning.ZERO_RUN
    few = pairs <= tuning.PAIRS_MAX_COUNT and entries <= tuning.ZERO_FILL_RATIO * pairs
    return few or tree.n <= tuning.PAIRS_MAX_ROWS


def choose_factorization(tree: Tree, batch: int, triples: int) -> Choice:
    """The way of LᵀDL, by the number of triples (row, ancestor, its ancestor) that elimination touches."""
    device = facts()
    if tree.n <= tuning.DENSE_LANES_MAX_ROWS and device.native and device.serves_numpy:
        return Choice("lanes", "lanes", device.body, "shared", f"{triples} triples are eliminated in one compiled loop")
    few = tree.height >= tuning.FACTORS_DENSE_MIN_DEPTH or tree.n**3 < 6 * tuning.FACTORS_MIN_SPARSITY * triples
    if tree.n <= tuning.DENSE_MAX_ROWS and few:
        return Choice("dense", "dense", "xla", "", f"{tree.height} levels leave few zeros: a dense Cholesky")
    if triples <= tuning.FACTORS_MAX_TURNS and fills_lanes(batch):
        return Choice("lanes", "lanes", device.body, "shared", f"{batch} states side by side, triple by triple")
    return Choice("levels", "layout", "xla", "", "all rows of a level at once")


def choose_coupled(call: Call, together: bool) -> Choice:
    """The way of forward dynamics with mimic joints; `together`: rows that share a coordinate hang together."""
    if not call.known or call.rows == 0:
        return Choice("dense", "dense", "xla", "", "numbers of the model are traced: its mass matrix is solved densely")
    if not together and call.rows > tuning.REDUCED_MAX_ROWS:
        return Choice("dense", "dense", "xla", "", f"{call.rows} rows have no lane program: H is solved densely")
    reason = "hang together, and are taken as one" if together else "are far apart: their mass matrix is solved"
    return Choice(
        "lanes", "lanes", call.device.body, lane_program_kind(call), f"joints that follow one another {reason}"
    )


def choose_derivatives(call: Call, solve_turns: int = 0) -> Choice:
    """The way of derivatives as matrices; `solve_turns`: turns of a lane to solve for derivatives of accelerations.

    Robots with few rows use closed forms, one column after the other in a lane. The lanes of a GPU have too little
    memory to solve with H.
    """
    if not 0 < call.rows <= tuning.CLOSED_FORM_MAX_ROWS:
        return Choice("directions", "directions", "xla", "", f"{call.rows} rows: one direction after the other")
    if solve_turns > tuning.SOLVE_MAX_TURNS or (solve_turns and call.device.weaves):
        return Choice(
            "lanes", "products", call.device.body, lane_program_kind(call), "columns in lanes, then products with H⁻¹"
        )
    return Choice("lanes", "lanes", call.device.body, lane_program_kind(call), "all columns in closed form, in one run")


def fills_lanes(batch: int) -> bool:
    """True if states side by side are worth it: always with native code on a CPU, else from a batch on."""
    device = facts()
    return (device.native and device.serves_numpy) or batch >= tuning.MANY_STATES


_unasked: OncePerOwner[bool] = OncePerOwner()
_robots = count()


def _among_first(owner: Any) -> bool:
    """True for the first small robots of a process only, because XLA never frees a program written out for one."""
    return _unasked.get(owner, None, lambda: next(_robots) < tuning.WRITTEN_OUT_MAX_ROBOTS)


def may_write_out(program: Any, rows: int, steps: int) -> bool:
    """True if steps are worth a program written out for one robot; `steps` counts those of all lanes."""
    device = facts()
    small = rows <= device.written_out_step_rows
    return small and steps >= device.written_out_min_states and _among_first(program)


def may_sequence(model: Model, known: bool) -> bool:
    """True if programs whose lanes branch differently are written out for one robot, for any batch.

    `known`: with the numbers of the model, not only for its structure.
    """
    free = int(model.structure.quaternion_joints[:, 2].sum())
    small = model.tree.n - 4 * free <= facts().sequence_rows  # the six rows of a free body count as two
    return model.specialized or (small and _among_first(model if known else model.structure))


def lane_program_kind(call: Call, about: bool = False) -> str:
    """The kind of program that lanes run; `about`: the call is about one of many bodies.

    Inside `jit`, small robots in large batches get their own programs by default: they are 1.5 to 6 times as fast, and
    take up to a second to compile. On a GPU a shared program is woven, because lanes wait for memory.
    """
    few = call.rows <= tuning.WRITTEN_OUT_MAX_ROWS and call.arrays != "numpy"
    many = call.batch >= call.device.written_out_min_states
    if about:
        return "woven" if call.device.weaves else "shared"
    if call.model.specialized or (few and many and call.known and _among_first(call.model)):
        return "written out"
    if call.device.weaves:
        return "written out for the structure" if few and many else "woven"
    return "shared"


class Decision(Protocol):
    """A choice: a `Choice`, or the `Way` of constraints and steps."""

    @property
    def body(self) -> str: ...

    @property
    def reason(self) -> str: ...


_log: ContextVar[list[tuple[str, Decision]] | None] = ContextVar("ways taken", default=None)


def note(algorithm: str, choice: Decision) -> None:
    """Record that an algorithm goes this way."""
    log = _log.get()
    if log is not None:
        log.append((algorithm, choice))


@contextmanager
def recorded() -> Iterator[list[tuple[str, Decision]]]:
    """A context that lists the algorithms that run inside, and their ways, except calls that `jit` compiled before."""
    log: list[tuple[str, Decision]] = []
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)
