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


if __name__ == "__main__":
    unittest.main()
