"""The Markdown pages that quote results: blocks that are generated, figures that name their file, and claims that name none."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator

from harness import chart, lookup, tables

ROOT = lookup.ROOT
BLOCK = re.compile(r"^(<!-- generated: bench/report (.*?) -->)\n(.*?)^(<!-- end -->)$", re.M | re.S)
FIGURE = re.compile(r"\[([^\]\n]+)\]\(([^()\s#]*bench/results/[^()\s#]+\.json)#([^()\s]+)\)")
LINK = re.compile(r"\[[^\]\n]*\]\([^)\n]*\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
CLAIM = re.compile(r"\b\d+\.\d+ ?(?:×|times\b)")
EVERY_CLAIM_NAMES_ITS_FILE = ("README.md", "docs/performance.md")
CHART = "docs/images/speed.svg"

Finding = tuple[str, str | None]  # place, and the problem where there is one


def pages(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "tests").glob("*.md")])


def regenerated(page: pathlib.Path, text: str, root: pathlib.Path = ROOT) -> str:
    link = os.path.relpath(root / "bench/results", page.parent) + "/"

    def block(found: re.Match) -> str:
        lines = tables.render(found[2].split(), root / "bench/results", link)
        return "\n".join([found[1], *lines, found[4]])
    return BLOCK.sub(block, text)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def blank(pattern: re.Pattern, text: str) -> str:
    """The text without what matches, with all lines where they were."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def check_page(page: pathlib.Path, root: pathlib.Path = ROOT) -> Iterator[Finding]:
    text, name = page.read_text(encoding="utf-8"), page.relative_to(root)
    for found in BLOCK.finditer(text):
        place = f"{name}:{line_of(text, found.start())}"
        try:
            fresh = regenerated(page, found[0], root) == found[0]
        except lookup.Missing as why:
            yield place, str(why)
            continue
        yield place, None if fresh else f"the block '{found[2]}' is stale; run: make bench-report"
    prose = blank(FENCE, blank(BLOCK, text))
    for found in FIGURE.finditer(prose):
        yield f"{name}:{line_of(prose, found.start())}", lookup.stale(found[1], (page.parent / found[2]).resolve(), found[3])
    if str(name) in EVERY_CLAIM_NAMES_ITS_FILE:
        unlinked = blank(LINK, prose)
        for found in CLAIM.finditer(unlinked):
            yield f"{name}:{line_of(unlinked, found.start())}", f"'{found[0]}' names no result file: [{found[0]}](…/bench/results/FILE.json#WORDS)"


def check_chart(root: pathlib.Path = ROOT) -> Finding:
    file = root / CHART
    fresh = file.is_file() and file.read_text(encoding="utf-8") == chart.svg(root / "bench/results")
    return CHART, None if fresh else "the chart is stale; run: make bench-report"


def check(root: pathlib.Path = ROOT) -> list[Finding]:
    """Every place that quotes a result, with its problem or None."""
    return [*(finding for page in pages(root) for finding in check_page(page, root)), check_chart(root)]


def write(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Regenerates blocks and chart; the files that changed."""
    fresh = {page: regenerated(page, page.read_text(encoding="utf-8"), root) for page in pages(root)}
    fresh[root / CHART] = chart.svg(root / "bench/results")
    changed = [file for file, text in fresh.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]
    for file in changed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(fresh[file], encoding="utf-8")
    return changed
