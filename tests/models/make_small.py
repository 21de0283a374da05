#!/usr/bin/env python3
"""Writes the models of tests/models that no exporter makes: forms that were once wrong. Outputs are those of ONNX's reference evaluator.

usage: tests/models/make_small.py [FOLDER]      # needs onnx and numpy
"""
import pathlib
import sys

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


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
    for make in (attention_shared_heads, cast_in_loop):
        model, random = make(), np.random.default_rng(5)
        onnx.checker.check_model(model)
        data = out / make.__name__ / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        onnx.save(model, data.parent / "model.onnx")
        feed = {value.name: (3 * random.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim])).astype(np.float32)
                for value in model.graph.input}
        for i, (name, array) in enumerate(feed.items()):
            (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
        for i, (value, array) in enumerate(zip(model.graph.output, ReferenceEvaluator(model).run(None, feed))):
            (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(array, np.float32), value.name).SerializeToString())


if __name__ == "__main__":
    main()
