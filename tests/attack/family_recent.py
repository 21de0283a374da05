"""Operators of the newest opsets, and those that no peer implements but a formula says."""

from __future__ import annotations

import numpy as np

from draw import Draw
from graph import MICROSOFT

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


def linear_attention(g: Draw, op: str):
    batch, length, heads, shared = g.integer(1, 2), g.integer(1, 5), g.choice([1, 2]), g.choice([1, 2])
    key, value = g.choice([1, 2, 4]), g.choice([1, 3, 4])
    rule = g.choice(list(RULES))
    gated, delta = RULES[rule]
    tensor = lambda *shape: g.leaf(g.rng.uniform(-1, 1, shape).astype(np.float32))
    decay = g.leaf(-g.rng.random((batch, length, heads * g.choice([1, key]))).astype(np.float32)) if gated else None
    beta = g.leaf(g.rng.random((batch, length, g.choice([1, heads]))).astype(np.float32)) if delta else None
    operands = [
        tensor(batch, length, heads * shared * key),
        tensor(batch, length, heads * key),
        tensor(batch, length, heads * value),
        tensor(batch, heads, key, value) if g.chance(0.5) else None,
        decay,
        beta,
    ]
    attributes = {"q_num_heads": heads * shared, "kv_num_heads": heads, "update_rule": rule}
    return g.emit(op, operands, attributes | {"scale": g.choice([None, 0.5])}, 2)


def causal_conv(g: Draw, op: str):
    batch, channels, length, kernel = g.integer(1, 2), g.integer(1, 4), g.integer(1, 6), g.integer(1, 4)
    x = g.ranked(3, dtype=np.float32, ok=lambda v: v.finite and v.array.size) if g.chance(0.5) else None
    x = x or g.fresh((batch, channels, length), constant=False)
    batch, channels, length = x.shape
    bias = g.plain(x, (channels,)) if g.chance(0.5) else None
    past = g.plain(x, (batch, channels, kernel - 1)) if g.chance(0.5) and kernel > 1 else None
    activation = {"activation": g.choice([None, "none", "silu", "swish"])}
    return g.emit(op, [x, g.plain(x, (channels, 1, kernel)), bias, past], activation, 2)


def tensor_scatter(g: Draw, op: str):
    a = g.pick("fi", 2, 4, ok=lambda v: v.array.size)
    axis = g.integer(1, a.rank - 1)
    shape = list(a.shape)
    shape[axis] = g.integer(1, a.shape[axis])
    mode = g.choice([None, "linear", "circular"])
    room = a.shape[axis] - (0 if mode == "circular" else shape[axis])
    places = (
        g.leaf(g.rng.integers(0, room + (mode != "circular"), a.shape[:1]).astype(np.int64)) if g.chance(0.7) else None
    )
    return g.emit(op, [a, g.like(a, shape), places], {"axis": axis - (a.rank if g.chance(0.4) else 0), "mode": mode})


def term_frequency(g: Draw, op: str):
    words = [int(w) for w in g.rng.permutation(8)[: g.integer(2, 5)]]
    pairs = [[g.choice(words), g.choice(words)] for _ in range(g.integer(1, 3))]
    pairs = [list(p) for p in dict.fromkeys(map(tuple, pairs))]
    count = len(words) + len(pairs)
    shape = (g.integer(1, 8),) if g.chance(0.5) else (g.integer(1, 3), g.integer(1, 8))
    attributes = {
        "mode": g.choice(["TF", "IDF", "TFIDF"]),
        "min_gram_length": g.choice([1, 2]),
        "max_gram_length": 2,
        "max_skip_count": g.choice([0, 1, 2]),
        "ngram_counts": [0, len(words)],
        "ngram_indexes": list(range(count)),
        "pool_int64s": words + [w for pair in pairs for w in pair],
        "weights": [0.5 + i for i in range(count)] if g.chance(0.5) else None,
    }
    return g.emit(op, [g.leaf(g.rng.integers(0, 8, shape).astype(g.choice(["int32", "int64"])))], attributes)


def simplified_norm(g: Draw, op: str):
    a = g.pick("f", 2, dtype=np.float32, ok=lambda v: v.array.size and v.finite and np.abs(v.array).max() < 1e15)
    return g.emit(op, [a, g.plain(a, a.shape[-1:])], {"epsilon": g.choice([None, 1e-3]), "axis": -1})


def bias_add(g: Draw, op: str):
    a = g.ranked(3, dtype=np.float32, ok=lambda v: v.array.size)
    return g.emit("BiasAdd", [a, g.like(a, a.shape[-1:]), g.like(a, a.shape)], domain=MICROSOFT)


def bias_split_gelu(g: Draw, op: str):
    shape = (g.integer(1, 2), g.integer(1, 4), 2 * g.choice([1, 3, 8]))
    a = g.leaf(g.rng.uniform(-2, 2, shape).astype(np.float32), False)
    return g.emit("BiasSplitGelu", [a, g.plain(a, shape[-1:])], domain=MICROSOFT)


def quantized_mean(g: Draw, op: str):
    a = g.fresh(tuple(g.integer(1, 5) for _ in range(g.integer(1, 4))), g.choice(["int8", "uint8"]), low=-100, high=100)
    scale = lambda: g.leaf(np.float32(g.choice([0.5, 0.25, 0.3])))
    zero = lambda: g.leaf(np.asarray(g.integer(0, 9), a.dtype))
    attributes = {"axes": g.axes(a.rank, 1), "keepdims": g.choice([0, 1])}
    return g.emit("QLinearReduceMean", [a, scale(), zero(), scale(), zero()], attributes, domain=MICROSOFT)


def quantized_lstm(g: Draw, op: str):
    """Input and state are quantised by their own range; weights have a scale each direction, or each column."""
    steps, batch, width, hidden = (g.integer(1, n) for n in (4, 3, 5, 6))
    both = g.chance(0.4)
    directions = 2 if both else 1
    x = g.leaf(g.rng.uniform(-2, 2, (steps, batch, width)).astype(np.float32), False)
    kind = g.choice(["int8", "uint8"])
    low, high, middle = (-100, 100, 0) if kind == "int8" else (0, 255, 128)

    def weight(rows: int):
        shape = (directions, 4 * hidden) if g.chance(0.5) else (directions,)
        return (
            g.leaf(g.rng.integers(low, high, (directions, rows, 4 * hidden)).astype(kind), True),
            g.leaf(g.rng.uniform(0.003, 0.01, shape).astype(np.float32), True),
            g.leaf(np.full(shape, middle, kind), True),
        )

    (w, w_scale, w_zero), (r, r_scale, r_zero) = weight(width), weight(hidden)
    bias = g.leaf(g.rng.normal(0, 0.1, (directions, 8 * hidden)).astype(np.float32), True) if g.chance(0.7) else None
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if both else g.choice(["forward", "reverse"])}
    inputs = [x, w, r, bias, None, None, None, None, w_scale, w_zero, r_scale, r_zero]
    return g.emit("DynamicQuantizeLSTM", inputs, attributes, 3, domain=MICROSOFT)


MAKERS = {
    "LinearAttention": linear_attention,
    "CausalConvWithState": causal_conv,
    "TensorScatter": tensor_scatter,
    "TfIdfVectorizer": term_frequency,
    "SimplifiedLayerNormalization": simplified_norm,
    f"{MICROSOFT}.BiasAdd": bias_add,
    f"{MICROSOFT}.BiasSplitGelu": bias_split_gelu,
    f"{MICROSOFT}.DynamicQuantizeLSTM": quantized_lstm,
    f"{MICROSOFT}.QLinearReduceMean": quantized_mean,
}
