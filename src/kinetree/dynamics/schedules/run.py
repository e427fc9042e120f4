"""Run an algorithm: the way is chosen in choose.py, and taken here.

Results of all ways have one shape: (batch, rows) for a scalar of each row, (batch, rows, count) for a group of count
scalars, with bodies in the place of rows for `Bodies`, (batch, count, rows) for the columns of a matrix, and (batch,
count) for a `Total`, the `Base` and `OneBody`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import flattened
from kinetree.dynamics.algorithms.applied import with_world_forces
from kinetree.dynamics.joint_terms import FELT, LOAD, inputs_of_rows, joint_acceleration
from kinetree.dynamics.recursion import APPLIED, Algorithm, Bodies
from kinetree.lanes.kept.once import once
from kinetree.model import Model
from kinetree.model.arguments import evaluate_for, is_traced
from kinetree.model.coordinates import velocity_product_shift
from kinetree.model.coupling import NARROW, WIDEN
from kinetree.tree import Layout, layout
from kinetree.tree.stages import Stages

from ..algorithms.rnea_reverse import gradient, has_reverse
from ..closed_form.directions import with_rule
from ..closed_form.rules import in_closed_form
from ..passive import passive_by_row
from .block_walks import FORCES
from .blocks import by_blocks, can_block, forces_on_rows
from .choose import Call, Choice, call_of, check_schedule, choose, note
from .euler import over_euler_tour
from .lane_rows import kind_of
from .lanes import lane_program_of
from .layouts import over_layout
from .staged import by_stages, one_at_a_time, row_coordinates, staged
from .stages import CellPlan, can_walk, over_stages

tree_map = jax.tree.map
Inputs = dict[str, Any]


def run(
    algorithm: Algorithm,
    model: Model,
    inputs: Inputs,
    f_ext: Any = None,
    schedule: str = "auto",
    about: int | None = None,
) -> Inputs:
    """The outputs of an algorithm, by name.

    Arguments:
        algorithm: the passes.
        model: the mechanism.
        inputs: (batch, ·) arrays by name, in the order of the algorithm's inputs.
        f_ext: (batch, bodies, 6), or None.
        schedule: the schedule that the user gave.
        about: the number of the body that the algorithm is about, if it is about one.
    """
    if model.nv == 0 and not any(isinstance(p, Bodies) for p in algorithm.passes):
        check_schedule(schedule)
        shapes = lane_program_of(algorithm, model).output_shapes(model)
        none = [jnp.zeros((len(inputs["q"]), *shape), inputs["q"].dtype) for shape in shapes]
        return dict(zip(algorithm.outputs, none, strict=True))
    choice = way_of(algorithm, call_of(model, tuple(inputs.values()), f_ext), schedule)
    return take(algorithm, choice, model, inputs, f_ext, about)


def output_of(
    algorithm: Algorithm, model: Model, schedule: str = "auto", about: int | None = None, **given: Any
) -> Any:
    """The single output of an algorithm, for the arrays that a public function was given."""
    (name,) = algorithm.outputs

    def compute(*states: Any) -> Any:
        inputs = dict(zip(given, states, strict=True))
        f_ext = inputs.pop("f_ext", None)
        return run(algorithm, model, inputs, f_ext, schedule, about)[name]

    return evaluate_for(model, compute, **given)


def way_of(algorithm: Algorithm, call: Call, schedule: str = "auto") -> Choice:
    """The way that `run` takes."""
    blocked = with_world_forces(algorithm) if call.external and algorithm.applied else algorithm
    return choose(call, schedule, partial(can_block, blocked), can_walk(algorithm))


def take(
    algorithm: Algorithm, choice: Choice, model: Model, inputs: Inputs, f_ext: Any = None, about: int | None = None
) -> Inputs:
    """The outputs of an algorithm, by a chosen way."""
    note(algorithm.name, choice)
    if choice.way == "lanes":
        return _in_lanes(algorithm, choice, model, inputs, f_ext, about)

    def over_tree(model: Model, inputs: Inputs) -> Inputs:
        return _over_tree(algorithm, choice, model, inputs, f_ext, about)

    return _around(algorithm, model, inputs, over_tree)


def _around(algorithm: Algorithm, model: Model, inputs: Inputs, run: Callable[[Model, Inputs], Inputs]) -> Inputs:
    """The outputs for any model, where `run(model, inputs)` serves those without mimic joints, springs and dampers."""
    coupling, whole = model.coupling, model.uncoupled
    if coupling is not None:
        inputs = {n: WIDEN["q" if n == "q" else "qd"](coupling, x) for n, x in inputs.items()}
    passive = None
    if whole.passive is not None and "tau" in (*inputs, *algorithm.outputs):
        passive = passive_by_row(whole, inputs["q"], inputs["qd"])
    if passive is not None and "tau" in inputs:
        inputs = inputs | {"tau": inputs["tau"] + passive}
    found = run(whole.without_passive, inputs)
    if passive is not None and "tau" in found:
        found["tau"] = found["tau"] - passive
    if coupling is None:
        return found
    return {n: NARROW[algorithm.gives.get(n, "unchanged")](coupling, x) for n, x in found.items()}


def _over_tree(
    algorithm: Algorithm, choice: Choice, model: Model, inputs: Inputs, f_ext: Any, about: int | None
) -> Inputs:
    if choice.way == "blocks":
        return _in_blocks(algorithm, model, inputs, f_ext)
    if choice.way == "stages":
        laid = staged(model.tree)
        assert laid is not None
        reverses = f_ext is None and has_reverse(algorithm)
        function = _over_stages(algorithm, kind_of(model).hinges, f_ext is not None, reverses)
        return by_stages(function, laid, model, *inputs.values(), *(() if f_ext is None else (f_ext,)))
    if choice.way == "euler tour":
        return _over_euler_tour(algorithm, model, inputs, f_ext, about)
    return _over_layout(algorithm, layout(model.tree, choice.schedule), model, inputs, f_ext, about)


def _in_blocks(algorithm: Algorithm, model: Model, inputs: Inputs, f_ext: Any) -> Inputs:
    """The outputs by blocks. Forward derivatives, and gradients without passes of their own, are those of lanes."""
    lanes = Choice("lanes", "lanes", "native", "shared", "derivatives of blocks")
    names, pushed = tuple(inputs), f_ext is not None  # the rule outlives this call, and must not hold traced arrays

    def function(_: tuple, *arrays: Any) -> Inputs:
        given = dict(zip(names, arrays, strict=False))
        if not pushed:
            return by_blocks(algorithm, model, given)
        return by_blocks(with_world_forces(algorithm), model, given | {FORCES: forces_on_rows(model, arrays[-1])})

    def by_lanes(_: tuple, *arrays: Any) -> Inputs:
        forces = arrays[-1] if pushed else None
        return _in_lanes(algorithm, lanes, model, dict(zip(names, arrays, strict=False)), forces)

    def back(_: tuple, state: tuple, owed: Any) -> tuple:
        return gradient(algorithm, run, model, state, owed)

    arrays = (*inputs.values(), *((f_ext,) if pushed else ()))
    if not is_traced(arrays):
        return function((), *arrays)
    reverses = not pushed and has_reverse(algorithm)
    return with_rule(function, by_lanes, gradient=back if reverses else None)((), *arrays)


# -- lanes ------------------------------------------------------------------------------------------------------------


def _in_lanes(
    algorithm: Algorithm, choice: Choice, model: Model, inputs: Inputs, f_ext: Any, about: int | None = None
) -> Inputs:
    chosen = algorithm.again if choice.again and algorithm.again else algorithm
    program = lane_program_of(chosen, model, f_ext is not None)

    def lanes(model: Model, f_ext: Any, *state: Any) -> tuple:
        extra = () if f_ext is None else (flattened(f_ext),)
        return program(model, *state, *extra, schedule=choice.schedule, about=() if about is None else (about,))

    if choice.schedule == "lanes":
        found = in_closed_form(algorithm, model, inputs["q"], f_ext, lanes)(*inputs.values())
    else:
        found = lanes(model, f_ext, *inputs.values())
    shapes = [(len(x), *shape) for x, shape in zip(found, program.output_shapes(model), strict=True)]
    # JAX would also dispatch a reshape that changes nothing, which takes 10 µs of a call.
    shaped = (x if x.shape == shape else x.reshape(shape) for x, shape in zip(found, shapes, strict=True))
    return dict(zip(algorithm.outputs, shaped, strict=True))


# -- over the tree ----------------------------------------------------------------------------------------------------


def _stacked(algorithm: Algorithm, found: Inputs) -> Inputs:
    """Groups of scalars as one array, with the scalars last."""
    by_body = {n for p in algorithm.passes if isinstance(p, Bodies) for n in p.outputs}

    def stack(name: str) -> Any:
        leaves = [x.T if name in by_body else x for x in jax.tree.leaves(found[name])]
        return leaves[0] if len(leaves) == 1 else jnp.stack(leaves, 1 if name in algorithm.columns else -1)

    return {name: stack(name) for name in algorithm.outputs}


@partial(jax.jit, static_argnums=0)
def _over_layout(
    algorithm: Algorithm, laid: Layout, model: Model, inputs: Inputs, f_ext: Any, about: Any = None
) -> Inputs:
    return _stacked(algorithm, over_layout(algorithm, laid, model, inputs, f_ext, about))


@partial(jax.jit, static_argnums=0)
def _over_euler_tour(algorithm: Algorithm, model: Model, inputs: Inputs, f_ext: Any, about: Any) -> Inputs:
    return _stacked(algorithm, over_euler_tour(algorithm, model, inputs, f_ext, about))


@once
def _natively(algorithm: Algorithm, hinges: bool, external: bool) -> Any:
    """One state by native walks; the last array is `f_ext`, if `external`."""
    plan = CellPlan(with_world_forces(algorithm) if external else algorithm, hinges)
    by_body = {n for p in algorithm.passes if isinstance(p, Bodies) for n in p.outputs}

    def native(laid: Stages, constants: tuple, model: Model, *arrays: Any) -> Inputs:
        inputs = dict(zip(algorithm.inputs, arrays, strict=False))
        constants, own = row_coordinates(laid, constants, model, inputs["q"])
        given = inputs | {"q": own, **({FELT: inputs["qdd"]} if "qdd" in inputs else {})}
        shifts = "qd" in inputs and len(model.structure.quaternion_joints) > 0
        shift = None
        if shifts:
            shift = velocity_product_shift(model.structure, inputs["qd"][:, None])[:, 0]
            armature, slide = (jnp.asarray(x, own.dtype) for x in (model.rows.armature, model.rows.slide))
            armature = armature + inputs[LOAD] if LOAD in inputs else armature
            given |= inputs_of_rows(inputs, armature, slide, shift) | {"q": own}
        if external:
            given |= {n: x[0] for n, x in _row_forces(model, arrays[-1][None]).items()}
        found = over_stages(plan, laid, constants, model.gravity, given, model=model)
        if shifts and "qdd" in found:
            found["qdd"] = joint_acceleration(found["qdd"], shift)
        batched = {n: tree_map(lambda x, n=n: x[:, None] if n in by_body else x[None], y) for n, y in found.items()}
        return {n: x[0] for n, x in _stacked(algorithm, batched).items()}

    return native


@once
def _over_stages(algorithm: Algorithm, hinges: bool, external: bool, reverses: bool) -> Any:
    """Native walks, with derivatives by XLA's `paths`; if it `reverses`, gradients have passes of their own."""

    def by_xla(model: Model, *arrays: Any) -> Inputs:
        inputs = {n: x[None] for n, x in zip(algorithm.inputs, arrays, strict=False)}
        f_ext = arrays[-1][None] if external else None
        laid = layout(model.tree, "paths")
        return {n: x[0] for n, x in _over_layout(algorithm, laid, model, inputs, f_ext).items()}

    def back(laid: Stages, constants: tuple, model: Model, state: tuple, owed: Any) -> tuple:
        def one(other: Algorithm, model: Model, inputs: Inputs) -> Inputs:
            return _natively(other, hinges, False)(laid, constants, model, *inputs.values())

        return gradient(algorithm, one, model, state, owed)

    return one_at_a_time(_natively(algorithm, hinges, external), by_xla, back if reverses else None)


def _row_forces(model: Model, f_ext: Any) -> Inputs:
    """Forces on bodies, (batch, bodies, 6) in world coordinates, summed for each row: (batch, rows) each."""
    carrier = model.structure.row_of_body
    if not np.array_equal(carrier, np.arange(model.tree.n)):
        moving = carrier >= 0
        total = jnp.zeros((len(f_ext), model.tree.n, 6), f_ext.dtype)
        f_ext = total.at[:, carrier[moving]].add(f_ext[:, moving])
    return {n: f_ext[..., k] for k, n in enumerate(APPLIED)}
