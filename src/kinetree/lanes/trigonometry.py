"""Sine and cosine in LLVM text, right for every finite argument.

The argument is reduced by the nearest multiple of π/2, in three parts (Cody and Waite) with fused multiply-adds; the remainder
goes into the minimax polynomials of fdlibm (float64) or Cephes (float32), whose coefficients are facts about sine and cosine.
That holds to |x| = 1e5 (2e4 in float32); where a lane is beyond, all lanes go through the C library (CPU) or are reduced by a
product with as many digits of 2/π as the exponent asks for (GPU).
"""

from typing import Any

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
    64: (-0.16666666666666632, 0.00833333333332249, -0.0001984126982985795, 2.7557313707070068e-06, -2.5050760253406863e-08, 1.58969099521155e-10),
    32: (-0.16666654611, 0.0083321608736, -0.00019515295891),
}  # fmt: skip
COSINE = {
    64: (0.0416666666666666, -0.001388888888887411, 2.480158728947673e-05, -2.7557314351390663e-07, 2.087572321298175e-09, -1.1359647557788195e-11),
    32: (0.04166664568298827, -0.001388731625493765, 2.443315711809948e-05),
}  # fmt: skip


def _horner(to: Any, z: str, coefficients: tuple[float, ...]) -> str:
    result = to.number(coefficients[-1])
    for c in coefficients[-2::-1]:
        result = to.fma(result, z, to.number(c))
    return result


def sincos(to: Any, x: str) -> tuple[str, str]:
    """Sine and cosine of x, as a call of a function that is emitted once for each module (see `definition`)."""
    kind = to.real
    pair = f"{{ {kind}, {kind} }}"
    to.needs_sincos = True
    both = to.op(f"call {pair} {function_name(to)}({kind} {x})")
    return to.op(f"extractvalue {pair} {both}, 0"), to.op(f"extractvalue {pair} {both}, 1")


def function_name(to: Any) -> str:
    """Name of the sincos function for this width and dtype."""
    return f"@sincos_{to.width}_{to.bits}"


def definition(to: Any) -> None:
    """Emit the function; `to` is a fresh emitter of the same width and dtype."""
    kind, truth, whole = to.real, to.truth, to.integer
    pair = f"{{ {kind}, {kind} }}"
    to.lines.append(f"define internal {pair} {function_name(to)}({kind} %x) alwaysinline {{")
    to.label("entry")
    shifted = to.fma("%x", to.number(TWO_OVER_PI), to.number(ROUND[to.bits]))
    quadrant = to.op(f"bitcast {kind} {shifted} to {whole}")
    turns = to.negative(to.arithmetic("fsub", shifted, to.number(ROUND[to.bits])))
    r = "%x"
    for part in HALF_PI[to.bits]:
        r = to.fma(turns, to.number(part), r)
    z = to.arithmetic("fmul", r, r)
    sine = to.fma(to.arithmetic("fmul", z, r), _horner(to, z, SINE[to.bits]), r)
    cosine = to.fma(
        to.arithmetic("fmul", z, z), _horner(to, z, COSINE[to.bits]), to.fma(z, to.number(-0.5), to.number(1.0))
    )
    odd = to.op(f"icmp ne {whole} {to.op(f'and {whole} {quadrant}, {to.whole(1)}')}, {to.whole(0)}")

    def signed(a: str, b: str, k: str) -> str:
        """a in odd quadrants, b in even ones; negative where bit 1 of k is set."""
        chosen = to.op(f"select {truth} {odd}, {kind} {a}, {kind} {b}")
        flip = to.op(f"shl {whole} {to.op(f'and {whole} {k}, {to.whole(2)}')}, {to.whole(to.bits - 2)}")
        bits = to.op(f"bitcast {kind} {chosen} to {whole}")
        return to.op(f"bitcast {whole} {to.op(f'xor {whole} {flip}, {bits}')} to {kind}")

    near = (signed(cosine, sine, quadrant), signed(sine, cosine, to.op(f"add {whole} {quadrant}, {to.whole(1)}")))
    far = to.op(f"fcmp ugt {kind} {to.intrinsic('fabs', '%x')}, {to.number(LIMIT[to.bits])}")
    if to.width > 1:
        to.declare(f"i1 @llvm.vector.reduce.or.v{to.width}i1(<{to.width} x i1>)")
        far = to.op(f"call i1 @llvm.vector.reduce.or.v{to.width}i1({truth} {far})")
    to.do(f"br i1 {far}, label %far, label %near, !prof !9")
    to.label("near")
    _return(to, pair, near)
    to.label("far")
    _return(to, pair, tuple(_by_library(to, name) for name in ("sin", "cos")))
    to.lines.append("}")


def _return(to: Any, pair: str, values: tuple) -> None:
    first = to.op(f"insertvalue {pair} poison, {to.real} {values[0]}, 0")
    to.do(f"ret {pair} {to.op(f'insertvalue {pair} {first}, {to.real} {values[1]}, 1')}")


def _by_library(to: Any, name: str) -> str:
    """Lane by lane, through the C library's own double function."""
    to.declare(f"double @{name}(double)")
    result = "poison"
    for lane in range(to.width):
        x = "%x" if to.width == 1 else to.op(f"extractelement {to.real} %x, i32 {lane}")
        wide = x if to.bits == 64 else to.op(f"fpext float {x} to double")
        y = to.op(f"call double @{name}(double {wide})")
        y = y if to.bits == 64 else to.op(f"fptrunc double {y} to float")
        if to.width == 1:
            return y
        result = to.op(f"insertelement {to.real} {result}, {to.scalar} {y}, i32 {lane}")
    return result
