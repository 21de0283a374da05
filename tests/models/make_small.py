#!/usr/bin/env python3
"""Writes the models of tests/models and tests/models_rounding that no exporter makes: forms that were once wrong. Outputs are those of ONNX's reference evaluator,
or computed here where it lacks the operator.

usage: tests/models/make_small.py [FOLDER]      # needs onnx and numpy
"""
import math
import pathlib
import sys
from fractions import Fraction

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

BATCH, HEADS, QUERIES, DEPTH, KEYS = 2, 3, 25, 16, 7


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def attention_shared_heads():
    """Queries, keys or values that all batches or heads share: loops that only one factor of a product has."""
    forms = [  # queries' batch and heads, keys', values'; whether queries are expanded first
        ((1, HEADS), (BATCH, HEADS), (BATCH, HEADS), True), ((1, HEADS), (BATCH, HEADS), (BATCH, HEADS), False),
        ((BATCH, HEADS), (1, HEADS), (1, HEADS), False), ((BATCH, 1), (1, HEADS), (BATCH, HEADS), False),
        ((BATCH, HEADS), (BATCH, 1), (BATCH, 1), False), ((1, 1), (BATCH, HEADS), (BATCH, HEADS), False),
        ((1, HEADS), (BATCH, HEADS), (1, HEADS), False)]
    constants = [helper.make_tensor("c", TensorProto.FLOAT, [], [0.25]),
                 helper.make_tensor("shape", TensorProto.INT64, [4], [BATCH, HEADS, QUERIES, DEPTH])]
    nodes, inputs, outputs = [], [], []
    for letter, (queries, keys, values, expanded) in zip("abcdefg", forms):
        name = letter + "_"
        inputs += [tensor(name + "q", (*queries, QUERIES, DEPTH)), tensor(name + "k", (*keys, DEPTH, KEYS)),
                   tensor(name + "v", (*values, KEYS, DEPTH))]
        source = name + "q"
        if expanded:
            nodes.append(helper.make_node("Expand", [source, "shape"], [name + "e"], name=name + "_expand"))
            source = name + "e"
        nodes += [helper.make_node("MatMul", [source, name + "k"], [name + "s"], name=name + "_scores"),
                  helper.make_node("Mul", [name + "s", "c"], [name + "t"], name=name + "_scale"),
                  helper.make_node("Softmax", [name + "t"], [name + "p"], axis=-1, name=name + "_softmax"),
                  helper.make_node("MatMul", [name + "p", name + "v"], [name + "y"], name=name + "_sum")]
        outputs.append(tensor(name + "y", (BATCH, HEADS, QUERIES, DEPTH)))
    graph = helper.make_graph(nodes, "shared_heads", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def cast_in_loop():
    """A Cast to i64 and back in a body whose value has no known rank."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["cond"], ["cond_o"]), helper.make_node("Mul", ["x", "k"], ["p"]),
         helper.make_node("Cast", ["p"], ["q"], to=TensorProto.INT64), helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)],
        "body", [tensor("it", [], TensorProto.INT64), tensor("cond", [], TensorProto.BOOL), tensor("x", None)],
        [tensor("cond_o", [], TensorProto.BOOL), tensor("y", None)], [helper.make_tensor("k", TensorProto.FLOAT, [], [1.5])])
    constants = [helper.make_tensor("n", TensorProto.INT64, [], [1]), helper.make_tensor("t", TensorProto.BOOL, [], [True])]
    graph = helper.make_graph([helper.make_node("Loop", ["n", "t", "x0"], ["z"], body=body)], "g", [tensor("x0", [4])], [tensor("z", [4])],
                              constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def loop_placeholder():
    """A state that is a scalar nobody reads before the first iteration; its body declares what it is afterwards."""
    body = helper.make_graph(
        [helper.make_node("Add", ["acc", "x"], ["acc_o"]), helper.make_node("Identity", ["acc_o"], ["kept_o"]),
         helper.make_node("Identity", ["cond"], ["cond_o"])],
        "body", [tensor("it", [1], TensorProto.INT64), tensor("cond", [], TensorProto.BOOL), tensor("acc", ["n", 3]), tensor("kept", ["m", 3])],
        [tensor("cond_o", [], TensorProto.BOOL), tensor("acc_o", ["n", 3]), tensor("kept_o", ["m", 3])])
    constants = [helper.make_tensor("trips", TensorProto.INT64, [], [4]), helper.make_tensor("undefined", TensorProto.FLOAT, [], [0])]
    graph = helper.make_graph([helper.make_node("Loop", ["trips", "", "start", "undefined"], ["total", "last"], body=body),
                               helper.make_node("Neg", ["last"], ["y"])], "g", [tensor("x", [2, 3]), tensor("start", [2, 3])],
                              [tensor("total", [2, 3]), tensor("y", [2, 3])], constants, value_info=[tensor("last", ["n", 3])])
    random = np.random.default_rng(5)
    x, total = eighths(random, 2, 3), eighths(random, 2, 3)
    feed = {"x": x, "start": total}
    for _ in range(4):
        total = total + x
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), feed, [total, -total]


def model_of(name, nodes, inputs, outputs, constants=(), opset=18, microsoft=False):
    constants = [numpy_helper.from_array(np.asarray(array), key) for key, array in dict(constants).items()]
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("com.microsoft", 1)] if microsoft else [])
    return helper.make_model(helper.make_graph(nodes, name, inputs, outputs, constants), opset_imports=opsets, ir_version=10)


def eighths(random, *shape):
    return (random.integers(-16, 17, shape) / 8).astype(np.float32)


def quantize_ties():
    """Quotients halfway between integers: multiplying by the scale's inverse rounds some the other way."""
    scale = np.float32(0.03)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)]
    model = model_of("quantize_ties", nodes, [tensor("x", [16, 33])], [tensor("y", [16, 33])], {"s": scale, "z": np.uint8(105)})
    return model, {"x": np.tile(np.arange(-16, 17, dtype=np.float32) / 8, (16, 1))}, None


def decay_of_open_width():
    """LinearAttention with a decay for each head in one node, for each row of the state in the other: sizes do not tell them apart."""
    random, rows, (steps, heads) = np.random.default_rng(3), 4, (5, 2)
    nodes, inputs, outputs, feed = [], [], [], {}
    for letter, width in (("a", heads), ("b", heads * rows)):
        names = [letter + part for part in "qkvg"]
        for name, size in zip(names, (heads * rows, heads * rows, heads * 3, width)):
            inputs.append(tensor(name, [1, letter + "_steps", name + "_width"]))
            feed[name] = random.uniform(-1, 0, (1, steps, size)).astype(np.float32)
        nodes.append(helper.make_node("LinearAttention", [*names[:3], "", names[3]], [letter + "y", letter + "s"], q_num_heads=heads,
                                      kv_num_heads=heads, update_rule="gated"))
        outputs += [tensor(letter + "y", [1, letter + "_steps", heads * 3]), tensor(letter + "s", [1, heads, rows, 3])]
    graph = helper.make_graph(nodes, "decay_of_open_width", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=10), feed, None


def mean_of_one():
    """x less the mean of one element is 0, and NaN where x is not finite."""
    model = model_of("mean_of_one", [helper.make_node("ReduceMean", ["x", "axes"], ["m"]), helper.make_node("Sub", ["x", "m"], ["y"])],
                     [tensor("x", ["n", 1])], [tensor("y", ["n", 1])], {"axes": np.array([-1], np.int64)})
    return model, {"x": np.array([[1.5], [np.inf], [-2.0], [np.nan], [-np.inf]], np.float32)}, None


def gelu_far_below():
    """x * (1 + erf(x / sqrt(2))) * 0.5 is -0 far below 0, however large x is, and NaN for -inf: 1 + erf is exactly 0 there."""
    model, _, _ = gelu_overflow()
    model.graph.name = "gelu_far_below"
    return model, {"x": np.array([-3e38, -np.inf, -1e30, 2.0, -0.5, 0.0], np.float32)}, None


def gelu_overflow():
    """x * (1 + erf(x / sqrt(2))) * 0.5 is infinite where x * 2 is."""
    model = model_of("gelu_overflow", [
        helper.make_node("Div", ["x", "root"], ["a"]), helper.make_node("Erf", ["a"], ["b"]), helper.make_node("Add", ["b", "one"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["d"]), helper.make_node("Mul", ["d", "half"], ["y"])], [tensor("x", ["n"])],
        [tensor("y", ["n"])], {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)})
    return model, {"x": np.array([3e38, -9.0, 1.6e38, 1.0, -2.0, np.inf, 1.8e38, np.nan], np.float32)}, None


def hard_swish_overflow():
    """x * clip(x + 3, 0, 6) / 6 is infinite where x * 6 is."""
    model = model_of("hard_swish_overflow", [
        helper.make_node("Add", ["x", "three"], ["a"]), helper.make_node("Clip", ["a", "zero", "six"], ["b"]),
        helper.make_node("Mul", ["x", "b"], ["c"]), helper.make_node("Div", ["c", "six"], ["y"])], [tensor("x", ["n"])],
        [tensor("y", ["n"])], {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)})
    return model, {"x": np.array([1e38, -1e38, 5e37, 1.0, -2.0, np.inf, np.nan], np.float32)}, None


def resize_unchanged():
    """Axes of open sizes that turn out not to be resized: neighbours that are NaN do not count."""
    x = eighths(np.random.default_rng(3), 1, 5, 4, 3)
    x[0, 1, 2, 1] = x[0, 3, 0, 0] = np.nan
    shape = tensor("x", ["a", "b", "c", "d"])
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], ["linear"], mode="linear"),
             helper.make_node("Resize", ["x", "", "", "sizes"], ["cubic"], mode="cubic", exclude_outside=1)]
    model = model_of("resize_unchanged", nodes, [shape], [tensor(y, [1, 5, 4, 6]) for y in ("linear", "cubic")],
                     {"sizes": np.array([1, 5, 4, 6], np.int64)})
    return model, {"x": x}, None


def resize_halfway():
    """Positions halfway between elements, by lengths whose quotient is rounded: 4 * 7 / 8, and 2.5 * 6 / 10 - 0.5."""
    x = np.arange(6 * 7, dtype=np.float32).reshape(1, 1, 6, 7)
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], [mode + rounding], mode="nearest", nearest_mode="round_prefer_" + rounding,
                              coordinate_transformation_mode=mode) for mode in ("asymmetric", "half_pixel") for rounding in ("ceil", "floor")]
    outputs = [tensor(node.output[0], [1, 1, 10, 8]) for node in nodes]
    model = model_of("resize_halfway", nodes, [tensor("x", [1, 1, 6, 7])], outputs, {"sizes": np.array([1, 1, 10, 8], np.int64)})
    expected = []
    for middle in (Fraction(0), Fraction(1, 2)):
        for rounded in (lambda at: math.floor(at + Fraction(1, 2)), lambda at: math.ceil(at - Fraction(1, 2))):
            rows, columns = ([min(max(rounded((i + middle) * old / new - middle), 0), old - 1) for i in range(new)]
                             for old, new in ((6, 10), (7, 8)))
            expected.append(x[:, :, rows][:, :, :, columns])
    return model, {"x": x}, expected


def truth_of_nan():
    """Only zeros are false: NaN is true, read from memory or made on the way."""
    nodes = [helper.make_node("Cast", ["x"], ["read"], to=TensorProto.BOOL), helper.make_node("Sqrt", ["x"], ["root"]),
             helper.make_node("Cast", ["root"], ["made"], to=TensorProto.BOOL), helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
             helper.make_node("Cast", ["half"], ["narrow"], to=TensorProto.BOOL), helper.make_node("Where", ["made", "x", "one"], ["y"])]
    outputs = [tensor(name, ["n"], TensorProto.BOOL) for name in ("read", "made", "narrow")] + [tensor("y", ["n"])]
    model = model_of("truth_of_nan", nodes, [tensor("x", ["n"])], outputs, {"one": np.float32(1)})
    x = np.array([np.nan, 0.0, -0.0, -4.0, 2.25, np.inf, -np.inf], np.float32)
    truth = np.array([True, False, False, True, True, True, True])
    return model, {"x": x}, [truth, truth, truth, np.where(truth, x, np.float32(1))]


def signs_of_zeros():
    """Differences that are 0: negated, subtracted from 0, added to 0; their reciprocals tell."""
    steps = [("Sub", ["x", "w"], "d"), ("Neg", ["d"], "n"), ("Sub", ["zero", "d"], "s"), ("Neg", ["x"], "m"), ("Add", ["m", "zero"], "a"),
             ("Reciprocal", ["n"], "y0"), ("Reciprocal", ["s"], "y1"), ("Reciprocal", ["a"], "y2")]
    nodes = [helper.make_node(op, inputs, [output]) for op, inputs, output in steps]
    model = model_of("signs_of_zeros", nodes, [tensor("x", ["n"]), tensor("w", ["n"])], [tensor(f"y{i}", ["n"]) for i in range(3)],
                     {"zero": np.float32(0)})
    feed = {"x": np.array([1.5, 0.0, 2.0, -0.0], np.float32), "w": np.array([1.5, 0.0, 1.0, 0.0], np.float32)}
    with np.errstate(all="ignore"):
        return model, feed, ReferenceEvaluator(model).run(None, feed)


def powers_of_integers():
    """Whole numbers to whole powers given as floats: what a device makes of 5 * log2(3) is truncated, and 242.9999 is not 243."""
    base, exponent = (grid.ravel() for grid in np.meshgrid(np.arange(-9, 10), np.arange(0, 7)))
    kinds = {"y0": (TensorProto.INT32, np.int32), "y1": (TensorProto.INT64, np.int64)}
    nodes = [helper.make_node("Pow", [f"x{i}", "e"], [f"y{i}"]) for i in range(2)]
    inputs = [tensor(f"x{i}", ["n"], kind) for i, (kind, _) in enumerate(kinds.values())] + [tensor("e", ["n"])]
    model = model_of("powers_of_integers", nodes, inputs, [tensor(name, ["n"], kind) for name, (kind, _) in kinds.items()])
    return model, {"x0": base.astype(np.int32), "x1": base.astype(np.int64), "e": exponent.astype(np.float32)}, [base**exponent] * 2


def capped_scores():
    """Attention over two keys with capped scores and a mask of four bools: wrong on an H200, for queries whose first key is masked."""
    steps = [("MatMul", ["q", "k"], "a"), ("Tanh", ["a"], "t"), ("Mul", ["t", "cap"], "c"), ("Where", ["mask", "c", "low"], "m"),
             ("Softmax", ["m"], "p"), ("MatMul", ["p", "v"], "y")]
    nodes = [helper.make_node(op, inputs, [output]) for op, inputs, output in steps]
    inputs = [tensor("mask", [2, 2], TensorProto.BOOL), tensor("q", ["n", 3, 2, 4]), tensor("k", ["n", 3, 4, 2]), tensor("v", ["n", 3, 2, 4])]
    model = model_of("capped_scores", nodes, inputs, [tensor("y", ["n", 3, 2, 4])], {"cap": np.float32(3), "low": np.float32(-1e9)})
    random = np.random.default_rng(7)
    feed = {"mask": np.eye(2, dtype=bool), "q": eighths(random, 2, 3, 2, 4), "k": eighths(random, 2, 3, 4, 2), "v": eighths(random, 2, 3, 2, 4)}
    return model, feed, ReferenceEvaluator(model).run(None, feed)


def broadcast_empty():
    """An empty list of positions beside a size of 1: nothing is repeated."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Mul", ["places", "w"], ["y"]),
             helper.make_node("Add", ["y", "w"], ["z"])]
    model = model_of("broadcast_empty", nodes, [tensor("x", ["n"]), tensor("w", ["a", "a"], TensorProto.INT64)],
                     [tensor("z", ["b", "c"], TensorProto.INT64)])
    return model, {"x": np.zeros(3, np.float32), "w": np.array([[-2]], np.int64)}, [np.zeros((1, 0), np.int64)]


def compared_halves():
    """float16 whose comparisons are masked, in vectors of 8 and 16: a sigmoid tells by its sign which of two quotients it is."""
    half = TensorProto.FLOAT16
    random = np.random.default_rng(6)
    nodes, feed = [], {}
    for lanes in (8, 16, 48):
        names = [f"{letter}{lanes}" for letter in "xabyz"]
        feed[names[0]] = (3 * random.standard_normal(lanes)).astype(np.float16)
        nodes += [helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(("Cos", "Neg", "Sigmoid"))]
        nodes.append(helper.make_node("Min", [names[0], names[3]], [names[4]]))
    model = model_of("compared_halves", nodes, [tensor(name, array.shape, half) for name, array in feed.items()],
                     [tensor(f"{letter}{lanes}", [lanes], half) for lanes in (8, 16, 48) for letter in "yz"], {})
    return model, feed, None


def conv_transpose_weights():
    """Weights that are infinite or NaN count only where the window reaches; those of open sizes give the shapes of known ones."""
    random = np.random.default_rng(4)
    infinite = eighths(random, 1, 1, 3, 3)
    infinite[0, 0, 0, 1], infinite[0, 0, 2, 2] = np.inf, np.nan
    x, short = eighths(random, 1, 1, 3, 3), eighths(random, 1, 2, 1, 2)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["constant"], strides=[2, 2], pads=[1, 1, 1, 1]),
             helper.make_node("ConvTranspose", ["x", "v"], ["free"], pads=[1, 1, 1, 1]),
             helper.make_node("ConvTranspose", ["x", "s"], ["same"], strides=[3, 2], auto_pad="SAME_LOWER")]
    model = model_of("conv_transpose_weights", nodes, [tensor("x", [1, 1, 3, 3]), tensor("v", [1, 1, 3, 3]), tensor("s", [1, 2, "h", "w_"])],
                     [tensor(name, ["a_" + name, "b_" + name, "c_" + name, "d_" + name]) for name in ("constant", "free", "same")], {"w": infinite})
    scattered = [scatter_convolution(x, infinite, 2, 1), scatter_convolution(x, infinite, 1, 1), np.zeros((1, 2, 7, 6), np.float32)]
    for i, j in np.ndindex(3, 3):
        scattered[2][0, :, 3 * i, 2 * j:2 * j + 2] = x[0, 0, i, j] * short[0, :, 0]
    return model, {"x": x, "v": infinite, "s": short}, scattered


def windows_of_channels():
    """Convolutions whose channels come in eights, but for the first: strides, dilation, padding of one side, a window of one pixel, a residual, pools."""
    random, nodes, weights = np.random.default_rng(6), [], {}

    def conv(x, y, channels, filters, window, **attributes):
        weights["w_" + y], weights["b_" + y] = eighths(random, filters, channels, window, window) / 8, eighths(random, filters)
        nodes.append(helper.make_node("Conv", [x, "w_" + y, "b_" + y], [y], **attributes))

    def relu(*inputs, y):
        nodes.append(helper.make_node("Sum", inputs, [y + "_sum"]))
        nodes.append(helper.make_node("Relu", [y + "_sum"], [y]))

    conv("x", "stem", 3, 24, 7, strides=[2, 2], pads=[3, 3, 3, 3])
    relu("stem", y="a")
    nodes.append(helper.make_node("MaxPool", ["a"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    conv("m", "narrow", 24, 16, 1)
    relu("narrow", y="b")
    conv("b", "square", 16, 16, 3, pads=[1, 1, 1, 1])
    relu("square", y="c")
    conv("c", "wide", 16, 24, 1)
    relu("wide", "m", y="d")
    conv("d", "half", 24, 40, 3, strides=[2, 2], pads=[0, 1, 2, 1])
    conv("d", "shortcut", 24, 40, 1, strides=[2, 2])
    relu("half", "shortcut", y="e")
    conv("e", "apart", 40, 32, 3, dilations=[2, 2], pads=[2, 2, 2, 2])
    nodes.append(helper.make_node("GlobalAveragePool", ["apart"], ["y"]))
    return model_of("windows_of_channels", nodes, [tensor("x", [2, 3, 52, 60])], [tensor("y", [2, 32, 1, 1]), tensor("e", [2, 40, 7, 8])], weights)


def scatter_convolution(x, w, stride, pad):
    """ConvTranspose of one channel, by definition."""
    y = np.zeros([(size - 1) * stride + 3 for size in x.shape[2:]], np.float32)
    for i, j in np.ndindex(x.shape[2:]):
        y[i * stride:i * stride + 3, j * stride:j * stride + 3] += x[0, 0, i, j] * w[0, 0]
    return y[None, None, pad:-pad, pad:-pad]


def open_parameters():
    """Operands whose size is open and turns out to be 1, or the axis's; lists of an open length."""
    random = np.random.default_rng(6)
    nodes = [helper.make_node("QuantizeLinear", ["x", "one", "z"], ["q"], axis=1), helper.make_node("QuantizeLinear", ["x", "s", "zs"], ["r"], axis=1),
             helper.make_node("QuantizeLinear", ["x", "t", "zt"], ["u"], axis=1), helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["v"])]
    names = {"x": eighths(random, 2, 3), "z": np.array([7], np.int8), "s": np.array([0.25], np.float32), "zs": np.array([3], np.int8),
             "t": np.array([0.25, 0.5, 2], np.float32), "zt": np.array([3, 4, 5], np.int8), "ends": np.array([2], np.int64)}
    inputs = [tensor("x", [2, 3])] + [tensor(name, ["size_" + name], helper.np_dtype_to_tensor_dtype(array.dtype))
                                      for name, array in list(names.items())[1:]]
    outputs = [tensor(name, [2, 3], TensorProto.INT8) for name in "qru"] + [tensor("v", [2, 2])]
    model = model_of("open_parameters", nodes, inputs, outputs,
                     {"one": np.array([0.5], np.float32), "starts": np.array([0], np.int64), "axes": np.array([1], np.int64)})
    def quantized(scale, zero):
        return np.clip(np.rint(names["x"] / scale) + zero, -128, 127).astype(np.int8)
    return model, names, [quantized(0.5, 7), quantized(0.25, 3), quantized(names["t"], names["zt"]), names["x"][:, :2]]


def attended(q, k, v, heads, allowed):
    """Attention over packed heads in f64; allowed[batch, key]."""
    split = lambda x: x.astype(np.float64).reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)
    q, k, v = split(q), split(k), split(v)
    scores = q @ k.swapaxes(2, 3) / q.shape[-1]**0.5 + np.where(allowed, 0, -10000.0)[:, None, None, :]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1).astype(np.float32)


def mask_of_open_batch():
    """Two heads of queries that share one of keys, and a mask whose batch only running tells, though there is but one."""
    random = np.random.default_rng(9)
    nodes = [helper.make_node("Slice", ["masks", "zero", "count", "zero"], ["mask"]), helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])]
    shapes = {"q": (1, 2, 3, 4), "k": (1, 1, 5, 4), "v": (1, 1, 5, 4), "masks": (2, 2, 3, 5)}
    model = model_of("mask_of_open_batch", nodes, [*(tensor(*one) for one in shapes.items()), tensor("count", [1], TensorProto.INT64)],
                     [tensor("y", [1, 2, 3, 4])], {"zero": np.array([0], np.int64)}, opset=24)
    return model, {name: eighths(random, *shape) for name, shape in shapes.items()} | {"count": np.array([1], np.int64)}, None


def open_sizes(name, sizes, x, lowest):
    """Nodes and constants of a list of sizes whose length only running tells: taken where elements of x are not below the lowest."""
    constants = {name + "_all": np.array(sizes, np.int64), name + "_lowest": lowest, name + "_from": np.array([0], np.int64),
                 name + "_to": np.array([len(sizes)], np.int64)}
    nodes = [helper.make_node("Slice", [x, name + "_from", name + "_to"], [name + "_x"]),
             helper.make_node("GreaterOrEqual", [name + "_x", name + "_lowest"], [name + "_taken"]),
             helper.make_node("Compress", [name + "_all", name + "_taken"], [name], axis=0)]
    return nodes, constants


def features_of_open_rank():
    """Operators of ai.onnx.ml on values of no known rank: a vector for one, a matrix for the others."""
    (one, ones), (two, twos) = open_sizes("one", [6], "v", np.float32(-1e30)), open_sizes("two", [2, 3], "v", np.float32(-1e30))
    nodes = [*one, *two, helper.make_node("Reshape", ["v", "one"], ["row"]), helper.make_node("Reshape", ["v", "two"], ["rows"]),
             helper.make_node("Cast", ["rows"], ["whole"], to=TensorProto.INT64)]
    constants = ones | twos | {"columns": np.array([1, 0], np.int64)}
    forms = [("ArrayFeatureExtractor", ["row", "columns"], {}), ("ArrayFeatureExtractor", ["rows", "columns"], {}),
             ("LabelEncoder", ["whole"], {"keys_int64s": [1, -2], "values_int64s": [10, 20], "default_int64": 7}),
             ("LinearRegressor", ["row"], {"coefficients": [0.5, 1.0, -2.0, 0.25, 1.0, 2.0], "intercepts": [1.0]}),
             ("FeatureVectorizer", ["rows", "rows"], {"inputdimensions": [3, 3]}), ("Normalizer", ["rows"], {"norm": "MAX"})]
    types = [TensorProto.INT64 if op == "LabelEncoder" else TensorProto.FLOAT for op, _, _ in forms]
    for i, (op, inputs, attributes) in enumerate(forms):
        nodes.append(helper.make_node(op, inputs, [f"y{i}"], domain="ai.onnx.ml", **attributes))
    outputs = [tensor(f"y{i}", [f"n{i}", f"m{i}"], dtype) for i, dtype in enumerate(types)]
    model = model_of("features_of_open_rank", nodes, [tensor("v", [6])], outputs, constants)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    v = np.array([1.0, -2.0, 3.0, 4.0, 1.5, 1.0], np.float32)
    rows, whole = v.reshape(2, 3), v.reshape(2, 3).astype(np.int64)
    expected = [v[None, [1, 0]], rows[:, [1, 0]], np.where(whole == 1, 10, np.where(whole == -2, 20, 7)),
                np.array([[v @ np.array([0.5, 1, -2, 0.25, 1, 2]) + 1]]), np.concatenate([rows, rows], 1), rows / rows.max(1, keepdims=True)]
    return model, {"v": v}, expected


def pool_of_open_rank():
    """Channels last in a value of no known rank: the window tells it."""
    sizes, constants = open_sizes("shape", [1, 4, 3, 2], "x", np.int8(-128))
    nodes = [*sizes, helper.make_node("Reshape", ["x", "shape"], ["image"]),
             helper.make_node("NhwcMaxPool", ["image"], ["y"], domain="com.microsoft", kernel_shape=[1, 2], pads=[0, 1, 0, 1])]
    model = model_of("pool_of_open_rank", nodes, [tensor("x", [24], TensorProto.INT8)],
                     [tensor("y", ["n", "h", "w", "c"], TensorProto.INT8)], constants, microsoft=True)
    x = np.random.default_rng(2).integers(-99, 99, 24).astype(np.int8)
    padded = np.pad(x.reshape(1, 4, 3, 2), ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=-128)
    return model, {"x": x}, [np.maximum(padded[:, :, :-1], padded[:, :, 1:])]


def masked_keys():
    """com.microsoft.MultiHeadAttention: one length per batch, or ends and starts, of an open size; what is not masked keeps its digits."""
    random = np.random.default_rng(7)
    names = {name: eighths(random, 2, 4, 6) for name in "qkv"}
    names |= {"lengths": np.array([4, 2], np.int32), "ends": np.array([4, 3, 1, 0], np.int32)}
    nodes = [helper.make_node("MultiHeadAttention", ["q", "k", "v", "", mask], [mask + "_y"], domain="com.microsoft", num_heads=2)
             for mask in ("lengths", "ends")]
    inputs = [tensor(name, ["batch", 4, 6]) for name in "qkv"] + [tensor(name, ["n_" + name], TensorProto.INT32) for name in ("lengths", "ends")]
    model = model_of("masked_keys", nodes, inputs, [tensor(mask + "_y", [2, 4, 6]) for mask in ("lengths", "ends")], microsoft=True)
    keys, operands = np.arange(4), [names[name] for name in "qkv"]
    allowed = [keys < names["lengths"][:, None], (keys < names["ends"][:2, None]) & (keys >= names["ends"][2:, None])]
    return model, names, [attended(*operands, 2, one) for one in allowed]


def shared_keys():
    """Attention of so few queries that shaders share out the keys; they do not fill the last block, and one query sees none of them."""
    random = np.random.default_rng(9)
    feed = {"q": random.standard_normal((2, 1, 24, 8)), "k": random.standard_normal((2, 1, 8, 170)), "v": random.standard_normal((2, 1, 170, 8))}
    feed["mask"] = np.where(random.random((24, 170)) < 0.3, -np.inf, random.standard_normal((24, 170)))
    feed["mask"][5], feed["mask"][6, :130] = -np.inf, -np.inf
    feed = {name: array.astype(np.float32) for name, array in feed.items()}
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Add", ["s", "mask"], ["t"]),
             helper.make_node("Softmax", ["t"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    model = model_of("shared_keys", nodes, [tensor(name, array.shape) for name, array in feed.items()], [tensor("y", [2, 1, 24, 8])])
    return model, feed, ReferenceEvaluator(model).run(None, feed)


def gathered_mask():
    """A mask of bools that shaders keep in shared memory, read at places that are operands."""
    random = np.random.default_rng(10)
    feed = {"seen": random.integers(0, 2, (2, 16)), "places": random.permutation(32).reshape(2, 1, 1, 16)}
    nodes = [helper.make_node("Cast", ["seen"], ["b"], to=TensorProto.BOOL), helper.make_node("Flatten", ["b"], ["f"], axis=2),
             helper.make_node("Gather", ["f", "places"], ["g"], axis=0), helper.make_node("Reshape", ["g", "shape"], ["m"]),
             helper.make_node("Expand", ["m", "all"], ["e"]), helper.make_node("Where", ["e", "zero", "least"], ["y"])]
    constants = {"shape": np.array([2, 1, 1, 16]), "all": np.array([2, 1, 16, 16]), "zero": np.float32(0),
                 "least": np.finfo(np.float32).min}
    model = model_of("gathered_mask", nodes, [tensor(name, array.shape, TensorProto.INT64) for name, array in feed.items()],
                     [tensor("y", [2, 1, 16, 16])], constants)
    return model, feed, ReferenceEvaluator(model).run(None, feed)


def largest_of_columns():
    """Maxima of rows and of columns that are subtracted: rows are shared out among threads, columns are contiguous across threads."""
    nodes = [helper.make_node("ReduceMax", ["x", "first"], ["c"]), helper.make_node("Sub", ["x", "c"], ["y"]),
             helper.make_node("ReduceMax", ["x", "second"], ["r"]), helper.make_node("Sub", ["x", "r"], ["z"])]
    return model_of("largest_of_columns", nodes, [tensor("x", [9, 2100])], [tensor("y", [9, 2100]), tensor("z", [9, 2100])],
                    {"first": np.array([0]), "second": np.array([1])})


def packed_query():
    """com.microsoft.GroupQueryAttention of packed, constant queries, keys and values; one of its results is read."""
    packed = eighths(np.random.default_rng(8), 1, 3, 32)
    nodes = [helper.make_node("GroupQueryAttention", ["packed", "", "", "", "", "last", "total"], ["y", "keys", "values"],
                              domain="com.microsoft", num_heads=4, kv_num_heads=2),
             helper.make_node("GroupQueryAttention", ["free", "", "", "", "", "last", "total"], ["z", "more_keys", "more_values"],
                              domain="com.microsoft", num_heads=4, kv_num_heads=2)]
    model = model_of("packed_query", nodes, [tensor("free", [1, 3, 32]), tensor("last", [1], TensorProto.INT32), tensor("total", [], TensorProto.INT32)],
                     [tensor("values", [1, 2, 3, 4]), tensor("z", [1, 3, 16])], {"packed": packed}, microsoft=True)
    values = packed[:, :, 24:].reshape(1, 3, 2, 4).transpose(0, 2, 1, 3)
    q, k, v = packed[..., :16], *(np.repeat(packed[..., at:at + 8].reshape(1, 3, 2, 4), 2, 2).reshape(1, 3, 16) for at in (16, 24))
    rows = [attended(q[:, s:s + 1], k[:, :s + 1], v[:, :s + 1], 4, np.ones((1, s + 1), bool)) for s in range(3)]
    return model, {"free": packed, "last": np.array([2], np.int32), "total": np.int32(3)}, [values, np.concatenate(rows, 1)]


def declared_shapes():
    """Declared shapes that are not so, of a value, an output and the counter of a loop: what is inferred wins."""
    body = helper.make_graph([helper.make_node("Identity", ["cond"], ["cond_o"]), helper.make_node("Cast", ["it"], ["i"], to=TensorProto.FLOAT),
                              helper.make_node("Add", ["v", "i"], ["w"])], "body",
                             [tensor("it", [1], TensorProto.INT64), tensor("cond", [], TensorProto.BOOL), tensor("v", None)],
                             [tensor("cond_o", [], TensorProto.BOOL), tensor("w", None)])
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Loop", ["n", "", "z"], ["y"], body=body)]
    model = model_of("declared_shapes", nodes, [tensor("x", [2, 3])], [tensor("y", [2, 4])], {"n": np.int64(3)})
    model.graph.value_info.append(tensor("z", [6]))
    x = eighths(np.random.default_rng(9), 2, 3)
    return model, {"x": x}, [np.maximum(x, 0) + 3]


def real_signal():
    """STFT of a signal of batch and time alone."""
    window = np.hanning(8).astype(np.float32)
    model = model_of("real_signal", [helper.make_node("STFT", ["x", "step", "window"], ["y"])], [tensor("x", ["b", "n"])],
                     [tensor("y", ["b", "f", 5, 2])], {"step": np.int64(4), "window": window})
    x = eighths(np.random.default_rng(10), 2, 24)
    spectrum = np.fft.rfft(np.stack([x[:, at:at + 8] * window for at in range(0, 17, 4)], 1))
    return model, {"x": x}, [np.stack([spectrum.real, spectrum.imag], -1)]


def quantized_lstm():
    """com.microsoft.DynamicQuantizeLSTM: input and state are quantized by their own range, in both directions."""
    random, hidden, (steps, batch, width) = np.random.default_rng(11), 6, (4, 3, 5)
    x = random.standard_normal((steps, batch, width)).astype(np.float32)
    names = {"w": random.integers(-100, 100, (2, width, 4 * hidden)).astype(np.int8), "r": random.integers(0, 255, (2, hidden, 4 * hidden)).astype(np.uint8),
             "b": random.normal(0, 0.1, (2, 8 * hidden)).astype(np.float32), "w_scale": random.uniform(0.003, 0.01, (2, 4 * hidden)).astype(np.float32),
             "w_zero": np.zeros((2, 4 * hidden), np.int8), "r_scale": np.array([0.004, 0.007], np.float32), "r_zero": np.array([128, 120], np.uint8)}
    node = helper.make_node("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"], ["y"],
                            domain="com.microsoft", hidden_size=hidden, direction="bidirectional")
    model = model_of("quantized_lstm", [node], [tensor("x", x.shape)], [tensor("y", [steps, 2, batch, hidden])], names, microsoft=True)

    def multiplied(left, right, scale):
        low, high = min(left.min(), 0), max(left.max(), 0)
        step = np.float32(1) if low == high else np.float32(high - low) / np.float32(255)
        zero = np.rint(-low / step)
        return (np.clip(np.rint(left / step) + zero, 0, 255) - zero) @ right * (step * scale)
    y = np.zeros((steps, 2, batch, hidden), np.float32)
    for d in range(2):
        w, r = (names[one][d].astype(np.int64) - names[one + "_zero"][d].astype(np.int64) for one in "wr")
        inputs = multiplied(x, w, names["w_scale"][d]) + names["b"][d][:4 * hidden] + names["b"][d][4 * hidden:]
        h = cell = np.zeros((batch, hidden), np.float32)
        for t in range(steps) if d == 0 else reversed(range(steps)):
            i, o, f, n = np.split(inputs[t] + multiplied(h, r, names["r_scale"][d]), 4, 1)
            cell = cell / (1 + np.exp(-f)) + np.tanh(n) / (1 + np.exp(-i))
            h = y[t, d] = (np.tanh(cell) / (1 + np.exp(-o))).astype(np.float32)
    return model, {"x": x}, [y]


def rounding_idioms():
    """Sums and products that exact arithmetic would cancel, and a product with zero that is NaN."""
    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [value])
                 for name, value in (("magic", 12582912.0), ("none", 0.0), ("two", 2.0), ("half", 0.5), ("huge", 3e38))]
    steps = [("Add", "x", "magic", "up"), ("Sub", "up", "magic", "rounded"), ("Add", "x", "w", "sum"), ("Sub", "sum", "x", "part"),
             ("Sub", "w", "part", "error"), ("Mul", "x", "none", "zero"), ("Mul", "x", "two", "double"), ("Mul", "double", "half", "scaled"),
             ("Add", "x", "huge", "large"), ("Add", "large", "huge", "larger")]
    nodes = [helper.make_node(op, [a, b], [y], name=y + "_node") for op, a, b, y in steps]
    results = ["rounded", "error", "zero", "scaled", "larger"]
    graph = helper.make_graph(nodes, "idioms", [tensor("x", [8]), tensor("w", [8])], [tensor(name, [8]) for name in results], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {"x": np.array([-1.875, 0.5, 1.5, 3e38, -np.inf, np.nan, -3.4e38, 7.25], np.float32),
            "w": np.array([1e-3, 2.0, -1e-9, 1.0, 4.0, 5.0, 6.0, 1e7], np.float32)}
    with np.errstate(all="ignore"):
        return model, feed, ReferenceEvaluator(model).run(None, feed)


def shown_queries():
    """Queries that are reshaped, an output as they are, and read by attention: what makes them and what reads them cannot be one kernel."""
    random = np.random.default_rng(13)
    weights = {f"w{name}": eighths(random, 3, 3) for name in "qkv"}
    steps = [("ReduceMax", ["x"], "top", {"keepdims": 0}), ("Cast", ["top"], "whole", {"to": TensorProto.INT64}), ("Mul", ["whole", "none"], "nothing", {}),
             ("Add", ["nothing", "four"], "open", {}), ("Add", ["nothing", "three"], "last", {}), ("MatMul", ["x", "wq"], "q0", {}), ("Add", ["q0", "b"], "q1", {}), ("Shape", ["q0"], "all", {}),
             *[("Gather", ["all", f"i{i}"], f"n{i}", {}) for i in range(3)], ("Concat", ["n0", "n1", "n2", "n0"], "sizes", {"axis": 0}), ("Reshape", ["q1", "sizes"], "q", {}),
             ("Transpose", ["q"], "q2", {"perm": [0, 2, 1, 3]}), ("MatMul", ["x", "wk"], "k0", {}), ("Reshape", ["k0", "heads"], "k1", {}),
             ("Transpose", ["k1"], "k", {"perm": [0, 2, 3, 1]}), ("MatMul", ["x", "wv"], "v0", {}), ("Reshape", ["v0", "open"], "v1", {}),
             ("Transpose", ["v1"], "v", {"perm": [0, 2, 1, 3]}), ("MatMul", ["q2", "k"], "s0", {}), ("Mul", ["s0", "scale"], "s2", {}), ("Add", ["s2", "mask"], "s1", {}),
             ("Softmax", ["s1"], "s", {}), ("MatMul", ["s", "v"], "y0", {}), ("Transpose", ["y0"], "y1", {"perm": [0, 2, 1, 3]}), ("Reshape", ["y1", "last"], "y", {})]
    nodes = [helper.make_node(op, reads, [y], **attributes) for op, reads, y, attributes in steps]
    model = model_of("shown_queries", nodes, [tensor("x", ["n", 4, 3]), tensor("b", [3]), tensor("mask", [1, 1, 1, 4]), tensor("scale", [])],
                     [tensor("y", list("abc")), tensor("q", list("nhsd"))], {**weights, **{f"i{i}": np.array([i]) for i in range(3)}, "heads": np.array([1, -1, 3, 1]),
                      "none": np.int64(0), "four": np.array([1, -1, 3, 1]), "three": np.array([1, 4, 3])})
    feed = {"x": eighths(random, 1, 4, 3), "b": eighths(random, 3), "mask": eighths(random, 1, 1, 1, 4), "scale": np.float32(0.5)}
    return model, feed, ReferenceEvaluator(model).run(None, feed)


def split_of_doubles():
    """Dekker's split of a difference of doubles into a high and a low half: a product that is rounded before it is subtracted."""
    names = [("x", TensorProto.DOUBLE), ("y", TensorProto.DOUBLE)]
    steps = [("Sub", "x", "y", "d"), ("Mul", "d", "factor", "m"), ("Sub", "m", "d", "e"), ("Sub", "m", "e", "high"), ("Sub", "d", "high", "low")]
    nodes = [helper.make_node(op, [a, b], [z], name=z + "_node") for op, a, b, z in steps]
    model = model_of("split", nodes, [tensor(name, [64], kind) for name, kind in names],
                     [tensor(name, [64], TensorProto.DOUBLE) for name in ("high", "low")], {"factor": np.float64(2**27 + 1)})
    random = np.random.default_rng(12)
    feed = {"x": random.standard_normal(64), "y": random.standard_normal(64)}
    return model, feed, ReferenceEvaluator(model).run(None, feed)


def texts(*rows):
    return np.array(rows, dtype=object)


def strings_moved():
    """Strings through what only moves and compares elements, and through what makes text of them."""
    string, integer, flag = TensorProto.STRING, TensorProto.INT64, TensorProto.BOOL
    x, y = texts(["b", "", "é"], ["a", "b", "\u4e2d"]), texts("b", "zz", "")
    constants = [helper.make_tensor("picked", integer, [2], [2, 0]), helper.make_tensor("flat", integer, [1], [-1]),
                 helper.make_tensor("dash", string, [], [b"-"]), helper.make_tensor("twice", integer, [2, 3], [1, 1, 0, 0, 1, 0]),
                 helper.make_tensor("starts", integer, [1], [1]), helper.make_tensor("ends", integer, [1], [9]), helper.make_tensor("axes", integer, [1], [1]),
                 helper.make_tensor("wide", integer, [2], [2, 3])]
    made = {"gathered": ("Gather", ["x", "picked"], {"axis": 1}, x[:, [2, 0]]), "same": ("Equal", ["x", "y"], {}, x == y),
            "chosen": ("Where", ["same", "x", "y"], {}, np.where(x == y, x, y)), "transposed": ("Transpose", ["x"], {}, x.T),
            "row": ("Reshape", ["x", "flat"], {}, x.ravel()), "joined": ("Concat", ["row", "y"], {"axis": 0}, np.concatenate([x.ravel(), y])),
            "cut": ("Slice", ["x", "starts", "ends", "axes"], {}, x[:, 1:]), "spread": ("Expand", ["y", "wide"], {}, np.broadcast_to(y, (2, 3))),
            "elements": ("GatherElements", ["x", "twice"], {}, np.take_along_axis(x, np.array([[1, 1, 0], [0, 1, 0]]), 0)),
            "sizes": ("Shape", ["x"], {}, np.array([2, 3])),
            "dashed": ("StringConcat", ["x", "dash"], {}, x + "-"), "doubled": ("StringConcat", ["x", "y"], {}, x + y)}
    nodes = [helper.make_node(op, inputs, [name], **attributes) for name, (op, inputs, attributes, _) in made.items()]
    nodes.append(helper.make_node("Unique", ["joined"], ["sorted", "first", "inverse", "counts"], axis=0))
    ordered, first, inverse, counts = np.unique(np.concatenate([x.ravel(), y]).astype(str), return_index=True, return_inverse=True, return_counts=True)
    results = {name: row[3] for name, row in made.items()} | {"sorted": ordered.astype(object), "first": first, "inverse": inverse, "counts": counts}
    kinds = {"same": flag} | dict.fromkeys(["sizes", "first", "inverse", "counts"], integer)
    outputs = [tensor(name, [None] * np.ndim(array), kinds.get(name, string)) for name, array in results.items()]
    graph = helper.make_graph(nodes, "strings", [tensor("x", ["rows", 3], string), tensor("y", [3], string)], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), {"x": x, "y": y}, list(results.values())


def strings_in_body():
    """Strings that a Loop carries and stacks, in a sequence, and a constant that an If chooses."""
    string, integer, flag = TensorProto.STRING, TensorProto.INT64, TensorProto.BOOL
    body = helper.make_graph([helper.make_node("Identity", ["cond"], ["cond_o"]), helper.make_node("StringConcat", ["s", "x"], ["s_o"]),
                              helper.make_node("Identity", ["s_o"], ["stacked"])], "body",
                             [tensor("it", [], integer), tensor("cond", [], flag), tensor("s", [2], string)],
                             [tensor("cond_o", [], flag), tensor("s_o", [2], string), tensor("stacked", [2], string)])
    branches = {f"{name}_branch": helper.make_graph([helper.make_node("Constant", [], ["c"], value_strings=[text])], name, [], [tensor("c", [1], string)])
                for name, text in (("then", "yes"), ("else", "no"))}
    constants = [helper.make_tensor("n", integer, [], [3]), helper.make_tensor("t", flag, [], [True])]
    nodes = [helper.make_node("Loop", ["n", "t", "x"], ["last", "all"], body=body), helper.make_node("If", ["flag"], ["chosen"], **branches),
             helper.make_node("SplitToSequence", ["last"], ["parts"], axis=0), helper.make_node("SequenceInsert", ["parts", "chosen"], ["more"]),
             helper.make_node("ConcatFromSequence", ["more"], ["whole"], axis=0)]
    outputs = [tensor("last", [2], string), tensor("all", [3, 2], string), tensor("chosen", [1], string), tensor("whole", [None], string)]
    graph = helper.make_graph(nodes, "body_strings", [tensor("x", [2], string), tensor("flag", [], flag)], outputs, constants)
    x = texts("ab", "")
    expected = [x * 4, np.stack([x * 2, x * 3, x * 4]), texts("no"), np.concatenate([x * 4, texts("no")])]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), {"x": x, "flag": np.array(False)}, expected


def string_labels():
    """Strings to numbers and back: categories, labels of classifiers, n-grams, Cast."""
    string, integer, real = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT
    ml = {"domain": "ai.onnx.ml"}
    others = range(100, 170)  # more than a lock and an artifact hold in their text
    words, x = texts("dog", "cat", "eel"), np.array([[1, 2], [-1, 0.5], [0.25, -3]], np.float32)
    nodes = [helper.make_node("LabelEncoder", ["words"], ["places"], keys_strings=["cat", "dog"], values_int64s=[4, 7], default_int64=-2, **ml),
             helper.make_node("LabelEncoder", ["places"], ["named"], keys_int64s=[4, 7, *others], values_strings=["CAT", "DOG", *map(str, others)],
                              default_string="?", **ml),
             helper.make_node("OneHotEncoder", ["words"], ["hot"], cats_strings=["dog", "eel"], **ml),
             helper.make_node("LinearClassifier", ["x"], ["kind", "scores"], classlabels_strings=["low", "high"], coefficients=[1.0, 0.0], intercepts=[0.0],
                              post_transform="NONE", **ml),
             helper.make_node("SVMClassifier", ["x"], ["side", "distances"], classlabels_strings=["n", "p"], coefficients=[1.0, 0.0, 0.0, 1.0], rho=[0.0],
                              kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], post_transform="NONE", **ml),
             helper.make_node("TfIdfVectorizer", ["words"], ["grams"], max_gram_length=2, min_gram_length=1, max_skip_count=0, mode="TF", ngram_counts=[0, 2],
                              ngram_indexes=[0, 1, 2], pool_strings=["cat", "dog", "cat", "eel"]),
             helper.make_node("Cast", ["x"], ["written"], to=string), helper.make_node("Cast", ["written"], ["read"], to=real)]
    outputs = [tensor("places", [3], integer), tensor("named", [3], string), tensor("hot", [3, 2]), tensor("kind", [3], string), tensor("scores", [3, 2]),
               tensor("side", [3], string), tensor("distances", [3, 2]), tensor("grams", [3]), tensor("written", [3, 2], string), tensor("read", [3, 2])]
    graph = helper.make_graph(nodes, "labels", [tensor("words", [3], string), tensor("x", [3, 2])], outputs)
    expected = [np.array([7, 4, -2]), texts("DOG", "CAT", "?"), np.array([[1, 0], [0, 0], [0, 1]]), texts("high", "low", "high"),
                np.stack([1 - x[:, 0], x[:, 0]], 1), texts("p", "p", "n"), x, np.array([1, 1, 1]), texts(["1", "2"], ["-1", "0.5"], ["0.25", "-3"]), x]
    return (helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9),
            {"words": words, "x": x}, expected)


def norm_of_overflow():
    """Squares beyond f32's largest number: the norm is infinite, what is divided by it 0. Which half of x is left out makes no difference."""
    x = np.linspace(-2, 2, 60, dtype=np.float32).reshape(3, 4, 5)
    x.flat[::7] = 1e30
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["r"], seed=3.0), helper.make_node("Greater", ["r", "half"], ["c"]),
             helper.make_node("Where", ["c", "x", "zero"], ["d"]), helper.make_node("RMSNormalization", ["d", "w"], ["y"], axis=0)]
    constants = {"half": np.float32(0.5), "zero": np.float32(0), "w": np.ones((3, 4, 5), np.float32)}
    model = model_of("norm_of_overflow", nodes, [tensor("x", [3, 4, 5])], [tensor("y", [3, 4, 5])], constants, opset=23)
    return model, {"x": x}, [np.zeros((3, 4, 5), np.float32)]


SMALL = (attention_shared_heads, broadcast_empty, capped_scores, cast_in_loop, compared_halves, conv_transpose_weights, decay_of_open_width, declared_shapes,
         features_of_open_rank, gathered_mask, gelu_far_below, largest_of_columns, loop_placeholder, mask_of_open_batch, masked_keys,
         mean_of_one, open_parameters, packed_query, pool_of_open_rank, powers_of_integers, quantized_lstm, real_signal, resize_halfway, resize_unchanged,
         shared_keys, shown_queries, signs_of_zeros, string_labels, strings_in_body, strings_moved, truth_of_nan, windows_of_channels)
ROUNDING = (gelu_overflow, hard_swish_overflow, norm_of_overflow, quantize_ties, rounding_idioms, split_of_doubles)  # in float64 or exactly they give something else


def main():
    tests = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    for make in SMALL + ROUNDING:
        out = tests / ("models" if make in SMALL else "models_rounding")
        made, random = make(), np.random.default_rng(5)
        model, feed, expected = made if isinstance(made, tuple) else (made, None, None)
        onnx.checker.check_model(model)
        data = out / make.__name__ / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        onnx.save(model, data.parent / "model.onnx")
        feed = feed or {value.name: (3 * random.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim])).astype(np.float32)
                        for value in model.graph.input}
        expected = expected or ReferenceEvaluator(model).run(None, feed)
        for i, (name, array) in enumerate(feed.items()):
            (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
        for i, (value, array) in enumerate(zip(model.graph.output, expected)):
            array = np.asarray(array, helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
            (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(array, value.name).SerializeToString())


if __name__ == "__main__":
    main()
