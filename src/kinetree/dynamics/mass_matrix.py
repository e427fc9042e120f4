"""The mass matrix H(q): τ = H q̈ + C."""

from typing import Any, Literal, overload

import jax.numpy as jnp

from kinetree._types import AnyArray, Array, Float
from kinetree._unknown import require_word
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.model.required import require_flag
from kinetree.tree import layout

from .directly import directly
from .matrices.crba import crba, crba_at_once
from .matrices.packed import PackedMatrix, pack
from .published import vneb
from .published.jsiia import inertia_columns

METHODS = ("crba", "columns", "vneb")


@overload
def mass_matrix(
    model: Model,
    q: Float[Array, "... nq"],
    *,
    method: str = "auto",
    schedule: str = "auto",
    packed: Literal[False] = False,
) -> Float[Array, "... nv nv"]: ...


@overload
def mass_matrix(
    model: Model, q: Float[AnyArray, "... nq"], *, method: str = "auto", schedule: str = "auto", packed: bool
) -> PackedMatrix: ...


@directly(crba_at_once)
def mass_matrix(
    model: Model, q: Float[Array, "... nq"], *, method: str = "auto", schedule: str = "auto", packed: bool = False
) -> Float[Array, "... nv nv"] | PackedMatrix:
    """The joint-space inertia matrix H, symmetric and positive definite; zero if neither joint carries the other.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        method: "crba" (composite inertias; what "auto" takes), "columns" (inverse dynamics of unit accelerations) or
            "vneb" (Fijany and Bejczy's Newton-Euler columns).
        schedule: how "crba" is walked: "auto", "lanes" (rows in order, states side by side), "sequential", "levels"
            or "paths".
        packed: give H on the pairs (row, ancestor) only, as a `PackedMatrix` with `.matvec(x)` and `.dense()`.

    Returns:
        H, (..., nv, nv), armatures included; or a `PackedMatrix`.

    Reference: Featherstone 2008 table 6.2; Lynghus 2026 §6; Fijany and Bejczy 1989.
    """
    require_word("method", method, ("auto", *METHODS))
    require_flag("packed", packed)
    if model.coupling is not None and method in METHODS[1:]:
        return coupled("matrix")(mass_matrix)(model, q, method=method, packed=packed)
    tree = model.tree

    def compute(q: Any) -> Any:
        if model.nv == 0:
            H = jnp.zeros((q.shape[0], *((0,) if packed else (0, 0))), q.dtype)
        elif method in ("auto", "crba"):
            H = crba(model, q, packed=packed, schedule=schedule)
        else:
            require_matrices(f"method {method!r}", q, model.nv, model.nv, copies=20, instead="method 'crba'")
            columns = inertia_columns if method == "columns" else vneb.inertia_matrix
            H = columns(layout(tree, "paths"), model, q)
            H = pack(tree, H) if packed else H
        return PackedMatrix(H, tree) if packed else H

    return evaluate_for(model, compute, q=q)
