"""Elementary functions in LLVM text, the same bits on every target: here exponentials, logarithms, powers and arc
tangents; sines and cosines are in trigonometry.py. Each becomes a function of a module that calls it.

Each argument is reduced to a short interval. There the plain power series is used, whose coefficients are exact:
1/n! for the exponential, 1/(2n + 1) for the logarithm, by log m = 2 artanh((m − 1)/(m + 1)), and for the arc tangent.
Every operation is a sum, a product, a quotient or a fused multiply-add, rounded as IEEE 754 says. The logarithm is
computed in two parts, about 10 bits more than one number holds, so that powers keep their precision.
Errors: below 2 units in the last place; powers x**y below 1 + |y log x|/32 of them (tests/lanes/test_elementary.py).
"""

from fractions import Fraction
from math import factorial
from typing import Any

import numpy as np

from .trigonometry import sincos

LN2 = Fraction("0.69314718055994530941723212145817656807550013436026")
HALF_PI = Fraction("1.5707963267948966192313216916397514420985846996876")
ARCTAN_OF_HALF = Fraction("0.46364760900080611621425623146121440202853705428612")
NEAR_ZERO, NEAR_ONE = 0.2361, 0.7247  # quotients; below and above, the angle is nearer to that of 0 or 1 than of 1/2

MANTISSA = {64: 52, 32: 23}  # bits of a number's fraction
BIAS = {64: 1023, 32: 127}
LOWEST_EXPONENT = {64: -1022, 32: -126}  # of a number that is not subnormal
ROOT_HALF = {64: 0x3FE6A09E667F3BCD, 32: 0x3F3504F3}  # bits of √½
SUBNORMAL_SHIFT = {64: 54, 32: 25}  # powers of two that make a subnormal number normal
EXP_LIMIT = {64: 800.0, 32: 150.0}  # beyond this, and well before it, exp is infinite or 0
EXP_TERMS = {64: 14, 32: 8}  # of |r| ≤ log(2)/2: the next is below 2⁻⁵⁶ (2⁻²⁶)
LOG_TERMS = {64: 11, 32: 5}  # of z ≤ 0.0295
ARCTAN_TERMS = {64: 14, 32: 7}  # of z ≤ 0.0558


def _parts(to: Any, x: Fraction) -> tuple[str, str]:
    """A number in two parts: rounded, and the rest."""
    high = float(np.float32(x) if to.bits == 32 else float(x))
    return to.number(high), to.number(float(x - Fraction(high)))


def _select(to: Any, truth: str, then: str, otherwise: str) -> str:
    return to.op(f"select {to.truth} {truth}, {to.real} {then}, {to.real} {otherwise}")


def _holds(to: Any, comparison: str, a: str, b: str) -> str:
    return to.op(f"fcmp {comparison} {to.real} {a}, {b}")


def _bits(to: Any, x: str) -> str:
    return to.op(f"bitcast {to.real} {x} to {to.integer}")


def _real(to: Any, bits: str) -> str:
    return to.op(f"bitcast {to.integer} {bits} to {to.real}")


def _exp(to: Any, x: str, small: str = "") -> str:
    """exp(x + small): 2^k exp(r), with k an integer and |r| at most log(2)/2."""
    rounding = to.number(1.5 * 2.0 ** MANTISSA[to.bits])  # adding it leaves an integer in the low bits
    limit = EXP_LIMIT[to.bits]
    x = to.intrinsic("maximum", to.intrinsic("minimum", x, to.number(limit)), to.number(-limit))
    shifted = to.fma(x, to.number(float(1 / LN2)), rounding)
    turns = to.negative(to.arithmetic("fsub", shifted, rounding))
    high, low = _parts(to, LN2)
    r = to.fma(turns, low, to.fma(turns, high, x))
    if small:
        r = to.arithmetic("fadd", r, small)
    power = to.series(r, [1 / factorial(n) for n in range(EXP_TERMS[to.bits])])
    k = to.op(f"sub {to.integer} {_bits(to, shifted)}, {_bits(to, rounding)}")
    half = to.op(f"ashr {to.integer} {k}, {to.whole(1)}")
    # two factors, since 2^k alone may overflow or underflow
    for part in (half, to.op(f"sub {to.integer} {k}, {half}")):
        exponent = to.op(f"add {to.integer} {part}, {to.whole(BIAS[to.bits])}")
        factor = _real(to, to.op(f"shl {to.integer} {exponent}, {to.whole(MANTISSA[to.bits])}"))
        power = to.arithmetic("fmul", power, factor)
    return power


def _log(to: Any, x: str) -> tuple[str, str]:
    """log x in two parts, for a finite x > 0: k log 2 + log m, with m between √½ and √2."""
    fraction, shift = MANTISSA[to.bits], SUBNORMAL_SHIFT[to.bits]
    tiny = _holds(to, "olt", x, to.number(2.0 ** LOWEST_EXPONENT[to.bits]))
    x = _select(to, tiny, to.arithmetic("fmul", x, to.number(2.0**shift)), x)
    bits = _bits(to, x)
    above = to.op(f"sub {to.integer} {bits}, {to.whole(ROOT_HALF[to.bits])}")
    exponent = to.op(f"ashr {to.integer} {above}, {to.whole(fraction)}")
    mantissa = to.op(f"sub {to.integer} {bits}, {to.op(f'shl {to.integer} {exponent}, {to.whole(fraction)}')}")
    m = _real(to, mantissa)
    k = to.op(f"sitofp {to.integer} {exponent} to {to.real}")
    k = to.arithmetic("fadd", k, _select(to, tiny, to.number(-shift), to.number(0.0)))
    # s = f/(2 + f) in two parts, with f = m − 1, which is exact
    f = to.arithmetic("fsub", m, to.number(1.0))
    d = to.arithmetic("fadd", f, to.number(2.0))
    d_low = to.arithmetic("fsub", f, to.arithmetic("fsub", d, to.number(2.0)))
    s = to.arithmetic("fdiv", f, d)
    left = to.fma(to.negative(s), d_low, to.fma(to.negative(s), d, f))
    s_low = to.arithmetic("fdiv", left, d)
    z = to.arithmetic("fmul", s, s)
    series = to.series(z, [1 / (2 * n + 1) for n in range(1, LOG_TERMS[to.bits])])
    low = to.fma(to.arithmetic("fmul", s, z), series, s_low)
    low = to.arithmetic("fadd", low, low)
    high = to.arithmetic("fadd", s, s)
    # k log 2, and the sum, in two parts each
    ln2, ln2_low = _parts(to, LN2)
    whole = to.arithmetic("fmul", k, ln2)
    low = to.arithmetic("fadd", low, to.fma(k, ln2_low, to.fma(k, ln2, to.negative(whole))))
    total, rest = _two_sum(to, whole, high)
    low = to.arithmetic("fadd", low, rest)
    result = to.arithmetic("fadd", total, low)
    return result, to.arithmetic("fsub", low, to.arithmetic("fsub", result, total))


def _two_sum(to: Any, a: str, b: str) -> tuple[str, str]:
    """a + b, and its rounding error (Knuth)."""
    total = to.arithmetic("fadd", a, b)
    of_b = to.arithmetic("fsub", total, a)
    of_a = to.arithmetic("fsub", total, of_b)
    return total, to.arithmetic("fadd", to.arithmetic("fsub", a, of_a), to.arithmetic("fsub", b, of_b))


def exp(to: Any, x: str) -> str:
    """e to the x."""
    return _exp(to, x)


def log(to: Any, x: str) -> str:
    """The natural logarithm: −∞ at 0, NaN below 0."""
    zero, infinity = to.number(0.0), to.number(np.inf)
    # ∞ and NaN are their own logarithms
    result = _select(to, _holds(to, "olt", x, infinity), _log(to, x)[0], x)
    result = _select(to, _holds(to, "oeq", x, zero), to.number(-np.inf), result)
    return _select(to, _holds(to, "olt", x, zero), to.number(np.nan), result)


def power(to: Any, x: str, y: str) -> str:
    """x to the y, with the special cases of C's pow."""
    zero, one, infinity = to.number(0.0), to.number(1.0), to.number(np.inf)
    size = to.intrinsic("fabs", x)
    high, low = _log(to, size)
    product = to.arithmetic("fmul", y, high)
    rest = to.fma(y, low, to.fma(y, high, to.negative(product)))
    far = _holds(to, "uge", to.intrinsic("fabs", product), to.number(EXP_LIMIT[to.bits]))
    result = _exp(to, product, _select(to, far, zero, rest))
    vanishes = to.op(f"xor {to.truth} {_holds(to, 'olt', size, one)}, {_holds(to, 'olt', y, zero)}")
    limit = _select(to, vanishes, zero, infinity)  # the result for x = 0, x = ∞, or an infinite y
    extreme = _holds(to, "oeq", size, zero)
    for value in (size, to.intrinsic("fabs", y)):
        extreme = to.op(f"or {to.truth} {extreme}, {_holds(to, 'oeq', value, infinity)}")
    result = _select(to, extreme, limit, result)
    # negative bases: whole powers only, and odd ones change the sign
    whole = _holds(to, "oeq", to.intrinsic("floor", y), y)
    half = to.arithmetic("fmul", y, to.number(0.5))
    odd = to.op(f"and {to.truth} {whole}, {_holds(to, 'one', to.intrinsic('floor', half), half)}")
    result = _select(to, odd, to.intrinsic("copysign", result, x), result)
    refused = to.op(f"and {to.truth} {_holds(to, 'olt', x, zero)}, {_holds(to, 'one', to.intrinsic('floor', y), y)}")
    finite = _holds(to, "olt", size, infinity)
    result = _select(to, to.op(f"and {to.truth} {refused}, {finite}"), to.number(np.nan), result)
    bad = _holds(to, "uno", x, y)
    result = _select(to, bad, to.number(np.nan), result)
    flat = to.op(
        f"and {to.truth} {_holds(to, 'oeq', size, one)}, {_holds(to, 'oeq', to.intrinsic('fabs', y), infinity)}"
    )
    for always_one in (_holds(to, "oeq", x, one), _holds(to, "oeq", y, zero), flat):
        result = _select(to, always_one, one, result)
    return result


def arctan2(to: Any, y: str, x: str) -> str:
    """The angle of (x, y), between −π and π."""
    zero, one = to.number(0.0), to.number(1.0)
    ax, ay = to.intrinsic("fabs", x), to.intrinsic("fabs", y)
    large, small = to.intrinsic("maximum", ax, ay), to.intrinsic("minimum", ax, ay)
    # no sum of large numbers may overflow; two infinities are treated as 1 and 1, two zeros as 0 and 1
    scale = _select(to, _holds(to, "ogt", large, one), to.number(0.25), one)
    both = _holds(to, "oeq", small, to.number(np.inf))
    none = _holds(to, "oeq", large, zero)
    unbounded = _holds(to, "oeq", large, to.number(np.inf))
    small = _select(to, both, one, _select(to, unbounded, zero, to.arithmetic("fmul", small, scale)))
    large = _select(to, to.op(f"or {to.truth} {unbounded}, {none}"), one, to.arithmetic("fmul", large, scale))
    # from the nearest of the angles whose tangents are 0, ½ and 1
    middle = _holds(to, "ogt", small, to.arithmetic("fmul", large, to.number(NEAR_ZERO)))
    end = _holds(to, "ogt", small, to.arithmetic("fmul", large, to.number(NEAR_ONE)))
    centre = _select(to, end, one, _select(to, middle, to.number(0.5), zero))
    half, quarter = _parts(to, ARCTAN_OF_HALF), _parts(to, HALF_PI / 2)
    known = [_select(to, end, b, _select(to, middle, a, zero)) for a, b in zip(half, quarter, strict=True)]
    t = to.arithmetic("fdiv", to.fma(to.negative(centre), large, small), to.fma(centre, small, large))
    z = to.arithmetic("fmul", t, t)
    series = to.series(z, [(-1) ** n / (2 * n + 1) for n in range(1, ARCTAN_TERMS[to.bits])])
    rest = to.arithmetic("fadd", to.fma(to.arithmetic("fmul", t, z), series, known[1]), t)
    angle = to.arithmetic("fadd", known[0], rest)
    # to the octant
    steep, behind = _holds(to, "ogt", ay, ax), to.op(f"icmp slt {to.integer} {_bits(to, x)}, {to.whole(0)}")
    for holds, whole in ((steep, HALF_PI), (behind, 2 * HALF_PI)):
        high, low = _parts(to, whole)
        other = to.arithmetic("fadd", to.arithmetic("fsub", high, angle), low)
        angle = _select(to, holds, other, angle)
    bad = _holds(to, "uno", x, y)
    return _select(to, bad, to.number(np.nan), to.intrinsic("copysign", angle, y))


# The writer of each function, and its number of arguments.
FUNCTIONS = {"sincos": (sincos, 1), "exp": (exp, 1), "log": (log, 1), "pow": (power, 2), "atan2": (arctan2, 2)}


def function_name(to: Any, name: str) -> str:
    """Name of a function for this width and dtype."""
    return f"@{name}_{to.width}_{to.bits}"


def define(to: Any, name: str) -> None:
    """Emit a function; `to` is a new emitter of its width and dtype."""
    write, count = FUNCTIONS[name]
    names = [f"%x{k}" for k in range(count)]
    given = ", ".join(f"{to.real} {x}" for x in names)
    start = len(to.lines)
    to.label("entry")
    results = write(to, *names)
    results = (results,) if isinstance(results, str) else results
    kind = result_type(to, len(results))
    value = "poison"
    for k, result in enumerate(results):
        value = to.op(f"insertvalue {kind} {value}, {to.real} {result}, {k}")
    to.end(f"{kind} {value}")
    to.lines.insert(start, f"define internal {kind} {function_name(to, name)}({given}) alwaysinline {{")


def result_type(to: Any, count: int) -> str:
    """The type of `count` reals."""
    return f"{{ {', '.join([to.real] * count)} }}"


def call(to: Any, name: str, count: int, *arguments: str) -> tuple[str, ...]:
    """Call a function with `count` results, and make it part of the module."""
    to.called.add(name)
    kind = result_type(to, count)
    made = to.op(f"call {kind} {function_name(to, name)}({', '.join(f'{to.real} {a}' for a in arguments)})")
    return tuple(to.op(f"extractvalue {kind} {made}, {k}") for k in range(count))
