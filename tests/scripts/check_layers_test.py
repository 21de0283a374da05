import tempfile
import unittest
from pathlib import Path

from load_script import load

layers = load("check_layers")


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.write("layers.txt", "# ranks\n 0 support  basics\n 1 types    dtypes\n 1 egraph   e-graph\n12 api  edge\n")
        self.write("support/result.h", "#pragma once\n")
        self.write("types/dtype.h", '#include "support/result.h"\n#include <vector>\n')

    def write(self, name, text):
        path = self.root / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def problems(self):
        return list(layers.check(self.root))

    def test_downward_and_own_includes_are_fine(self):
        self.write("types/shape.cpp", '#include "types/dtype.h"\n#include "support/result.h"\n')
        self.assertEqual(self.problems(), [])

    def test_upward_include_names_file_line_and_ranks(self):
        self.write("support/files.cpp", '\n#include "types/dtype.h"\n')
        self.assertEqual(self.problems(), [
            'src/support/files.cpp:2: #include "types/dtype.h": '
            'support has rank 0, types has rank 1: only lower ranks may be included'])

    def test_sideways_include_is_refused(self):
        self.write("egraph/runner.h", '#include "types/dtype.h"\n')
        self.assertIn("egraph has rank 1, types has rank 1", self.problems()[0])

    def test_include_relative_to_the_file_is_refused(self):
        self.write("types/shape.cpp", '#include "dtype.h"\n')
        self.assertIn("is not written from src/", self.problems()[0])

    def test_missing_header_is_reported(self):
        self.write("types/shape.cpp", '#include "support/gone.h"\n')
        self.assertIn("does not exist", self.problems()[0])

    def test_folder_without_rank_is_reported(self):
        self.write("utils/things.h", "")
        self.assertEqual(self.problems(), ["src/utils: no rank; add a line to src/layers.txt"])

    def test_public_headers_are_for_the_edge(self):
        self.write("types/shape.cpp", '#include "xyntra/xyntra.h"\n')
        self.write("api/model.cpp", '#include "xyntra/xyntra.h"\n')
        self.assertEqual(len(self.problems()), 1)
        self.assertIn("src/types/shape.cpp", self.problems()[0])

    def test_malformed_row_stops(self):
        self.write("layers.txt", "support 0 basics\n")
        with self.assertRaises(SystemExit):
            self.problems()


class Repository(unittest.TestCase):
    def test_architecture_page_has_the_same_table(self):
        """docs/architecture.md shows the folders to readers; its table must not drift from src/layers.txt."""
        root = Path(__file__).resolve().parent.parent.parent
        page = (root / "docs/architecture.md").read_text(encoding="utf-8")
        for line in (root / "src/layers.txt").read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                rank, folder, holds = line.split(maxsplit=2)
                self.assertIn(f"| {rank} | `{folder}` | {holds} |", page)

    def test_planned_folders_say_so(self):
        self.assertEqual(list(layers.check_planned(Path(__file__).resolve().parent.parent.parent)), [])


if __name__ == "__main__":
    unittest.main()
