"""Which nodes of a graph are compiled, and in what order the rest runs between them.

Every node is either compiled or left to torch; each has a level, and nodes of one level that are compiled are one segment:

    level(n) = the highest level of what n reads, one more where that is not of n's kind

so edges go from lower levels to higher ones, or stay in one level of one kind: segments are convex, whatever the graph. Calls that
draw random numbers or change something keep their order. Views of inputs stay with torch, for which they cost nothing.

What is made of parameters alone, and views of inputs, are not done where they could be first but where they are read: a transposed weight
that is a result of one segment and an input of another would be copied in every call, and never be packed.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import fx

from xyntra.torch.schema import is_symbol_arithmetic, place_of, size_hint, value_of

_aten = torch.ops.aten
# What torch does without touching elements.
_VIEWS = {_aten.view.default, _aten._unsafe_view.default, _aten.permute.default, _aten.transpose.int, _aten.t.default, _aten.expand.default,
          _aten.unsqueeze.default, _aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.slice.Tensor, _aten.select.int,
          _aten.alias.default, _aten.detach.default, _aten.split.Tensor, _aten.split_with_sizes.default, _aten.unbind.int, _aten.diagonal.default,
          _aten.view.dtype, _aten.as_strided.default, _aten.view_as_real.default, _aten.view_as_complex.default}
_DROPOUT_PLACES: dict[object, int] = {_aten.scaled_dot_product_attention.default: 4, _aten._scaled_dot_product_flash_attention_for_cpu.default: 3,
                                      _aten._scaled_dot_product_flash_attention.default: 3, _aten._scaled_dot_product_efficient_attention.default: 5,
                                      _aten._scaled_dot_product_cudnn_attention.default: 5}


@dataclass
class Segment:
    """Nodes that run one behind the other, all of them compiled or none."""

    compiled: bool
    nodes: list[fx.Node] = field(default_factory=list)
    inputs: list[fx.Node] = field(default_factory=list)  # tensors and numbers from before
    outputs: list[fx.Node] = field(default_factory=list)  # tensors that somebody else reads


@dataclass(frozen=True)
class Fallback:
    """A node that torch runs, and why."""

    node: str
    target: str
    reason: str
    place: str = ""  # in the user's model


def is_ordered(node: fx.Node) -> bool:
    """Whether the call does something besides giving its results: draws random numbers, writes, prints."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return not (target is operator.getitem or is_symbol_arithmetic(node))
    return target._schema.is_mutable or (torch.Tag.nondeterministic_seeded in target.tags and _dropout(node) != 0.0)


def _dropout(node: fx.Node) -> object:
    """The probability of attention's dropout, of which nothing is random without; of other calls 1."""
    place = _DROPOUT_PLACES.get(node.target)
    if place is None:
        return 1.0
    return node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", 0.0)


def views_for_outputs(graph: fx.Graph) -> None:
    """Gives outputs that share memory in eager mode views of their own, which torch makes of one result."""
    output = graph.output_node()
    roots: dict[fx.Node, list[fx.Node]] = {}
    for node in output.all_input_nodes:
        roots.setdefault(chain_of_views(node)[-1], []).append(node)
    for root, nodes in roots.items():
        if len(nodes) == 1 or root.op != "call_function":
            continue
        for node in nodes:
            copy = root
            for link in reversed(chain_of_views(node)[:-1]):
                with graph.inserting_before(output):
                    copy = graph.node_copy(link, lambda one, link=link, copy=copy: copy if one is link.all_input_nodes[0] else one)
            output.replace_input_with(node, copy)
    graph.eliminate_dead_code()


def chain_of_views(node: fx.Node) -> list[fx.Node]:
    """A node and what it is a view of, down to what is none."""
    chain = [node]
    while node.op == "call_function" and (node.target in _VIEWS or (node.target is operator.getitem and node.args[0].target in _VIEWS)):  # type: ignore[union-attr]
        node = node.all_input_nodes[0]
        chain.append(node)
    return chain


def views_of_inputs(graph: fx.Graph) -> set[fx.Node]:
    """Nodes that only look at inputs in another way, or at what is a result, too, or whose strides are those of no dense tensor."""
    views: set[fx.Node] = set()
    given = set(graph.output_node().all_input_nodes)
    chains = {node: chain_of_views(node) for node in graph.nodes if node.op == "call_function"}
    roots = Counter(chains[node][-1] for node in given if node in chains)
    looked_at = given | {root for root, count in roots.items() if count > 1} | {chains[node][-1] for node in given if node in chains and _has_gaps(node)}
    for node, chain in chains.items():
        if len(chain) > 1 and (chain[-1].op in ("placeholder", "get_attr") or chain[-1] in looked_at):
            views.add(node)
    return views


def _has_gaps(node: fx.Node) -> bool:
    """Whether a tensor leaves out some of its memory, or has some of it twice, as slices and expanded tensors do; no where sizes do not tell."""
    value = value_of(node)
    if not isinstance(value, torch.Tensor):
        return False
    sizes, strides = [size_hint(size) for size in value.shape], [size_hint(stride) for stride in value.stride()]
    if None in sizes or None in strides or 0 in sizes:
        return False
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, sizes) if size != 1):  # type: ignore[type-var]
        if stride != expected:
            return True
        expected *= size  # type: ignore[operator]
    return False


def views_for_readers(graph: fx.Graph) -> None:
    """Gives each call that reads a view of an input a view of its own, which can then be where the call is."""
    for node in reversed(list(graph.nodes)):
        if not _is_view_of_input(node):
            continue
        for user in [one for one in node.users if one.op != "output"][0 if graph.output_node() in node.users else 1:]:
            with graph.inserting_before(user):
                user.replace_input_with(node, graph.node_copy(node))


def _is_view_of_input(node: fx.Node) -> bool:
    chain = chain_of_views(node)
    return len(chain) > 1 and chain[-1].op in ("placeholder", "get_attr")


def only_for_outputs(graph: fx.Graph, views: set[fx.Node]) -> set[fx.Node]:
    """Of these views those that no call computes with."""
    kept: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node in views and all(user.op == "output" or user in kept for user in node.users):
            kept.add(node)
    return kept


def partition(graph: fx.Graph, static: set[fx.Node], reason_of: Callable[[fx.Node], str | None]) -> tuple[list[Segment], list[Fallback]]:
    """Segments in the order they run, and what is not compiled. `static` inputs are parameters; `reason_of` says why a call cannot be compiled,
    None: it can."""
    left_alone = only_for_outputs(graph, views_of_inputs(graph))
    fallbacks: list[Fallback] = []
    compiled: dict[fx.Node, bool] = {}
    calls = [node for node in graph.nodes if node.op == "call_function"]
    for node in calls:
        if is_symbol_arithmetic(node) and not _reads_tensor_contents(node):
            continue
        if node.target is operator.getitem and node.args[0] in compiled:
            compiled[node] = compiled[node.args[0]]
        elif node in left_alone:
            compiled[node] = False
        else:
            reason = "it draws random numbers or has side effects" if is_ordered(node) else reason_of(node)
            compiled[node] = reason is None
            if reason is not None:
                fallbacks.append(Fallback(node.name, str(node.target), reason, place_of(node)))
    segments = _segments(calls, compiled, _late(calls, static))
    for segment in segments:
        if segment.compiled and all(node.target in _VIEWS or node.target is operator.getitem for node in segment.nodes):
            segment.compiled = False  # nothing is computed in it
    _connect(graph, segments)
    return segments, fallbacks


def _reads_tensor_contents(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target is not _aten.sym_size.int


def _late(calls: list[fx.Node], static: set[fx.Node]) -> set[fx.Node]:
    """Calls that are made of parameters alone, and views of inputs."""
    known = set(static)
    for node in calls:
        if not is_ordered(node) and node.all_input_nodes and all(one in known for one in node.all_input_nodes):
            known.add(node)
    return {node for node in calls if node in known or _is_view_of_input(node)}


def _segments(calls: list[fx.Node], compiled: dict[fx.Node, bool], late: set[fx.Node]) -> list[Segment]:
    levels: dict[fx.Node, int] = {}
    last_ordered = 0
    for node in calls:
        if node not in compiled:
            # A number: known as soon as what it is computed of is.
            levels[node] = max((levels.get(one, 0) for one in node.all_input_nodes), default=0)
            continue
        kind = compiled[node]
        level = 1 if kind else 0  # odd levels are compiled, even ones are not
        for one in node.all_input_nodes:
            if one in levels:
                before = levels[one]
                level = max(level, before if before % 2 == level % 2 else before + 1)
        if is_ordered(node):
            level = last_ordered = max(level, last_ordered)
        levels[node] = level
    for node in reversed(calls):
        if node in late and compiled.get(node) and all(user in compiled for user in node.users):
            first = min((levels[user] for user in node.users), default=levels[node])
            levels[node] = max(levels[node], first - (first + 1) % 2)  # before a call of torch's, in the segment before it
    by_level: dict[int, Segment] = {}
    for node in calls:
        if node in compiled:
            by_level.setdefault(levels[node], Segment(compiled[node])).nodes.append(node)
    return [by_level[level] for level in sorted(by_level)]


def _connect(graph: fx.Graph, segments: list[Segment]) -> None:
    for segment in segments:
        inside = set(segment.nodes)
        inputs: dict[fx.Node, None] = {}
        for node in segment.nodes:
            for one in node.all_input_nodes:
                if one not in inside:
                    inputs.update(dict.fromkeys(leaves(one, inside)))
        segment.inputs = list(inputs)
        segment.outputs = [node for node in segment.nodes
                           if any(user not in inside for user in _readers(node, inside)) and isinstance(value_of(node), torch.Tensor)]


def leaves(node: fx.Node, inside: Iterable[fx.Node] = ()) -> list[fx.Node]:
    """What a node outside a segment comes from: itself, or of arithmetic on sizes what that is computed of."""
    found: dict[fx.Node, None] = {}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one in inside:
            continue
        if one.op == "call_function" and is_symbol_arithmetic(one) and not _reads_tensor_contents(one):
            waiting.extend(reversed(one.all_input_nodes))
        else:
            found[one] = None
    return list(found)


def _readers(node: fx.Node, inside: set[fx.Node]) -> list[fx.Node]:
    """Users of a node; those of sizes computed of it count as its own."""
    found: list[fx.Node] = []
    waiting, seen = list(node.users), set()
    while waiting:
        user = waiting.pop()
        if user in seen:
            continue
        seen.add(user)
        if user not in inside and user.op == "call_function" and is_symbol_arithmetic(user) and not _reads_tensor_contents(user):
            waiting.extend(user.users)
        else:
            found.append(user)
    return found
