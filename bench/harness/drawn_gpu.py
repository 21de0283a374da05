"""Drawn models beside torch.compile on a GPU, both replayed as CUDA graphs."""

from __future__ import annotations

import contextlib
import fcntl
import math
import subprocess
import time
from pathlib import Path

import numpy

from harness import drawn

CALLS = 5  # in a CUDA graph
LEAST_ERROR = 0.02  # of the largest results: what rounding to 8 bits may leave of any model


@contextlib.contextmanager
def alone(path: str):
    """Nobody else measures meanwhile."""
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replayed(torch, call) -> float:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(10):
        started, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        started.record()
        graph.replay()
        ended.record()
        torch.cuda.synchronize()
        times.append(started.elapsed_time(ended) / CALLS)
    return min(times)


def distance(torch, made, wanted) -> float:
    made, wanted = made.double().flatten().cpu(), wanted.double().flatten().cpu()
    return float((made - wanted).norm() / wanted.norm().clamp_min(1e-30)) if made.shape == wanted.shape and torch.isfinite(made).all() else math.inf


def ours(options, path: str, files: dict[str, str], folder: str) -> dict:
    flags = [word for name, file in files.items() for word in ("--input", f"{name}={file}")]
    precision = [] if options.dtype == "f32" else ["--precision", options.dtype]
    run = subprocess.run([options.command, "run", path, "--backend", options.backend, "--output-dir", folder, *flags, *precision],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise RuntimeError("xyntra run: " + run.stderr.strip().split("\n")[0][:200])
    with alone(options.lock):
        began = time.perf_counter()
        report = drawn.report_of([options.command, "bench", path, "--backend", options.backend, "--alone", "--runs", "10", "--seconds", "0.5",
                                  "--most-seconds", "10", "--json", *flags, *precision])
    slowest = sorted(report["kernels"], key=lambda kernel: -kernel["fastest_ms"])[:3]
    return {"device_ms": report["fused"]["device_ms"], "kernels_ms": report["fused"]["kernels_fastest_ms"], "kernels": report["fused"]["kernels"],
            "wall_ms": report["fused"]["latency_ms"]["p50"], "compile_ms": report["plan_ms"] + report["fused"]["compile_ms"],
            "seconds": time.perf_counter() - began,
            "slowest": [{"ops": one["ops"], "schedule": one["schedule"], "us": 1e3 * one["fastest_ms"]} for one in slowest]}


def measured(torch, options, source: str, name: str, folder: str) -> dict:
    torch.set_num_threads(2)
    model, named = drawn.built(torch, source, name)
    module = drawn.wrapped(torch, model, list(named))
    path = str(Path(folder) / "model.onnx")
    drawn.exported(torch, module, named, path)
    files = {}
    for key, argument in named.items():
        files[key] = str(Path(folder) / f"{key}.npy")
        numpy.save(files[key], argument.numpy())
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[options.dtype]
    wanted = module.cuda()(*(argument.cuda() for argument in named.values()))
    module = module.to(dtype)
    there = [argument.cuda().to(dtype) if argument.is_floating_point() else argument.cuda() for argument in named.values()]
    try:
        compiled = torch.compile(module)
        peer_error = distance(torch, compiled(*there), wanted)
        with alone(options.lock):
            peer_ms = replayed(torch, lambda: compiled(*there))
    except Exception as error:  # noqa: BLE001
        raise drawn.Unsuitable(f"torch.compile: {str(error).strip().splitlines()[0][:120]}") from error
    row = {"source": source, "model": name, "peer": f"torch.compile {torch.__version__} in a graph", "peer_ms": peer_ms, "peer_error": peer_error}
    try:
        row |= ours(options, path, files, folder)
        row["difference"] = distance(torch, torch.from_numpy(numpy.load(Path(folder) / "y.npy")), wanted)
        row["right"] = row["difference"] <= max(2 * peer_error, LEAST_ERROR)
    except RuntimeError as error:
        row["failed"] = str(error)
    return row


def shown(row: dict) -> str:
    return (f"{row['device_ms']:8.3f} ms, torch {row['peer_ms']:8.3f}, {row['peer_ms'] / row['device_ms']:5.2f} x, {row['kernels']:4} kernels, "
            f"difference {row['difference']:.4f} ({row['peer_error']:.4f}){'' if row['right'] else ' WRONG'}; slowest "
            + ", ".join(f"{kernel['ops'][:30]} {kernel['us']:.0f} us" for kernel in row["slowest"]))


def summary(rows: list[dict]) -> str:
    ratios = [row["peer_ms"] / row["device_ms"] for row in rows]
    return (f"geomean {drawn.geomean(ratios):.2f} x torch.compile in a graph, {sum(ratio >= 1 for ratio in ratios)} at 1.0 or above, "
            f"least {min(ratios):.2f}")
