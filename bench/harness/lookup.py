"""Figures of bench/results by name, as Markdown pages quote them:

    [1.29 ×](../bench/results/cpu_16_cores.json#onnxruntime/1/geomean)
    [1.30 (1.24–1.40)](../bench/results/cpu_16_cores.json#onnxruntime/1/bert_base)
    [154 ms](../bench/results/cpu_16_cores.json#onnxruntime/1/bert_base/ours_ms)

The words after # select rows: each is the value of one of the fields KEYS, or several values with commas, or the beginning of one with a
star behind it. A last word may name a field of the one row that is left
(`ratio` where it is absent), or one of AGGREGATES over the ratios of all that are left. The quoted number is compared as far as its
decimals go; an interval in brackets is compared with the fields ending in _low and _high; a percentage is a hundred times the figure.
"""

from __future__ import annotations

import fnmatch
import json
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "bench/results"
KEYS = ("set", "model", "peer", "threads", "precision", "clock", "caches", "past", "who")
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
QUOTED = re.compile(rf"({NUMBER}) ?(%)?[^()\d]*(?:\(({NUMBER})–({NUMBER})\))?")


class Missing(Exception):
    """A figure that no result file has, and why."""


def load(path: pathlib.Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Missing(f"there is no {path.name} in bench/results") from error


def geomean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


AGGREGATES = {"geomean": geomean, "count": len, "worst": min, "best": max, "below_one": lambda ratios: sum(ratio < 1 for ratio in ratios)}


def rows_of(path: pathlib.Path) -> list[dict]:
    """The rows of a file; one that only points to rows elsewhere (`from`) gets its figures from there."""
    return [{**row, **summary(path.parent, row["from"])} if "from" in row else row for row in load(path)["rows"]]


def summary(folder: pathlib.Path, source: str) -> dict:
    file, _, words = source.partition("#")
    ratios = ratios_of(select(rows_of(folder / file), words.split("/")))
    return {"ratio": geomean(ratios), "below_one": AGGREGATES["below_one"](ratios), "worst": min(ratios)}


def select(rows: list[dict], words: list[str]) -> list[dict]:
    for word in words:
        wanted = word.split(",")
        rows = [row for row in rows if any(fnmatch.fnmatchcase(str(row[key]), one) for key in KEYS if key in row for one in wanted)]
        if not rows:
            raise Missing(f"no row is left at '{word}'")
    return rows


def ratios_of(rows: list[dict]) -> list[float]:
    return [row["ratio"] for row in rows if row.get("ratio") is not None]


def figures(path: pathlib.Path, fragment: str) -> tuple[float, float | None, float | None]:
    """The figure that a fragment names, and its interval where the row has one."""
    words = [word for word in fragment.split("/") if word]
    rows = rows_of(path)
    last = words[-1] if words else ""
    if last in AGGREGATES and not (rows and any(str(row.get(key)) == last for row in rows for key in KEYS)):
        left = select(rows, words[:-1])
        if len(left) == 1 and last in left[0]:
            return left[0][last], None, None
        return AGGREGATES[last](ratios_of(left)), None, None
    is_field = any(last in row for row in rows)
    left, field = (select(rows, words[:-1]), last) if is_field else (select(rows, words), "ratio")
    if len(left) != 1:
        raise Missing(f"{len(left)} rows are left; add words to select one")
    if left[0].get(field) is None:
        raise Missing(f"the row has no {field}")
    return left[0][field], left[0].get(f"{field}_low"), left[0].get(f"{field}_high")


def agrees(text: str, value: float) -> bool:
    """Whether the number in the text is the value, to the decimals it has."""
    mantissa, _, exponent = text.replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    return abs(value - float(text.replace(",", ""))) <= 0.5 * 10.0 ** (int(exponent or 0) - decimals) * (1 + 1e-9)


def stale(text: str, path: pathlib.Path, fragment: str) -> str | None:
    """What is wrong with a quoted figure, or None."""
    quoted = QUOTED.search(text)
    if not quoted:
        return f"'{text}' quotes no number"
    try:
        value, low, high = figures(path, fragment)
    except Missing as why:
        return f"{path.name}#{fragment}: {why}"
    number, percent, quoted_low, quoted_high = quoted.groups()
    pairs = [(number, value * 100 if percent else value)]
    if quoted_low:
        if low is None or high is None:
            return f"{path.name}#{fragment} has no interval"
        pairs += [(quoted_low, low), (quoted_high, high)]
    return next((f"'{text}' is stale: {path.name}#{fragment} has {known:.4g}" for said, known in pairs if not agrees(said, known)), None)
