"""Quantisation: Q/DQ around other nodes, and integer products."""

from __future__ import annotations

import numpy as np

from draw import Draw
from family_contraction import conv, image, matmul
from family_reduce import bounded


def tame(v) -> bool:
    return v.finite and bounded(v) and v.array.size > 0


def scale_of(g: Draw, value, kind: str, shape=()):
    largest = float(np.abs(value.array.astype(np.float64)).max(initial=0)) or 1.0
    scale = g.leaf(
        np.full(
            shape,
            np.float32(largest / 100 * g.choice([1.0, 0.7, 1.3])),
            value.dtype if value.kind == "f" else np.float32,
        ),
        g.chance(0.8),
    )
    low, high = (100, 150) if kind == "uint8" else (-10, 10)
    return scale, g.leaf(
        g.rng.integers(low, high, shape).astype(kind) if g.chance(0.7) else np.zeros(shape, kind), g.chance(0.8)
    )


def quantize(g: Draw, op: str):
    a = g.pick("f", 1, dtype=np.float32, ok=tame)
    axis = g.axis(a.rank) if g.chance(0.3) else None
    kind = g.choice(["int8", "uint8"])
    scale, zero = scale_of(g, a, kind, () if axis is None else (a.shape[axis],))
    return g.emit("QuantizeLinear", [a, scale, zero if g.chance(0.8) or kind == "int8" else None], {"axis": axis})


def dequantize(g: Draw, op: str):
    bytes_ = [v for v in g.pool if v.dtype.name in ("int8", "uint8") and v.rank]
    a = (
        bytes_[-1]
        if bytes_ and g.chance(0.7)
        else g.fresh(g.shape(1, 4), g.choice(["int8", "uint8"]), low=-100, high=100)
    )
    axis = g.axis(a.rank) if g.chance(0.3) else None
    shape = () if axis is None else (a.shape[axis],)
    scale = g.leaf(g.rng.uniform(0.01, 0.1, shape).astype(np.float32))
    return g.emit(
        "DequantizeLinear",
        [a, scale, g.leaf(g.rng.integers(0, 9, shape).astype(a.dtype)) if g.chance(0.7) else None],
        {"axis": axis},
    )


def dynamic(g: Draw, op: str):
    return g.emit(op, [g.pick("f", 1, dtype=np.float32, ok=tame)], {}, 3)


def fake_quantized(g: Draw, op: str):
    """x, Q, DQ, then a product with a dequantised weight, then Q, DQ: what quantisers write."""

    def round_trip(a):
        kind = g.choice(["int8", "uint8"])
        scale, zero = scale_of(g, a, kind)
        [q] = g.emit("QuantizeLinear", [a, scale, zero], keep=g.chance(0.2))
        return g.emit("DequantizeLinear", [q, scale, zero])[0]

    a = image(g, dtype=np.float32, ok=tame) if g.chance(0.5) else g.pick("f", 2, 3, dtype=np.float32, ok=tame)
    g.pool.append(round_trip(a))
    [y] = conv(g, "Conv") if a.rank == 4 else matmul(g, "MatMul")
    if y.dtype == np.float32 and tame(y):
        if g.chance(0.5):
            [y] = g.emit("Relu", [y])
        round_trip(y)


PATTERNS = {"fake quantised": fake_quantized}
MAKERS = {"QuantizeLinear": quantize, "DequantizeLinear": dequantize, "DynamicQuantizeLinear": dynamic}
