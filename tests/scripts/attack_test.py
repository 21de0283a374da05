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
    import peers
    import specification
    from draw import Draw
    from runner import Answer
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from missing


class Stub:
    """Answers as a command does whose own form fails: an internal error, or the answer of a plainer form. One that does not fail always
    answers."""

    def __init__(self, outputs, fails=True):
        self.outputs, self.fails = outputs, fails

    def write(self, model, feed):
        pass

    def run(self, names, flags, serve=False):
        return Answer("done", outputs=self.outputs) if serve or not self.fails else Answer("internal", "a form failed")


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


def quotient_of_logarithm(x):
    """How far Log(Exp(x)) / Log(Exp(x)) may be off."""
    draw = Draw((1, 2))
    [power] = draw.emit("Exp", [draw.leaf(np.array(x, np.float32), constant=False)])
    [logarithm] = draw.emit("Log", [power])
    [one] = draw.emit("Div", [logarithm, logarithm])
    draw.graph.outputs = [one.name]
    return judge.tolerances(draw.graph, draw.values(), draw.peers, runs=24)[one.name]


def quotient_by_least(x, y):
    """How far 1 / Min(x, y) may be off."""
    draw = Draw((1, 2))
    a, b, one = (draw.leaf(np.array(v, np.float32), constant=False) for v in (x, y, np.ones(len(x))))
    [least] = draw.emit("Min", [a, b])
    [quotient] = draw.emit("Div", [one, least])
    draw.graph.outputs = [quotient.name]
    return judge.tolerances(draw.graph, draw.values(), draw.peers, runs=24)[quotient.name]


def slope_and_back(change, steps):
    """Differences of `change`(LeakyRelu(x) / x) for x behind `steps`: the quotient is 0.01 but for one of 20 x, where it is beside it."""
    draw = Draw((1, 2))
    value = draw.leaf(-np.random.default_rng(5).uniform(1, 2, 400).astype(np.float32), constant=False)
    for op in steps:
        [value] = draw.emit(op, [value])
    [leaky] = draw.emit("LeakyRelu", [value])
    [slope] = draw.emit("Div", [leaky, value])
    draw.graph.outputs = [slope.name]
    right = draw.values()
    ours = {slope.name: change(right[slope.name])}
    return judge.differences(ours, right, judge.tolerances(draw.graph, right, draw.peers))


def verdict_on_group_norm(change):
    """Of float64, with a mean that is large beside the deviation; `change` makes our answer of the right one."""
    draw = Draw((1, 2), oldest=21)
    rng = np.random.default_rng(3)
    x = draw.leaf(1000 + rng.standard_normal((2, 4, 3)), constant=False)
    scale, bias = (draw.leaf(rng.standard_normal(4)) for _ in range(2))
    [value] = draw.emit("GroupNormalization", [x, scale, bias], {"num_groups": 2})
    draw.graph.outputs = [value.name]
    for leaf in draw.graph.leaves.values():
        leaf.dims = list(leaf.array.shape)
    right = specification.group_norm({"num_groups": 2}, x.array, scale.array, bias.array)
    given = {v.name: v.array for v in (x, scale, bias)}
    runtime = peers.Peer(draw.graph.steps[-1], 21, given).run(given, "ONNX Runtime")[value.name]
    assert np.abs(right - runtime).max() > 1e-5, "the peer computes it in float64, too"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        checker = check.Checker(path / "xyntra", path, path, ["cpu"], reduce=False)
        checker.runner = Stub({value.name: change(right)}, fails=False)
        return checker.check(1, 2, draw.graph, draw)


class Attack(unittest.TestCase):
    def test_what_is_beside_a_whole_number_may_be_it(self):
        allowed = quotient_of_logarithm([1e-8, -1e-7, 1.5e-7, 0.5, 3.0])
        self.assertEqual(list(np.isinf(allowed)), [True, True, True, False, False])
        self.assertLess(allowed[3:].max(), 1e-5)

    def test_either_zero_may_be_the_least(self):
        allowed = quotient_by_least([0.0, 1.0, -2.0], [-0.0, 2.0, 0.0])
        self.assertEqual(list(np.isinf(allowed)), [True, False, False])
        self.assertEqual(list(allowed[1:]), [0, 0])

    def test_exact_operations_behind_noise_may_round_otherwise(self):
        beside = lambda right: np.nextafter(right, np.float32(0))
        self.assertEqual(slope_and_back(beside, ["Sin"]), [])
        self.assertNotEqual(slope_and_back(beside, []), [])  # nothing is free before them
        for factor in (1 + 1e-6, 1.001):
            self.assertNotEqual(slope_and_back(lambda right: right * np.float32(factor), ["Sin"]), [])

    def test_what_peers_compute_in_float32_is_judged_by_its_formula(self):
        self.assertEqual(verdict_on_group_norm(lambda right: right).status, "passed")
        for change in (lambda right: right + 1e-3, lambda right: right * 1.001, lambda right: right[:, ::-1], np.zeros_like):
            self.assertEqual(verdict_on_group_norm(change).status, "failed")

    def test_infinities_have_a_log_sum_exp(self):
        x = np.array([[-np.inf, -np.inf], [-np.inf, 2.0], [np.inf, 1.0], [0.0, 0.0]], np.float32)
        found = specification.log_sum_exp({"axes": [1], "keepdims": 0}, x)
        np.testing.assert_array_equal(found, np.array([-np.inf, 2.0, np.inf, np.log(2)], np.float32))
        np.testing.assert_array_equal(specification.log_sum_exp({"noop_with_empty_axes": 1}, x), x)
        self.assertEqual(specification.log_sum_exp({}, x[3:]).shape, (1, 1))

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
