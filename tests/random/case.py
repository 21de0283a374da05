"""One random case: a single-node model, its inputs, and what ONNX Runtime makes of them.

Values lie on a grid of eighths, so that sums and products of a few of them are exact in float32 and float16:
a disagreement is then about meaning, not about the order of a sum.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

NEWEST_OPSET = 26  # of ONNX Runtime
DEPRECATED = {"Scatter": 11, "Upsample": 10}  # the opset that takes the op away
MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"

onnxruntime.set_default_logger_severity(4)

NUMPY_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(bool)": "bool",
               **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


@dataclasses.dataclass
class Case:
    inputs: list[np.ndarray | None]
    attributes: dict = dataclasses.field(default_factory=dict)
    opset: int = 21
    outputs: int | tuple[bool, ...] = 1  # how many, or which of them are named
    domain: str = ""
    domain_version: int = 1
    constants: tuple[int, ...] = ()  # inputs that have to be initializers
    packed: dict[int, int] = dataclasses.field(default_factory=dict)  # input -> ONNX type numpy lacks
    note: str = ""


@functools.cache
def since_versions(op: str) -> list[int]:
    return sorted(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.name == op)


@functools.cache
def kernels(op: str, domain: str) -> list[tuple[tuple[int, int], dict[str, list[str]]]]:
    return [(k.version_range, dict(k.type_constraints)) for k in get_all_opkernel_def()
            if k.op_name == op and k.domain == domain and k.provider == "CPUExecutionProvider"]


class Draw:
    """Random choices, named after what is drawn."""

    def __init__(self, op: str, seed: int) -> None:
        self.op = op
        self.rng = np.random.default_rng([seed, zlib.crc32(op.encode())])

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def choice(self, options):
        return options[int(self.rng.integers(len(options)))]

    def opset(self, lowest: int = 7) -> int:
        """Each version of the op's meaning is as likely as any other."""
        starts = since_versions(self.op)
        if self.op in DEPRECATED:
            return self.integer(max(lowest, starts[0]), DEPRECATED[self.op] - 1)
        pieces = []
        for start, end in zip(starts, starts[1:] + [NEWEST_OPSET + 1]):
            first, last = max(start, lowest), min(end - 1, NEWEST_OPSET)
            if first <= last:
                pieces.append((first, last))
        return self.integer(*self.choice(pieces))

    def dtype(self, opset: int = 21, constraint: str = "T", domain: str = "", allowed: str = "fiub") -> np.dtype:
        """A type for which ONNX Runtime has a kernel; float32 where it has none and expands a function."""
        found = set()
        for (first, last), types in kernels(self.op, domain):
            if domain or first <= opset <= last:
                found.update(NUMPY_TYPES[t] for t in types.get(constraint, ()) if t in NUMPY_TYPES)
        usable = sorted(t for t in found if np.dtype(t).kind in allowed)
        if not usable or ("float32" in usable and self.chance(0.4)):
            return np.dtype("float32")
        return np.dtype(self.choice(usable))

    def shape(self, low: int = 0, high: int = 4, largest: int = 5, empty: float = 0.04) -> tuple[int, ...]:
        rank = self.integer(low, high)
        shape = [1 if self.chance(0.12) else self.integer(1, largest) for _ in range(rank)]
        if rank and self.chance(empty):
            shape[self.integer(0, rank - 1)] = 0
        return tuple(shape)

    def broadcast(self, count: int, high: int = 4) -> list[tuple[int, ...]]:
        """Shapes that broadcast together: leading axes dropped, some sizes one."""
        full = self.shape(0, high)
        shapes = []
        for _ in range(count):
            kept = full[self.integer(0, len(full)) if self.chance(0.4) else 0:]
            shapes.append(tuple(1 if self.chance(0.2) else size for size in kept))
        if self.chance(0.5):
            shapes[0] = full
        return shapes

    def axis(self, rank: int) -> int:
        axis = self.integer(0, rank - 1)
        return axis - rank if self.chance(0.4) else axis

    def axes(self, rank: int, at_least: int = 0) -> list[int]:
        count = self.integer(min(at_least, rank), rank)
        chosen = self.rng.permutation(rank)[:count]
        return [int(a) - rank if self.chance(0.3) else int(a) for a in chosen]

    def array(self, shape, dtype="float32", low: float = -3.0, high: float = 3.0) -> np.ndarray:
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.kind == "u":
            low = max(low, 0)
        if dtype.kind in "iu":
            return np.asarray(self.rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, shape), dtype)
        return np.asarray(self.rng.integers(int(np.ceil(low * 8)), int(np.floor(high * 8)) + 1, shape) / 8, dtype)

    def special(self, array: np.ndarray, values=(np.nan, np.inf, -np.inf, -0.0, 1e-40), probability=0.25) -> np.ndarray:
        """Now and then puts NaN, infinities, a negative zero or a subnormal among floats."""
        if array.dtype.kind == "f" and array.size and self.chance(probability):
            array = array.copy()
            for _ in range(self.integer(1, 3)):
                array.flat[self.integer(0, array.size - 1)] = self.choice(values)
        return array


def named_outputs(case: Case) -> list[str]:
    mask = case.outputs if isinstance(case.outputs, tuple) else (True,) * case.outputs
    names = [f"y{i}" if present else "" for i, present in enumerate(mask)]
    while names and not names[-1]:
        names.pop()
    return names


def constant_tensor(case: Case, index: int) -> TensorProto:
    array, name = case.inputs[index], f"x{index}"
    if index in case.packed:
        return helper.make_tensor(name, case.packed[index], array.shape, array.flatten().tolist())
    return numpy_helper.from_array(array, name)


def build(op: str, case: Case, outputs: list[np.ndarray] | None = None, symbolic: bool = False) -> onnx.ModelProto:
    """The model of a case; before ONNX Runtime has run it, outputs are named but not typed."""
    fed = [i for i, x in enumerate(case.inputs) if x is not None and i not in case.constants]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(op, names, named_outputs(case), domain=case.domain)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in sorted(case.attributes.items()) if v is not None)

    def value(name: str, array: np.ndarray, rank_only: bool) -> onnx.ValueInfoProto:
        shape = [(f"{name}_{a}" if rank_only else size) for a, size in enumerate(array.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    present = [name for name in named_outputs(case) if name]
    typed = [onnx.ValueInfoProto(name=n) for n in present] if outputs is None else [
        value(n, array, symbolic) for n, array in zip(present, outputs)]
    graph = helper.make_graph([node], op, [value(f"x{i}", case.inputs[i], symbolic) for i in fed], typed,
                              [constant_tensor(case, i) for i in case.constants if case.inputs[i] is not None])
    opsets = [helper.make_opsetid("", case.opset)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, case.domain_version))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="xyntra random cases")


def run(model: onnx.ModelProto, case: Case) -> list[np.ndarray]:
    """ONNX Runtime's outputs, node by node as written: no fusion, one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {value.name: case.inputs[int(value.name[1:])] for value in session.get_inputs()}
    return session.run(None, feed)


def write(folder: pathlib.Path, model: onnx.ModelProto, case: Case, outputs: list[np.ndarray]) -> None:
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for place, value in enumerate(model.graph.input):
        tensor = numpy_helper.from_array(np.asarray(case.inputs[int(value.name[1:])]), value.name)
        (data / f"input_{place}.pb").write_bytes(tensor.SerializeToString())
    for place, (value, array) in enumerate(zip(model.graph.output, outputs)):
        (data / f"output_{place}.pb").write_bytes(numpy_helper.from_array(np.asarray(array), value.name).SerializeToString())
