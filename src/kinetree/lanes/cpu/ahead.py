"""Sines and cosines of many turns of a loop, computed ahead of the turns.

A turn that places a row needs the sine and cosine of its angle first, some hundred cycles of operations that wait for
each other, and they end in a branch, for large angles. What a turn loads before that branch it must keep on the stack.
So the angles of some turns, which depend on inputs and constants alone, go first, in a short loop: a core works on many
of them at once, and the turns that follow have no branch.
"""

from typing import Any

from jax.extend.core import Literal

from ..program.record import Equations, Step

TURNS = 32  # turns whose sines are computed together: 2 to 4 kB of a core's cache
SINES = {"sin", "cos"}
ANGLES = {"mul", "neg"}  # make angles of coordinates; a sum might be fused differently than in the step


def split(closed: Any, known: int) -> tuple[Step, Step] | None:
    """Split a step: first its sines and cosines, from its first arguments; then the rest, which takes them as inputs.

    None if no sine depends on the first `known` arguments alone.
    """
    jaxpr = closed.jaxpr
    sines = [e for e in jaxpr.eqns if e.primitive.name in SINES]
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    given = {*jaxpr.invars[:known], *jaxpr.constvars}
    first: list[Any] = list(sines)
    for e in first:  # The list grows meanwhile.
        wanted = [made.get(v) for v in e.invars if not isinstance(v, Literal) and v not in given]
        if any(x is None or x.primitive.name not in ANGLES for x in wanted):
            return None
        first += [x for x in wanted if x not in first]
    inside, angles = set(map(id, first)), {v for e in first[len(sines) :] for v in e.outvars}
    rest = [e for e in jaxpr.eqns if id(e) not in inside]
    later = [v for e in rest for v in e.invars] + list(jaxpr.outvars)
    if not sines or any(not isinstance(v, Literal) and v in angles for v in later):
        return None
    found = [e.outvars[0] for e in sines]
    ahead = [e for e in jaxpr.eqns if id(e) in inside]
    parts = (
        Equations(jaxpr.invars[:known], ahead, found, jaxpr.constvars),
        Equations([*jaxpr.invars, *found], rest, jaxpr.outvars, jaxpr.constvars),
    )
    return Step(parts[0], closed.consts), Step(parts[1], closed.consts)
