"""Friction that does not creep, in lanes: more turns of Newton's method, starting from the forces that were found.

The equations are those of constrain/noslip.py. When soft forces are found, all constraints keep them. In the following
turns normal forces and those of limits and equalities stay fixed. Friction is found again, each turn starting from the
forces of the one before, until a turn changes nothing. Lanes do not wait for one another.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._arrays import there

from ..cones import Cone, Response
from ..newton import below_rounding
from ..noslip import TURNS, cone_bounds, cone_grip, loss_grip
from .kinds import Kind, cone_of
from .memory import SIDES, Gripping, fixed, kept_forces, summed, totals
from .newton import Linked
from .parts import Part, fill, once, part
from .plan import Plan


def _dimension(kind: Kind) -> int:
    return kind.keeps[0].tree.num_leaves if kind.keeps else 1


def _cone(kind: Kind, elliptic: bool, known: Any, kept: tuple) -> Cone | None:
    """The cone of a contact with friction."""
    if kind.friction != "cone" or _dimension(kind) == 1:
        return None
    return cone_of(known, kept[2], elliptic)


def gripping(kind: Kind, elliptic: bool) -> Kind:
    """The kind with kept forces; in turns without slip its friction starts from these."""
    n, dim = len(kind.own), _dimension(kind)
    forces = there(kind.end)._replace(tree=jax.tree.structure((0.0,) * kept_forces(dim, kind.friction == "cone")))

    def gripped(known: Any, kept: tuple, w: tuple) -> Response:
        last, cone = kept[n][:dim], _cone(kind, elliptic, known, kept)
        if cone is not None:
            return cone_grip(cone, last, kept[n][dim:]).response(w)
        if kind.friction == "dry":
            return loss_grip(kept[0], known, last).response(w)
        zero = jnp.zeros_like(w[0])
        curvature = tuple((zero,) * (dim - k) for k in range(dim))
        return Response(last, curvature, last, jnp.zeros_like(zero, jnp.int32), jnp.zeros_like(zero, bool))

    def response(known: Any, kept: tuple, w: tuple) -> Response:
        on = kept[n + 1].on != 0
        both = gripped(known, kept, w), kind.response(known, kept[:n], w)
        return jax.tree.map(lambda a, b: jnp.where(on, a, b), *both)

    return kind._replace(
        own=(*kind.own, forces, fixed("gripping")),
        residual=lambda known, kept, m: kind.residual(known, kept[:n], m),
        response=response,
        load=lambda known, kept, H, g: kind.load(known, kept[:n], H, g),
        pull=lambda known, kept, f: kind.pull(known, kept[:n], f),
    )


def _keep_forces(kind: Kind, elliptic: bool) -> Part:
    """Keep the forces when a turn is over; of the soft ones also the friction that they allow."""
    n, dim = len(kind.own), _dimension(kind)
    forces, state = n - 2, n - 1

    def step(known, *reads):
        kept = reads[:n]
        w = kind.w(known, kept, reads[n:])
        r, cone = kind.response(known, kept, w), _cone(kind, elliptic, known, kept)
        bounds = kept[forces][dim:]
        if cone is not None:
            soft = kept[state].on == 0
            bounds = tuple(jnp.where(soft, a, b) for a, b in zip(cone_bounds(cone, w, r), bounds, strict=True))
        again, new = kept[state].again != 0, (*r.force, *bounds)
        return (tuple(jnp.where(again, a, b) for a, b in zip(new, kept[forces], strict=True)),)

    return kind.part(step, (*kind.own, *kind.now), (kind.own[forces],))


def _decide_turn() -> Part:
    """Decide if another turn follows: the last one is over, and it changed something."""

    def step(*reads):
        (h, size), settled, g = summed(reads[:SIDES]), *reads[SIDES:]
        still = (g.again != 0) & below_rounding(h, size)
        again = (settled != 0) & (g.turns > 0) & ~still
        zero = jnp.zeros_like(h)
        one = jnp.where(again, jnp.ones_like(h), zero)
        turns = jnp.where(still & (settled != 0), zero, g.turns - one)
        return (jnp.where(again, zero, settled), Gripping(g.on, one, turns))

    own = fixed("settled"), fixed("gripping")
    return part(Plan.totals, step, (*totals("norms"), *own), own, columns=SIDES)


def _after_first_turn() -> Part:
    """After the first turn."""
    own = (fixed("gripping"),)
    return part(once, lambda state: (state._replace(on=jnp.maximum(state.on, state.again)),), own, own)


def with_turns(linked: Linked, kinds: list[Kind], elliptic: bool) -> Linked:
    """The parts that such turns add to the rounds of kinds that grip."""
    kept = [_keep_forces(kind, elliptic) for kind in kinds]
    return linked._replace(
        begun=(fill(once, fixed("gripping"), values=(Gripping(0.0, 0.0, float(TURNS)),)),),
        judged=(_decide_turn(),),
        ended=[*linked.ended, *kept, _after_first_turn()],
    )
