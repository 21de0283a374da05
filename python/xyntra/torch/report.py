"""What became of the graphs of a model: which parts are compiled, into how many kernels, and what torch runs, with the reason."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xyntra.errors import Error
from xyntra.explanation import html_table
from xyntra.torch.partition import Fallback


class ContractError(Error):
    """The options ask for what does not hold: no fallback, or at most so many kernels."""


@dataclass
class SegmentReport:
    """One part of a graph that is compiled as a whole."""

    graph: GraphReport
    nodes: int
    backend: str  # of Session
    rebinds: int = 0  # compiled anew since parameters changed
    frozen: int = 0  # constants
    failure: str = ""  # why torch runs it after all
    _explain: Callable[[], str] | None = None

    def compiled(self, explain: Callable[[], str], rebinds: int, frozen: int) -> None:
        self._explain, self.rebinds, self.frozen = explain, rebinds, frozen

    def refused(self, nodes: Sequence[Fallback]) -> None:
        self.failure = nodes[0].reason if nodes else ""
        self.graph.fall_back(nodes)

    @property
    def plan(self) -> dict | None:
        """The object that `xyntra explain --json` prints; None until it is compiled, which the first call does."""
        return json.loads(self._explain()) if self._explain else None


@dataclass
class GraphReport:
    """One graph that torch.compile captured."""

    kind: str  # "inference" or "forward of training"
    nodes: int
    warn: Callable[[GraphReport], None]
    no_fallback: bool = False
    segments: list[SegmentReport] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)

    def fall_back(self, nodes: Sequence[Fallback]) -> None:
        """Notes what torch runs; an error where that may not be."""
        if not nodes:
            return
        self.fallbacks.extend(nodes)
        if self.no_fallback:
            first = nodes[0]
            raise ContractError(f"no_fallback: {len(nodes)} of {self.nodes} nodes would be run by torch, the first is {first.target}"
                                f"{f' in {first.place}' if first.place else ''}: {first.reason}")
        self.warn(self)

    def check_kernels(self, most: int | None) -> None:
        if most is not None and (count := self.kernels) > most:
            raise ContractError(f"max_kernels: the graph has {count} kernels, {most} are allowed")

    @property
    def kernels(self) -> int:
        return sum(plan["totals"]["kernels"] for one in self.segments if (plan := one.plan))


@dataclass
class Explanation:
    """How a model runs: `str` shows it as text, a notebook as tables, `to_dict` gives it as data."""

    graphs: list[GraphReport]
    breaks: list[str] = field(default_factory=list)  # why there is more than one graph

    @property
    def kernels(self) -> int:
        return sum(graph.kernels for graph in self.graphs)

    @property
    def fallbacks(self) -> list[Fallback]:
        return [one for graph in self.graphs for one in graph.fallbacks]

    def to_dict(self) -> dict:
        return {"graphs": [{"kind": graph.kind, "nodes": graph.nodes, "kernels": graph.kernels,
                            "fallbacks": [vars(one) for one in graph.fallbacks],
                            "segments": [{"nodes": one.nodes, "backend": one.backend, "frozen": one.frozen, "rebinds": one.rebinds, "failure": one.failure, "plan": one.plan}
                                         for one in graph.segments]} for graph in self.graphs],
                "breaks": self.breaks, "kernels": self.kernels}

    def __str__(self) -> str:
        lines = [f"graphs {len(self.graphs)}, kernels {self.kernels}, left to torch {len(self.fallbacks)}"]
        for number, graph in enumerate(self.graphs):
            lines.append(f"graph {number} ({graph.kind}): {graph.nodes} nodes, {len(graph.segments)} compiled segments, {graph.kernels} kernels")
            if graph.kind != "inference":
                lines.append("  gradients are needed: parameters stay inputs, and torch runs the backward pass")
            for place, segment in enumerate(graph.segments):
                lines.append(f"  segment {place}: {segment.nodes} nodes, {segment.frozen} constants, backend {segment.backend}"
                             + (f"; torch runs it: {segment.failure}" if segment.failure else ""))
                lines += [f"    {row['kernel']:<4} {row['operations']}" for row in _rows(segment)]
            lines += [f"  torch runs {one.target} ({one.node}{f' in {one.place}' if one.place else ''}): {one.reason}" for one in graph.fallbacks]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<p>{len(self.graphs)} graphs, {self.kernels} kernels, {len(self.fallbacks)} nodes left to torch</p>"]
        for number, graph in enumerate(self.graphs):
            parts.append(f"<h4>graph {number} ({html.escape(graph.kind)}), {graph.nodes} nodes</h4>")
            rows = [row for segment in graph.segments for row in _rows(segment)]
            parts.append(html_table(["kernel", "operations"], [[row["kernel"], row["operations"]] for row in rows]))
            if graph.fallbacks:
                parts.append(html_table(["left to torch", "where", "why"], [[one.target, one.place or one.node, one.reason] for one in graph.fallbacks]))
        return "".join(parts)


def _rows(segment: SegmentReport) -> list[dict]:
    plan = segment.plan
    if not plan:
        return []
    return [{"kernel": number, "operations": " ".join(group.get("ops", []))} for number, group in enumerate(plan.get("groups", []))]
