"""One model beside ONNX Runtime on the CPU: results compared, runs interleaved."""

from __future__ import annotations

import pathlib

import numpy as np

from harness import models, runtimes, timing


class PeerRefuses(Exception):
    """ONNX Runtime loads the model and then does not run it: there is nothing to compare with."""


def measure(name: str, path: pathlib.Path, feed: models.Feed, threads: int, options) -> dict:
    job = models.Job(name, path, {}, [feed], threads, "f32", None, None)
    try:
        peer = runtimes.OnnxRuntime(job)
        right = peer.outputs(feed)
    except Exception as error:  # of several unrelated types
        raise PeerRefuses(str(error)) from error
    ours = runtimes.Ours(job, options.library, "cpu")
    row = {"operation": name, "threads": threads, "shapes": {k: list(v.shape) for k, v in feed.items()}}
    row["error"] = timing.error_of(ours.outputs(feed), right)
    times = timing.interleave([[ours.ready(feed)], [peer.ready(feed)]], options.rounds, options.seconds, threads)
    row["ratio"], row["low"], row["high"] = timing.ratio(times[:, 1], times[:, 0])
    row["ours_us"], row["peer_us"] = (1e6 * float(t) for t in np.median(times, axis=0))
    row["ours_fastest_us"], row["peer_fastest_us"] = (1e6 * float(t) for t in times.min(axis=0))
    return row


def summary(rows: list[dict], threads: int) -> str:
    ratios = np.array([row["ratio"] for row in rows if row["threads"] == threads])
    if not ratios.size:
        return f"{threads} threads: nothing timed"
    return (f"{threads} threads: {ratios.size} timed, geometric mean {np.exp(np.log(ratios).mean()):.2f}, "
            f"{np.mean(ratios >= 1):.0%} at 1.0 or above, {np.sum(ratios < 0.8)} below 0.8, least {ratios.min():.2f}")
