"""Forward dynamics with rigid loops: cut joints are replaced by their forces λ.

    H qdd + C = tau + Gᵀ λ,  G qdd = γ,    so    (G H⁻¹ Gᵀ) λ = γ − G qdd₀
with qdd₀ the acceleration of the open tree. Both qdd₀ and the answers H⁻¹ Gᵀ come from a method for trees; all rows are
one batch of states. So every method serves loops: the articulated-body algorithm, and divide and conquer, whose authors
close loops this way (Featherstone 1999, part 2; Critchley, Anderson and Binani 2007). The matrix of the rows may be
singular, because loops may be redundant (matrices/semidefinite.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.model import Loops, Model
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.tree import Layout, layout

from ..matrices.dense import times, transpose
from ..matrices.semidefinite import scale_of, solver_of
from .rows import LoopRows, loop_rows, row_layout, wanted

SCHEDULE = "levels"
Solve = Callable[..., Any]  # (model, q, qd, tau, f_ext) -> qdd


class Closed(NamedTuple):
    """Accelerations, (batch, nv), and the forces of the rows, (batch, m)."""

    qdd: Any
    force: Any


@jax.jit
def _rows(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any) -> LoopRows:
    return loop_rows(laid, model, q, qd, qdd)


def rows_of_state(model: Model, q: Any, qd: Any, qdd: Any = None) -> LoopRows:
    """The rows in the coordinates of the model: mimic joints move with their leaders."""
    coupling, laid = model.coupling, layout(model.tree, SCHEDULE)
    if coupling is None:
        return _rows(laid, model, q, qd, qdd)
    wide = coupling.widen_q(q), coupling.widen_v(qd), None if qdd is None else coupling.widen_v(qdd)
    rows = _rows(laid, model.uncoupled, *wide)
    return rows._replace(G=coupling.narrow(rows.G))


def force_solver(G: Any, answers: Any, classes: np.ndarray) -> Callable[[Any], tuple[Any, Any]]:
    """A function from wanted accelerations of rows, (batch, m), to their forces λ and the answer x = H⁻¹ Gᵀ λ.

    `answers` are H⁻¹ Gᵀ, (batch, m, nv).
    """
    K = jnp.einsum("bmv,bkv->bmk", G, answers)
    K = 0.5 * (K + transpose(K))
    solve = solver_of(K, scale_of(K, classes))

    def hold(right: Any) -> tuple[Any, Any]:
        force = solve(right)
        added = times(transpose(answers), force)
        again = solve(right - times(G, added))  # a refinement, because K has rounding errors
        return force + again, added + times(transpose(answers), again)

    return hold


@jax.jit
def _closed(loops: Loops, rows: LoopRows, free: Any, answers: Any) -> Closed:
    force, added = force_solver(rows.G, answers, row_layout(loops).classes)(wanted(loops, rows) - times(rows.G, free))
    return Closed(free + added, force)


def closed_answer(model: Model, solve: Solve, q: Any, qd: Any, free: Any, start: Any = None) -> Closed:
    """Accelerations x = qdd − start of the closed mechanism, from those of the open one, as (batch, ...) arrays.

    `solve` serves trees; `start` is zero if not given.
    """
    loops = model.loops
    assert loops is not None
    require_matrices("the rows of rigid loops", q, loops.n_rows, model.nv, copies=6, instead="fewer loops")
    rows = rows_of_state(model, q, qd, start)
    return _closed(loops, rows, free, answers_of(model, solve, q, rows.G))


def answers_of(model: Model, solve: Solve, q: Any, G: Any) -> Any:
    """H⁻¹ Gᵀ, (batch, m, nv)."""
    xp = library(q)
    m, nv = G.shape[1:]
    force = xp.asarray(G).reshape(-1, nv)
    return solve(model.weightless, xp.repeat(q, m, 0), xp.zeros_like(force), force, None).reshape(-1, m, nv)


class ClosedProgram(Protocol):
    """One native program for the accelerations of a closed mechanism."""

    def __call__(self, model: Model, reference: Solve, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
        """Accelerations from (batch, ...) arrays; None if it does not serve. `reference` gives the derivatives."""


_programs: list[ClosedProgram] = []


def offer(program: ClosedProgram) -> ClosedProgram:
    """Register the native program of a higher room, constrain."""
    _programs.append(program)
    return program


def closed_forward_dynamics(model: Model, solve: Solve, q: Any, qd: Any, tau: Any, f_ext: Any, auto: bool) -> Any:
    """Accelerations, (..., nv), of a model with loops; `auto`: by the best method."""

    def reference(q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
        return closed_answer(model, solve, q, qd, solve(model.without_loops, q, qd, tau, f_ext)).qdd

    def compute(*given: Any) -> Any:
        offers = (program(model, reference, *given) for program in _programs if auto)
        found = next((x for x in offers if x is not None), None)
        return reference(*given) if found is None else found

    return evaluate_for(model, compute, q=q, qd=qd, tau=tau, f_ext=f_ext)
