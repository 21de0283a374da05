import sys
import unittest

from load_script import ROOT

sys.path.insert(0, str(ROOT / "bench"))
try:
    import numpy as np
    from harness import timing
except ImportError:
    timing = None


@unittest.skipIf(timing is None, "there is no numpy")
class Compare(unittest.TestCase):
    def test_errors_are_shares_of_the_largest_element(self):
        theirs = [np.array([4.0, np.nan, 2.0], np.float32)]
        self.assertEqual(timing.error_of([np.array([4.0, np.nan, 1.0], np.float32)], theirs), 0.25)
        self.assertEqual(timing.error_of([np.array([4.0, 0.0, 2.0], np.float32)], theirs), float("inf"))
        self.assertEqual(timing.error_of([np.zeros((1, 3), np.float32)], theirs), float("inf"))
        self.assertEqual(timing.error_of([], theirs), float("inf"))

    def test_a_ratio_lies_within_its_interval(self):
        rng = np.random.default_rng(1)
        ours = 1 + 0.1 * rng.random(31)
        ratio, low, high = timing.ratio(2 * ours * (1 + 0.05 * rng.standard_normal(31)), ours)
        self.assertLess(low, ratio)
        self.assertLess(ratio, high)
        self.assertTrue(1.9 < low and high < 2.1)

    def test_everybody_runs_on_every_input_and_the_first_changes(self):
        timing.WARM_UP_SECONDS, log = 0, []
        runners = [[lambda who=who, feed=feed: log.append((who, feed)) for feed in range(2)] for who in range(2)]
        times = timing.interleave(runners, 4, 60, 1)
        self.assertEqual(times.shape, (4, 2))
        self.assertEqual(set(log), {(0, 0), (0, 1), (1, 0), (1, 1)})
        timed = log[2:]  # after the warm-up; short calls run twice
        self.assertEqual([who for who, _ in timed[:8]], [0, 0, 1, 1, 1, 1, 0, 0])


if __name__ == "__main__":
    unittest.main()
