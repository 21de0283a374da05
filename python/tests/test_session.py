import pathlib
import tempfile
import threading
import unittest

import numpy as np
import xyntra

MODEL = pathlib.Path(__file__).resolve().parents[2] / "examples/use_library/affine.xir"
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
Y = np.array([[4.5, 4.5], [10.5, 10.5]], np.float32)


DECODER = MODEL.with_name("cache.xir")


class Caches(unittest.TestCase):
    def test_a_cache_grows_where_it_is(self):
        session = xyntra.Session(DECODER, donate="*")
        self.assertEqual(session.get_extensions(), [("past", "present", 2)])
        cache = xyntra.Cache(np.full((1, 2, 3, 4), np.nan, np.float32), axis=2)
        memory = cache.memory
        for step in range(5):
            token = np.full((1, 2, 1, 4), step, np.float32)
            attended, present = session.run(None, {"token": token, "past": cache})
            self.assertEqual((cache.length, present.shape), (step + 1, (1, 2, step + 1, 4)))
            self.assertTrue(np.shares_memory(present, cache.memory))
            self.assertEqual(cache.memory is memory, step < 3)
            np.testing.assert_array_equal(present[0, 1, :, 0], np.arange(step + 1))
            again = session.run(None, {"token": token, "past": present[:, :, :-1]})  # lent
            np.testing.assert_allclose(attended, again[0], rtol=1e-6)
        self.assertEqual(session.counts()["copies"], 5 + 2)

    def test_what_is_no_cache_is_refused(self):
        session = xyntra.Session(DECODER, donate=["past"])
        token = np.zeros((1, 2, 1, 4), np.float32)
        memory = np.zeros((1, 2, 3, 4), np.float32)
        read_only = memory.copy()
        read_only.flags.writeable = False
        for wrong, why in ((memory[:, :, ::2], "no dense, writable"), (read_only, "no dense, writable"),
                           (memory.astype(np.float64), "given f64"), (np.zeros((2, 2, 3, 4), np.float32), "given f32")):
            with self.assertRaisesRegex(xyntra.UsageError, why):
                session.run(None, {"token": token, "past": xyntra.Cache(wrong, axis=2)})
        with self.assertRaisesRegex(xyntra.UsageError, "grows along axis 2"):
            session.run(None, {"token": token, "past": xyntra.Cache(memory, axis=1)})
        with self.assertRaises(xyntra.UsageError):
            xyntra.Cache(memory, axis=2, length=4)
        with self.assertRaisesRegex(xyntra.UsageError, "cannot be donated"):
            xyntra.Session(DECODER).run(None, {"token": token, "past": xyntra.Cache(memory, axis=2)})


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
        with self.assertRaises(xyntra.UsageError):
            xyntra.Session("missing.pt2")
        with self.assertRaises(xyntra.BadModelError):
            xyntra.Session(b"PK\x03\x04 an archive of nothing")

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
