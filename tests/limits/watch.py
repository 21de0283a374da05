"""Runs a command and stops it, and tells how late it ended: for tests on machines that do other work, too.

What counts is a process's own time: that of its busiest thread on a CPU, and the time in which none of its threads was ready to run. On an idle
machine it is the time that passes; on a busy one, what it would be without the others.
"""
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.002
LONGEST_LOOK_SECONDS = 0.01  # between two looks; more was spent by the one who looks
WATCHDOG_SECONDS = 60


@dataclass
class Outcome:
    code: int
    seconds: float  # of its own time: from the start, or from the stop where one was asked for; 0 where it ended before it
    wall: float     # the same by the clock
    cpu: float
    peak: int       # bytes of the process, mapped files included
    own_peak: int   # bytes that are no files', as far as looking every few milliseconds shows
    err: str
    stopped: bool   # whether it still ran when the moment to stop came
    stack: str = ""


class OwnTime:
    """Of a process, from now on; to be looked at every few milliseconds."""

    def __init__(self, pid):
        self.pid, self.idle, self.latest, self.then = pid, 0.0, {}, time.monotonic()
        self.look()
        self.first, self.idle = dict(self.latest), 0.0

    def look(self):
        now, ready = time.monotonic(), False
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
        except OSError:
            threads = []
        for thread in threads:
            try:
                folder = Path(f"/proc/{self.pid}/task/{thread}")
                self.latest[thread] = int((folder / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
                ready = ready or (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] == "R"
            except (OSError, IndexError, ValueError):
                pass
        if threads and not ready:
            self.idle += min(now - self.then, LONGEST_LOOK_SECONDS)
        self.then = now

    def seconds(self):
        return self.idle + max((spent - self.first.get(thread, 0.0) for thread, spent in self.latest.items()), default=0.0)


def awaits_interrupts(pid):
    """Whether a process has set its handler; also true of one that ended, or where the kernel does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
    return not caught or "State:\tZ" in status or bool(int(caught[1], 16) >> (signal.SIGINT - 1) & 1)


def own_bytes(pid):
    try:
        found = re.search(r"^RssAnon:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def stack_of(pid):
    """Where its threads are, by a debugger; empty where there is none."""
    try:
        said = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 40"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "\n".join(line for line in said.splitlines() if line.startswith(("#", "Thread")))


def execute(command, stop_after=None, interrupt=False, stacks_after=None, environment=None):
    """Runs it. From `stop_after` seconds on it is expected to end: by a signal, then they are of its own time, or because a flag told it to, then
    they are of the clock. Both are counted from when it handles interrupts. Where it has not ended after `stacks_after` seconds more, its stack is
    kept."""
    with tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, env=environment)
        watchdog = begin + WATCHDOG_SECONDS
        own_peak, stack, stopped = 0, "", False
        if stop_after is not None:
            while not awaits_interrupts(process.pid) and time.monotonic() < watchdog:  # loading may take its time
                time.sleep(POLL_SECONDS)
            begin = time.monotonic()
        own = OwnTime(process.pid)
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            own.look()
            now = time.monotonic()
            if stop_after is not None and not stopped and (own.seconds() if interrupt else now - begin) >= stop_after:
                stopped, begin, own = True, now, OwnTime(process.pid)
                if interrupt:
                    os.kill(process.pid, signal.SIGINT)  # send_signal would take the exit code away
            if now > watchdog:
                os.kill(process.pid, signal.SIGKILL)
            own_peak = max(own_peak, own_bytes(process.pid))
            if stopped and stacks_after is not None and not stack and own.seconds() > stacks_after:
                stack = stack_of(process.pid)
                begin += time.monotonic() - now  # it stood still meanwhile
                own.then = time.monotonic()
            time.sleep(POLL_SECONDS)
        own.look()
        end = time.monotonic()
        early = stop_after is not None and not stopped
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        text = err.read().decode("utf-8", errors="backslashreplace").strip()
    return Outcome(process.returncode, 0.0 if early else own.seconds(), 0.0 if early else end - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, own_peak, text,
                   stopped, stack)
