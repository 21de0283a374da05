"""From a graph of Dynamo's to programs: AOTAutograd makes it functional and takes operators apart, segments are compiled.

Operators that the importer takes stay whole; others are taken apart as for torch.export's core operators, until they are taken or torch
has to run them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from xyntra.torch.decompositions import decompositions
from xyntra.torch.devices import device_of
from xyntra.torch.options import Options
from xyntra.torch.partition import Segment, chain_of_views, views_for_outputs
from xyntra.torch.program import Program, no_collections, torch_node
from xyntra.torch.report import GraphReport, SegmentReport
from xyntra.torch.schema import size_hint, value_of
from xyntra.torch.support import Support

_aten = torch.ops.aten
# What attention without gradients becomes, on a CPU and on GPUs.
_ATTENTION = {_aten._scaled_dot_product_flash_attention_for_cpu.default, _aten._scaled_dot_product_flash_attention.default,
              _aten._scaled_dot_product_efficient_attention.default, _aten._scaled_dot_product_cudnn_attention.default}


class Compiler:
    """Compiles the graphs of one torch.compile; a backend of Dynamo's."""

    def __init__(self, options: Options, reports: list[GraphReport], warn: Callable[[GraphReport], None]) -> None:
        self._options, self._reports, self._warn = options, reports, warn
        self._support = Support()

    def __call__(self, graph: fx.GraphModule, examples: Sequence[object]) -> Callable:
        forward = functools.partial(self._compile, given=examples)
        compiled = aot_autograd(fw_compiler=functools.partial(forward, kind="forward of training"), bw_compiler=_run_by_torch,
                                inference_compiler=functools.partial(forward, kind="inference"), decompositions=decompositions())
        with no_collections():
            return compiled(graph, examples)

    def _compile(self, graph: fx.GraphModule, examples: Sequence[object], kind: str, given: Sequence[object]) -> Callable:
        prepare(graph)
        report = GraphReport(kind, sum(node.op == "call_function" for node in graph.graph.nodes), self._warn, self._options.no_fallback)
        self._reports.append(report)
        views_for_outputs(graph.graph)
        static = constant_inputs(graph.graph) if kind == "inference" else _attributes(graph.graph)
        device = device_of(graph.graph)
        segments, fallbacks = self._support.segments(graph.graph, static, device)
        report.fall_back(fallbacks)
        programs = {}
        for place, segment in enumerate(segments):
            if segment.compiled:
                report.segments.append(SegmentReport(report, len(segment.nodes), device.backend))
                programs[place] = Program(graph, segment, static, self._options, report.segments[-1], device)
        if kind == "inference" and programs:
            parameters = given_tensors(graph.graph, given)
            for program in programs.values():
                program.begin(parameters)
        return _boxed(assemble(graph, segments, programs))


def prepare(graph: fx.GraphModule) -> None:
    """Calls that only a backend of torch's knows become those that say the same."""
    for node in list(graph.graph.nodes):
        if node.target in _ATTENTION and all(user.args[1] == 0 or not user.users for user in node.users):
            _as_attention(graph.graph, node)
        elif node.target is _aten.as_strided.default and _same_elements(node):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        elif node.target is _aten.as_strided.default:
            _of_what_is_dense(graph.graph, node)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _same_elements(node: fx.Node) -> bool:
    """Whether only strides of dimensions of size 1 are others than before, which no result but one that is returned shows."""
    before, after = value_of(node.args[0]), value_of(node)  # type: ignore[arg-type]
    if not isinstance(before, torch.Tensor) or any(user.op == "output" for user in node.users) or len(node.args) > 3:
        return False
    return before.dim() == after.dim() and all(  # type: ignore[union-attr]
        _same(a, b) and (_same(a, 1) or _same(s, t))
        for a, b, s, t in zip(before.shape, after.shape, before.stride(), after.stride()))  # type: ignore[union-attr]


def _same(a: object, b: object) -> bool:
    """Without a guard."""
    return (a.node.expr if isinstance(a, torch.SymInt) else a) == (b.node.expr if isinstance(b, torch.SymInt) else b)


def _of_what_is_dense(graph: fx.Graph, node: fx.Node) -> None:
    """Makes as_strided look at all elements in the order of memory, of its tensor or of what that is a view of: those are the same however
    the tensor comes to lie here. A view of an input with gaps becomes one of the input itself, which nothing lays out anew."""
    first, value = node.args[0], value_of(node.args[0])  # type: ignore[arg-type]
    offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
    offset = value.storage_offset() if offset is None else offset  # type: ignore[union-attr]
    for base in chain_of_views(first):  # type: ignore[arg-type]
        tensor = value_of(base)
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != value.dtype:  # type: ignore[union-attr]
            return
        order, begin = _dense_order(tensor), tensor.storage_offset()
        if order is None and base.op == "placeholder":
            node.args = (base, *node.args[1:3], offset)
        if order is None or not isinstance(offset, int) or not isinstance(begin, int):
            continue
        with graph.inserting_before(node):
            stored = graph.call_function(_aten.permute.default, (base, order))
            stored.meta = {**node.meta, "val": tensor.permute(order)}
            flat = graph.call_function(_aten.view.default, (stored, [-1]))
            flat.meta = {**node.meta, "val": tensor.permute(order).reshape(-1)}
        node.args, node.kwargs = (flat, *node.args[1:3], offset - begin), {}
        node.meta["of_a_flat_tensor"] = True
        return


def _dense_order(tensor: torch.Tensor) -> list[int] | None:
    """Dimensions from the outermost, where they fill a stretch of memory."""
    left = [axis for axis, size in enumerate(tensor.shape) if not _same(size, 1)]
    order, expected = [axis for axis, size in enumerate(tensor.shape) if _same(size, 1)], 1
    while left:
        axis = next((axis for axis in left if _same(tensor.stride(axis), expected)), None)
        if axis is None:
            return None
        left.remove(axis)
        order.append(axis)
        expected = expected * tensor.shape[axis]
    return order[::-1]


def _as_attention(graph: fx.Graph, node: fx.Node) -> None:
    """What torch's kernels for attention are called with, as attention of any kernel's."""
    given = {declared.name: value for declared, value in zip(node.target._schema.arguments, node.args)} | node.kwargs  # type: ignore[union-attr]
    if given.get("dropout_p", 0.0) != 0.0:
        return
    operands = [given[name] for name in ("query", "key", "value")]
    kept: dict[str, Any] = {} if given.get("scale") is None else {"scale": given["scale"]}
    heads = [size_hint(value_of(one).shape[-3]) for one in operands[:2]]  # type: ignore[union-attr]
    if heads[0] != heads[1]:
        kept["enable_gqa"] = True
    mask = given.get("attn_mask", given.get("attn_bias"))
    with graph.inserting_before(node):
        whole = graph.call_function(_aten.scaled_dot_product_attention.default, (*operands, mask, 0.0, given.get("is_causal", False)), kept)
    whole.meta = {**node.meta, "val": value_of(node)[0]}  # type: ignore[index]
    for user in list(node.users):
        user.replace_all_uses_with(whole)  # the others have none
        graph.erase_node(user)
    graph.erase_node(node)  # torch keeps it without users, for it may draw random numbers


def _attributes(graph: fx.Graph) -> set[fx.Node]:
    return {node for node in graph.nodes if node.op == "get_attr"}


def given_tensors(graph: fx.Graph, given: Sequence[object]) -> dict[fx.Node, object]:
    """Inputs of the graph with the tensors of the call that it is compiled for, where AOTAutograd added none and left none out."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    if len(inputs) != len(given):
        return {}
    return {node: one for node, one in zip(inputs, given) if isinstance(one, torch.Tensor) and not isinstance(one, torch._subclasses.FakeTensor)}


def constant_inputs(graph: fx.Graph) -> set[fx.Node]:
    """Parameters and buffers that the graph does not change."""
    made = _attributes(graph)
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return made
    changed = {place for place, one in enumerate(metadata.input_info) if one.mutates_data or one.mutates_metadata}
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return made | {inputs[place] for place in metadata.static_input_indices if place not in changed and place < len(inputs)}


def assemble(graph: fx.GraphModule, segments: list[Segment], programs: dict[int, Program]) -> Callable[..., Sequence[object]]:
    """Programs, and what torch runs between them, as one function of the graph's inputs."""
    made = fx.Graph()
    names: dict[fx.Node, fx.Node] = {node: made.placeholder(node.name) for node in graph.graph.nodes if node.op == "placeholder"}

    def name(node: fx.Node) -> fx.Node:
        """The node in the new graph; attributes and sizes come along where they are needed."""
        if node not in names:
            for one in node.all_input_nodes:
                name(one)
            names[node] = torch_node(made, node, names)
        return names[node]

    for place, segment in enumerate(segments):
        if place not in programs:
            for node in segment.nodes:
                name(node)
            continue
        program = made.get_attr(f"program_{place}")
        called = made.call_function(_call, (program, *(name(one) for one in segment.inputs)))
        for index, node in enumerate(segment.outputs):
            names[node] = made.call_function(operator.getitem, (called, index))
    result = graph.graph.output_node()
    for one in result.all_input_nodes:
        name(one)
    made.output(fx.map_arg(result.args[0], names.__getitem__))
    for place, program in programs.items():
        setattr(graph, f"program_{place}", program)
    return fx.GraphModule(graph, made).forward


def _call(program: Program, *values: object) -> Sequence[torch.Tensor]:
    return program(*values)


def _boxed(function: Callable[..., Sequence[object]]) -> Callable[[list], Sequence[object]]:
    def run(values: list) -> Sequence[object]:
        given = tuple(values)
        values.clear()
        return function(*given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _run_by_torch(graph: fx.GraphModule, examples: Sequence[object]) -> Callable:
    made, names = fx.Graph(), {}
    for node in graph.graph.nodes:
        names[node] = torch_node(made, node, names)
    return _boxed(fx.GraphModule(graph, made).forward)
