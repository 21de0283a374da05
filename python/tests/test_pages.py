"""Python that pages show is run: the blocks that begin with ```python run in README.md, beside the bundled model as model.onnx."""

import os
import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```python run\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Pages(unittest.TestCase):
    def test_blocks_of_the_readme_run(self):
        blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        self.assertTrue(blocks)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples/models/encoder.onnx", Path(folder) / "model.onnx")
            os.chdir(folder)
            try:
                for block in blocks:
                    seen = {}
                    exec(compile(block, "README.md", "exec"), seen)
                    self.assertEqual(seen["y"].shape, (2, 16, 64))
            finally:
                os.chdir(before)


if __name__ == "__main__":
    unittest.main()
