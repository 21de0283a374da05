"""What others make of a graph: ONNX Runtime with its optimisations off, and ONNX's reference evaluator."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

import specification
from graph import Graph, Refused, Step, make_model, tensor_type

onnxruntime.set_default_logger_severity(4)
warnings.filterwarnings("ignore")
np.seterr(all="ignore")
NEWEST_OF_RUNTIME = 26


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


OPTIONS = _options()


def runtime_session(model: onnx.ModelProto):
    return onnxruntime.InferenceSession(model.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])


def biased_by_group(node: onnx.NodeProto) -> bool:
    group = next((helper.get_attribute_value(a) for a in node.attribute if a.name == "group"), 1)
    return node.op_type == "ConvTranspose" and group > 1 and len(node.input) == 3


class Peer:
    """One step, ready to be run on any arrays of the types it was made for."""

    def __init__(self, step: Step, opset: int, arrays: dict[str, np.ndarray]) -> None:
        inputs = [helper.make_tensor_value_info(n, tensor_type(arrays[n].dtype), None) for n in step.reads]
        names = step.makes + step.quiet
        outputs = [onnx.ValueInfoProto(name=n) for n in names]
        self.step, self.names = step, names
        self.model = make_model(helper.make_graph(step.nodes, "step", inputs, outputs), opset)
        self.sessions = {"ONNX Runtime": self.runtime, "ONNX reference": self.reference}
        self.loaded: dict = {}
        self.specified = step.nodes[0].op_type in specification.OPERATORS
        self.name = "ONNX reference" if self.specified else "ONNX Runtime"

    def runtime(self):
        """In the newest opset that it has, where no operator has changed since."""
        version = self.model.opset_import[0].version
        if version > NEWEST_OF_RUNTIME:
            if any(newest(node.op_type) > NEWEST_OF_RUNTIME for node in self.step.nodes if not node.domain):
                raise Refused("newer than ONNX Runtime")
            self.model.opset_import[0].version = NEWEST_OF_RUNTIME
        try:
            return runtime_session(self.model)
        finally:
            self.model.opset_import[0].version = version

    def reference(self):
        if self.specified:
            return specification.Session(self.step.nodes[0])
        if any(biased_by_group(node) for node in self.step.nodes):
            raise Refused("ONNX's reference adds the first group's bias to all")
        return ReferenceEvaluator(self.model)

    def run(self, arrays: dict[str, np.ndarray], name: str | None = None) -> dict[str, np.ndarray]:
        """What ONNX Runtime gives, or ONNX's reference where it gives nothing; or what the named one does."""
        chosen = name or self.name
        try:
            if chosen not in self.loaded:
                self.loaded[chosen] = self.sessions[chosen]()
            results = self.loaded[chosen].run(None, {n: arrays[n] for n in self.step.reads})
        except Exception as error:  # whatever a peer raises is its refusal
            if name is None and self.name == "ONNX Runtime":
                self.name = "ONNX reference"
                return self.run(arrays)
            raise Refused(f"{chosen} refuses {self.step.ops[0]}: {error}") from error
        if any(isinstance(r, list) for r in results):
            raise Refused(f"{chosen} gives a sequence for a tensor, as of optionals")
        return {n: np.asarray(r) for n, r in zip(self.names, results)}


def ill_typed(model: onnx.ModelProto) -> bool:
    """Whether ONNX has no such type of an operator, which its reference evaluator does not look at."""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as error:  # of several unrelated types
        return "type" in str(error).lower()
    return False


def doubted(step: Step, opset: int, arrays: dict[str, np.ndarray], results: dict[str, np.ndarray]) -> bool:
    """Whether ONNX Runtime, which has no kernel for a step's type, gives something else for it in float32."""
    given = {n: arrays[n].astype(np.float32) if arrays[n].dtype.kind == "f" else arrays[n] for n in step.reads}
    if all(given[n] is arrays[n] for n in step.reads):
        return False
    try:
        others = Peer(step, opset, given).run(given, "ONNX Runtime")
    except Refused:
        return False
    for name, result in results.items():
        if others[name].shape != result.shape:
            return True
        if result.dtype.kind == "f":
            size = np.abs(result[np.isfinite(result)]).max(initial=0).astype(np.float64)
            near = 0.05 if result.dtype.itemsize == 2 else 1e-4
            if not np.allclose(
                others[name].astype(np.float64), result.astype(np.float64), near, near * size, equal_nan=True
            ):
                return True
    return False


def evaluate(graph: Graph, peers: dict[int, Peer] | None = None) -> dict[str, np.ndarray]:
    """Every value of a graph, step by step."""
    arrays = {name: leaf.array for name, leaf in graph.leaves.items()}
    for step in graph.steps:
        peer = peers.get(id(step)) if peers is not None else None
        if peer is None:
            peer = Peer(step, graph.opset, arrays)
            if peers is not None:
                peers[id(step)] = peer
        arrays.update(peer.run(arrays))
    return arrays


def second_opinion(
    graph: Graph, peers: dict[int, Peer], right: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], list[Step]]:
    """Every value by ONNX's reference where it runs a step; and the steps that it ran."""
    arrays = {name: leaf.array for name, leaf in graph.leaves.items()}
    asked = []
    for step in graph.steps:
        try:
            arrays.update(peers[id(step)].run(arrays, "ONNX reference"))
            asked.append(step)
        except Refused:
            try:
                arrays.update(peers[id(step)].run(arrays))
            except Refused:  # another opinion about a size: no way on from there
                arrays.update({n: right[n] for n in step.makes})
    return arrays, asked


def newest(op: str) -> int:
    try:
        return onnx.defs.get_schema(op).since_version
    except onnx.defs.SchemaError:
        return 1


def whole(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray] | str]:
    """What each peer makes of the whole model, or why it does not run it."""
    names = [output.name for output in model.graph.output]
    found: dict[str, dict[str, np.ndarray] | str] = {}
    for name, make in (("ONNX Runtime", runtime_session), ("ONNX reference", ReferenceEvaluator)):
        try:
            found[name] = {n: np.asarray(r) for n, r in zip(names, make(model).run(None, feed))}
        except Exception as error:
            found[name] = " ".join(str(error).split())[:200]
    return found
