"""The equations of steps are those that JAX itself would find."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from kinetree.lanes.llvm.emit import Emitter, trace
from kinetree.lanes.program.alone import counted, get, once, put, room, while_loop
from kinetree.lanes.program.derivative import adjoint_program, tangent_program
from kinetree.lanes.program.record import Number, recorded
from tests.dynamics.programs import aba_lanes

REAL, SINGLE, WHOLE, TRUTH = (jax.ShapeDtypeStruct((), t) for t in ("float64", "float32", "int64", "bool"))


def jax_finds(function, *examples):
    return jax.make_jaxpr(lambda *a: jax.tree.leaves(function(*a)))(*examples)


def text(closed, dtype=np.float64):
    """What an emitter makes of a step."""
    to = Emitter(1, dtype)
    to.begin("void @step()")
    found = to.jaxpr(closed, [f"%a{k}" for k in range(len(closed.jaxpr.invars))])
    return [*to.lines, *map(str, found)]


def same(function, *examples):
    ours = recorded(function, *examples)
    assert text(ours) == text(jax_finds(function, *examples))
    return ours


PAIRS = {
    "real": (REAL, REAL),
    "single": (SINGLE, SINGLE),
    "whole": (WHOLE, WHOLE),
    "Python's": (REAL, 0.3),
    "whole Python's": (REAL, 3),
    "whole and Python's": (WHOLE, 3),
    "NumPy's": (REAL, np.float64(0.3)),
}
OPERATORS = ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne")


@pytest.mark.parametrize("pair", PAIRS)
def test_operators(pair):
    a, b = PAIRS[pair]
    for name in OPERATORS:
        of = getattr(operator, name)
        if isinstance(b, jax.ShapeDtypeStruct):
            same(of, a, b)
        else:
            same(lambda x, of=of: (of(x, b), of(b, x)), a)


def test_truths_and_signs():
    same(lambda a, b: (a & b, a | b, ~a, a == b), TRUTH, TRUTH)
    same(lambda a: (-a, abs(a), a**2, +a), REAL)
    same(lambda a: (-a, a & 3, a | a), WHOLE)
    same(lambda a, b: a * jnp.where(b, 1.0, a), REAL, TRUTH)


def test_types_are_mixed_as_strictly():
    for a, b in ((REAL, SINGLE), (REAL, WHOLE)):
        with pytest.raises(ValueError, match="promotion"):
            recorded(operator.mul, a, b)


def test_numbers_are_what_steps_work_on():
    """Without this the other tests would compare JAX with itself."""
    seen = []
    recorded(lambda a: seen.append(a) or a + 1.0, REAL)
    assert [type(x) for x in seen] == [Number]


def test_functions_of_jax():
    def step(a, b):
        swapped = lax.select(a > b, a, b)
        return (
            jnp.sqrt(a) + jnp.sin(b),
            jnp.where(a > b, a * b, -b) + 1.0,
            jnp.maximum(a, 0.0) * swapped,
            jnp.zeros_like(a),
        )

    same(step, REAL, REAL)
    same(lambda a: jax.jit(lambda x: x * x + 1.0)(a) + a * a, REAL)


def test_constants():
    kept, one = jnp.asarray(3.0), np.asarray(2.0)
    same(lambda a: (a * kept, a + one, jnp.asarray(1.5) * a, kept), REAL)


def test_derivatives_within_a_step():
    def inner(a, b):
        return jnp.sin(a) * b + jnp.where(a > b, a * a, b / a)

    same(lambda a, b, c: jax.jvp(inner, (a, b), (c, 2.0 * c)), REAL, REAL, REAL)
    same(lambda a, b, c: jax.vjp(inner, a, b)[1](c), REAL, REAL, REAL)


def test_loops():
    """What is carried along unchanged, what comes from outside, from further outside, and loops within loops."""

    def step(a, n):
        fixed = a * 2.0

        def turn(k, s):
            x, y, kept = s
            y = counted(n, lambda _, z: z * fixed + x, y)
            return x + kept * fixed, y, kept

        x, y, kept = counted(n, turn, (a, a + 1.0, a * 3.0))
        z = once(x > y, lambda s: s + x * fixed, y)
        return x, y + 1.0, kept, while_loop(lambda s: s[0] < s[1], lambda s: (s[0] + a, s[1]), (z, a))

    same(step, REAL, WHOLE)


def test_arrays():
    def step(a, n):
        memory = put(room(4, a), n, a * a)
        memory = counted(n, lambda k, m: put(m, k, get(m, k) + a), memory)
        return get(memory, n)

    same(step, REAL, WHOLE)


def test_a_loop_that_changes_a_type_is_refused_by_jax():
    with pytest.raises(TypeError, match="carry"):
        recorded(lambda a: while_loop(lambda s: s < 1.0, lambda s: s > 2.0, a), REAL)


def test_a_loop_begins_with_numbers_of_python():
    same(lambda a: while_loop(lambda s: s[0] < a, lambda s: (s[0] + 1.0, s[1] * a), (0.0, a)), REAL)


@pytest.mark.parametrize("kind", ["itself", "tangents", "adjoints"])
def test_programs(kind):
    program = aba_lanes(False, False, hinges=True).program
    program = {"itself": lambda p, _: p, "tangents": tangent_program, "adjoints": adjoint_program}[kind](program, True)
    for loop in program.loops:
        ours = trace(loop, np.dtype(np.float64))
        scalar = jax.ShapeDtypeStruct((), np.float64)

        def like(tree, scalar=scalar):
            return jax.tree.unflatten(tree, [scalar] * tree.num_leaves)

        theirs = jax_finds(
            loop.step, like(loop.constants), (scalar,) * len(loop.inputs), tuple(like(s.tree) for s in loop.reads)
        )
        assert text(ours) == text(theirs)
