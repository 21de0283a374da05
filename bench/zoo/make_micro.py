#!/usr/bin/env python3
"""Writes models of one operation, for measurements: GEMM, row kernels and a copy on data beyond the caches, and attention over a
long context as separate operations.

    python bench/zoo/make_micro.py [--out build/micro]
    bench/compare --models build/micro/gemm_768x768x768.onnx,build/micro/softmax_64MB.onnx --threads 1
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import setup  # noqa: E402

setup.python_with("make_micro.py", __doc__, ["numpy", "onnx"], ["conformance"])
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SEED = 2026
GEMMS = [(768, 768, 768), (1024, 1024, 1024), (2048, 2048, 2048),  # rows, columns, depth
            (1, 4096, 4096), (8, 4096, 4096), (32, 4096, 4096), (128, 3072, 768)]
ROWS = [4096, 4096]  # 64 MB
HEADS, WIDTH = 12, 64
CONTEXTS = [512, 1024, 4096]  # queries, and as many keys


def save(folder, name, op, x, y, constants):
    def value(which, shape):
        return helper.make_tensor_value_info(which, TensorProto.FLOAT, shape)
    node = helper.make_node(op, ["x", *constants], ["y"])
    graph = helper.make_graph([node], name, [value("x", x)], [value("y", y)],
                              [numpy_helper.from_array(content, which) for which, content in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    onnx.save(model, folder / f"{name}.onnx")


def attention(folder, name, context, causal):
    """softmax(q k^T / 8 [+ mask]) v: five operations; the scores of 4096 keys take 805 MB when they are written to memory."""
    def value(which):
        return helper.make_tensor_value_info(which, TensorProto.FLOAT, [1, HEADS, context, WIDTH])
    constants = {"scale": np.float32(WIDTH ** -0.5)}
    nodes = [helper.make_node("Transpose", ["k"], ["transposed"], perm=[0, 1, 3, 2]),
             helper.make_node("MatMul", ["q", "transposed"], ["unscaled"]),
             helper.make_node("Mul", ["unscaled", "scale"], ["scores"])]
    if causal:
        constants |= {"size": np.array([context, context]), "no": np.float32(-np.inf)}
        nodes += [helper.make_node("ConstantOfShape", ["size"], ["all"],
                                   value=helper.make_tensor("value", TensorProto.BOOL, [1], [True])),
                  helper.make_node("Trilu", ["all"], ["seen"], upper=0),
                  helper.make_node("Where", ["seen", "scores", "no"], ["masked"])]
    nodes += [helper.make_node("Softmax", ["masked" if causal else "scores"], ["weights"], axis=-1),
              helper.make_node("MatMul", ["weights", "v"], ["y"])]
    graph = helper.make_graph(nodes, name, [value("q"), value("k"), value("v")], [value("y")],
                              [numpy_helper.from_array(np.asarray(content), which) for which, content in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    onnx.save(model, folder / f"{name}.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/micro"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    for m, n, k in GEMMS:
        save(folder, f"gemm_{m}x{n}x{k}", "MatMul", [m, k], [m, n], {"w": rng.standard_normal((k, n), dtype=np.float32)})
    ones = np.ones(ROWS[-1], np.float32)
    save(folder, "softmax_64MB", "Softmax", ROWS, ROWS, {})
    save(folder, "layernorm_64MB", "LayerNormalization", ROWS, ROWS, {"scale": ones, "bias": 0 * ones})
    save(folder, "gelu_64MB", "Gelu", ROWS, ROWS, {})
    save(folder, "copy_64MB", "Neg", ROWS, ROWS, {})  # what a copy takes: it reads and writes every element once
    for context in CONTEXTS:
        attention(folder, f"attention_{context}", context, causal=False)
        attention(folder, f"attention_{context}_causal", context, causal=True)


if __name__ == "__main__":
    main()
