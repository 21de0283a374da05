"""Draws a graph: operators by weight, patterns that compilers rewrite, and what of it is an output, an input, a size
that is open."""

from __future__ import annotations

import functools
import re

import family_borrowed
import family_contraction
import family_control
import family_elementwise
import family_movement
import family_quantized
import family_recent
import family_reduce
from draw import Draw, since
from graph import Graph, Refused, invalid

FAMILIES = {
    "elementwise": family_elementwise,
    "reduce": family_reduce,
    "movement": family_movement,
    "contraction": family_contraction,
    "quantized": family_quantized,
    "control": family_control,
    "recent": family_recent,
}
MAKERS = {op: maker for family in FAMILIES.values() for op, maker in family.MAKERS.items()}
MAKERS |= {op: family_borrowed.borrowed for op in sorted(family_borrowed.OPERATORS) if op not in MAKERS}
PATTERNS = {name: maker for family in FAMILIES.values() for name, maker in getattr(family, "PATTERNS", {}).items()}

# What a graph is mostly made of; the rest of its nodes are of any operator.
THEMES = {
    "any": 5,
    "elementwise": 3,
    "contraction": 2,
    "movement": 2,
    "reduce": 2,
    "quantized": 1,
    "control": 1.5,
    "attention": 1,
    "shared heads": 0.5,
    "conv block": 2,
    "chain": 1,
    "idiom": 1,
    "norm": 1,
}
RARE = {"Upsample", "Scatter"}  # taken away before the opsets that are drawn
SIZES = [1, 2, 2, 3, 3, 4, 5, 6, 8, 12, 12, 20]  # nodes, or a few more


@functools.cache
def operators_of(opset: int) -> list[str]:
    return sorted(op for op in MAKERS if op not in RARE and (op.startswith("com.") or since(op) <= opset))


def draw_one(g: Draw, theme: str, operators: list[str]) -> None:
    if theme in PATTERNS and g.chance(0.3):
        PATTERNS[theme](g, theme)
    elif g.chance(0.08):
        name = g.choice(sorted(PATTERNS))
        PATTERNS[name](g, name)
    elif theme in FAMILIES and g.chance(0.6):
        op = g.choice([op for op in sorted(FAMILIES[theme].MAKERS) if op in operators])
        MAKERS[op](g, op)
    else:
        op = g.choice(operators)
        MAKERS[op](g, op)


def declare_sizes(g: Draw, graph: Graph) -> None:
    """Some sizes of inputs are open: by a name that equal sizes share, or by one of their own."""
    for name, leaf in graph.leaves.items():
        if leaf.constant:
            continue
        leaf.dims = [
            (f"s{size}" if g.chance(0.6) else f"{name}_{axis}") if g.chance(g.symbolic) else size
            for axis, size in enumerate(leaf.array.shape)
        ]


def choose_outputs(g: Draw, graph: Graph) -> None:
    read = {name for step in graph.steps for name in step.reads}
    made = {v.name: v for v in g.pool if v.name in g.values()}
    leaves = [n for n in made if n not in read]
    graph.outputs = leaves[-6:] or list(made)[-1:]
    for name in made:
        if name not in graph.outputs and g.chance(0.08) and len(graph.outputs) < 8:
            graph.outputs.append(name)
    for name in graph.outputs:
        known = g.symbolic == 0 and g.chance(0.6)
        graph.declared[name] = list(made[name].shape) if known else [f"{name}_{i}" for i in range(made[name].rank)]


def grow(g: Draw, featured: str | None) -> None:
    """Adds nodes; one of the featured operator is among the first."""
    theme, operators = g.weighted(THEMES), operators_of(g.graph.opset)
    goal, tries = g.choice(SIZES), 0
    while len(g.graph.steps) < goal and tries < 60:
        tries += 1
        try:
            if featured and g.chance(0.5):
                MAKERS[featured](g, featured)
                featured = None
            else:
                draw_one(g, theme, operators)
        except Refused as refusal:
            g.refusals.append(str(refusal))


def draw_graph(seed: int, number: int) -> tuple[Graph, Draw]:
    """Every second graph features an operator, each in its turn, so that all of them are drawn."""
    everything = operators_of(99)
    everything = everything + [op for op in everything if since(op) >= 24] * 3  # few other graphs have these
    featured = everything[number // 2 % len(everything)] if number % 2 else None
    for attempt in range(50):
        g = Draw((seed, number, attempt), since(featured) if featured else 0)
        grow(g, featured)
        if g.graph.steps:
            choose_outputs(g, g.graph)
            graph = g.graph.pruned()
            if graph.steps:
                declare_sizes(g, graph)
                if not invalid(graph.model(g.values())):
                    return graph, g
    raise RuntimeError(f"no graph for seed {seed}, number {number}")


def claimed(page) -> list[str]:
    """The operators of the reference page, but for those that read nothing but strings: these graphs are of numbers."""
    return re.findall(r"^\| `([A-Za-z0-9.]+)` \| [^|]* \| (?:kernel|host) \| `\((?!string )", page.read_text(), re.MULTILINE)
