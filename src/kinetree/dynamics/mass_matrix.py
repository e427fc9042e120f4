"""The mass matrix H(q): τ = H q̈ + C."""

from typing import Any

from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate
from kinetree.tree import layout

from . import vneb
from .crba import crba_dense, crba_packed
from .jsiia import inertia_columns
from .packed import PackedMatrix, pack
from .schedule import layout_schedule

METHODS = {"crba": crba_dense, "columns": inertia_columns, "vneb": vneb.inertia_matrix}


@coupled("matrix")
def mass_matrix(model: Model, q: Any, *, method: str = "auto", packed: bool = False) -> Any:
    """The joint-space inertia matrix H, symmetric and positive definite, zero where neither joint supports the other.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        method: "crba" (composite inertias; what "auto" takes), "columns" (inverse dynamics of unit accelerations) or "vneb"
            (Fijany and Bejczy's Newton-Euler columns).
        packed: give H on the pairs (row, ancestor) only, as a `PackedMatrix` with `.matvec(x)` and `.dense()`.

    Returns:
        H, (..., nv, nv), armatures included; or a `PackedMatrix`.

    Reference: Featherstone 2008 table 6.2; Lynghus 2026 §6; Fijany and Bejczy 1989.
    """
    if method not in ("auto", *METHODS):
        raise ValueError(f"unknown method {method!r}: choose from auto, {', '.join(METHODS)}")
    laid = layout(model.tree, layout_schedule(model.tree))
    chosen = "crba" if method == "auto" else method

    def compute(q: Any) -> Any:
        if packed and chosen == "crba":
            return PackedMatrix(crba_packed(laid, model, q, model.tree.ancestor_pairs), model.tree)
        H = METHODS[chosen](laid, model, q)
        return PackedMatrix(pack(model.tree, H), model.tree) if packed else H

    return evaluate(compute, q=(q, (model.nq,)))
