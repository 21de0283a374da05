#!/usr/bin/env python3
"""Writes plain chains of a few operators, as a newcomer would try first, for measurements: where fusing has to gain.

    python bench/zoo/make_plain.py [--out build/plain]
    bench/compare --models build/plain/conv256_relu.onnx,build/plain/matmul384_gelu.onnx --threads 1
    build/release/xyntra bench build/plain/conv256_relu.onnx        # fused beside unfused
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import setup  # noqa: E402

setup.python_with("make_plain.py", __doc__, ["numpy", "onnx"], ["conformance"])
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SEED = 2026


class Chain:
    """One value after another, from the input x."""

    def __init__(self, shape):
        self.rng = np.random.default_rng(SEED)
        self.shape, self.nodes, self.constants, self.last = shape, [], [], "x"

    def constant(self, content):
        self.constants.append(numpy_helper.from_array(content, f"w{len(self.constants)}"))
        return self.constants[-1].name

    def weight(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32))

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def node(self, op, *operands, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(operands), names, **attributes))
        self.last = names[0]
        return names if outputs > 1 else names[0]

    def then(self, op, *operands, **attributes):
        self.node(op, self.last, *operands, **attributes)
        return self

    def convolution(self, source, into, side=3, stride=1):
        return self.then("Conv", self.weight(into, source, side, side), self.weight(into), pads=[side // 2] * 4, strides=[stride] * 2)

    def product(self, depth, columns):
        return self.then("MatMul", self.weight(depth, columns)).then("Add", self.weight(columns))

    def save(self, path):
        graph = helper.make_graph(self.nodes, path.stem, [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        onnx.save(model, path)


def split_block():
    """What detectors are made of: halves of a convolution's channels, one of them through two more, all of them joined."""
    chain = Chain([1, 32, 40, 40]).convolution(32, 32, 1)
    low, high = chain.node("Split", chain.last, outputs=2, axis=1, num_outputs=2)
    chain.last = high
    for _ in range(2):
        chain.convolution(16, 16).then("Relu")
    chain.node("Concat", low, high, chain.last, axis=1)
    return chain.convolution(48, 32, 1).then("Relu")


def mel():
    """The front end of speech models: framed by a strided convolution over a padded signal of a free length."""
    chain = Chain([1, 1, "length"])
    chain.then("Pad", chain.integers(0, 0, 200, 0, 0, 200), mode="reflect").then("Conv", chain.weight(402, 1, 400), strides=[160])
    real, imaginary = chain.node("Split", chain.last, outputs=2, axis=1, num_outputs=2)
    squares = [chain.node("Mul", part, part) for part in (real, imaginary)]
    chain.node("Add", *squares)
    chain.node("MatMul", chain.weight(80, 201), chain.last)
    return chain.then("Clip", chain.constant(np.float32(1e-10))).then("Log")


CHAINS = {
    "conv256_relu": lambda: Chain([1, 256, 14, 14]).convolution(256, 256).then("Relu"),
    "conv96_relu": lambda: Chain([1, 96, 20, 20]).convolution(96, 96).then("Relu"),
    "conv64_sigmoid": lambda: Chain([1, 64, 56, 56]).convolution(64, 64).then("Sigmoid"),
    "conv176_sigmoid": lambda: Chain([3, 176, 17, 17]).convolution(176, 144).then("Sigmoid"),
    "conv192_stride2": lambda: Chain([1, 192, 16, 16]).convolution(192, 400, 3, 2),
    "conv64_5x5": lambda: Chain([1, 64, 20, 20]).convolution(64, 80, 5),
    "matmul384_gelu": lambda: Chain([384, 768]).product(768, 3072).then("Gelu"),
    "matmul640_gelu": lambda: Chain([640, 512]).product(512, 512).then("Gelu"),
    "depth_to_space_conv": lambda: Chain([1, 256, 40, 40]).then("DepthToSpace", blocksize=2).convolution(64, 64).then("Relu"),
    "split_conv_concat": split_block,
    "mel": mel,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/plain"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in CHAINS.items():
        make().save(folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
