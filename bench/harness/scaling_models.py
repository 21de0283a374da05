"""Families of models that grow along one axis: chains, wide graphs, transformers, convolutional networks of known architectures.

A family maps a size (nodes, layers, branches) to an ONNX model. Weights are drawn small enough that activations stay finite.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
FUNCTIONS = ("Tanh", "Sigmoid", "Add", "Erf", "Mul", "Sin", "Gelu", "Exp", "Neg", "Softplus", "Sub", "Abs", "Sqrt", "Relu", "Cos", "Reciprocal")
BINARY = {"Add", "Mul", "Sub"}


class Builder:
    """Nodes and weights of one model; every method returns the name of what it made."""

    def __init__(self, seed: int = 1) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(seed)

    def op(self, kind: str, *inputs: str, count: int = 1, **attributes) -> str:
        outputs = [f"v{len(self.nodes)}" if count == 1 else f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs[0] if count == 1 else outputs

    def constant(self, value: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, *shape: int) -> str:
        fan_in = int(np.prod(shape[1:])) or 1
        return self.constant((self.random.standard_normal(shape, dtype=np.float32) / np.float32(fan_in) ** 0.5).astype(np.float32))

    def model(self, shape: list[int], result: str, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "scaling", [helper.make_tensor_value_info("x", dtype, shape)],
                                  [helper.make_empty_tensor_value_info(result)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def chain(kinds: tuple[str, ...], shape: list[int]) -> Callable[[int], onnx.ModelProto]:
    """In an order drawn from them, so that no two parts of it are alike."""
    def make(depth: int) -> onnx.ModelProto:
        built, value = Builder(), "x"
        for kind in built.random.choice(kinds, depth):
            value = built.op(kind, value, "x") if kind in BINARY else built.op(kind, value)
        return built.model(shape, value)
    return make


def doubled(depth: int) -> onnx.ModelProto:
    """Add(a, a) of Add(a, a): a tree of 2^depth leaves where sharing is forgotten."""
    built, value = Builder(), "x"
    for _ in range(depth):
        value = built.op("Add", value, value)
    return built.model([140], value)


def tangled(depth: int) -> onnx.ModelProto:
    """Every value is read twice, and is too large for caches."""
    built, value = Builder(), "x"
    for _ in range(depth):
        value = built.op("Add", built.op("Relu", value), built.op("Neg", value))
    return built.model([4096, 4096], value)


def chosen(depth: int) -> onnx.ModelProto:
    """Both sides of each Where are made of what the one before chose, and the first reads at places that are data."""
    built = Builder()
    value = built.op("Gather", built.weight(64), built.op("Cast", "x", to=TensorProto.INT64))
    for i in range(depth):
        condition = built.op("Less", "x", built.constant(np.array(i, np.float32)))
        value = built.op("Where", condition, built.op("Neg", value), built.op("Abs", value))
    return built.model([140], value)


def reshaped(depth: int) -> onnx.ModelProto:
    """Each place is a quotient and a remainder of the last one."""
    built, value = Builder(), "x"
    shape = built.constant(np.array([64, 96], np.int64))
    for _ in range(depth):
        value = built.op("Reshape", built.op("Transpose", value, perm=[1, 0]), shape)
    return built.model([64, 96], value)


def branches(width: int) -> onnx.ModelProto:
    """So many functions of one value, summed."""
    built = Builder()
    return built.model([140], built.op("Sum", *[built.op(FUNCTIONS[i % 2], built.op("Mul", "x", built.weight(140))) for i in range(width)]))


def transformer(layers: int, width: int = 64, heads: int = 4, tokens: int = 32) -> onnx.ModelProto:
    built, value = Builder(), "x"
    split = built.constant(np.array([1, tokens, heads, width // heads], np.int64))
    joined = built.constant(np.array([1, tokens, width], np.int64))
    scale = built.constant(np.array(1 / np.sqrt(width / heads), np.float32))

    def linear(of: str, rows: int, columns: int) -> str:
        return built.op("Add", built.op("MatMul", of, built.weight(rows, columns)), built.weight(columns))

    def norm(of: str) -> str:
        return built.op("LayerNormalization", of, built.weight(width), built.weight(width), axis=-1)

    for _ in range(layers):
        normed = norm(value)
        q, k, v = (built.op("Transpose", built.op("Reshape", linear(normed, width, width), split), perm=order)
                   for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = built.op("Softmax", built.op("Mul", built.op("MatMul", q, k), scale), axis=-1)
        heads_out = built.op("Reshape", built.op("Transpose", built.op("MatMul", scores, v), perm=[0, 2, 1, 3]), joined)
        value = built.op("Add", value, linear(heads_out, width, width))
        value = built.op("Add", value, linear(built.op("Gelu", linear(norm(value), width, 4 * width)), 4 * width, width))
    return built.model([1, tokens, width], value)


def convolution(built: Builder, of: str, inputs: int, outputs: int, size: tuple[int, int] = (1, 1), stride: int = 1,
                pads: tuple[int, int] | None = None) -> str:
    high, wide = pads if pads is not None else (size[0] // 2, size[1] // 2)
    return built.op("Conv", of, built.weight(outputs, inputs, *size), kernel_shape=list(size), strides=[stride, stride], pads=[high, wide, high, wide])


def normalized(built: Builder, of: str, channels: int) -> str:
    ones, zeros = built.constant(np.ones(channels, np.float32)), built.constant(np.zeros(channels, np.float32))
    return built.op("BatchNormalization", of, ones, zeros, zeros, ones)


def pool(built: Builder, kind: str, of: str, size: int, stride: int, pad: int = 0) -> str:
    return built.op(kind, of, kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)


def densenet(layers: int) -> onnx.ModelProto:
    """DenseNet-121, 169, 201: every layer reads what all layers of its block before it wrote."""
    blocks = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}[layers]
    built, growth, channels = Builder(), 32, 64
    value = built.op("Relu", normalized(built, convolution(built, "x", 3, 64, (7, 7), 2), 64))
    value = pool(built, "MaxPool", value, 3, 2, 1)
    for number, count in enumerate(blocks):
        made = [value]
        for _ in range(count):
            joined = built.op("Concat", *made, axis=1) if len(made) > 1 else made[0]
            narrow = convolution(built, built.op("Relu", normalized(built, joined, channels)), channels, 4 * growth)
            made.append(convolution(built, built.op("Relu", normalized(built, narrow, 4 * growth)), 4 * growth, growth, (3, 3)))
            channels += growth
        value = built.op("Relu", normalized(built, built.op("Concat", *made, axis=1), channels))
        if number + 1 < len(blocks):
            value = pool(built, "AveragePool", convolution(built, value, channels, channels // 2), 2, 2)
            channels //= 2
    value = built.op("Flatten", built.op("GlobalAveragePool", value))
    return built.model([1, 3, 224, 224], built.op("Gemm", value, built.weight(1000, channels), built.weight(1000), transB=1))


def inception(_: int) -> onnx.ModelProto:
    """Inception v3."""
    built = Builder()

    def conv(of: str, inputs: int, outputs: int, size: tuple[int, int] = (1, 1), stride: int = 1, pads: tuple[int, int] | None = None) -> str:
        return built.op("Relu", normalized(built, convolution(built, of, inputs, outputs, size, stride, pads), outputs))

    def average(of: str) -> str:
        return built.op("AveragePool", of, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, count_include_pad=1)

    none = (0, 0)
    value = conv(conv(conv("x", 3, 32, (3, 3), 2, none), 32, 32, (3, 3), 1, none), 32, 64, (3, 3))
    value = conv(conv(pool(built, "MaxPool", value, 3, 2), 64, 80), 80, 192, (3, 3), 1, none)
    value, channels = pool(built, "MaxPool", value, 3, 2), 192
    for pooled in (32, 64, 64):
        value = built.op("Concat", conv(value, channels, 64), conv(conv(value, channels, 48), 48, 64, (5, 5)),
                         conv(conv(conv(value, channels, 64), 64, 96, (3, 3)), 96, 96, (3, 3)), conv(average(value), channels, pooled), axis=1)
        channels = 224 + pooled
    value = built.op("Concat", conv(value, channels, 384, (3, 3), 2, none),
                     conv(conv(conv(value, channels, 64), 64, 96, (3, 3)), 96, 96, (3, 3), 2, none), pool(built, "MaxPool", value, 3, 2), axis=1)
    for middle in (128, 160, 160, 192):
        row, column = (1, 7), (7, 1)
        deep = conv(conv(value, 768, middle), middle, middle, column)
        deep = conv(conv(conv(deep, middle, middle, row), middle, middle, column), middle, 192, row)
        value = built.op("Concat", conv(value, 768, 192), conv(conv(conv(value, 768, middle), middle, middle, row), middle, 192, column), deep,
                         conv(average(value), 768, 192), axis=1)
    value = built.op("Concat", conv(conv(value, 768, 192), 192, 320, (3, 3), 2, none),
                     conv(conv(conv(conv(value, 768, 192), 192, 192, (1, 7)), 192, 192, (7, 1)), 192, 192, (3, 3), 2, none),
                     pool(built, "MaxPool", value, 3, 2), axis=1)
    for channels in (1280, 2048):
        split, double = conv(value, channels, 384), conv(conv(value, channels, 448), 448, 384, (3, 3))
        value = built.op("Concat", conv(value, channels, 320), conv(split, 384, 384, (1, 3)), conv(split, 384, 384, (3, 1)),
                         conv(double, 384, 384, (1, 3)), conv(double, 384, 384, (3, 1)), conv(average(value), channels, 192), axis=1)
    value = built.op("Flatten", built.op("GlobalAveragePool", value))
    return built.model([1, 3, 299, 299], built.op("Gemm", value, built.weight(1000, 2048), built.weight(1000), transB=1))


FAMILIES: dict[str, tuple[Callable[[int], onnx.ModelProto], list[int]]] = {
    **{kind.lower(): (chain((kind,), [140]), [8, 16, 32, 64, 128]) for kind in ("Tanh", "Sigmoid", "Erf", "Gelu", "Sin", "Tan")},
    "mixed": (chain(FUNCTIONS, [140]), [25, 50, 100, 200, 400]),
    "mixed_rows": (chain(FUNCTIONS, [8, 1000]), [25, 50, 100, 200, 400]),
    "tangled": (tangled, [10, 20, 40, 80]),
    "chosen": (chosen, [10, 20, 40, 80]),
    "reshaped": (reshaped, [10, 20, 40]),
    "doubled": (doubled, [50, 500, 5000]),
    "branches": (branches, [16, 64, 256, 1024]),
    "neg": (chain(("Neg",), [140]), [2000, 20000, 200000]),
    "relu_add": (chain(("Relu", "Add"), [140]), [200, 2000, 20000]),
    "transformer": (transformer, [3, 6, 12, 24, 48]),
    "densenet": (densenet, [121, 201]),
    "inception": (inception, [3]),
}


def main() -> None:
    """Writes a model and prints how many nodes it has: in a process of its own, whose memory is not counted as a compiler's."""
    family, size, path = sys.argv[1:]
    model = FAMILIES[family][0](int(size))
    onnx.save(model, path)
    print(len(model.graph.node))


if __name__ == "__main__":
    main()
