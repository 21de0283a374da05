"""Drawn models beside other runtimes on the CPU: whole runs, interleaved; fused beside unfused; what each group takes and was predicted to take."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy

from harness import drawn, models, runtimes, timing

ROUNDS, SECONDS = 21, 12
SLOW = 3  # of the slowest groups are shown
ALLOWED = 1e-3  # of the largest result, or so much more than the peer is from torch
MORE = 3


def measured(torch, options, source: str, name: str, folder: str) -> dict:
    sizes = drawn.Sizes.drawn(options.seed, name)
    model, named = drawn.built(torch, source, name, sizes)
    module = drawn.wrapped(torch, model, list(named))
    path = Path(folder) / "model.onnx"
    drawn.exported(torch, module, named, str(path), sizes.exporter)
    feed = {key: argument.numpy() for key, argument in named.items() if key in {value.name for value in models.inputs_of(path)}}
    wanted = [module(*named.values()).numpy()]
    del module, model
    row = {"source": source, "model": name} | dataclasses.asdict(sizes) | {"times": {}}
    for threads in options.threads:
        job = models.Job(name, path, {}, [feed], threads, "f32", None, None)
        peers = list(runtimes.peers(options.peers, job, lambda text: print(text, file=sys.stderr)))
        if not peers:
            raise drawn.Unsuitable("no peer runs it")
        theirs = timing.error_of(peers[0].outputs(feed), wanted)
        try:
            mine = runtimes.Ours(job, options.library, "cpu")
            row["error"], row["peer_error"] = timing.error_of(mine.outputs(feed), wanted), theirs
        except Exception as error:  # noqa: BLE001: reported, the others go on
            return row | {"failed": str(error)[:200]}
        row["right"] = row["error"] <= max(ALLOWED, MORE * theirs)
        calls = [[one.ready(feed)] for one in [mine, *peers]]
        times = timing.interleave(calls, ROUNDS, SECONDS, threads)
        row["times"][str(threads)] = {"ms": 1e3 * float(numpy.median(times[:, 0]))} | {
            peer.name: dict(zip(("ms", "ratio", "low", "high"), [1e3 * float(numpy.median(times[:, place + 1])), *timing.ratio(times[:, place + 1], times[:, 0])]))
            for place, peer in enumerate(peers)}
        del mine, peers, calls
    return row | bench(options, path, feed, folder)


def bench(options, path: Path, feed: dict, folder: str) -> dict:
    flags = []
    for key, array in feed.items():
        numpy.save(Path(folder) / f"{key}.npy", array)
        flags += ["--input", f"{key}={folder}/{key}.npy"]
    report = drawn.report_of([options.command, "bench", path, "--json", "--threads", str(max(options.threads)), "--runs", "10", "--seconds", "1",
                              "--most-seconds", "20", *flags], XDG_CACHE_HOME=f"{folder}/anew")
    fused, unfused = report["fused"], report["unfused"]
    return {"compile_ms": report["plan_ms"] + fused["compile_ms"], "arena_bytes": fused["arena_bytes"], "kernels": fused["kernels"],
            "fused_ms": fused["latency_ms"]["p50"], "unfused_ms": unfused["latency_ms"]["p50"],
            "fused_fastest_ms": fused["latency_ms"]["min"], "unfused_fastest_ms": unfused["latency_ms"]["min"],
            "groups": [{key: kernel[key] for key in ("ops", "schedule", "ms", "fastest_ms", "predicted_ms", "roofline") if key in kernel}
                       for kernel in report["kernels"]]}


def gains(row: dict) -> dict[str, float]:
    """By threads, over the fastest peer."""
    return {threads: min(one["ratio"] for one in times.values() if isinstance(one, dict)) for threads, times in row["times"].items()}


def shown(row: dict) -> str:
    beside = "; ".join(f"{threads} threads {times['ms']:.2f} ms, " + ", ".join(
        f"{name} {one['ms']:.2f} ({one['ratio']:.2f} x)" for name, one in times.items() if isinstance(one, dict)) for threads, times in row["times"].items())
    slowest = sorted(row["groups"], key=lambda group: -group["ms"])[:SLOW]
    return (f"batch {row['batch']}, {row['exporter']}: {beside}; fused {row['unfused_ms'] / row['fused_ms']:.2f} x unfused, compiled in {row['compile_ms']:.0f} ms, "
            f"error {row['error']:.0e}{'' if row['right'] else ' WRONG'}; slowest "
            + ", ".join(f"{group['ops'][:24]} {1e3 * group['ms']:.0f} us {100 * (group.get('roofline') or 0):.0f}%" for group in slowest))


def summary(rows: list[dict]) -> str:
    lines = []
    for threads in rows[0]["times"]:
        over = [gains(row)[threads] for row in rows]
        lines.append(f"{threads} threads: geomean {drawn.geomean(over):.2f} x the fastest peer, {sum(gain >= 1 for gain in over)} at 1.0 or above, "
                     f"least {min(over):.2f}")
    fused = [max(row["unfused_ms"] / row["fused_ms"], row["unfused_fastest_ms"] / row["fused_fastest_ms"]) for row in rows]
    compiles = sorted(row["compile_ms"] for row in rows)
    lines.append(f"fused over unfused: geomean {drawn.geomean(fused):.2f}, least {min(fused):.2f}; compiled in {compiles[len(compiles) // 2]:.0f} ms, "
                 f"at most {compiles[-1]:.0f}")
    return "\n".join(lines)
