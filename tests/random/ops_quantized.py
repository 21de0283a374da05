"""Cases of quantizing operators. Scales are powers of two and sums small, so rounding has no ties that depend on order."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from case import Case, Draw
from ops_contraction import matrix_shapes
from ops_window import spatial

BYTES = ["uint8", "int8"]
PACKED = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15)}


def byte(draw: Draw, shape, kind: str, spread: int = 100) -> np.ndarray:
    return draw.array(shape, kind, 0 if kind == "uint8" else -spread, spread)


def zero_point(draw: Draw, kind: str, shape=()) -> np.ndarray:
    return draw.array(shape, kind, 100 if kind == "uint8" else -20, 150 if kind == "uint8" else 20)


def scale(draw: Draw, shape=(), dtype="float32") -> np.ndarray:
    return np.asarray(2.0 ** draw.rng.integers(-4, 1, shape), dtype)


def between_ties(draw: Draw, shape, spread: float) -> np.ndarray:
    """Multiples of 1/64 that are odd: divided by a power of two down to 1/16 they never end in one half."""
    return ((2 * draw.rng.integers(-int(32 * spread), int(32 * spread), shape) + 1) / 64).astype(np.float32)


def parameters(draw: Draw, shape, opset: int) -> tuple[tuple[int, ...], dict]:
    """The shape of scale and zero point: one, one per slice of an axis, or one per block of an axis."""
    kind = draw.choice(["tensor", *(["axis"] if opset >= 13 and len(shape) else []), *(["block"] if opset >= 21 and len(shape) else [])])
    if kind == "tensor":
        return (), {}
    axis = draw.axis(len(shape))
    if kind == "axis":
        return (shape[axis],), {"axis": axis}
    block = draw.integer(1, shape[axis])
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    return tuple(blocks), {"axis": axis, "block_size": block}


def quantize(draw: Draw) -> Case:
    opset = draw.opset()
    shape = draw.shape(1, 4, empty=0)
    kind = draw.choice(["uint8", "int8", *(["uint16", "int16"] if opset >= 21 else [])])
    steps, attributes = parameters(draw, shape, opset)
    x = between_ties(draw, shape, 12)
    if draw.chance(0.2):
        x.flat[0] = draw.choice([np.inf, -np.inf, 1e30])
    zero = draw.array(steps, kind, 3, 90) if draw.chance(0.7) else None
    return Case([x, scale(draw, steps), zero], attributes, opset)


def dequantize(draw: Draw) -> Case:
    opset = draw.opset()
    shape = draw.shape(1, 4, empty=0)
    kinds = ["uint8", "int8", "int32", *(["uint16", "int16", "packed", "packed"] if opset >= 21 else [])]
    kind = draw.choice(kinds)
    steps, attributes = parameters(draw, shape, opset)
    if kind == "packed":
        packed = draw.choice(list(PACKED))
        low, high = PACKED[packed]
        zero = draw.array(steps, "int8", low, high) if draw.chance(0.6) else None
        return Case([draw.array(shape, "int8", low, high), scale(draw, steps), zero], attributes, opset, constants=(0, 2),
                    packed={0: packed, 2: packed})
    zero = draw.array(steps, kind, 3, 90) if kind != "int32" and draw.chance(0.6) else None
    return Case([draw.array(shape, kind, -100, 100), scale(draw, steps, draw.choice(["float32", "float16"]) if opset >= 19 else "float32"), zero],
                attributes, opset)


def dynamic_quantize(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 3, empty=0)) * np.float32(1.37)
    return Case([x.astype(np.float32)], {}, draw.opset(), 3)


def matmul_integer(draw: Draw) -> Case:
    left, right = draw.choice(BYTES), draw.choice(BYTES)
    a, b = matrix_shapes(draw)
    zeros = [zero_point(draw, left) if draw.chance(0.6) else None,
             zero_point(draw, right, draw.choice([(), (b[-1],)]) if len(b) > 1 else ()) if draw.chance(0.6) else None]
    return Case([byte(draw, a, left), byte(draw, b, right), *zeros], {}, draw.opset())


def convolution_operands(draw: Draw, kinds: tuple[str, str]) -> tuple[np.ndarray, np.ndarray, dict]:
    rank = draw.choice([1, 2, 2])
    image, attributes = spatial(draw, rank)
    group, inputs, outputs = draw.choice([1, 1, 2]), draw.integer(1, 3), draw.integer(1, 3)
    x = byte(draw, (draw.integer(1, 2), group * inputs, *image), kinds[0], 40)
    w = byte(draw, (group * outputs, inputs, *attributes["kernel_shape"]), kinds[1], 20)
    return x, w, {**attributes, "group": group}


def conv_integer(draw: Draw) -> Case:
    kinds = draw.choice(BYTES), draw.choice(BYTES)
    x, w, attributes = convolution_operands(draw, kinds)
    return Case([x, w, zero_point(draw, kinds[0]) if draw.chance(0.6) else None, zero_point(draw, kinds[1]) if draw.chance(0.5) else None],
                attributes, draw.opset())


def off_tie(draw: Draw) -> np.ndarray:
    """An output scale for which no multiple of a power of two lands on a tie."""
    return np.array(draw.choice([7.3137, 11.7131, 23.1173]), np.float32)


def qlinear_matmul(draw: Draw) -> Case:
    opset = draw.opset()
    kind = draw.choice(BYTES)
    a, b = matrix_shapes(draw)
    return Case([byte(draw, a, kind, 60), scale(draw), zero_point(draw, kind), byte(draw, b, kind, 60), scale(draw), zero_point(draw, kind),
                 off_tie(draw), zero_point(draw, kind)], {}, opset)


def qlinear_conv(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    weight_kind = "int8" if kind == "int8" else draw.choice(BYTES)
    x, w, attributes = convolution_operands(draw, (kind, weight_kind))
    per_channel = draw.chance(0.5)
    bias = draw.array((w.shape[0],), "int32", -50, 50) if draw.chance(0.5) else None
    zero = np.full((w.shape[0],) if per_channel else (), 0 if weight_kind == "int8" else 110, weight_kind)
    return Case([x, scale(draw), zero_point(draw, kind), w, scale(draw, (w.shape[0],) if per_channel else ()), zero, off_tie(draw),
                 zero_point(draw, kind), bias], attributes, draw.opset(), constants=(3, 4, 5, 8))


GENERATORS = {
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "DynamicQuantizeLinear": dynamic_quantize, "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer, "QLinearMatMul": qlinear_matmul, "QLinearConv": qlinear_conv,
}
