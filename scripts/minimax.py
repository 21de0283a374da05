#!/usr/bin/env python3
"""Finds the minimax polynomials of src/te/math/math_*.cpp and prints them as C++ tables.

Each entry states the function of the polynomial, its interval and a weight that turns the polynomial's
error into the relative (or absolute) error of the result. Coefficients are found by the Remez exchange in
multiple precision and then rounded one by one, lowest power first, the rest being refitted after each
rounding: so the printed tables are what the rounded polynomial achieves, and that error is printed too.
Needs mpmath (and gmpy2 to be fast).  Usage: minimax.py [name...]
"""
import sys
from mpmath import mp, mpf

mp.prec = 320


def round_to(value, bits):
    """The nearest number with a mantissa of this many bits."""
    shift = bits - 1 - exponent(value)
    return mp.ldexp(mp.nint(mp.ldexp(value, shift)), -shift)


def exponent(value):
    return 0 if value == 0 else int(mp.floor(mp.log(abs(value), 2)))


def remez(points, target, weight, powers):
    """The weighted minimax fit of target by sum(c[p] * x**p) over a grid of points."""
    count = len(powers)
    basis = [[x**p for p in powers] for x in points]
    last = len(points) - 1
    chosen = [int(mp.nint(last * (1 - mp.cos(mp.pi * i / count)) / 2)) for i in range(count + 1)]
    coefficients = None
    for _ in range(40):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, index in enumerate(chosen):
            for column in range(count):
                matrix[row, column] = basis[index][column] * weight[index]
            matrix[row, count] = (-1) ** row
            right[row] = target[index] * weight[index]
        solution = mp.lu_solve(matrix, right)
        coefficients, level = [solution[i] for i in range(count)], abs(solution[count])
        errors = [weight[i] * (sum(c * b for c, b in zip(coefficients, basis[i])) - target[i]) for i in range(last + 1)]
        # one extremum per run of equal signs
        extrema, start = [], 0
        for i in range(1, last + 2):
            if i == last + 1 or (errors[i] > 0) != (errors[start] > 0):
                extrema.append(max(range(start, i), key=lambda j: abs(errors[j])))
                start = i
        while len(extrema) > count + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) < count + 1:
            break
        chosen = extrema
        if max(abs(e) for e in errors) <= level * mpf("1.001"):
            break
    return coefficients


def fit(function, low, high, weight_of, terms, bits):
    grid = 30 * terms + 60
    points = [low + (high - low) * (1 - mp.cos(mp.pi * i / grid)) / 2 for i in range(grid + 1)]
    points = [x for x in points if abs(x) > mpf(10) ** -9]  # near 0 the quotients below cancel
    target = [function(x) for x in points]
    weight = [weight_of(x) for x in points]
    rest, fixed = list(target), []
    current = remez(points, rest, weight, list(range(terms)))
    for power in range(terms):
        rounded = round_to(current[0], bits)
        fixed.append(rounded)
        rest = [r - rounded * x**power for r, x in zip(rest, points)]
        # On an interval around 0 the powers left all vanish at 0 and have no alternation: keep the first fit.
        current = current[1:] if low < 0 or power + 1 == terms else remez(points, rest, weight, list(range(power + 1, terms)))
    return fixed, max(abs(w * r) for w, r in zip(weight, rest))


ONE = mpf(1)
LN2 = mp.ln(2)


def odd(function, first=1):
    """P(z) with function(x) = first*x + x^3 P(x^2)."""
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - first) / z


def odd_weight(function):
    return lambda z: z * mp.sqrt(z) / function(mp.sqrt(z))


def log_tail(z):  # log((1+s)/(1-s)) = 2 s + s R(s^2), R(z) = z P(z)
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def log_erfc_slope(t):
    return -mp.log(mp.erfc(1 + t) / mp.erfc(1)) / t


PIO4 = mp.pi / 4
# name: function, low, high, weight, terms for f32, terms for f64
TABLE = {
    # exp(r) = 1 + r + r^2 P(r)
    "exp": (lambda r: (mp.exp(r) - 1 - r) / r**2, -LN2 / 2 * mpf("1.001"), LN2 / 2 * mpf("1.001"),
            lambda r: r * r, 6, 11),
    # 2^r = 1 + r P(r). In f32 moved by trial, as below: 0.76 ulps instead of 0.99.
    "exp2": (lambda r: (mp.mpf(2) ** r - 1) / r, -ONE / 2, ONE / 2, lambda r: r / mp.mpf(2) ** r, 6, 12),
    "log": (log_tail, mpf(0), mpf("0.02945"), lambda z: z / 2, 4, 7),
    # log((1+s)/(1-s)) = 2s + s z (2/3 + z P(z)), for pairs
    "log_pair": (lambda z: (log_tail(z) - mpf(2) / 3) / z, mpf(0), mpf("0.02945"), lambda z: z * z / 2, 4, 8),
    "sin": (odd(mp.sin), mpf(0), (PIO4 * mpf("1.0001"))**2, odd_weight(mp.sin), 4, 7),
    # cos(r) = 1 - z/2 + z^2 P(z)
    "cos": (lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mpf(0), (PIO4 * mpf("1.0001"))**2,
            lambda z: z * z / mp.cos(mp.sqrt(z)), 4, 7),
    "atan": (odd(mp.atan), mpf(0), (mp.sqrt(2) - 1)**2 * mpf("1.0001"), odd_weight(mp.atan), 5, 12),
    "asin": (odd(mp.asin), mpf(0), mpf("0.25"), odd_weight(mp.asin), 6, 14),
    "asinh": (odd(mp.asinh), mpf(0), mpf("0.25"), odd_weight(mp.asinh), 6, 13),
    "sinh": (odd(mp.sinh), mpf(0), mpf(1), odd_weight(mp.sinh), 4, 7),
    # f32: tanh(x) = x + x P(x^2 - 7/8), and tanh(t + 3/2) = 1 - P(t)^3. Last bits of the tables in the sources were moved by trial.
    "tanh_single": (lambda s: mp.tanh(mp.sqrt(s + mpf(7) / 8)) / mp.sqrt(s + mpf(7) / 8) - 1, mpf(-7) / 8 + mpf(10) ** -9,
                    mpf("1.34375")**2 - mpf(7) / 8, lambda s: mp.sqrt(s + mpf(7) / 8) / mp.tanh(mp.sqrt(s + mpf(7) / 8)), 10, 0),
    "root_of_tanh": (lambda t: (2 / (mp.exp(2 * t + 3) + 1)) ** (ONE / 3), mpf("1.34375") - mpf("1.5"), mpf("9.02") - mpf("1.5"),
                     lambda t: 3 * (2 / (mp.exp(2 * t + 3) + 1)) ** (mpf(2) / 3), 12, 0),
    "tanh": (odd(mp.tanh), mpf(0), mpf("0.375"), odd_weight(mp.tanh), 0, 12),
    # f32: erf(x) = x + x P(x^2 - 7/8), and erf(t + 5/2) = 1 - P(t)^3. Last bits of the tables in the sources were moved by
    # trial over the floats of the interval, which takes the error of the function from 1.00 to 0.94 ulps.
    "erf_single": (lambda s: mp.erf(mp.sqrt(s + mpf(7) / 8)) / mp.sqrt(s + mpf(7) / 8) - 1, mpf(-7) / 8 + mpf(10) ** -9,
                   mpf("1.1875")**2 - mpf(7) / 8, lambda s: mp.sqrt(s + mpf(7) / 8) / mp.erf(mp.sqrt(s + mpf(7) / 8)), 8, 0),
    "root_of_erfc": (lambda t: mp.erfc(t + mpf("2.5")) ** (ONE / 3), mpf("1.1875") - mpf("2.5"), mpf("1.45"),
                     lambda t: 3 * mp.erfc(t + mpf("2.5")) ** (mpf(2) / 3), 9, 0),
    # The normal distribution below -a: P(a - 3/4)^2. The table in the sources was moved by trial like that, and its first
    # coefficient is what the others make of a = 23/4, so that P is 0 there.
    "root_of_normal": (lambda s: mp.sqrt(mp.erfc((s + mpf("0.75")) / mp.sqrt(2)) / 2), mpf("-0.75"), mpf(5),
                       lambda s: 2 * mp.sqrt(mp.erfc((s + mpf("0.75")) / mp.sqrt(2)) / 2), 13, 0),
    # erf(x) = x + x P(x^2)
    "erf": (lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, mpf(0), ONE,
            lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 0, 13),
    # erf(1 + t) = 1 - erfc(1) exp(-t P(t)), up to where f64 sees 1
    "log_erfc_to_6": (log_erfc_slope, mpf(0), mpf(5), lambda t: t * mp.erfc(1 + t), 0, 18),
}


def literal(value):
    sign, mantissa, exp, _ = mp.mpf(value)._mpf_
    if mantissa == 0:
        return "0.0"
    mantissa = int(mantissa)
    length = mantissa.bit_length() - 1
    shift = -length % 4
    digits = f"{mantissa << shift:x}"
    tail = digits[1:].rstrip("0")
    power = int(exp) - shift + 4 * (len(digits) - 1)
    return f"{'-' if sign else ''}0x{digits[0]}{'.' + tail if tail else ''}p{power}"


def main():
    names = sys.argv[1:] or list(TABLE)
    for name in names:
        function, low, high, weight, terms32, terms64 = TABLE[name]
        for dtype, bits, terms in (("f32", 24, terms32), ("f64", 53, terms64)):
            if terms == 0:
                continue
            coefficients, error = fit(function, low, high, weight, terms, bits)
            print(f"// {name} {dtype}: error 2^{float(mp.log(error, 2)):.1f}")
            print("{" + ", ".join(literal(c) for c in coefficients) + "},", flush=True)


if __name__ == "__main__":
    main()
