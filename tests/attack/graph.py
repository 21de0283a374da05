"""A graph under construction: leaves with their arrays, and steps of nodes that are evaluated as they are added.

Every value has a concrete array from the start, so that a generator sees what it builds on (no index out of range, no
division of integers by zero), and a reducer may cut the graph at any value.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"
LARGEST = 20_000  # elements of one value


class Refused(Exception):
    """No peer runs the step, or its result is out of bounds: another one is drawn."""


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def kind(self) -> str:
        return self.array.dtype.kind

    @property
    def finite(self) -> bool:
        return self.kind not in "fc" or bool(np.isfinite(self.array).all())


@dataclasses.dataclass
class Leaf:
    array: np.ndarray
    constant: bool
    dims: list[str | int] | None = None  # as declared


@dataclasses.dataclass
class Step:
    """Nodes that are evaluated as one: most often a single one, more where values between them are no tensors."""

    nodes: list[onnx.NodeProto]
    reads: list[str]
    makes: list[str]
    ops: list[str]  # with those of bodies
    quiet: list[str] = dataclasses.field(default_factory=list)  # results that no later step may read


def operators(nodes) -> list[str]:
    found = []
    for node in nodes:
        found.append(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += operators(attribute.g.node)
    return found


def tensor_type(dtype) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@dataclasses.dataclass
class Graph:
    opset: int
    leaves: dict[str, Leaf] = dataclasses.field(default_factory=dict)
    steps: list[Step] = dataclasses.field(default_factory=list)
    outputs: list[str] = dataclasses.field(default_factory=list)
    declared: dict[str, list] = dataclasses.field(default_factory=dict)  # shapes of outputs that are declared

    def nodes(self) -> list[onnx.NodeProto]:
        return [node for step in self.steps for node in step.nodes]

    def operators(self) -> list[str]:
        return [op for step in self.steps for op in step.ops]

    def feed(self) -> dict[str, np.ndarray]:
        return {name: leaf.array for name, leaf in self.leaves.items() if not leaf.constant}

    def pruned(self) -> Graph:
        """Without the steps and leaves that no output needs."""
        needed, steps = set(self.outputs), []
        for step in reversed(self.steps):
            if needed & set(step.makes):
                steps.append(step)
                needed |= set(step.reads)
        leaves = {name: leaf for name, leaf in self.leaves.items() if name in needed}
        return dataclasses.replace(self, leaves=leaves, steps=steps[::-1])

    def model(self, values: dict[str, np.ndarray]) -> onnx.ModelProto:
        inputs, constants = [], []
        for name, leaf in self.leaves.items():
            if leaf.constant:
                constants.append(numpy_helper.from_array(leaf.array, name))
            else:
                inputs.append(helper.make_tensor_value_info(name, tensor_type(leaf.array.dtype), leaf.dims))
        outputs = [
            helper.make_tensor_value_info(
                name, tensor_type(a.dtype), self.declared.get(name) or [f"{name}_{i}" for i in range(a.ndim)]
            )
            for name, a in ((name, values[name]) for name in self.outputs)
        ]
        graph = helper.make_graph(self.nodes(), "attack", inputs, outputs, constants)
        return make_model(graph, self.opset)


def make_model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset)]
    if any(op.startswith(MICROSOFT) for op in operators(graph.node)):
        opsets.append(helper.make_opsetid(MICROSOFT, 1))
    if any(op.startswith(ML) for op in operators(graph.node)):
        # The older trees have no place beside the one that replaced them.
        opsets.append(helper.make_opsetid(ML, 5 if f"{ML}.TreeEnsemble" in operators(graph.node) else 3))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="xyntra attack")


def invalid(model: onnx.ModelProto) -> str:
    """Why a model is not valid, as onnx.checker and strict shape inference say it."""
    if "SimplifiedLayerNormalization" in operators(model.graph.node):
        return ""  # of ONNX Runtime: a name without a schema in ONNX's domain
    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as error:  # of several unrelated types
        return " ".join(str(error).split())[:80]
    return ""
