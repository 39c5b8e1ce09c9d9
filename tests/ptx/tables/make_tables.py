#!/usr/bin/env python3
"""Writes operations.txt: PTX operations with edge operands and the results that the PTX ISA demands.

An independent reference: everything is computed with exact rational numbers and rounded here, no floating-point unit takes part.
Run it again after a change and commit the output.

Format: a line "op <instruction> <type of result> <types of operands…>", followed by one line of hexadecimal bits for each case:
operands, then the result. "nan" as result means any NaN.
"""
import math
import random
from fractions import Fraction

random.seed(20260101)
FLOATS = {"f32": (24, -126, 127, 32), "f64": (53, -1022, 1023, 64)}
INF, NINF, NAN = "inf", "-inf", "nan"


def decode(bits, kind):
    """Bits to (sign, value); value is a Fraction, or inf or nan."""
    digits, low, high, width = FLOATS[kind]
    sign = bits >> (width - 1)
    exponent = (bits >> (digits - 1)) & ((1 << (width - digits)) - 1)
    fraction = bits & ((1 << (digits - 1)) - 1)
    if exponent == (1 << (width - digits)) - 1:
        return sign, NAN if fraction else INF
    if exponent == 0:
        return sign, Fraction(fraction, 1) * Fraction(2) ** (low - digits + 1)
    return sign, Fraction(fraction | 1 << (digits - 1)) * Fraction(2) ** (exponent - 1 + low - digits + 1)


def signed_value(bits, kind):
    sign, value = decode(bits, kind)
    if value in (INF, NAN):
        return value if value == NAN or not sign else NINF
    return -value if sign else value


def round_fraction(value, mode):
    """A Fraction to an integer."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if rest == 0:
        return floor
    if mode == "rz":
        return floor if value > 0 else floor + 1
    if mode == "rm":
        return floor
    if mode == "rp":
        return floor + 1
    if rest == Fraction(1, 2):
        return floor + (floor & 1)
    return floor + (rest > Fraction(1, 2))


def encode(sign, magnitude, kind, mode):
    """sign and exact magnitude (Fraction, inf or nan) to bits."""
    digits, low, high, width = FLOATS[kind]
    top = sign << (width - 1)
    infinity = ((1 << (width - digits)) - 1) << (digits - 1)
    if magnitude == NAN:
        return NAN
    if magnitude == INF:
        return top | infinity
    if magnitude == 0:
        return top
    exponent = math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator))
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    exponent = max(exponent, low)
    unit = Fraction(2) ** (exponent - digits + 1)
    towards = {"rm": "rz" if not sign else "rp", "rp": "rp" if not sign else "rz"}.get(mode, mode)
    mantissa = round_fraction(magnitude / unit, towards)
    if mantissa >> digits:
        mantissa >>= 1
        exponent += 1
    if exponent > high:
        to_infinity = mode == "rn" or (mode == "rp" and not sign) or (mode == "rm" and sign)
        return top | (infinity if to_infinity else infinity - 1)
    if mantissa >> (digits - 1):
        return top | (exponent - low + 1) << (digits - 1) | (mantissa & ((1 << (digits - 1)) - 1))
    return top | mantissa


def flush(bits, kind, ftz):
    if ftz and bits != NAN and kind == "f32" and bits & 0x7F800000 == 0:
        return bits & 0x80000000
    return bits


def saturate(bits, kind):
    if bits == NAN or bits >> (FLOATS[kind][3] - 1):
        return 0
    one = encode(0, Fraction(1), kind, "rn")
    return min(bits, one)


def product(x, y):
    sign = x[0] ^ y[0]
    if NAN in (x[1], y[1]):
        return sign, NAN
    if INF in (x[1], y[1]):
        return sign, NAN if 0 in (x[1], y[1]) else INF
    return sign, x[1] * y[1]


def total(x, y, mode):
    if NAN in (x[1], y[1]):
        return 0, NAN
    if x[1] == INF or y[1] == INF:
        if x[1] == INF and y[1] == INF and x[0] != y[0]:
            return 0, NAN
        return x if x[1] == INF else y
    value = (-x[1] if x[0] else x[1]) + (-y[1] if y[0] else y[1])
    if value == 0:
        sign = x[0] if x[0] == y[0] else int(mode == "rm")
        return sign, Fraction(0)
    return int(value < 0), abs(value)


def quotient(x, y):
    sign = x[0] ^ y[0]
    if NAN in (x[1], y[1]) or (x[1] == INF and y[1] == INF) or (x[1] == 0 and y[1] == 0):
        return sign, NAN
    if x[1] == INF or y[1] == 0:
        return sign, INF
    if y[1] == INF or x[1] == 0:
        return sign, Fraction(0)
    return sign, x[1] / y[1]


def root(x, kind, mode):
    """Bits of the square root, correctly rounded: integer square root with a sticky bit."""
    sign, value = x
    if value == NAN or (sign and value != 0):
        return NAN
    if value in (INF, 0):
        return encode(sign, value, kind, mode)
    shift = 1300
    scaled = value * Fraction(4) ** shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole) ** 2 == scaled
    approximate = (Fraction(whole) if exact else Fraction(2 * whole + 1, 2)) / Fraction(2) ** shift
    return encode(0, approximate, kind, mode)


def float_values(kind):
    digits, low, high, width = FLOATS[kind]
    infinity = ((1 << (width - digits)) - 1) << (digits - 1)
    one = encode(0, Fraction(1), kind, "rn")
    values = [0, 1, (1 << (digits - 1)) - 1, 1 << (digits - 1), one, one + 1, one - 1, one | 3 << (digits - 4), infinity - 1,
              infinity, infinity | 1 << (digits - 2), encode(0, Fraction(1, 3), kind, "rn"),
              encode(0, Fraction(5, 2), kind, "rn"), encode(0, Fraction(10) ** 20, kind, "rn"),
              encode(0, Fraction(1, 10 ** 30), kind, "rn")]
    values += [random.getrandbits(width - 1) for _ in range(6)]
    return values + [v | 1 << (width - 1) for v in values]


ZERO = Fraction(0)


def float_operation(name, kind, operands, mode, ftz, sat):
    operands = [flush(o, kind, ftz) for o in operands]
    x = [decode(o, kind) for o in operands]
    if name == "add":
        bits = encode(*total(x[0], x[1], mode), kind, mode)
    elif name == "sub":
        bits = encode(*total(x[0], (1 - x[1][0], x[1][1]), mode), kind, mode)
    elif name == "mul":
        bits = encode(*product(x[0], x[1]), kind, mode)
    elif name == "fma":
        bits = encode(*total(product(x[0], x[1]), x[2], mode), kind, mode)
    elif name == "div":
        bits = encode(*quotient(x[0], x[1]), kind, mode)
    elif name == "rcp":
        bits = encode(*quotient((0, Fraction(1)), x[0]), kind, mode)
    else:
        bits = root(x[0], kind, mode)
    bits = flush(bits, kind, ftz)
    return saturate(bits, kind) if sat else bits


def write(out, header, cases):
    out.write(f"op {header}\n")
    for case in cases:
        out.write(" ".join(c if c == NAN else f"{c:x}" for c in case) + "\n")


def sample(values, count, arity):
    return [[random.choice(values) for _ in range(arity)] for _ in range(count)]


def float_tables(out):
    arity = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}
    for kind in FLOATS:
        values = float_values(kind)
        for name, count in arity.items():
            for mode in ("rn", "rz", "rm", "rp"):
                variants = [("", False, False)]
                if kind == "f32":
                    variants.append((".ftz", True, False))
                    if name in ("add", "sub", "mul", "fma"):
                        variants += [(".sat", False, True), (".ftz.sat", True, True)]
                for suffix, ftz, sat in variants:
                    cases = [[v] for v in values] if count == 1 else sample(values, 48, count)
                    write(out, f"{name}.{mode}{suffix}.{kind} {kind}" + f" {kind}" * count,
                          [c + [float_operation(name, kind, c, mode, ftz, sat)] for c in cases])


def extremes(out):
    for kind in FLOATS:
        values = float_values(kind)
        for name in ("min", "max"):
            for nan in ("", ".NaN") if kind == "f32" else ("",):
                cases = []
                for a, b in sample(values, 64, 2):
                    x, y = signed_value(a, kind), signed_value(b, kind)
                    if x == NAN or y == NAN:
                        result = NAN if nan or x == y == NAN else (b if x == NAN else a)
                    else:
                        key = {INF: math.inf, NINF: -math.inf}
                        order = [(key.get(v, v), s) for v, s in ((x, -(a >> FLOATS[kind][3] - 1)), (y, -(b >> FLOATS[kind][3] - 1)))]
                        first = order[0] < order[1]
                        result = (a if first else b) if name == "min" else (b if first else a)
                    cases.append([a, b, result])
                write(out, f"{name}{nan}.{kind} {kind} {kind} {kind}", cases)


INTS = {f"{s}{w}": (s == "s", w) for s in "us" for w in (8, 16, 32, 64)}


def to_int(bits, kind):
    is_signed, width = INTS[kind]
    bits &= (1 << width) - 1
    return bits - (1 << width) if is_signed and bits >> (width - 1) else bits


def from_int(value, width):
    return value & ((1 << width) - 1)


def limits(kind):
    is_signed, width = INTS[kind]
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)


def int_values(kind):
    width = INTS[kind][1]
    values = [0, 1, 2, 3, (1 << width) - 1, (1 << width) - 2, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << (width - 1)) + 1]
    return values + [random.getrandbits(width) for _ in range(7)]


def conversions(out):
    for d in INTS:
        low, high = limits(d)
        width = INTS[d][1]
        for s in INTS:
            if s != d:
                write(out, f"cvt.{d}.{s} {d} {s}", [[v, from_int(to_int(v, s), width)] for v in int_values(s)])
            if limits(s)[0] >= low and limits(s)[1] <= high:
                continue  # nothing to saturate: not allowed
            write(out, f"cvt.sat.{d}.{s} {d} {s}", [[v, from_int(min(max(to_int(v, s), low), high), width)] for v in int_values(s)])
        for s in FLOATS:
            values = float_values(s) + [encode(int(v < 0), abs(Fraction(v)), s, m) for v in (low, high, low - 1, high + 1, Fraction(1, 2),
                                        Fraction(3, 2), Fraction(-1, 2), Fraction(-5, 2), high - Fraction(1, 2)) for m in ("rz", "rp")]
            for mode in ("rn", "rz", "rm", "rp"):
                cases = []
                for v in values:
                    x = signed_value(v, s)
                    if x == NAN:
                        result = 0
                    elif x in (INF, NINF):
                        result = high if x == INF else low
                    else:
                        result = min(max(round_fraction(x, mode), low), high)
                    cases.append([v, from_int(result, width)])
                write(out, f"cvt.{mode}i.{d}.{s} {d} {s}", cases)
    for d in FLOATS:
        for s in INTS:
            for mode in ("rn", "rz", "rm", "rp"):
                write(out, f"cvt.{mode}.{d}.{s} {d} {s}",
                      [[v, encode(int(to_int(v, s) < 0), Fraction(abs(to_int(v, s))), d, mode)] for v in int_values(s)])
    for mode in ("rn", "rz", "rm", "rp"):
        for suffix, ftz, sat in (("", 0, 0), (".ftz", 1, 0), (".sat", 0, 1)):
            cases = []
            for v in float_values("f64") + [encode(0, Fraction(n, 7) * Fraction(2) ** e, "f64", "rn") for n in (1, 5) for e in (-150, -149, -127, 127, 128)]:
                bits = flush(encode(*decode(v, "f64"), "f32", mode), "f32", ftz)
                cases.append([v, saturate(bits, "f32") if sat else bits])
            write(out, f"cvt.{mode}{suffix}.f32.f64 f32 f64", cases)
    write(out, "cvt.f64.f32 f64 f32", [[v, encode(*decode(v, "f32"), "f64", "rn")] for v in float_values("f32")])
    write(out, "cvt.ftz.f64.f32 f64 f32", [[v, encode(*decode(flush(v, "f32", 1), "f32"), "f64", "rn")] for v in float_values("f32")])
    for kind in FLOATS:
        for mode in ("rn", "rz", "rm", "rp"):
            cases = []
            for v in float_values(kind) + [encode(s, Fraction(n, 2), kind, "rn") for n in (1, 3, 5, 7) for s in (0, 1)]:
                sign, value = decode(v, kind)
                if value not in (INF, NAN):
                    towards = {"rm": "rp" if sign else "rz", "rp": "rz" if sign else "rp"}.get(mode, mode)
                    value = Fraction(round_fraction(value, towards))
                cases.append([v, encode(sign, value, kind, "rn")])
            write(out, f"cvt.{mode}i.{kind}.{kind} {kind} {kind}", cases)


def divide(a, b):
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integer_tables(out):
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        is_signed, width = INTS[kind]
        values = int_values(kind)

        def table(name, operation, result=kind, arity=2, last=None):
            cases = []
            for case in sample(values, 40, arity):
                if last:
                    case = case[:-1] + [random.choice(last)]
                value = operation(*[to_int(c, kind) for c in case[:-1]], case[-1] if last else to_int(case[-1], kind))
                if value is not None:
                    cases.append(case + [from_int(value, INTS[result][1])])
            types = [kind] * (arity - 1) + (["u32"] if last else [kind])
            write(out, f"{name}.{kind} {result} " + " ".join(types), cases)

        wide = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}.get(kind)
        table("add", lambda a, b: a + b)
        table("sub", lambda a, b: a - b)
        table("mul.lo", lambda a, b: a * b)
        table("mul.hi", lambda a, b: a * b >> width)
        table("mad.lo", lambda a, b, c: a * b + c, arity=3)
        table("mad.hi", lambda a, b, c: (a * b >> width) + c, arity=3)
        table("div", divide)
        table("rem", lambda a, b: None if b == 0 else a - b * divide(a, b))
        table("min", min)
        table("max", max)
        table("sad", lambda a, b, c: abs(a - b) + c, arity=3)
        shifts = [0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0xffffffff]
        table("shr", lambda a, n: a >> min(n, 200), last=shifts)
        if wide:
            table("mul.wide", lambda a, b: a * b, result=wide)
        if is_signed:
            for name, operation in (("abs", abs), ("neg", lambda a: -a)):
                write(out, f"{name}.{kind} {kind} {kind}", [[v, from_int(operation(to_int(v, kind)), width)] for v in values])
    for width in (16, 32, 64):
        values = int_values(f"u{width}")
        shifts = [0, 1, 7, 15, 16, 31, 32, 63, 64, 0xffffffff]
        cases = [[random.choice(values), random.choice(shifts)] for _ in range(40)]
        write(out, f"shl.b{width} u{width} u{width} u32", [[a, n, from_int(a << min(n, 200), width)] for a, n in cases])
    for kind in ("u32", "s32", "u64", "s64"):
        is_signed, width = INTS[kind]
        cases = []
        for _ in range(60):
            a, start, length = random.choice(int_values(kind)), random.choice([0, 1, 5, 31, 32, 40, 63, 64, 200]), random.choice([0, 1, 4, 31, 32, 33, 63, 64, 255])
            value = to_int(a, kind) >> start
            low = value & ((1 << length) - 1)
            if is_signed and length and (low >> (length - 1)) & 1:
                low -= 1 << length
            # A field that reaches beyond the source has the source's sign.
            if is_signed and length and start + length > width and to_int(a, kind) < 0:
                low = value
            cases.append([a, start, length, from_int(low, width)])
        write(out, f"bfe.{kind} {kind} {kind} u32 u32", cases)
    for width in (32, 64):
        kind = f"u{width}"
        values = int_values(kind) + [1 << n for n in range(0, width, 7)]
        write(out, f"popc.b{width} u32 {kind}", [[v, bin(v).count("1")] for v in values])
        write(out, f"clz.b{width} u32 {kind}", [[v, width - v.bit_length()] for v in values])
        write(out, f"brev.b{width} {kind} {kind}", [[v, int(f"{v:0{width}b}"[::-1], 2)] for v in values])
        write(out, f"bfind.u{width} u32 {kind}", [[v, from_int(v.bit_length() - 1, 32)] for v in values])
        cases = []
        for _ in range(40):
            a, b, start, length = random.choice(values), random.choice(values), random.choice([0, 3, 31, 32, 63, 64]), random.choice([0, 1, 8, 32, 64, 255])
            field = from_int(((1 << length) - 1) << start, width)
            cases.append([a, b, start, length, (b & ~field) | (a << start & field)])
        write(out, f"bfi.b{width} {kind} {kind} {kind} u32 u32", cases)
    cases = []
    for _ in range(60):
        a, b, c = random.getrandbits(32), random.getrandbits(32), random.getrandbits(16)
        source = [(b << 32 | a) >> 8 * n & 0xff for n in range(8)]
        value = 0
        for n in range(4):
            choice = c >> 4 * n & 15
            byte = source[choice & 7]
            value |= ((0xff if byte & 0x80 else 0) if choice & 8 else byte) << 8 * n
        cases.append([a, b, c, value])
    write(out, "prmt.b32 u32 u32 u32 u32", cases)
    for direction in "lr":
        for mode in ("wrap", "clamp"):
            cases = []
            for _ in range(30):
                a, b, c = random.getrandbits(32), random.getrandbits(32), random.choice([0, 1, 31, 32, 33, 64, 100])
                n = c & 31 if mode == "wrap" else min(c, 32)
                both = b << 32 | a
                cases.append([a, b, c, from_int(both << n >> 32 if direction == "l" else both >> n, 32)])
            write(out, f"shf.{direction}.{mode}.b32 u32 u32 u32 u32", cases)
    for ta in ("u32", "s32"):
        for tb in ("u32", "s32"):
            cases = []
            for _ in range(20):
                a, b, c = random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)
                total_ = c + sum(to_int(a >> 8 * n, ta[0] + "8") * to_int(b >> 8 * n, tb[0] + "8") for n in range(4))
                cases.append([a, b, c, from_int(total_, 32)])
            write(out, f"dp4a.{ta}.{tb} u32 u32 u32 u32", cases)


def main():
    with open(__file__.rsplit("/", 1)[0] + "/operations.txt" if "/" in __file__ else "operations.txt", "w") as out:
        out.write("# Made by make_tables.py\n")
        float_tables(out)
        extremes(out)
        conversions(out)
        integer_tables(out)


main()
