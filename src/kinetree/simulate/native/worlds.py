"""The native programs of worlds whose models differ: one program and its tables, with constants for each world."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from kinetree.constrain.choose import DTYPES, way_of
from kinetree.constrain.native import Plan, Solver, solver_of
from kinetree.constrain.native.binding import constants_of, written_for
from kinetree.constrain.native.features import other_solimp
from kinetree.constrain.native.programs import program_of as program_of_solver
from kinetree.constrain.traced import binding_parts
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model
from kinetree.model.arguments import is_traced

from .choose import BOUND, BoundPrograms, bound_to, way_of_step
from .plan import StepPlan
from .step import program_of, variant_of
from .stepper import Stepper, sizes_of

MAX_HULL_NUMBERS = 10**7  # numbers of the meshes of all worlds; each world has a copy until programs run

WORLDS_ONE_BY_ONE = 64  # models whose constants NumPy makes one by one, in 10 ms each; XLA compiles for seconds
CONSTANT_AXES = 2  # of the constants of a loop: turns, and numbers of a turn

NOTHING_BOUND = BoundPrograms(None, None)
_bound: OncePerOwner[BoundPrograms] = OncePerOwner()
_typical: OncePerOwner[Model] = OncePerOwner()


def bound_to_worlds(model: Model, integrator: str, dtype: Any, h: Any, external: bool) -> BoundPrograms:
    """The programs of a call, whose constants have the first axes of the models; None if XLA serves.

    Arguments:
        model: models whose arrays have first axes over worlds.
        integrator, dtype, external: as in `bound_to`.
        h: the step, which must be the same in all worlds.
    """
    if BOUND in model.__dict__:
        return model.__dict__[BOUND]
    typical = None if isinstance(h, Tracer) else typical_of(model)
    if typical is None:
        return _bound_in_trace(model, integrator, dtype, h, external)
    if np.dtype(dtype).name not in DTYPES or not _same(model, h):
        return NOTHING_BOUND
    step = float(np.ravel(h)[0])

    def make() -> BoundPrograms:
        plan, apart = way_of_step(typical, integrator).plan, _differ_in_plans(model)
        if plan is not None:
            variant = variant_of(typical, plan, integrator, external, firm=False)
            native = program_of(variant)

            def whole(own: Model) -> tuple:
                mine = StepPlan(own, integrator, plan) if apart else plan.with_numbers_of(own)
                return constants_of(native, own, mine, dtype, step)

            constants = _stacked(model, whole, apart)
            own = written_for(native, typical, plan, sizes_of(variant, plan), (None, *_shared(constants)[1:]))
            return BoundPrograms(Stepper(constants, variant, plan, own=own), None)
        solves = way_of(typical).plan
        if solves is None:
            return NOTHING_BOUND
        solver = solver_of(typical, solves, dtype, step, external=external, warm=True)

        def parts(own: Model) -> tuple:
            mine = Plan(own, solves.has) if apart else solves.with_numbers_of(own)
            return constants_of(program_of_solver(solver.variant), own, mine, dtype, step)

        return BoundPrograms(None, Solver(_stacked(model, parts, apart), solver.variant, solves))

    return _bound.get(model, (integrator, np.dtype(dtype).name, step, external), make)


def _bound_in_trace(model: Model, integrator: str, dtype: Any, h: Any, external: bool) -> BoundPrograms:
    """The programs of worlds whose numbers are traced: constants are functions of them, world by world."""

    def one(own: Model, h: Any) -> BoundPrograms:
        return bound_to(own, integrator, dtype, h, external)

    axis = 0 if np.ndim(h) else None
    for _ in model.batch:
        one = jax.vmap(one, (0, axis))
    return one(model, h)


def _differ_in_plans(model: Model) -> bool:
    """True if worlds differ in numbers that are kept in plans."""
    parts = binding_parts(jax.tree.map(partial(_flat, model), model))
    return not all(map(_equal, jax.tree.leaves(parts)))


def _stacked(model: Model, constants: Callable[[Model], tuple], apart: bool) -> tuple:
    """The constants of all worlds, with the first axes of the models; without them where all worlds have the same.

    `apart`: worlds differ in numbers that XLA can not trace.
    """
    rows, form = jax.tree.flatten(jax.tree.map(partial(_flat, model), model))
    same = [bool(_equal(x)) for x in rows]

    def one(numbers: list) -> tuple:
        given = iter(numbers)
        return constants(
            jax.tree.unflatten(form, [x[0] if k else next(given) for x, k in zip(rows, same, strict=True)])
        )

    moving = [x for x, k in zip(rows, same, strict=True) if not k]
    count = math.prod(model.batch)
    if count > WORLDS_ONE_BY_ONE and not apart:
        with _on_cpu(), jax.enable_x64(True), jax.ensure_compile_time_eval():
            whole = list(map(np.asarray, jax.jit(jax.vmap(one))(moving)))
    else:
        whole = [np.stack(parts) for parts in zip(*(one([x[k] for x in moving]) for k in range(count)), strict=True)]
    return tuple(x[0] if _equal(x) else x.reshape(*model.batch, *x.shape[1:]) for x in whole)


def _on_cpu() -> AbstractContextManager[Any]:
    """A context in which XLA uses the CPU, if JAX has it: it compiles many small operations sooner than for a GPU."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:
        return nullcontext()


def _equal(x: np.ndarray) -> np.bool:
    """True if all worlds have the same numbers."""
    return ((x == x[:1]) | (np.isnan(x) & np.isnan(x[:1]))).all()


def _shared(constants: tuple) -> tuple:
    """The constants of loops; None for those that differ from world to world."""
    return tuple(x if x.ndim == CONSTANT_AXES else None for x in constants)


def axes_of(bound: BoundPrograms) -> Any:
    """The first axes of constants that have axes over worlds; None for others."""
    return jax.tree.map(lambda x: 0 if x.ndim > CONSTANT_AXES else None, bound)


def typical_of(model: Model) -> Model | None:
    """One model with all features of all worlds; None if numbers are unknown."""
    if is_traced(model):
        return None

    def chosen(x: Any) -> np.ndarray:
        x = _flat(model, x)
        known = np.isfinite(x)  # a limit that is there is a finite number, which may be zero
        rank = known.astype(int) + (known & (x != 0))
        return np.asarray(np.take_along_axis(x, rank.argmax(0)[None], 0)[0])

    return _typical.get(model, None, lambda: jax.tree.map(chosen, model))


def _flat(model: Model, x: Any) -> np.ndarray:
    """Numbers of the models, with one axis over all worlds."""
    return np.asarray(x).reshape(math.prod(model.batch), *np.shape(x)[len(model.batch) :])


def _same(model: Model, h: Any) -> bool:
    """True if worlds share the constants of a program: the time step, powers of impedances, and meshes."""
    world = model.world
    scene, joints = (None, None) if world is None else (world.scene, world.joints)
    soft = [] if scene is None else [scene.surfaces.solimp, scene.pairs.solimp]
    soft += [] if joints is None else [joints.limit_solimp, joints.friction_solimp]
    soft += [] if world is None else other_solimp(world)
    powers = [_flat(model, x)[..., 4] for x in soft]
    hulls = [] if scene is None else [_flat(model, x) for x in jax.tree.leaves(scene.shapes.hulls)]
    if sum(x.size for x in hulls) > MAX_HULL_NUMBERS:
        return False
    return all((x == x[:1]).all() for x in (np.ravel(h), *powers, *hulls))
