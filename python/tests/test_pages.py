"""Python that pages show is run: the blocks of a page that begin with ```python run, one after the other, beside the bundled model as model.onnx."""

import os
import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```python run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", "docs/python-deploy.md", "docs/from-onnxruntime.md"]


class Pages(unittest.TestCase):
    def test_blocks_run(self):
        before = os.getcwd()
        for page in PAGES:
            blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
            with self.subTest(page), tempfile.TemporaryDirectory() as folder:
                self.assertTrue(blocks)
                os.symlink(ROOT / "examples/models/encoder.onnx", Path(folder) / "model.onnx")
                os.chdir(folder)
                try:
                    seen = {}
                    for block in blocks:
                        exec(compile(block, page, "exec"), seen)
                    self.assertEqual(seen["y"].shape, (2, 16, 64))
                finally:
                    os.chdir(before)


if __name__ == "__main__":
    unittest.main()
