"""MuJoCo's constraint problem, minimised by Newton's method: each step is one sweep over a tree with heavier bodies.

    x = argmin ½ (x − a₀)ᵀ M (x − a₀) + Σ s_c(J_c x − a_ref,c)            (MuJoCo documentation, "Computation")
With H the curvature of the cost and g the constant part of the forces at the present x, the step goes to the solution
of (M + JᵀHJ) x_new = b + Jᵀg (sweeps.py). If no constraint changes its state on the way and none is curved, x_new is
the minimum and the iteration ends without a tolerance. Otherwise a search along the step follows: the cost along it is
convex and piecewise quadratic, and its slope needs only w and its change.

The first step is taken whole, without a search: the first x is a guess, and what counts of it is which constraints act.
(With rigid loops that step also closes them; all others keep them closed.)
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from kinetree._varying import custom_jvp, while_loop
from kinetree.dynamics.schedules.whole import Recursions
from kinetree.model import Coupling
from kinetree.spatial import Force, Motion, Scalar
from kinetree.tree import Layout, restore

from .cones import Response, Vector, dot, times, total
from .conjugate import solve_coupled
from .groups import Group, Load
from .mimic import mimic_inverse
from .rigid import Rigid, rigid_inverse
from .sweeps import Answer, TreeInverse
from .sweeps import times as times_tree

FULL_STEP_SLOPE = 0.3  # A full step is taken if the slope at its end is at most this part of the slope at its start.
SEARCH_SLOPE = 0.01  # A search ends where the slope is at most this part of the slope at its start.
SEARCH_STEPS = 30  # steps of a search; a bracket that is halved 30 times is 1e-9 of its first length
CURVED_POWER = 1.25  # power of the machine epsilon; below this Δᵀ A Δ / xᵀ A x the next step is below rounding


def below_rounding(h: Any, size: Any) -> Any:
    """True if the next step is below rounding, from Δᵀ A Δ and xᵀ A x. False if a norm overflows."""
    kind = jnp.finfo(size.dtype)
    return (h <= float(kind.eps) ** CURVED_POWER * size) & (size <= float(kind.max))


class FreeTree(NamedTuple):
    """The mechanism without constraints, by position."""

    laid: Recursions
    own: Load  # armatures, inertias, and M a₀: all forces but those of constraints
    rigid: Rigid | None = None  # loops

    @property
    def b(self) -> Scalar:
        """M a₀."""
        return self.own.force

    def under(self, load: Load) -> Load:
        """With a load of constraints."""
        return jax.tree.map(jnp.add, self.own, load)


class Solution(NamedTuple):
    """The result of Newton's method, by position, (positions, batch); counts are (batch,)."""

    x: Scalar
    w: tuple[Vector, ...]  # residuals of the groups
    multipliers: Scalar | None  # the forces λ of rigid loops, (m, batch)
    iterations: Scalar
    converged: Scalar


class _State(NamedTuple):
    x: Scalar
    w: tuple[Vector, ...]
    multipliers: Scalar | None
    iterations: Scalar
    done: Scalar


def _total(laid: Layout, shares: Scalar) -> Scalar:
    """The sum over the rows, (batch,)."""
    return total(restore(laid, shares))


def _load(tree: FreeTree, groups: list[Group], responses: list[Response]) -> Load:
    """The tree with the curvature and the constant forces of its own constraints."""
    load = Load.none(tree.b)
    for group, r in zip(groups, responses, strict=True):
        if not group.J.couples:
            load = group.load(load, r)
    return tree.under(load)


def _inverse(coupling: Coupling | None, tree: FreeTree, load: Load, rigid: Rigid | None) -> Any:
    inverse = TreeInverse(tree.laid, load) if coupling is None else mimic_inverse(tree.laid, coupling, load)
    return inverse if rigid is None else rigid_inverse(inverse, rigid)


def _coupled(groups: list[Group], values: Any) -> tuple[list[Group], list[Any]]:
    """The coupling groups, with their values of some lists."""
    both = [(g, v) for g, v in zip(groups, values, strict=True) if g.J.couples]
    return [g for g, _ in both], [v for _, v in both]


def _step(
    coupling: Coupling | None,
    tree: FreeTree,
    groups: list[Group],
    responses: list[Response],
    old: Scalar,
    skip: Scalar,
) -> tuple[Answer, Scalar]:
    """Newton's full step, and where it was found, (batch,); lanes in `skip` do not count."""
    inverse = _inverse(coupling, tree, _load(tree, groups, responses), tree.rigid)
    between, own = _coupled(groups, responses)
    if between:
        return solve_coupled(inverse, between, own, old, skip)
    return inverse.answer(old), jnp.ones_like(skip)


def residuals(groups: list[Group], x: Scalar, a: Motion) -> tuple[Vector, ...]:
    """w of every group."""
    return tuple(g.residual(x, a) for g in groups)


def respond(groups: list[Group], w: tuple[Vector, ...]) -> list[Response]:
    """The responses of every group."""
    return [g.response(own) for g, own in zip(groups, w, strict=True)]


def _power(responses: list[Response], dw: tuple[Vector, ...]) -> Scalar:
    """Σ force · Δw, (batch,)."""
    return sum(total(dot(r.force, d)) for r, d in zip(responses, dw, strict=True))  # type: ignore[return-value]


def _bending(responses: list[Response], dw: tuple[Vector, ...]) -> Scalar:
    """Σ Δwᵀ H Δw, (batch,)."""
    return sum(total(dot(times(r.curvature, d), d)) for r, d in zip(responses, dw, strict=True))  # type: ignore[return-value]


def _any(flags: list[Scalar]) -> Scalar:
    found = flags[0].any(0)
    for f in flags[1:]:
        found = found | f.any(0)
    return found


def _along(w: tuple[Vector, ...], dw: tuple[Vector, ...], alpha: Scalar) -> tuple[Vector, ...]:
    return jax.tree.map(lambda a, b: a + alpha * b, w, dw)


def _search(groups: list[Group], w: Any, dw: Any, start: Scalar, m1: Scalar, m2: Scalar, skip: Scalar) -> Scalar:
    """The length of the step: the zero of m1 + m2 α − Σ Δw · force(w + α Δw), by Newton's method within a bracket."""

    def slope(alpha: Scalar) -> tuple[Scalar, Scalar]:
        r = respond(groups, _along(w, dw, alpha))
        return m1 + m2 * alpha - _power(r, dw), m2 + _bending(r, dw)

    def unfinished(state: Any) -> Scalar:
        return (state[4] < SEARCH_STEPS) & ~state[3].all()

    def improve(state: Any) -> Any:
        alpha, low, high, done, count = state
        s, c = slope(alpha)
        low, high = jnp.where(s < 0, alpha, low), jnp.where(s < 0, high, alpha)
        to = alpha - s / c
        inside = (low < to) & (to < high)
        to = jnp.where(inside, to, jnp.where(jnp.isinf(high), 2 * alpha, 0.5 * (low + high)))
        found = jnp.abs(s) <= SEARCH_SLOPE * start
        return (
            jnp.where(done | found, alpha, to),
            *(jnp.where(done, a, b) for a, b in ((state[1], low), (state[2], high))),
            done | found,
            count + 1,
        )

    one = jnp.ones_like(start)
    first = (one, 0 * one, jnp.full_like(one, jnp.inf), skip, jnp.zeros((), jnp.int32))
    return while_loop(unfinished, improve, first)[0]


@partial(custom_jvp, nondiff_argnums=(0, 1))
def minimise(coupling: Coupling | None, most: int, tree: FreeTree, groups: list[Group], x: Scalar, w: Any) -> Solution:
    """The minimum, from a first guess x with its residuals w. Lanes that are done keep their x while others go on."""

    def unfinished(s: _State) -> Scalar:
        return ~s.done.all()

    def improve(s: _State) -> _State:
        responses = respond(groups, s.w)
        found, solved = _step(coupling, tree, groups, responses, s.x, s.done)
        h, size = _total(tree.laid, found.change_squared), _total(tree.laid, found.squared)
        full = residuals(groups, found.x, found.a)
        dw = jax.tree.map(jnp.subtract, full, s.w)
        ends = respond(groups, full)
        same = ~_any([a.state != b.state for a, b in zip(responses, ends, strict=True)])
        curved = _any([r.curved for r in ends])
        bent = _bending(responses, dw)
        if any(g.J.couples for g in groups):
            h = h + _bending(_coupled(groups, responses)[1], tuple(_coupled(groups, dw)[1]))
        settled = ((same & ~curved) | below_rounding(h, size)) & solved
        begin = _power(responses, dw)
        slope = begin - _power(ends, dw) - bent
        take = settled | (jnp.abs(slope) <= FULL_STEP_SLOPE * h) | s.done | (s.iterations == 0)
        alpha = _search(groups, s.w, dw, h, begin - h, h - bent, take)
        moved = jnp.where(take, found.x, s.x + alpha * found.dx)
        reached = jax.tree.map(lambda a, b: jnp.where(take, a, b), full, _along(s.w, dw, alpha))
        count = s.iterations + jnp.where(s.done, 0, 1).astype(jnp.int32)
        done = s.done
        return _State(
            jnp.where(done, s.x, moved),
            jax.tree.map(lambda a, b: jnp.where(done, a, b), s.w, reached),
            jax.tree.map(lambda a, b: jnp.where(done, a, b), s.multipliers, found.multipliers),
            count,
            done | settled | (count >= most),
        )

    counts = jnp.zeros(x.shape[-1], jnp.int32)
    if not groups:
        found, solved = _step(coupling, tree, groups, [], x, jnp.zeros_like(counts, bool))
        return Solution(found.x, (), found.multipliers, counts, solved)
    multipliers = None if tree.rigid is None else jnp.zeros_like(tree.rigid.ref)
    end = while_loop(unfinished, improve, _State(x, w, multipliers, counts, jnp.zeros_like(counts, bool)))
    return Solution(end.x, end.w, end.multipliers, end.iterations, end.iterations < most)


@minimise.defjvp
def _derivative(coupling: Coupling | None, most: int, primals: Any, tangents: Any) -> Any:
    """The derivative, by the implicit function theorem: ∂x = −(curvature)⁻¹ ∂(slope of the cost), one more solve."""
    found = minimise(coupling, most, *primals)
    tree, groups = primals[:2]

    def slope(tree: FreeTree, groups: list[Group], x: Scalar) -> Scalar:
        force = constraint_force(tree, groups, at_motion(tree, groups, x), found.multipliers)
        return times_tree(tree.laid, tree.own, x) - tree.b - force

    def opening(tree: FreeTree) -> Scalar | None:
        return None if tree.rigid is None else tree.rigid.of(found.x) - tree.rigid.ref

    _, change = jax.jvp(lambda tree, groups: (slope(tree, groups, found.x), opening(tree)), primals[:2], tangents[:2])
    right = jax.tree.map(jnp.negative, change)
    dx, multipliers = _curvature_inverse(coupling, tree, groups, found, partial(slope, tree, groups))(*right)
    _, dw = jax.jvp(at_motion, (tree, groups, found.x), (*tangents[:2], dx))
    none = map(SymbolicZero.from_primal_value, (found.iterations, found.converged))
    return found, Solution(dx, dw, multipliers, *none)


def _curvature_inverse(
    coupling: Coupling | None, tree: FreeTree, groups: list[Group], found: Solution, slope: Any
) -> Any:
    """x and λ of (M + JᵀHJ) x − Gᵀ λ = force, G x = gap at the minimum: a linear map of forces and gaps."""
    responses = respond(groups, found.w)
    load, bias = _load(tree, groups, responses), Force.zero_like(tree.b)
    between, own = _coupled(groups, responses)

    def inverse(force: Scalar, gap: Scalar | None) -> Any:
        rigid = None if tree.rigid is None or gap is None else tree.rigid.asking(gap)
        return _inverse(coupling, tree, Load(load.resistance, force, load.body._replace(bias=bias)), rigid)

    if not between and tree.rigid is None and tree.laid.transposes:
        return lambda force, gap: (_inverse(coupling, tree, load, None).kept().reply(force, bias).x, None)
    if not between and tree.rigid is not None:
        return _inverse(coupling, tree, load, tree.rigid).bordered
    still = [replace(g, ref=jax.tree.map(jnp.zeros_like, g.ref)) for g in between]
    idle = [jax.tree.map(jnp.zeros_like, (r.force, r.pull)) for r in own]
    own = [r._replace(force=f, pull=p) for r, (f, p) in zip(own, idle, strict=True)]

    def bend(x: Scalar) -> Scalar:
        return jax.jvp(slope, (found.x,), (x,))[1]

    def solve(_: Any, right: Scalar) -> Scalar:
        """x and −λ of (bend, Gᵀ; G, 0), which is symmetric; one above the other in one array."""
        force, gap = right[:n], None if tree.rigid is None else right[n:]
        loaded = inverse(force, gap)
        if not between:  # native walks of a huge tree can not be transposed, and need not, as the system is symmetric
            return loaded.reply(force, bias).x
        x = solve_coupled(loaded, still, own, jnp.zeros_like(force), jnp.zeros(force.shape[1], bool)).answer.x
        if gap is None:
            return x
        less = loaded.force(loaded.inner.reply(bend(x) - force, bias).x, jnp.zeros_like(gap))
        return jnp.concatenate([x, less])

    def bordered(unknown: Scalar) -> Scalar:
        x = unknown[:n]
        if tree.rigid is None:
            return bend(x)
        return jnp.concatenate([bend(x) + tree.rigid.put(unknown[n:]), tree.rigid.of(x)])

    def solved(force: Scalar, gap: Scalar | None) -> tuple[Scalar, Scalar | None]:
        right = force if gap is None else jnp.concatenate([force, gap])
        both = lax.custom_linear_solve(bordered, right, solve, symmetric=True)
        return both[:n], None if gap is None else -both[n:]

    n = len(tree.b)
    return solved


def constraint_force(
    tree: FreeTree,
    groups: list[Group],
    w: tuple[Vector, ...],
    loops: Scalar | None = None,
    inertial: bool = True,
) -> Scalar:
    """Jᵀ force, by position, with that of loops, if given; `inertial`: also with that of inertial groups."""
    load = Load.none(tree.b)
    for group, r in zip(groups, respond(groups, w), strict=True):
        if inertial or not group.inertial:
            load = group.pull(load, r.force)
    force = load.force if tree.rigid is None or loops is None else load.force + tree.rigid.put(loops)
    return force - tree.laid.transposed(load.body.bias)


def at_rest(tree: FreeTree, groups: list[Group]) -> tuple[Vector, ...]:
    """w without accelerations."""
    return residuals(groups, jnp.zeros_like(tree.b), Motion.zero_like(tree.b))


def at_motion(tree: FreeTree, groups: list[Group], x: Scalar) -> tuple[Vector, ...]:
    """w of accelerations x."""
    return residuals(groups, x, tree.laid.velocities(x))
