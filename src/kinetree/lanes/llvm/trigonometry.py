"""Sine and cosine in LLVM text, right for every finite argument, the same bits on every target.

The argument is reduced by the nearest multiple of π/2 in three parts (Cody and Waite) with fused multiply-adds; the
remainder goes into the minimax polynomials of fdlibm (float64) or Cephes (float32), whose coefficients are facts about
sine and cosine. That reduction holds to |x| = 1e5 (2e4 in float32). Larger arguments are reduced by a product with as
many digits of 2/π as the exponent needs (Payne and Hanek), in integers.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from .text import Text, module_of

LIMIT = {64: 1e5, 32: 2e4}
ROUND = {
    64: 6755399441055744.0,
    32: 12582912.0,
}  # adding 1.5 · 2^52 (2^23) rounds to an integer and leaves it in the low bits
TWO_OVER_PI = 0.6366197723675814
HALF_PI = {
    64: (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
    32: (1.5707963705062866, -4.371139000186241e-08, -1.7151245100059e-15),
}
SINE = {
    64: (
        -0.16666666666666632,
        0.00833333333332249,
        -0.0001984126982985795,
        2.7557313707070068e-06,
        -2.5050760253406863e-08,
        1.58969099521155e-10,
    ),
    32: (-0.16666654611, 0.0083321608736, -0.00019515295891),
}
COSINE = {
    64: (
        0.0416666666666666,
        -0.001388888888887411,
        2.480158728947673e-05,
        -2.7557314351390663e-07,
        2.087572321298175e-09,
        -1.1359647557788195e-11,
    ),
    32: (0.04166664568298827, -0.001388731625493765, 2.443315711809948e-05),
}


def _numbers(to: Any) -> Callable[[float], str]:
    """The constants of sine and cosine, as operands.

    Vectors of constants lie in a table, behind a pointer that LLVM can not resolve. An operand at a fixed offset from
    it costs no instruction. A literal would cost two: one for its address, and one to make a vector.
    """
    if to.width == 1:
        return to.number
    bits, align = to.bits, f"align {to.width * to.bits // 8}"
    known = (TWO_OVER_PI, ROUND[bits], *HALF_PI[bits], LIMIT[bits], *SINE[bits], *COSINE[bits], -0.5, 1.0)
    vectors = ", ".join(f"{to.real} {to.number(x)}" for x in known)
    name = f"@sincos_numbers_{to.width}_{bits}"
    to.declarations.add(f"{name} = internal constant [{len(known)} x {to.real}] [{vectors}], {align}")
    table = to.op(f'call ptr asm "", "=r,0"(ptr {name})')
    return lambda x: to.op(f"load {to.real}, ptr {to.at(table, known.index(x), to.real)}, {align}")


def sincos(to: Any, x: str) -> tuple[str, str]:
    """Write the rest of a function: sine and cosine of x."""
    kind, truth, whole = to.real, to.truth, to.integer
    number = _numbers(to)
    shifted = to.fma(x, number(TWO_OVER_PI), number(ROUND[to.bits]))
    near_quadrant = to.op(f"bitcast {kind} {shifted} to {whole}")
    turns = to.negative(to.arithmetic("fsub", shifted, number(ROUND[to.bits])))
    near = x
    for part in HALF_PI[to.bits]:
        near = to.fma(turns, number(part), near)
    is_far = to.op(f"fcmp ugt {kind} {to.intrinsic('fabs', x)}, {number(LIMIT[to.bits])}")
    to.do(f"br i1 {to.any(is_far)}, label %far, label %reduced, !prof !9")
    to.label("far")
    far_quadrant, far_rest = _reduce_lanes(to, x)
    far_quadrant = to.op(f"select {truth} {is_far}, {whole} {far_quadrant}, {whole} {near_quadrant}")
    far_rest = to.op(f"select {truth} {is_far}, {kind} {far_rest}, {kind} {near}")
    to.into("reduced")
    quadrant = to.op(f"phi {whole} [ {near_quadrant}, %entry ], [ {far_quadrant}, %far ]")
    r = to.op(f"phi {kind} [ {near}, %entry ], [ {far_rest}, %far ]")
    z = to.arithmetic("fmul", r, r)
    sine = to.fma(to.arithmetic("fmul", z, r), to.series(z, SINE[to.bits], number), r)
    powers = to.series(z, COSINE[to.bits], number)
    cosine = to.fma(to.arithmetic("fmul", z, z), powers, to.fma(z, number(-0.5), number(1.0)))
    odd = to.op(f"icmp ne {whole} {to.op(f'and {whole} {quadrant}, {to.whole(1)}')}, {to.whole(0)}")

    def signed(a: str, b: str, k: str) -> str:
        """a in odd quadrants, b in even ones; negative where bit 1 of k is set."""
        chosen = to.op(f"select {truth} {odd}, {kind} {a}, {kind} {b}")
        flip = to.op(f"shl {whole} {to.op(f'and {whole} {k}, {to.whole(2)}')}, {to.whole(to.bits - 2)}")
        bits = to.op(f"bitcast {kind} {chosen} to {whole}")
        return to.op(f"bitcast {whole} {to.op(f'xor {whole} {flip}, {bits}')} to {kind}")

    after = to.op(f"add {whole} {quadrant}, {to.whole(1)}")
    return signed(cosine, sine, quadrant), signed(sine, cosine, after)


def _reduce_lanes(to: Any, x: str) -> tuple[str, str]:
    """Quadrant and remainder, lane by lane, by `@reduce_far`."""
    quadrants, rests = "poison", "poison"
    for lane in range(to.width):
        one = x if to.width == 1 else to.op(f"extractelement {to.real} {x}, i32 {lane}")
        wide = one if to.bits == 64 else to.op(f"fpext float {one} to double")
        both = to.op(f"call {{ i64, double }} @reduce_far(double {wide})")
        quadrant, rest = (
            to.op(f"extractvalue {{ i64, double }} {both}, 0"),
            to.op(f"extractvalue {{ i64, double }} {both}, 1"),
        )
        if to.bits == 32:
            quadrant, rest = to.op(f"trunc i64 {quadrant} to i32"), to.op(f"fptrunc double {rest} to float")
        if to.width == 1:
            return quadrant, rest
        quadrants = to.op(f"insertelement {to.integer} {quadrants}, i{to.bits} {quadrant}, i32 {lane}")
        rests = to.op(f"insertelement {to.real} {rests}, {to.scalar} {rest}, i32 {lane}")
    return quadrants, rests


@cache
def two_over_pi_words() -> list[int]:
    """64 zero bits, then 2/π to 1280 binary places, as 64-bit words; π by Machin's formula in integers."""
    places = 1400

    def arctan_of_inverse(n: int) -> int:
        power = total = (1 << places) // n
        k, sign = 3, -1
        while power:
            power //= n * n
            total += sign * (power // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    digits = ((2 << (places + 1280)) // pi) & ((1 << 1280) - 1)
    return [0] + [(digits >> (1280 - 64 * (k + 1))) & (2**64 - 1) for k in range(20)]


def lane_module(*parts: str) -> str:
    """One module of several texts, with the reduction of far angles if one of them calls it."""
    far = any("@reduce_far" in part for part in parts)
    return module_of(*((_far_reduction(),) if far else ()), *parts)


def _far_reduction() -> str:
    """`{quadrant, r} @reduce_far(x)` with x = quadrant π/2 + r, for any finite |x| > 1.

    x is m 2^(e − 52) with an integer m. Binary places of 2/π that make multiples of 4 with it do not matter: start at
    the first that does (place e − 54; the 64 zero bits in front keep that positive) and multiply m by the next 192.
    """
    to = Text("r")
    words = two_over_pi_words()
    table = ", ".join(f"i64 {w}" for w in words)
    to.lines.append(f"@two_over_pi = internal unnamed_addr constant [{len(words)} x i64] [{table}]")
    for d in ("i64 @llvm.fshl.i64(i64, i64, i64)", "double @llvm.fma.f64(double, double, double)"):
        to.lines.append(f"declare {d}")
    to.begin("internal { i64, double } @reduce_far(double %x) noinline")
    bits = to.op("bitcast double %x to i64")
    exponent = to.op(f"and i64 {to.op(f'lshr i64 {bits}, 52')}, 2047")
    place = to.op(f"sub i64 {exponent}, {1023 - 10}")  # e − 54 + 64
    finite = to.op(f"icmp ult i64 {place}, {2047 - 1013}")
    place = to.op(f"select i1 {finite}, i64 {place}, i64 0")
    word, shift = to.op(f"lshr i64 {place}, 6"), to.op(f"and i64 {place}, 63")
    loaded = [to.load("i64", "@two_over_pi", to.op(f"add i64 {word}, {k}"), "i64") for k in range(4)]
    window = [to.op(f"call i64 @llvm.fshl.i64(i64 {loaded[k]}, i64 {loaded[k + 1]}, i64 {shift})") for k in range(3)]
    mantissa = to.op(f"or i64 {to.op(f'and i64 {bits}, {2**52 - 1}')}, {2**52}")
    wide = to.op(f"zext i64 {mantissa} to i128")
    products = [to.op(f"mul i128 {wide}, {to.op(f'zext i64 {w} to i128')}") for w in window]
    # the product modulo 4, as 192 bits in three words: top, middle, and the last one, which only carries
    carry = to.op(f"lshr i128 {products[2]}, 64")
    lower = to.op(f"add i128 {products[1]}, {carry}")
    top = to.op(f"add i128 {products[0]}, {to.op(f'lshr i128 {lower}, 64')}")
    top64, middle = to.op(f"trunc i128 {top} to i64"), to.op(f"trunc i128 {lower} to i64")
    last = to.op(f"trunc i128 {products[2]} to i64")
    high = to.op(f"call i64 @llvm.fshl.i64(i64 {top64}, i64 {middle}, i64 2)")
    low = to.op(f"call i64 @llvm.fshl.i64(i64 {middle}, i64 {last}, i64 2)")
    # a fraction of at least a half, read as a signed number, is the distance to the next quadrant
    quadrant = to.op(f"add i64 {to.op(f'lshr i64 {top64}, 62')}, {to.op(f'lshr i64 {high}, 63')}")
    a = to.op(f"fmul double {to.op(f'sitofp i64 {high} to double')}, 0x{_bits(2.0**-64)}")
    b = to.op(f"fmul double {to.op(f'uitofp i64 {low} to double')}, 0x{_bits(2.0**-128)}")
    fraction = to.op(f"fadd double {a}, {b}")
    tail = to.op(f"fmul double {fraction}, 0x{_bits(6.123233995736766e-17)}")
    r = to.op(f"call double @llvm.fma.f64(double {fraction}, double 0x{_bits(1.5707963267948966)}, double {tail})")
    negative = to.op(f"icmp slt i64 {bits}, 0")
    quadrant = to.op(f"select i1 {negative}, i64 {to.op(f'sub i64 0, {quadrant}')}, i64 {quadrant}")
    r = to.op(f"select i1 {negative}, double {to.op(f'fneg double {r}')}, double {r}")
    nothing = to.op("fsub double %x, %x")  # NaN for infinities and NaNs
    r = to.op(f"select i1 {finite}, double {r}, double {nothing}")
    first = to.op(f"insertvalue {{ i64, double }} poison, i64 {quadrant}, 0")
    to.end(f"{{ i64, double }} {to.op(f'insertvalue {{ i64, double }} {first}, double {r}, 1')}")
    return str(to)


def _bits(x: float) -> str:
    return f"{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
