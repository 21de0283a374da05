import tempfile
import unittest
from pathlib import Path

from load_script import load

golden = load("golden")

# Stands in for the command: prints files, fails on request, burns time or memory.
COMMAND = """#!/bin/sh
case $1 in
  show) cat "$2" ;;
  fail) echo "error: $2: bad" >&2; exit 4 ;;
  where) pwd; echo "$SETTING" ;;
  spin) i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 4 ;;
esac
"""


class Golden(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.command = self.root / "xyntra"
        self.command.write_text(COMMAND)
        self.command.chmod(0o755)

    def run_test(self, text, folder="golden", update=False):
        self.path = self.root / folder / "case.test"
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(text)
        return golden.Runner(self.command, update, sanitized=False).run(self.path)

    def test_equal_output_passes(self):
        self.assertIsNone(self.run_test("# why\n# FILE: a\nx\ny\n# RUN: xyntra show %s\n# OUT:\nx\ny\n"))

    def test_different_output_shows_a_diff(self):
        self.assertIn("-y\n+x", self.run_test("# FILE: a\nx\n# RUN: xyntra show a\n# OUT:\ny\n"))

    def test_output_without_expectation_fails(self):
        self.assertIn("+x", self.run_test("# FILE: a\nx\n# RUN: xyntra show a\n"))

    def test_patterns_match_inside_a_line_only(self):
        self.assertIsNone(self.run_test("# FILE: a\nt=12 ms\n# RUN: xyntra show a\n# OUT: t={{[0-9]+}} ms\n"))
        self.assertIsNotNone(self.run_test("# FILE: a\nt=12 msx\n# RUN: xyntra show a\n# OUT: t={{[0-9]+}} ms\n"))

    def test_has_finds_lines_in_order(self):
        file = "# FILE: a\n1\n2\n3\n# RUN: xyntra show a\n"
        self.assertIsNone(self.run_test(file + "# OUT has:\n1\n3\n"))
        self.assertIsNotNone(self.run_test(file + "# OUT has:\n3\n1\n"))

    def test_exit_code_and_message_are_compared(self):
        self.assertIsNone(self.run_test("# RUN: xyntra fail a\n# EXIT: 4\n# ERR: error: a: bad\n"))
        self.assertIn("exit code 4, expected 0", self.run_test("# RUN: xyntra fail a\n# ERR any:\n"))

    def test_paths_are_named(self):
        self.assertIsNone(self.run_test("# RUN: xyntra fail %dir/b.onnx\n# EXIT: 4\n# ERR: error: %dir/b.onnx: bad\n"))
        self.assertIsNone(self.run_test("# RUN: xyntra fail %tmp/b\n# EXIT: 4\n# ERR: error: b: bad\n"))

    def test_environment_and_redirection(self):
        self.assertIsNone(self.run_test("# RUN: SETTING=on xyntra where\n# OUT:\n%tmp\non\n"))
        self.assertIsNone(self.run_test("# FILE: a\nx\n# RUN: xyntra show a > b\n# RUN: xyntra show b\n# OUT: x\n"))

    def test_update_writes_what_was_printed(self):
        self.assertIsNone(self.run_test("# why\n# FILE: a\nx\n# RUN: xyntra show a\n# OUT:\nold\n", update=True))
        self.assertEqual(self.path.read_text(), "# why\n# FILE: a\nx\n# RUN: xyntra show a\n# OUT:\nx\n")

    def test_update_keeps_patterns_that_match(self):
        text = "# FILE: a\n7 ms\n# RUN: xyntra show a\n# OUT:\n{{[0-9]+}} ms\n"
        self.run_test(text, update=True)
        self.assertEqual(self.path.read_text(), text)

    def test_must_fail_must_fail(self):
        self.assertIn("another code than 0", self.run_test("# FILE: a\n# RUN: xyntra show a\n", folder="must_fail"))

    def test_must_fail_is_quick(self):
        allowed, golden.HOSTILE_CPU_SECONDS = golden.HOSTILE_CPU_SECONDS, 0.02
        self.addCleanup(setattr, golden, "HOSTILE_CPU_SECONDS", allowed)
        reason = self.run_test("# RUN: xyntra spin\n# EXIT: 4\n", folder="must_fail")
        self.assertIn("of CPU time", reason)

    def test_bad_test_files_are_refused(self):
        for text in ("", "# RUN:\n", "# OUT: x\n", "text\n# RUN: xyntra x\n", "# FILE: ../x\n# RUN: xyntra x\n",
                     "# RUN: xyntra x\n# EXIT: four\n"):
            self.assertIn("bad test file", self.run_test(text), text)
        self.assertIn("starts with xyntra", self.run_test("# RUN: rm x\n"))


if __name__ == "__main__":
    unittest.main()
