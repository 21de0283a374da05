"""Cases of the com.microsoft operators that exporters and optimisers emit."""

from __future__ import annotations

import functools

import numpy as np

from case import MICROSOFT, Case, Draw
from ops_contraction import matrix_shapes
from ops_quantized import BYTES, between_ties, byte, convolution_operands, off_tie, scale, zero_point
from ops_window import spatial

ms = functools.partial(Case, domain=MICROSOFT)


def small(draw: Draw, *shape: int) -> np.ndarray:
    return draw.array(shape, low=-1, high=1)


def activation(draw: Draw) -> Case:
    return ms([draw.special(draw.array(draw.shape(1)))], {"alpha": draw.choice([None, 1.0, 1.5])} if draw.op == "QuickGelu" else {})


def biased_activation(draw: Draw) -> Case:
    # Near zero on the far left 1 + erf and 1 + tanh cancel, and what is left depends on the last bit of either.
    x = draw.array(draw.shape(1, empty=0), low=-1.5, high=3)
    bias = draw.array((x.shape[-1],), low=-1.5, high=3)
    return ms([x, None if draw.op == "FastGelu" and draw.chance(0.4) else bias])


def skip_normalization(draw: Draw) -> Case:
    dtype = draw.dtype(21, domain=MICROSOFT, allowed="f")
    batch, length, width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(2, 8)
    shape = (batch, length, width) if draw.chance(0.8) else (length, width)
    skip = draw.choice([shape, shape, (1, length, width), (length, width)]) if len(shape) == 3 else shape
    extra = [draw.array((width,), dtype) if draw.chance(0.6) else None
             for _ in range(2 if draw.op == "SkipLayerNormalization" else 1)]
    outputs = (True, False, False, True) if draw.chance(0.5) else 1
    return ms([draw.array(shape, dtype), draw.array(skip, dtype), draw.array((width,), dtype), *extra], {"epsilon": draw.choice([None, 1e-3])},
              outputs=outputs)


def embed_normalization(draw: Draw) -> Case:
    batch, length, width, words = draw.integer(1, 2), draw.integer(1, 5), draw.integer(2, 8), 9
    segments = draw.chance(0.6)
    mask = np.zeros((batch, length), np.int32)
    for row in range(batch):
        mask[row, :draw.integer(1, length)] = 1
    ids = draw.rng.integers(0, words, (batch, length)).astype(np.int32)
    positions = draw.rng.integers(0, 6, (batch, length)).astype(np.int32) if draw.chance(0.3) else None
    masked = draw.chance(0.5)
    return ms([ids, draw.rng.integers(0, 2, (batch, length)).astype(np.int32) if segments else None, draw.array((words, width)),
               draw.array((6, width)), draw.array((2, width)) if segments else None, draw.array((width,)), draw.array((width,)),
               mask if masked else None, positions], {"epsilon": draw.choice([None, 1e-3])}, outputs=(True, True, draw.chance(0.4)))


def fused_matmul(draw: Draw) -> Case:
    dtype = draw.dtype(21, domain=MICROSOFT, allowed="f")
    rank, (m, k, n) = draw.integer(2, 4), (draw.integer(1, 5) for _ in range(3))
    batch = [draw.integer(1, 3) for _ in range(rank - 2)]
    flips = {name: draw.integer(0, 1) for name in ("transA", "transB")}
    if draw.op == "FusedMatMul" and rank > 2 and draw.chance(0.3):
        flips.update(transBatchA=draw.integer(0, 1), transBatchB=draw.integer(0, 1))

    def operand(rows: int, columns: int, side: str) -> np.ndarray:
        shape = [*batch, rows, columns]
        if flips[f"trans{side}"]:
            shape[-2:] = shape[-1], shape[-2]
        if flips.get(f"transBatch{side}"):  # the batch axes stand between the two axes of the matrix
            shape = [shape[-2], *shape[:-2], shape[-1]]
        return draw.array(shape, dtype)

    return ms([operand(m, k, "A"), operand(k, n, "B")], {**flips, "alpha": draw.choice([None, 0.5])})


ACTIVATIONS = [("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.25]), ("Clip", [-1.0, 2.0]), ("HardSigmoid", [0.25, 0.5])]


def fused_conv(draw: Draw) -> Case:
    image, attributes = spatial(draw, 2)
    group, inputs, outputs = draw.choice([1, 2]), draw.integer(1, 3), draw.integer(1, 3)
    name, parameters = draw.choice(ACTIVATIONS)
    x = small(draw, draw.integer(1, 2), group * inputs, *image)
    w = small(draw, group * outputs, inputs, *attributes["kernel_shape"])
    return ms([x, w, small(draw, group * outputs) if draw.chance(0.5) else None],
              {**attributes, "group": group, "activation": name, "activation_params": parameters})


def fused_gemm(draw: Draw) -> Case:
    m, k, n = (draw.integer(1, 5) for _ in range(3))
    flips = {name: draw.integer(0, 1) for name in ("transA", "transB")}
    a = draw.array((k, m) if flips["transA"] else (m, k), low=-1, high=1)
    b = draw.array((n, k) if flips["transB"] else (k, n), low=-1, high=1)
    name, parameters = draw.choice([*ACTIVATIONS[:4]])
    return ms([a, b, small(draw, n) if draw.chance(0.6) else None],
              {**flips, "alpha": draw.choice([None, 0.5]), "activation": name, "activation_alpha": parameters[0] if parameters else None})


def key_mask(draw: Draw, batch: int, queries: int, total: int) -> np.ndarray:
    """Key lengths, a mask of keys, or a mask of keys for each query; every query sees a key."""
    lengths = draw.rng.integers(1, total + 1, batch).astype(np.int32)
    kind = draw.choice(["lengths", "keys", "queries"])
    keys = (np.arange(total)[None] < lengths[:, None]).astype(np.int32)
    if kind == "lengths":
        return lengths
    return keys if kind == "keys" else np.repeat(keys[:, None], queries, axis=1)


def attention(draw: Draw) -> Case:
    batch, length, heads, size, width = (draw.integer(*r) for r in ((1, 2), (1, 4), (1, 3), (2, 4), (2, 5)))
    hidden = heads * size
    past = draw.integer(1, 3) if draw.chance(0.3) else 0
    total = past + length
    inputs = [small(draw, batch, length, width), small(draw, width, 3 * hidden), small(draw, 3 * hidden),
              key_mask(draw, batch, length, total) if draw.chance(0.6) else None,
              small(draw, 2, batch, heads, past, size) if past else None,
              small(draw, draw.choice([1, batch]), draw.choice([1, heads]), length, total) if draw.chance(0.3) else None]
    return ms(inputs, {"num_heads": heads, "unidirectional": draw.choice([None, 0, 1]), "scale": draw.choice([None, 0.5])},
              outputs=2 if past or draw.chance(0.3) else 1)


def multi_head_attention(draw: Draw) -> Case:
    batch, queries, keys, heads, size = (draw.integer(*r) for r in ((1, 2), (1, 4), (1, 5), (1, 3), (2, 4)))
    keys = queries if draw.chance(0.5) else keys
    hidden = heads * size
    past = draw.integer(1, 3) if draw.chance(0.3) else 0
    total = past + keys
    mask = key_mask(draw, batch, queries, total) if draw.chance(0.5) else None
    if past and mask is not None and mask.ndim == 1:
        mask = None
    inputs = [small(draw, batch, queries, hidden), small(draw, batch, keys, hidden), small(draw, batch, keys, hidden),
              small(draw, 3 * hidden) if draw.chance(0.5) else None, mask,
              small(draw, draw.choice([1, batch]), draw.choice([1, heads]), queries, total) if draw.chance(0.4) else None]
    if past:
        inputs += [small(draw, batch, heads, past, size), small(draw, batch, heads, past, size)]
    causal = draw.choice([None, 0, 1]) if keys == queries else 0  # else the last query sees every key, whatever the order
    return ms(inputs, {"num_heads": heads, "unidirectional": causal, "scale": draw.choice([None, 0.5])},
              outputs=3 if past or draw.chance(0.3) else 1)


def group_query_attention(draw: Draw) -> Case:
    batch, groups, size = draw.integer(1, 2), draw.integer(1, 2), draw.choice([8, 16])
    heads = groups * draw.integer(1, 3)
    past = draw.integer(1, 4) if draw.chance(0.6) else 0
    length = draw.integer(1, 5) if not past or (batch == 1 and draw.chance(0.5)) else 1
    total = past + length
    rotary, packed = draw.chance(0.5), draw.chance(0.3)
    if packed:
        operands = [small(draw, batch, length, (heads + 2 * groups) * size), None, None]
    else:
        operands = [small(draw, batch, length, heads * size), small(draw, batch, length, groups * size), small(draw, batch, length, groups * size)]
    angles = draw.array((12, size // 2), low=-3, high=3)
    inputs = [*operands, small(draw, batch, groups, past, size) if past else None, small(draw, batch, groups, past, size) if past else None,
              np.full(batch, total - 1, np.int32), np.array(total, np.int32), *([np.cos(angles), np.sin(angles)] if rotary else [None, None])]
    return ms(inputs, {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1 if rotary else draw.choice([None, 0]),
                       "rotary_interleaved": draw.choice([None, 0, 1]) if rotary else None, "scale": draw.choice([None, 0.5]),
                       "local_window_size": draw.choice([None, None, 2]), "softcap": draw.choice([None, None, 2.0]),
                       "smooth_softmax": draw.choice([None, None, 1])}, outputs=3)


def rotary(draw: Draw) -> Case:
    batch, heads, length, half = (draw.integer(*r) for r in ((1, 2), (1, 3), (1, 4), (1, 4)))
    flat = draw.chance(0.5)
    partial = draw.chance(0.3)
    size = 2 * half + (2 if partial else 0)
    x = draw.array((batch, length, heads * size) if flat else (batch, heads, length, size))
    angles = draw.array((8, half))
    positions = draw.choice([draw.rng.integers(0, 8, (batch, length)), draw.rng.integers(0, 4, (1,))])
    return ms([x, positions, np.cos(angles), np.sin(angles)],
              {"interleaved": draw.choice([None, 0, 1]), "num_heads": heads if flat or partial else None,
               "rotary_embedding_dim": 2 * half if partial else None})


def matmul_n_bits(draw: Draw) -> Case:
    bits, block = draw.choice([4, 4, 8]), draw.choice([16, 32])
    k, n, rows = draw.choice([16, 20, 32, 48, 64]), draw.integer(1, 5), draw.integer(1, 3)
    blocks = -(-k // block)
    packed_zeros = -(-blocks * bits // 8)
    zeros = draw.choice([None, draw.array((n, packed_zeros), "uint8", 0, 255), small(draw, n, blocks) + np.float32(2 ** (bits - 1))])
    return ms([draw.array(draw.choice([(rows, k), (2, rows, k)])), draw.array((n, blocks, block * bits // 8), "uint8", 0, 255),
               scale(draw, (n, blocks)) / np.float32(8), zeros, None, draw.array((n,)) if draw.chance(0.3) else None],
              {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": draw.choice([None, 0, 1])}, constants=(1, 2, 3))


def dynamic_quantize_matmul(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    m, k, n = draw.integer(1, 4), draw.integer(1, 6), draw.integer(1, 5)
    per_column = draw.chance(0.5)
    shape = (n,) if per_column else ()
    a = (draw.array(draw.choice([(m, k), (2, m, k)])) * np.float32(1.37)).astype(np.float32)
    return ms([a, byte(draw, (k, n), kind), scale(draw, shape), zero_point(draw, kind, shape) if draw.chance(0.6) else None,
               draw.array((n,)) if draw.chance(0.4) else None])


def matmul_integer_to_float(draw: Draw) -> Case:
    left = draw.choice(BYTES)
    right = "int8" if left == "int8" else draw.choice(BYTES)
    m, k, n = draw.integer(1, 4), draw.integer(1, 6), draw.integer(1, 5)
    shape = (n,) if draw.chance(0.5) else ()
    return ms([byte(draw, draw.choice([(m, k), (2, m, k)]), left), byte(draw, (k, n), right), scale(draw), scale(draw, shape),
               zero_point(draw, left) if draw.chance(0.6) else None, zero_point(draw, right, shape) if draw.chance(0.6) else None,
               draw.array((n,)) if draw.chance(0.4) else None])


def q_linear_binary(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    a, b = draw.broadcast(2)
    wide = np.float32(16 if draw.op == "QLinearMul" else 1)
    return ms([byte(draw, a, kind), scale(draw), zero_point(draw, kind), byte(draw, b, kind), scale(draw), zero_point(draw, kind),
               np.asarray(off_tie(draw) / 7 * wide, np.float32), zero_point(draw, kind)])


def q_linear_unary(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    out = np.array(1 / 256, np.float32) if draw.op == "QLinearSigmoid" else np.asarray(off_tie(draw) / 20, np.float32)
    zero = np.array(0 if kind == "uint8" else -128, kind) if draw.op == "QLinearSigmoid" else zero_point(draw, kind)
    return ms([byte(draw, draw.shape(1, empty=0), kind), np.array(0.0625, np.float32), zero_point(draw, kind), out, zero],
              {"alpha": draw.choice([None, 0.3])} if draw.op == "QLinearLeakyRelu" else {}, constants=(1, 2, 3, 4))


def q_linear_pool(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    image, attributes = spatial(draw, 2)
    attributes.pop("dilations")
    if "pads" in attributes:
        attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], attributes["kernel_shape"] * 2)]
    last = draw.integer(0, 1)
    n, c = draw.integer(1, 2), draw.integer(1, 4)
    shape = (n, *image, c) if last else (n, c, *image)
    inputs = [byte(draw, shape, kind), scale(draw), zero_point(draw, kind), np.asarray(off_tie(draw) / 10, np.float32), zero_point(draw, kind)]
    if draw.op == "QLinearGlobalAveragePool":
        return ms(inputs, {"channels_last": last})
    return ms(inputs, {**attributes, "channels_last": last, "count_include_pad": draw.choice([None, 0, 1]), "ceil_mode": draw.choice([None, 0, 1])})


def q_linear_concat(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    shape = list(draw.shape(1, 4, empty=0))
    axis = draw.axis(len(shape))
    inputs = [np.asarray(off_tie(draw) / 7, np.float32), zero_point(draw, kind)]
    for _ in range(draw.integer(1, 3)):
        shape[axis] = draw.integer(1, 3)
        inputs += [byte(draw, shape, kind), scale(draw), zero_point(draw, kind)]
    return ms(inputs, {"axis": axis})


def q_linear_softmax(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    x = byte(draw, draw.shape(1, 4, empty=0), kind)
    zero = np.array(0 if kind == "uint8" else -128, kind)
    return ms([x, np.array(0.0625, np.float32), zero_point(draw, kind), np.array(1 / 256, np.float32), zero],
              {"axis": draw.axis(x.ndim), "opset": draw.choice([13, 13, 12])}, constants=(1, 2, 3, 4))


def q_linear_where(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    c, a, b = draw.broadcast(3)
    return ms([draw.array(c, bool), byte(draw, a, kind), scale(draw), zero_point(draw, kind), byte(draw, b, kind), scale(draw),
               zero_point(draw, kind), np.asarray(off_tie(draw) / 7, np.float32), zero_point(draw, kind)], constants=(2, 3, 5, 6, 7, 8))


def q_gemm(draw: Draw) -> Case:
    left = draw.choice(BYTES)
    right = "int8" if left == "int8" else draw.choice(BYTES)
    m, k, n = draw.integer(1, 4), draw.integer(1, 6), draw.integer(1, 5)
    flips = {name: draw.integer(0, 1) for name in ("transA", "transB")}
    shape = (n,) if draw.chance(0.4) else ()
    quantized = [off_tie(draw), zero_point(draw, left)] if draw.chance(0.6) else [None, None]
    return ms([byte(draw, (k, m) if flips["transA"] else (m, k), left, 60), scale(draw), zero_point(draw, left),
               byte(draw, (n, k) if flips["transB"] else (k, n), right, 60), scale(draw, shape), zero_point(draw, right, shape),
               draw.array((n,), "int32", -50, 50) if draw.chance(0.5) else None, *quantized], {**flips, "alpha": draw.choice([None, 0.5])})


def q_linear_conv(draw: Draw) -> Case:
    kind = draw.choice(BYTES)
    x, w, attributes = convolution_operands(draw, (kind, "int8"))
    last = draw.integer(0, 1)
    if last:
        x = np.moveaxis(x, 1, -1).copy()
    return ms([x, scale(draw), zero_point(draw, kind), w, scale(draw), np.array(0, "int8"), off_tie(draw), zero_point(draw, kind)],
              {**attributes, "channels_last": last}, constants=(3, 4, 5))


def quantize(draw: Draw) -> Case:
    shape = draw.shape(1, 3, empty=0)
    kind = draw.choice(["uint8", "int8", "uint16", "int16"])
    axis = draw.axis(len(shape)) if draw.chance(0.5) else None
    steps = () if axis is None else (shape[axis],)
    x = between_ties(draw, shape, 12) if draw.op == "QuantizeLinear" else draw.array(shape, kind, -100, 100)
    return ms([x, scale(draw, steps), draw.array(steps, kind, 3, 90)], {"axis": axis})


def nhwc_max_pool(draw: Draw) -> Case:
    image, attributes = spatial(draw, 2)
    if "pads" in attributes:
        attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], attributes["kernel_shape"] * 2)]
    return ms([byte(draw, (draw.integer(1, 2), *image, draw.integer(1, 4)), draw.choice(BYTES))], attributes)


def inverse(draw: Draw) -> Case:
    size = draw.integer(1, 4)
    x = draw.array((*draw.shape(0, 2, 3, empty=0), size, size), draw.choice(["float32", "float64"]), -1, 1)
    return ms([x + np.eye(size, dtype=x.dtype) * 4])


def range_(draw: Draw) -> Case:
    dtype = draw.dtype(21, domain=MICROSOFT)
    delta = draw.array((), dtype, 1, 2) if draw.chance(0.7) else None
    return ms([draw.array((), dtype, -5, 0), draw.array((), dtype, 1, 8), delta])


def trilu(draw: Draw) -> Case:
    x = draw.array(draw.shape(2, 4), draw.choice(["float32", "int64"]))
    return ms([x, np.array(draw.integer(-3, 3), np.int64) if draw.chance(0.6) else None], {"upper": draw.choice([None, 0, 1])})


def pad(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 4, empty=0))
    return ms([x, np.array([draw.integer(0, 2) for _ in range(2 * x.ndim)], np.int64), draw.array(()) if draw.chance(0.5) else None],
              {"mode": draw.choice([None, "constant", "edge"])})


def distances(draw: Draw) -> Case:
    width, dtype = draw.integer(1, 4), draw.choice(["float32", "float64"])
    # Far apart, since the square root of a cancelled difference has no precision left.
    return ms([draw.array((draw.integer(1, 5), width), dtype), draw.array((draw.integer(1, 5), width), dtype, 4, 9)],
              {"metric": draw.choice(["euclidean", "sqeuclidean"])})


def expand_dims(draw: Draw) -> Case:
    x = draw.array(draw.shape(0, 3))
    return ms([x, np.array(draw.integer(-x.ndim - 1, x.ndim), np.int32)])


def q_attention(draw: Draw) -> Case:
    batch, length, heads, size, width = (draw.integer(*r) for r in ((1, 2), (1, 4), (1, 3), (2, 4), (2, 5)))
    hidden, kind = heads * size, draw.choice(BYTES)
    return ms([byte(draw, (batch, length, width), "uint8"), byte(draw, (width, 3 * hidden), kind), small(draw, 3 * hidden),
               np.array(1 / 64, np.float32), np.array(1 / 64, np.float32), key_mask(draw, batch, length, length) if draw.chance(0.5) else None,
               zero_point(draw, "uint8"), zero_point(draw, kind)], {"num_heads": heads, "unidirectional": draw.choice([None, 0, 1])})


GENERATORS = {
    **dict.fromkeys(["Gelu", "QuickGelu"], activation), **dict.fromkeys(["BiasGelu", "FastGelu"], biased_activation),
    **dict.fromkeys(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"], skip_normalization),
    "EmbedLayerNormalization": embed_normalization, **dict.fromkeys(["FusedMatMul", "TransposeMatMul"], fused_matmul), "FusedConv": fused_conv,
    "FusedGemm": fused_gemm, "Attention": attention, "MultiHeadAttention": multi_head_attention, "GroupQueryAttention": group_query_attention,
    "RotaryEmbedding": rotary, "MatMulNBits": matmul_n_bits, "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "MatMulIntegerToFloat": matmul_integer_to_float, **dict.fromkeys(["QLinearAdd", "QLinearMul"], q_linear_binary),
    **dict.fromkeys(["QLinearSigmoid", "QLinearLeakyRelu"], q_linear_unary),
    **dict.fromkeys(["QLinearAveragePool", "QLinearGlobalAveragePool"], q_linear_pool), "QLinearConcat": q_linear_concat,
    "QLinearSoftmax": q_linear_softmax, "QLinearWhere": q_linear_where, "QGemm": q_gemm, "QLinearConv": q_linear_conv, "QAttention": q_attention,
    **dict.fromkeys(["QuantizeLinear", "DequantizeLinear"], quantize), "NhwcMaxPool": nhwc_max_pool, "Inverse": inverse, "Range": range_,
    "Trilu": trilu, "Pad": pad, "CDist": distances, "ExpandDims": expand_dims,
}
