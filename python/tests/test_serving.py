"""What servers and notebooks use of a session: bound memory, asyncio, forks, timings, explanations."""

import asyncio
import os
import pathlib
import threading
import time
import unittest

import numpy as np
import xyntra

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
MODEL = EXAMPLES / "use_library/affine.xir"
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
Y = np.array([[4.5, 4.5], [10.5, 10.5]], np.float32)


class Bindings(unittest.TestCase):
    def setUp(self):
        self.session = xyntra.Session(MODEL)
        self.binding = self.session.io_binding()

    def test_results_are_written_where_they_are_bound(self):
        x, y, largest = X.copy(), np.zeros((2, 2), np.float32), np.zeros((2, 1), np.float32)
        self.binding.bind_input("x", x)
        self.binding.bind_output("y", y)
        self.binding.bind_output("largest", largest)
        for _ in range(2):
            self.session.run_with_iobinding(self.binding)
            np.testing.assert_array_equal(y, self.session.run(["y"], {"x": x})[0])
            self.assertIs(self.binding.get_outputs()[0], y)
            x += 1

    def test_outputs_bound_by_name_get_memory(self):
        y = np.zeros((2, 2), np.float32)
        self.binding.bind_input("x", X)
        self.binding.bind_output("largest")
        self.binding.bind_output("y", y)
        self.session.run_with_iobinding(self.binding)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(self.binding.get_outputs()[0], [[4.5], [10.5]])

    def test_torch_tensors_are_bound(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        y = torch.zeros(2, 2)
        self.binding.bind_input("x", torch.from_numpy(X))
        self.binding.bind_output("y", y)
        self.session.run_with_iobinding(self.binding)
        np.testing.assert_array_equal(y.numpy(), Y)

    def test_what_does_not_fit_is_refused(self):
        read_only = np.zeros((2, 2), np.float32)
        read_only.flags.writeable = False
        for wrong in (read_only, np.zeros((4, 4), np.float32)[::2, ::2], "text"):
            with self.assertRaisesRegex(xyntra.UsageError, "output 'y' is bound to"):
                self.binding.bind_output("y", wrong)
        with self.assertRaisesRegex(xyntra.UsageError, "the model has no output 'z'; it has y, largest"):
            self.binding.bind_output("z")
        with self.assertRaisesRegex(xyntra.UsageError, "the model has no input 'z'; it has x"):
            self.binding.bind_input("z", X)
        with self.assertRaisesRegex(xyntra.UsageError, "none of this session"):
            xyntra.Session(MODEL).run_with_iobinding(self.binding)
        self.binding.bind_input("x", X)
        self.binding.bind_output("y", np.zeros((3, 2), np.float32))
        with self.assertRaisesRegex(xyntra.UsageError, "output 'y' is f32"):
            self.session.run_with_iobinding(self.binding)
        self.binding.bind_output("largest")
        with self.assertRaisesRegex(xyntra.UsageError, r"output 'y' is float32\[2, 2\]"):
            self.session.run_with_iobinding(self.binding)


def resident():
    """Bytes of this process that are in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Endurance(unittest.TestCase):
    """Ten thousand calls of one session, of the bundled encoder at several sizes."""

    def setUp(self):
        self.session = xyntra.Session(EXAMPLES / "models/encoder.onnx", threads=2)
        rng = np.random.default_rng(7)
        self.feeds = [{"x": rng.standard_normal((1, length, 64), np.float32), "mask": rng.random((1, length)) < 0.8} for length in (4, 7, 16)]
        for feed in self.feeds:
            feed["mask"][:, 0] = True

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "no /proc here")
    def test_memory_and_time_are_flat(self):
        def thousand():
            began = time.process_time()
            for step in range(1000):
                self.session.run(None, self.feeds[step % len(self.feeds)])
            return time.process_time() - began

        thousand()
        before = resident()
        times = [thousand() for _ in range(9)]
        self.assertLess(resident() - before, 8e6)
        self.assertLess(min(times[5:]), 1.5 * min(times[:4]))  # the fastest: others work on this machine, too

    def test_two_threads_have_the_bits_of_one(self):
        expected = [self.session.run(None, feed)[0] for feed in self.feeds]
        wrong = []

        def work(first):
            for step in range(300):
                place = (first + step) % len(self.feeds)
                if not np.array_equal(self.session.run(None, self.feeds[place])[0], expected[place]):
                    wrong.append(place)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(wrong, [])


class Serving(unittest.TestCase):
    def test_runs_beside_an_event_loop(self):
        session = xyntra.Session(MODEL, threads=1)

        async def many():
            return await asyncio.gather(*(session.run_async(["y"], {"x": X + step}) for step in range(8)))

        for step, [y] in enumerate(asyncio.run(many())):
            np.testing.assert_array_equal(y, session.run(["y"], {"x": X + step})[0])

    def test_failures_of_a_run_reach_whoever_awaits_it(self):
        async def wrong():
            await xyntra.Session(MODEL).run_async(None, {"z": X})

        with self.assertRaisesRegex(xyntra.UsageError, "no input 'z'"):
            asyncio.run(wrong())

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_forked_child_runs_and_compiles(self):
        session = xyntra.Session(EXAMPLES / "models/encoder.onnx", threads=2)
        feed = {"x": np.ones((2, 16, 64), np.float32), "mask": np.ones((2, 16), bool)}
        feed = {value.name: feed[value.name] for value in session.get_inputs()}
        expected = session.run(None, feed)[0]
        child = os.fork()
        if child == 0:
            same = np.array_equal(session.run(None, feed)[0], expected)
            same = same and np.array_equal(xyntra.Session(MODEL, threads=2).run(["y"], {"x": X})[0], Y)
            os._exit(0 if same else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_runs_are_timed(self):
        timings = xyntra.Session(MODEL).bench({"x": X}, runs=20, warm_up=1)
        self.assertEqual(len(timings.seconds), 20)
        self.assertTrue(0 < min(timings.seconds) <= timings.median <= timings.percentile(99))
        self.assertIn("20 runs", str(timings))
        with self.assertRaisesRegex(xyntra.UsageError, "runs is 0"):
            xyntra.Session(MODEL).bench({"x": X}, runs=0)




class Explanations(unittest.TestCase):
    def test_a_notebook_shows_kernels_and_their_graph(self):
        explanation = xyntra.explain(EXAMPLES / "models/encoder.onnx")
        self.assertIn("LayerNormalization", explanation)
        self.assertEqual(explanation.plan["totals"]["kernels"], 5)
        shown = explanation._repr_html_()
        self.assertEqual(shown.count("<tr>"), 1 + len(explanation.plan["groups"]))
        self.assertEqual(shown.count("<circle"), len(explanation.plan["groups"]))
        self.assertIn("<path", shown)

    def test_what_comes_from_a_model_is_escaped(self):
        from xyntra.explanation import plan_html

        plan = xyntra.explain(MODEL).plan
        plan["target"] = plan["groups"][0]["hero"] = "<script>alert(1)</script>"
        plan["groups"][0]["ops"].append("<img src=x>")
        shown = plan_html(plan)
        self.assertNotIn("<script", shown)
        self.assertNotIn("<img", shown)
        self.assertIn("&lt;script&gt;", shown)


if __name__ == "__main__":
    unittest.main()
