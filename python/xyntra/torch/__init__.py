"""A backend of torch.compile: graphs of a model are compiled by Xyntra, and what it lacks is run by torch, listed with the reason.

    model = torch.compile(model, backend="xyntra")
    print(xyntra.torch.explain(model, x))

Nothing has to be imported first: torch finds the backend among the entry points of installed packages.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from xyntra.torch.capture import Compiler
from xyntra.torch.options import Options
from xyntra.torch.partition import Fallback
from xyntra.torch.report import ContractError, Explanation, GraphReport, SegmentReport

__all__ = ["ContractError", "Explanation", "Fallback", "FallbackWarning", "GraphReport", "Options", "SegmentReport", "backend", "compile", "explain"]


class FallbackWarning(UserWarning):
    """A part of a graph is run by torch."""


def _warn(report: GraphReport) -> None:
    kinds = sorted({one.target for one in report.fallbacks})
    warnings.warn(f"torch runs {len(report.fallbacks)} of {report.nodes} nodes of a graph: {', '.join(kinds[:5])}{', …' if len(kinds) > 5 else ''}; "
                  "xyntra.torch.explain(model, *inputs) says why", FallbackWarning, stacklevel=2)


def backend(graph: fx.GraphModule, examples: Sequence[Any], *, options: Mapping[str, object] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """What torch.compile(..., backend="xyntra") calls with each graph. `options` are those of Options; `mode` "default" or None."""
    if mode not in (None, "default"):
        warnings.warn(f"the backend xyntra has no mode {mode!r}; it takes options", stacklevel=2)
    return Compiler(Options.of(options), [], _warn)(graph, examples)


def compile(model: Callable[..., Any], *, dynamic: bool | None = None, fullgraph: bool = False, **options: Any) -> Any:
    """torch.compile with this backend; options are those of Options."""
    Options.of(options)  # a wrong one is an error here, and not at the first call
    return torch.compile(model, backend="xyntra" if _is_registered() else backend, dynamic=dynamic, fullgraph=fullgraph, options=options)


def _is_registered() -> bool:
    return "xyntra" in torch._dynamo.list_backends(exclude_tags=())


def explain(model: Callable[..., Any], *args: Any, dynamic: bool | None = None, options: Mapping[str, object] | None = None,
            **kwargs: Any) -> Explanation:
    """How a model runs on these inputs: it is compiled anew and called once, with gradients where they are needed now."""
    model = _uncompiled(model)
    reports: list[GraphReport] = []
    compiler = Compiler(Options.of(options), reports, lambda report: None)
    breaks = _breaks()
    # Each compiler is another one to Dynamo, which counts them.
    with torch._dynamo.config.patch(recompile_limit=2**20, accumulated_recompile_limit=2**20):
        torch.compile(model, backend=compiler, dynamic=dynamic)(*args, **kwargs)
    return Explanation(reports, [reason for reason, count in _breaks().items() if count > breaks.get(reason, 0)])


def _uncompiled(model: Callable[..., Any]) -> Callable[..., Any]:
    return getattr(model, "_orig_mod", None) or getattr(model, "_torchdynamo_orig_callable", None) or model


def _breaks() -> dict[str, int]:
    return dict(torch._dynamo.utils.counters["graph_break"])
