"""Work in forked processes, one for each set of cores: what the parent has imported need not be imported again, and a crash ends one piece of work."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from pathlib import Path


@dataclasses.dataclass
class Piece:
    """What a child does: it sends what it knows so far whenever that is more than before."""
    key: object
    work: Callable[[Callable[[object], None]], None]
    patience: float


@dataclasses.dataclass
class Outcome:
    key: object
    sent: object = None  # the last thing that came
    late: bool = False
    ended: str = ""  # why the child is gone, where it did not come to its end


class _Child:
    def __init__(self, piece: Piece, cores: list[int], noise: Path) -> None:
        self.piece, self.cores, self.noise = piece, cores, noise
        self.receiver, sender = multiprocessing.Pipe(duplex=False)
        self.until, self.outcome = time.monotonic() + piece.patience, Outcome(piece.key)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _live(piece, cores, noise, sender)
        sender.close()

    def over(self) -> bool:
        """Whether there is nothing more to come."""
        with contextlib.suppress(EOFError, OSError):
            while self.receiver.poll():
                self.outcome.sent = self.receiver.recv()
            if time.monotonic() < self.until:
                return False
            self.outcome.late = True
        self.end()
        return True

    def end(self) -> None:
        for kill in (os.killpg, os.kill):  # with the processes that it started; before it has a group, alone
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code and not self.outcome.late:
            said = self.noise.read_text(errors="replace").strip().splitlines() or [""]
            self.outcome.ended = f"exit {code}: {said[-1][:160]}"
        self.receiver.close()


def _live(piece: Piece, cores: list[int], noise: Path, sender: connection.Connection) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.sched_setaffinity(0, cores)
        said = os.open(noise, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        piece.work(sender.send)
        code = 0
    except BaseException as why:  # noqa: BLE001: this process ends here, whatever it is
        os.write(2, f"\n{type(why).__name__}: {why}\n".encode())
    finally:
        sender.close()
        os._exit(code)


def sets_of_cores(width: int) -> list[list[int]]:
    """As many as there are, each of so many cores; one of all where there are fewer."""
    cores = sorted(os.sched_getaffinity(0))
    return [cores[first:first + width] for first in range(0, len(cores) - width + 1, width)] or [cores]


def outcomes(pieces: Iterator[Piece | None], sets: list[list[int]], folder: Path) -> Iterator[Outcome]:
    """Does the pieces, one on each set of cores at a time, and gives them in the order in which they end. None says that it depends on those
    that are under way whether there is another one."""
    free, busy, waits = list(sets), [], False
    try:
        while True:
            while free and not waits:
                piece = next(pieces, False)
                waits = not isinstance(piece, Piece)
                if isinstance(piece, Piece):
                    cores = free.pop(0)
                    busy.append(_Child(piece, cores, folder / f"noise-{cores[0]}"))
                elif piece is False and not busy:
                    return
            connection.wait([child.receiver for child in busy], 0.5)
            for child in [child for child in busy if child.over()]:
                busy.remove(child)
                free.append(child.cores)
                waits = False
                yield child.outcome
    finally:
        for child in busy:
            child.end()
