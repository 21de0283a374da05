"""The tester of random graphs: what it draws, and what it calls a failure."""
import pathlib
import sys
import tempfile
import unittest

from load_script import ROOT

sys.path.insert(0, str(ROOT / "tests/attack"))
try:
    import numpy as np

    import check
    import generator
    import judge
    from draw import Draw
    from runner import Answer
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from missing


class Stub:
    """Answers as a command does whose own form fails: an internal error, or the answer of a plainer form."""

    def __init__(self, outputs):
        self.outputs = outputs

    def write(self, model, feed):
        pass

    def run(self, names, flags, serve=False):
        return Answer("done", outputs=self.outputs) if serve else Answer("internal", "a form failed")


def verdict(serves, shift=0):
    draw = Draw((1, 2))
    [value] = draw.emit("Abs", [draw.fresh((2, 3), "int64", constant=False)])
    draw.graph.outputs = [value.name]
    for leaf in draw.graph.leaves.values():
        leaf.dims = list(leaf.array.shape)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        checker = check.Checker(path / "xyntra", path, path, ["cpu"], reduce=False, serves=serves)
        checker.runner = Stub({value.name: value.array + np.int64(shift)})
        return checker.check(1, 2, draw.graph, draw)


def allowed_after_subnormals(flags):
    """How far Sqrt(Floor(x)) may be off where x is -1e-40, which a shader may take for 0, and where it is -2.5."""
    draw = Draw((1, 2))
    x = draw.leaf(np.array([-1e-40, -2.5, 4.0], np.float32), constant=False)
    [floor] = draw.emit("Floor", [x])
    [root] = draw.emit("Sqrt", [floor])
    [less] = draw.emit("Less", [floor, draw.leaf(np.array([-0.5], np.float32))])
    draw.graph.outputs = [root.name, less.name]
    found = judge.tolerances(draw.graph, draw.values(), draw.peers, judge.freedom_of(flags))
    return [float(v) for v in found[root.name]], [bool(v) for v in found[less.name] >= 1]


class Attack(unittest.TestCase):
    def test_what_follows_a_subnormal_is_free_on_shaders_alone(self):
        root, less = allowed_after_subnormals(["--backend", "cpu"])
        self.assertEqual((root, less), ([0, 0, 0], [False] * 3))
        root, less = allowed_after_subnormals(["--backend", "wgsl"])
        self.assertEqual((root[0], root[1] < 1e-5, less), (np.inf, True, [True, False, False]))

    def test_draws_every_operator_of_the_reference_page(self):
        page = ROOT / "docs/reference/operators.md"
        self.assertEqual([op for op in generator.claimed(page) if op not in generator.MAKERS], [])

    def test_a_right_answer_by_a_fallback_fails(self):
        failed = verdict(serves=False)
        self.assertEqual((failed.status, failed.fallbacks), ("failed", ["a form failed"]))
        self.assertTrue(failed.text.startswith("fallback "), failed.text)

    def test_fallbacks_can_be_counted_instead(self):
        passed = verdict(serves=True)
        self.assertEqual((passed.status, passed.fallbacks), ("passed", ["a form failed"]))

    def test_a_wrong_answer_by_a_fallback_is_wrong(self):
        self.assertTrue(verdict(serves=True, shift=1).text.startswith("wrong "))


if __name__ == "__main__":
    unittest.main()
