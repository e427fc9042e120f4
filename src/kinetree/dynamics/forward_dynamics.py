"""Forward dynamics: the accelerations that forces cause, by any of the published methods."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree._unknown import require_word
from kinetree.model import Model
from kinetree.model.arguments import evaluate_for

from .algorithms.aba import aba_of
from .coupled import coupled_forward_dynamics, coupled_program
from .directly import directly
from .firmness import is_firm
from .loops.forward import closed_forward_dynamics
from .matrices.ltdl import SCHEDULES as FACTORIZATIONS
from .matrices.ltdl import forward_dynamics_crba
from .passive import passive_by_row
from .positive import require_solution
from .published.abia import forward_dynamics_abia
from .published.cfa import forward_dynamics_cfa
from .published.conjugate_gradient import forward_dynamics_cg
from .published.dca import forward_dynamics_dca, forward_dynamics_dcae
from .published.independent_joints import projected_forward_dynamics
from .published.jsiia import forward_dynamics_jsiia
from .published.vneb import forward_dynamics_vneb
from .schedules.choose import SCHEDULES
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lanes import lane_program_of
from .schedules.run import run
from .sharded.tree import ShardedTree, require_plain_call


def forward_dynamics_aba(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, schedule: str = "auto") -> Any:
    """Accelerations, (batch, nv), by the articulated-body algorithm (algorithms/aba.py), under any schedule."""
    return run(aba_of(is_firm(model)), model, {"q": q, "qd": qd, "tau": tau}, f_ext, schedule)["qdd"]


METHODS: dict[str, Callable[..., Any]] = {  # (model, q, qd, tau, f_ext, **options) -> qdd on (batch, ...) arrays
    "aba": forward_dynamics_aba,
    "crba": forward_dynamics_crba,
    "jsiia": forward_dynamics_jsiia,
    "abia": forward_dynamics_abia,
    "dca": forward_dynamics_dca,
    "dcae": forward_dynamics_dcae,
    "cfa": forward_dynamics_cfa,
    "vneb": forward_dynamics_vneb,
    "cg": forward_dynamics_cg,
}


def method_function(method: str) -> Callable[..., Any]:
    """The function behind a method's name."""
    require_word("method", method, ("auto", *METHODS))
    return METHODS["aba" if method == "auto" else method]


def at_once(model: Model, external: bool = False) -> LaneAlgorithm | None:
    """The lane program that "auto" takes for direct calls."""
    if model.loops is not None:
        return None
    if model.coupling is None:
        return lane_program_of(aba_of(is_firm(model)), model, external)
    return coupled_program(model, external)


@directly(at_once, same={"method": "aba"})
def forward_dynamics(
    model: Model | ShardedTree,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    tau: Float[Array, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
    *,
    method: str = "auto",
    schedule: str = "auto",
    **options: float | str,
) -> Float[Array, "... nv"]:
    """Accelerations that the generalised forces `tau` cause in the state `q`, `qd`.

    Rigid loops of the model are held; soft constraints of its world are left to `constrained_dynamics`.

    Arguments:
        model: the mechanism, or a tree over several devices (`kinetree.shard_tree`), without `f_ext` and methods.
        q, qd, tau: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, moment about the world origin first.
        method: "auto", "aba", "crba", "jsiia", "abia", "dca", "dcae", "cfa", "vneb" or "cg"; `kinetree.explain` says
            what auto takes.
        schedule: "auto", "lanes", "sequential", "levels" or "paths"; for methods that can be walked in several ways.
        options: of the method, such as `chunks` and `balance` of "dcae" or `tolerance` of "cg".

    Returns:
        qdd, (..., nv). Where the mass matrix is singular or an argument is not finite: NaN in that state, for JAX
        arrays.

    Raises:
        ValueError: the same for NumPy arrays; says in which state, and of which joint or argument.

    Reference: Featherstone 2008 table 7.1; the docstring of each method's module.
    """
    if isinstance(model, ShardedTree):
        require_plain_call(f_ext, schedule, method, *options)
        return model.forward_dynamics(q, qd, tau)
    solve = method_function(method)
    require_word("schedule", schedule, dict.fromkeys(("auto", *SCHEDULES, *FACTORIZATIONS)))
    if model.loops is not None:
        if method == "jsiia":
            return projected_forward_dynamics(model, q, qd, tau, f_ext)
        tree = partial(forward_dynamics, method=method, schedule=schedule, **options)
        auto = method == schedule == "auto" and not options
        return closed_forward_dynamics(model, tree, q, qd, tau, f_ext, auto)
    if model.coupling is not None:
        return coupled_forward_dynamics(model, q, qd, tau, f_ext, method)
    if schedule != "auto":
        options = {"schedule": schedule, **options}

    def compute(q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
        if model.nv == 0:
            return jnp.zeros((q.shape[0], 0), q.dtype)
        if model.passive is None or solve is forward_dynamics_aba:  # the programs of ABA include springs and dampers
            return solve(model, q, qd, tau, f_ext, **options)
        return solve(model.without_passive, q, qd, tau + passive_by_row(model, q, qd), f_ext, **options)

    qdd = evaluate_for(model, compute, q=q, qd=qd, tau=tau, f_ext=f_ext)
    return require_solution(model, "forward_dynamics", qdd, q=q, qd=qd, tau=tau, f_ext=f_ext)
