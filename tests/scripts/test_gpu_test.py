"""What scripts/test_gpu makes of what suites print."""
import unittest

from load_script import load

test_gpu = load("test_gpu")

PASSES = """[==========] 9 tests from 1 test suite ran. (812 ms total)
[  PASSED  ] 8 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] PtxSemantics.Clusters
""".rstrip().split("\n")
FAILS = """[  FAILED  ] PtxSemantics.Casts (3 ms)
[  PASSED  ] 7 tests.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] PtxSemantics.Casts
[  FAILED  ] PtxSemantics.Functions
""".rstrip().split("\n")


class Counts(unittest.TestCase):
    def test_our_own_last_line(self):
        self.assertEqual(test_gpu.counts_of(["ok", "12 passed, 0 failed, 3 skipped"]), (12, 0, 3))

    def test_google_test(self):
        self.assertEqual(test_gpu.counts_of(PASSES), (8, 0, 1))
        self.assertEqual(test_gpu.counts_of(FAILS), (7, 2, 0))

    def test_a_suite_that_died(self):
        self.assertIsNone(test_gpu.counts_of(["Segmentation fault"]))
        self.assertEqual(test_gpu.run(["sh", "-c", "printf '[  PASSED  ] 8 tests.\\n'"])[0][:3], (8, 0, 0))
        self.assertEqual(test_gpu.run(["sh", "-c", "printf '[  PASSED  ] 8 tests.\\n'; exit 1"])[0][:3], (8, 1, 0))


if __name__ == "__main__":
    unittest.main()
