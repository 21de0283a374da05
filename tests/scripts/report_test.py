import json
import pathlib
import sys
import tempfile
import unittest

from load_script import ROOT

sys.path.insert(0, str(ROOT / "bench"))
from harness import chart, lookup, pages, tables  # noqa: E402

ROW = {"precision": "f32", "clock": "wall", "peer": "onnxruntime", "peer_version": "1.0", "peer_ms": 3.0, "peer_fastest_ms": 3.0, "ours_fastest_ms": 2.0}
RESULT = {"machine": {"cpu": "a CPU", "cores": 4}, "commit": "abc", "date": "2026-01-02", "rows": [
    {**ROW, "model": "bert_base", "threads": 1, "ours_ms": 2.0, "ratio": 1.504, "ratio_low": 1.4, "ratio_high": 1.6},
    {**ROW, "model": "gemm_2", "threads": 1, "ours_ms": 4.0, "ratio": 0.75, "ratio_low": 0.7, "ratio_high": 0.8},
    {**ROW, "model": "bert_base", "threads": 8, "ours_ms": 1.0, "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1}]}


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.results = self.root / "bench/results"
        self.results.mkdir(parents=True)
        (self.root / "docs").mkdir()
        (self.root / "tests").mkdir()
        self.file = self.results / "r.json"
        self.file.write_text(json.dumps(RESULT), encoding="utf-8")

    def problems(self, text, name="docs/page.md"):
        page = self.root / name
        page.write_text(text, encoding="utf-8")
        return [problem for _, problem in pages.check_page(page, self.root)]

    def test_words_select_rows_and_a_field(self):
        self.assertEqual(lookup.figures(self.file, "1/bert_base"), (1.504, 1.4, 1.6))
        self.assertEqual(lookup.figures(self.file, "bert_base/8/ours_ms")[0], 1.0)
        self.assertEqual(lookup.figures(self.file, "1/count")[0], 2)
        self.assertEqual(lookup.figures(self.file, "1/worst")[0], 0.75)
        self.assertEqual(lookup.figures(self.file, "gemm_*")[0], 0.75)
        self.assertAlmostEqual(lookup.figures(self.file, "bert_base/geomean")[0], (1.504 * 2) ** 0.5)
        for wrong in ("bert_base", "resnet50", "2/bert_base", "1/bert_base/nothing"):
            with self.assertRaises(lookup.Missing):
                lookup.figures(self.file, wrong)

    def test_a_figure_agrees_to_its_decimals(self):
        self.assertEqual(self.problems("[1.50 ×](../bench/results/r.json#1/bert_base) [1.5 × (1.4–1.6)](../bench/results/r.json#1/bert_base)\n"), [None, None])
        self.assertEqual(self.problems("[75%](../bench/results/r.json#gemm_2)\n"), [None])
        stale = self.problems("[1.51 ×](../bench/results/r.json#1/bert_base) [1.50 (1.3–1.6)](../bench/results/r.json#1/bert_base)\n")
        self.assertTrue(all("is stale" in problem for problem in stale), stale)
        self.assertIn("no row is left at 'gpt2'", self.problems("[1 ×](../bench/results/r.json#gpt2)\n")[0])
        self.assertIn("there is no x.json", self.problems("[1 ×](../bench/results/x.json#gpt2)\n")[0])

    def test_claims_on_the_front_pages_name_a_file(self):
        text = "It is 1.3 times as fast, [1.5 ×](bench/results/r.json#1/bert_base) there.\n```\n9.9 times\n```\n"
        self.assertEqual([bool(problem) for problem in self.problems(text, "README.md")], [False, True])
        self.assertEqual(self.problems("It is 1.3 times as fast.\n"), [])

    def test_blocks_are_regenerated(self):
        page = self.root / "docs/page.md"
        text = "before\n<!-- generated: bench/report models r.json -->\nold\n<!-- end -->\nafter\n"
        self.assertIn("is stale", self.problems(text)[0])
        fresh = pages.regenerated(page, text, self.root)
        self.assertIn("| BERT-base, 128 tokens | 2.00 | 1.50 (1.40–1.60) | 1.00 | 2.00 (1.90–2.10) |", fresh)
        self.assertIn("[r.json](../bench/results/r.json): a CPU, 4 cores", fresh)
        self.assertTrue(fresh.startswith("before\n") and fresh.endswith("\nafter\n"))
        self.assertEqual(pages.regenerated(page, fresh, self.root), fresh)
        self.assertEqual(self.problems(fresh), [None])
        self.assertIn("expected KIND", self.problems(text.replace("models", "nothing"))[0])

    def test_every_table_of_the_repository_is_made(self):
        self.assertTrue(all(callable(one) for one in tables.TABLES.values()))
        self.assertTrue(chart.svg(ROOT / "bench/results").startswith("<svg"))


if __name__ == "__main__":
    unittest.main()
