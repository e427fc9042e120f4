"""What a case calls, and how its result is checked: against float64 on the CPU, by another road than the one timed."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt
from kinetree.dynamics.schedules.tuning import BLOCKS_MIN_ROWS
from kinetree.model import Placement
from kinetree.spatial import Vec3

from . import reference
from .cases import Case
from .scans import tour_products

MOST_CHECKED = 8  # states of a batch, and columns of a matrix
WALKED_IN_ORDER = 1000  # rows up to which XLA's walk in order is the reference; more go by paths


@dataclass(frozen=True)
class Algorithm:
    """One of the things that are measured."""

    inputs: int  # how many of q, qd, and qdd or tau it takes
    call: Callable[..., Any]  # (case, model, *state) -> result
    error: Callable[..., float]  # (case, model, state in NumPy, result) -> relative error
    results: Callable[[int], int]  # numbers written for each state of n bodies


# -- checking --------------------------------------------------------------------------------------------------------


def _spread(size: int) -> np.ndarray:
    """A few numbers below `size`, first and last among them."""
    return np.unique(np.linspace(0, size - 1, MOST_CHECKED).astype(int))


def _some(case: Case, *arrays: Any) -> list[np.ndarray]:
    """The states that are checked, in float64, with a batch axis."""
    if case.batch == 1:
        return [np.asarray(a, np.float64)[None] for a in arrays]
    return [np.asarray(a[_spread(case.batch)], np.float64) for a in arrays]


def relative(found: Any, wanted: Any) -> float:
    """Largest difference over the largest entry."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), np.finfo(float).tiny))


def _by_lanes(case: Case) -> bool:
    """Whether a case's own float64 result may come from native lanes on the CPU, so that XLA has to check it."""
    on_cpu = case.arrays == "numpy" or jax.default_backend() == "cpu"
    return on_cpu and case.dtype == "float64" and case.schedule in ("auto", "lanes") and case.method in ("auto", "aba")


def _on_cpu() -> Any:
    return jax.default_device(jax.devices("cpu")[0]) if jax.default_backend() != "cpu" else nullcontext()


def _by_blocks(case: Case) -> bool:
    """Whether it may come from blocks of a huge tree, which are what "auto" and "paths" take there."""
    return case.algorithm == "inverse_dynamics" and case.n >= BLOCKS_MIN_ROWS and case.batch == 1


def _checked_schedule(case: Case) -> str:
    if not _by_lanes(case) or _by_blocks(case):
        return "lanes"
    return "sequential" if case.n <= WALKED_IN_ORDER else "paths"


def _dynamics_error(name: str) -> Callable[..., float]:
    def error(case: Case, model: kt.Model, state: Any, result: Any) -> float:
        found, *given = _some(case, result, *state)
        with _on_cpu():
            return relative(found, getattr(kt, name)(model, *given, schedule=_checked_schedule(case)))

    return error


def _mass_matrix_error(case: Case, model: kt.Model, state: Any, result: Any) -> float:
    """Columns of H against inverse dynamics of unit accelerations, C against that of none."""
    H, C = result
    columns = _spread(case.n)
    found_columns, found_bias, q, qd = _some(case, H[..., columns], C, *state)
    weightless, still = model.replace(gravity=np.zeros(3)), np.zeros(case.n)
    wanted = [kt.inverse_dynamics(weightless, q, still, np.arange(case.n) == k, schedule="lanes") for k in columns]
    bias = kt.inverse_dynamics(model, q, qd, still, schedule=_checked_schedule(case))
    return max(relative(found_columns, np.stack(wanted, -1)), relative(found_bias, bias))


def _kinematics_error(case: Case, model: kt.Model, state: Any, result: Any) -> float:
    rotation, position, q = _some(case, *result, *state)
    wanted = reference.forward_kinematics(model, q)
    return max(relative(rotation, wanted[0]), relative(position, wanted[1]))


def _derivatives_error(name: str) -> Callable[..., float]:
    def error(case: Case, model: kt.Model, state: Any, result: Any) -> float:
        *found, q, qd, x = _some(case, *result, *state)
        with _on_cpu():
            wanted = derivatives(name)(case, model, q, qd, x, schedule="sequential")
        return max(relative(a, b) for a, b in zip(found, wanted, strict=True))

    return error


def _rootfix_error(case: Case, model: kt.Model, state: Any, result: Any) -> float:
    if case.method == "mapped":
        components = np.stack([np.asarray(c) for c in result], -1)
        return relative(components, reference.path_sums(model.parent, np.stack([state[0]] * 6, -1)))
    position = np.stack([np.asarray(c) for c in result.position], -1)
    return relative(position, reference.forward_kinematics(model, state[0][None])[1][0])


# -- calling ---------------------------------------------------------------------------------------------------------


def _options(case: Case, *names: str) -> dict[str, str]:
    """What a case asks for; nothing where it leaves the choice, as a user would call."""
    return {name: value for name in names if (value := getattr(case, name)) != "auto"}


def _inverse_dynamics(case: Case, model: kt.Model, q: Any, qd: Any, qdd: Any) -> Any:
    if case.schedule == "auto":  # one call takes a microsecond: nothing may stand around it
        return kt.inverse_dynamics(model, q, qd, qdd)
    return kt.inverse_dynamics(model, q, qd, qdd, **_options(case, "schedule"))


def _forward_dynamics(case: Case, model: kt.Model, q: Any, qd: Any, tau: Any) -> Any:
    if case.schedule == case.method == "auto":
        return kt.forward_dynamics(model, q, qd, tau)
    return kt.forward_dynamics(model, q, qd, tau, **_options(case, "method", "schedule"))


def _mass_matrix_and_bias(case: Case, model: kt.Model, q: Any, qd: Any) -> Any:
    H = kt.mass_matrix(model, q, method=case.method, schedule=case.schedule)
    return H, kt.bias_force(model, q, qd, schedule=case.schedule)


def _forward_kinematics(case: Case, model: kt.Model, q: Any) -> Any:
    return tuple(kt.forward_kinematics(model, q))


def derivatives(name: str) -> Callable[..., Any]:
    """(case, model, q, qd, x) -> the three Jacobians of a function: in one call, or, with a schedule, by JAX."""

    def call(case: Case, model: kt.Model, *state: Any, schedule: str = "") -> Any:
        if not schedule and case.method == "auto":
            return getattr(kt, f"{name}_derivatives")(model, *state)

        def single(*one: Any) -> Any:
            return getattr(kt, name)(model, *one, schedule=schedule or "auto")

        # fewer outputs than inputs: reverse
        jacobians = (jax.jacfwd if case.method == "jacfwd" else jax.jacrev)(single, argnums=(0, 1, 2))
        return (jacobians if case.batch == 1 else jax.vmap(jacobians))(*map(jnp.asarray, state))

    return call


def _inverse(placed: Placement) -> Placement:
    back = placed.orientation.conjugate()
    return Placement(back, back.turn(placed.position) * -1.0)


def _rootfix(case: Case, model: kt.Model, q: Any) -> Any:
    """Poses of all bodies by one scan over the Euler tour; "mapped": six sums along the paths from the root."""
    if case.method == "mapped":
        return tour_products(
            model.tree, jnp.add, lambda x: jax.tree.map(jnp.negative, x), (0.0,) * 6, (q,) * 6, "mapped"
        )
    half = 0.5 * q
    turned = model.rows.orientation.times_about_z(jnp.cos(half), jnp.sin(half))
    placed = Placement(turned, Vec3(*model.rows.position))
    identity = Placement.identity_like(jnp.zeros((), q.dtype))
    return tour_products(model.tree, lambda a, b: b @ a, _inverse, identity, placed, case.method)


def _vector(n: int) -> int:
    return n


def _three_matrices(n: int) -> int:
    return 3 * n * n


ALGORITHMS = {
    "inverse_dynamics": Algorithm(3, _inverse_dynamics, _dynamics_error("inverse_dynamics"), _vector),
    "forward_dynamics": Algorithm(3, _forward_dynamics, _dynamics_error("forward_dynamics"), _vector),
    "mass_matrix_and_bias": Algorithm(2, _mass_matrix_and_bias, _mass_matrix_error, lambda n: n * n + n),
    "forward_kinematics": Algorithm(1, _forward_kinematics, _kinematics_error, lambda n: 12 * n),
    "rootfix": Algorithm(1, _rootfix, _rootfix_error, lambda n: 7 * n),
    **{
        f"{name}_derivatives": Algorithm(3, derivatives(name), _derivatives_error(name), _three_matrices)
        for name in ("inverse_dynamics", "forward_dynamics")
    },
}
