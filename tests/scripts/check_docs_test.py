import tempfile
import unittest
from pathlib import Path

from load_script import load

docs = load("check_docs")
reference = load("reference")

# Stands in for the command: prints its arguments, fails on request.
COMMAND = """#!/bin/sh
case $1 in
  fail) exit 1 ;;
  run) [ "$2" = --help ] && echo "  --dim SIZE" ;;
  nonsense) exit 2 ;;
  rules) echo '{"count": 3, "rules": []}' ;;
  *) echo "$@" ;;
esac
"""


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for name in ("examples/models", "tests", "scripts", "docs/notes", "src"):
            (self.root / name).mkdir(parents=True)
        (self.root / "examples/models/encoder.onnx").write_text("")
        self.command = self.root / "bin/xyntra"
        self.command.parent.mkdir()
        self.command.write_text(COMMAND)
        self.command.chmod(0o755)
        before, docs.ROOT = docs.ROOT, self.root
        self.addCleanup(setattr, docs, "ROOT", before)
        docs.anchors.cache_clear()

    def page(self, text, name="docs/page.md"):
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def problems(self, results):
        return [problem for _, problem in results if problem]

    def test_console_blocks_are_compared(self):
        page = self.page("```console\n$ xyntra a b\na …\n$ xyntra c\nd\n```\n")
        self.assertIn("instead of\nd", self.problems(docs.check_blocks(page, self.command))[0])

    def test_scripts_are_run_unless_they_say_why_not(self):
        for text, failures in (("```sh\nxyntra fail\n```", 1), ("```sh\nxyntra fine\n```", 0), ("```sh no-run: needs a GPU\nxyntra fail\n```", 0),
                               ("```sh no-run\nxyntra fine\n```", 1)):
            self.assertEqual(len(self.problems(docs.check_blocks(self.page(text), self.command))), failures, text)

    def test_files_that_a_block_quotes(self):
        (self.root / "src/a.cpp").write_text("int a;\n  int b;\nint c;\n")
        for text, failures in (("int a;\nint b;", 0), ("int a;\nint c;", 1)):
            page = self.page(f"```cpp file=src/a.cpp\n{text}\n```")
            self.assertEqual(len(self.problems(docs.check_blocks(page, self.command))), failures)

    def test_links_and_anchors(self):
        self.page("# Other page\n## What it *is*: `a b`\n", "docs/other.md")
        page = self.page("# T\n[a](other.md) [b](other.md#what-it-is-a-b) [c](missing.md) [d](other.md#nothing) [e](https://example.com/x) `[f](g.md)`\n")
        self.assertEqual(self.problems(docs.check_links(page)), ["link to missing.md: no such file", "link to other.md#nothing: no such heading"])

    def test_paths_in_backticks(self):
        (self.root / "src/a.cpp").write_text("")
        page = self.page("`src/a.cpp` `src/*.cpp` `src/b.cpp`\n")
        self.assertEqual(self.problems(docs.check_links(page)), ["`src/b.cpp`: no such file"])

    def test_counts_come_from_the_command(self):
        page = self.page("There are <!-- count: rules -->4 rules.\n")
        self.assertIn("'rules' is 3, not 4", self.problems(docs.check_counts(page, docs.Counts(self.command), write=False))[0])
        docs.check_counts(page, docs.Counts(self.command), write=True)
        self.assertEqual(page.read_text(encoding="utf-8"), "There are <!-- count: rules -->3 rules.\n")

    def test_calls_in_sentences(self):
        docs.help_of.cache_clear()
        self.assertIsNone(docs.call_problem(self.command, "run", " MODEL --dim n=4"))
        self.assertEqual(docs.call_problem(self.command, "run", " MODEL --dims n=4"), "xyntra run has no --dims")
        self.assertEqual(docs.call_problem(self.command, "nonsense", ""), "there is no verb 'nonsense'")

    def test_layout(self):
        for text, problem in (("# T\nWhat it is for.\n", None), ("# T\n## S\n", "opens"), ("# T\n" + "a" * 161, "characters"), ("# T\n" + "a\n" * 6, "paragraph"),
                              ("# T\na\na\na\n- b\n  b\n  b\n", None), ("# T\na\na\n```\nx\n```\na\na\na\na\n", None)):
            (_, found), = docs.check_layout(self.page(text))
            self.assertTrue((found is None) if problem is None else found and problem in found, (text, found))
        self.assertEqual(docs.check_layout(self.page("# T\n" + "a" * 200, "docs/notes/old.md")), [])


class Reference(unittest.TestCase):
    def test_declarations_lose_their_bodies(self):
        lines = ["  explicit A(int x = {}) : x_(x) {}", "  // Why.", "  int f() const {", "    if (x_) return 1;", "    return 2;", "  }", "", "  int y = {};  // z",
                 " private:", "  int x_;"]
        self.assertEqual(reference.public_members(lines), ["  explicit A(int x = {});", "  // Why.", "  int f() const;", "  int y = {};  // z"])

    def test_pipes_are_escaped(self):
        self.assertEqual(reference.table(["a"], [[reference.code("x | y")]]), "| a |\n| --- |\n| `x \\| y` |\n")


if __name__ == "__main__":
    unittest.main()
