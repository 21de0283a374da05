"""Shrinks a failing graph while it fails in the same way."""

from __future__ import annotations

import dataclasses
import time
from typing import Callable

import numpy as np

import peers
from graph import Graph, Leaf, Refused

BUDGET_SECONDS = 40


class Search:
    def __init__(self, graph: Graph, still: Callable[[Graph], bool]) -> None:
        self.graph, self.still, self.end = graph, still, time.monotonic() + BUDGET_SECONDS

    def late(self) -> bool:
        return time.monotonic() > self.end

    def attempt(self, candidate: Graph) -> bool:
        if self.late() or not candidate.steps:
            return False
        candidate = candidate.pruned()
        if not candidate.steps or not self.still(candidate):
            return False
        self.graph = candidate
        return True


def with_leaf(graph: Graph, name: str, **changes) -> Graph:
    return dataclasses.replace(graph, leaves=graph.leaves | {name: dataclasses.replace(graph.leaves[name], **changes)})


def one_output(search: Search) -> None:
    for name in list(search.graph.outputs):
        if len(search.graph.outputs) > 1 and search.attempt(dataclasses.replace(search.graph, outputs=[name])):
            return


def earlier_output(search: Search) -> None:
    """Ends the graph at a value before its end."""
    for step in list(search.graph.steps)[:-1]:
        if search.attempt(dataclasses.replace(search.graph, outputs=step.makes[:1], declared={})):
            return


def cut(search: Search) -> None:
    """Makes inputs of values, from the end on, so that what they come from falls away."""
    try:
        arrays = peers.evaluate(search.graph)
    except Refused:
        return
    for step in reversed(search.graph.steps[:-1]):
        names = {n: Leaf(arrays[n], False, list(arrays[n].shape)) for n in step.makes}
        if step not in search.graph.steps or not any(n in later.reads for later in search.graph.steps for n in names):
            continue
        rest = [s for s in search.graph.steps if s is not step]
        search.attempt(dataclasses.replace(search.graph, steps=rest, leaves=search.graph.leaves | names))


def simpler_leaves(search: Search) -> None:
    for name in list(search.graph.leaves):
        leaf = search.graph.leaves.get(name)
        if leaf is None:
            continue
        if not leaf.constant and leaf.dims != list(leaf.array.shape):
            search.attempt(with_leaf(search.graph, name, dims=list(leaf.array.shape)))
        if leaf.array.dtype.kind == "f" and not np.isfinite(leaf.array).all():
            search.attempt(
                with_leaf(
                    search.graph, name, array=np.where(np.isfinite(leaf.array), leaf.array, 1).astype(leaf.array.dtype)
                )
            )


def smaller_sizes(search: Search) -> None:
    sizes = sorted({s for leaf in search.graph.leaves.values() for s in leaf.array.shape if s > 1}, reverse=True)
    for size in sizes:
        for smaller in {1, size // 2, size - 1} - {0}:
            leaves = {}
            for name, leaf in search.graph.leaves.items():
                keep = tuple(slice(0, smaller) if s == size else slice(None) for s in leaf.array.shape)
                dims = leaf.dims and [smaller if d == size else d for d in leaf.dims]
                leaves[name] = dataclasses.replace(leaf, array=leaf.array[keep], dims=dims)
            if search.attempt(dataclasses.replace(search.graph, leaves=leaves, declared={})):
                break


def reduce(graph: Graph, still: Callable[[Graph], bool]) -> Graph:
    search = Search(graph, still)
    search.attempt(dataclasses.replace(graph, declared={}))
    for _ in range(3):
        before = (len(search.graph.steps), len(search.graph.leaves))
        for way in (one_output, earlier_output, cut, simpler_leaves, smaller_sizes):
            way(search)
        if search.late() or before == (len(search.graph.steps), len(search.graph.leaves)):
            break
    return search.graph
