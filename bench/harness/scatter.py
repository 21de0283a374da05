"""A scatter plot of predicted and measured times as SVG: both axes logarithmic, a colour for each schedule."""

from __future__ import annotations

import math

from harness.chart import STYLE

WIDTH, HEIGHT, LEFT, TOP, SIDE = 760, 600, 70, 70, 470
COLOURS = ("#2b7bba", "#d9730d", "#3a9a5b", "#a94fb5", "#c0392b", "#7a6a4f", "#1aa6a6", "#8c8c3a")


def svg(title: str, said: str, rows: list[dict]) -> str:
    """Of rows with ms, predicted_ms and schedule. The bands are right within a factor of 1.5 and of 3."""
    times = [1e3 * row[key] for row in rows for key in ("ms", "predicted_ms")]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x_of(us: float) -> float:
        return LEFT + SIDE * (math.log10(us) - low) / (high - low)

    def y_of(us: float) -> float:
        return TOP + SIDE - SIDE * (math.log10(us) - low) / (high - low)

    made = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', f"<style>{STYLE}  .band {{ fill: #2b7bba }}</style>",
            f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>', f'<text class="title" x="{LEFT}" y="32">{title}</text>',
            f'<text class="small" x="{LEFT}" y="52">{said}</text>',
            f'<clipPath id="frame"><rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"/></clipPath>']
    least, most = 10.0 ** low, 10.0 ** high
    for factor, shade in ((3.0, 0.10), (1.5, 0.16)):
        corners = [(least, least / factor), (most, most / factor), (most, most * factor), (least, least * factor)]
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in corners)
        made.append(f'<polygon class="band" clip-path="url(#frame)" fill-opacity="{shade}" points="{points}"/>')
    for power in range(low, high + 1):
        us = 10.0 ** power
        label = f"{us:g}"
        made += [f'<line class="grid" x1="{x_of(us):.1f}" x2="{x_of(us):.1f}" y1="{TOP}" y2="{TOP + SIDE}"/>',
                 f'<line class="grid" x1="{LEFT}" x2="{LEFT + SIDE}" y1="{y_of(us):.1f}" y2="{y_of(us):.1f}"/>',
                 f'<text class="small" text-anchor="middle" x="{x_of(us):.1f}" y="{TOP + SIDE + 16}">{label}</text>',
                 f'<text class="small" text-anchor="end" x="{LEFT - 6}" y="{y_of(us) + 4:.1f}">{label}</text>']
    made += [f'<line class="one" x1="{LEFT}" y1="{TOP + SIDE}" x2="{LEFT + SIDE}" y2="{TOP}"/>',
             f'<text text-anchor="middle" x="{LEFT + SIDE / 2}" y="{TOP + SIDE + 36}">predicted</text>',
             f'<text text-anchor="middle" transform="translate(20 {TOP + SIDE / 2}) rotate(-90)">measured</text>']
    schedules = sorted({row["schedule"] for row in rows})
    for number, schedule in enumerate(schedules):
        colour = COLOURS[number % len(COLOURS)]
        of_it = [row for row in rows if row["schedule"] == schedule]
        made += [f'<circle cx="{x_of(1e3 * row["predicted_ms"]):.1f}" cy="{y_of(1e3 * row["ms"]):.1f}" r="3" fill="{colour}" fill-opacity="0.6"/>'
                 for row in of_it]
        y = TOP + 14 + 20 * number
        made += [f'<circle cx="{LEFT + SIDE + 22}" cy="{y - 4}" r="4" fill="{colour}"/>',
                 f'<text x="{LEFT + SIDE + 34}" y="{y}">{schedule} ({len(of_it)})</text>']
    return "\n".join([*made, "</svg>"]) + "\n"
