"""Cases of operators that work element by element, with broadcasting."""

from __future__ import annotations

import numpy as np
from onnx import helper

from case import Case, Draw

# The range keeps results finite and away from where a function's slope makes one ulp of input visible.
UNARY_RANGES = {
    "Abs": (-9, 9), "Acos": (-1, 1), "Acosh": (1, 6), "Asin": (-1, 1), "Asinh": (-6, 6), "Atan": (-6, 6), "Atanh": (-0.875, 0.875),
    "BitwiseNot": (-9, 9), "Ceil": (-6, 6), "Cos": (-6, 6), "Cosh": (-6, 6), "Erf": (-3, 3), "Exp": (-6, 6), "Floor": (-6, 6),
    "HardSwish": (-6, 6), "Identity": (-6, 6), "Log": (0.125, 9), "Mish": (-4, 4), "Neg": (-6, 6), "Not": (0, 1),
    "Reciprocal": (0.25, 6), "Relu": (-6, 6), "Round": (-6, 6), "Sigmoid": (-6, 6), "Sign": (-6, 6), "Sin": (-6, 6),
    "Sinh": (-6, 6), "Softplus": (-6, 6), "Softsign": (-6, 6), "Sqrt": (0, 9), "Tan": (-1.375, 1.375), "Tanh": (-4, 4),
    "Gelu": (-3, 3), "IsNaN": (-6, 6), "IsInf": (-6, 6), "Size": (-6, 6),
}

UNARY_ATTRIBUTES = {
    "Elu": ("alpha",), "Selu": ("alpha", "gamma"), "LeakyRelu": ("alpha",), "ThresholdedRelu": ("alpha",), "Celu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"), "Shrink": ("bias", "lambd"), "Swish": ("alpha",), "IsInf": ("detect_negative", "detect_positive"),
}


def unary(draw: Draw) -> Case:
    low, high = UNARY_RANGES.get(draw.op, (-4, 4))
    opset = draw.opset()
    constraint = {"IsNaN": "T1", "IsInf": "T1", "Identity": "V", "Size": "T"}.get(draw.op, "T")
    dtype = np.dtype(bool) if draw.op == "Not" else draw.dtype(opset, constraint)
    if draw.op == "BitwiseNot" and dtype.kind == "f":
        dtype = np.dtype("int32")
    x = draw.special(draw.array(draw.shape(), dtype, low, high), probability=0.3)
    attributes = {}
    for name in UNARY_ATTRIBUTES.get(draw.op, ()):
        if draw.chance(0.6):
            attributes[name] = draw.integer(0, 1) if name.startswith("detect") else draw.integer(1, 12) / 8
    if draw.op == "Gelu" and draw.chance(0.5):
        attributes["approximate"] = draw.choice(["none", "tanh"])
    return Case([x], attributes, opset)


INTEGER_BINARY = {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}
LOGICAL_BINARY = {"And", "Or", "Xor"}


def binary(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = np.dtype(bool) if draw.op in LOGICAL_BINARY else draw.dtype(opset, allowed="iu" if draw.op in INTEGER_BINARY else "fiub")
    if draw.op in INTEGER_BINARY and dtype.kind == "f":
        dtype = np.dtype("int32")
    a, b = draw.broadcast(2)
    x, y = draw.special(draw.array(a, dtype)), draw.special(draw.array(b, dtype))
    if draw.op == "Div" and dtype.kind in "iu":
        y = np.asarray(np.where(y == 0, np.array(2, dtype), y))
    return Case([x, y], {}, opset)


def power(draw: Draw) -> Case:
    opset = draw.opset()
    base = draw.dtype(opset)
    exponent = draw.dtype(opset, "T1") if opset >= 12 else base
    a, b = draw.broadcast(2)
    low = -3 if draw.chance(0.3) else 0.125
    x = draw.special(draw.array(a, base, max(low, 1) if base.kind in "iu" else low, 4))
    y = draw.special(draw.array(b, exponent, 0 if base.kind in "iu" else -3, 3))
    return Case([x, y], {}, opset)


def modulo(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    a, b = draw.broadcast(2)
    x, y = draw.array(a, dtype, -20, 20), draw.array(b, dtype, -6, 6)
    y = np.asarray(np.where(y == 0, np.array(3, dtype), y))
    if dtype.kind == "f":
        x = draw.special(x)
    return Case([x, y], {"fmod": 1 if dtype.kind == "f" or draw.chance(0.4) else draw.choice([None, 0])}, opset)


def shift(draw: Draw) -> Case:
    dtype = draw.choice(["uint8", "uint16", "uint32", "uint64"])
    a, b = draw.broadcast(2)
    return Case([draw.array(a, dtype, 0, 200), draw.array(b, dtype, 0, 7)], {"direction": draw.choice(["LEFT", "RIGHT"])}, draw.opset())


def prelu(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    shape = draw.shape(1, 4)
    slope = tuple(1 if draw.chance(0.3) else size for size in shape[draw.integer(0, len(shape) - 1):])
    return Case([draw.special(draw.array(shape, dtype)), draw.array(slope, dtype)], {}, opset)


def variadic(draw: Draw) -> Case:
    opset = draw.opset(8)
    dtype = draw.dtype(opset)
    shapes = draw.broadcast(draw.integer(1, 4))
    return Case([draw.special(draw.array(s, dtype), probability=0.15) for s in shapes], {}, opset)


def where(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    a, b, c = draw.broadcast(3)
    return Case([draw.array(a, bool), draw.special(draw.array(b, dtype)), draw.array(c, dtype)], {}, opset)


def clip(draw: Draw) -> Case:
    opset = draw.opset()
    if opset < 11:
        attributes = {k: v for k, v in (("min", -1.25), ("max", 1.5)) if draw.chance(0.7)}
        return Case([draw.special(draw.array(draw.shape(), "float32"))], attributes, opset)
    dtype = draw.dtype(opset)
    low = draw.array((), dtype, -3, 1) if draw.chance(0.7) else None
    high = draw.array((), dtype, 0, 3) if draw.chance(0.7) else None
    return Case([draw.special(draw.array(draw.shape(), dtype)), low, high], {}, opset)


CAST_TYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


def cast(draw: Draw) -> Case:
    opset = draw.opset()
    source, target = np.dtype(draw.choice(CAST_TYPES)), np.dtype(draw.choice(CAST_TYPES))
    # Casting an out-of-range float to an integer is undefined in ONNX, so values fit every type.
    x = draw.array(draw.shape(), source, 0 if target.kind == "u" else -100, 100)
    if target.kind == "f":
        x = draw.special(x)
    if draw.op == "CastLike":
        return Case([x, draw.array((1,), target)], {}, opset)
    return Case([x], {"to": helper.np_dtype_to_tensor_dtype(target)}, opset)


def dropout(draw: Draw) -> Case:
    opset = draw.opset()
    x = draw.array(draw.shape(), draw.dtype(opset))
    outputs = draw.choice([1, 2]) if opset >= 12 else 1  # older versions leave the mask of inference open
    if opset < 12:
        return Case([x], {"ratio": 0.5}, opset, outputs)
    return Case([x, np.array(0.5, np.float32) if draw.chance(0.5) else None, np.array(False) if draw.chance(0.5) else None], {}, opset, outputs)


GENERATORS = {
    **dict.fromkeys([*UNARY_RANGES, *UNARY_ATTRIBUTES, "Gelu"], unary),
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", *INTEGER_BINARY,
                     *LOGICAL_BINARY], binary),
    **dict.fromkeys(["Max", "Min", "Mean", "Sum"], variadic),
    "Pow": power, "Mod": modulo, "BitShift": shift, "PRelu": prelu, "Where": where, "Clip": clip, "Cast": cast, "CastLike": cast,
    "Dropout": dropout,
}
