"""What the importer takes, asked of the importer itself: there is no second list."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch import fx

from xyntra import _native
from xyntra.errors import Error
from xyntra.torch.partition import leaves
from xyntra.torch.schema import CannotWrite, GraphInput, GraphOutput, GraphWriter, is_symbol_arithmetic, value_of

_HIGHER_ORDER = torch._ops.HigherOrderOperator


class Support:
    """Says of calls why they cannot be compiled. Equal calls are asked for once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def reason_of(self, node: fx.Node) -> str | None:
        if isinstance(node.target, _HIGHER_ORDER):
            return "a higher-order operator"
        if node.target is operator.getitem:
            return None  # of a call that torch runs, whose results are tensors of ours
        results = [user for user in node.users if user.target is operator.getitem] if isinstance(value_of(node), (tuple, list)) else [node]
        return self.refusal([node], _tensors_before([node]), results)

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


def _tensors_before(nodes: list[fx.Node]) -> list[fx.Node]:
    inside, found = set(nodes), {}
    for node in nodes:
        for one in node.all_input_nodes:
            for leaf in leaves(one, inside):
                if leaf not in inside:
                    found[leaf] = None
    tensors = [one for one in found if isinstance(value_of(one), torch.Tensor)]
    told = {size.node.expr for one in tensors for size in value_of(one).shape if isinstance(size, torch.SymInt)}  # type: ignore[union-attr]
    numbers = [one for one in found if is_symbol_arithmetic(one) and not (isinstance(value_of(one), torch.SymInt) and value_of(one).node.expr in told)]  # type: ignore[union-attr]
    return tensors + numbers
