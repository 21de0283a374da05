"""Cases in several processes. One that dies (a peer may crash on what is drawn) is started again after its case."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from typing import Callable, Iterator

CASE_SECONDS = 400  # with its reduction


def _work(send, numbers, make: Callable[[], Callable[[int], object]]) -> None:
    work = make()
    for number in numbers:
        send.send((number, None))
        send.send((number, work(number)))
    send.send(None)


class Worker:
    def __init__(self, numbers: list[int], make) -> None:
        self.numbers, self.make, self.now = numbers, make, None
        context = multiprocessing.get_context("fork")
        self.receive, send = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(send, numbers, make), daemon=True)
        self.process.start()
        send.close()

    def rest(self) -> list[int]:
        return self.numbers[self.numbers.index(self.now) + 1 :] if self.now is not None else self.numbers[1:]

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()


def results(numbers: range, jobs: int, make) -> Iterator[tuple[int, object]]:
    """(number, result) in the order in which they end; the result is None where the process died."""
    workers = [Worker(list(numbers[start::jobs]), make) for start in range(jobs) if numbers[start::jobs]]
    try:
        while workers:
            ready = multiprocessing.connection.wait([w.receive for w in workers], CASE_SECONDS)
            for worker in [w for w in workers if w.receive in ready or not ready]:
                try:
                    message = worker.receive.recv() if ready else ...
                except (EOFError, OSError):
                    message = ...
                if message is None:
                    workers.remove(worker)
                elif message is ...:
                    worker.stop()
                    workers.remove(worker)
                    yield (worker.now if worker.now is not None else worker.numbers[0]), None
                    if worker.rest():
                        workers.append(Worker(worker.rest(), make))
                elif message[1] is None:
                    worker.now = message[0]
                else:
                    yield message
    finally:
        for worker in workers:
            worker.stop()
