"""Cases of matmuls, recurrent cells, attention and their relatives."""

from __future__ import annotations

import numpy as np

from case import Case, Draw


def matrix_shapes(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of numpy.matmul: broadcast batches, vectors on either side, now and then an empty axis."""
    m, k, n = (0 if draw.chance(0.03) else draw.integer(1, 6) for _ in range(3))
    a_batch, b_batch = draw.broadcast(2, 2)
    a, b = (*a_batch, m, k), (*b_batch, k, n)
    if draw.chance(0.12):
        a = (k,)
    if draw.chance(0.12):
        b = (k,)
    return a, b


def matmul(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    a, b = matrix_shapes(draw)
    return Case([draw.special(draw.array(a, dtype), probability=0.1), draw.array(b, dtype)], {}, opset)


def gemm(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset, allowed="f")
    m, k, n = (draw.integer(1, 6) for _ in range(3))
    flip_a, flip_b = draw.integer(0, 1), draw.integer(0, 1)
    c = draw.array(draw.choice([(m, n), (1, n), (m, 1), (n,), (1,), ()]), dtype)
    attributes = {"transA": flip_a, "transB": flip_b, "alpha": draw.choice([None, 0.5]), "beta": draw.choice([None, 2.0, 0.0])}
    inputs = [draw.array((k, m) if flip_a else (m, k), dtype), draw.array((n, k) if flip_b else (k, n), dtype),
              None if opset >= 11 and draw.chance(0.3) else c]
    return Case(inputs, attributes, opset)


EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ij->ji", "ij->", "ii->i", "ii", "i,j->ij", "ij,ij->i", "...ij,...jk->...ik",
             "bij,kj->bik", "ijk->kj", "i,i->", "...i->...", "ab,bc,cd->ad", "iji->ij", "ij,j", "bhwc,hkc->bhwk", "a...,b...->ab..."]


def einsum(draw: Draw) -> Case:
    equation = draw.choice(EQUATIONS)
    sizes: dict[str, int] = {}
    extra = draw.shape(0, 2, 3, empty=0)
    dtype = draw.dtype(12)
    arrays = []
    for term in equation.split("->")[0].split(","):
        shape: list[int] = []
        for letter in term.replace("...", "*"):
            shape += extra if letter == "*" else [sizes.setdefault(letter, draw.integer(1, 4))]
        arrays.append(draw.array(shape, dtype, -2, 2))
    return Case(arrays, {"equation": equation}, draw.opset())


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": [["Tanh"], ["Relu"], ["Sigmoid"]], "GRU": [["Sigmoid", "Tanh"], ["Sigmoid", "Relu"], ["HardSigmoid", "Softsign"]],
               "LSTM": [["Sigmoid", "Tanh", "Tanh"], ["Sigmoid", "Relu", "Tanh"], ["HardSigmoid", "Tanh", "Tanh"]]}


def recurrent(draw: Draw) -> Case:
    opset = draw.opset()
    gates, hidden, features = GATES[draw.op], draw.integer(1, 4), draw.integer(1, 4)
    steps, batch = draw.integer(1, 5), draw.integer(1, 3)
    direction = draw.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1

    def maybe(array: np.ndarray, probability: float) -> np.ndarray | None:
        return array if draw.chance(probability) else None

    inputs = [draw.array((steps, batch, features), low=-1, high=1), draw.array((ways, gates * hidden, features), low=-1, high=1),
              draw.array((ways, gates * hidden, hidden), low=-1, high=1), maybe(draw.array((ways, 2 * gates * hidden), low=-1, high=1), 0.7),
              maybe(draw.rng.integers(1, steps + 1, batch).astype(np.int32), 0.3),
              maybe(draw.array((ways, batch, hidden), low=-1, high=1), 0.5)]
    attributes = {"hidden_size": hidden, "direction": direction, "clip": draw.choice([None, None, 0.5])}
    if draw.chance(0.4):
        attributes["activations"] = draw.choice(ACTIVATIONS[draw.op]) * ways
    if draw.op == "GRU":
        attributes["linear_before_reset"] = draw.choice([None, 0, 1])
    if draw.op == "LSTM":
        inputs += [maybe(draw.array((ways, batch, hidden), low=-1, high=1), 0.5), maybe(draw.array((ways, 3 * hidden), low=-1, high=1), 0.3)]
        attributes["input_forget"] = draw.choice([None, None, 0, 1])
    outputs = (draw.chance(0.8), True, draw.chance(0.7))[:3 if draw.op == "LSTM" else 2]
    return Case(inputs, attributes, opset, outputs)


def attention(draw: Draw) -> Case:
    """ai.onnx Attention: 3-d or 4-d operands, grouped heads, mask, causal, cache, soft cap."""
    opset = draw.opset()
    batch, groups, size, value_size = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 5), draw.integer(1, 5)
    heads, queries, keys = groups * draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 5)
    flat = draw.chance(0.4)

    def operand(count: int, length: int, width: int) -> np.ndarray:
        return draw.array((batch, length, count * width) if flat else (batch, count, length, width), low=-1, high=1)

    inputs = [operand(heads, queries, size), operand(groups, keys, size), operand(groups, keys, value_size), None, None, None]
    attributes = {"is_causal": draw.choice([None, 0, 1]), "scale": draw.choice([None, 0.5]), "softcap": draw.choice([None, None, 2.0])}
    if flat:
        attributes.update(q_num_heads=heads, kv_num_heads=groups)
    past = draw.integer(1, 3) if draw.chance(0.35) else 0
    if past and keys != queries:  # which keys are in the future is only defined when both are the same tokens
        attributes["is_causal"] = 0
    if past:
        inputs[4:6] = [draw.array((batch, groups, past, size), low=-1, high=1), draw.array((batch, groups, past, value_size), low=-1, high=1)]
    if draw.chance(0.5):
        shape = draw.choice([(queries, keys + past), (1, 1, queries, keys + past), (batch, heads, queries, keys + past)])
        inputs[3] = draw.array(shape, draw.choice(["float32", "bool"]), low=-2, high=2)
        if inputs[3].dtype == bool:  # a query that sees no key is NaN by the formula, 0 in ONNX Runtime
            inputs[3][..., 0] = True
    return Case(inputs, attributes, opset, 3 if past else 1)


def rotary(draw: Draw) -> Case:
    batch, heads, length, half = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 4)
    flat, partial = draw.chance(0.5), draw.chance(0.4)
    size = 2 * half + (2 * draw.integer(1, 2) if partial else 0)
    x = draw.array((batch, length, heads * size) if flat else (batch, heads, length, size))
    angles = draw.array((8, half), low=-3, high=3)
    attributes = {"interleaved": draw.choice([None, 0, 1]), "num_heads": heads if flat else None,
                  "rotary_embedding_dim": 2 * half if partial else draw.choice([None, 0])}
    positions = draw.rng.integers(0, 8, (batch, length)) if draw.chance(0.6) else None
    if positions is None:
        angles = draw.array((batch, length, half), low=-3, high=3)
    return Case([x, np.cos(angles), np.sin(angles), positions], attributes, draw.opset())


def determinant(draw: Draw) -> Case:
    size = draw.integer(1, 4)
    return Case([draw.array((*draw.shape(0, 2, empty=0), size, size), low=-2, high=2)], {}, draw.opset())


GENERATORS = {
    "MatMul": matmul, "Gemm": gemm, "Einsum": einsum, **dict.fromkeys(GATES, recurrent), "Attention": attention, "RotaryEmbedding": rotary,
    "Det": determinant,
}
