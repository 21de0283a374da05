"""What the importer takes, asked of the importer itself: there is no second list."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable

import torch
from torch import fx

from xyntra import _native
from xyntra.errors import Error
from xyntra.torch.devices import Device, reason_elsewhere
from xyntra.torch.partition import Fallback, Segment, leaves, partition, views_for_readers
from xyntra.torch.schema import CannotWrite, GraphInput, GraphOutput, GraphWriter, is_symbol_arithmetic, value_of

_NAMED = re.compile(r"node '([^']*)'")
_HIGHER_ORDER = torch._ops.HigherOrderOperator
# Results that the importer has no values for.
_aten = torch.ops.aten
_FOR_GRADIENTS: dict[object, tuple[int, ...]] = {_aten._scaled_dot_product_flash_attention_for_cpu.default: (1,), _aten.mkldnn_rnn_layer.default: (3,),
                                                 _aten._scaled_dot_product_flash_attention.default: tuple(range(1, 9)),
                                                 _aten._scaled_dot_product_efficient_attention.default: (1, 2, 3),
                                                 _aten._scaled_dot_product_cudnn_attention.default: tuple(range(1, 9))}


class Support:
    """Says of calls why they cannot be compiled. Equal calls are asked for once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def reason_of(self, node: fx.Node, device: Device) -> str | None:
        if (reason := _reason_at_sight(node, device)) is not None:
            return reason
        if node.target is operator.getitem:
            return None  # of a call that torch runs, whose results are tensors of ours
        results = [user for user in node.users if user.target is operator.getitem] if isinstance(value_of(node), (tuple, list)) else [node]
        return self.refusal([node], _tensors_before([node]), results)

    def segments(self, graph: fx.Graph, static: set[fx.Node], device: Device) -> tuple[list[Segment], list[Fallback]]:
        """Segments that can be compiled as wholes: what only stands in the way among others is left to torch, too. Most graphs are taken
        as they are, which is found out at once; of others each call is asked for."""
        def at_sight(node: fx.Node) -> str | None:
            return _reason_at_sight(node, device)

        segments, fallbacks = partition(graph, static, at_sight)
        if fallbacks:
            views_for_readers(graph)
            segments, fallbacks = partition(graph, static, at_sight)
        if not any(self._refused(one) for one in segments if one.compiled):
            return segments, fallbacks
        views_for_readers(graph)
        refused: dict[fx.Node, str] = {}
        while True:
            segments, fallbacks = partition(graph, static, lambda node: refused.get(node) or self.reason_of(node, device))
            found = len(refused)
            for one in segments:
                if one.compiled:
                    refused.update(self._refused(one))
            if len(refused) == found:
                return segments, fallbacks

    def _refused(self, segment: Segment) -> dict[fx.Node, str]:
        """Of a segment that cannot be compiled, the call that the importer names, or all."""
        tensors, numbers = _tensors_and_numbers(segment.inputs)
        try:
            text = GraphWriter(segment.nodes, [GraphInput(one) for one in tensors + numbers], [GraphOutput(one) for one in segment.outputs]).text()
            _native.check_graph(text.encode(), [])
        except (CannotWrite, Error) as problem:
            named = _NAMED.search(str(problem))
            name = named[1] if named else ""
            calls = [node for node in segment.nodes if name in (node.name, *(user.name for user in node.users if user.target is operator.getitem))]
            return dict.fromkeys(calls or segment.nodes, str(problem))
        return {}

    def refusal(self, nodes: list[fx.Node], inputs: Iterable[fx.Node], outputs: list[fx.Node]) -> str | None:
        """Why these calls cannot be compiled together; None: they can."""
        try:
            text = GraphWriter(nodes, [GraphInput(one) for one in inputs], [GraphOutput(one) for one in outputs], anonymous=True).text()
        except CannotWrite as problem:
            return str(problem)
        if text not in self._known:
            try:
                _native.check_graph(text.encode(), [])
                self._known[text] = None
            except Error as error:
                self._known[text] = str(error)
        return self._known[text]


def _reason_at_sight(node: fx.Node, device: Device) -> str | None:
    """What the importer need not be asked for."""
    if (reason := reason_elsewhere(node, device)) is not None:
        return reason
    if isinstance(node.target, _HIGHER_ORDER):
        return "a higher-order operator"
    if node.target in _FOR_GRADIENTS and any(user.args[1] in _FOR_GRADIENTS[node.target] and user.users for user in node.users):
        return "its further results, which a gradient needs, are not computed"
    if node.target is _aten.as_strided.default and not node.meta.get("of_a_flat_tensor"):
        return "it looks between the elements of a tensor, at memory that has gaps"
    return None


def _tensors_before(nodes: list[fx.Node]) -> list[fx.Node]:
    inside, found = set(nodes), {}
    for node in nodes:
        for one in node.all_input_nodes:
            for leaf in leaves(one, inside):
                if leaf not in inside:
                    found[leaf] = None
    tensors, numbers = _tensors_and_numbers(found)
    return tensors + numbers


def _tensors_and_numbers(inputs: Iterable[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
    """Numbers that are sizes of one of the tensors are none."""
    tensors = [one for one in inputs if isinstance(value_of(one), torch.Tensor)]
    told = {size.node.expr for one in tensors for size in value_of(one).shape if isinstance(size, torch.SymInt)}  # type: ignore[union-attr]
    numbers = [one for one in inputs if is_symbol_arithmetic(one) and not (isinstance(value_of(one), torch.SymInt) and value_of(one).node.expr in told)]  # type: ignore[union-attr]
    return tensors, numbers
