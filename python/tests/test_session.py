import pathlib
import tempfile
import threading
import unittest

import numpy as np
import xyntra

MODEL = pathlib.Path(__file__).resolve().parents[2] / "examples/use_library/affine.xir"
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
Y = np.array([[4.5, 4.5], [10.5, 10.5]], np.float32)


class Sessions(unittest.TestCase):
    def test_runs_all_or_named_outputs(self):
        session = xyntra.Session(MODEL, threads=1, dims={"rows": 2})
        y, largest = session.run(None, {"x": X})
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(largest, [[4.5], [10.5]])
        [again] = session.run(["largest"], {"x": X})
        np.testing.assert_array_equal(again, largest)

    def test_describes_the_model(self):
        session = xyntra.Session(MODEL, backend="reference")
        self.assertEqual(session.get_inputs(), [xyntra.Value("x", "tensor(float)", ("rows", 3))])
        self.assertEqual([value.name for value in session.get_outputs()], ["y", "largest"])

    def test_results_outlive_the_session(self):
        y = xyntra.Session(MODEL).run(["y"], {"x": X})[0]
        np.testing.assert_array_equal(y + 0, Y)

    def test_takes_strided_arrays_lists_and_dlpack(self):
        session = xyntra.Session(MODEL)
        wide = np.zeros((4, 6), np.float32)
        wide[::2, ::2] = X
        for given in (wide[::2, ::2], X.tolist(), np.asfortranarray(X)):
            np.testing.assert_array_equal(session.run(["y"], {"x": given})[0], Y)
        try:
            import torch
        except ImportError:
            return
        np.testing.assert_array_equal(session.run(["y"], {"x": torch.from_numpy(X)})[0], Y)
        np.testing.assert_array_equal(session.run(["y"], {"x": torch.from_numpy(X).requires_grad_()})[0], Y)

    def test_artifacts_are_written_and_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = xyntra.compile(MODEL, pathlib.Path(folder) / "affine.xyn", cpu=["native", "generic"], dims={"rows": (1, 4)})
            session = xyntra.Session(path)
            np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)
            self.assertEqual(session.get_inputs(), [xyntra.Value("x", "tensor(float)", ("rows", 3))])
            self.assertIn("MatMul", session.explain())
            with self.assertRaisesRegex(xyntra.UsageError, "compiled for 1 to 4"):
                session.run(None, {"x": np.ones((5, 3), np.float32)})
            with self.assertRaises(xyntra.UsageError):
                xyntra.Session(path, backend="reference")
            with self.assertRaisesRegex(xyntra.UsageError, "z80"):
                xyntra.compile(MODEL, path, cpu="z80")
            pathlib.Path(path).write_bytes(b"no artifact")
            with self.assertRaises(xyntra.BadModelError):
                xyntra.Session(path)

    def test_explains(self):
        self.assertIn("MatMul", xyntra.explain(MODEL))

    def test_failures_have_kinds(self):
        session = xyntra.Session(MODEL)
        with self.assertRaisesRegex(xyntra.UsageError, "the model has no input 'z'; it has x"):
            session.run(None, {"z": X})
        with self.assertRaisesRegex(ValueError, "input 'x' is missing"):
            session.run(None, {})
        with self.assertRaisesRegex(xyntra.UsageError, r"given f64\[2, 3\]"):
            session.run(None, {"x": X.astype(np.float64)})
        with self.assertRaises(xyntra.UsageError):
            session.run(["z"], {"x": X})
        with self.assertRaises(xyntra.Error):
            xyntra.Session("missing.onnx")
        with self.assertRaises(xyntra.UnsupportedError):
            xyntra.Session("model.pt2")

    def test_threads_share_a_session(self):
        session, wrong = xyntra.Session(MODEL, threads=1), []

        def work(number):
            for i in range(50):
                x = X.copy()
                x[0, 0] = number * 100 + i
                if session.run(["y"], {"x": x})[0][0, 0] != x[0, 0] + 3.5:
                    wrong.append((number, i))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
