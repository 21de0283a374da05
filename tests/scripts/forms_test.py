"""Every form of src/schedule/forms.def has a golden kernel: a file of its name in tests/golden/forms, or one of tests/golden/kernels."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests/golden"

KERNELS = {
    "batch_recurrence": "batch_recurrence", "dot_products": "rest_of_a_dot", "few_rows": "long_sums_of_a_row",
    "group_rows": "long_rows", "horizontal": "key_splits", "key_splits": "key_splits", "loops": "small",
    "matrix_tiles": "bytes", "packed_tiles": "units", "query_blocks": "packed_attention", "repeated_parts": "repeated_part",
    "row_blocks": "rows_in_blocks", "rows": "softmax_before_a_choice", "sequence_items": "sequences", "sequence_lanes": "sequence_lanes",
    "skinny_gemm": "skinny_gemm", "thread_tiles": "batch_recurrence", "vector_tiles": "units", "vectors": "convolution_warps",
    "warp_tiles": "warps", "warpgroup_tiles": "warpgroups",
}
# What is left where nothing else can be shown to be in bounds: tests/unit/compiler/plain_form_test.cpp.
LAST = {"plain_loops", "own_loops", "guarded_loops"}


class Forms(unittest.TestCase):
    def test_each_has_a_golden_kernel(self):
        text = (ROOT / "src/schedule/forms.def").read_text()
        spellings = re.findall(r'^(?:STAGE_|KERNEL_)?FORM\(\w+, "(\w+)"', text, re.MULTILINE)
        self.assertGreater(len(spellings), 30)
        for form in spellings:
            if form in LAST:
                continue
            file = GOLDEN / "kernels" / f"{KERNELS[form]}.test" if form in KERNELS else GOLDEN / "forms" / f"{form}.test"
            self.assertTrue(file.exists(), f"{form}: {file.relative_to(ROOT)} is missing")
            seen = re.search(rf'^# RUN: xyntra explain .*--json\n# OUT has:\n(?:.*\n)*?.*"{form}\b', file.read_text(), re.MULTILINE)
            self.assertTrue(seen, f"{form}: {file.relative_to(ROOT)} does not look whether its kernel has that form")
        self.assertEqual(set(KERNELS) - set(spellings), set(), "forms that are gone")


if __name__ == "__main__":
    unittest.main()
