#!/usr/bin/env python3
"""Writes models of one operation, for measurements: products of matrices, and row kernels on data beyond the caches.

    python bench/zoo/make_micro.py [--out build/micro]
    bench/compare --models build/micro/gemm_768x768x768.onnx,build/micro/softmax_64MB.onnx --threads 1
"""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 2026
PRODUCTS = [(768, 768, 768), (1024, 1024, 1024), (2048, 2048, 2048),  # rows, columns, depth
            (1, 4096, 4096), (8, 4096, 4096), (32, 4096, 4096), (128, 3072, 768)]
ROWS = [4096, 4096]  # 64 MB


def save(folder, name, op, x, y, constants):
    def value(which, shape):
        return helper.make_tensor_value_info(which, TensorProto.FLOAT, shape)
    node = helper.make_node(op, ["x", *constants], ["y"])
    graph = helper.make_graph([node], name, [value("x", x)], [value("y", y)],
                              [numpy_helper.from_array(content, which) for which, content in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    onnx.save(model, folder / f"{name}.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/micro"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    for m, n, k in PRODUCTS:
        save(folder, f"gemm_{m}x{n}x{k}", "MatMul", [m, k], [m, n], {"w": rng.standard_normal((k, n), dtype=np.float32)})
    ones = np.ones(ROWS[-1], np.float32)
    save(folder, "softmax_64MB", "Softmax", ROWS, ROWS, {})
    save(folder, "layernorm_64MB", "LayerNormalization", ROWS, ROWS, {"scale": ones, "bias": 0 * ones})
    save(folder, "gelu_64MB", "Gelu", ROWS, ROWS, {})


if __name__ == "__main__":
    main()
