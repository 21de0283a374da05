"""FX graphs as JSON, in the schema that archives of torch.export hold (version 8): what xyntra_load_graph reads.

    add = torch.ops.aten.add.Tensor(x, 1)
    {"target": "torch.ops.aten.add.Tensor", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
     {"name": "other", "arg": {"as_int": 1}, "kind": 1}], "outputs": [{"as_tensor": {"name": "add"}}], "metadata": {}}

Sizes are symbols of the inputs' shapes. A size that a node takes is read from an input (sym_size) and computed from there, as an
export does it, so that a graph has no inputs that are numbers but those that no shape tells.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sympy.printing.repr import srepr
from torch import fx

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_SCALAR_TYPES = {torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7, torch.float64: 8,
                 torch.complex32: 9, torch.complex64: 10, torch.complex128: 11, torch.bool: 12, torch.bfloat16: 13, torch.uint16: 28,
                 torch.float8_e4m3fn: 29, torch.float8_e5m2: 30, torch.float8_e4m3fnuz: 31, torch.float8_e5m2fnuz: 32, torch.uint32: 34, torch.uint64: 35}
_LAYOUTS = {torch.sparse_coo: 1, torch.sparse_csr: 2, torch.sparse_csc: 3, torch.sparse_bsr: 4, torch.sparse_bsc: 5, torch.strided: 7}
_MEMORY_FORMATS = {torch.contiguous_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3, torch.preserve_format: 4}
_POSITIONAL, _KEYWORD = 1, 2
_LOCAL = re.compile(r"^L\[.\w+.\]")  # what Dynamo writes before: a local variable of the caller
_SYMBOL_MODULES = {"_operator": "_operator", "math": "math", "torch": "torch"}


class CannotWrite(Exception):
    """The schema, or our part of it, has no form for this; the text says for what."""


@dataclass(frozen=True)
class GraphInput:
    """A value that a graph takes, as it lies in memory: dense, its dimensions in the order `storage` names them."""

    node: fx.Node
    constant: bool = False  # the same at every run: given by name beside the graph
    storage: tuple[int, ...] | None = None  # None: row-major


@dataclass(frozen=True)
class GraphOutput:
    node: fx.Node
    storage: tuple[int, ...] | None = None


def value_of(node: fx.Node) -> object:
    return node.meta.get("val")


def is_symbol_arithmetic(node: fx.Node) -> bool:
    """A size, or arithmetic on sizes: no tensor."""
    value = value_of(node)
    return isinstance(value, SYMBOLIC) or (node.op == "call_function" and isinstance(value, (int, float, bool)))


def size_hint(number: object) -> int | None:
    """A size or stride as it was when the graph was captured, without a guard; None where that is not known."""
    if isinstance(number, int):
        return number
    expression = number.node.expr  # type: ignore[attr-defined]
    if expression.is_number:
        return int(expression)
    hint = number.node._hint if hasattr(number.node, "_hint") else None  # type: ignore[attr-defined]
    return int(hint) if isinstance(hint, int) else None


def _expression(value: object) -> Any:
    """The sympy expression of a symbolic number; None of a plain one."""
    if not isinstance(value, SYMBOLIC):
        return None
    expression = value.node.expr
    return None if expression.is_number else expression


def _number(value: object, plain: str) -> dict:
    expression = _expression(value)
    if expression is None:
        kind = {"as_int": int, "as_float": float, "as_bool": bool}[plain]
        return {plain: kind(value)}  # type: ignore[arg-type]
    return {"as_expr": {"expr_str": _expression_text(expression), "hint": None}}


def _expression_product(one: Any, size: object) -> Any:
    expression = _expression(size)
    return one * (int(size) if expression is None else expression)  # type: ignore[call-overload]


def _stride(value: Any) -> dict:
    return {"as_int": int(value)} if isinstance(value, int) or value.is_number else {"as_expr": {"expr_str": _expression_text(value), "hint": None}}


@functools.lru_cache(maxsize=4096)
def _expression_text(expression: Any) -> str:
    return srepr(expression)


def _float(value: float) -> object:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


class GraphWriter:
    """Writes one graph. `nodes` are in order; whatever they read is among them, an input, or arithmetic on sizes."""

    def __init__(self, nodes: Sequence[fx.Node], inputs: Sequence[GraphInput], outputs: Sequence[GraphOutput], anonymous: bool = False) -> None:
        """`anonymous` names values by their order, so that equal graphs are equal texts."""
        self._outputs = outputs
        self._inputs = list(inputs)
        self._anonymous = anonymous
        self._names: dict[fx.Node, str] = {}
        self._tensors: dict[str, dict] = {}
        self._sizes: dict[str, dict] = {}
        self._booleans: dict[str, dict] = {}
        self._floats: dict[str, dict] = {}
        self._nodes: list[dict] = []
        self._symbols: set = set()
        self._given: dict[object, tuple[fx.Node, int]] = {}  # where an input's shape tells a size
        for one in self._inputs:
            value = value_of(one.node)
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    expression = _expression(size)
                    if expression is not None:
                        self._given.setdefault(expression, (one.node, axis))
        self._input_arguments = [self._input(one) for one in self._inputs]
        for node in nodes:
            self._call(node)
        self._output_names = [self._output(one) for one in outputs]

    # ---- the parts of the text ----

    def text(self) -> str:
        graph = {"inputs": self._input_arguments, "outputs": [{"as_tensor": {"name": name}} for name in self._output_names], "nodes": self._nodes,
                 "tensor_values": self._tensors, "sym_int_values": self._sizes, "sym_bool_values": self._booleans, "is_single_tensor_return": False,
                 "custom_obj_values": {}, "sym_float_values": self._floats}
        specs = []
        for one, argument in zip(self._inputs, self._input_arguments):
            if one.constant:
                specs.append({"parameter": {"arg": argument["as_tensor"], "parameter_name": argument["as_tensor"]["name"]}})
            else:
                specs.append({"user_input": {"arg": argument}})
        signature = {"input_specs": specs, "output_specs": [{"user_output": {"arg": argument}} for argument in graph["outputs"]]}
        program = {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": [], "metadata": {}, "treespec_namedtuple_fields": {}},
                   "opset_version": {"aten": 10}, "range_constraints": self._ranges(), "schema_version": {"major": 8, "minor": 1}, "verifiers": [],
                   "torch_version": torch.__version__, "guards_code": []}
        return json.dumps(program, allow_nan=False)

    @property
    def input_names(self) -> list[str]:
        return [next(iter(argument.values())).get("name") or argument["as_sym_int"]["as_name"] for argument in self._input_arguments]

    @property
    def output_names(self) -> list[str]:
        return list(self._output_names)

    def _ranges(self) -> dict:
        made = {}
        for environment, symbol in sorted(self._symbols, key=lambda pair: str(pair[1])):
            known = environment.var_to_range.get(symbol)
            if known is not None:
                made[str(symbol)] = {"min_val": _bound(known.lower), "max_val": _bound(known.upper)}
        return made

    # ---- values ----

    def _name(self, node: fx.Node) -> str:
        if node not in self._names:
            self._names[node] = f"v{len(self._names)}" if self._anonymous else node.name
        return self._names[node]

    def _meta(self, tensor: torch.Tensor, order: Iterable[int] | None = None) -> dict:
        if tensor.layout != torch.strided:
            raise CannotWrite(f"a tensor of layout {tensor.layout}")
        if tensor.dtype not in _SCALAR_TYPES:
            raise CannotWrite(f"a tensor of {tensor.dtype}")
        if tensor.device.type not in ("cpu", "cuda"):  # where among them the importer need not know
            raise CannotWrite(f"a tensor on {tensor.device.type}")
        sizes = [tensor.shape[axis] for axis in (range(tensor.dim()) if order is None else order)]
        for size in sizes:
            self._note_symbols(size)
        strides, step = [], 1  # as they lie where a graph takes or gives them
        for size in reversed(sizes):
            strides.append(step)
            step = _expression_product(step, size)
        return {"dtype": _SCALAR_TYPES[tensor.dtype], "sizes": [_number(size, "as_int") for size in sizes], "requires_grad": False,
                "device": {"type": "cpu", "index": None}, "strides": list(map(_stride, reversed(strides))),
                "storage_offset": {"as_int": 0}, "layout": _LAYOUTS[torch.strided]}

    def _note_symbols(self, value: object) -> None:
        expression = _expression(value)
        if expression is not None:
            environment = value.node.shape_env  # type: ignore[attr-defined]
            self._symbols |= {(environment, symbol) for symbol in expression.free_symbols}

    def _tensor(self, name: str, tensor: object, order: Iterable[int] | None = None) -> dict:
        if not isinstance(tensor, torch.Tensor):
            raise CannotWrite(f"a value of type {type(tensor).__name__}")
        self._tensors[name] = self._meta(tensor, order)
        return {"as_tensor": {"name": name}}

    def _input(self, one: GraphInput) -> dict:
        value, name = value_of(one.node), self._name(one.node)
        if isinstance(value, torch.Tensor):
            if one.storage is None:
                return self._tensor(name, value)
            self._tensor(name, value)
            stored = self._tensor(f"{name}__stored", value, one.storage)
            inverse = [one.storage.index(axis) for axis in range(len(one.storage))]
            self._permute(f"{name}__stored", name, inverse)
            return stored
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            self._note_symbols(value)
            self._sizes[name] = _number(value, "as_int")
            return {"as_sym_int": {"as_name": name}}
        raise CannotWrite(f"an input of type {type(value).__name__}")

    def _output(self, one: GraphOutput) -> str:
        name = self._name(one.node)
        if one.storage is None:
            return name
        self._tensor(f"{name}__stored", value_of(one.node), one.storage)
        self._permute(name, f"{name}__stored", list(one.storage))
        return f"{name}__stored"

    def _permute(self, source: str, target: str, order: list[int]) -> None:
        self._nodes.append({"target": "torch.ops.aten.permute.default",
                            "inputs": [{"name": "self", "arg": {"as_tensor": {"name": source}}, "kind": _POSITIONAL},
                                       {"name": "dims", "arg": {"as_ints": order}, "kind": _POSITIONAL}],
                            "outputs": [{"as_tensor": {"name": target}}], "metadata": {}})

    # ---- sizes ----

    def _symbol(self, node: fx.Node) -> dict:
        """A number that a node takes, written before the node."""
        value = value_of(node)
        expression = _expression(value)
        if expression is None:
            if isinstance(value, (bool, torch.SymBool)):
                return {"as_bool": bool(value)}
            if isinstance(value, (float, torch.SymFloat)):
                return {"as_float": _float(float(value))}
            return {"as_int": int(value)}  # type: ignore[arg-type]
        kind = {torch.SymInt: "as_sym_int", torch.SymFloat: "as_sym_float", torch.SymBool: "as_sym_bool"}[type(value)]
        if node not in self._names:
            self._compute_symbol(node, value, expression)
        return {kind: {"as_name": self._names[node]}}

    def _compute_symbol(self, node: fx.Node, value: object, expression: Any) -> None:
        self._note_symbols(value)
        place = self._given.get(expression)
        if place is None and node.target is torch.ops.aten.sym_size.int and isinstance(node.args[0], fx.Node) and isinstance(node.args[1], int):
            place = (node.args[0], node.args[1]) if node.args[0] in self._names else None
        if place is not None:
            tensor, axis = place
            call = ("torch.ops.aten.sym_size.int", [{"name": "self", "arg": {"as_tensor": {"name": self._name(tensor)}}, "kind": _POSITIONAL},
                                                    {"name": "dim", "arg": {"as_int": axis}, "kind": _POSITIONAL}])
        elif node.op == "call_function" and getattr(node.target, "__module__", None) in _SYMBOL_MODULES and not node.kwargs:
            names = _parameter_names(node.target, len(node.args))
            arguments = [{"name": name, "arg": self._argument(argument, ""), "kind": _POSITIONAL} for name, argument in zip(names, node.args)]
            call = (f"{_SYMBOL_MODULES[node.target.__module__]}.{node.target.__name__}", arguments)  # type: ignore[union-attr]
        else:
            raise CannotWrite(f"the number {expression}, which no input's shape tells")
        name = self._name(node)
        if isinstance(value, torch.SymInt):
            self._sizes[name], result = _number(value, "as_int"), {"as_sym_int": {"as_name": name}}
        elif isinstance(value, torch.SymBool):
            self._booleans[name], result = _number(value, "as_bool"), {"as_sym_bool": {"as_name": name}}
        else:
            self._floats[name], result = _number(value, "as_float"), {"as_sym_float": {"as_name": name}}
        self._nodes.append({"target": call[0], "inputs": call[1], "outputs": [result], "metadata": {}})

    # ---- nodes ----

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem or is_symbol_arithmetic(node):
            return  # written with the call, or where somebody needs it
        if not isinstance(node.target, torch._ops.OpOverload):
            raise CannotWrite(f"a call of {node.target}")
        schema, inputs = node.target._schema, []
        for place, declared in enumerate(schema.arguments):
            if place < len(node.args):
                given, kind = node.args[place], _POSITIONAL
            elif declared.name in node.kwargs:
                given, kind = node.kwargs[declared.name], _KEYWORD
            else:
                continue
            inputs.append({"name": declared.name, "arg": self._argument(given, str(declared.type)), "kind": kind})
        metadata = {} if self._anonymous else {"nn_module_stack": _stack(node)}
        self._nodes.append({"target": f"torch.ops.{str(node.target)}", "inputs": inputs, "outputs": self._results(node, schema), "metadata": metadata})

    def _results(self, node: fx.Node, schema: torch.FunctionSchema) -> list[dict]:
        value, name = value_of(node), self._name(node)
        if isinstance(value, torch.Tensor):
            return [self._tensor(name, value)]
        if not isinstance(value, (tuple, list)):
            raise CannotWrite(f"a result of type {type(value).__name__}")
        taken = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        results = []
        for place, part in enumerate(value):
            part_name = self._name(taken[place]) if place in taken else f"{name}_unused_{place}"
            results.append({"as_none": True} if part is None else self._tensor(part_name, part))
        if len(schema.returns) == 1:
            return [{"as_tensors": [result["as_tensor"] for result in results]}]
        return results

    def _argument(self, value: object, declared: str) -> dict:
        if isinstance(value, fx.Node):
            return self._symbol(value) if is_symbol_arithmetic(value) else {"as_tensor": {"name": self._name(value)}}
        if isinstance(value, (list, tuple)):
            return self._list(value, declared)
        if value is None:
            return {"as_none": True}
        for kind, key, form in ((bool, "as_bool", bool), (int, "as_int", int), (float, "as_float", _float), (str, "as_string", str),
                                (torch.dtype, "as_scalar_type", _SCALAR_TYPES.__getitem__), (torch.layout, "as_layout", _LAYOUTS.__getitem__),
                                (torch.memory_format, "as_memory_format", _MEMORY_FORMATS.__getitem__),
                                (torch.device, "as_device", lambda device: {"type": device.type, "index": device.index}),
                                (complex, "as_complex", lambda number: {"real": _float(number.real), "imag": _float(number.imag)})):
            if isinstance(value, kind):
                return {key: form(value)}  # type: ignore[operator]
        raise CannotWrite(f"an argument of type {type(value).__name__}")

    def _list(self, values: Sequence, declared: str) -> dict:
        if "Optional[Tensor]" in declared:
            return {"as_optional_tensors": [{"as_none": True} if one is None else {"as_tensor": {"name": self._name(one)}} for one in values]}
        parts = [self._argument(one, "") for one in values]
        kinds = {next(iter(part)) for part in parts}
        if kinds == {"as_tensor"} or (not kinds and "Tensor" in declared):
            return {"as_tensors": [part["as_tensor"] for part in parts]}
        if kinds <= {"as_int"}:
            return {"as_floats" if "float" in declared else "as_ints": [part["as_int"] for part in parts]}
        if kinds <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [part.get("as_sym_int", part) for part in parts]}
        if kinds <= {"as_int", "as_float"}:
            return {"as_floats": [part.get("as_float", part.get("as_int")) for part in parts]}
        for kind, many in (("as_bool", "as_bools"), ("as_string", "as_strings")):
            if kinds == {kind}:
                return {many: [part[kind] for part in parts]}
        raise CannotWrite(f"a list of {' and '.join(sorted(kinds))}")


def _parameter_names(function: object, count: int) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)[:count]  # type: ignore[arg-type]
    except ValueError:
        return [f"arg{place}" for place in range(count)]


def _bound(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError, AttributeError):  # infinity, of sympy's several kinds
        return None
    return number if abs(number) < 2**62 else None


def place_of(node: fx.Node) -> str:
    """The module that the node was called in, as its model names it: "layers.0.norm"."""
    stack = node.meta.get("nn_module_stack") or {}
    path = str(next(reversed(stack.values()))[0]) if stack else ""
    return _LOCAL.sub("", path).replace("._modules['", ".").replace("']", "").lstrip(".")


def _stack(node: fx.Node) -> str:
    """The same as an export writes it."""
    path = place_of(node)
    return f"{path},{path}," if path else ""
