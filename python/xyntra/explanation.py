"""How a model is cut into kernels, for people and for notebooks."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence

from xyntra.errors import UnsupportedError

_ROW, _COLUMN, _WIDEST = 24, 14, 12  # pixels of a row and between arcs; adjacent arcs


class Explanation(str):
    """The text that `xyntra explain` prints; a notebook shows it as a table of kernels with the values that pass between them."""

    _plan: Callable[[], str]

    @property
    def plan(self) -> dict:
        """The same as data: the object that `xyntra explain --json` prints. An artifact keeps the text only, which is an UnsupportedError."""
        return json.loads(self._plan())

    def _repr_html_(self) -> str:
        try:
            return plan_html(self.plan)
        except UnsupportedError:
            return f"<pre>{html.escape(self)}</pre>"


def explanation(text: str, plan: Callable[[], str]) -> Explanation:
    """`plan` gives the JSON when somebody asks for it."""
    made = Explanation(text)
    made._plan = plan
    return made


def html_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; what is in it may come from a model and is escaped."""
    head = "".join(f"<th>{html.escape(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plan_html(plan: dict) -> str:
    """A plan's kernels as a table, and beside it arcs for values that one kernel writes and another reads."""
    groups = plan.get("groups", [])
    totals = plan.get("totals", {})
    rows = [[one["id"], one["hero"], " ".join(one["ops"]), one["schedule"]["name"], _bytes(one["bytes_in"]), _bytes(one["bytes_out"]),
             _bytes(one["bytes_saved"])] for one in groups]
    summary = f"<p>{totals.get('kernels', 0)} kernels of {totals.get('ops', 0)} operations for {html.escape(str(plan.get('target', '')))}</p>"
    return (summary + '<div style="display:flex;align-items:flex-start;overflow-x:auto">' + _arcs(groups, plan.get("edges", []))
            + html_table(["kernel", "hero", "operations", "schedule", "reads", "writes", "saves"], rows) + "</div>")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _arcs(groups: Sequence[dict], edges: Sequence[dict]) -> str:
    """The graph of kernels: one dot each, from top to bottom, and an arc from the kernel that writes a value to each that reads it."""
    place = {node: index for index, group in enumerate(groups) for title in group["nodes"] for node in [title, *title.split(", ")]}
    arcs = sorted({(place[edge["from"]], place[edge["to"]]) for edge in edges
                   if edge["from"] in place and edge["to"] in place and place[edge["from"]] != place[edge["to"]]})
    width, height = _COLUMN * (_WIDEST + 1), _ROW * (len(groups) + 1)
    parts = []
    for begin, end in arcs:
        bow = _COLUMN * min(_WIDEST, abs(end - begin))
        top, bottom = _ROW * (begin + 1), _ROW * (end + 1)
        parts.append(f'<path d="M{width} {top} C{width - bow} {top} {width - bow} {bottom} {width} {bottom}" fill="none" stroke="currentColor"/>')
    parts += [f'<circle cx="{width}" cy="{_ROW * (index + 1)}" r="4" fill="currentColor"/>' for index in range(len(groups))]
    return f'<svg width="{width + 8}" height="{height}" role="img" aria-label="kernels and the values between them">{"".join(parts)}</svg>'
