import tempfile
import unittest
from pathlib import Path

from load_script import load

conformance = load("conformance")
EXPECTED = {"passed": ["a", "b"], "not_passed": {"c": "strings"}}


def results(**status):
    return [{"name": name, "status": value, "reason": "why"} for name, value in status.items()]


class Conformance(unittest.TestCase):
    def compare(self, **status):
        return conformance.compare(EXPECTED, results(**status))

    def test_as_listed(self):
        self.assertEqual(self.compare(a="passed", b="passed", c="skipped"), (2, [], 1, []))

    def test_regression_fails(self):
        _, failures, _, _ = self.compare(a="passed", b="failed", c="skipped")
        self.assertEqual(failures, ["b: failed, passed before: why"])

    def test_skipping_what_passed_is_a_regression(self):
        _, failures, _, _ = self.compare(a="passed", b="skipped", c="skipped")
        self.assertEqual(failures, ["b: skipped, passed before: why"])

    def test_a_test_that_was_not_run_fails(self):
        _, failures, _, _ = self.compare(a="passed", c="skipped")
        self.assertEqual(failures, ["b: in the list, but was not run"])

    def test_an_unlisted_failure_fails(self):
        _, failures, _, _ = self.compare(a="passed", b="passed", c="skipped", d="failed")
        self.assertEqual(failures, ["d: failed, not in the list: why"])

    def test_progress_is_noted(self):
        passed, failures, _, notes = self.compare(a="passed", b="passed", c="passed")
        self.assertEqual((passed, failures, len(notes)), (3, [], 1))

    def test_a_folder_must_pass_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "ab":
                (Path(folder) / name).mkdir()
                (Path(folder) / name / "model.onnx").touch()
            expected = conformance.all_pass(folder)
        _, failures, _, _ = conformance.compare(expected, results(a="passed"))
        self.assertEqual(failures, ["b: in the list, but was not run"])


if __name__ == "__main__":
    unittest.main()
