"""Matrix products, convolutions, pools, resizing, and attention written in single nodes."""

from __future__ import annotations

import math

import numpy as np

from draw import Draw
from graph import Refused
from family_reduce import bounded


def full(v) -> bool:
    return bounded(v) and v.array.size > 0


def matmul(g: Draw, op: str):
    a = g.pick("f", 1, 4, ok=full)
    k, n = a.shape[-1], g.width()
    shape = (k, n) if g.chance(0.6) or a.rank < 3 else (*g.broadcastable(a.shape[:-2]), k, n)
    b = g.like(a, shape) if g.chance(0.9) else g.like(a, (k,))
    if g.chance(0.15) and a.rank >= 2:
        [b] = g.emit("Transpose", [a], {"perm": [*range(a.rank - 2), a.rank - 1, a.rank - 2]})
    if not bounded(b, 1e15):
        raise Refused("a product may overflow, which a fused multiply-add does not")
    return g.emit(op, [a, b])


def gemm(g: Draw, op: str):
    a = g.ranked(2, ok=full)
    trans_a, trans_b, n = g.choice([None, 0, 1]), g.choice([None, 0, 1]), g.width()
    m, k = a.shape[::-1] if trans_a else a.shape
    c = g.like(a, g.broadcastable((m, n))) if g.chance(0.7) else None
    return g.emit(
        op,
        [a, g.like(a, (n, k) if trans_b else (k, n)), c],
        {
            "transA": trans_a,
            "transB": trans_b,
            "alpha": g.choice([None, 0.5, 0.0, 2.0]),
            "beta": g.choice([None, 0.5, 0.0]),
        },
    )


def einsum(g: Draw, op: str):
    sizes = {c: g.extent(1, 5) for c in "bijk"}
    left, right, out = g.choice(
        [
            ("ij", "jk", "ik"),
            ("bij", "bjk", "bik"),
            ("bij", "bkj", "bik"),
            ("ij", "ij", "i"),
            ("bi", "bj", "bij"),
            ("bij", "jk", "bki"),
            ("ij", "j", "i"),
            ("bij", "bij", ""),
        ]
    )
    a = g.fresh([sizes[c] for c in left], g.choice(["float32", "float64"]))
    return g.emit(op, [a, g.like(a, [sizes[c] for c in right])], {"equation": f"{left},{right}->{out}"})


def window(g: Draw, spatial: tuple[int, ...], kernel: list[int], dilated: bool = True, strided: bool = True) -> dict:
    """Attributes of a window that fits."""
    rank = len(spatial)
    dilations = [g.choice([1, 1, 2]) for _ in range(rank)] if dilated and g.chance(0.4) else [1] * rank
    strides = [g.choice([1, 1, 2, 3]) for _ in range(rank)] if strided and g.chance(0.6) else [1] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    pads = [g.integer(0, max(0, min(k - 1, 2))) for k in kernel * 2] if g.chance(0.6) else [0] * 2 * rank
    found = {
        "dilations": dilations if any(d > 1 for d in dilations) or dilated and g.chance(0.3) else None,
        "strides": strides if any(s > 1 for s in strides) or g.chance(0.3) else None,
    }
    if g.chance(0.2):
        if g.chance(0.4) and all(r <= s for r, s in zip(reach, spatial)):
            return found | {"auto_pad": "VALID"}
        return found | {
            "auto_pad": g.choice(["SAME_UPPER", "SAME_LOWER"]),
            "dilations": None,
            "strides": [min(s, k) for s, k in zip(strides, kernel)],  # no negative padding
        }
    if any(s + pads[i] + pads[i + rank] < r for i, (s, r) in enumerate(zip(spatial, reach))):
        raise Refused("the kernel exceeds its input")
    return found | {"pads": pads if any(pads) or g.chance(0.3) else None}


def image(g: Draw, dtypes="f", ok=full, dtype=None):
    rank = g.choice([3, 4, 4, 4, 4, 5])
    large = [
        v
        for v in g.pool
        if v.rank == rank
        and v.kind in dtypes
        and ok(v)
        and min(v.shape[2:]) > 1
        and (dtype is None or v.dtype == dtype)
    ]
    if large and g.chance(0.75):
        return large[-1] if g.chance(0.6) else g.choice(large)
    sizes = [g.extent(5, 16) if rank < 5 else g.extent(2, 5) for _ in range(rank - 2)]
    shape = (g.choice([1, 1, 2, 3]), g.choice([1, 2, 3, g.width()]), *sizes)
    dtype = dtype or g.weighted({"float32": 9, "float16": 1, "float64": 1})
    value = g.fresh(shape, dtype, constant=False)
    if not ok(value):
        value = g.leaf(g.rng.uniform(-3, 3, shape).astype(dtype), constant=False)
    g.pool.append(value)
    return value


def groups(g: Draw, channels: int) -> int:
    return g.choice([1, 1, 1, channels] + [d for d in (2, 4) if channels % d == 0])


def conv(g: Draw, op: str):
    x = image(g)
    c = x.shape[1]
    kernel = [min(g.choice([1, 2, 3, 3, 5]), s + 2) for s in x.shape[2:]]
    attributes = window(g, x.shape[2:], kernel)
    group = groups(g, c)
    out = group * g.choice([1, 1, 2, 3, 4] if group > 1 else [g.width()])
    weights = g.weights((out, c // group, *kernel), x.dtype)
    bias = g.fresh((out,), x.dtype) if g.chance(0.5) else None
    return g.emit(
        op,
        [x, weights, bias],
        attributes | {"group": group if group > 1 else None, "kernel_shape": kernel if g.chance(0.5) else None},
    )


def conv_transpose(g: Draw, op: str):
    x = image(g)
    c, rank = x.shape[1], x.rank - 2
    kernel = [g.choice([1, 2, 3, 4]) for _ in range(rank)]
    group, strides = groups(g, c), [g.choice([1, 2, 3]) for _ in range(rank)]
    pads = [g.integer(0, (k - 1) // 2) for k in kernel] * 2 if g.chance(0.5) else None
    attributes = {
        "strides": strides,
        "pads": pads,
        "group": group,
        "output_padding": [g.integer(0, s - 1) for s in strides] if g.chance(0.3) else None,
        "dilations": [g.choice([1, 2]) for _ in range(rank)] if g.chance(0.2) else None,
    }
    if g.chance(0.15):
        attributes |= {"pads": None, "auto_pad": g.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])}
    weights = g.weights((c, g.extent(1, 4), *kernel), x.dtype)
    return g.emit(
        op, [x, weights, g.fresh((group * weights.shape[1],), x.dtype) if g.chance(0.5) else None], attributes
    )


def pool(g: Draw, op: str):
    x = image(g, ok=(lambda v: full(v) and v.finite))
    kernel = [min(g.choice([1, 2, 2, 3, 3, 4]), s) for s in x.shape[2:]]
    opset = g.graph.opset
    dilated = op == "MaxPool" or (op == "AveragePool" and opset >= 19) or (op == "LpPool" and opset >= 18)
    attributes = window(g, x.shape[2:], kernel, dilated) | {"kernel_shape": kernel}
    if (op != "LpPool" or opset >= 18) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = g.choice([None, 0, 1])
    if op == "AveragePool":
        attributes["count_include_pad"] = g.choice([None, 0, 1])
    if op == "LpPool":
        attributes["p"] = g.choice([None, 1, 2, 3])
    return g.emit(op, [x], attributes, 2 if op == "MaxPool" and g.chance(0.2) else 1)


def resize(g: Draw, op: str):
    x = image(g, ok=lambda v: full(v) and v.finite)
    mode = g.choice(["nearest", "linear", "cubic"])
    if mode == "cubic" and x.rank != 4:
        mode = "linear"
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": g.choice(
            [None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
        ),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = g.choice([None, "floor", "ceil", "round_prefer_ceil"])
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": g.choice([None, -0.5]), "exclude_outside": g.choice([None, 1])}
    plain = attributes["coordinate_transformation_mode"] in (None, "half_pixel")
    if g.graph.opset >= 18 and mode != "nearest" and plain and g.chance(0.3):
        attributes["antialias"] = 1
    if g.chance(0.5) and attributes["coordinate_transformation_mode"] != "align_corners":
        scales = [1.0, 1.0] + [g.choice([0.5, 2.0, 1.5, 3.0, 0.6]) for _ in x.shape[2:]]
        if any(int(s * k) < 1 for s, k in zip(x.shape, scales)):
            raise Refused("no pixel left")
        return g.emit(op, [x, None, g.leaf(np.array(scales, np.float32))], attributes)
    sizes = list(x.shape[:2]) + [g.extent(1, 12) for _ in x.shape[2:]]
    return g.emit(op, [x, None, None, g.integers(sizes)], attributes)


def det(g: Draw, op: str):
    n = g.integer(1, 4)
    return g.emit(op, [g.fresh((*g.shape(0, 2), n, n), constant=False)])


def attention_by_hand(g: Draw, op: str):
    """Heads split by Reshape and Transpose, scores, an optional mask, softmax, values, heads joined."""
    batch, length, heads, width = (
        g.integer(1, 2),
        g.choice([1, 3, 4, 7, g.width()]),
        g.choice([1, 2, 3, 4]),
        g.choice([1, 2, 4, 8]),
    )
    shape = (batch, length, heads * width)
    fits = [v for v in g.pool if v.shape == shape and v.dtype == np.float32]
    x = fits[-1] if fits else g.fresh(shape, constant=False)

    def head(perm):
        y = x
        if g.chance(0.7):
            [y] = g.emit("MatMul", [x, g.fresh((heads * width, heads * width))])
        if g.chance(0.4):
            [y] = g.emit("Add", [y, g.fresh((heads * width,))])
        [y] = g.emit(
            "Reshape", [y, g.integers([batch, length, heads, width] if g.chance(0.5) else [batch, -1, heads, width])]
        )
        return g.emit("Transpose", [y], {"perm": perm})[0]

    q, k, v = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
    [scores] = g.emit("MatMul", [q, k])
    scale = np.float32(1 / math.sqrt(width))
    [scores] = g.emit("Mul", [scores, g.leaf(scale)]) if g.chance(0.5) else g.emit("Div", [scores, g.leaf(1 / scale)])
    if g.chance(0.5):
        mask = g.rng.random((batch, 1, 1 if g.chance(0.5) else length, length)) < 0.3
        if g.chance(0.5):
            low = g.choice([-np.inf, -1e9, -3.4028235e38])
            [scores] = g.emit("Add", [scores, g.leaf(np.where(mask, low, 0).astype(np.float32))])
        else:
            [scores] = g.emit("Where", [g.leaf(mask), g.leaf(np.float32(g.choice([-np.inf, -1e9]))), scores])
    [weights] = g.emit("Softmax", [scores], {"axis": g.choice([-1, 3])})
    if g.chance(0.3):
        [bad] = g.emit("IsNaN", [weights])
        [weights] = g.emit("Where", [bad, g.leaf(np.float32(0)), weights])
    [y] = g.emit("MatMul", [weights, v])
    [y] = g.emit("Transpose", [y], {"perm": [0, 2, 1, 3]})
    return g.emit("Reshape", [y, g.integers([batch, length, heads * width])])


def shared_heads(g: Draw, op: str):
    """Attention whose keys and values are shared by groups of heads, expanded as exporters write it."""
    batch, length, groups_, each, width = g.integer(1, 2), g.choice([1, 3, 5, 16]), g.integer(1, 3), g.integer(1, 3), 4
    q = g.leaf(g.rng.uniform(-2, 2, (batch, groups_ * each, length, width)).astype(np.float32), False)

    def expanded():
        x = g.leaf(g.rng.uniform(-2, 2, (batch, groups_, length, width)).astype(np.float32), False)
        g.pool.append(x)
        [x] = g.emit("Unsqueeze", [x, g.leaf(np.array([2]), True)], keep=False)
        [x] = g.emit("Expand", [x, g.integers([batch, groups_, each, length, width])], keep=False)
        return g.emit("Reshape", [x, g.integers([batch, groups_ * each, length, width])], keep=False)[0]

    [k] = g.emit("Transpose", [expanded()], {"perm": [0, 1, 3, 2]}, keep=False)
    [scores] = g.emit("MatMul", [q, k], keep=False)
    [scores] = g.emit("Mul", [scores, g.leaf(np.float32(0.5))], keep=False)
    if g.chance(0.5):
        mask = np.where(np.tri(length, dtype=bool), 0, -np.inf).astype(np.float32)
        [scores] = g.emit("Add", [scores, g.leaf(mask)], keep=False)
    [weights] = g.emit("Softmax", [scores], {"axis": -1}, keep=False)
    return g.emit("MatMul", [weights, expanded()])


def conv_block(g: Draw, op: str):
    """Convolution, normalisation, activation, and a residual where shapes allow."""
    for _ in range(g.integer(1, 3)):
        before = image(g, dtype=np.float32)
        [y] = conv(g, "Conv")
        c = (y.shape[1],)
        if g.chance(0.4) and full(y):
            variance = g.leaf(g.rng.uniform(0.2, 2, c).astype(y.dtype), True)
            [y] = g.emit("BatchNormalization", [y, *(g.plain(y, c) for _ in range(3)), variance])
        if g.chance(0.7):
            [y] = g.emit(
                g.choice(
                    ["Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Tanh"]
                    if g.graph.opset >= 14
                    else ["Relu", "Sigmoid"]
                ),
                [y],
            )
        if y.shape == before.shape and y.dtype == before.dtype:
            [y] = g.emit("Add", [y, before])
        if g.chance(0.3):
            pool(g, g.choice(["MaxPool", "AveragePool"]))
        if g.chance(0.2):
            resize(g, "Resize")


MAKERS = {
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    **dict.fromkeys(["MaxPool", "AveragePool", "LpPool"], pool),
    "Resize": resize,
    "Det": det,
}
PATTERNS = {"attention": attention_by_hand, "shared heads": shared_heads, "conv block": conv_block}
