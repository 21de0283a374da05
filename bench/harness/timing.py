"""Interleaved timing of several runtimes, and what may be said about the times."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

WARM_UP_SECONDS = 0.5
REST_SECONDS = 0.1
STIR_SECONDS = 0.005  # after a rest: a CPU that slept is slow at first, which very short calls would be measured by
STEADY_BELOW = 0.1  # seconds; calls shorter than this are preceded by one that is not timed
RESAMPLES = 2000
# CPU time of the calling thread leaves out what others take on a busy machine; it says nothing about several threads.
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}


SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def error_of(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference, as a share of the largest element of that output; infinite where they cannot be compared."""
    if len(ours) != len(theirs):
        return float("inf")
    worst = 0.0
    for a, b in zip(ours, theirs):
        if a.shape != b.shape or not np.array_equal(np.isnan(a.astype(np.float64)), np.isnan(b.astype(np.float64))):
            return float("inf")
        a, b = np.nan_to_num(a.astype(np.float64)), np.nan_to_num(b.astype(np.float64))
        scale, apart = (float(np.abs(b).max()), float(np.abs(a - b).max())) if b.size else (0.0, 0.0)
        # Random weights may let a network fade away: numbers below the smallest normal one have few digits, or are flushed.
        if scale >= SMALLEST_NORMAL:
            worst = max(worst, apart / scale)
        elif apart > SMALLEST_NORMAL:
            return float("inf")
    return worst


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    call()
    return clock() - started


def warm(call: Callable[[], object], least: float) -> None:
    """Calls once, and again until that many seconds have passed."""
    began = time.perf_counter()
    call()
    while time.perf_counter() - began < least:
        call()


def interleave(runners: list[list[Callable[[], object]]], rounds: int, limit: float, threads: int,
               clock: str = "wall") -> np.ndarray:
    """Seconds by round and runner. Each runner is a list of calls, one for each set of inputs.

    Whoever began a round is last in the next. A short call is preceded by one that is not timed: the data of the one before
    fill the caches, which would be paid by whoever comes next. Threads of some runtimes spin on long after a call and would
    take cores from the next: with several threads everybody's go to rest first, and whoever comes next warms up again.
    """
    steady = []
    for calls in runners:
        began, last = time.perf_counter(), 0.0
        while time.perf_counter() - began < WARM_UP_SECONDS or last == 0.0:
            last = seconds(calls[0])
        steady.append(last < STEADY_BELOW)
    times = []
    began = time.perf_counter()
    for number in range(rounds):
        row = [0.0] * len(runners)
        for place in range(len(runners)):
            who = (place + number) % len(runners)
            call = runners[who][number % len(runners[who])]
            if threads > 1:
                time.sleep(REST_SECONDS)
            if steady[who] or threads > 1:
                warm(call, STIR_SECONDS if threads > 1 else 0)
            row[who] = seconds(call, CLOCKS[clock])
        times.append(row)
        if number >= 2 and time.perf_counter() - began > limit:
            break
    return np.array(times)


def one_round(calls: list[Callable[[], object]], number: int, threads: int) -> list[float]:
    """Seconds of each runner's call, whose shapes nobody has seen before: what a change of shapes costs is part of it."""
    row = [0.0] * len(calls)
    for place in range(len(calls)):
        who = (place + number) % len(calls)
        if threads > 1:
            time.sleep(REST_SECONDS)
        row[who] = seconds(calls[who])
    return row


def ratio(theirs: np.ndarray, ours: np.ndarray) -> tuple[float, float, float]:
    """The median over rounds of their time over ours, and the 95% interval of that median, by resampling rounds."""
    paired = theirs / ours
    drawn = np.random.default_rng(0).integers(0, len(paired), (RESAMPLES, len(paired)))
    low, high = np.quantile(np.median(paired[drawn], axis=1), [0.025, 0.975])
    return float(np.median(paired)), float(low), float(high)
