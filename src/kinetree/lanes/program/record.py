"""The equations of a step, recorded on scalars.

JAX takes 27 µs to trace one `a * b`: it calls `jnp.multiply`, traces its `jit`, and inlines the result. Steps have tens
of thousands of such operations. Here a value is our own tracer, and its operators write the equation at once. All other
functions run as JAX has them, and end in `process_primitive`. The equations are the same that JAX would make
(tests/lanes/test_record.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import local
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.core import ShapedArray, Trace, Tracer
from jax.extend.core import Literal, set_current_trace
from jax.extend.core.primitives import while_p


class Variable:
    """The value of an argument, or of a result of an equation."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


class Equation(NamedTuple):
    """A primitive with its operands and its results."""

    primitive: Any
    invars: list[Any]
    outvars: list[Variable]
    params: dict[str, Any]


class Equations(NamedTuple):
    """A jaxpr, or part of one, as emitters read it."""

    invars: list[Any]
    eqns: list[Any]
    outvars: list[Any]
    constvars: list[Any]


class Step(NamedTuple):
    """A closed jaxpr, or part of one."""

    jaxpr: Equations
    consts: list[Any]


class _Thread(local):
    """The innermost recorder of this thread."""

    recorder: "Recorder | None" = None


_now = _Thread()
_avals: dict[Any, tuple[Any, str]] = {}
TRUTH = ShapedArray((), np.dtype(bool))
KINDS = {"f": "f", "i": "i", "b": "b"}  # of NumPy types: real, integer, truth


def _known(aval: Any) -> tuple[Any, str]:
    """One object for all equal types, and the kind of a plain scalar; "" for arrays and weak types."""
    found = _avals.get(aval)
    if found is None:
        plain = aval.shape == () and not aval.weak_type
        found = _avals[aval] = aval, KINDS.get(aval.dtype.kind, "") if plain else ""
    return found


class Number(Tracer):
    """A value of a step that is being recorded; `atom` is a variable of its recorder, or a literal."""

    __slots__ = ("atom", "kind")

    def __init__(self, trace: Any, aval: Any, atom: Any):
        self._trace, self._line_info, self.atom = trace, None, atom
        self.aval, self.kind = _known(aval)

    def full_lower(self) -> Any:
        """The number itself, where it is known."""
        return self.atom.val if isinstance(self.atom, Literal) else self


class Recorder(Trace):
    """Records the operations on its own numbers, and on those of the recorders around it."""

    __slots__ = ("equations", "taken")

    def __init__(self) -> None:
        super().__init__()
        self.equations: list[Equation] = []
        self.taken: dict[int, tuple[Number, Variable]] = {}  # numbers of outer recorders that are used here

    # -- values -------------------------------------------------------------------------------------------------------

    def atom(self, x: Any) -> Any:
        """The variable or literal of a value."""
        if type(x) is Number:
            if x._trace is self or isinstance(x.atom, Literal):
                return x.atom
            _, found = self.taken.setdefault(id(x.atom), (x, Variable(x.aval)))
            return found
        return Literal(x, _known(jax.typeof(x))[0])

    def stage_value(self, val: Any) -> Any:
        """A value as one of this recorder."""
        atom = self.atom(val)
        return val if type(val) is Number and val._trace is self else Number(self, atom.aval, atom)

    def argument(self, aval: Any) -> Number:
        """A new argument."""
        return Number(self, aval, Variable(aval))

    def write(self, primitive: Any, atoms: list[Any], aval: Any, params: dict[str, Any]) -> Number:
        """An equation with one result."""
        made = Variable(aval)
        self.equations.append(Equation(primitive, atoms, [made], params))
        return Number(self, aval, made)

    # -- what JAX calls -----------------------------------------------------------------------------------------------

    def process_primitive(self, primitive: Any, tracers: Any, params: dict[str, Any], /) -> Any:
        """Record an equation, or those of a function that JAX marks as inline."""
        if params.get("inline") and "jaxpr" in params:
            return self._inlined(params["jaxpr"], tracers)
        atoms = [self.atom(x) for x in tracers]
        outs = _results_of(primitive, tuple(x.aval for x in atoms), params)
        made = self._equation(primitive, atoms, outs, params)
        return made if primitive.multiple_results else made[0]

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, *, symbolic_zeros: Any
    ) -> Any:
        """The function itself: derivatives of steps are taken before they are recorded."""
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, *, out_trees: Any, symbolic_zeros: Any
    ) -> Any:
        """The function itself."""
        return fun.call_wrapped(*tracers)

    def _equation(self, primitive: Any, atoms: list[Any], avals: Any, params: dict[str, Any]) -> list[Any]:
        """Record an equation. Conversions of known numbers, and to the same type, need none."""
        name = primitive.name
        if name == "convert_element_type":
            (atom,), (aval,) = atoms, avals
            if isinstance(atom, Literal) and np.shape(atom.val) == ():
                return [Number(self, aval, Literal(np.asarray(atom.val).astype(aval.dtype)[()], aval))]
            if atom.aval is aval:
                return [Number(self, aval, atom)]
        if name == "broadcast_in_dim" and len(atoms) == 1 and params["shape"] == atoms[0].aval.shape:
            return [Number(self, atoms[0].aval, atoms[0])]
        variables = [Variable(aval) for aval in avals]
        self.equations.append(Equation(primitive, atoms, variables, params))
        return [Number(self, v.aval, v) for v in variables]

    def _inlined(self, closed: Any, given: Any) -> list[Any]:
        """The results of a jaxpr on these values."""
        jaxpr = closed.jaxpr
        known = dict(zip(jaxpr.constvars, map(self.stage_value, closed.consts), strict=True))
        known.update(zip(jaxpr.invars, map(self.stage_value, given), strict=True))

        def value(v: Any) -> Any:
            return Number(self, v.aval, v) if isinstance(v, Literal) else known[v]

        for e in jaxpr.eqns:
            if e.params.get("inline") and "jaxpr" in e.params:
                made = self._inlined(e.params["jaxpr"], [value(v) for v in e.invars])
            else:
                atoms = [value(v).atom for v in e.invars]
                made = self._equation(e.primitive, atoms, [_known(v.aval)[0] for v in e.outvars], e.params)
            known.update(zip(e.outvars, made, strict=True))
        return [value(v) for v in jaxpr.outvars]


def _results_of(primitive: Any, avals: tuple[Any, ...], params: dict[str, Any]) -> list[Any]:
    """Types of the results of a primitive."""
    try:
        return _found_once(primitive, avals, tuple(params.items()))
    except TypeError:  # a parameter that can not be hashed
        return _found_once.__wrapped__(primitive, avals, tuple(params.items()))


@lru_cache(1024)
def _found_once(primitive: Any, avals: tuple[Any, ...], params: tuple[tuple[str, Any], ...]) -> list[Any]:
    out = primitive.abstract_eval(*avals, **dict(params))[0]
    return [_known(aval)[0] for aval in (out if primitive.multiple_results else [out])]


@contextmanager
def _recorder() -> Iterator[Recorder]:
    """A recorder of all operations in this thread."""
    before, own = _now.recorder, Recorder()
    _now.recorder = own
    try:
        with set_current_trace(own):
            yield own
    finally:
        _now.recorder = before


@contextmanager
def _tracing() -> Iterator[None]:
    """Trace in 64 bits, so that literals are not rounded to float32, and outside any mesh of devices."""
    with jax.enable_x64(True), jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        yield


def recorded(function: Callable[..., Any], *examples: Any) -> Step:
    """The equations of a function of scalars and arrays of these types."""
    leaves, tree = jax.tree.flatten(examples)
    with _tracing(), _recorder() as own:
        given = [own.argument(_known(ShapedArray(x.shape, np.dtype(x.dtype)))[0]) for x in leaves]
        found = function(*jax.tree.unflatten(tree, given))
        made = [own.atom(x) for x in jax.tree.leaves(found)]
    return Step(Equations([x.atom for x in given], own.equations, made, []), [])


# -- loops within a step ----------------------------------------------------------------------------------------------


def while_loop(goes: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
    """`lax.while_loop`; its two functions are recorded, too."""
    leaves, tree = jax.tree.flatten(state)
    around = _now.recorder
    if around is None or not all(type(x) is Number for x in leaves):
        return lax.while_loop(goes, body, state)
    avals = [x.aval for x in leaves]
    tests, turns = (_inner(f, tree, avals) for f in (goes, body))
    if [v.aval for v in turns.found] != avals or len(tests.found) != 1 or tests.found[0].aval != TRUTH:
        return lax.while_loop(goes, body, state)  # JAX converts the types, or raises its own error.
    needed = _needed(tests.equations, tests.found)
    kept = [k for k, v in enumerate(tests.given) if turns.found[k] is not turns.given[k] or v in needed]
    fixed = [k for k in range(len(leaves)) if k not in kept]
    known = [around.atom(x) for x, _ in tests.taken], [around.atom(leaves[k]) for k in fixed]
    inside = [around.atom(x) for x, _ in turns.taken]
    one = [v for _, v in tests.taken] + [tests.given[k] for k in kept]
    two = [turns.given[k] for k in fixed] + [v for _, v in turns.taken] + [turns.given[k] for k in kept]
    params = {
        "cond_nconsts": len(known[0]),
        "body_nconsts": len(fixed) + len(inside),
        "cond_jaxpr": Step(Equations(one, tests.equations, tests.found, []), []),
        "body_jaxpr": Step(Equations(two, turns.equations, [turns.found[k] for k in kept], []), []),
    }
    operands = [*known[0], *known[1], *inside, *(around.atom(leaves[k]) for k in kept)]
    results = [Variable(avals[k]) for k in kept]
    around.equations.append(Equation(while_p, operands, results, params))
    made = dict(zip(kept, (Number(around, v.aval, v) for v in results), strict=True))
    return jax.tree.unflatten(tree, [made.get(k, x) for k, x in enumerate(leaves)])


class _Inner(NamedTuple):
    """A recorded function of a loop: its arguments, numbers from outside, equations and results."""

    given: list[Variable]
    taken: list[tuple[Number, Variable]]
    equations: list[Equation]
    found: list[Any]


def _inner(function: Callable[[Any], Any], tree: Any, avals: list[Any]) -> _Inner:
    with _recorder() as own:
        given = [own.argument(aval) for aval in avals]
        found = [own.atom(x) for x in jax.tree.leaves(function(jax.tree.unflatten(tree, given)))]
    return _Inner([x.atom for x in given], list(own.taken.values()), own.equations, found)


def _needed(equations: list[Equation], found: list[Any]) -> set[Any]:
    """Variables that results depend on."""
    needed = {v for v in found if not isinstance(v, Literal)}
    for e in reversed(equations):
        if not needed.isdisjoint(e.outvars):
            needed.update(v for v in e.invars if not isinstance(v, Literal))
    return needed


# -- operators --------------------------------------------------------------------------------------------------------


def _operator(name: str, primitive: Any, kinds: str, aval: Any = None, turned: bool = False) -> None:
    """Record an operator on two plain scalars of one type, or on one and a Python number; JAX does the others."""
    own_way = getattr(Tracer, name)
    own = {"f": (float, int), "i": (int,)}

    def operator(a: Number, b: Any) -> Any:
        kind, to = a.kind, _now.recorder
        if kind and kind in kinds and to is not None:
            x = to.atom(a)
            if type(b) is Number and b.aval is a.aval:
                y = to.atom(b)
            elif type(b) in own.get(kind, ()):
                y = Literal(a.dtype.type(b), a.aval)
            else:
                return own_way(a, b)
            return to.write(primitive, [y, x] if turned else [x, y], aval or a.aval, {})
        return own_way(a, b)

    operator.__name__ = name
    setattr(Number, name, operator)


def _sign(name: str, primitive: Any, kinds: str) -> None:
    own_way = getattr(Tracer, name)

    def operator(a: Number) -> Any:
        kind, to = a.kind, _now.recorder
        if kind and kind in kinds and to is not None:
            return to.write(primitive, [to.atom(a)], a.aval, {})
        return own_way(a)

    setattr(Number, name, operator)


for _name, _primitive in {"add": lax.add_p, "sub": lax.sub_p, "mul": lax.mul_p}.items():
    _operator(f"__{_name}__", _primitive, "fi")
    _operator(f"__r{_name}__", _primitive, "fi", turned=True)
_operator("__truediv__", lax.div_p, "f")
_operator("__rtruediv__", lax.div_p, "f", turned=True)
_compared = {"lt": lax.lt_p, "le": lax.le_p, "gt": lax.gt_p, "ge": lax.ge_p, "eq": lax.eq_p, "ne": lax.ne_p}
for _name, _primitive in _compared.items():
    _operator(f"__{_name}__", _primitive, "fi", TRUTH)
for _name, _primitive in {"and": lax.and_p, "or": lax.or_p}.items():
    _operator(f"__{_name}__", _primitive, "b")
_sign("__neg__", lax.neg_p, "fi")
_sign("__invert__", lax.not_p, "b")
