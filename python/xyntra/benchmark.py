"""How long runs take."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Timings:
    """Latencies of runs, in seconds and in the order they were made."""

    seconds: tuple[float, ...]

    def percentile(self, share: float) -> float:
        """The latency that `share` percent of the runs keep to."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share / 100 * len(ordered)))]

    @property
    def median(self) -> float:
        return self.percentile(50)

    def __str__(self) -> str:
        shown = ", ".join(f"p{share} {1e3 * self.percentile(share):.3f} ms" for share in (50, 95, 99))
        return f"{len(self.seconds)} runs: fastest {1e3 * min(self.seconds):.3f} ms, {shown}"


def time_runs(run: Callable[[], object], runs: int, warm_up: int) -> Timings:
    for _ in range(warm_up):
        run()
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return Timings(tuple(seconds))
