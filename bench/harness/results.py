"""What the scripts of bench share: flags, what machine this is, where results go."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
import shlex
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def parser(about: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--threads", type=lambda text: [int(word) for word in words(text)], default=[1], metavar="N,…")
    made.add_argument("--zoo", type=pathlib.Path, default=ROOT / "build/zoo", help="where bench/zoo/make_zoo.py wrote")
    made.add_argument("--library", type=pathlib.Path, default=ROOT / "build/release/libxyntra.so")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--out", type=pathlib.Path, help="write that object here")
    return made


def machine() -> dict:
    """As scripts/bench describes it."""
    loader = importlib.machinery.SourceFileLoader("bench_script", str(ROOT / "scripts/bench"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_script", loader))
    loader.exec_module(script)
    return {"machine": script.machine(), "commit": script.commit()}


def write(what: str, script: str, rows: list[dict], options: argparse.Namespace, measured: dict | None = None) -> None:
    made = {"what": what, **machine(), "date": time.strftime("%Y-%m-%d"), **(measured or {}), "command": shlex.join([script, *sys.argv[1:]]), "rows": rows}
    if options.json:
        print(json.dumps(made, indent=1))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
