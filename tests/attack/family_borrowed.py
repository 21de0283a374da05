"""Operators with many rules for their operands: cases of tests/random, set among other nodes."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from onnx import TensorProto

from draw import Draw
from graph import MICROSOFT, ML, Refused, Value

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "random"))
import case as random_case  # noqa: E402
import generate as random_generate  # noqa: E402


class Case(random_case.Draw):
    """Draws as tests/random does, in the opset of a graph."""

    def __init__(self, g: Draw, op: str) -> None:
        self.op, self.rng, self.graph_opset = op, g.rng, g.graph.opset

    def opset(self, lowest: int = 7) -> int:
        return self.graph_opset


def disguise(g: Draw, value: Value) -> Value:
    """The same values by way of another node."""
    kind = g.integer(0, 5)
    if kind == 0 and value.kind == "f" and value.dtype.itemsize == 4:
        [wide] = g.emit("Cast", [value], {"to": TensorProto.DOUBLE}, keep=False)
        return g.emit("Cast", [wide], {"to": TensorProto.FLOAT}, keep=False)[0]
    if kind == 1 and value.rank:
        [flat] = g.emit("Reshape", [value, g.integers([-1])], keep=False) if value.array.size else [value]
        return g.emit("Reshape", [flat, g.integers(value.shape)], keep=False)[0] if value.array.size else value
    if kind == 2 and value.rank:
        [moved] = g.emit("Transpose", [value], keep=False)
        return g.emit("Transpose", [moved], keep=False)[0]
    if kind == 3 and value.kind in "fi":
        [negative] = g.emit("Neg", [value], keep=False)
        return g.emit("Neg", [negative], keep=False)[0]
    if kind == 4 and value.rank:
        [joined] = g.emit("Concat", [value, value], {"axis": 0}, keep=False)
        bounds = [g.integers([n]) for n in (0, value.shape[0], 0)]
        return g.emit("Slice", [joined, *bounds], keep=False)[0]
    return g.emit("Identity", [value], keep=False)[0]


PREFIXES = {random_generate.PREFIX: f"{MICROSOFT}.", random_generate.ML_PREFIX: f"{ML}."}
OLD_TREES = {f"{ML}.TreeEnsembleClassifier", f"{ML}.TreeEnsembleRegressor"}


def key_of(name: str) -> str:
    """What tests/random calls an operator."""
    for prefix, domain in PREFIXES.items():
        if name.startswith(domain):
            return prefix + name.removeprefix(domain)
    return name


def name_of(key: str) -> str:
    for prefix, domain in PREFIXES.items():
        if key.startswith(prefix):
            return domain + key.removeprefix(prefix)
    return key


def refuse_mixed_trees(g: Draw, name: str) -> None:
    """The versions of ai.onnx.ml with TreeEnsemble have the others no more."""
    present = set(g.graph.operators())
    if name in OLD_TREES and f"{ML}.TreeEnsemble" in present or name == f"{ML}.TreeEnsemble" and present & OLD_TREES:
        raise Refused("trees of two versions")


def borrowed(g: Draw, name: str):
    refuse_mixed_trees(g, name)
    op = name.rpartition(".")[2]
    domain = name.rpartition(".")[0]
    case = random_generate.GENERATORS[key_of(name)](Case(g, op))
    if not domain and case.opset != g.graph.opset:
        raise Refused("a case of another opset")
    inputs = []
    for place, array in enumerate(case.inputs):
        if array is None:
            inputs.append(None)
            continue
        if place in case.packed:
            raise Refused("types that NumPy lacks")
        value = g.leaf(array, True if place in case.constants else None)
        if place not in case.constants and not (place and array.ndim <= 1 and array.dtype.kind == "i"):
            same = [
                v
                for v in g.pool
                if v.dtype == value.dtype and v.shape == value.shape and v.finite and not place and v.kind == "f"
            ]
            if same and np.abs(same[-1].array).max(initial=0) < 10 and g.chance(0.5):
                value = same[-1]
            elif g.chance(0.4):
                value = disguise(g, value)
        inputs.append(value)
    mask = case.outputs if isinstance(case.outputs, tuple) else (True,) * case.outputs
    return g.emit(op, inputs, {k: v for k, v in case.attributes.items() if v is not None}, mask, case.domain)


OPERATORS = {name_of(key) for key in random_generate.GENERATORS}
