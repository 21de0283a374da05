"""Element-wise operators, rounding idioms, and chains of them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from draw import Draw

FLOAT_UNARY = """Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish Reciprocal Round
Sigmoid Sin Sinh Softplus Softsign Sqrt Tan Tanh IsNaN""".split()
PARAMETERS = {
    "Celu": {"alpha": [None, 0.5, 2.0]},
    "Elu": {"alpha": [None, 0.5, 2.0]},
    "Gelu": {"approximate": [None, "none", "tanh"]},
    "HardSigmoid": {"alpha": [None, 0.5], "beta": [None, 0.25]},
    "LeakyRelu": {"alpha": [None, 0.2, -0.5]},
    "Selu": {"alpha": [None, 2.0], "gamma": [None, 0.5]},
    "Shrink": {"bias": [None, 0.5], "lambd": [None, 1.0]},
    "Swish": {"alpha": [None, 0.5]},
    "ThresholdedRelu": {"alpha": [None, 0.25]},
    "IsInf": {"detect_negative": [None, 0, 1], "detect_positive": [None, 0, 1]},
}
CHEAP = """Abs Neg Relu Sqrt Floor Ceil Round Sign Tanh Sigmoid Exp Erf Sin Cos Softplus Reciprocal Atan LeakyRelu Elu
Gelu Log HardSwish""".split()
CAST = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}


def float_unary(g: Draw, op: str):
    return g.emit(op, [g.pick("f")], {k: g.choice(v) for k, v in PARAMETERS.get(op, {}).items()})


def number_unary(g: Draw, op: str):
    return g.emit(op, [g.pick("fi" if op != "Sign" else "fiu")])


def logic(g: Draw, op: str):
    a = g.pick("b")
    return g.emit(op, [a] if op == "Not" else [a, g.like(a)])


def nonzero(g: Draw, value):
    """A divisor for integers."""
    if value.kind == "f":
        return g.like(value)
    array = g.array(g.broadcastable(value.shape), value.dtype, -3, 3)
    return g.leaf(np.where(array == 0, np.ones((), value.dtype), array))


def binary(g: Draw, op: str):
    a = g.pick("fiu")
    b = nonzero(g, a) if op in ("Div", "Mod") else g.like(a)
    operands = [b, a] if g.chance(0.3) and op not in ("Div", "Mod") else [a, b]
    attributes = {"fmod": 1} if op == "Mod" and (a.kind == "f" or g.chance(0.3)) else {}
    return g.emit(op, operands, attributes)


def power(g: Draw, op: str):
    a = g.pick("f")
    b = (
        g.leaf(np.asarray(g.choice([2.0, 0.5, 3.0, -1.0, 1.0, 0.0, -0.5, 1.5]), a.dtype))
        if g.chance(0.6)
        else g.like(a)
    )
    if g.chance(0.2):
        b = g.leaf(np.asarray(g.integer(0, 4), g.choice(["int32", "int64"])))
    return g.emit(op, [a, b])


def compare(g: Draw, op: str):
    a = g.pick("fiu" + ("b" if op == "Equal" else ""))
    return g.emit(op, [a, g.like(a)])


def variadic(g: Draw, op: str):
    a = g.pick("f" if op in ("Sum", "Mean") else "fiu")
    return g.emit(op, [a] + [g.like(a) for _ in range(g.integer(0, 3))])


def bitwise(g: Draw, op: str):
    a = g.pick("iu")
    return g.emit(op, [a] if op == "BitwiseNot" else [a, g.like(a)])


def shift(g: Draw, op: str):
    a = g.pick("u")
    by = g.leaf(g.rng.integers(0, a.dtype.itemsize * 8, g.broadcastable(a.shape)).astype(a.dtype))
    return g.emit(op, [a, by], {"direction": g.choice(["LEFT", "RIGHT"])})


def clip(g: Draw, op: str):
    a = g.pick("fiu")
    low, high = sorted([g.integer(0, 2), g.integer(0, 3)])
    low = low - 2 if a.kind != "u" else low
    return g.emit(
        op,
        [
            a,
            g.leaf(np.asarray(low, a.dtype)) if g.chance(0.8) else None,
            g.leaf(np.asarray(high, a.dtype)) if g.chance(0.8) else None,
        ],
    )


def prelu(g: Draw, op: str):
    a = g.pick("f")
    shape = a.shape if g.chance(0.4) else tuple(1 if g.chance(0.5) else s for s in a.shape)
    return g.emit(op, [a, g.like(a, shape)])


def where(g: Draw, op: str):
    a = g.pick("fiub")
    conditions = [v for v in g.pool if v.kind == "b" and v.shape == a.shape]
    condition = g.choice(conditions) if conditions and g.chance(0.6) else g.fresh(g.broadcastable(a.shape), "bool")
    return g.emit(op, [condition, a, g.like(a)] if g.chance(0.5) else [condition, g.like(a), a])


def castable(value, to: str) -> bool:
    """Whether every element has a defined result: floats out of an integer's range have none."""
    if np.dtype(to).kind not in "iu" or value.kind != "f":
        return True
    limits = np.iinfo(to)
    return (
        value.finite
        and bool((np.abs(value.array.astype(np.float64)) < min(limits.max, 2.0**52)).all())
        and (limits.min < 0 or bool((value.array > -1).all()))
    )


def cast(g: Draw, op: str):
    a = g.pick("fiub")
    to = g.dtype("fiub")
    if not castable(a, to):
        to = g.choice(["float32", "float64", "float16", "bool"])
    if op == "CastLike":
        return g.emit(op, [a, g.fresh(g.shape(0, 2), to)])
    return g.emit(op, [a], {"to": CAST[to]})


def bit_cast(g: Draw, op: str):
    a = g.pick("fiu", ok=lambda v: v.dtype.itemsize in (2, 4, 8) and not np.isnan(v.array.astype(np.float64)).any())
    to = {2: ["int16", "uint16"], 4: ["int32", "uint32"], 8: ["int64", "uint64"]}[a.dtype.itemsize]
    return g.emit(op, [a], {"to": CAST[g.choice(to)]})


def bfloat16(g: Draw, op: str):
    """A stretch in bfloat16, with float32 on either side."""
    a = g.pick("f", dtype=np.float32)
    low, mid, out = g.name("b"), g.name("b"), g.name("v")
    inner = g.choice(["Relu", "Abs", "Neg", "Add", "Mul", "Sqrt", "Sigmoid", "Tanh"])
    nodes = [
        g.node("Cast", [a], [low], {"to": TensorProto.BFLOAT16}),
        g.node(inner, [low, low] if inner in ("Add", "Mul") else [low], [mid]),
        g.node("Cast", [mid], [out], {"to": TensorProto.FLOAT}),
    ]
    return g.emit_step(nodes, [out])


def idiom(g: Draw, op: str):
    """What floats do when they round: a compiler that simplifies with real numbers breaks these."""
    a = g.pick("f")
    scalar = lambda number: g.leaf(np.asarray(number, a.dtype), constant=g.chance(0.9))
    two = lambda name, x, y: g.emit(name, [x, y])[0]
    magic = {2: 1536.0, 4: 12582912.0, 8: 6755399441055744.0}[a.dtype.itemsize]
    kind = g.integer(0, 8)
    if kind == 0:
        c = scalar(magic)
        return two("Sub", two("Add", a, c), c)
    if kind == 1:
        return two("Mul", two("Mul", a, scalar(2.0)), scalar(0.5))
    if kind == 2:  # two-sum: the error of an addition
        b = g.like(a)
        s = two("Add", a, b)
        bb = two("Sub", s, a)
        return two("Add", two("Sub", a, two("Sub", s, bb)), two("Sub", b, bb))
    if kind == 3:  # Dekker's split
        c = two("Mul", a, scalar({2: 65.0, 4: 4097.0, 8: 134217729.0}[a.dtype.itemsize]))
        high = two("Sub", c, two("Sub", c, a))
        return two("Sub", a, high)
    if kind == 4:
        big = {2: 60000.0, 4: 3e38, 8: 1.7e308}[a.dtype.itemsize]
        return two("Add", two("Add", a, scalar(big)), scalar(big))
    if kind == 5:
        return two("Div", two("Mul", a, scalar(3.0)), scalar(3.0))
    if kind == 6:
        return two("Sub", two("Sub", a, a), a) if g.chance(0.5) else two("Div", a, a)
    if kind == 7:
        return two("Mul", a, scalar(0.0)) if g.chance(0.5) else two("Add", a, scalar(-0.0))
    return two("Mul", two("Add", a, scalar(0.1)), scalar(g.choice([0.1, 1e30, 1e-30])))


def chain(g: Draw, op: str):
    value = g.pick("f")
    for _ in range(g.integer(4, 36)):
        if g.chance(0.3):
            [value] = g.emit(
                g.choice(["Add", "Mul", "Sub", "Max", "Min", "Div"]),
                [value, value if g.chance(0.2) else g.like(value, value.shape)],
            )
        else:
            [value] = g.emit(
                g.choice(CHEAP if g.graph.opset >= 20 else [c for c in CHEAP if c != "Gelu"]),
                [value],
                keep=g.chance(0.2),
            )
    g.pool.append(value)
    return value


MAKERS = {
    **dict.fromkeys([*FLOAT_UNARY, *PARAMETERS], float_unary),
    **dict.fromkeys(["Abs", "Neg", "Relu", "Sign"], number_unary),
    **dict.fromkeys(["And", "Or", "Xor", "Not"], logic),
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Mod"], binary),
    "Pow": power,
    **dict.fromkeys(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"], compare),
    **dict.fromkeys(["Max", "Min", "Sum", "Mean"], variadic),
    **dict.fromkeys(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"], bitwise),
    "BitShift": shift,
    "Clip": clip,
    "PRelu": prelu,
    "Where": where,
    "Cast": cast,
    "CastLike": cast,
    "BitCast": bit_cast,
}
PATTERNS = {"idiom": idiom, "chain": chain, "bfloat16": bfloat16}
