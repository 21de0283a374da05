"""What callers get wrong, and what they may well do: each is an error of a kind of its own, or works."""
import array
import gc
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

import numpy as np
import xyntra

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/use_library"
MODEL, DECODER = FOLDER / "affine.xir", FOLDER / "cache.xir"
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tests/models_torchscript/stateful/model.pt"  # forward(x, rate: int)
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
Y = np.array([[4.5, 4.5], [10.5, 10.5]], np.float32)
SURROGATE = "\udc9b"


def double(dtype):
    return f"xir 1\ngraph @double(%x: {dtype}[n]) -> (%y) {{\n  %y: {dtype}[n] = Add(%x, %x)\n}}\n".encode()


class Arguments(unittest.TestCase):
    def refuses(self, call, *arguments, why="", **named):
        with self.assertRaisesRegex(xyntra.UsageError, why):
            call(*arguments, **named)

    def test_names_are_strings(self):
        session = xyntra.Session(MODEL, threads=1)
        for name in (1, None, b"x", ("x",), 2**63, np.str_, 1.5):
            self.refuses(session.run, None, {name: X}, why="the name of an input is a string")
            self.refuses(session.run, [name], {"x": X}, why="no output")
            self.refuses(xyntra.Session, MODEL, dims={name: 2}, why="the name of a size is a string")
        self.refuses(session.run, None, {"x\0": X}, why="NUL")
        self.refuses(session.run, None, {SURROGATE: X}, why="no Unicode")
        for names in ("y", 3, {"y": 1}):
            self.refuses(session.run, names, {"x": X}, why="a list or None")
        for feed in (None, X, [("x", X)], "x"):
            self.refuses(session.run, None, feed, why="arrays by name")
        self.assertEqual(len(session.run(["y", "y", "largest"], {"x": X})), 3)

    def test_inputs_of_torchscript_are_said(self):
        for x in ((2, 3), [2, 3], X, "f32[2, 3]"):
            session = xyntra.Session(SCRIPT, threads=1, inputs={"x": x, "rate": 10})
            self.assertEqual(session.get_inputs()[0].shape, (2, 3))
            self.assertEqual(session.run(None, {"x": X})[0].shape, (2, 4))
        if torch is not None:
            self.assertEqual(xyntra.Session(SCRIPT, inputs={"x": torch.ones(5, 3), "rate": 1}).get_inputs()[0].shape, (5, 3))
        self.refuses(xyntra.Session, SCRIPT, why="among the options' inputs: rate=VALUE")
        self.refuses(xyntra.Session, SCRIPT, inputs={"rate": 1}, why="among the options' inputs: x=f32")
        self.refuses(xyntra.Session, SCRIPT, inputs={"x": (2, 3), "rate": 1.5}, why="input 'rate' is of type int")
        self.refuses(xyntra.Session, SCRIPT, inputs={"x": (2, -3), "rate": 1}, why="a size of input 'x' is -3")
        self.refuses(xyntra.Session, SCRIPT, inputs={"x": (2, 3), "rate": None}, why="is given as NoneType")
        self.refuses(xyntra.Session, SCRIPT, inputs={"x": np.array(["a"]), "rate": 1}, why="no model takes")
        self.refuses(xyntra.Session, SCRIPT, inputs=[("x", (2, 3))], why="by name")
        self.refuses(xyntra.Session, MODEL, inputs={"x": (2, 3)}, why="TorchScript")

    def test_options_are_in_range(self):
        for number in (-1, -2**63, 2**63, 2**64, 10**30, 1.5, "2", None, [1]):
            self.refuses(xyntra.Session, MODEL, threads=number, why="threads is")
            self.refuses(xyntra.Session, MODEL, max_memory=number, why="max_memory is")
            self.refuses(xyntra.Session, MODEL, dims={"rows": number}, why="the size 'rows' is")
            self.refuses(xyntra.compile, MODEL, os.devnull, dims={"rows": (1, number)}, why="the size 'rows' is")
        self.refuses(xyntra.Session, MODEL, threads=2**31, why="from 0 to")
        for wrong in (3, None, b"cpu", "cpu\0", SURROGATE):
            self.refuses(xyntra.Session, MODEL, backend=wrong, why="backend")
            self.refuses(xyntra.Session, MODEL, precision=wrong, why="precision")
            self.refuses(xyntra.Session, MODEL, donate=[wrong], why="inputs to donate")
            self.refuses(xyntra.compile, MODEL, os.devnull, cpu=[wrong], why="CPUs")
        for wrong in (3, None, 1.5):
            self.refuses(xyntra.Session, MODEL, donate=wrong, why="inputs to donate")
            self.refuses(xyntra.compile, MODEL, os.devnull, cpu=wrong, why="CPUs")
        self.refuses(xyntra.Session, MODEL, dims=[2], why="sizes by name")
        self.refuses(xyntra.Session, MODEL, dims={"rows": (1, 2)}, why="whole number")
        xyntra.Session(MODEL, threads=np.int64(1), dims={"rows": np.int32(2)})

    def test_paths(self):
        for path in (None, 3, 1.5, ["model.onnx"], object()):
            self.refuses(xyntra.Session, path, why="no path")
            self.refuses(xyntra.compile, path, why="no path")
        for path in ("model\0.onnx", "\0", pathlib.Path("a\0.xir")):
            self.refuses(xyntra.Session, path, why="NUL")
            self.refuses(xyntra.compile, MODEL, path, why="NUL")
        self.refuses(xyntra.Session, "\ud800.onnx", why="no path")
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, os.fsdecode(b"\xff\xfe \xe2\x80\xae.xir"))  # no text, but a file name
            pathlib.Path(name).write_bytes(MODEL.read_bytes())
            np.testing.assert_array_equal(xyntra.Session(name).run(["y"], {"x": X})[0], Y)
            self.assertTrue(os.path.exists(xyntra.compile(name)))
            with self.assertRaises(xyntra.Error) as caught:
                xyntra.Session(name + "\u202e.onnx")
            self.assertNotRegex(str(caught.exception), "[\x00-\x1f\x80-\x9f\u202a-\u202e\u2066-\u2069]")

    def test_caches(self):
        memory = np.zeros((1, 2, 3, 4), np.float32)
        for axis, length in ((-1, 0), (4, 0), (2**63, 0), (2, -1), (2, 4), (2, 2**64), (None, 0), (2, None), (1.0, 0), ("2", 0)):
            self.refuses(xyntra.Cache, memory, axis, length)
        for wrong in (None, [1.0], 3):
            self.refuses(xyntra.Cache, wrong, 0, why="an array of NumPy's")
        session = xyntra.Session(DECODER, donate="*", threads=1)
        token = np.zeros((1, 2, 1, 4), np.float32)
        swapped = xyntra.Cache(memory.astype(">f4"), axis=2)
        self.refuses(session.run, None, {"token": token, "past": swapped}, why="byte order")
        cache = xyntra.Cache(memory, axis=2)
        self.refuses(session.run, None, {"token": cache, "past": cache})
        session.run(None, {"token": token, "past": cache})  # refusing let go of it
        self.assertEqual(cache.length, 1)


class Inputs(unittest.TestCase):
    def test_layouts(self):
        session = xyntra.Session(MODEL, threads=1)
        wide = np.zeros((4, 6), np.float32)
        wide[::2, ::2] = X
        read_only = X.copy()
        read_only.flags.writeable = False
        odd = np.frombuffer(b"." + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)  # not aligned
        for given in (wide[::2, ::2], np.ascontiguousarray(X[::-1])[::-1], X[:, ::-1].copy()[:, ::-1], np.asfortranarray(X), read_only, odd,
                      X.astype(">f4"), np.asfortranarray(X.astype(">f4")), X.tolist(), memoryview(X), np.ma.array(X)):
            np.testing.assert_array_equal(session.run(["y"], {"x": given})[0], Y)
        self.assertEqual(session.run(["y"], {"x": np.zeros((0, 3), np.float32)})[0].shape, (0, 2))
        self.assertEqual(session.run(["y"], {"x": np.broadcast_to(np.float32(1), (5, 3))})[0].shape, (5, 2))
        np.testing.assert_array_equal(xyntra.Session(double("i16")).run(None, {"x": array.array("h", [1, -2])})[0], [2, -4])

    def test_numbers_that_do_not_fit(self):
        for dtype, good, bad in (("i64", [2**63 - 1, -2**63, 7], [2**63, -2**63 - 1, 2**64, 10**40]), ("u64", [2**64 - 1, 0], [-1, 2**64]),
                                 ("u8", [255, 0], [256, -1, 2**63]), ("i32", [2**31 - 1], [2**31, 2**63])):
            session = xyntra.Session(double(dtype), threads=1)
            for number in good:
                with np.errstate(over="ignore"):
                    expected = np.array([number], session.run(None, {"x": [number]})[0].dtype)
                    np.testing.assert_array_equal(session.run(None, {"x": [number]})[0], expected + expected)
            for number in (*bad, 1.5, float("nan"), 1j, "7", None):
                with self.assertRaises(xyntra.UsageError, msg=f"{dtype} {number}"):
                    session.run(None, {"x": [number]})

    def test_what_no_model_takes(self):
        session = xyntra.Session(MODEL, threads=1)
        masked = np.ma.array(X, mask=X > 3)
        for wrong in (None, object(), "text", b"bytes", [[1, 2], [3]], [None], {"x": 1}, {1}, 1j, np.array([[1j]]), np.array(["a"]), np.array([None]),
                      np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", "f4")]), masked, X.astype(np.longdouble), X.astype(">f8"), X.astype(np.float64),
                      X.astype(np.int32), X[None], X[:, :2], np.float32(1), [[]]):
            with self.assertRaises(xyntra.UsageError, msg=repr(wrong)):
                session.run(None, {"x": wrong})

    @unittest.skipIf(ml_dtypes is None, "there is no ml_dtypes")
    def test_bf16_of_ml_dtypes(self):
        session = xyntra.Session(double("bf16"), threads=1)
        x = np.array([1, 2.5, -3, 4], ml_dtypes.bfloat16)
        for given in (x, x[::2], x[::-1], np.stack([x, x], 1)[:, 1]):
            [y] = session.run(None, {"x": given})
            self.assertEqual(y.dtype, ml_dtypes.bfloat16)
            np.testing.assert_array_equal(y.astype(np.float32), 2 * given.astype(np.float32))
        self.assertEqual(session.run(None, {"x": x[:0]})[0].shape, (0,))
        with self.assertRaisesRegex(xyntra.UsageError, r"given bf16\[4\]"):
            xyntra.Session(double("f32")).run(None, {"x": x})
        with self.assertRaisesRegex(xyntra.UsageError, r"given f32\[4\]"):
            session.run(None, {"x": x.astype(np.float32)})
        with self.assertRaises(xyntra.UsageError):
            session.run(None, {"x": np.zeros(4, ml_dtypes.int4)})

    @unittest.skipIf(torch is None, "there is no torch")
    def test_bf16_of_torch(self):
        [y] = xyntra.Session(double("bf16"), threads=1).run(None, {"x": torch.tensor([1, 2.5], dtype=torch.bfloat16)})
        np.testing.assert_array_equal(y.astype(np.float32), [2, 5])


class Contents(unittest.TestCase):
    def test_models_from_bytes(self):
        text = MODEL.read_bytes()
        for content in (text, bytearray(text), memoryview(text)):
            np.testing.assert_array_equal(xyntra.Session(content, threads=1).run(["y"], {"x": X})[0], Y)
        with tempfile.TemporaryDirectory() as folder:
            artifact = pathlib.Path(xyntra.compile(MODEL, os.path.join(folder, "affine.xyn"))).read_bytes()
        session = xyntra.Session(artifact)
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)
        self.assertEqual(session.counts()["compiles"], 0)
        for content in (b"", b"\0" * 100, b"xir 1", b"xir 9", text[:-5], b"PK\3\4", artifact[:-1], artifact[:5000], b"<html>", bytes(range(256))):
            with self.assertRaises(xyntra.BadModelError, msg=repr(content[:20])):
                xyntra.Session(content)

    def test_onnx_from_bytes(self):
        try:
            import onnx
            from onnx import TensorProto, helper
        except ImportError:
            self.skipTest("there is no onnx")
        weight = helper.make_tensor("w", TensorProto.FLOAT, [3], np.float32([1, 2, 3]).tobytes(), raw=True)
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3]), helper.make_tensor_value_info("w", TensorProto.FLOAT, [3])],
                                  [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        for backend in ("cpu", "reference"):
            y, w = xyntra.Session(model.SerializeToString(), backend=backend).run(None, {"x": [1, 1, 1]})
            gc.collect()  # the session is gone, and with it the only owner of the bytes but the results
            np.testing.assert_array_equal(y, [2, 3, 4])
            np.testing.assert_array_equal(w, [1, 2, 3])
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="/etc/passwd")
        graph.initializer[0].CopyFrom(weight)
        model.graph.CopyFrom(graph)
        with self.assertRaises((xyntra.BadModelError, xyntra.UnsupportedError)):
            xyntra.Session(model.SerializeToString())


class Lifetimes(unittest.TestCase):
    def test_results_are_nobody_elses_memory(self):
        text = (b"xir 1\ngraph @g(%x: f32[n]) -> (%x, %r, %y) {\n  const %s: i64[2] = [1, -1]\n  %r: f32[1, n] = Reshape(%x, %s)\n"
                b"  %y: f32[n] = Neg(%x)\n}\n")
        for backend in ("cpu", "reference", "fused"):
            given = np.arange(4, dtype=np.float32)
            made = xyntra.Session(text, backend=backend, threads=1).run(None, {"x": given})
            given[:] = 99
            gc.collect()
            for result, expected in zip(made, ([0, 1, 2, 3], [[0, 1, 2, 3]], [0, -1, -2, -3])):
                np.testing.assert_array_equal(result, expected, err_msg=backend)
                result[...] = 5  # is the caller's

    def test_results_of_one_run_outlive_the_next(self):
        session = xyntra.Session(MODEL, threads=1)
        kept = [session.run(["y"], {"x": X + i})[0] for i in range(5)]
        del session
        gc.collect()
        for i, y in enumerate(kept):
            np.testing.assert_array_equal(y, xyntra.Session(MODEL, threads=1).run(["y"], {"x": X + i})[0])


class Threads(unittest.TestCase):
    def test_three_threads_share_a_cache(self):
        steps, count = 40, 3
        for capacity in (steps * count, 8):  # in place always, and with memory taken over now and then
            session = xyntra.Session(DECODER, donate="*", threads=1)
            cache = xyntra.Cache(np.zeros((1, 2, capacity, 4), np.float32), axis=2)
            problems = []

            def work(number, session=session, cache=cache, problems=problems):
                try:
                    for step in range(steps):
                        session.run(None, {"token": np.full((1, 2, 1, 4), number * 1000 + step, np.float32), "past": cache})
                except Exception as problem:  # noqa: BLE001, whatever it is
                    problems.append(problem)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(problems, [])
            rows = cache.array[0, 0, :, 0]
            self.assertEqual(sorted(rows), sorted(number * 1000 + step for number in range(count) for step in range(steps)))
            for number in range(count):
                self.assertEqual([row for row in rows if row // 1000 == number], [number * 1000 + step for step in range(steps)])

    def test_sessions_are_made_and_dropped_by_threads(self):
        wrong = []

        def work(number):
            for i in range(5):
                y = xyntra.Session(MODEL, threads=1 + number % 2).run(["y"], {"x": X + i})[0]
                if not np.isfinite(y).all():
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_interrupts_of_short_runs_are_raised(self):
        session = xyntra.Session(double("f32"), threads=1)
        x = np.ones(1 << 22, np.float32)
        interrupted = 0
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for _ in range(20):
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                try:
                    began = time.monotonic()
                    while time.monotonic() < began + 1:
                        session.run(None, {"x": x})
                except KeyboardInterrupt:
                    interrupted += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(interrupted, 20)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + x)


class Anything(unittest.TestCase):
    """Values of every kind in every place, by a seed: an error of ours, or it works."""

    def test_anything_anywhere(self):
        draw = random.Random(21)
        values = [None, True, 0, 1, -1, 3, 2**31, 2**63 - 1, 2**63, 2**64, -2**63, 1e300, float("nan"), 1j, "", "x", "y", "rows", "cpu", "*", "\0", SURROGATE,
                  "\u202e", b"", b"x", b"\x9b", X, X.T, X[:1], X.astype(">f4"), X.astype(np.int64), X[::-1], np.float32(1), np.array(None), np.zeros((0, 3), np.float32),
                  [], [1, 2, 3], [[1, 2, 3]], (1, 2), {}, {"x": X}, {"rows": 2}, {1: 2}, object(), int, lambda: 3, pathlib.Path("x"), MODEL, str(MODEL),
                  memoryview(b"xir 1"), bytearray(b"\x08\x01"), range(3), {1, 2}, np.dtype("f4"), xyntra.Cache(X.copy(), 0)]
        session = xyntra.Session(MODEL, threads=1)

        def anything():
            return draw.choice(values)

        def key():
            made = anything()
            try:
                hash(made)
            except TypeError:
                return "x"
            return made

        calls = [lambda: session.run(anything(), anything()), lambda: session.run(None, {key(): anything(), key(): anything()}),
                 lambda: session.run([anything()], {"x": X}), lambda: session.run(None, {"x": anything()}), lambda: xyntra.Cache(anything(), anything(), anything()),
                 lambda: xyntra.Session(anything(), threads=1), lambda: xyntra.Session(MODEL, backend=anything(), threads=1),
                 lambda: xyntra.Session(MODEL, threads=draw.choice([0, 1, anything()]) if draw.random() < 0.1 else 1, dims=anything()),
                 lambda: xyntra.Session(MODEL, threads=1, dims={key(): anything()}), lambda: xyntra.Session(MODEL, threads=1, max_memory=anything()),
                 lambda: xyntra.Session(MODEL, threads=1, precision=anything()), lambda: xyntra.Session(MODEL, threads=1, donate=anything()),
                 lambda: xyntra.compile(anything(), os.devnull), lambda: xyntra.compile(MODEL, os.devnull, cpu=anything()), lambda: xyntra.explain(anything())]
        worked = 0
        for number in range(400):
            call = draw.randrange(len(calls))
            try:
                calls[call]()
                worked += 1
            except xyntra.Error as problem:
                self.assertNotIsInstance(problem, xyntra.InternalError, msg=f"{number}, call {call}")
                self.assertNotRegex(str(problem), "[\x80-\x9f\u202e]", msg=f"{number}, call {call}")
            except Exception as problem:  # noqa: BLE001
                self.fail(f"{number}, call {call}: {type(problem).__name__}: {problem}")
        self.assertGreater(worked, 10)
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)


if __name__ == "__main__":
    unittest.main()
