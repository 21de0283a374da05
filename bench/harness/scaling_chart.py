"""CPU time of compiling against nodes as SVG: both axes logarithmic, a line for each family that has several sizes."""

from __future__ import annotations

import math

from harness.chart import STYLE
from harness.scatter import COLOURS

DASHES = {"wgsl": "5 3"}
WIDTH, HEIGHT, LEFT, TOP, WIDE, HIGH = 820, 600, 70, 70, 560, 470


def svg(rows: list[dict]) -> str:
    """Of rows with family, backend, nodes and cpu_s. The thin lines are linear growth."""
    rows = [row for row in rows if "error" not in row]
    lines: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        lines.setdefault((row["family"], row["backend"]), []).append(row)
    lines = {key: sorted(line, key=lambda row: row["nodes"]) for key, line in lines.items() if len(line) > 1}
    if not lines:
        return ""
    drawn = [row for line in lines.values() for row in line]
    left, right = math.floor(math.log10(min(row["nodes"] for row in drawn))), math.ceil(math.log10(max(row["nodes"] for row in drawn)))
    low, high = math.floor(math.log10(min(row["cpu_s"] for row in drawn))), math.ceil(math.log10(max(row["cpu_s"] for row in drawn)))

    def x_of(nodes: float) -> float:
        return LEFT + WIDE * (math.log10(nodes) - left) / (right - left)

    def y_of(seconds: float) -> float:
        return TOP + HIGH - HIGH * (math.log10(seconds) - low) / (high - low)

    made = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
            f'<text class="title" x="{LEFT}" y="32">CPU time of compiling against nodes, s</text>',
            f'<text class="small" x="{LEFT}" y="52">cpu: machine code; wgsl: shaders, dashed</text>',
            f'<clipPath id="frame"><rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}"/></clipPath>']
    for power in range(left, right + 1):
        x = x_of(10.0 ** power)
        made += [f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + HIGH}"/>',
                 f'<text class="small" text-anchor="middle" x="{x:.1f}" y="{TOP + HIGH + 16}">{10 ** power:g}</text>']
    for power in range(low, high + 1):
        y = y_of(10.0 ** power)
        made += [f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>',
                 f'<text class="small" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{10.0 ** power:g}</text>']
    for power in range(low - right, high - left + 1):
        made.append(f'<line class="one" clip-path="url(#frame)" x1="{x_of(10.0 ** left):.1f}" y1="{y_of(10.0 ** (left + power)):.1f}" '
                    f'x2="{x_of(10.0 ** right):.1f}" y2="{y_of(10.0 ** (right + power)):.1f}"/>')
    families = sorted({family for family, _ in lines})
    for (family, backend), line in lines.items():
        colour = COLOURS[families.index(family) % len(COLOURS)]
        points = " ".join(f"{x_of(row['nodes']):.1f},{y_of(row['cpu_s']):.1f}" for row in line)
        dashes = f' stroke-dasharray="{DASHES[backend]}"' if backend in DASHES else ""
        made.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dashes} points="{points}"/>')
    for number, family in enumerate(families):
        y = TOP + 14 + 20 * number
        made += [f'<circle cx="{LEFT + WIDE + 22}" cy="{y - 4}" r="4" fill="{COLOURS[number % len(COLOURS)]}"/>',
                 f'<text x="{LEFT + WIDE + 34}" y="{y}">{family}</text>']
    return "\n".join([*made, "</svg>"]) + "\n"
