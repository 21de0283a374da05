"""The chart of the README as SVG, from bench/results: ratios beside other runtimes as bars that begin at 1.0 on a logarithmic axis.

To the right of 1.0 Xyntra is faster. Models that Xyntra was tuned on and fresh draws stand in sections of their own. Colours follow the
reader's light or dark scheme by a media query; nothing but text, lines and rectangles is used.
"""

from __future__ import annotations

import dataclasses
import html
import math
import pathlib

from harness.lookup import geomean, load, rows_of
from harness.tables import CLOCKS, MODEL_NAMES, PEER_NAMES

WIDTH, LABELS, LEFT, RIGHT = 800, 238, 250, 634  # where labels end, where the axis begins and ends
LOW, HIGH, TICKS = 0.65, 2.25, (0.7, 1.0, 1.5, 2.0)
ROW, BAR = 21, 12
STYLE = """
  .page { fill: #ffffff; stroke: #d1d9e0 }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .section, .mean { font-weight: 600 }
  .section { font-size: 13px }
  .small { font-size: 10.5px; fill: #59636e }
  .faster { fill: #2b7bba }
  .slower { fill: #d9730d }
  .grid { stroke: #e4e8ec }
  .one { stroke: #1f2328; stroke-width: 1.5 }
  .whisker { stroke: #10293f; stroke-width: 1.2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .faster { fill: #4c9be0 }
    .slower { fill: #f0883e }
    .grid { stroke: #262c36 }
    .one { stroke: #f0f6fc }
    .whisker { stroke: #e6f1fb }
  }
"""


@dataclasses.dataclass
class Section:
    """Rows of one result file: of one peer with one thread, or the sets of a summary."""

    title: str
    file: str
    peer: str = ""


SECTIONS = [Section("Over {peer}, fp32: nine models that Xyntra was tuned on", "cpu_16_cores.json", "onnxruntime"),
            Section("Over ONNX Runtime, fp32: draws that nobody tuned on, geometric means", "sets.json"),
            Section("Over {peer}, fp32", "cpu_16_cores_torch.json", "torch"),
            Section("Over {peer}, both in bf16 on AMX", "cpu_2_cores_bf16.json", "openvino")]


@dataclasses.dataclass
class Bar:
    label: str
    ratio: float
    low: float | None = None
    high: float | None = None
    said: str = ""  # behind the figure
    mean: bool = False


def bars_of(section: Section, results: pathlib.Path) -> list[Bar]:
    rows = [row for row in rows_of(results / section.file) if row["threads"] == 1]
    if not section.peer:
        return [Bar(row["label"], row["ratio"], said=f"{row['below_one']} of {row['models']} below 1.0") for row in rows if row["draw"] == "fresh"]
    kept = [row for row in rows if row["peer"] == section.peer and row["model"] in MODEL_NAMES and row["ratio"] is not None]
    bars = [Bar(MODEL_NAMES[row["model"]], row["ratio"], row["ratio_low"], row["ratio_high"], f"{row['ratio_low']:.2f}–{row['ratio_high']:.2f}")
            for row in sorted(kept, key=lambda row: -row["ratio"])]
    return [*bars, Bar("geometric mean", geomean([bar.ratio for bar in bars]), mean=True)]


def title_of(section: Section, results: pathlib.Path) -> str:
    versions = {row["peer_version"] for row in rows_of(results / section.file) if row["peer"] == section.peer}
    return section.title.format(peer=" ".join([PEER_NAMES.get(section.peer, ""), *sorted(versions)]))


def caption_of(section: Section, results: pathlib.Path) -> str:
    report = load(results / section.file)
    machine = report["machine"]
    said = ["1 thread"]
    if machine:
        said = [f"{machine['cpu'].replace('(R)', '').replace(' Processor', '')}, {machine['cores']} cores", "1 thread", "batch 1"]
        said += [CLOCKS[clock] for clock in sorted({row["clock"] for row in report["rows"]})]
    said += [report["date"], f"commit {report['commit'].split(' (')[0]}" if report["commit"] else "a summary: machine, commit and intervals were not kept"]
    return " · ".join([*said, section.file])


def x_of(ratio: float) -> float:
    share = math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return round(LEFT + (RIGHT - LEFT) * share, 1)


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "") -> str:
    marks = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x}" y="{y}"{marks}>{html.escape(said)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{kind}"/>'


def drawn_bar(bar: Bar, top: float) -> list[str]:
    """A line of the chart whose upper edge is at `top`."""
    base, end, middle = x_of(1.0), x_of(bar.ratio), top + ROW / 2
    kind, bold = "faster" if bar.ratio >= 1 else "slower", "mean" if bar.mean else ""
    made = [text(LABELS, middle + 4, bar.label, bold, "end"),
            f'<rect x="{min(base, end)}" y="{middle - BAR / 2}" width="{abs(end - base):.1f}" height="{BAR}" rx="1.5" class="{kind}"/>']
    if bar.low is not None and bar.high is not None:
        low, high = x_of(bar.low), x_of(bar.high)
        made += [line(low, middle, high, middle, "whisker"), *(line(x, middle - 3.5, x, middle + 3.5, "whisker") for x in (low, high))]
    made.append(text(RIGHT + 14, middle + 4, f"{bar.ratio:.2f}", "mean"))
    return made + ([text(RIGHT + 50, middle + 4, bar.said, "small")] if bar.said else [])


def svg(results: pathlib.Path) -> str:
    body, y = [], 94
    for section in SECTIONS:
        bars = bars_of(section, results)
        body += [text(16, y, title_of(section, results), "section"), text(16, y + 15, caption_of(section, results), "small")]
        top, bottom = y + 22, y + 22 + ROW * len(bars)
        body += [line(x_of(tick), top, x_of(tick), bottom, "grid") for tick in TICKS if tick != 1.0]
        for number, bar in enumerate(bars):
            body += drawn_bar(bar, top + ROW * number)
        body.append(line(x_of(1.0), top, x_of(1.0), bottom, "one"))
        y = bottom + 26
    axis = y - 12
    body += [text(x_of(tick), axis, f"{tick:.1f}", "small", "middle") for tick in TICKS]
    height = axis + 16
    head = [text(16, 30, "Xyntra beside other runtimes", "title"),
            text(16, 49, "The peer's time over ours, interleaved in one process. Whiskers: 95% interval of the median.", "small"),
            text(x_of(1.0) - 6, 69, "← Xyntra is slower", "small", "end"), text(x_of(1.0) + 6, 69, "Xyntra is faster →", "small")]
    said = "Ratios of the tables in docs/performance.md as bars; made by make bench-report from bench/results"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{said}">',
                      f"<style>{STYLE}</style>", f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" class="page"/>',
                      *head, *body, "</svg>"]) + "\n"
