import tempfile
import unittest
from pathlib import Path

from load_script import load

names = load("check_names")


class CheckNames(unittest.TestCase):
    def problems(self, **sources):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in sources.items():
                path = Path(folder) / "src" / name.replace("__", "/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".cpp").write_text("namespace {\n" + text + "\n}  // namespace\n")
            return list(names.check(Path(folder)))

    def test_types_and_constants_of_one_folder_differ(self):
        self.assertEqual(len(self.problems(te__a="class Walk {\n};", te__b="struct Walk {\n};")), 1)
        self.assertEqual(len(self.problems(te__a="constexpr int kMost = 3;", te__b="constexpr int kLeast = 1, kMost = 4;")), 1)
        self.assertEqual(len(self.problems(te__a="constexpr int kSizes[] = {1};", te__b="constexpr long kSizes[] = {2};")), 1)

    def test_other_folders_forward_declarations_and_uses_are_fine(self):
        self.assertEqual(self.problems(te__a="class Walk {\n};", kir__a="class Walk {\n};"), [])
        self.assertEqual(self.problems(te__a="class Walk;\nint i = kMost;", te__b="class Walk {\n};\nconstexpr int kMost = 3;"), [])


class CheckWords(unittest.TestCase):
    WORDS = names.read_words((names.SCRIPTS / "words.txt").read_text(encoding="utf-8"))

    def hits(self, text, name="src/te/a.cpp"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return [f"{file}:{line}: {message}" for file, line, message in names.check_words(Path(folder), self.WORDS)]

    def test_a_phrase_is_named_with_what_to_write(self):
        self.assertEqual(self.hits("int x;\n// Rows go past the caches.\n"), ["src/te/a.cpp:2: past the caches → non-temporal"])
        self.assertEqual(self.hits("Pictures", "docs/a.md"), ["docs/a.md:1: pictures → image, feature map"])

    def test_a_phrase_may_be_cut_by_the_end_of_a_line(self):
        self.assertEqual(self.hits("// Inputs that are given\n// away.\n"), ["src/te/a.cpp:1: given away → donate, donated"])

    def test_every_sample_is_refused(self):
        samples = ["by turns", "runs take turns", "a loop of three turns", "thin products", "a product of matrices", "products of bytes",
                   "quads", "an octet", "turned weights", "the innermost cache", "the second cache",
                   "asked for 2 KB ahead", "gave away", "with more rows behind it", "a cache of keys and values", "ready constants",
                   "a recipe", "sheltered loads", "rows lie side by side", "in steps of two", "with a border", "this processor",
                   "a group of threads", "the same digits", "by the wall", "sizes that change", "a table of words", "loop_turns"]
        self.assertEqual([sample for sample in samples if len(self.hits(sample)) == 0], [])

    def test_plain_english_and_the_fields_words_are_fine(self):
        fine = ["turns into", "in turn", "return", "a quadrant", "octet-stream", "multiprocessor", "first-class caches", "home folder",
                "CMAKE_SYSTEM_PROCESSOR", "![plan](docs/images/plan.svg) is a picture", "compared side by side", "a hash of 64 digits"]
        self.assertEqual([text for text in fine if self.hits(text)], [])

    def test_exempt_folders_are_not_looked_at(self):
        self.assertEqual(self.hits("// by turns", "src/schedule/a.cpp"), [])
        self.assertEqual(self.hits("by turns", "bench/results/a.md"), [])

    def test_a_line_without_a_word_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no =>"):
            names.read_words("by turns interleaved")


if __name__ == "__main__":
    unittest.main()
