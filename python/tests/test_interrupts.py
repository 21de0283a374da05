"""A signal whose handler raises, as Ctrl-C's does, ends what the main thread is in, soon, and spoils nothing."""
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest

import numpy as np
import xyntra

SOON, SOON_IN_LLVM = 0.1, 0.5  # seconds
TRIES = 6  # a machine of others may be slow for seconds


def matmuls(count, size):
    """A chain that takes a while to run."""
    lines = "".join(f"  %v{i + 1} = MatMul(%v{i}, %w)\n" for i in range(count))
    return f"xir 1\ngraph @chain(%v0: f32[{size}, {size}], %w: f32[{size}, {size}]) -> (%v{count}) {{\n{lines}}}\n".encode()


def layers(count):
    """Kernels that all differ, which take a while to compile."""
    lines, value = "", "%x"
    for i in range(count):
        lines += f"  %w{i} = RandomUniform() {{shape = [64, {64 + i}], seed = 1.0}}\n  %u{i} = RandomUniform() {{shape = [{64 + i}, 64], seed = 1.0}}\n"
        lines += f"  %a{i} = MatMul({value}, %w{i})\n  %g{i} = Gelu(%a{i})\n  %b{i} = MatMul(%g{i}, %u{i})\n  %s{i} = Softmax(%b{i})\n"
        value = f"%s{i}"
    return f"xir 1\ngraph @deep(%x: f32[rows, 64]) -> ({value}) {{\n{lines}}}\n".encode()


class Interrupts(unittest.TestCase):
    def setUp(self):
        self.before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.folder = tempfile.TemporaryDirectory()
        self.cache = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = self.folder.name

    def tearDown(self):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)
        os.environ.pop("XDG_CACHE_HOME")
        if self.cache is not None:
            os.environ["XDG_CACHE_HOME"] = self.cache
        self.folder.cleanup()

    def late(self, call, after):
        """How long after the signal the call ended, by KeyboardInterrupt."""
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            call()
        except KeyboardInterrupt:
            return time.monotonic() - began - after
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.fail(f"it ended by itself, after {time.monotonic() - began:.2f} s")

    def ends_soon(self, call, soon, points=(0.05, 0.2, 0.4)):
        for after in points:
            late = []
            while len(late) < TRIES and not (late and late[-1] <= soon):
                late.append(self.late(call, after))
            self.assertLessEqual(late[-1], soon, msg=f"signal after {after} s; late {late}")

    def test_runs_end(self):
        x = np.eye(1024, dtype=np.float32)
        for backend, threads in (("cpu", 1), ("cpu", 2), ("reference", 2), ("sim", 1)):
            with self.subTest(backend=backend, threads=threads):
                session = xyntra.Session(matmuls(100, 1024), backend=backend, threads=threads)
                self.ends_soon(lambda: session.run(None, {"v0": x, "w": x}), SOON)

    def test_a_session_is_usable_afterwards(self):
        x = np.eye(512, dtype=np.float32) * 2
        session = xyntra.Session(matmuls(40, 512), threads=2)
        for after in (0.005, 0.01, 0.02):
            signal.setitimer(signal.ITIMER_REAL, after)
            try:
                while True:
                    session.run(None, {"v0": x, "w": x})
            except KeyboardInterrupt:
                pass
        np.testing.assert_array_equal(session.run(None, {"v0": x, "w": np.eye(512, dtype=np.float32)})[0], x)

    def test_compilation_ends(self):
        model = layers(150)
        self.ends_soon(lambda: xyntra.Session(model, threads=2), SOON_IN_LLVM, points=(0.02, 0.1, 0.3, 0.6))
        self.ends_soon(lambda: xyntra.Session(model, threads=1, backend="sim"), SOON_IN_LLVM, points=(0.05, 0.3))

    def test_no_artifact_is_left_half_written(self):
        model, output = pathlib.Path(self.folder.name, "deep.xir"), pathlib.Path(self.folder.name, "deep.xyn")
        model.write_bytes(layers(150))
        self.ends_soon(lambda: xyntra.compile(model, output), SOON_IN_LLVM, points=(0.1, 0.5))
        self.assertEqual([path.name for path in output.parent.iterdir() if path.name.startswith("deep.x")], ["deep.xir"])

    def test_other_threads_go_on(self):
        x = np.eye(512, dtype=np.float32)
        session = xyntra.Session(matmuls(60, 512), threads=1)
        made = []
        other = threading.Thread(target=lambda: [made.append(session.run(None, {"v0": x, "w": x})[0]) for _ in range(3)])
        other.start()
        with self.assertRaises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            while True:
                session.run(None, {"v0": x, "w": x})
        other.join()
        self.assertEqual(len(made), 3)
        for one in made:
            np.testing.assert_array_equal(one, x)

    def test_a_handler_that_raises_nothing_ends_nothing(self):
        handled = []
        signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))
        x = np.eye(1024, dtype=np.float32)
        session = xyntra.Session(matmuls(100, 1024), threads=1)
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        [y] = session.run(None, {"v0": x, "w": x})
        ended = time.monotonic()
        np.testing.assert_array_equal(y, x)
        self.assertEqual(len(handled), 1)
        self.assertLess(handled[0], began + 0.5 * (ended - began) + SOON)

    def test_another_exception_of_a_handler_is_what_is_raised(self):
        def handler(*_):
            raise LookupError("from a handler")

        signal.signal(signal.SIGALRM, handler)
        x = np.eye(1024, dtype=np.float32)
        session = xyntra.Session(matmuls(100, 1024), threads=1)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with self.assertRaisesRegex(LookupError, "from a handler"):
            session.run(None, {"v0": x, "w": x})


if __name__ == "__main__":
    unittest.main()
