"""Runs models with the command, one process each: whatever happens to it is an answer."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

import numpy as np

HANG_SECONDS = 60  # by the clock, so that a machine that has other work to do is no hang
SLOW_SECONDS = 10  # of the CPU
STOP = "XYNTRA_STOP_AT_INTERNAL_ERRORS"  # instead of serving a graph by plainer forms
EXIT_CLASS = {1: "refused", 2: "refused", 3: "internal", 4: "refused", 5: "limit"}


@dataclasses.dataclass
class Answer:
    kind: str  # done, absent, internal, refused, limit, hang, slow, signal
    says: str = ""
    seconds: float = 0.0
    outputs: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def signature(self) -> str:
        """What stays the same while a case is reduced: the message without names and numbers."""
        return f"{self.kind} {re.sub(r'[0-9]+|%[a-z0-9_.]+', '#', self.says)[:90]}"


def cpu_seconds() -> float:
    """Of processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Runner:
    def __init__(self, command: pathlib.Path, scratch: pathlib.Path) -> None:
        self.command = command.resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="run_", dir=scratch))
        self.environment = os.environ | {
            "NO_PROGRESS": "1",
            "NO_COLOR": "1",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "COLUMNS": "200",
            STOP: "1",
        }

    def write(self, model: bytes, feed: dict[str, np.ndarray]) -> None:
        (self.folder / "model.onnx").write_bytes(model)
        np.savez(self.folder / "input.npz", **feed)
        self.fed = bool(feed)

    def run(self, names: list[str], flags: list[str], serve: bool = False) -> Answer:
        """What the command gives; with `serve`, by plainer forms where one of its own fails."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        line = [
            self.command,
            "run",
            "model.onnx",
            "--json",
            "--output-dir",
            out,
            *(["--input", "input.npz"] if self.fed else []),
            *flags,
        ]
        started, before = time.monotonic(), cpu_seconds()
        try:
            done = subprocess.run(
                line,
                cwd=self.folder,
                env={k: v for k, v in self.environment.items() if not (serve and k == STOP)},
                capture_output=True,
                timeout=HANG_SECONDS,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return Answer("hang", f"more than {HANG_SECONDS} s", HANG_SECONDS)
        seconds = min(time.monotonic() - started, cpu_seconds() - before)
        if done.returncode < 0:
            return Answer("signal", f"signal {-done.returncode}: {done.stderr.strip()[-200:]}", seconds)
        if done.returncode == 5 and "is not installed" in done.stdout:
            return Answer("absent", message(done), seconds)
        if done.returncode:
            return Answer(EXIT_CLASS.get(done.returncode, "signal"), message(done), seconds)
        if seconds > SLOW_SECONDS:
            return Answer("slow", f"{seconds:.1f} s", seconds)
        try:
            outputs = {name: np.load(out / f"{name}.npy") for name in names}
        except (OSError, ValueError) as error:
            return Answer("internal", f"no output: {error}", seconds)
        return Answer("done", "", seconds, outputs)

    def unproved(self, flags: list[str]) -> list[str]:
        """Forms of kernels that could not be shown to be right for the model: plain loops that check their bounds serve."""
        threads = flags.index("--threads") if "--threads" in flags else None
        kept = flags if threads is None else flags[:threads] + flags[threads + 2 :]
        line = [self.command, "explain", "model.onnx", "--json", *kept]
        try:
            done = subprocess.run(
                line, cwd=self.folder, env=self.environment, capture_output=True, timeout=HANG_SECONDS, text=True
            )
            return [f"{one['left_out']}: {one['reason']}" for one in json.loads(done.stdout)["fallbacks"]]
        except (subprocess.TimeoutExpired, json.JSONDecodeError, KeyError, UnicodeDecodeError):
            return []


def message(done: subprocess.CompletedProcess) -> str:
    try:
        return " ".join(str(json.loads(done.stdout)["error"]["message"]).split())
    except (json.JSONDecodeError, KeyError, TypeError):
        return " ".join((done.stderr or done.stdout).split())[-300:]
