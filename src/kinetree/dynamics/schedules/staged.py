"""A model and one state in the form for native walks: constants of each stage's cells, coordinates of each row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from threading import local
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.closed_form.directions import with_rule
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.kept.plans import constants_of, kept_plan
from kinetree.lanes.target import current
from kinetree.lanes.walks.walk import Resident
from kinetree.model import Model
from kinetree.model.arguments import is_traced
from kinetree.model.coordinates import first_placements
from kinetree.model.fork import require_xla
from kinetree.tree import Tree
from kinetree.tree import tuning as limits
from kinetree.tree.stages import Stages, stages

from . import tuning


def staged(tree: Tree) -> Stages | None:
    """The stages of a tree, as arrays on the device; None if XLA's own loops are better."""
    target = current()
    lanes = target.chunks(tree.n) if target is not None else 0
    return _laid_out(tree, lanes, target.facts.level_cost) if target is not None and lanes else None


@lru_cache(maxsize=64)
def _laid_out(tree: Tree, lanes: int, levels: int) -> Stages:
    laid = kept_plan("stages", tree.parent, (lanes, levels, constants_of(limits)), lambda: stages(tree, lanes, levels))
    require_xla()
    with jax.ensure_compile_time_eval():  # they outlive whatever is being traced
        return jax.tree.map(lambda x: jnp.asarray(x, np.int32 if x.dtype.kind == "i" else x.dtype), laid)


_kept: OncePerOwner[Any] = OncePerOwner()


def _keep(model: Model, key: Any, make: Callable[[], Any]) -> Any:
    """An object made once for a model whose numbers are known, also under tracing."""

    def known() -> Any:
        require_xla()
        with jax.ensure_compile_time_eval():
            return make()

    return _kept.get(model, key, known)


def _known(model: Model) -> bool:
    return not is_traced(model)


def stage_constants(laid: Stages, model: Model, dtype: Any) -> tuple[Any, ...]:
    """Constants of each stage, (turns, fields, lanes); kept if the model's numbers are known."""
    if not _known(model):
        return _arranged(laid, model, dtype)
    name = np.dtype(dtype).name
    key = name, tuple(s.rows.shape for s in laid.stages)
    return _keep(model, key, lambda: jax.jit(_arranged, static_argnums=2)(laid, model, name))


def resident_constants(laid: Stages, model: Model, constants: tuple[Any, ...]) -> tuple[Any, ...]:
    """The constants, read by programs at their address if that is possible: on a CPU, or on a single device.

    Placements of quaternion joints are written into them.
    """
    movable = len(jax.local_devices()) > 1 and jax.default_backend() != "cpu"
    few = sum(c.size for c in constants) < tuning.RESIDENT_MIN_NUMBERS
    if movable or few or len(model.structure.quaternion_joints):
        return constants
    key = "resident", constants[0].dtype.name, tuple(s.rows.shape for s in laid.stages)
    return _keep(model, key, lambda: tuple(map(Resident, constants)))


@jax.tree_util.register_static
class Same:
    """A model with known numbers, as a static part of a traced function. It is compared by identity.

    None of its arrays are arguments of the program. As arguments all of them would become constants of the program,
    even unused ones: 336 bytes for each body.
    """

    def __init__(self, model: Model):
        self.model = model

    def __hash__(self) -> int:
        return id(self.model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.model is self.model


class PlacedConstants(NamedTuple):
    """Constants with the placements of quaternion joints, and the coordinate of each row (zero for these joints)."""

    cells: tuple[Any, ...]
    own: Any


class _Current(local):
    operands: "tuple[Operands, ...]" = ()


_current = _Current()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Operands:
    """Stages and constants of a huge model, as operands of a program, because XLA takes long to compile constants.

    Walks that are traced within `used()` take these instead of the arrays that are kept with the model.
    """

    laid: Stages
    constants: tuple[Any, ...] | PlacedConstants
    known: Same = field(metadata={"static": True})

    @property
    def dtype(self) -> Any:
        """The dtype of the numbers."""
        return (self.constants.cells if isinstance(self.constants, PlacedConstants) else self.constants)[0].dtype

    @contextmanager
    def used(self) -> Iterator[None]:
        """A context in which walks over the model's rows take these operands."""
        before = _current.operands
        _current.operands = (self, *before)
        try:
            yield
        finally:
            _current.operands = before

    def placed(self, q: Any) -> "Operands":
        """The operands with coordinates, (nq,)."""
        if len(self.known.model.structure.quaternion_joints) == 0:
            return self
        return Operands(
            self.laid, PlacedConstants(*row_coordinates(self.laid, self.constants, self.known.model, q)), self.known
        )


def used_operands(model: Model, dtype: Any) -> Operands | None:
    """The operands in use for the rows of a model."""
    return next((o for o in _current.operands if o.known.model.rows is model.rows and o.dtype == dtype), None)


def operands_of(model: Model, dtype: Any) -> Operands | None:
    """The operands of a model whose numbers are known; None if it has no stages."""
    laid = staged(model.tree) if _known(model) else None
    if laid is None:
        return None
    return Operands(laid, resident_constants(laid, model, stage_constants(laid, model, dtype)), Same(model))


def on_device(model: Model) -> Model:
    """The model with its numbers on the device, copied there once."""
    key = "model", bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    return _keep(model, key, lambda: jax.tree.map(jnp.asarray, model)) if _known(model) else model


def _shown(model: Model | Same) -> Model:
    return model.model if isinstance(model, Same) else model


def _arranged(laid: Stages, model: Model, dtype: Any) -> tuple[Any, ...]:
    leaves = [jnp.asarray(x, dtype) for x in jax.tree.leaves(model.rows)]
    return tuple(jnp.stack([s.arrange(x) for x in leaves], 1) for s in laid.stages)


def row_coordinates(laid: Stages, constants: tuple | PlacedConstants, model: Model, q: Any) -> tuple[tuple, Any]:
    """`PlacedConstants` from constants and q."""
    if isinstance(constants, PlacedConstants):
        return constants
    structure = model.structure
    if len(structure.quaternion_joints) == 0:
        return constants, q
    own = jnp.where(structure.q_of_row >= 0, q[np.maximum(structure.q_of_row, 0)], jnp.zeros((), q.dtype))
    first, placed = first_placements(
        structure, jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.rows), q[:, None]
    )
    values = jnp.stack([x[:, 0] for x in jax.tree.leaves(placed)], 1)
    return with_placements(laid, constants, laid.position_of[first], values), own


def with_placements(laid: Stages, constants: tuple, position: Any, values: Any) -> tuple:
    """Constants with new placements, (joints, 7), of the rows at these positions; positions outside are dropped."""
    updated = []
    for stage, cells in zip(laid.stages, constants, strict=True):
        lanes = cells.shape[2]
        # cells of other stages lie outside
        cell = jnp.where(position >= stage.offset, position - stage.offset, cells.shape[0] * lanes)
        updated.append(cells.at[cell // lanes, : values.shape[1], cell % lanes].set(values, mode="drop"))
    return tuple(updated)


def one_at_a_time(native: Callable, by_xla: Callable, gradient: Callable | None = None) -> Callable:
    """`native(laid, constants, model, *arrays)` of one state, with derivatives by `by_xla(model, *arrays)`.

    A batch is computed state by state. `gradient(laid, constants, model, arrays, owed)`, if given, finds gradients with
    respect to the arrays.
    """

    def in_turn(function: Callable) -> Callable:
        def one(laid: Stages, constants: tuple, model: Model | Same, *arrays: Any) -> Any:
            return function(laid, constants, _shown(model), *arrays)

        return lambda fixed, *arrays: jax.custom_batching.sequential_vmap(one)(*fixed, *arrays)

    back = None if gradient is None else in_turn(gradient)
    rule = with_rule(in_turn(native), lambda fixed, *arrays: by_xla(_shown(fixed[2]), *arrays), gradient=back)
    return lambda laid, constants, model, *arrays: rule((laid, constants, model), *arrays)


def _as_batch(function: Callable, laid: Stages, constants: tuple, model: Model | Same, *arrays: Any) -> Any:
    if len(arrays[0]) == 1:
        return jax.tree.map(lambda x: x[None], function(laid, constants, model, *(x[0] for x in arrays)))
    return jax.vmap(partial(function, laid, constants, model))(*arrays)


_compiled_batch = jax.jit(_as_batch, static_argnums=0)


def by_stages(function: Callable, laid: Stages, model: Model, *arrays: Any) -> Any:
    """Run a function made by `one_at_a_time` on states, (batch, n) arrays, one after the other."""
    given = used_operands(model, arrays[0].dtype)
    if given is not None:
        return _as_batch(function, given.laid, given.constants, Same(model), *arrays)
    constants = stage_constants(laid, model, arrays[0].dtype)
    if _known(model) and is_traced(arrays):
        return _as_batch(function, laid, resident_constants(laid, model, constants), Same(model), *arrays)
    return _compiled_batch(function, laid, constants, on_device(model), *arrays)
