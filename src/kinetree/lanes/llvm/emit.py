"""From the jaxpr of a step to LLVM text: straight-line code on scalars, or on vectors of lanes.

One emitter serves all targets. A product that is used once, in a sum, becomes one explicit fused multiply-add. Nothing
else may be contracted or reordered, so a CPU vector, a CPU scalar and a GPU thread compute the same bits. LLVM must
keep arithmetic with zeros and ones, because of signed zeros and infinities. Here it is left out, and so is the branch
that a known condition does not take: a screw's axis has four zeros, and a program for one robot knows which row is a
hinge. Loops and arrays within a step are in alone.py.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from ..program.program import POOL, Loop
from ..program.record import recorded
from .alone import ARRAYS, is_room, last_uses, new_room, on_arrays
from .elementary import call
from .text import Text

INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}
AS_IT_IS = {"broadcast_in_dim", "reshape", "squeeze", "copy", "copy_p", "stop_gradient", "optimization_barrier"}
SUMS = ("add", "sub", "add_any")
COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "max": "maximum", "min": "minimum"}


class UnknownPrimitive(Exception):
    """Native code can not run this step; XLA can."""


def trace(loop: Loop, dtype: Any) -> Any:
    """The equations of a step on scalars: constants, inputs and read slots in; writes, adds and outputs out.

    A pool comes after the constants.
    """
    scalar = jax.ShapeDtypeStruct((), dtype)
    pool = jax.ShapeDtypeStruct((POOL,), dtype)

    def like(tree: Any) -> Any:
        return jax.tree.unflatten(tree, [scalar] * tree.num_leaves)

    return recorded(
        loop.step,
        (like(loop.constants), pool) if loop.pool else like(loop.constants),
        (scalar,) * len(loop.inputs),
        tuple(like(s.tree) for s in loop.reads),
    )


class Product:
    """A product that is not computed yet: it may become part of a fused multiply-add."""

    def __init__(self, a: str, b: str):
        self.a, self.b = a, b


class Late:
    """A value in memory. It is loaded again for each sum and product, so that it occupies no register.

    If it is `kept`, it is loaded once and stays in a register.
    """

    def __init__(self, load: Callable[[], str]):
        self.load, self.kept = load, False


class Evaluation:
    """The equations of a closed jaxpr, emitted one by one, each after the equations that it needs."""

    def __init__(self, to: "Emitter", closed: Any, args: list[Any]):
        jaxpr = closed.jaxpr
        self.to, self.eqns = to, jaxpr.eqns
        self.uses = Counter(v for e in jaxpr.eqns for v in e.invars if not isinstance(v, Literal))
        self.uses.update(v for v in jaxpr.outvars if not isinstance(v, Literal))
        self.sums = {v for e in jaxpr.eqns if e.primitive.name in SUMS for v in e.invars if not isinstance(v, Literal)}
        self.last = last_uses(jaxpr)
        self.known: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True):
            self.known[v] = to.literal(np.asarray(c).item(), v.aval)

    def value(self, v: Any) -> Any:
        """The value of a variable, or its product if that is not computed yet."""
        if isinstance(v, Literal):
            return self.to.literal(v.val, v.aval)
        if isinstance(self.known[v], Late) and self.known[v].kept:
            self.settle(v)
        found = self.known[v]
        return found.load() if isinstance(found, Late) else found

    def computed(self, v: Any) -> Any:
        """The value of a variable."""
        found = self.value(v)
        return self.to.arithmetic("fmul", found.a, found.b) if isinstance(found, Product) else found

    def settle(self, v: Any) -> None:
        """Load a late value once, for all later uses."""
        if not isinstance(v, Literal) and isinstance(self.known[v], Late):
            self.known[v] = self.known[v].load()

    def do(self, number: int) -> None:
        """Emit an equation."""
        to, e, known = self.to, self.eqns[number], self.known
        name = e.primitive.name
        if not e.outvars:
            return
        out = e.outvars[0]
        if name == "broadcast_in_dim" and is_room(out.aval) and e.invars[0].aval.shape == ():
            known[out] = new_room(to, out.aval, self.computed(e.invars[0]))
            return
        if name in AS_IT_IS and is_room(e.invars[0].aval):
            known[out] = self.value(e.invars[0])._replace(fixed=True)
            return
        if name == "slice" and isinstance(self.known.get(e.invars[0]), list):
            known[out] = known[e.invars[0]][e.params["start_indices"][0]]
            return
        if name in ARRAYS or (name not in INLINED and any(is_room(v.aval) for v in e.outvars)):
            found = [self.computed(v) for v in e.invars]
            made = on_arrays(to, e, found, lambda v: self.last.get(v, number) <= number, UnknownPrimitive)
            known.update(zip(e.outvars, made, strict=True))
            return
        floating = np.issubdtype(out.aval.dtype, np.floating)
        if name == "mul" and floating and self.uses[out] == 1 and out in self.sums:
            known[out] = Product(self.computed(e.invars[0]), self.computed(e.invars[1]))
        elif name in SUMS and floating:
            known[out] = to.sum(name == "sub", *map(self.value, e.invars))
        elif name in INLINED:
            inner = e.params.get("jaxpr") or e.params.get("call_jaxpr") or e.params["fun_jaxpr"]
            inner = inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())
            known.update(zip(e.outvars, to.jaxpr(inner, [self.computed(v) for v in e.invars]), strict=True))
        else:
            if name != "mul":
                for v in e.invars:
                    self.settle(v)
            known[out] = to.primitive(e, [self.computed(v) for v in e.invars])


class Emitter(Text):
    """Emits jaxprs on `width` lanes at a time; width 1 is plain scalars."""

    def __init__(self, width: int, dtype: Any):
        super().__init__()
        self.width, self.dtype = width, np.dtype(dtype)
        self.bits = 8 * self.dtype.itemsize
        self.scalar = "double" if self.bits == 64 else "float"
        self.real, self.integer, self.truth = (self.vector(t) for t in (self.scalar, f"i{self.bits}", "i1"))
        self.called: set[str] = set()  # functions that the module must define
        self.mask = ""  # the lanes that take part; empty: all do
        self.trips: dict[str, str] = {}  # numbers of turns of loops within a step, and the same as scalars
        self.rooms: set[str] = set()  # arrays on the stack
        self.rooms_used: dict[tuple[int, str], int] = {}  # arrays used since the turn began, by size and type
        self._sincos: dict[str, tuple[str, ...]] = {}
        self._literals: dict[str, float] = {}
        self._wholes: dict[str, int] = {}

    def vector(self, kind: str) -> str:
        """The type of a vector with one `kind` for each lane."""
        return kind if self.width == 1 else f"<{self.width} x {kind}>"

    def splat(self, kind: str, literal: str) -> str:
        """A literal, the same in every lane."""
        return literal if self.width == 1 else "<" + ", ".join([f"{kind} {literal}"] * self.width) + ">"

    def number(self, x: float) -> str:
        """A real literal."""
        exact = float(np.float32(x)) if self.bits == 32 else float(x)
        literal = self.splat(self.scalar, f"0x{np.float64(exact).view(np.uint64):016X}")
        self._literals[literal] = exact
        return literal

    def whole(self, x: int) -> str:
        """An integer literal, as wide as a real."""
        literal = self.splat(f"i{self.bits}", str(x))
        self._wholes[literal] = x
        return literal

    def known_whole(self, literal: Any) -> int | None:
        """The integer of a literal; None if it is no literal."""
        return self._wholes.get(literal) if isinstance(literal, str) else None

    def broadcast(self, value: str, kind: str = "") -> str:
        """A scalar, a real one unless another kind is named, the same in every lane."""
        if self.width == 1:
            return value
        kind = kind or self.scalar
        whole = self.vector(kind)
        first = self.op(f"insertelement {whole} poison, {kind} {value}, i32 0")
        return self.op(f"shufflevector {whole} {first}, {whole} poison, <{self.width} x i32> zeroinitializer")

    def intrinsic(self, name: str, *args: str) -> str:
        """A call of llvm.name on reals."""
        suffix = f"f{self.bits}" if self.width == 1 else f"v{self.width}f{self.bits}"
        self.declare(f"{self.real} @llvm.{name}.{suffix}({', '.join([self.real] * len(args))})")
        return self.op(f"call {self.real} @llvm.{name}.{suffix}({', '.join(f'{self.real} {a}' for a in args)})")

    def arithmetic(self, name: str, a: str, b: str) -> str:
        """fadd, fsub, fmul or fdiv; no instruction if a known zero or one makes it trivial."""
        x, y = self._literals.get(a), self._literals.get(b)
        if name == "fmul":
            if x == 0 or y == 0:
                return self.number(0.0)
            if x in (1, -1):
                return b if x == 1 else self.negative(b)
            if y in (1, -1):
                return a if y == 1 else self.negative(a)
        if name in ("fadd", "fsub") and y == 0:
            return a
        if name in ("fadd", "fsub") and x == 0:
            return b if name == "fadd" else self.negative(b)
        return self.op(f"{name} {self.real} {a}, {b}")

    def negative(self, a: str) -> str:
        """−a."""
        return self.number(-self._literals[a]) if a in self._literals else self.op(f"fneg {self.real} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a b + c, rounded once."""
        if self._literals.get(c) == 0:
            return self.arithmetic("fmul", a, b)
        if any(self._literals.get(x) in (0, 1, -1) for x in (a, b)):
            return self.arithmetic("fadd", self.arithmetic("fmul", a, b), c)
        return self.intrinsic("fma", a, b, c)

    def series(self, z: str, coefficients: Sequence[float], number: Callable[[float], str] | None = None) -> str:
        """A polynomial, by Horner's rule. `number` makes the operands of numbers, literals if it is not given."""
        number = number or self.number
        result = number(coefficients[-1])
        for c in coefficients[-2::-1]:
            result = self.fma(result, z, number(c))
        return result

    def any(self, truths: str) -> str:
        """True if the truth holds in one lane or more."""
        if self.width == 1:
            return truths
        self.declare(f"i1 @llvm.vector.reduce.or.v{self.width}i1(<{self.width} x i1>)")
        return self.op(f"call i1 @llvm.vector.reduce.or.v{self.width}i1({self.truth} {truths})")

    def sincos_of(self, x: str) -> tuple[str, ...]:
        """Sine and cosine, computed together, once for each argument."""
        if x not in self._sincos:
            self._sincos[x] = call(self, "sincos", 2, x)
        return self._sincos[x]

    def begin_block(self) -> Any:
        """Forget values computed in another block. Returns the values known so far, for `restore`."""
        known, self._sincos = self._sincos, {}
        return known

    def restore(self, known: Any) -> None:
        """After a nested block: restore the values known before it."""
        self._sincos = known

    # -- jaxprs --------------------------------------------------------------------------------------------------------

    def jaxpr(self, closed: Any, args: list[Any]) -> list[Any]:
        """Emit a closed jaxpr on these values, reals or arrays (`Room`); return its results."""
        work = Evaluation(self, closed, args)
        for number in range(len(closed.jaxpr.eqns)):
            work.do(number)
        return [work.computed(v) for v in closed.jaxpr.outvars]

    def sum(self, subtract: bool, a: Any, b: Any) -> str:
        """A sum or difference of values, either of which may be a product."""
        if isinstance(a, Product):
            if isinstance(b, Product):
                b = self.arithmetic("fmul", b.a, b.b)
            return self.fma(a.a, a.b, self.negative(b) if subtract else b)
        if isinstance(b, Product):
            return self.fma(self.negative(b.a) if subtract else b.a, b.b, a)
        return self.arithmetic("fsub" if subtract else "fadd", a, b)

    def literal(self, value: Any, aval: Any) -> str:
        """A number or truth of a jaxpr."""
        if aval.dtype == np.bool_:
            return self.splat("i1", str(int(bool(value))))
        if np.issubdtype(aval.dtype, np.integer):
            return self.whole(int(value))
        return self.number(float(value))

    def kind_of(self, aval: Any) -> str:
        """The type of a value in all lanes."""
        if np.issubdtype(aval.dtype, np.floating):
            return self.real
        return self.truth if aval.dtype == np.bool_ else self.integer

    def primitive(self, e: Any, a: list[str]) -> str:
        """The result of an equation of a jaxpr on these values."""
        name = e.primitive.name
        kind = self.kind_of(e.invars[0].aval)
        floating = kind == self.real
        if name in AS_IT_IS:
            return a[0]
        if name in ("add", "sub", "mul"):
            return self.arithmetic(f"f{name}", *a) if floating else self.op(f"{name} {kind} {a[0]}, {a[1]}")
        if name == "div" and floating:
            return self.arithmetic("fdiv", *a)
        if name == "neg":
            return self.negative(a[0]) if floating else self.op(f"sub {kind} {self.whole(0)}, {a[0]}")
        if name in ("sin", "cos"):
            return self.sincos_of(a[0])[name == "cos"]
        if name == "tan":
            return self.arithmetic("fdiv", *self.sincos_of(a[0]))
        if name in ("exp", "log", "pow", "atan2"):
            return call(self, name, 1, *a)[0]
        if name in ("acos", "asin", "atan"):
            return self._arc(name, a[0])
        if name in INTRINSICS and floating:
            return self.intrinsic(INTRINSICS[name], *a)
        if name in ("max", "min") and kind == self.integer:
            first = self._compare("gt" if name == "max" else "lt", kind, *a)
            return self.op(f"select {self.truth} {first}, {kind} {a[0]}, {kind} {a[1]}")
        if name == "clamp" and floating:
            return self.intrinsic("minimum", self.intrinsic("maximum", a[1], a[0]), a[2])
        if name == "round":
            return self.intrinsic("roundeven" if int(e.params["rounding_method"]) else "round", a[0])
        if name == "is_finite":
            return self._compare("lt", kind, self.intrinsic("fabs", a[0]), self.number(np.inf))
        if name == "rsqrt":
            return self.arithmetic("fdiv", self.number(1.0), self.intrinsic("sqrt", a[0]))
        if name == "square":
            return self.arithmetic("fmul", a[0], a[0])
        if name == "integer_pow":
            return self._power(a[0], e.params["y"])
        if name == "sign" and floating:
            one = self.intrinsic("copysign", self.number(1.0), a[0])
            return self.op(
                f"select {self.truth} {self._compare('ne', kind, a[0], self.number(0.0))}, {kind} {one}, {kind} {a[0]}"
            )
        if name in COMPARISONS:
            return self._compare(name, kind, *a)
        if name in ("and", "or") and kind == self.truth:
            for one, other in (a, a[::-1]):
                if self._known(one) is not None:
                    return other if self._known(one) == (name == "and") else one
        if name in ("and", "or", "xor") and not floating:
            return self.op(f"{name} {kind} {a[0]}, {a[1]}")
        if name == "not":
            return self.op(f"xor {kind} {a[0]}, {self.splat('i1', '1') if kind == self.truth else self.whole(-1)}")
        if name == "select_n" and kind == self.truth and len(a) == 3:
            chosen, known = self.kind_of(e.invars[1].aval), self._known(a[0])
            if known is not None:
                return a[1 + known]
            return self.op(f"select {self.truth} {a[0]}, {chosen} {a[2]}, {chosen} {a[1]}")
        if name == "convert_element_type":
            return self._convert(a[0], e.invars[0].aval, e.outvars[0].aval)
        raise UnknownPrimitive(f"the native bodies do not know {name}")

    def _known(self, truth: str) -> bool | None:
        """The truth if it is a literal, else None."""
        return {self.splat("i1", str(int(value))): value for value in (False, True)}.get(truth)

    def _compare(self, name: str, kind: str, a: str, b: str) -> str:
        if name == "eq" and kind == self.real and {a, b} <= self._literals.keys():
            return self.splat("i1", str(int(self._literals[a] == self._literals[b])))
        if kind == self.real:
            return self.op(f"fcmp {'une' if name == 'ne' else 'o' + name} {kind} {a}, {b}")
        signed = name if name in ("eq", "ne") else f"s{name}"
        return self.op(f"icmp {signed} {kind} {a}, {b}")

    def _arc(self, name: str, x: str) -> str:
        """Inverse of a sine, cosine or tangent; NaN beyond ±1 for the first two."""
        one = self.number(1.0)
        if name == "atan":
            return call(self, "atan2", 1, x, one)[0]
        below, above = self.arithmetic("fsub", one, x), self.arithmetic("fadd", one, x)
        if name == "asin":
            return call(self, "atan2", 1, x, self.intrinsic("sqrt", self.arithmetic("fmul", below, above)))[0]
        half = call(self, "atan2", 1, self.intrinsic("sqrt", below), self.intrinsic("sqrt", above))[0]
        return self.arithmetic("fadd", half, half)

    def _power(self, base: str, exponent: int) -> str:
        result, remaining = None, abs(exponent)
        while remaining:
            if remaining & 1:
                result = base if result is None else self.arithmetic("fmul", result, base)
            remaining >>= 1
            if remaining:
                base = self.arithmetic("fmul", base, base)
        result = self.number(1.0) if result is None else result
        return self.arithmetic("fdiv", self.number(1.0), result) if exponent < 0 else result

    def _convert(self, a: str, source: Any, target: Any) -> str:
        have, want = self.kind_of(source), self.kind_of(target)
        if have == want:
            return a
        if want == self.real and a in self._wholes:
            return self.number(self._wholes[a])
        if want == self.real:
            return self.op(f"{'uitofp' if have == self.truth else 'sitofp'} {have} {a} to {want}")
        if want == self.truth:
            return self._compare("ne", have, a, self.number(0.0) if have == self.real else self.whole(0))
        return self.op(f"{'fptosi' if have == self.real else 'zext'} {have} {a} to {want}")
