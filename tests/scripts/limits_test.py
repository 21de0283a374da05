"""Hungry models end when they are told to: by a signal, a time limit or a memory limit."""
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = Path(os.environ.get("XYNTRA_COMMAND", Path(__file__).resolve().parents[2] / "build/xyntra"))

# 2^62 iterations; and an Expand to 2^40 elements.
LOOP = """xir 1
graph @main(%x: f32[2]) -> (%y) {
  const %trips: i64[] = 4611686018427387904
  const %go: bool[] = true
  %y = Loop(%trips, %go, %x) {states = 1, body = graph @body(%iteration: i64[], %more: bool[], %state: f32[2]) -> (%more, %next) {
    %next = Neg(%state)
  }}
}
"""
EXPAND = """xir 1
graph @main(%x: f32[1]) -> (%y) {
  const %shape: i64[2] = [1048576, 1048576]
  %y = Expand(%x, %shape)
}
"""


@unittest.skipUnless(os.access(COMMAND, os.X_OK), f"no command at {COMMAND}")
class Limits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="limits-")
        self.addCleanup(self.folder.cleanup)

    def model(self, text):
        path = Path(self.folder.name) / "model.xir"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_model(self, text, *flags):
        started = time.monotonic()
        process = subprocess.run([COMMAND, "run", self.model(text), "--backend", "reference", *flags], capture_output=True, text=True, timeout=60,
                                 check=False, stdin=subprocess.DEVNULL)
        return process, time.monotonic() - started

    def test_interrupt_ends_a_loop(self):
        process = subprocess.Popen([COMMAND, "run", self.model(LOOP), "--backend", "reference"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, stdin=subprocess.DEVNULL)
        time.sleep(1)
        self.assertIsNone(process.poll(), "the loop ended by itself")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        self.assertEqual((process.returncode, out, err), (130, "", "interrupted while running\n"))

    def test_timeout_ends_a_loop(self):
        process, seconds = self.run_model(LOOP, "--timeout", "0.5")
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("out of time", process.stderr)
        self.assertLess(seconds, 10)

    def test_memory_limit_ends_an_expand(self):
        process, seconds = self.run_model(EXPAND, "--max-memory", "1GB")
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("memory", process.stderr)
        self.assertLess(seconds, 10)


if __name__ == "__main__":
    unittest.main()
