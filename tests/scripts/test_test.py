import unittest
from unittest import mock

from load_script import load

test = load("test")


def outcome(lane, text, exit_code=0, ci=False):
    with mock.patch.object(test, "SKIPPING_FAILS", ci):
        return test.outcome_of(test.Job(lane, lane, []), exit_code, text)


def counts(found):
    return found.passed, found.failed, found.skipped


class Lanes(unittest.TestCase):
    SKIPPED = "skipped: no Chromium here\n0 passed, 0 failed, 6 skipped\n"

    def test_a_lane_is_counted_by_its_last_line(self):
        found = outcome("golden", "a line\n7 passed, 0 failed, 2 skipped\n")
        self.assertEqual((counts(found), found.reason), ((7, 0, 2), ""))

    def test_what_is_not_installed_is_one_line(self):
        found = outcome("web", self.SKIPPED)
        self.assertEqual((counts(found), found.reason), ((0, 0, 6), "skipped: no Chromium here"))

    def test_what_is_not_installed_is_a_failure_in_ci(self):
        found = outcome("web", self.SKIPPED, ci=True)
        self.assertEqual(found.failed, 1)
        self.assertIn("CI is set", found.reason)

    def test_a_part_that_was_skipped_is_no_failure_in_ci(self):
        found = outcome("hostile", "skipped: 2 of 9 cases, because 15 s were over\n7 passed, 0 failed, 2 skipped\n", ci=True)
        self.assertEqual((counts(found), found.reason), ((7, 0, 2), "skipped: 2 of 9 cases, because 15 s were over"))

    def test_a_lane_that_needs_nothing_must_run(self):
        self.assertEqual(outcome("golden", "0 passed, 0 failed, 3 skipped").failed, 1)
        self.assertEqual(outcome("web", "0 passed, 0 failed, 0 skipped").failed, 1)

    def test_a_lane_that_dies_fails(self):
        self.assertEqual(outcome("golden", "Segmentation fault", exit_code=-11).failed, 1)
        self.assertEqual(outcome("golden", "7 passed, 0 failed, 0 skipped", exit_code=1).failed, 1)

    def test_every_lane_has_jobs(self):
        jobs = test.make_jobs(test.LANES + test.LONG_LANES, test.ROOT / "build/release", test.ROOT, [])
        self.assertEqual({job.lane for job in jobs}, {*test.LANES, *test.LONG_LANES})


if __name__ == "__main__":
    unittest.main()
